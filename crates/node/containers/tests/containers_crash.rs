//! An agent, a shim or both are killed at every step of a pod's start: the next agent leaves nothing.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and one that did not run says so"
)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use lazaret_containers::{Choice, Namespaces, Phase, RootFs, SandboxSpec, probe};
use lazaret_missing::not_run;
use rustix::process::{Pid, Signal, kill_process};
use support::{World, leftover};

/// Files that appear one after another while a pod starts, below the state of its runtime. `POD` and `MAIN` stand for its directories.
const STEPS: &[&str] = &[
    "POD",
    "POD/hold.json",
    "POD/shm",
    "POD/pause.lock",
    "POD/ns/pid",
    "POD/sandbox.json",
    "MAIN",
    "MAIN/bundle/config.json",
    "MAIN/shim.json",
    "MAIN/lock",
    "MAIN/socket",
    "MAIN/oci.log",
    "oci/ID",
    "oci/ID/state.json",
    "MAIN/pid",
    "MAIN/container.json",
    "MAIN/report",
    "MAIN/process.json",
    "MAIN/started.json",
];
/// The agent's input, as environment variables.
const FOLDER: &str = "LAZARET_CRASH_FOLDER";
const RUNTIME: &str = "LAZARET_CRASH_RUNTIME";
const DIRECTORY: &str = "LAZARET_CRASH_DIRECTORY";
/// For an agent to notice that a shim was killed, on a machine that is very slow.
const PATIENCE: Duration = Duration::from_secs(120);
/// For killed processes to be gone: two minutes.
const POLLS_MAX: u32 = 6_000;
const LOOK: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Agent,
    Shim,
    Both,
}

#[test]
fn nothing_is_left_of_runc_whoever_is_killed_when() {
    killed_at_every_step("runc", "nothing_is_left_of_runc_whoever_is_killed_when");
}

/// A root directory stays when everything of a container is removed, so a program that outlived its shim could make the container after that.
#[test]
fn nothing_is_left_of_runc_whose_shim_is_killed_while_it_makes_a_container() {
    let test = "nothing_is_left_of_runc_whose_shim_is_killed_while_it_makes_a_container";
    for _ in 0..4 {
        for step in ["MAIN/socket", "MAIN/oci.log", "oci/ID"] {
            let crash = Crash { has_directory: true, ..Crash::new("runc") };
            if let Outcome::NotRun(why) = crash.at(step, Victim::Shim) {
                return not_run(test, "runc", why);
            }
        }
    }
}

#[test]
fn nothing_is_left_of_namespaces_whoever_is_killed_when() {
    killed_at_every_step("namespaces", "nothing_is_left_of_namespaces_whoever_is_killed_when");
}

#[test]
fn nothing_is_left_of_processes_whoever_is_killed_when() {
    killed_at_every_step("processes", "nothing_is_left_of_processes_whoever_is_killed_when");
}

/// The agent of the tests above, in a process of its own.
#[tokio::test]
async fn agent_that_is_killed() {
    let (Some(folder), Ok(runtime)) = (std::env::var_os(FOLDER), std::env::var(RUNTIME)) else { return };
    let folder = PathBuf::from(folder);
    let choice: Choice = runtime.parse().unwrap();
    let runtime = match probe(choice, support::options(&folder)).await {
        Ok(runtime) => runtime,
        Err(why) => return println!("NOT RUN {why}"),
    };
    println!("BEGINS");
    let image = folder.join("image");
    let pod = World::pod_of(&folder);
    let result = async {
        runtime.run_sandbox(sandbox(&folder, &pod)).await?;
        let shell = if choice == Choice::Processes { "sh" } else { "/bin/sh" };
        let command = [shell, "-c", "while :; do sleep 0.05; done", &pod];
        let mut spec = World::spec_of(&pod, &image, "main", &command);
        if choice == Choice::Processes {
            spec.root = RootFs::Directory("/".into());
        } else if std::env::var_os(DIRECTORY).is_some() {
            spec.root = RootFs::Directory(image.clone());
        }
        let id = runtime.create(&pod, spec).await?;
        runtime.start(&id).await
    };
    match result.await {
        Ok(()) => println!("RUNS"),
        Err(error) => println!("FAILED {error}"),
    }
    std::future::pending().await
}

fn sandbox(folder: &Path, pod: &str) -> SandboxSpec {
    SandboxSpec {
        pod_uid: pod.to_owned(),
        namespaces: Namespaces { host_network: true, shared_pid: true, ..Namespaces::default() },
        log_directory: folder.join("logs"),
        ..SandboxSpec::default()
    }
}

fn killed_at_every_step(runtime: &'static str, test: &str) {
    let mut seen = 0;
    for victim in [Victim::Agent, Victim::Shim, Victim::Both] {
        for step in STEPS {
            match Crash::new(runtime).at(step, victim) {
                Outcome::NotRun(why) => return not_run(test, runtime, why),
                Outcome::NoSuchStep => {}
                Outcome::Killed => seen += 1,
            }
        }
    }
    // Each runtime has the steps of making a sandbox and a container; so this ran.
    assert!(seen >= 12, "{seen} steps were seen");
}

enum Outcome {
    NotRun(String),
    NoSuchStep,
    Killed,
}

