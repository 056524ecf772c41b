//! The runtime over a socket, with a double at the other end that keeps sandboxes and containers as containerd does.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, or says what it did not try; connections end with the test"
)]

mod double;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use double::{Double, DoubleOptions};
use lazaret_containers::{
    Attached, ContainerSpec, Exec, Identity, Key, Limits, Namespaces, Phase, Resize, RootFs, Runtime,
    RuntimeError, SandboxSpec, Seccomp, Security, UserLookup,
};
use lazaret_cri::{Cri, ProbeOptions, proto};
use lazaret_images::{Collected, ImageSource, Thresholds};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn sandbox(folder: &Path) -> SandboxSpec {
    SandboxSpec {
        pod_uid: "uid-1".to_owned(),
        namespace: "default".to_owned(),
        name: "pod".to_owned(),
        namespaces: Namespaces { host_network: true, ..Namespaces::default() },
        log_directory: folder.join("logs"),
        labels: BTreeMap::from([("mine".to_owned(), "yes".to_owned())]),
        ..SandboxSpec::default()
    }
}

fn container(name: &str, devices: &[&str]) -> ContainerSpec {
    let key = Key { pod_uid: "uid-1".to_owned(), name: name.to_owned(), attempt: 2 };
    let command = vec!["sleep".to_owned(), "1000".to_owned()];
    ContainerSpec {
        env: vec!["A=b=c".to_owned()],
        working_directory: "/".into(),
        cdi_devices: devices.iter().map(|name| (*name).to_owned()).collect(),
        identity: Identity { uid: 1000, gid: 1001, groups: vec![44], lookup: None },
        security: Security { seccomp: Seccomp::RuntimeDefault, ..Security::default() },
        limits: Limits { memory: Some(1 << 20), ..Limits::default() },
        stop_signal: Some("SIGUSR1".to_owned()),
        image: "busybox".to_owned(),
        image_id: "sha256:abc".to_owned(),
        labels: BTreeMap::from([("mine".to_owned(), "also".to_owned())]),
        ..ContainerSpec::new(key, RootFs::Layers(Vec::new()), command)
    }
}

#[tokio::test]
async fn a_runtime_that_ignores_cdi_is_refused_by_its_version() {
    let folder = tempfile::tempdir().unwrap();
    for (runtime, version, is_fine) in [
        ("containerd", "v1.7.24", true),
        ("containerd", "2.1.9+unknown", true),
        ("containerd", "1.10.0", true),
        ("containerd", "1.6.20~ds1", false),
        ("containerd", "v1.6.0", false),
        ("containerd", "unknown", false),
        ("cri-o", "1.28.0-dev", true),
        ("cri-o", "1.27.9", false),
        ("another", "0.1", true),
    ] {
        let manner = DoubleOptions { runtime, version, ..DoubleOptions::default() };
        let double = Double::start(&folder.path().join("cri.sock"), manner);
        assert_eq!(Cri::connect(&double.socket, "node-1").await.is_ok(), is_fine, "{runtime} {version}");
    }
    let manner = DoubleOptions { version: "1.6.20", ..DoubleOptions::default() };
    let double = Double::start(&folder.path().join("cri.sock"), manner);
    let error = Cri::connect(&double.socket, "node-1").await.unwrap_err();
    assert_eq!(error.to_string(), "containerd 1.6.20 ignores CDI devices: 1.7 or later is needed");
    assert!(Cri::connect(folder.path().join("nobody.sock"), "node-1").await.is_err());
}

