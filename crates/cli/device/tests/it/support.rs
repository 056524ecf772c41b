//! A server in memory, a small fleet, and the command run as a user would.

use std::{
    cell::Cell,
    io::{self, BufReader, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use clap::Parser as _;
use http::Request;
use http_body_util::BodyExt as _;
use lazaret_device::{Args, Console, Session, Verdict};
use lazaret_model::Timestamp;
use lazaret_server::{Access, Authorizer, Features, ObjectStore, Rbac, Server, ServerOptions, User};
use lazaret_store::Store;
use serde_json::{Value, json};

/// Requests that are denied to all users: `verb resource` or `verb /path`, one each.
#[derive(Debug)]
struct AllBut(Vec<&'static str>);

impl Authorizer for AllBut {
    fn access(&self, _: &ObjectStore, _: &User, access: Access<'_>) -> Result<(), String> {
        let wanted = format!("{} {}", access.verb, access.resource);
        if self.0.iter().any(|refused| *refused == wanted) { Err(String::new()) } else { Ok(()) }
    }

    fn path(&self, _: &ObjectStore, _: &User, verb: &str, path: &str) -> Result<(), String> {
        let wanted = format!("{verb} {path}");
        if self.0.iter().any(|refused| *refused == wanted) { Err(String::new()) } else { Ok(()) }
    }
}

/// A cluster to run the command against.
pub(crate) struct Cluster {
    pub(crate) server: Server,
    user: User,
    answers: Option<&'static str>,
    /// Characters in a line, in front of a terminal.
    terminal: Option<usize>,
    plans: tempfile::TempDir,
}

/// The output of a command, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) out: String,
    pub(crate) notes: String,
    pub(crate) verdict: Result<Verdict, String>,
}

impl Ran {
    /// Output of a command that worked; objects' identities, which are random, are made plain.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert!(self.verdict.is_ok(), "{self:?}");
        self.out
    }

    #[track_caller]
    pub(crate) fn error(self) -> String {
        assert_eq!(self.out, "");
        self.verdict.unwrap_err()
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Longer than any timeout here.
const AN_HOUR_MS: i64 = 3_600_000;

thread_local! {
    /// How far the clock of a test is ahead of this machine's. A test has a thread of its own.
    static AHEAD_MS: Cell<i64> = const { Cell::new(0) };
}

/// The time by the clock of the test.
#[allow(clippy::disallowed_methods, reason = "a timeout needs time")]
fn time() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()).plus_millis(AHEAD_MS.get())
}

/// The time in every test: 2026-01-01T12:00:00Z.
pub(crate) fn now() -> Timestamp {
    lazaret_api::parse_time("2026-01-01T12:00:00Z").unwrap()
}

impl Cluster {
    /// An empty cluster of Kubernetes 1.37.
    pub(crate) async fn empty() -> Self {
        Self::with(Features::kubernetes_1_37(), &[], vec![]).await
    }

    /// A cluster in which some things are refused or not served.
    pub(crate) async fn with(
        features: Features,
        served: &[(&str, bool)],
        refused: Vec<&'static str>,
    ) -> Self {
        Self::authorized(features, served, Box::new(AllBut(refused))).await
    }

    /// A cluster with roles and bindings.
    pub(crate) async fn with_roles() -> Self {
        Self::authorized(Features::kubernetes_1_37(), &[], Box::new(Rbac::default())).await
    }

    async fn authorized(
        features: Features,
        served: &[(&str, bool)],
        authorizer: Box<dyn Authorizer>,
    ) -> Self {
        let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
        let options = ServerOptions {
            features,
            runtime_config: served.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect(),
            authorizer,
            token_keys: None,
        };
        let groups = vec!["system:authenticated".to_owned()];
        let user = User { name: "ada@example.com".into(), groups, ..User::default() };
        let plans = tempfile::tempdir().unwrap();
        let cluster =
            Self { server: Server::new(store, options), user, answers: None, terminal: None, plans };
        cluster.server.bootstrap().await.unwrap();
        cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "research"}})).await;
        cluster
    }

    /// The same objects behind a server with other features, as after a restart.
    pub(crate) fn restarted(
        mut self,
        features: Features,
        served: &[(&str, bool)],
        refused: Vec<&'static str>,
    ) -> Self {
        let options = ServerOptions {
            features,
            runtime_config: served.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect(),
            authorizer: Box::new(AllBut(refused)),
            token_keys: None,
        };
        self.server = Server::new(self.server.shared_store(), options);
        self
    }

    /// Two nodes with two GPUs each. `gpu-0` of `node-1` is held by a pod of a job that bears taints for ten minutes, `gpu-1` is hot.
    pub(crate) async fn small() -> Self {
        let cluster = Self::empty().await;
        cluster.fill().await;
        cluster
    }

    pub(crate) async fn fill(&self) {
        for node in ["node-1", "node-2"] {
            let labels = json!({"zone": node.replace("node-", "z"), "hollow.lazaret.dev/node": "true"});
            let mut made =
                self.post("/api/v1/nodes", json!({"metadata": {"name": node, "labels": labels}})).await;
            // As the controller that watches conditions does for a node that is ready.
            made["spec"]["taints"] = json!([]);
            self.send("PUT", &format!("/api/v1/nodes/{node}"), "application/json", &made).await;
            self.post("/apis/resource.k8s.io/v1/resourceslices", slice(node)).await;
        }
        self.post(
            "/apis/resource.k8s.io/v1/deviceclasses",
            json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}}),
        )
        .await;
        self.pod_with_device(
            "trainer",
            "node-1",
            "gpu-0",
            json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600}]),
        )
        .await;
    }

    /// A running pod, its claim, and the device that the claim holds.
    pub(crate) async fn pod_with_device(&self, name: &str, node: &str, device: &str, tolerations: Value) {
        let claim = format!("{name}-gpu");
        let pod = self
            .post(
                "/api/v1/namespaces/research/pods",
                json!({
                    "metadata": {"name": name, "labels": {"app": name}, "ownerReferences": [
                        {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "5a3d6b6e-6ba8-4c5e-9f0e-2f3c61d2a001", "controller": true}]},
                    "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]},
                }),
            )
            .await;
        let exactly = json!({"deviceClassName": "gpu", "tolerations": tolerations});
        let mut made = self
            .post(
                "/apis/resource.k8s.io/v1/namespaces/research/resourceclaims",
                json!({"metadata": {"name": claim}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}),
            )
            .await;
        made["status"] = json!({
            "allocation": {"devices": {"results": [
                {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": device, "tolerations": tolerations}]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
        });
        self.send(
            "PUT",
            &format!("/apis/resource.k8s.io/v1/namespaces/research/resourceclaims/{claim}/status"),
            "application/json",
            &made,
        )
        .await;
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        self.send("POST", path, "application/json", &body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send("GET", path, "", &Value::Null).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Value {
        let (code, answer) = self.try_send(method, path, content_type, body).await;
        assert!((200..300).contains(&code), "{method} {path}: {answer}");
        answer
    }

    /// The code and the answer.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("user-agent", "test/1.0")
            .body(body.into_bytes().into())
            .unwrap();
        let admin = User { name: "admin".into(), groups: vec!["system:masters".into()], ..User::default() };
        let response = self.server.handle(&admin, request).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }

    /// A person in front of the command who answers so.
    pub(crate) fn answering(mut self, answers: &'static str) -> Self {
        self.answers = Some(answers);
        self
    }

    /// A person in front of a terminal of this width.
    pub(crate) fn on_terminal(mut self, width: usize) -> Self {
        self.terminal = Some(width);
        self
    }

    /// The same for another user.
    pub(crate) fn with_user(mut self, name: &str) -> Self {
        self.user.name = name.into();
        self
    }

    /// Runs `kubectl device` with these words, as a user would, at noon.
    pub(crate) async fn run(&self, words: &[&str]) -> Ran {
        self.run_at(words, now).await
    }

    /// The same while time passes.
    pub(crate) async fn run_by_the_clock(&self, words: &[&str]) -> Ran {
        self.run_at(words, time).await
    }

    /// The same until `is_late` is pleased with the output: then an hour is over. Everything before a deadline has happened by then,
    /// however slow the machine is.
    pub(crate) async fn run_until_late(&self, words: &[&str], is_late: impl Fn(&str) -> bool) -> Ran {
        let args = Args::try_parse_from(["kubectl-device"].iter().chain(words)).unwrap();
        let (out, notes) = (Shared::default(), Shared::default());
        let mut console = Console::new(Box::new(out.clone()), Box::new(notes.clone()), None, false);
        let session =
            Session::new(self.server.client(self.user.clone()), &mut console, args.connection.clone())
                .at(time);
        let watch = async {
            while !is_late(&out.text()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            AHEAD_MS.set(AN_HOUR_MS);
            std::future::pending().await
        };
        let verdict = tokio::select! {
            verdict = Box::pin(session.run(args)) => verdict,
            never = watch => never,
        };
        AHEAD_MS.set(0);
        Ran { out: out.text(), notes: notes.text(), verdict: verdict.map_err(|error| error.to_string()) }
    }

    /// Runs a command that does not end until its output pleases, while `meanwhile` happens after the first output.
    pub(crate) async fn run_until(
        &self,
        words: &[&str],
        pleases: impl Fn(&str) -> bool,
        meanwhile: impl Future<Output = ()>,
    ) -> String {
        let args = Args::try_parse_from(["kubectl-device"].iter().chain(words)).unwrap();
        let (out, notes) = (Shared::default(), Shared::default());
        let mut console = Console::new(Box::new(out.clone()), Box::new(notes.clone()), None, false);
        let session =
            Session::new(self.server.client(self.user.clone()), &mut console, args.connection.clone())
                .at(now);
        let look = async {
            while out.text().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            meanwhile.await;
            while !pleases(&out.text()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = async {
            tokio::select! {
                ended = Box::pin(session.run(args)) => panic!("{ended:?} {}", notes.text()),
                () = look => {}
            }
        };
        tokio::time::timeout(Duration::from_secs(120), waited).await.unwrap();
        out.text()
    }

    async fn run_at(&self, words: &[&str], now: fn() -> Timestamp) -> Ran {
        let args = Args::try_parse_from(["kubectl-device"].iter().chain(words)).unwrap();
        let (out, notes) = (Shared::default(), Shared::default());
        let answers =
            self.answers.map(|text| Box::new(BufReader::new(text.as_bytes())) as Box<dyn io::BufRead>);
        let mut console = Console::new(Box::new(out.clone()), Box::new(notes.clone()), answers, false)
            .on_terminal(self.terminal, self.terminal.is_some());
        let client = self.server.client(self.user.clone());
        let session = Session::new(client, &mut console, args.connection.clone())
            .at(now)
            .keeping_plans_in(self.plans.path().to_owned());
        let verdict = Box::pin(session.run(args)).await.map_err(|error| error.to_string());
        Ran { out: out.text(), notes: notes.text(), verdict }
    }

    /// The rules that are there, by name: selector and taint, without times.
    pub(crate) async fn rules(&self) -> Vec<(String, Value)> {
        let list = self.get("/apis/resource.k8s.io/v1/devicetaintrules").await;
        let items = list["items"].as_array().unwrap().clone();
        items
            .into_iter()
            .map(|mut rule| {
                rule["spec"]["taint"].as_object_mut().unwrap().remove("timeAdded");
                (rule["metadata"]["name"].as_str().unwrap().to_owned(), rule["spec"].clone())
            })
            .collect()
    }
}

/// A slice of this many healthy devices.
pub(crate) fn slice_of(node: &str, devices: usize) -> Value {
    let device = |at: usize| {
        json!({
            "name": format!("gpu-{at}"),
            "attributes": {"model": {"string": "A100"}, "index": {"int": at}, "driverVersion": {"version": "1.2.3"}},
            "capacity": {"memory": {"value": "40Gi"}},
        })
    };
    json!({
        "metadata": {"name": format!("{node}-gpus")},
        "spec": {
            "driver": "gpu.example.com", "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": (0..devices).map(device).collect::<Vec<_>>(),
        },
    })
}

fn slice(node: &str) -> Value {
    let device = |name: &str, taints: Value| {
        json!({
            "name": name,
            "attributes": {"model": {"string": "A100"}, "index": {"int": i64::from(name.ends_with('1'))}, "driverVersion": {"version": "1.2.3"}},
            "capacity": {"memory": {"value": "40Gi"}},
            "taints": taints,
        })
    };
    let hot = json!([{"key": "gpu.example.com/hot", "effect": "None", "timeAdded": "2026-01-01T11:00:00Z"}]);
    let second = if node == "node-1" { hot } else { json!([]) };
    json!({
        "metadata": {"name": format!("{node}-gpus")},
        "spec": {
            "driver": "gpu.example.com", "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [device("gpu-0", json!([])), device("gpu-1", second)],
        },
    })
}

/// Times as the server's clock has them are not the test's: a table's first column, and `… ago`.
pub(crate) fn without_times(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(" ago") {
        Some((before, after)) => {
            let kept = before.rfind(' ').map_or(0, |at| at + 1);
            format!("{}SOME ago{after}\n", &before[..kept])
        }
        None => format!("{line}\n"),
    });
    lines.collect()
}
