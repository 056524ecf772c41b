//! `lazaret store` as a user runs it, beside a running server and without one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use support::LAZARET;

/// The content of a Secret, which must not be found in files.
const SECRET: &str = "aHVudGVyMi1odW50ZXIyLWh1bnRlcjI=";

/// `lazaret up --api-only` with a store on disk; killed with this.
struct Running {
    process: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct StoreDirectory {
    folder: tempfile::TempDir,
}

impl StoreDirectory {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The words of a command, with the data directory and the keys.
    fn words(&self, words: &[&str], data: &str) -> Vec<String> {
        let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        all.extend(["--data-dir".into(), self.path(data).display().to_string()]);
        all.extend(["--encryption-key-file".into(), self.path("keys").display().to_string()]);
        all
    }

    fn up(&self, data: &str) -> Running {
        let mut process = Command::new(LAZARET)
            .args(self.words(&["up", "--api-only", "--listen", "127.0.0.1:0"], data))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().starts_with("kubeconfig: ")).unwrap().unwrap();
        Running { process }
    }

    /// Runs `lazaret store`; tells code, output and notes.
    fn store(&self, words: &[&str], data: &str) -> (i32, String, String) {
        let mut all = vec!["store"];
        all.extend(words);
        run(&self.words(&all, data))
    }

    fn json(&self, words: &[&str], data: &str) -> Value {
        let mut all = words.to_vec();
        all.extend(["-o", "json"]);
        let (code, output, notes) = self.store(&all, data);
        assert_eq!(code, 0, "{output}{notes}");
        serde_json::from_str(&output).unwrap()
    }
}

fn run(words: &[String]) -> (i32, String, String) {
    let output = Command::new(LAZARET).args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn send(kubeconfig: &Path, method: &str, path: &str, body: &Value) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let file = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request =
            http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        client.request(request.body(body).unwrap()).await.unwrap()
    })
}

fn holds(dir: &Path, text: &str) -> bool {
    let mut files = fs::read_dir(dir).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    files.any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

#[test]
fn a_store_is_encrypted_checked_backed_up_rotated_and_restored() {
    let home = StoreDirectory { folder: tempfile::tempdir().unwrap() };
    let keys = home.path("keys");
    let new_key = |rotate: &[&str]| {
        let mut words = vec!["store".to_owned(), "new-key".into(), keys.display().to_string()];
        words.extend(rotate.iter().map(|word| (*word).to_owned()));
        run(&words)
    };
    assert_eq!(new_key(&[]).0, 0);
    assert_eq!(new_key(&[]).0, 1, "a key file is never overwritten");
    assert_eq!(keys.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let server = home.up("data");
    let kubeconfig = home.path("data/kubeconfig");
    let secret = serde_json::json!({"metadata": {"name": "s"}, "data": {"password": SECRET}});
    send(&kubeconfig, "POST", "/api/v1/namespaces/default/secrets", &secret);
    assert!(!holds(&home.path("data/store"), SECRET));
    for entry in
        fs::read_dir(home.path("data/store")).unwrap().chain(fs::read_dir(home.path("data")).unwrap())
    {
        let metadata = entry.unwrap().metadata().unwrap();
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.permissions().mode() & 0o777, expected);
    }

    // While it runs.
    let checked = home.json(&["verify"], "data");
    assert_eq!((&checked["intact"], &checked["tailBytes"]), (&true.into(), &0.into()), "{checked}");
    let backup = home.path("backup").display().to_string();
    let backed_up = home.json(&["backup", &backup], "data");
    let compacted = home.json(&["compact"], "data");
    assert_eq!(compacted["items"], backed_up["items"]);
    assert_eq!(home.store(&["restore", &backup], "data").0, 1, "a store that is there is never replaced");
    drop(server);

    // A rotation: the old key is needed until everything is written anew.
    assert_eq!(new_key(&["--rotate"]).0, 0);
    let text = home.store(&["verify"], "data").1;
    assert!(text.contains("intact: ") && !text.contains("may be removed"), "{text}");
    home.json(&["compact"], "data");
    let text = home.store(&["verify"], "data").1;
    assert!(text.contains("is not used by any file: it may be removed from the key file"), "{text}");

    // The backup is in the old key, which is still in the file.
    home.json(&["restore", &backup], "restored");
    let server = home.up("restored");
    let secret =
        send(&home.path("restored/kubeconfig"), "GET", "/api/v1/namespaces/default/secrets/s", &Value::Null);
    assert_eq!(secret["data"]["password"], SECRET);
    drop(server);

    let (code, _, notes) = run(&[
        "up".into(),
        "--api-only".into(),
        "--data-dir".into(),
        home.path("data").display().to_string(),
    ]);
    assert!(
        code == 1 && notes.contains("is encrypted with key key-") && notes.contains("no key file was given"),
        "{notes}"
    );
    let log = fs::read_dir(home.path("data/store")).unwrap().map(|entry| entry.unwrap().path());
    let snapshot = log.into_iter().find(|path| path.to_string_lossy().contains("snapshot-")).unwrap();
    let mut bytes = fs::read(&snapshot).unwrap();
    bytes[200] ^= 1;
    fs::write(&snapshot, bytes).unwrap();
    let (code, text, _) = home.store(&["verify"], "data");
    assert!(code == 2 && text.starts_with("damaged: snapshot-"), "{code} {text}");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, _, notes) = home.store(&["verify"], "data");
    assert!(code == 1 && notes.contains("is open to others"), "{notes}");
}