#[tokio::test]
async fn pods_live_and_are_found_again_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), DoubleOptions::default());
    double.add_a_stranger();
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    let made = cri.run_sandbox(sandbox(folder.path())).await.unwrap();
    assert!(made.is_ready);
    assert_eq!(made.spec, sandbox(folder.path()));
    // Once more is the same one.
    assert_eq!(cri.run_sandbox(sandbox(folder.path())).await.unwrap().id, made.id);

    let id = cri.create(&made.id, container("main", &[])).await.unwrap();
    assert_eq!(cri.create(&made.id, container("main", &[])).await.unwrap(), id);
    let config = double.config(&id);
    assert_eq!(config.image.unwrap().image, "sha256:abc");
    assert_eq!((config.envs[0].key.as_str(), config.envs[0].value.as_slice()), ("A", &b"b=c"[..]));
    assert_eq!(config.log_path, "main/2.log");
    assert_eq!(config.stop_signal, 29);
    let linux = config.linux.unwrap();
    let security = linux.security_context.unwrap();
    assert_eq!(security.run_as_user.unwrap().value, 1000);
    assert_eq!(security.supplemental_groups, [44]);
    assert!(security.no_new_privs && security.masked_paths.contains(&"/proc/kcore".to_owned()));
    assert_eq!(security.namespace_options.unwrap().network, proto::NAMESPACE_NODE);
    assert_eq!(linux.resources.unwrap().memory_limit_in_bytes, 1 << 20);
    assert!(folder.path().join("logs/main").is_dir());
    cri.start(&id).await.unwrap();

    let again = Cri::connect(&double.socket, "node-1").await.unwrap();
    let found = again.list().await.unwrap();
    assert_eq!(found.len(), 1, "a stranger's pod is listed: {found:?}");
    let state = &found[0].containers[0];
    assert_eq!((state.key.clone(), state.image.as_str()), (container("main", &[]).key, "busybox"));
    assert_eq!(state.labels, container("main", &[]).labels);
    assert!(matches!(state.phase, Phase::Running { pid: 4711, .. }), "{:?}", state.phase);
    assert_eq!(state.log, folder.path().join("logs/main/2.log"));

    again.stop(&id, Duration::from_millis(1_500)).await.unwrap();
    assert_eq!(double.last_stop_seconds(), 2, "a grace period is never cut short");
    let Phase::Exited(exit) = again.list().await.unwrap()[0].containers[0].phase.clone() else {
        panic!("it runs")
    };
    assert_eq!((exit.code, exit.signal), (137, Some(9)));
    again.remove(&id).await.unwrap();
    again.remove(&id).await.unwrap();
    again.remove_sandbox(&made.id).await.unwrap();
    again.remove_sandbox(&made.id).await.unwrap();
    assert_eq!(again.list().await.unwrap().len(), 0);
    assert_eq!(double.strangers(), 1);
}

/// As if there were no pod, the node would give its devices to another one.
#[tokio::test]
async fn a_pod_that_cannot_be_read_is_no_pod_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), DoubleOptions::default());
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    let made = cri.run_sandbox(sandbox(folder.path())).await.unwrap();
    double.overwrite_annotations(r#"{"written_by":"another release"}"#);
    let wanted = format!("sandbox {} has an annotation lazaret.dev/sandbox that cannot be read", made.id);
    let error = cri.list().await.unwrap_err().to_string();
    assert!(error.starts_with(&wanted), "{error}");
    assert!(cri.run_sandbox(sandbox(folder.path())).await.is_err(), "a second one would be made");
    assert_eq!(double.sandboxes(), 1);
}

#[tokio::test]
async fn a_runtime_that_ignores_cdi_is_found_out_before_a_container_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let manner = DoubleOptions { ignores_cdi: true, ..DoubleOptions::default() };
    let double = Double::start(&folder.path().join("cri.sock"), manner);
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    let made = cri.run_sandbox(sandbox(folder.path())).await.unwrap();
    cri.create(&made.id, container("plain", &[])).await.unwrap();
    for _ in 0..2 {
        let error = cri.create(&made.id, container("main", &["example.com/gpu=0"])).await.unwrap_err();
        assert!(
            matches!(error, RuntimeError::NotPossible(_))
                && error.to_string().contains("ignores CDI devices"),
            "{error}"
        );
    }
    assert_eq!(double.containers(), ["plain"]);
}

#[tokio::test]
async fn devices_are_passed_by_name_to_a_runtime_that_applies_them() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), DoubleOptions::default());
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    let made = cri.run_sandbox(sandbox(folder.path())).await.unwrap();
    let id = cri.create(&made.id, container("main", &["example.com/gpu=0"])).await.unwrap();
    assert_eq!(double.config(&id).cdi_devices[0].name, "example.com/gpu=0");
    cri.create(&made.id, container("more", &["example.com/gpu=1"])).await.unwrap();
    // It is asked once.
    assert_eq!((double.containers(), double.refused()), (vec!["main".to_owned(), "more".to_owned()], 1));
    let error = cri.create(&made.id, container("wrong", &["example.com/gpu=absent"])).await.unwrap_err();
    assert!(error.to_string().contains("unresolvable CDI devices"), "{error}");
}

