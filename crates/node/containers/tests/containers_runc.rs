//! Containers by the real `runc`: what runs, what is kept, what is contained, and that nothing is left.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and one that did not run says so"
)]

mod support;

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use lazaret_containers::{
    Choice, Exec, Key, Limits, Mount, Namespaces, Phase, Resize, RuntimeError, SandboxSpec, Seccomp,
    Security, probe,
};
use support::{World, leftover};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

macro_rules! world {
    ($test:literal) => {
        match World::with_sandbox(Choice::Runc, $test).await {
            Some(world) => world,
            None => return,
        }
    };
}

async fn read_all(stream: Option<Box<dyn tokio::io::AsyncRead + Send + Unpin>>) -> String {
    let mut text = String::new();
    stream.unwrap().read_to_string(&mut text).await.unwrap();
    text
}

fn exec(command: &[&str]) -> Exec {
    Exec { command: command.iter().map(|word| (*word).to_owned()).collect(), ..Exec::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_and_exit_codes_are_kept() {
    let world = world!("output_and_exit_codes_are_kept");
    let spec = world.shell("main", "echo out; echo err >&2; printf end; exit 7");
    let id = world.runtime.create(&world.pod, spec.clone()).await.unwrap();
    assert_eq!(world.phase(&id).await, Phase::Created);
    assert_eq!(world.runtime.create(&world.pod, spec).await.unwrap(), id, "made twice is found");
    world.runtime.start(&id).await.unwrap();
    let exit = world.exit(&id).await;
    assert_eq!((exit.code, exit.signal, exit.is_out_of_memory, exit.message), (7, None, false, None));
    assert!(exit.started_at.unwrap() <= exit.finished_at);
    let log = world.log(&id).await;
    let lines: BTreeSet<&str> = log.lines().collect();
    assert_eq!(lines, BTreeSet::from(["stdout F out", "stderr F err", "stdout F end"]));
    let state = world.state(&id).await.unwrap();
    assert_eq!(state.image, "busybox:test");
    assert_eq!(state.log, world.folder.path().join("logs/main/0.log"));
    assert!(matches!(world.runtime.start(&id).await, Err(RuntimeError::NotPossible(_))));
    world.runtime.stop(&id, Duration::from_secs(1)).await.unwrap();
    world.runtime.remove(&id).await.unwrap();
    world.runtime.remove(&id).await.unwrap();
    assert!(state.log.exists(), "log files stay");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_cannot_run() {
    let world = world!("a_program_that_is_not_there_cannot_run");
    let made = world.runtime.create(&world.pod, world.spec("main", &["/bin/there-is-none"])).await;
    assert!(matches!(&made, Err(RuntimeError::CannotRun(_))), "{made:?}");
    assert_eq!(world.state(&format!("{}_main_0", world.pod)).await, None);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_asks_first_and_kills_then() {
    let world = world!("stopping_asks_first_and_kills_then");
    let polite = world
        .run(world.shell("polite", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"))
        .await;
    world.logged(&polite, "ready").await;
    // As long as it takes: only a program that never ends would wait for the whole of it.
    world.runtime.stop(&polite, Duration::from_secs(600)).await.unwrap();
    assert_eq!(world.exit(&polite).await.code, 3);
    let deaf = world.run(world.shell("deaf", "trap '' TERM; echo ready; while :; do sleep 0.05; done")).await;
    world.logged(&deaf, "ready").await;
    world.runtime.stop(&deaf, Duration::from_millis(50)).await.unwrap();
    let exit = world.exit(&deaf).await;
    assert_eq!((exit.code, exit.signal), (137, Some(9)));
    let mut spec = world.shell("own-signal", "trap 'exit 4' USR1; echo ready; while :; do sleep 0.05; done");
    spec.stop_signal = Some("SIGUSR1".into());
    let own = world.run(spec).await;
    world.logged(&own, "ready").await;
    world.runtime.stop(&own, Duration::from_secs(600)).await.unwrap();
    assert_eq!(world.exit(&own).await.code, 4);
    let unstarted = world.runtime.create(&world.pod, world.shell("unstarted", "true")).await.unwrap();
    world.runtime.stop(&unstarted, Duration::from_secs(600)).await.unwrap();
    assert_eq!(world.exit(&unstarted).await.started_at, None);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_runs_out_is_said() {
    let world = world!("memory_that_runs_out_is_said");
    let mut spec = world.shell("main", "tail /dev/zero");
    spec.limits = Limits { memory: Some(32 << 20), ..Limits::default() };
    let (exit, log) = world.run_to_end(spec).await;
    assert!(exit.is_out_of_memory, "{exit:?} {log}");
    assert_ne!(exit.code, 0);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_is_contained() {
    let world = world!("a_fork_bomb_is_contained");
    let mut spec = world.shell("main", "bomb() { bomb | bomb & }; bomb; echo lit; while :; do sleep 1; done");
    spec.limits = Limits { pids: Some(32), ..Limits::default() };
    let id = world.run(spec).await;
    world.logged(&id, "lit").await;
    let usage = world.runtime.usage(&id).await.unwrap();
    assert!((1..=32).contains(&usage.pids), "{usage:?}");
    assert!(usage.memory > 0 && usage.cpu_nanoseconds > 0);
    world.runtime.stop(&id, Duration::ZERO).await.unwrap();
    assert_eq!(world.exit(&id).await.code, 137);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_are_executed_with_and_without_a_terminal() {
    let world = world!("programs_are_executed_with_and_without_a_terminal");
    let id = world.run(world.shell("main", "while :; do sleep 0.1; done")).await;
    let running =
        world.runtime.exec(&id, exec(&["sh", "-c", "echo out; echo err >&2; tty; exit 5"])).await.unwrap();
    let (out, err) = tokio::join!(read_all(running.streams.stdout), read_all(running.streams.stderr));
    assert_eq!((out.as_str(), err.as_str()), ("out\nnot a tty\n", "err\n"));
    assert_eq!(running.exit.await.unwrap().unwrap(), 5);

    let mut running = world.runtime.exec(&id, Exec { stdin: true, ..exec(&["cat"]) }).await.unwrap();
    let mut stdin = running.streams.stdin.take().unwrap();
    let sent = vec![b'x'; 300_000];
    let (read, ()) = tokio::join!(read_all(running.streams.stdout.take()), async {
        stdin.write_all(&sent).await.unwrap();
        drop(stdin);
    });
    assert_eq!(read.len(), sent.len());
    assert_eq!(running.exit.await.unwrap().unwrap(), 0);

    let script = "tty; until stty size | grep -q '33 91'; do sleep 0.02; done; read x; stty size; exit 6";
    let mut running = world
        .runtime
        .exec(&id, Exec { tty: true, stdin: true, ..exec(&["sh", "-c", script]) })
        .await
        .unwrap();
    assert!(running.streams.stderr.is_none());
    running.streams.resize.as_ref().unwrap().send(Resize { width: 91, height: 33 }).await.unwrap();
    running.streams.stdin.as_mut().unwrap().write_all(b"\n").await.unwrap();
    let text = read_all(running.streams.stdout.take()).await;
    assert!(text.contains("/dev/pts/0") && text.contains("33 91"), "{text:?}");
    assert_eq!(running.exit.await.unwrap().unwrap(), 6);

    let running = world.runtime.exec(&id, exec(&["there-is-none"])).await.unwrap();
    let result = running.exit.await.unwrap();
    assert!(matches!(&result, Err(RuntimeError::CannotRun(_))), "{result:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executed_program_ends_with_who_asked_for_it() {
    let world = world!("an_executed_program_ends_with_who_asked_for_it");
    let id = world.run(world.shell("main", "while :; do sleep 0.1; done")).await;
    let mut running = world
        .runtime
        .exec(&id, exec(&["sh", "-c", "echo ready; while :; do sleep 0.01; done"]))
        .await
        .unwrap();
    let mut line = [0; 6];
    running.streams.stdout.as_mut().unwrap().read_exact(&mut line).await.unwrap();
    drop(running);
    loop {
        let listed = world.runtime.exec(&id, exec(&["ps", "-o", "args"])).await.unwrap();
        let text = read_all(listed.streams.stdout).await;
        if !text.contains("echo ready") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_can_be_attached_to_once() {
    let world = world!("input_can_be_attached_to_once");
    let mut spec = world.shell("main", "cat; echo over >&2");
    (spec.stdin, spec.stdin_once) = (true, true);
    let id = world.run(spec).await;
    let mut attached = world.runtime.attach(&id).await.unwrap();
    let mut stdin = attached.stdin.take().unwrap();
    stdin.write_all(b"hello\n").await.unwrap();
    let mut line = [0; 6];
    attached.stdout.as_mut().unwrap().read_exact(&mut line).await.unwrap();
    assert_eq!(&line, b"hello\n");
    drop(stdin);
    assert_eq!(read_all(attached.stderr.take()).await, "over\n");
    assert_eq!(world.exit(&id).await.code, 0);
    assert!(world.log(&id).await.contains("stdout F hello"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_can_be_attached_to_again_and_again() {
    let world = world!("a_terminal_can_be_attached_to_again_and_again");
    let mut spec = world.shell("main", "while read x; do echo got $x; done");
    (spec.stdin, spec.tty) = (true, true);
    let id = world.run(spec).await;
    for word in ["one", "two"] {
        let mut attached = world.runtime.attach(&id).await.unwrap();
        assert!(attached.stderr.is_none() && attached.resize.is_some());
        attached.stdin.as_mut().unwrap().write_all(format!("{word}\n").as_bytes()).await.unwrap();
        let (mut seen, mut buffer) = (String::new(), [0; 256]);
        while !seen.contains(&format!("got {word}")) {
            let count = attached.stdout.as_mut().unwrap().read(&mut buffer).await.unwrap();
            assert!(count > 0, "{seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_watcher_stops_no_container() {
    let world = world!("a_slow_watcher_stops_no_container");
    // Ten times what a watcher and the sockets to it can hold.
    let script = "while ! test -e /tmp/go; do sleep 0.02; done; head -c 20000000 /dev/zero | tr '\\0' 'x'; echo; echo over";
    let id = world.run(world.shell("main", script)).await;
    let attached = world.runtime.attach(&id).await.unwrap();
    let go = world.runtime.exec(&id, exec(&["touch", "/tmp/go"])).await.unwrap();
    // The container may end before this does, and takes it along.
    assert!([0, 137].contains(&go.exit.await.unwrap().unwrap()));
    assert_eq!(world.exit(&id).await.code, 0);
    drop(attached);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_begun_anew() {
    let world = world!("a_log_is_begun_anew");
    let id = world
        .run(world.shell("main", "echo first; while ! test -e /tmp/go; do sleep 0.02; done; echo second"))
        .await;
    world.logged(&id, "first").await;
    let log = world.state(&id).await.unwrap().log;
    let old = log.with_extension("log.old");
    fs::rename(&log, &old).unwrap();
    world.runtime.reopen_log(&id).await.unwrap();
    let go = world.runtime.exec(&id, exec(&["touch", "/tmp/go"])).await.unwrap();
    // The container may end before this does, and takes it along.
    assert!([0, 137].contains(&go.exit.await.unwrap().unwrap()));
    assert_eq!(world.exit(&id).await.code, 0);
    assert!(fs::read_to_string(&old).unwrap().ends_with("stdout F first\n"));
    assert_eq!(world.log(&id).await, "stdout F second\n");
    world.runtime.reopen_log(&id).await.unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_found_again() {
    let mut world = world!("what_runs_is_found_again");
    let script = "echo before; while ! test -e /tmp/go; do sleep 0.02; done; echo after; exit 9";
    let id = world.run(world.shell("main", script)).await;
    world.logged(&id, "before").await;
    let before = world.runtime.list().await.unwrap();
    let options = world.options.clone();
    // The runtime goes, as with a restart of the agent; the container stays.
    world.runtime = probe(Choice::Processes, options.clone()).await.unwrap();
    world.runtime = probe(Choice::Runc, options).await.unwrap();
    assert_eq!(world.runtime.list().await.unwrap(), before);
    assert_eq!(before[0].spec.labels["a"], "b");
    let go = world.runtime.exec(&id, exec(&["touch", "/tmp/go"])).await.unwrap();
    // The container may end before this does, and takes it along.
    assert!([0, 137].contains(&go.exit.await.unwrap().unwrap()));
    assert_eq!(world.exit(&id).await.code, 9);
    assert_eq!(world.log(&id).await, "stdout F before\nstdout F after\n");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_whose_shim_is_killed_ends() {
    let world = world!("a_container_whose_shim_is_killed_ends");
    let id = world.run(world.shell("main", "while :; do sleep 0.1; done")).await;
    let Phase::Running { pid, .. } = world.phase(&id).await else { panic!("it runs") };
    let directory = world.options.state.join("runc/sandboxes").join(&world.pod).join("containers/main-0");
    let shim: i32 = fs::read_to_string(directory.join("lock")).unwrap().parse().unwrap();
    let shim = rustix::process::Pid::from_raw(shim).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    let exit = world.exit(&id).await;
    assert_eq!((exit.code, exit.signal), (137, Some(9)));
    assert!(exit.message.unwrap().contains("had died"));
    while Path::new(&format!("/proc/{pid}")).exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_of_a_pod_share_what_they_should() {
    let Some(world) = World::new(Choice::Runc, "containers_of_a_pod_share_what_they_should").await else {
        return;
    };
    let namespaces = Namespaces { shared_pid: true, ..Namespaces::default() };
    let sysctls = [("kernel.shm_rmid_forced".to_owned(), "1".to_owned())].into();
    world.runtime.run_sandbox(SandboxSpec { namespaces, sysctls, ..world.sandbox() }).await.unwrap();
    let one = world.run(world.shell("one", "hostname; cat /proc/sys/kernel/shm_rmid_forced; echo x > /dev/shm/x; echo ready; exec sleep 4711")).await;
    world.logged(&one, "ready").await;
    assert_eq!(world.log(&one).await, "stdout F pod-host\nstdout F 1\nstdout F ready\n");
    let (exit, log) =
        world.run_to_end(world.shell("two", "cat /dev/shm/x; ps -o args; readlink /proc/self/ns/ipc")).await;
    assert_eq!(exit.code, 0);
    assert!(log.starts_with("stdout F x\n") && log.contains("sleep 4711"), "{log}");
    world.runtime.stop_sandbox(&world.pod).await.unwrap();
    let sandbox = world.runtime.list().await.unwrap().remove(0);
    assert!(!sandbox.is_ready);
    assert!(sandbox.containers.iter().all(|container| matches!(container.phase, Phase::Exited(_))));
    let late = world.runtime.create(&world.pod, world.shell("late", "true")).await;
    assert!(matches!(late, Err(RuntimeError::NotPossible(_))), "{late:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_may_do_little() {
    let world = world!("a_container_may_do_little");
    let script = "grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; \
        touch /x || echo read-only; head -c 1 /proc/kcore | wc -c; \
        unshare -m true || echo no-namespace; mount -t tmpfs x /tmp || echo no-mount; \
        echo 1 > /proc/sys/kernel/hostname || echo no-sysctl; \
        dd if=/dev/mem of=/dev/null count=1 2>/dev/null || echo no-device; id -u; id -G; echo over";
    let mut spec = world.shell("main", script);
    spec.security =
        Security { read_only_root: true, seccomp: Seccomp::RuntimeDefault, ..Security::default() };
    spec.security.drop_capabilities = vec!["ALL".into()];
    spec.security.add_capabilities = vec!["CHOWN".into()];
    (spec.identity.uid, spec.identity.gid, spec.identity.groups) = (1000, 1001, vec![1002]);
    let (exit, log) = world.run_to_end(spec.clone()).await;
    assert_eq!(exit.code, 0, "{log}");
    for wanted in [
        "CapBnd:\t0000000000000001",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "read-only",
        "no-namespace",
        "no-mount",
        "no-sysctl",
        "no-device",
        "F 1000",
        "F 1001 1002",
    ] {
        assert!(log.contains(wanted), "{wanted} is not in {log}");
    }
    assert_eq!(
        world.runtime.not_applied(
            &SandboxSpec {
                namespaces: Namespaces { host_network: true, ..Namespaces::default() },
                ..world.sandbox()
            },
            &spec
        ),
        [""; 0]
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mounts_stay_inside_of_the_root() {
    let world = world!("mounts_stay_inside_of_the_root");
    let outside = world.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, world.image.join("trap")).unwrap();
    let given = world.folder.path().join("given");
    fs::write(&given, "given\n").unwrap();
    let mut spec = world.shell("main", "cat /etc/given; echo no > /etc/given || echo read-only; echo x > /scratch/x; cat /scratch/x; cat /trap/y");
    let mount = |source: &Path, target: &str| Mount {
        source: source.into(),
        target: target.into(),
        read_only: true,
        ..Mount::default()
    };
    spec.mounts = vec![
        mount(&given, "/etc/given"),
        mount(&given, "/trap/y"),
        Mount { target: "/scratch".into(), tmpfs: Some(1 << 20), ..Mount::default() },
    ];
    let (exit, log) = world.run_to_end(spec).await;
    assert_eq!(exit.code, 0, "{log}");
    assert!(log.contains("read-only") && log.contains("stdout F x"), "{log}");
    assert_eq!(log.matches("stdout F given").count(), 2);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!world.image.join("etc/given").exists(), "layers are never written to");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cdi_devices_are_injected() {
    let world = world!("cdi_devices_are_injected");
    let cdi = world.folder.path().join("cdi");
    fs::create_dir_all(&cdi).unwrap();
    let spec_file = |value: &str| {
        format!(
            r#"{{"cdiVersion":"0.6.0","kind":"example.com/gpu","devices":[{{"name":"0","containerEdits":{{"env":["GPU={value}"],
            "deviceNodes":[{{"path":"/dev/gpu0","hostPath":"/dev/zero","type":"c","major":1,"minor":5}}]}}}}]}}"#
        )
    };
    for (attempt, value) in ["first", "second"].into_iter().enumerate() {
        fs::write(cdi.join("gpu.json"), spec_file(value)).unwrap();
        let mut spec = world.shell("main", "echo $GPU; head -c 3 /dev/gpu0 | wc -c");
        spec.key.attempt = u32::try_from(attempt).unwrap();
        spec.cdi_devices = vec!["example.com/gpu=0".into()];
        let (exit, log) = world.run_to_end(spec).await;
        assert_eq!((exit.code, log), (0, format!("stdout F {value}\nstdout F 3\n")));
    }
    let mut spec = world.shell("unknown", "true");
    spec.cdi_devices = vec!["example.com/gpu=7".into()];
    let made = world.runtime.create(&world.pod, spec).await;
    assert!(made.unwrap_err().to_string().contains("unresolvable CDI devices example.com/gpu=7"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_groups_are_removed_by_who_made_them() {
    let mut world = world!("control_groups_are_removed_by_who_made_them");
    let groups = leftover::groups_of(&world.instance);
    assert!(!groups.is_empty());
    let own: Vec<_> = groups.iter().map(|group| group.join("pod-that-is-gone/main-0")).collect();
    let others: Vec<_> = groups
        .iter()
        .map(|group| group.with_file_name(format!("{}-other", world.instance)).join("pod-that-is-gone"))
        .collect();
    for group in own.iter().chain(&others) {
        fs::create_dir_all(group).unwrap();
    }
    let options = world.options.clone();
    world.runtime = probe(Choice::Processes, options.clone()).await.unwrap();
    world.runtime = probe(Choice::Runc, options).await.unwrap();
    assert!(own.iter().all(|group| !group.parent().unwrap().exists()));
    assert!(others.iter().all(|group| group.exists()));
    assert!(
        groups.iter().all(|group| group.join(&world.pod).exists()),
        "that of a sandbox that is there stays"
    );
    for group in &others {
        fs::remove_dir(group).unwrap();
        fs::remove_dir(group.parent().unwrap()).unwrap();
    }
    world.end().await;
}

/// The traces that a runtime could leave on a machine, of this test's own pods.
fn traces(world: &World) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let state = world.folder.path().to_string_lossy().into_owned();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    all.extend(mounts.lines().filter(|line| line.contains(&state)).map(str::to_owned));
    let pods = leftover::groups_of(&world.instance).into_iter().map(|group| group.join(&world.pod));
    all.extend(pods.filter(|pod| pod.exists()).map(|pod| pod.display().to_string()));
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(&state) || command.contains(&world.pod) {
            all.insert(command);
        }
    }
    for folder in ["state/runc/sandboxes", "state/runc/oci"] {
        let entries = fs::read_dir(world.folder.path().join(folder)).into_iter().flatten().flatten();
        all.extend(entries.map(|entry| entry.path().display().to_string()));
    }
    all
}

/// A shim ends by itself, when it has seen the end of its program. Lines of mounts begin with a number, and other paths have no spaces.
async fn until_no_process_is_left(world: &World) {
    let is_process =
        |trace: &String| trace.contains(' ') && !trace.starts_with(|first: char| first.is_ascii_digit());
    while traces(world).iter().any(is_process) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left() {
    let Some(world) = World::new(Choice::Runc, "nothing_is_left").await else { return };
    until_no_process_is_left(&world).await;
    assert_eq!(traces(&world), BTreeSet::new(), "a probe leaves nothing");
    let namespaces = Namespaces { shared_pid: true, ..Namespaces::default() };
    world.runtime.run_sandbox(SandboxSpec { namespaces, ..world.sandbox() }).await.unwrap();
    let running = world.run(world.shell("running", "sleep 4712 & while :; do sleep 0.1; done")).await;
    let _executed = world.runtime.exec(&running, exec(&["sleep", "4713"])).await.unwrap();
    world.run_to_end(world.shell("ended", "true")).await;
    world.runtime.create(&world.pod, world.shell("created", "true")).await.unwrap();
    let failed = world.runtime.create(&world.pod, world.spec("failed", &["/none"])).await;
    assert!(failed.is_err());
    assert!(traces(&world).len() > 5, "{:?}", traces(&world));
    world.runtime.remove_sandbox(&world.pod).await.unwrap();
    until_no_process_is_left(&world).await;
    assert_eq!(traces(&world), BTreeSet::new());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_containers_run_at_once() {
    let world = world!("fifty_containers_run_at_once");
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let mut spec = world.shell("many", &format!("echo {number}; exit {number}"));
        spec.key = Key { attempt: number, ..spec.key };
        let (runtime, pod) = (world.runtime.clone(), world.pod.clone());
        tasks.spawn(async move {
            let id = runtime.create(&pod, spec).await.unwrap();
            runtime.start(&id).await.unwrap();
            (number, id)
        });
    }
    for (number, id) in tasks.join_all().await {
        assert_eq!(world.exit(&id).await.code, i32::try_from(number).unwrap());
        assert_eq!(world.log(&id).await, format!("stdout F {number}\n"));
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_a_pod_can_be_connected_to() {
    let world = world!("a_port_of_a_pod_can_be_connected_to");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Without a network of its own, a pod has the host's. It did not ask for it: what listens there is not the pod's.
    let refused = world.runtime.connect(&world.pod, port).await.err();
    assert!(
        matches!(&refused, Some(RuntimeError::NotPossible(why)) if why.contains("no network of its own")),
        "{refused:?}"
    );
    let host = SandboxSpec {
        pod_uid: format!("{}-host", world.pod),
        namespaces: Namespaces { host_network: true, ..Namespaces::default() },
        ..world.sandbox()
    };
    let host = world.runtime.run_sandbox(host).await.unwrap().id;
    let mut connection = world.runtime.connect(&host, port).await.unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    std::io::Write::write_all(&mut accepted, b"hi").unwrap();
    drop(accepted);
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hi");
    // A port that is not assigned: others on this machine may take the one above as soon as it is free.
    assert!(matches!(world.runtime.connect(&host, 1).await, Err(RuntimeError::NotPossible(_))));
    world.runtime.remove_sandbox(&host).await.unwrap();
    world.end().await;
}

/// A plugin that answers as one would, and notes what it was asked.
fn network_plugin(world: &World) {
    let (programs, configurations) = (world.folder.path().join("plugins"), world.folder.path().join("net.d"));
    fs::create_dir_all(&programs).unwrap();
    fs::create_dir_all(&configurations).unwrap();
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\necho $CNI_COMMAND $CNI_IFNAME $CNI_CONTAINERID >> {}\n\
         echo '{{\"cniVersion\":\"1.0.0\",\"ips\":[{{\"address\":\"10.77.0.5/24\"}}]}}'\n",
        world.folder.path().join("calls").display()
    );
    let plugin = programs.join("noted");
    let draft = world.folder.path().join("draft");
    fs::write(&draft, script).unwrap();
    fs::set_permissions(&draft, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    support::copy_program(&draft, &plugin).unwrap();
    let configuration =
        r#"{"cniVersion":"1.0.0","name":"test","plugins":[{"type":"noted"},{"type":"noted"}]}"#;
    fs::write(configurations.join("10-test.conflist"), configuration).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_given_and_taken_by_plugins() {
    let Some(world) = World::new(Choice::Runc, "a_network_is_given_and_taken_by_plugins").await else {
        return;
    };
    network_plugin(&world);
    let spec = world.shell("main", "echo ready; while :; do echo hi | nc -l -p 8080; done");
    assert_eq!(world.runtime.not_applied(&world.sandbox(), &spec), [""; 0]);
    let state = world.runtime.run_sandbox(world.sandbox()).await.unwrap();
    assert_eq!(state.ips, ["10.77.0.5"]);
    let id = world.run(spec).await;
    world.logged(&id, "ready").await;
    // The port is the pod's: it has a network of its own, and its loopback interface is up.
    let mut text = String::new();
    while text.is_empty() {
        if let Ok(mut connection) = world.runtime.connect(&world.pod, 8080).await {
            let _ = connection.read_to_string(&mut text).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(text, "hi\n");
    world.runtime.stop_sandbox(&world.pod).await.unwrap();
    let calls = fs::read_to_string(world.folder.path().join("calls")).unwrap();
    let words: Vec<&str> = calls.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(words, ["ADD", "ADD", "DEL", "DEL"]);
    assert!(calls.contains(&format!("ADD eth0 {}", world.pod)));
    world.end().await;
}
