//! The API as the official Python client uses it. Needs `python3` with `venv`, and a package index for the first run.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

use lazaret_testkit::Cluster;

const REQUIREMENTS: &str = include_str!("../python/requirements.txt");

/// Runs a program; what it said is part of the failure.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("run {command:?}: {error}. The whole suite needs python3 with venv and pip, as README.md says")
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, complaints) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}\n{out}\n{complaints}", output.status);
    out
}

/// An interpreter with the client installed, made once for each set of requirements and kept beside what cargo built.
fn interpreter() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    REQUIREMENTS.hash(&mut hasher);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-{:016x}", hasher.finish()));
    let python = folder.join("bin/python");
    let ready = folder.join("ready");
    if !ready.exists() {
        // Half of an earlier attempt is worth nothing.
        let _ = fs::remove_dir_all(&folder);
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
        let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/requirements.txt");
        let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
        run(Command::new(&python).args(quiet).arg(requirements));
        fs::write(ready, REQUIREMENTS).unwrap();
    }
    python
}

#[test]
fn the_official_python_client_works() {
    let cluster = Cluster::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/client.py");
    let said = run(Command::new(interpreter()).arg(script).env("KUBECONFIG", cluster.kubeconfig()));
    println!("{said}");
}