fn probe_options(folder: &Path) -> ProbeOptions {
    let cdi_directories = vec!["/etc/cdi".into(), "/here/cdi".into()];
    ProbeOptions { cdi_directories, log_directory: folder.join("probe") }
}

#[tokio::test]
async fn a_runtime_that_would_not_find_devices_is_refused_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [
        (DoubleOptions::default(), None),
        (
            DoubleOptions {
                config: Some(r#"{"enableCDI":true,"cdiSpecDirs":["/here/cdi"]}"#),
                ..DoubleOptions::default()
            },
            None,
        ),
        (DoubleOptions { config: Some("no JSON"), ..DoubleOptions::default() }, None),
        // Without an image it cannot be asked yet.
        (DoubleOptions { has_image: false, ignores_cdi: true, ..DoubleOptions::default() }, None),
        (
            DoubleOptions { is_ready: false, ..DoubleOptions::default() },
            Some("the runtime is not ready: Because: of this"),
        ),
        (
            DoubleOptions { config: Some(r#"{"enableCDI":false}"#), ..DoubleOptions::default() },
            Some("the runtime ignores CDI devices: set enable_cdi = true in its configuration"),
        ),
        (
            DoubleOptions {
                config: Some(r#"{"enableCDI":null,"cdiSpecDirs":["/run/other"]}"#),
                ..DoubleOptions::default()
            },
            Some(
                "the runtime reads CDI files in /run/other, and drivers of this node write them to /etc/cdi, /here/cdi: \
                 set cdi_spec_dirs in its configuration, or --cdi-root here",
            ),
        ),
        (
            DoubleOptions { ignores_cdi: true, ..DoubleOptions::default() },
            Some("the runtime ignores CDI devices: its support for them is switched off"),
        ),
    ];
    for (manner, refusal) in rows {
        let double = Double::start(&folder.path().join("cri.sock"), manner);
        let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
        let said = cri.probe(&probe_options(folder.path())).await.err().map(|error| error.to_string());
        assert_eq!(said.as_deref(), refusal, "{manner:?}");
        assert_eq!((double.sandboxes(), double.containers().len()), (0, 0), "{manner:?}");
    }
}

#[tokio::test]
async fn a_runtime_that_was_probed_is_not_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), DoubleOptions::default());
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    cri.probe(&probe_options(folder.path())).await.unwrap();
    let made = cri.run_sandbox(sandbox(folder.path())).await.unwrap();
    cri.create(&made.id, container("main", &["example.com/gpu=0"])).await.unwrap();
    assert_eq!((double.refused(), double.containers()), (1, vec!["main".to_owned()]));
    assert_eq!((cri.name(), cri.version()), ("containerd", "2.1.9+unknown"));
}

#[tokio::test]
async fn nodes_that_share_a_runtime_have_their_own_pods() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), DoubleOptions::default());
    let one = Cri::connect(&double.socket, "node-1").await.unwrap();
    let other = Cri::connect(&double.socket, "node-2").await.unwrap();
    let made = one.run_sandbox(sandbox(folder.path())).await.unwrap();
    assert_eq!(other.list().await.unwrap(), []);
    assert_ne!(other.run_sandbox(sandbox(folder.path())).await.unwrap().id, made.id);
    assert_eq!(one.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn ports_of_a_pod_are_reached_in_its_own_network() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), DoubleOptions::default());
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for host_network in [true, false] {
        let namespaces = Namespaces { host_network, ..Namespaces::default() };
        let pod_uid = format!("uid-{host_network}");
        let spec = SandboxSpec { namespaces, pod_uid, ..sandbox(folder.path()) };
        let made = cri.run_sandbox(spec).await.unwrap();
        match cri.connect(&made.id, port).await {
            Ok(_) => drop(listener.accept().await.unwrap()),
            // Only root enters a namespace.
            Err(error) => assert!(!host_network && error.to_string().contains("enter /proc/"), "{error}"),
        }
    }
    assert!(matches!(cri.connect("none", port).await, Err(RuntimeError::NotFound(_))));
}

