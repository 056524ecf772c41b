//! The record of decisions about devices: it outlives events, objects and crashes, is bounded, and is read by permitted users.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use support::{LAZARET, wait_until};

const AUDIT: &str = "/lazaret/audit";
const GUARDS: &str = "/apis/lazaret.dev/v1alpha1/disruptionguards";
const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const DRIVER: &str = "gpu.example.com";

/// A control plane whose store outlives it.
struct Up {
    process: Child,
    runtime: tokio::runtime::Runtime,
    client: kube::Client,
    folder: PathBuf,
    words: Vec<String>,
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Up {
    fn start(folder: &Path, words: &[&str]) -> Self {
        let mut process = Command::new(LAZARET)
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder)
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().starts_with("kubeconfig: ")).unwrap().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let path = folder.join("kubeconfig");
        let client = runtime.block_on(async {
            let file = kube::config::Kubeconfig::read_from(path).unwrap();
            let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
            kube::Client::try_from(config).unwrap()
        });
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self { process, runtime, client, folder: folder.to_owned(), words }
    }

    /// Ends it as a power failure would, lets `meanwhile` at its files, and starts it again.
    fn kill(self, meanwhile: impl FnOnce(&Path)) -> Self {
        let (folder, words) = (self.folder.clone(), self.words.clone());
        drop(self);
        meanwhile(&folder);
        Self::start(&folder, &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn try_send_as(
        &self,
        user: Option<&str>,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value, String> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let mut request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        if let Some(user) = user {
            request = request.header("Impersonate-User", user);
        }
        let body = if body.is_null() { vec![] } else { body.to_string().into_bytes() };
        let request = request.body(body).unwrap();
        self.runtime.block_on(self.client.request(request)).map_err(|error| error.to_string())
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_send_as(None, method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn records(&self) -> Vec<Value> {
        let (mut all, mut path) = (Vec::new(), AUDIT.to_owned());
        loop {
            let page = self.send("GET", &path, &Value::Null);
            all.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["metadata"]["continue"].as_str() {
                Some(after) => path = format!("{AUDIT}?after={after}"),
                None => return all,
            }
        }
    }

    /// The records of an object, in order.
    fn whats(&self, object: &str) -> Vec<String> {
        let about = |record: &&Value| record["object"] == object;
        self.records()
            .iter()
            .filter(about)
            .map(|record| record["what"].as_str().unwrap().to_owned())
            .collect()
    }

    fn said(&self, words: &[&str]) -> String {
        let kubeconfig = self.folder.join("kubeconfig");
        let output =
            Command::new(LAZARET).arg("device").args(words).env("KUBECONFIG", kubeconfig).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn guard(name: &str) -> Value {
    json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": name}, "spec": {"breaker": {"maxOutOfService": 5}}})
}

fn rule(name: &str, reason: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule",
        "metadata": {"name": name, "annotations": {"lazaret.dev/reason": reason}},
        "spec": {
            "deviceSelector": {"driver": DRIVER, "pool": "node-1", "device": "gpu-0"},
            "taint": {"key": "example.com/fan", "effect": "NoSchedule"},
        },
    })
}

/// Decisions are recorded with who took them, and are there after a crash, each once; exports have them.
#[test]
fn decisions_survive_a_crash_with_who_took_them() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--api-only"]);
    up.send("POST", GUARDS, &guard("fleet"));
    let paused = json!({"spec": {"paused": {"reason": "storm"}}});
    up.send("PATCH", &format!("{GUARDS}/fleet"), &paused);
    let up = up.kill(|_| {});
    up.send("PATCH", &format!("{GUARDS}/fleet"), &json!({"spec": {"paused": null}}));
    up.send("DELETE", &format!("{GUARDS}/fleet"), &Value::Null);
    let up = up.kill(|_| {});
    assert_eq!(up.whats("DisruptionGuard/fleet"), ["GuardSet", "Paused", "Resumed", "GuardRemoved"]);
    let numbers: Vec<u64> = up.records().iter().map(|record| record["sequence"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
    let user = up.records()[0]["user"].as_str().unwrap().to_owned();
    assert!(!user.is_empty(), "the server says who it was");
    let lines = up.said(&["history", "--export", "jsonl"]);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["what"], &first["by"], &first["kept"]),
        (&json!("GuardSet"), &json!(user), &json!("InTheRecord"))
    );
    let events = up.said(&["history", "--export", "cloudevents"]);
    let types: Vec<Value> =
        events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
    assert_eq!(
        types,
        [
            "dev.lazaret.guard.set",
            "dev.lazaret.guard.paused",
            "dev.lazaret.guard.resumed",
            "dev.lazaret.guard.removed"
        ]
    );
    let ids = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone()).collect()
    };
    assert_eq!(
        ids(&events),
        ids(&up.said(&["history", "--export", "cloudevents"])),
        "the same whenever it is exported"
    );
}

/// The newest segment of the log of a store.
fn newest_segment(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder.join("store")).unwrap().map(|file| file.unwrap().path());
    let is_log =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"));
    files.filter(is_log).max().unwrap()
}

/// A power failure tears the last commit: the decision and its record are lost together, and everything before them is there.
#[test]
fn a_torn_end_loses_a_decision_and_its_record_together() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--api-only"]);
    for name in ["a", "b", "c"] {
        up.send("POST", GUARDS, &guard(name));
    }
    let up = up.kill(|folder| {
        let path = newest_segment(folder);
        let bytes = fs::read(&path).unwrap();
        // The last write is the guard c with its record: half of it stays.
        let at = bytes.windows(8).rposition(|window| window == b"guard c ").unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(at as u64).unwrap();
    });
    let guards = up.send("GET", GUARDS, &Value::Null);
    let names: Vec<&Value> =
        guards["items"].as_array().unwrap().iter().map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(names, ["a", "b"]);
    let recorded: Vec<Value> = up.records().iter().map(|record| record["object"].clone()).collect();
    assert_eq!(recorded, ["DisruptionGuard/a", "DisruptionGuard/b"]);
    // The numbers go on.
    up.send("POST", GUARDS, &guard("d"));
    assert_eq!(up.whats("DisruptionGuard/d"), ["GuardSet"]);
}

