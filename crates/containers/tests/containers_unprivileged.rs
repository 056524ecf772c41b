//! Plain processes, and what a probe says.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and one that did not run says so"
)]

mod support;

use std::time::Duration;

use lazaret_containers::{Choice, Exec, Limits, Options, Resize, RootFs, RuntimeError, probe};
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
    let script = "read x; stty size; echo got $x; exit 6";
    let mut running =
        world.runtime.exec(id, Exec { tty: true, stdin: true, ..exec(&["sh", "-c", script]) }).await.unwrap();
    running.streams.resize.as_ref().unwrap().send(Resize { width: 91, height: 33 }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.streams.stdin.as_mut().unwrap().write_all(b"line\n").await.unwrap();
    let text = read_all(running.streams.stdout.take()).await;
    assert!(text.contains("33 91") && text.contains("got line"), "{text:?}");
    assert_eq!(running.exit.await.unwrap().unwrap(), 6);
    let running = world.runtime.exec(id, exec(&["there-is-none"])).await.unwrap();
    assert!(matches!(running.exit.await.unwrap(), Err(RuntimeError::CannotRun(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let broken = Options { shim: vec!["/there/is/none".into()], ..support::options(folder.path()) };
    let report = probe(Choice::Auto, broken).await.unwrap_err();
    let names: Vec<&str> = report.tried.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["runc", "crun"],
        "what isolates nothing, or fails at times, is never chosen by itself"
    );
    let text = report.to_string();
    assert!(text.starts_with("no container runtime works here; runc: "), "{text}");
    assert_eq!("namespaces".parse(), Ok(Choice::Namespaces));
    assert!("docker".parse::<Choice>().is_err());
}