#[tokio::test]
async fn images_are_those_of_the_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), DoubleOptions::default());
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    let images: &dyn ImageSource = &cri;
    let found = images.find("busybox").await.unwrap();
    assert_eq!((found.id.as_str(), found.config.user.as_str()), ("sha256:abc", "65534"));
    assert_eq!(found.config.command, ["sh"]);
    assert_eq!(found.repo_digest.as_deref(), Some("docker.io/library/busybox@sha256:def"));
    assert!(images.find("another").await.is_none());
}

async fn one_container(folder: &Path, spec: ContainerSpec) -> (Double, Cri, String) {
    let double = Double::start(&folder.join("cri.sock"), DoubleOptions::default());
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    let made = cri.run_sandbox(sandbox(folder)).await.unwrap();
    let id = cri.create(&made.id, spec).await.unwrap();
    (double, cri, id)
}

fn program(command: &str) -> Exec {
    Exec { command: vec![command.to_owned()], ..Exec::default() }
}

/// All that a program wrote: its output, then its errors.
async fn written(streams: Attached) -> (String, String) {
    let (mut output, mut errors) = (String::new(), String::new());
    streams.stdout.unwrap().read_to_string(&mut output).await.unwrap();
    if let Some(mut stderr) = streams.stderr {
        stderr.read_to_string(&mut errors).await.unwrap();
    }
    (output, errors)
}

#[tokio::test]
async fn programs_of_probes_run_to_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let (_double, cri, id) = one_container(folder.path(), container("main", &[])).await;
    let command = vec!["echo".to_owned(), "hello".to_owned()];
    let exec = Exec { command, limit: Some(Duration::from_millis(1_500)), ..Exec::default() };
    let running = cri.exec(&id, exec).await.unwrap();
    assert_eq!(written(running.streams).await, ("echo hello".to_owned(), String::new()));
    assert_eq!(running.exit.await.unwrap().unwrap(), 3);
    let missing = cri.start("none").await.unwrap_err();
    assert!(matches!(missing, RuntimeError::NotFound(_)), "{missing}");
}

#[tokio::test]
async fn a_program_has_its_input_until_that_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (_double, cri, id) = one_container(folder.path(), container("main", &[])).await;
    let mut running = cri.exec(&id, Exec { stdin: true, ..program("cat") }).await.unwrap();
    let mut stdin = running.streams.stdin.take().unwrap();
    // More than any buffer on the way holds, so the output is read meanwhile.
    let input = "0123456789abcdef".repeat(20_000);
    let feeding = async {
        stdin.write_all(input.as_bytes()).await.unwrap();
        stdin.shutdown().await.unwrap();
        drop(stdin);
    };
    let (output, ()) = tokio::join!(written(running.streams), feeding);
    assert!(output.0 == input, "{} bytes", output.0.len());
    assert_eq!(running.exit.await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_program_says_how_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (_double, cri, id) = one_container(folder.path(), container("main", &[])).await;
    let running = cri.exec(&id, program("fail")).await.unwrap();
    assert_eq!(written(running.streams).await, ("some".to_owned(), "bad".to_owned()));
    assert_eq!(running.exit.await.unwrap().unwrap(), 7);
    for (command, expected) in [("absent", "exec: no such file"), ("lost", "the runtime lost the program")] {
        let running = cri.exec(&id, program(command)).await.unwrap();
        assert_eq!(running.exit.await.unwrap().unwrap_err().to_string(), expected);
    }
    let refused = cri.exec(&id, program("refused")).await.unwrap_err();
    assert_eq!(refused.to_string(), "connect to the stream at the runtime: 404 Not Found: no token");
}

#[tokio::test]
async fn a_terminal_has_sizes_and_no_errors() {
    let folder = tempfile::tempdir().unwrap();
    let (_double, cri, id) = one_container(folder.path(), container("main", &[])).await;
    let running = cri.exec(&id, Exec { tty: true, ..program("size") }).await.unwrap();
    assert!(running.streams.stderr.is_none() && running.streams.stdin.is_none());
    let resize = running.streams.resize.clone().unwrap();
    resize.send(Resize { width: 80, height: 24 }).await.unwrap();
    assert_eq!(written(running.streams).await.0, "{\"Width\":80,\"Height\":24}\n");
    assert_eq!(running.exit.await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_session_ends_with_whoever_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (double, cri, id) = one_container(folder.path(), container("main", &[])).await;
    let running = cri.exec(&id, program("forever")).await.unwrap();
    drop(running);
    double.session_ended().notified().await;
}

#[tokio::test]
async fn containers_are_attached_to_with_the_streams_that_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let spec = ContainerSpec { stdin: true, ..container("main", &[]) };
    let (_double, cri, id) = one_container(folder.path(), spec).await;
    let mut attached = cri.attach(&id).await.unwrap();
    let mut stdin = attached.stdin.take().unwrap();
    stdin.write_all(b"typed").await.unwrap();
    drop(stdin);
    assert_eq!(written(attached).await.0, "typed");
    let sandbox = cri.list().await.unwrap().remove(0).id;
    let quiet = cri.create(&sandbox, container("quiet", &[])).await.unwrap();
    let attached = cri.attach(&quiet).await.unwrap();
    assert!(attached.stdin.is_none() && attached.resize.is_none());
    assert_eq!(written(attached).await, ("some".to_owned(), "bad".to_owned()));
}

