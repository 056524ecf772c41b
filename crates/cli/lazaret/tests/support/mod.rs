//! The binary as a user runs it: a cluster of its own, and commands that can be interrupted.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and says what it runs with"
)]
#![allow(dead_code, reason = "not every test needs everything")]

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use serde_json::Value;

pub(crate) mod node;

/// A machine may be slow; what has not happened by then will not.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// The log of `lazaret up`, in the folder of its data.
const LOG: &str = "standard-error";
pub(crate) const LAZARET: &str = env!("CARGO_BIN_EXE_lazaret");

/// `lazaret up`, ended with this.
pub(crate) struct Cluster {
    process: Child,
    pub(crate) folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    client: kube::Client,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Cluster {
    /// With these words after `up`.
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::start_with("127.0.0.1:0", words)
    }

    /// The same, listening there.
    pub(crate) fn start_with(listen: &str, words: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new(LAZARET)
            .args(["up", "--ephemeral", "--listen", listen, "--data-dir"])
            .arg(folder.path())
            .args(words)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.path().join(LOG)).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().starts_with("kubeconfig: ")).unwrap().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let path = folder.path().join("kubeconfig");
        let client = runtime.block_on(async {
            let file = kube::config::Kubeconfig::read_from(path).unwrap();
            let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
            kube::Client::try_from(config).unwrap()
        });
        Self { process, folder, runtime, client }
    }

    /// A command against this cluster.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(LAZARET);
        command.args(words).env("KUBECONFIG", self.folder.path().join("kubeconfig"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The log of the process so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(LOG)).unwrap()
    }

    /// A request, which must be granted.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_send(method, path, body).unwrap()
    }

    pub(crate) fn try_send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(if body.is_null() { vec![] } else { body.to_string().into_bytes() })
            .unwrap();
        self.runtime.block_on(self.client.request(request)).map_err(|error| error.to_string())
    }

    /// Applies an object, as the administrator or as another user.
    pub(crate) fn apply(&self, user: Option<&str>, path: &str, object: &Value) -> Result<(), String> {
        let mut request = http::Request::builder()
            .method("PATCH")
            .uri(path)
            .header("content-type", "application/apply-patch+yaml");
        if let Some(user) = user {
            request = request.header("Impersonate-User", user);
            if user.starts_with("system:serviceaccount:") {
                request = request.header("Impersonate-Group", "system:serviceaccounts");
            }
        }
        let request = request.body(object.to_string().into_bytes()).unwrap();
        let applied = self.runtime.block_on(self.client.request::<Value>(request));
        applied.map(drop).map_err(|error| error.to_string())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.send("GET", path, &Value::Null)
    }

    /// An answer that is no JSON; empty when it is refused.
    pub(crate) fn text(&self, path: &str) -> String {
        let request = http::Request::get(path).body(vec![]).unwrap();
        self.runtime.block_on(self.client.request_text(request)).unwrap_or_default()
    }

    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let list = self.get(path);
        let names = list["items"].as_array().unwrap().iter();
        names.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        wait_until(what, || is_so(self));
    }
}

#[allow(clippy::disallowed_methods, reason = "patience needs a clock")]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Presses Ctrl-C once a line of standard output or standard error holds `word`, and waits for the end.
pub(crate) fn interrupt_at(mut child: Child, word: &str) -> Output {
    let (sender, lines) = mpsc::channel();
    pump(child.stderr.take().unwrap(), sender.clone(), true);
    pump(child.stdout.take().unwrap(), sender, false);
    let (mut stdout, mut stderr, mut pressed) = (String::new(), String::new(), false);
    while let Ok((error, line)) = lines.recv_timeout(PATIENCE) {
        if !pressed && line.contains(word) {
            pressed = true;
            let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
            assert!(killed.success());
        }
        if error { &mut stderr } else { &mut stdout }.push_str(&line);
    }
    assert!(pressed, "{word:?} was not said:\n{stdout}\n{stderr}");
    let status = child.wait().unwrap();
    Output { status, stdout: stdout.into_bytes(), stderr: stderr.into_bytes() }
}

/// Lines as they come, with whether they were errors.
fn pump(from: impl Read + Send + 'static, to: mpsc::Sender<(bool, String)>, error: bool) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let _ = to.send((error, line.unwrap() + "\n"));
        }
    });
}
