//! The runtime over a socket, with a double at the other end that keeps sandboxes and containers as containerd does.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed; connections end with the test"
)]

mod double;

use std::{collections::BTreeMap, path::Path, time::Duration};

use double::{Double, Manner};
use lazaret_containers::{
    ContainerSpec, Exec, Identity, Key, Limits, Namespaces, Phase, RootFs, Runtime, RuntimeError,
    SandboxSpec, Seccomp, Security,
};
use lazaret_cri::{Cri, ProbeOptions, proto};
use lazaret_images::ImageSource;
use tokio::io::AsyncReadExt;

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
    ContainerSpec {
        key: Key { pod_uid: "uid-1".to_owned(), name: name.to_owned(), attempt: 2 },
        root: RootFs::Layers(Vec::new()),
        command: vec!["sleep".to_owned(), "1000".to_owned()],
        env: vec!["A=b=c".to_owned()],
        working_directory: "/".into(),
        mounts: Vec::new(),
        cdi_devices: devices.iter().map(|name| (*name).to_owned()).collect(),
        identity: Identity { uid: 1000, gid: 1001, groups: vec![44] },
        security: Security { seccomp: Seccomp::RuntimeDefault, ..Security::default() },
        limits: Limits { memory: Some(1 << 20), ..Limits::default() },
        tty: false,
        stdin: false,
        stdin_once: false,
        stop_signal: Some("SIGUSR1".to_owned()),
        image: "busybox".to_owned(),
        image_id: "sha256:abc".to_owned(),
        labels: BTreeMap::from([("mine".to_owned(), "also".to_owned())]),
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
        let manner = Manner { runtime, version, ..Manner::default() };
        let double = Double::start(&folder.path().join("cri.sock"), manner);
        assert_eq!(Cri::connect(&double.socket, "node-1").await.is_ok(), is_fine, "{runtime} {version}");
    }
    let manner = Manner { version: "1.6.20", ..Manner::default() };
    let double = Double::start(&folder.path().join("cri.sock"), manner);
    let error = Cri::connect(&double.socket, "node-1").await.unwrap_err();
    assert_eq!(error.to_string(), "containerd 1.6.20 ignores CDI devices: 1.7 or later is needed");
    assert!(Cri::connect(folder.path().join("nobody.sock"), "node-1").await.is_err());
}

#[tokio::test]
async fn pods_live_and_are_found_again_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), Manner::default());
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

#[tokio::test]
async fn a_runtime_that_ignores_cdi_is_found_out_before_a_container_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let manner = Manner { ignores_cdi: true, ..Manner::default() };
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
    let double = Double::start(&folder.path().join("cri.sock"), Manner::default());
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
        (Manner::default(), None),
        (
            Manner { config: Some(r#"{"enableCDI":true,"cdiSpecDirs":["/here/cdi"]}"#), ..Manner::default() },
            None,
        ),
        (Manner { config: Some("no JSON"), ..Manner::default() }, None),
        // Without an image it cannot be asked yet.
        (Manner { has_image: false, ignores_cdi: true, ..Manner::default() }, None),
        (Manner { is_ready: false, ..Manner::default() }, Some("the runtime is not ready: Because: of this")),
        (
            Manner { config: Some(r#"{"enableCDI":false}"#), ..Manner::default() },
            Some("the runtime ignores CDI devices: set enable_cdi = true in its configuration"),
        ),
        (
            Manner {
                config: Some(r#"{"enableCDI":null,"cdiSpecDirs":["/run/other"]}"#),
                ..Manner::default()
            },
            Some(
                "the runtime reads CDI files in /run/other, and drivers of this node write them to /etc/cdi, /here/cdi: \
                 set cdi_spec_dirs in its configuration, or --cdi-root here",
            ),
        ),
        (
            Manner { ignores_cdi: true, ..Manner::default() },
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
    let double = Double::start(&folder.path().join("cri.sock"), Manner::default());
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
    let double = Double::start(&folder.path().join("cri.sock"), Manner::default());
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
    let double = Double::start(&folder.path().join("cri.sock"), Manner::default());
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
            // Nobody but root enters a namespace.
            Err(error) => assert!(!host_network && error.to_string().contains("enter /proc/"), "{error}"),
        }
    }
    assert!(matches!(cri.connect("none", port).await, Err(RuntimeError::NotFound(_))));
}

#[tokio::test]
async fn images_are_those_of_the_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), Manner::default());
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    let images: &dyn ImageSource = &cri;
    let found = images.find("busybox").await.unwrap();
    assert_eq!((found.id.as_str(), found.config.user.as_str()), ("sha256:abc", "65534"));
    assert_eq!(found.config.command, ["sh"]);
    assert_eq!(found.repo_digest.as_deref(), Some("docker.io/library/busybox@sha256:def"));
    assert!(images.find("another").await.is_none());
}

#[tokio::test]
async fn programs_of_probes_run_and_streams_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), Manner::default());
    let cri = Cri::connect(&double.socket, "node-1").await.unwrap();
    let made = cri.run_sandbox(sandbox(folder.path())).await.unwrap();
    let id = cri.create(&made.id, container("main", &[])).await.unwrap();
    let command = vec!["echo".to_owned(), "hello".to_owned()];
    let running = cri.exec(&id, Exec { command: command.clone(), ..Exec::default() }).await.unwrap();
    let mut output = String::new();
    running.streams.stdout.unwrap().read_to_string(&mut output).await.unwrap();
    assert_eq!((output.as_str(), running.exit.await.unwrap().unwrap()), ("echo hello", 3));
    let error = cri.exec(&id, Exec { command, tty: true, stdin: true }).await.unwrap_err();
    assert!(matches!(error, RuntimeError::Unsupported { .. }), "{error}");
    assert!(matches!(cri.attach(&id).await, Err(RuntimeError::Unsupported { .. })));
    let missing = cri.start("none").await.unwrap_err();
    assert!(matches!(missing, RuntimeError::NotFound(_)), "{missing}");
}

#[tokio::test]
async fn what_the_protocol_cannot_say_is_named_before() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::start(&folder.path().join("cri.sock"), Manner::default());
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

#[tokio::test]
async fn a_runtime_that_was_restarted_is_connected_to_again() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("cri.sock");
    let mut double = Double::start(&socket, Manner::default());
    let cri = Cri::connect(&socket, "node-1").await.unwrap();
    double.stop().await;
    assert!(cri.list().await.is_err());
    let _again = Double::start(&socket, Manner::default());
    // One call may still meet the old connection.
    let _ = cri.list().await;
    assert_eq!(cri.list().await.unwrap().len(), 0);
}
