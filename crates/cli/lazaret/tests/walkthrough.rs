//! Documents that show a cluster at work are walked: the `lazaret up` that they name, then every command.
//!
//! In a block ```` ```walk ```` a line `$ COMMAND` is run and must print what follows it, both streams together. `…` stands for anything: within
//! a line for any characters, alone on a line for any lines. A command that only reads is retried until it prints that, for a cluster takes its time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../../../check/testkit/tests/tools/mod.rs"]
mod tools;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A machine may be slow; a cluster that has not got there by then will not.
const PATIENCE: Duration = Duration::from_secs(180);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

struct Cluster {
    process: Child,
    folder: tempfile::TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Cluster {
    /// With these words after `lazaret`, as a document has them.
    fn start(words: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lazaret = env!("CARGO_BIN_EXE_lazaret");
        let links = folder.path().join("bin");
        fs::create_dir(&links).unwrap();
        // As README.md says: two links, and kubectl knows the plugin.
        for (name, program) in [
            ("lazaret", Path::new(lazaret)),
            ("kubectl-device", Path::new(lazaret)),
            ("kubectl_complete-device", Path::new(lazaret)),
            ("kubectl", &tools::kubectl()),
        ] {
            std::os::unix::fs::symlink(program, links.join(name)).unwrap();
        }
        let mut process = Command::new(lazaret)
            .args(words)
            .args(["--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().unwrap().starts_with("kubeconfig: ")).unwrap().unwrap();
        let kubeconfig = line.strip_prefix("kubeconfig: ").unwrap().to_owned();
        fs::write(folder.path().join("kubeconfig"), fs::read(kubeconfig).unwrap()).unwrap();
        Self { process, folder }
    }

    fn run(&self, command: &str) -> String {
        let here = self.folder.path();
        let path = format!("{}:{}", here.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1; {command}")])
            .current_dir(root())
            .env("PATH", path)
            .env("KUBECONFIG", here.join("kubeconfig"))
            .env("XDG_CACHE_HOME", here)
            .env("HOME", here)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command that a document names; what acts is run once.
    fn walk(&self, command: &str, wanted: &[String]) {
        let looks = ["list", "describe", "why", "history", "plan", "check"]
            .iter()
            .any(|word| command.starts_with(&format!("kubectl device {word}")));
        self.run_until(command, wanted, looks);
    }

    /// Runs a command until it prints what it should.
    fn wait(&self, command: &str, wanted: &[String]) {
        self.run_until(command, wanted, true);
    }

    #[allow(clippy::disallowed_methods, reason = "patience needs a clock")]
    fn run_until(&self, command: &str, wanted: &[String], looks: bool) {
        let started = Instant::now();
        loop {
            let printed = self.run(command);
            // A command that takes longer than ten seconds prints its progress.
            let lines: Vec<&str> = printed.lines().filter(|line| !line.contains(" elapsed: ")).collect();
            if matches(&lines, wanted) {
                return;
            }
            assert!(
                looks && started.elapsed() < PATIENCE,
                "$ {command}\n--- printed\n{printed}\n--- written\n{}",
                wanted.join("\n")
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Whether lines are as written.
fn matches(lines: &[&str], wanted: &[String]) -> bool {
    match wanted.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "…" => (0..=lines.len()).any(|at| matches(&lines[at..], rest)),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, others)| matches_line(line, first) && matches(others, rest)),
    }
}

fn matches_line(line: &str, wanted: &str) -> bool {
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, wanted) = (squeeze(line), squeeze(wanted));
    let mut parts = wanted.split('…').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Starts the cluster that a document names and runs all its commands.
fn walk(document: &str, commands_min: usize) {
    let document = fs::read_to_string(root().join(document)).unwrap();
    let up = document.lines().find_map(|line| line.strip_prefix("lazaret up ")).unwrap();
    let words: Vec<&str> = ["up"].into_iter().chain(up.split_whitespace()).collect();
    let cluster = Cluster::start(&words);
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for block in document.split("```walk\n").skip(1) {
        for line in block.split("\n```").next().unwrap().lines() {
            match line.strip_prefix("$ ") {
                Some(command) => commands.push((command.to_owned(), Vec::new())),
                None => commands.last_mut().unwrap().1.push(line.to_owned()),
            }
        }
    }
    assert!(commands.len() >= commands_min, "only {} commands were found", commands.len());
    // A person is not as fast: where pods are placed depends on which nodes are there.
    let nodes = words.iter().skip_while(|word| **word != "--nodes").nth(1).unwrap();
    let published = format!("kubectl get resourceslices -o name | wc -l | grep -qx {nodes} && echo all");
    cluster.wait(&published, &["all".to_owned()]);
    for (command, wanted) in commands {
        cluster.walk(&command, &wanted);
    }
}

#[test]
fn the_walk_through_can_be_walked() {
    walk("docs/walkthrough.md", 10);
}

#[test]
fn two_minutes_of_the_readme_can_be_walked() {
    walk("README.md", 9);
}

#[test]
fn an_installation_can_be_walked() {
    walk("docs/install.md", 7);
}

/// Commands and flags that README.md names in its sentences and tables are those of the binary.
#[test]
fn commands_that_the_readme_names_exist() {
    let document = fs::read_to_string(root().join("README.md")).unwrap();
    let named: Vec<&str> = document
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|code| code.starts_with("lazaret ") || code.starts_with("kubectl device "))
        .collect();
    assert!(named.len() >= 8, "only {named:?}");
    for code in named {
        let code = code.replace("kubectl device", "lazaret device");
        let mut words = code.split_whitespace().skip(1);
        let command = words.next().unwrap();
        if command == "…" {
            continue;
        }
        let help = Command::new(env!("CARGO_BIN_EXE_lazaret")).args([command, "--help"]).output().unwrap();
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.status.success(), "{code}: no such command");
        // `A|B` are alternatives, `…` and capitals stand for something.
        for word in words.flat_map(|word| word.split(['|', '\\'])) {
            let meant = word != "…" && !word.contains('/') && !word.chars().all(char::is_uppercase);
            assert!(!meant || text.contains(word), "{code}: `lazaret {command} --help` does not know {word}");
        }
    }
}

#[test]
fn dots_stand_for_anything() {
    let wanted = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(matches(&["a b  c", "x", "y", "end"], &wanted(&["a … c", "…", "end"])));
    assert!(matches(&["end"], &wanted(&["…", "end"])));
    assert!(!matches(&["a b d"], &wanted(&["a … c"])));
    assert!(!matches(&["a", "more"], &wanted(&["a"])));
}