#[tokio::test]
async fn users_are_looked_up_by_the_runtime_when_only_it_has_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let (double, cri, id) = one_container(folder.path(), container("main", &[])).await;
    let context = |id: &str| double.config(id).linux.unwrap().security_context.unwrap();
    let own = context(&id);
    assert_eq!((own.run_as_user.unwrap().value, own.run_as_group.unwrap().value), (1000, 1001));
    assert_eq!((own.run_as_username.as_str(), own.supplemental_groups_policy), ("", proto::GROUPS_STRICT));
    let sandbox = cri.list().await.unwrap().remove(0).id;
    let lookup =
        |user: Option<&str>, gid| UserLookup { user: user.map(str::to_owned), gid, with_groups: true };
    let rows = [
        ("a", lookup(None, None), None, "", None),
        ("b", lookup(Some("nobody"), Some(7)), None, "nobody", Some(7)),
        ("c", lookup(Some("65534"), None), Some(65_534), "", None),
    ];
    for (name, lookup, uid, user, gid) in rows {
        let mut spec = container(name, &[]);
        spec.identity = Identity { groups: vec![44], lookup: Some(lookup), ..Identity::default() };
        let made = context(&cri.create(&sandbox, spec).await.unwrap());
        let number = |value: Option<proto::Int64Value>| value.map(|value| value.value);
        assert_eq!((number(made.run_as_user), number(made.run_as_group)), (uid, gid), "{name}");
        assert_eq!((made.run_as_username.as_str(), made.supplemental_groups.as_slice()), (user, &[44][..]));
        assert_eq!(made.supplemental_groups_policy, proto::GROUPS_MERGE);
    }
}

#[tokio::test]
async fn images_that_nothing_uses_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let manner = DoubleOptions { has_image: false, ..DoubleOptions::default() };
    let double = Double::start(&folder.path().join("cri.sock"), manner);
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    for (id, pinned) in
        [("sha256:old", false), ("sha256:used", false), ("sha256:ours", false), ("sha256:pause", true)]
    {
        let repo_tags = vec![format!("localhost/{id}:1")];
        double.add_image(proto::Image {
            id: id.to_owned(),
            repo_tags,
            size: 10,
            pinned,
            ..Default::default()
        });
    }
    // Another client's container, by the name of its image.
    double.add_a_container("localhost/sha256:used:1");
    let ours = BTreeSet::from(["sha256:ours".to_owned()]);
    let images: &dyn ImageSource = &cri;
    // None was unused for long enough, as far as this process knows.
    let patient = Thresholds { high_percent: 0, low_percent: 0, ..Thresholds::default() };
    assert_eq!(images.collect_garbage(&ours, patient).await.unwrap(), Collected::default());
    // The disk is not full.
    let roomy = Thresholds { high_percent: 101, low_percent: 99, unused_for: Duration::ZERO };
    assert_eq!(images.collect_garbage(&ours, roomy).await.unwrap(), Collected::default());
    let collected = images.collect_garbage(&ours, Thresholds::all()).await.unwrap();
    assert_eq!((collected.names, collected.bytes), (vec!["localhost/sha256:old:1".to_owned()], 10));
    assert_eq!(double.images(), ["sha256:used", "sha256:ours", "sha256:pause"]);
}