struct Crash {
    folder: tempfile::TempDir,
    runtime: &'static str,
    choice: Choice,
    instance: String,
    pod: String,
    /// Whether the container has a root directory in place of layers.
    has_directory: bool,
}

impl Crash {
    fn new(runtime: &'static str) -> Self {
        leftover::sweep();
        let folder = leftover::folder();
        let choice: Choice = runtime.parse().unwrap();
        let instance = leftover::name_instances(&support::options(folder.path()), choice);
        let pod = World::pod_of(folder.path());
        Self { folder, runtime, choice, instance, pod, has_directory: false }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state").join(self.runtime)
    }

    fn main(&self) -> PathBuf {
        self.state().join("sandboxes").join(&self.pod).join("containers/main-0")
    }

    fn at(&self, step: &str, victim: Victim) -> Outcome {
        if let Err(why) = support::busybox(&self.folder.path().join("image")) {
            return Outcome::NotRun(why);
        }
        let path = self.path(step);
        let mut agent = self.start_agent();
        let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
        let begins = lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.contains("BEGINS") || line.contains("NOT RUN"));
        match begins {
            Some(line) if line.contains("BEGINS") => {}
            other => {
                end(&mut agent);
                return Outcome::NotRun(other.unwrap_or_default());
            }
        }
        // The next line comes when there are no more steps.
        let (sender, said) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in
                lines.map_while(Result::ok).filter(|line| line.contains("RUNS") || line.contains("FAILED"))
            {
                let _ = sender.send(line);
            }
        });
        let mut is_over = false;
        while !path.exists() && !is_over {
            is_over = said.try_recv().is_ok();
        }
        let is_seen = path.exists();
        let killed = is_seen && self.kill(victim, &agent);
        if victim == Victim::Shim && killed && !is_over {
            // The agent notices, and does what it does.
            let _ = said.recv_timeout(PATIENCE);
        }
        end(&mut agent);
        reader.join().unwrap();
        self.next_agent(step, victim);
        if killed { Outcome::Killed } else { Outcome::NoSuchStep }
    }

    fn path(&self, step: &str) -> PathBuf {
        let pod = format!("sandboxes/{}", self.pod);
        let step = step
            .replace("MAIN", &format!("{pod}/containers/main-0"))
            .replace("POD", &pod)
            .replace("ID", &format!("{}_main_0", self.pod));
        self.state().join(step)
    }

    fn start_agent(&self) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "agent_that_is_killed", "--nocapture"])
            .env(FOLDER, self.folder.path())
            .env(RUNTIME, self.runtime)
            .envs(self.has_directory.then_some((DIRECTORY, "1")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Whether there was a process to kill.
    fn kill(&self, victim: Victim, agent: &Child) -> bool {
        let shim = || fs::read_to_string(self.main().join("lock")).ok()?.parse().ok().and_then(Pid::from_raw);
        let agent = i32::try_from(agent.id()).ok().and_then(Pid::from_raw);
        let victims = match victim {
            Victim::Agent => vec![agent],
            Victim::Shim => vec![shim()],
            Victim::Both => vec![agent, shim()],
        };
        let is_complete = victims.iter().all(Option::is_some);
        for victim in victims.into_iter().flatten() {
            let _ = kill_process(victim, Signal::KILL);
        }
        is_complete
    }

    /// Lists sandboxes and containers, removes them as for a deleted pod, and looks for leftovers.
    fn next_agent(&self, step: &str, victim: Victim) {
        let at = format!("{} with {victim:?} killed at {step}", self.runtime);
        let threads =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        threads.block_on(async {
            let runtime = probe(self.choice, support::options(self.folder.path())).await.unwrap();
            let listed = runtime.list().await.unwrap();
            if victim == Victim::Agent {
                let is_lost = |phase: &Phase| matches!(phase, Phase::Exited(_));
                let lost =
                    listed.iter().flat_map(|sandbox| &sandbox.containers).find(|found| is_lost(&found.phase));
                assert!(lost.is_none(), "{at}: {lost:?}");
            }
            for sandbox in listed {
                runtime.remove_sandbox(&sandbox.id).await.unwrap_or_else(|error| panic!("{at}: {error}"));
            }
        });
        drop(threads);
        let mut left = self.left();
        for _ in 0..POLLS_MAX {
            if left.is_empty() {
                return;
            }
            std::thread::sleep(LOOK);
            left = self.left();
        }
        panic!("{at}: {left:#?}");
    }

    fn left(&self) -> Vec<String> {
        let folder = self.folder.path();
        let mut left: Vec<String> = Vec::new();
        left.extend(leftover::mounts_below(folder).iter().map(|path| format!("mount {}", path.display())));
        let groups = leftover::groups_of(&self.instance);
        left.extend(groups.iter().map(|path| format!("group {}", path.display())));
        let texts = [folder.to_str().unwrap(), &self.pod];
        left.extend(leftover::processes_with(&texts).into_iter().map(|line| format!("process {line}")));
        for directory in ["sandboxes", "oci"] {
            let entries = fs::read_dir(self.state().join(directory)).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| format!("directory {}", entry.path().display())));
        }
        left
    }
}

fn end(agent: &mut Child) {
    let _ = agent.kill();
    agent.wait().unwrap();
}
