//! Plain processes, and namespaces of our own: with root and without.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and one that did not run says so"
)]

mod support;

use std::{os::unix::process::CommandExt, path::Path, process::Command, time::Duration};

use lazaret_containers::{
    Choice, Exec, Limits, Mount, Namespaces, Options, Phase, Resize, RootFs, RuntimeError, SandboxSpec, probe,
};
use lazaret_missing::not_run;
use support::World;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn read_all(stream: Option<Box<dyn tokio::io::AsyncRead + Send + Unpin>>) -> String {
    let mut text = String::new();
    stream.unwrap().read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_run_without_anything() {
    let Some(world) = World::with_sandbox(Choice::Processes, "processes_run_without_anything").await else {
        return;
    };
    let directory = world.folder.path().join("root");
    std::fs::create_dir_all(directory.join("work")).unwrap();
    let mut spec = world.shell("main", "echo $A; pwd; exit 3");
    (spec.root, spec.working_directory) = (RootFs::Directory(directory.clone()), "/work".into());
    spec.env = vec!["PATH=/bin:/usr/bin".into(), "A=1".into()];
    spec.limits = Limits { memory: Some(1), ..Limits::default() };
    let not_applied = world.runtime.not_applied(&world.sandbox(), &spec);
    for wanted in ["memory limit", "network of the pod", "process namespace", "capabilities", "hostname"] {
        assert!(not_applied.iter().any(|text| text == wanted), "{wanted} is not in {not_applied:?}");
    }
    let (exit, log) = world.run_to_end(spec.clone()).await;
    assert_eq!(exit.code, 3);
    assert_eq!(
        log,
        format!("stdout F 1\nstdout F {}\n", directory.join("work").canonicalize().unwrap().display())
    );

    (spec.key.name, spec.command) = ("missing".into(), vec!["/there/is/none".into()]);
    let id = world.runtime.create(&world.pod, spec.clone()).await.unwrap();
    let started = world.runtime.start(&id).await;
    assert!(matches!(&started, Err(RuntimeError::CannotRun(_))), "{started:?}");
    let exit = world.exit(&id).await;
    assert_eq!((exit.code, exit.started_at), (128, None));

    (spec.key.name, spec.command) =
        ("family".into(), ["sh", "-c", "sleep 4714 & echo ready; wait"].map(String::from).to_vec());
    let id = world.run(spec).await;
    world.logged(&id, "ready").await;
    assert!(world.runtime.usage(&id).await.unwrap().pids >= 2);
    programs_are_executed(&world, &id).await;
    world.runtime.stop(&id, Duration::ZERO).await.unwrap();
    assert_eq!(world.exit(&id).await.code, 137);
    world.end().await;
}

async fn programs_are_executed(world: &World, id: &str) {
    let exec = |command: &[&str]| Exec {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        ..Exec::default()
    };
    let running =
        world.runtime.exec(id, exec(&["sh", "-c", "echo out; echo err >&2; exit 5"])).await.unwrap();
    let (out, err) = tokio::join!(read_all(running.streams.stdout), read_all(running.streams.stderr));
    assert_eq!((out.as_str(), err.as_str()), ("out\n", "err\n"));
    assert_eq!(running.exit.await.unwrap().unwrap(), 5);
    let script =
        "until stty size | grep -q '33 91'; do sleep 0.02; done; read x; stty size; echo got $x; exit 6";
    let mut running =
        world.runtime.exec(id, Exec { tty: true, stdin: true, ..exec(&["sh", "-c", script]) }).await.unwrap();
    running.streams.resize.as_ref().unwrap().send(Resize { width: 91, height: 33 }).await.unwrap();
    running.streams.stdin.as_mut().unwrap().write_all(b"line\n").await.unwrap();
    let text = read_all(running.streams.stdout.take()).await;
    assert!(text.contains("33 91") && text.contains("got line"), "{text:?}");
    assert_eq!(running.exit.await.unwrap().unwrap(), 6);
    let running = world.runtime.exec(id, exec(&["there-is-none"])).await.unwrap();
    assert!(matches!(running.exit.await.unwrap(), Err(RuntimeError::CannotRun(_))));
}

/// Probes that never end and people who never leave, in one pod.
#[tokio::test(flavor = "multi_thread")]
async fn programs_of_one_pod_make_no_other_wait() {
    const PROGRAMS: usize = 8;
    const SESSIONS: usize = 16;
    let Some(world) = World::with_sandbox(Choice::Processes, "programs_of_one_pod_make_no_other_wait").await
    else {
        return;
    };
    let other = SandboxSpec { pod_uid: format!("{}-other", world.pod), ..world.sandbox() };
    world.runtime.run_sandbox(other.clone()).await.unwrap();
    let mut spec = world.shell("main", "while :; do sleep 1; done");
    spec.root = RootFs::Directory(world.folder.path().into());
    spec.env = vec!["PATH=/bin:/usr/bin".into()];
    let busy = world.run(spec.clone()).await;
    spec.key.pod_uid.clone_from(&other.pod_uid);
    let quiet = world.runtime.create(&other.pod_uid, spec).await.unwrap();
    world.runtime.start(&quiet).await.unwrap();
    let exec = |script: &str, limit| Exec {
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        limit,
        ..Exec::default()
    };
    let (endless, hour) = ("while :; do sleep 1; done", Some(Duration::from_secs(3_600)));
    let mut held = Vec::new();
    for limit in [hour; PROGRAMS].into_iter().chain([None; SESSIONS]) {
        held.push(world.runtime.exec(&busy, exec(endless, limit)).await.unwrap());
    }
    let refused = world.runtime.exec(&busy, exec("true", None)).await.err();
    assert!(
        matches!(&refused, Some(RuntimeError::NotPossible(why)) if why.contains("16 programs")),
        "{refused:?}"
    );
    for limit in [hour, None] {
        let running = world.runtime.exec(&quiet, exec("exit 7", limit)).await.unwrap();
        assert_eq!(running.exit.await.unwrap().unwrap(), 7);
    }
    // A waiting program runs when another ends, and a refused one may be retried.
    let waits = world.runtime.exec(&busy, exec("exit 8", hour));
    let (waited, ()) = tokio::join!(waits, async { drop(held) });
    assert_eq!(waited.unwrap().exit.await.unwrap().unwrap(), 8);
    loop {
        match world.runtime.exec(&busy, exec("exit 9", None)).await {
            Ok(running) => break assert_eq!(running.exit.await.unwrap().unwrap(), 9),
            Err(RuntimeError::NotPossible(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(other) => panic!("{other}"),
        }
    }
    world.runtime.remove_sandbox(&other.pod_uid).await.unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_isolate() {
    let Some(world) = World::with_sandbox(Choice::Namespaces, "namespaces_isolate").await else { return };
    let given = world.folder.path().join("given");
    std::fs::write(&given, "given\n").unwrap();
    let outside = world.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, world.image.join("trap")).unwrap();
    let script = "echo pid $$; hostname; ls /; cat /etc/given; echo no > /etc/given || echo read-only; \
        echo x > /scratch/x; cat /trap/y; touch /new && echo writable; head -c 3 /dev/zero | wc -c; \
        head -c 1 /proc/kcore | wc -c; grep NoNewPrivs /proc/self/status; exit 4";
    let mut spec = world.shell("main", script);
    let mount = |target: &str| Mount {
        source: given.clone(),
        target: target.into(),
        read_only: true,
        ..Mount::default()
    };
    spec.mounts = vec![
        mount("/etc/given"),
        mount("/trap/y"),
        Mount { target: "/scratch".into(), tmpfs: Some(1 << 20), ..Mount::default() },
    ];
    let (exit, log) = world.run_to_end(spec).await;
    assert_eq!(exit.code, 4, "{log}");
    for wanted in
        ["F pid 1", "F pod-host", "F given", "read-only", "F writable", "F 3", "F 0", "NoNewPrivs:\t1"]
    {
        assert!(log.contains(wanted), "{wanted} is not in {log}");
    }
    assert_eq!(log.matches("F given").count(), 2, "{log}");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!world.image.join("new").exists(), "layers are never written to");

    let missing = world.runtime.create(&world.pod, world.spec("missing", &["/bin/none"])).await.unwrap();
    let started = world.runtime.start(&missing).await;
    assert!(matches!(&started, Err(RuntimeError::CannotRun(_))), "{started:?}");

    let id = world.run(world.shell("long", "echo ready; while :; do sleep 0.1; done")).await;
    world.logged(&id, "ready").await;
    assert!(world.runtime.usage(&id).await.unwrap().pids >= 1);
    programs_are_executed(&world, &id).await;
    let Phase::Running { pid, .. } = world.phase(&id).await else { panic!("it runs") };
    world.runtime.stop(&id, Duration::ZERO).await.unwrap();
    assert_eq!(world.exit(&id).await.code, 137);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    let host = SandboxSpec {
        namespaces: Namespaces { host_network: true, ..Namespaces::default() },
        ..world.sandbox()
    };
    let applied = world.runtime.not_applied(&host, &world.shell("x", "true"));
    assert_eq!(applied, ["device cgroup"]);
    // Its network is the host's: what listens there may be the node's.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = world.runtime.connect(&world.pod, listener.local_addr().unwrap().port()).await.err();
    assert!(
        refused.as_ref().is_some_and(|why| why.to_string().contains("no network of its own")),
        "{refused:?}"
    );
    let logs = std::fs::metadata(world.sandbox().log_directory).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&logs.permissions()) & 0o027,
        0,
        "logs are not for others"
    );
    world.end().await;
}