#[tokio::test]
async fn limits_change_while_a_container_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (double, cri, id) = one_container(folder.path(), container("main", &[])).await;
    let own = Limits { memory: Some(2 << 20), cpu_quota_us: Some(5_000), ..Limits::default() };
    cri.update(&id, own, Limits::default()).await.unwrap();
    let updated = double.updated();
    assert_eq!((updated[0].memory_limit_in_bytes, updated[0].cpu_quota), (2 << 20, 5_000));
    assert!(matches!(cri.update("none", own, own).await, Err(RuntimeError::NotFound(_))));
}

#[tokio::test]
async fn what_the_protocol_cannot_say_is_named_before() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), DoubleOptions::default());
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    let mut spec = container("main", &[]);
    let mut pod = sandbox(folder.path());
    // Every pod has some.
    pod.limits.cpu_shares = Some(2);
    assert_eq!(cri.not_applied(&pod, &spec), Vec::<String>::new());
    pod.limits.memory = Some(1 << 30);
    assert_eq!(cri.not_applied(&pod, &spec), ["limits over all containers of the pod"]);
    spec.limits.pids = Some(10);
    spec.root = RootFs::Directory("/".into());
    let named = cri.not_applied(&sandbox(folder.path()), &spec);
    assert_eq!(named, ["limit of processes", "root directory in place of an image"]);
}

/// As a kubelet does it: the groups of containers are below one that has the limits of the pod.
#[tokio::test]
async fn pods_are_limited_as_a_whole_by_a_group_of_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let node = format!("node-{}", std::process::id());
    let mut pod = sandbox(folder.path());
    pod.limits = Limits { memory: Some(64 << 20), pids: Some(33), ..Limits::default() };
    for (driver, makes_groups) in [(Some(1), true), (Some(0), false), (None, false)] {
        let manner = DoubleOptions { cgroup_driver: driver, ..DoubleOptions::default() };
        let double = Double::start(&folder.path().join("cri.sock"), manner);
        let cri = Cri::connect(&double.socket, &node).await.unwrap().with_pod_groups().await;
        let not_applied = cri.not_applied(&pod, &container("main", &[]));
        let has_groups = not_applied.is_empty();
        // Only a user who may make control groups has them.
        assert!(makes_groups || !has_groups, "{driver:?}");
        assert!(has_groups || not_applied == ["limits over all containers of the pod"], "{not_applied:?}");
        let made = cri.run_sandbox(pod.clone()).await.unwrap();
        let parent = double.cgroup_parents().remove(0);
        assert_eq!(parent, if has_groups { format!("/lazaret/cri-{node}/uid-1") } else { String::new() });
        let read = |controller: &str, file: &str| {
            let v1 = std::fs::read_to_string(format!("/sys/fs/cgroup/{controller}{parent}/{file}"));
            v1.or_else(|_| std::fs::read_to_string(format!("/sys/fs/cgroup{parent}/{file}"))).ok()
        };
        if has_groups {
            assert_eq!(read("pids", "pids.max").as_deref(), Some("33\n"));
            let id = cri.create(&made.id, container("main", &[])).await.unwrap();
            let of_pod = Limits { memory: Some(32 << 20), pids: Some(33), ..Limits::default() };
            cri.update(&id, of_pod, of_pod).await.unwrap();
            let memory = read("memory", "memory.limit_in_bytes").or_else(|| read("", "memory.max"));
            assert_eq!(memory, Some(format!("{}\n", 32 << 20)));
        } else if makes_groups {
            lazaret_missing::not_run("limits of pods", "cgroups", "control groups cannot be made");
        }
        cri.remove_sandbox(&made.id).await.unwrap();
        assert!(!has_groups || read("pids", "pids.max").is_none(), "the group went with its pod");
        drop(cri);
        let group = format!("/lazaret/cri-{node}");
        let paths = ["/sys/fs/cgroup".to_owned(), "/sys/fs/cgroup/pids".to_owned()];
        assert!(paths.iter().all(|path| !Path::new(&format!("{path}{group}")).exists()));
    }
}

#[tokio::test]
async fn a_runtime_that_was_restarted_is_connected_to_again() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("cri.sock");
    let mut double = Double::start(&socket, DoubleOptions::default());
    let cri = Cri::connect(&socket, "node-1").await.unwrap();
    double.stop().await;
    assert!(cri.list().await.is_err());
    let _again = Double::start(&socket, DoubleOptions::default());
    // One call may still meet the old connection.
    let _ = cri.list().await;
    assert_eq!(cri.list().await.unwrap().len(), 0);
}