/// The record has a limit in bytes: the oldest go, the newest stay, one kind does not push out another, and it is so after a restart.
#[test]
fn the_oldest_records_of_a_kind_go_and_others_stay() {
    const BYTES_MAX: usize = 8_192;
    let folder = tempfile::tempdir().unwrap();
    let words = ["--api-only", "--audit-bytes-max", &BYTES_MAX.to_string()].map(str::to_owned);
    let up = Up::start(folder.path(), &words.each_ref().map(String::as_str));
    up.send("POST", GUARDS, &guard("fleet"));
    let reason = "x".repeat(500);
    let write = |up: &Up, rounds: usize| {
        for _ in 0..rounds {
            up.send("POST", RULES, &rule("r", &reason));
            up.send("DELETE", &format!("{RULES}/r"), &Value::Null);
        }
    };
    write(&up, 20);
    let check = |up: &Up| {
        let rules: Vec<Value> =
            up.records().into_iter().filter(|record| record["object"] == "DeviceTaintRule/r").collect();
        let bytes: usize = rules.iter().map(|record| record.to_string().len()).sum();
        assert!(rules.len() > 5 && rules.len() < 30, "{} records", rules.len());
        assert!(bytes < BYTES_MAX + 2_048, "{bytes} bytes");
        assert_eq!(rules.last().unwrap()["what"], "TaintRemoved", "the newest is there");
        assert_eq!(up.whats("DisruptionGuard/fleet"), ["GuardSet"], "of another kind nothing goes");
        rules.last().unwrap()["sequence"].as_u64().unwrap()
    };
    let before = check(&up);
    let up = up.kill(|_| {});
    assert_eq!(check(&up), before);
    write(&up, 3);
    assert!(check(&up) > before, "numbers are not used again");
}

/// Events are gone after their time; what happened to a device is known on, also when the device itself is gone.
#[test]
fn history_outlives_events() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--nodes", "1", "--devices", "1", "--event-ttl", "1"]);
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
        {"name": "gpu", "exactly": {"deviceClassName": DRIVER}},
    ]}}});
    wait_until("there is a class", || up.try_send_as(None, "POST", CLAIMS, &claim).is_ok());
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        },
    });
    wait_until("pods may be made", || up.try_send_as(None, "POST", PODS, &pod).is_ok());
    wait_until("the pod runs", || {
        up.send("GET", &format!("{PODS}/p"), &Value::Null)["status"]["phase"] == "Running"
    });
    up.said(&["taint", "node-1/gpu-0", "example.com/fan:NoExecute", "--reason", "fan is loud"]);
    wait_until("the pod is evicted", || {
        up.try_send_as(None, "GET", &format!("{PODS}/p"), &Value::Null).is_err()
    });
    wait_until("that is recorded", || up.whats("Pod/default/p") == ["PodEvicted"]);
    up.said(&["taint", "node-1/gpu-0", "example.com/fan-"]);
    wait_until("events are gone", || {
        up.send("GET", "/api/v1/events", &Value::Null)["items"].as_array().is_some_and(|events| {
            events.iter().all(|event| {
                event["reason"] != "DeviceTaintManagerEviction" && event["reason"] != "DeviceTaintSet"
            })
        })
    });
    let told = up.said(&["history", "gpu.example.com/node-1/gpu-0", "-o", "json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let whats: Vec<&Value> = told["entries"].as_array().unwrap().iter().map(|entry| &entry["what"]).collect();
    assert_eq!(whats, ["TaintSet", "PodEvicted", "TaintRemoved"], "{told}");
    assert_eq!(told["entries"][0]["reason"], "fan is loud");
    assert!(told["entries"][1]["text"].as_str().unwrap().starts_with("pod default/p evicted"), "{told}");
}

/// A user who may list a kind everywhere may read its records; a user who may list none is refused.
#[test]
fn each_kind_is_read_by_those_who_may_list_it() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--api-only"]);
    up.send("POST", GUARDS, &guard("fleet"));
    up.send("POST", RULES, &rule("r", "because"));
    let read = |user: &str| up.try_send_as(Some(user), "GET", AUDIT, &Value::Null);
    assert!(read("eve").is_err_and(|why| why.contains("cannot list any of the kinds")));
    let role = json!({"metadata": {"name": "guards"}, "rules": [
        {"apiGroups": ["lazaret.dev"], "resources": ["disruptionguards"], "verbs": ["list"]},
    ]});
    let binding = json!({
        "metadata": {"name": "guards"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "guards"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    up.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role);
    up.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
    let page = read("eve").unwrap();
    let objects: Vec<&Value> =
        page["items"].as_array().unwrap().iter().map(|record| &record["object"]).collect();
    assert_eq!(objects, ["DisruptionGuard/fleet"]);
    assert_eq!(
        page["withheld"],
        json!([
            "deviceincidents",
            "devicetaintpolicies",
            "devicetaintrules",
            "events",
            "resourceslicepatches"
        ])
    );
    assert!(up.try_send_as(None, "GET", "/lazaret/audit?after=x", &Value::Null).is_err());
    assert!(up.try_send_as(None, "DELETE", AUDIT, &Value::Null).is_err(), "nobody takes anything back");
}
