//! A process of `lazaret run`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::stage::NAMESPACE;

/// One replica.
pub(crate) struct Replica {
    pub(crate) process: Child,
    metrics: String,
    /// Where it serves the webhook, if it does.
    pub(crate) webhook: Option<String>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// As the chart has it: each of the controllers has an account, the scheduler has a process and an account of its own.
fn accounts(words: &[&str]) -> Vec<String> {
    let accounts = format!("--controller-accounts={NAMESPACE}/lazaret");
    if words.contains(&"scheduler") { Vec::new() } else { vec![accounts] }
}

impl Replica {
    pub(crate) fn start(config: &Path, identity: &str, words: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_lazaret"))
            .arg("run")
            .args(words)
            .args(["--metrics-listen", "127.0.0.1:0", "--identity", identity, "--lease-namespace", NAMESPACE])
            .args(accounts(words))
            .arg("--kubeconfig")
            .arg(config)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let metrics = lines.find_map(|line| Some(line.strip_prefix("metrics: http://")?.to_owned())).unwrap();
        let webhook = words
            .contains(&"--webhook-listen")
            .then(|| lines.find_map(|line| Some(line.strip_prefix("webhook: ")?.to_owned())).unwrap());
        std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
        let metrics = metrics.trim_end_matches("/metrics").to_owned();
        Self { process, metrics, webhook }
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut connection = TcpStream::connect(&self.metrics).unwrap();
        write!(connection, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        text
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.get("/readyz").starts_with("HTTP/1.1 200")
    }

    pub(crate) fn signal(&self, name: &str) {
        assert!(
            Command::new("kill").args([name, &self.process.id().to_string()]).status().unwrap().success()
        );
    }
}
