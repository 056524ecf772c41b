//! Programs of others that tests run, installed from a package index the first time and kept beside what cargo built. A test without its program
//! fails: one that passed would have tested nothing.
#![allow(dead_code, reason = "not every test needs every program")]

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The official Kubernetes client for Python, and what it needs.
const CLIENT: &str = "requirements.txt";
/// kubectl itself.
const KUBECTL: &str = "kubectl.txt";
/// Helm.
const HELM: &str = "helm.txt";
/// axe, which finds what people with a screen reader or without a mouse cannot use in a page.
const AXE: &str = "axe.txt";
/// Node with npm, for modules of the dashboard without a browser.
const NODE: &str = "node.txt";

/// Runs a program; what it said is part of the failure.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    run_with(command, b"")
}

/// Runs a program that reads this.
#[track_caller]
pub(crate) fn run_with(command: &mut Command, input: &[u8]) -> String {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = piped.spawn().and_then(|mut child| {
        let mut stdin = child.stdin.take();
        std::thread::scope(|scope| {
            // A program may write before it has read everything, or end without reading; its status says what became of it.
            scope.spawn(move || stdin.take().map(|mut stdin| stdin.write_all(input)));
            child.wait_with_output()
        })
    });
    let output = output.unwrap_or_else(|error| {
        panic!("run {command:?}: {error}. The whole suite needs python3 with venv and pip, as README.md says")
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, complaints) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}\n{out}\n{complaints}", output.status);
    out
}

/// A Python interpreter with the official client.
pub(crate) fn python() -> PathBuf {
    environment(CLIENT).join("bin/python")
}

/// A kubectl: the one that `KUBECTL` names, or one of the release that Lazaret is compatible with.
pub(crate) fn kubectl() -> PathBuf {
    match env::var_os("KUBECTL") {
        Some(program) => program.into(),
        None => environment(KUBECTL).join("bin/kubectl"),
    }
}

/// A Helm: the one that `HELM` names, or one that is known to work.
pub(crate) fn helm() -> PathBuf {
    match env::var_os("HELM") {
        Some(program) => program.into(),
        None => environment(HELM).join("bin/helm"),
    }
}

/// The script of axe: the one that `AXE` names, or one that is known to work.
pub(crate) fn axe() -> PathBuf {
    if let Some(script) = env::var_os("AXE") {
        return script.into();
    }
    let libraries = fs::read_dir(environment(AXE).join("lib")).unwrap().map(|entry| entry.unwrap().path());
    let scripts = libraries.map(|library| library.join("site-packages/axe_playwright_python/axe.min.js"));
    scripts.into_iter().find(|script| script.is_file()).unwrap_or_else(|| panic!("no axe.min.js in {AXE}"))
}

/// Node: the one that `NODE` names, or one that is known to work.
pub(crate) fn node() -> Command {
    let own = || environment(NODE).join("bin/node").into();
    Command::new(env::var_os("NODE").unwrap_or_else(own))
}

/// The script of the TypeScript compiler, in the version that the dashboard is checked with.
pub(crate) fn typescript() -> PathBuf {
    let dashboard = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../server/dashboard");
    let lock = fs::read_to_string(dashboard.join("package-lock.json")).unwrap();
    let folder = installed("node", &lock, |folder| {
        fs::create_dir(folder).unwrap();
        for file in ["package.json", "package-lock.json"] {
            fs::copy(dashboard.join(file), folder.join(file)).unwrap();
        }
        let quiet = ["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"];
        run(Command::new(environment(NODE).join("bin/npm"))
            .args(quiet)
            .args(["--fetch-retries", "10"])
            .current_dir(folder));
    });
    folder.join("node_modules/typescript/bin/tsc")
}

/// A folder with these packages and no others.
fn environment(file: &str) -> PathBuf {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../check/testkit/tests/python").join(file);
    let wanted = fs::read_to_string(&list).unwrap();
    installed("python", &wanted, |folder| {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder));
        let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"];
        // An index that does not answer at once is asked again.
        let patient = ["--retries", "20", "--timeout", "60", "-r"];
        run(Command::new(folder.join("bin/python")).args(quiet).args(patient).arg(&list));
    })
}

/// A folder that is made once for each list of packages. Tests of several processes may want it at the same time.
fn installed(kind: &str, wanted: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    wanted.hash(&mut hasher);
    let name = format!("{kind}-{:016x}", hasher.finish());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&name);
    let lock = fs::File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let ready = folder.join("ready");
    if !ready.exists() {
        // Half of an earlier attempt is worth nothing.
        let _ = fs::remove_dir_all(&folder);
        make(&folder);
        fs::write(ready, wanted).unwrap();
    }
    folder
}