/// The test above again, as another user.
#[test]
fn namespaces_need_no_root() {
    if !rustix::process::geteuid().is_root() {
        // The test above ran without root.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap()
    };
    open(folder.path());
    let programs = [
        ("test", std::env::current_exe().unwrap()),
        ("shim", support::options(folder.path()).shim[0].clone().into()),
    ];
    for (name, program) in programs {
        support::copy_program(&program, &folder.path().join(name)).unwrap();
        open(&folder.path().join(name));
    }
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    std::os::unix::fs::chown(&temporary, Some(65_534), Some(65_534)).unwrap();
    let output = Command::new(folder.path().join("test"))
        .args(["--exact", "namespaces_isolate", "--nocapture"])
        .env("LAZARET_TEST_SHIM", folder.path().join("shim"))
        .env("TMPDIR", &temporary)
        .env_remove(lazaret_missing::FILE)
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    if text.contains("NOT RUN") {
        not_run("namespaces_need_no_root", "namespaces", text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let broken = Options { shim: vec!["/there/is/none".into()], ..support::options(folder.path()) };
    let report = probe(Choice::Auto, broken).await.unwrap_err();
    let names: Vec<&str> = report.tried.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["runc", "crun", "namespaces"], "plain processes are never chosen by themselves");
    let text = report.to_string();
    assert!(text.starts_with("no container runtime works here; runc: "), "{text}");
    assert_eq!("namespaces".parse(), Ok(Choice::Namespaces));
    assert!("docker".parse::<Choice>().is_err());
}
