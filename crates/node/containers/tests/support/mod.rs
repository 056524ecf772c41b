//! Helpers of runtime tests: a runtime of their own, an image of busybox, and waiting for an end.

#![allow(dead_code, reason = "not every test file uses everything")]

pub(crate) mod leftover;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use lazaret_containers::{
    Choice, ContainerSpec, ContainerState, Exit, Key, Options, Phase, RootFs, Runtime, SandboxSpec, probe,
};
use lazaret_missing::not_run;
use tempfile::TempDir;

const APPLETS: &[&str] = &[
    "sh", "cat", "echo", "sleep", "true", "false", "tail", "ls", "stty", "tty", "id", "hostname", "ps",
    "head", "yes", "grep", "test", "touch", "env", "kill", "mount", "unshare", "wc", "tr", "mkdir", "seq",
    "nc", "dd", "chroot", "readlink",
];

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A runtime in a directory of its own, with one pod.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) options: Options,
    pub(crate) choice: Choice,
    pub(crate) pod: String,
    pub(crate) image: PathBuf,
    /// The name of the runtime's control groups.
    pub(crate) instance: String,
}

pub(crate) fn options(folder: &Path) -> Options {
    let shim =
        std::env::var_os("LAZARET_TEST_SHIM").unwrap_or_else(|| env!("CARGO_BIN_EXE_lazaret-shim").into());
    Options {
        shim: vec![shim],
        cdi_directories: vec![folder.join("cdi")],
        cni_configurations: folder.join("net.d"),
        cni_programs: vec![folder.join("plugins")],
        ..Options::new(folder.join("state"))
    }
}

impl World {
    /// None, and a line that says so, where this runtime does not work or there is no busybox.
    pub(crate) async fn new(choice: Choice, test: &str) -> Option<Self> {
        leftover::sweep();
        let folder = leftover::folder();
        let options = options(folder.path());
        let instance = leftover::name_instances(&options, choice);
        let image = match busybox(&folder.path().join("image")) {
            Ok(image) => image,
            Err(why) => {
                not_run(test, "busybox", why);
                return None;
            }
        };
        let runtime = match probe(choice, options.clone()).await {
            Ok(runtime) => runtime,
            Err(why) => {
                not_run(test, &format!("{choice:?}").to_lowercase(), why);
                return None;
            }
        };
        let pod = format!("test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let world = Self { folder, runtime, options, choice, pod, image, instance };
        Some(world)
    }

    pub(crate) async fn with_sandbox(choice: Choice, test: &str) -> Option<Self> {
        let world = Self::new(choice, test).await?;
        let state = world.runtime.run_sandbox(world.sandbox()).await.unwrap();
        assert!(state.is_ready);
        assert_eq!(state.id, world.pod);
        Some(world)
    }

    pub(crate) fn sandbox(&self) -> SandboxSpec {
        SandboxSpec {
            pod_uid: self.pod.clone(),
            namespace: "default".into(),
            name: "pod".into(),
            hostname: Some("pod-host".into()),
            log_directory: self.folder.path().join("logs"),
            labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            ..SandboxSpec::default()
        }
    }

    pub(crate) fn spec(&self, name: &str, command: &[&str]) -> ContainerSpec {
        Self::spec_of(&self.pod, &self.image, name, command)
    }

    /// The name of the one pod in a directory.
    pub(crate) fn pod_of(folder: &Path) -> String {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap();
        name.trim_matches(|char: char| !char.is_ascii_alphanumeric()).replace('_', "-").to_lowercase()
    }

    pub(crate) fn spec_of(pod: &str, image: &Path, name: &str, command: &[&str]) -> ContainerSpec {
        let key = Key { pod_uid: pod.to_owned(), name: name.to_owned(), attempt: 0 };
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        ContainerSpec {
            env: vec!["PATH=/bin".into()],
            image: "busybox:test".into(),
            image_id: "sha256:0".into(),
            ..ContainerSpec::new(key, RootFs::Layers(vec![image.to_owned()]), command)
        }
    }

    pub(crate) fn shell(&self, name: &str, script: &str) -> ContainerSpec {
        self.spec(name, &["/bin/sh", "-c", script])
    }

    /// Makes and starts a container.
    pub(crate) async fn run(&self, spec: ContainerSpec) -> String {
        let id = self.runtime.create(&self.pod, spec).await.unwrap();
        self.runtime.start(&id).await.unwrap();
        id
    }

    pub(crate) async fn state(&self, id: &str) -> Option<ContainerState> {
        let sandboxes = self.runtime.list().await.unwrap();
        sandboxes.into_iter().flat_map(|sandbox| sandbox.containers).find(|state| state.id == id)
    }

    pub(crate) async fn phase(&self, id: &str) -> Phase {
        self.state(id).await.unwrap().phase
    }

    /// How a container ended, when it has.
    pub(crate) async fn exit(&self, id: &str) -> Exit {
        let mut changes = self.runtime.changes();
        loop {
            changes.mark_unchanged();
            if let Phase::Exited(exit) = self.phase(id).await {
                return exit;
            }
            changes.changed().await.unwrap();
        }
    }

    pub(crate) async fn run_to_end(&self, spec: ContainerSpec) -> (Exit, String) {
        let id = self.run(spec).await;
        let exit = self.exit(&id).await;
        (exit, self.log(&id).await)
    }

    /// The content of the log, without times.
    pub(crate) async fn log(&self, id: &str) -> String {
        let path = self.state(id).await.unwrap().log;
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| format!("{}\n", line.split_once(' ').unwrap().1)).collect()
    }

    /// Waits until the log has this text.
    pub(crate) async fn logged(&self, id: &str, text: &str) {
        loop {
            // In this order: what it wrote before it ended is in the log then.
            let has_ended = matches!(self.phase(id).await, Phase::Exited(_));
            let log = self.log(id).await;
            if log.contains(text) {
                return;
            }
            assert!(!has_ended, "ended without {text:?}: {log}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn end(self) {
        self.runtime.remove_sandbox(&self.pod).await.unwrap();
        assert_eq!(self.runtime.list().await.unwrap(), []);
        drop(self.runtime);
        assert_eq!(leftover::groups_of(&self.instance), Vec::<PathBuf>::new());
    }
}

/// Copies a program by another process. A file that this one writes may still be open for writing in a child that another test has just forked, and
/// then it cannot be executed.
pub(crate) fn copy_program(from: &Path, to: &Path) -> Result<(), String> {
    let copied = Command::new("cp").arg(from).arg(to).output().map_err(|error| error.to_string())?;
    if copied.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&copied.stderr).into_owned()) }
}

/// A layer with busybox and links to it.
pub(crate) fn busybox(folder: &Path) -> Result<PathBuf, String> {
    let found = ["/bin/busybox", "/usr/bin/busybox"].into_iter().map(Path::new).find(|path| path.is_file());
    let program = found.ok_or("there is no busybox")?;
    for name in ["bin", "tmp", "etc"] {
        fs::create_dir_all(folder.join(name)).map_err(|error| error.to_string())?;
    }
    copy_program(program, &folder.join("bin/busybox"))?;
    for name in APPLETS {
        std::os::unix::fs::symlink("busybox", folder.join("bin").join(name))
            .map_err(|error| error.to_string())?;
    }
    Ok(folder.to_owned())
}
