//! `lazaret up` and the commands that a test gives it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
};

use serde_json::Value;

use crate::chromium::Page;

const LAZARET: &str = env!("CARGO_BIN_EXE_lazaret");

/// A process that ends with this.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command that prints the address of a dashboard, and gives that address.
fn start(command: &mut Command) -> (Running, String) {
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let running = Running(process);
    let mut line = String::new();
    let address = loop {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "ended before it printed an address");
        if let Some(address) = line.trim().strip_prefix("dashboard: ") {
            // A service keeps the token in a file.
            break match address.split_once(" (the address that signs one browser in: ") {
                Some((_, path)) => fs::read_to_string(path.trim_end_matches(')')).unwrap().trim().to_owned(),
                None => address.to_owned(),
            };
        }
    };
    // Later output is read, so that the process never waits for a reader.
    thread::spawn(move || output.read_to_end(&mut Vec::new()));
    (running, address)
}

/// Simulated nodes with eight devices each, and a kubeconfig.
pub(crate) struct Cluster {
    pub(crate) running: Option<Running>,
    pub(crate) folder: tempfile::TempDir,
    /// With a token that works once.
    pub(crate) address: String,
}

impl Cluster {
    pub(crate) fn start(nodes: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (running, address) = up(&folder.path().join("data"), nodes, "127.0.0.1:0");
        Self { running: Some(running), folder, address }
    }

    /// `https://127.0.0.1:PORT/ui/`.
    pub(crate) fn base(&self) -> String {
        self.address.split('#').next().unwrap().to_owned()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/kubeconfig")
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.running.as_ref().map_or(0, |running| running.0.id())
    }

    /// Ends the server as a crash does.
    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    /// Starts it again at the same address, with the same objects.
    pub(crate) fn again(&mut self, nodes: u32) {
        let listen = self.base().trim_start_matches("https://").trim_end_matches("/ui/").to_owned();
        let (running, address) = up(&self.folder.path().join("data"), nodes, &listen);
        (self.running, self.address) = (Some(running), address);
    }

    /// `kubectl device …`, and what it printed.
    pub(crate) fn device(&self, words: &[&str]) -> String {
        let output = Command::new(LAZARET)
            .arg("device")
            .args(words)
            .env("KUBECONFIG", self.kubeconfig())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// `kubectl device ui`, whose address signs in as the administrator.
    pub(crate) fn ui(&self) -> (Running, String) {
        start(Command::new(LAZARET).args(["device", "ui"]).env("KUBECONFIG", self.kubeconfig()))
    }
}

fn up(folder: &std::path::Path, nodes: u32, listen: &str) -> (Running, String) {
    let nodes = nodes.to_string();
    let words = ["up", "--nodes", &nodes, "--devices", "8", "--listen", listen, "--data-dir"];
    start(Command::new(LAZARET).args(words).arg(folder))
}

/// Asks the API as the page's user: `post`, `get`, `patch` or `remove`.
pub(crate) fn ask(page: &Page<'_>, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { format!(", {body}") };
    page.eval(&format!("lazaret.app.api.{method}({path:?}{body})"))
}
