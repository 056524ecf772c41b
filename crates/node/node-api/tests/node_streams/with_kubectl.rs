//! As people do it.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use crate::world::{PATIENCE, World, closed_port, finish, write_lines};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_logs_shows_what_is_asked_for() {
    let world = World::start().await;
    world.container("web", "app", &["one", "two", "three"]);
    assert_eq!(world.shown(&["logs", "web"]).await, "one\ntwo\nthree\n");
    assert_eq!(world.shown(&["logs", "web", "-c", "app", "--tail=1"]).await, "three\n");
    let stamped = "2026-01-01T00:00:02.000000000Z three\n";
    assert_eq!(world.shown(&["logs", "web", "--tail=1", "--timestamps"]).await, stamped);
    assert_eq!(world.shown(&["logs", "web", "--limit-bytes=5"]).await, "one\nt");
    assert_eq!(world.shown(&["logs", "web", "--since-time=2026-01-01T00:00:01Z"]).await, "two\nthree\n");
    assert_eq!(world.shown(&["logs", "web", "--since=1s"]).await, "");
    let why = world.refused(&["logs", "web", "--previous"]).await;
    assert!(why.contains(r#"previous terminated container "app" in pod "web" not found"#), "{why}");
    let why = world.refused(&["logs", "web", "--tail=-2"]).await;
    assert!(why.contains("must be greater than"), "{why}");
    let why = world.refused(&["logs", "web", "-c", "other"]).await;
    assert!(why.contains("container other is not valid for pod web"), "{why}");
    world.make_pod("pair", crate::world::NODE, &["a", "b"]).await;
    world.container("pair", "a", &[]);
    let bare = world.refused(&["get", "--raw", "/api/v1/namespaces/default/pods/pair/log"]).await;
    assert!(bare.contains("a container name must be specified for pod pair, choose one of: [a b]"), "{bare}");
    let why = world.refused(&["logs", "pair", "-c", "b"]).await;
    assert!(why.contains(r#"container "b" in pod "pair" is waiting to start: ContainerCreating"#), "{why}");
    let why = world.refused(&["exec", "pair", "-c", "b", "--", "true"]).await;
    assert!(why.contains(r#"container not found ("b")"#), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_followed_over_rotations_until_the_container_ends() {
    let world = World::start().await;
    let log = world.container("web", "app", &["one"]);
    let mut following = world.kubectl(&["logs", "-f", "web"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = async || timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
    assert_eq!(next().await.as_deref(), Some("one"));
    for number in 0..3 {
        std::fs::rename(&log, log.with_extension(format!("{number}"))).unwrap();
        let (first, second) = (format!("first {number}"), format!("second {number}"));
        write_lines(&log, &[&first]);
        assert_eq!(next().await, Some(first));
        let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
        // A line of the program in two, which arrive one after the other.
        for line in ["stderr P sec", &format!("stderr F ond {number}")] {
            std::io::Write::write_all(&mut file, format!("2026-01-01T00:01:00Z {line}\n").as_bytes())
                .unwrap();
        }
        assert_eq!(next().await, Some(second));
    }
    world.pods.stop("web", "app");
    assert_eq!(next().await, None);
    assert!(timeout(PATIENCE, following.wait()).await.unwrap().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_exec_runs_programs_and_ends_as_they_do() {
    let world = World::start().await;
    assert_eq!(world.shown(&["exec", "web", "--", "echo", "a  b", "ü&=%"]).await, "a  b ü&=%\n");
    let failed = world.run(&["exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]).await;
    assert_eq!(failed.status.code(), Some(7), "{failed:?}");
    assert_eq!(failed.stdout, b"out\n");
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(said.starts_with("err\n") && said.contains("command terminated with exit code 7"), "{said}");
    let mut piped = world.kubectl(&["exec", "-i", "web", "--", "sh", "-c", "wc -c; echo end"]);
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = piped.stdin.take().unwrap();
    stdin.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
    drop(stdin);
    let output = timeout(PATIENCE, piped.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1048576\nend\n");
    let why = world.refused(&["exec", "web", "--", "/no/such/program"]).await;
    assert!(why.contains("/no/such/program"), "{why}");
    world.pods.stop("web", "app");
    let why = world.refused(&["exec", "web", "--", "true"]).await;
    assert!(why.contains(r#"container not found ("app")"#), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_outputs_arrive_whole() {
    let world = World::start().await;
    let output = world.run(&["exec", "web", "--", "head", "-c", "20000000", "/dev/zero"]).await;
    assert!(output.status.success() && output.stdout.len() == 20_000_000, "{}", output.stdout.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_cp_copies_both_ways() {
    let world = World::start().await;
    let (there, back) = (world.folder.path().join("there"), world.folder.path().join("back"));
    let here = world.folder.path().join("here");
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).take(3_000_000).collect();
    std::fs::write(&here, &content).unwrap();
    world.shown(&["cp", here.to_str().unwrap(), &format!("web:{}", there.display())]).await;
    assert!(std::fs::read(&there).unwrap() == content, "differs");
    world.shown(&["cp", &format!("web:{}", there.display()), back.to_str().unwrap()]).await;
    assert!(std::fs::read(&back).unwrap() == content, "differs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_attach_connects_to_the_program() {
    let world = World::start().await;
    let mut attached =
        world.kubectl(&["attach", "-i", "web"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut program = timeout(PATIENCE, async {
        loop {
            if let Some(program) = world.runtime.attached.lock().unwrap().pop() {
                break program;
            }
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    attached.stdin.as_mut().unwrap().write_all(b"hello\n").await.unwrap();
    let mut heard = [0; 6];
    timeout(PATIENCE, program.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"hello\n");
    program.write_all(b"good bye\n").await.unwrap();
    drop(program);
    let output = timeout(PATIENCE, attached.wait_with_output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("good bye"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_port_forward_carries_connections() {
    let world = World::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // Says how much it heard once the other side has ended.
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut heard = Vec::new();
                stream.read_to_end(&mut heard).await.unwrap();
                stream.write_all(format!("heard {}", heard.len()).as_bytes()).await.unwrap();
            });
        }
    });
    let mut forwarding = world
        .kubectl(&["port-forward", "pod/web", &format!(":{port}")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(forwarding.stdout.take().unwrap()).lines();
    let first = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
    let local: u16 = first.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let mut all = tokio::task::JoinSet::new();
    for number in 0..8_usize {
        all.spawn(async move {
            let length = number * 100_000;
            let mut stream = TcpStream::connect(("127.0.0.1", local)).await.unwrap();
            stream.write_all(&vec![b'x'; length]).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = String::new();
            timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
            assert_eq!(answer, format!("heard {length}"));
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    forwarding.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn port_forward_says_why_a_port_cannot_be_reached() {
    let world = World::start().await;
    let (_taken, port) = closed_port();
    let mut forwarding = world
        .kubectl(&["port-forward", "pod/web", &format!(":{port}")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(forwarding.stdout.take().unwrap()).lines();
    let mut complaints = BufReader::new(forwarding.stderr.take().unwrap()).lines();
    let first = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
    let local: u16 = first.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", local)).await.unwrap();
    let _ = stream.write_all(b"hello").await;
    let complaint = timeout(PATIENCE, complaints.next_line()).await.unwrap().unwrap().unwrap();
    assert!(complaint.contains(&format!("error forwarding port {port} to pod web")), "{complaint}");
    let _ = forwarding.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_of_a_node_is_reached_through_the_server() {
    let world = World::start().await;
    let raw =
        async |path: &str| world.shown(&["get", "--raw", &format!("/api/v1/nodes/node-a/proxy{path}")]).await;
    assert_eq!(raw("/healthz").await, "ok");
    assert_eq!(raw("/metrics").await, "lazaret_up 1\n");
    assert!(raw("/pods").await.contains("PodList"));
    let summary: serde_json::Value = serde_json::from_str(&raw("/stats/summary").await).unwrap();
    assert_eq!(summary["pods"][0]["containers"][0]["memory"]["workingSetBytes"], 1_000);
    let resource = raw("/metrics/resource").await;
    let sample = r#"container_cpu_usage_seconds_total{container="app",namespace="default",pod="web"} 2.5"#;
    assert!(resource.contains(sample), "{resource}");
    let why = world.refused(&["get", "--raw", "/api/v1/nodes/node-a:22/proxy/"]).await;
    assert!(why.contains("invalid node request"), "{why}");
    let why = world.refused(&["get", "--raw", "/api/v1/namespaces/default/pods/web/proxy/"]).await;
    assert!(why.contains("port-forward"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_websockets_is_told_which_one_to_use() {
    let world = World::start().await;
    let mut old = world.kubectl(&["exec", "web", "--", "true"]);
    old.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
    let output = finish(old).await;
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && why.contains("kubectl 1.30 or newer"), "{why}");
}
