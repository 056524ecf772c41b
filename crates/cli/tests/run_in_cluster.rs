//! `lazaret run` as the chart starts it: with its service account, whose token is renewed, on a server that goes by roles; two replicas, of which one acts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(
    clippy::print_stderr,
    reason = "what the processes said, and how long it took, is for whoever looks"
)]

#[path = "../../testkit/tests/tools/mod.rs"]
mod tools;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use http::Request;
use lazaret_controllers::{Controllers, Options};
use lazaret_testkit::{Cluster, Features, Options as ClusterOptions, Plane};
use serde_json::{Value, json};

/// A machine may be slow; what has not happened by then will not.
const PATIENCE: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "lazaret-system";
const DRIVER: &str = "gpu.example.com";

/// What Kubernetes' own components do is done in the test's process; what Lazaret does on their cluster is left to processes.
struct Stage {
    cluster: Cluster,
    folder: tempfile::TempDir,
}

impl Stage {
    /// A cluster with this chart installed, as far as roles go.
    fn with(others: Controllers, settings: &[&str]) -> Self {
        let options = Options { controllers: others, ..Options::default() };
        let plane = Plane::simulated(2, 4).options(options);
        let mut features = Features::kubernetes_1_37();
        features.parse("DRAResourcePoolStatus=true").unwrap();
        let stage = Self::of(Cluster::options().features(features).plane(plane), settings);
        stage.until("all slices are published", || {
            stage.list("/apis/resource.k8s.io/v1/resourceslices").len() == 2
        });
        stage
    }

    /// A cluster like this, with the chart's roles.
    fn of(options: ClusterOptions, settings: &[&str]) -> Self {
        let stage = Self { cluster: options.start().unwrap(), folder: tempfile::tempdir().unwrap() };
        stage.create("/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}}));
        let roles = "/apis/rbac.authorization.k8s.io/v1";
        for object in stage.chart(settings) {
            let path = match object["kind"].as_str().unwrap() {
                "ServiceAccount" => format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
                "ClusterRole" => format!("{roles}/clusterroles"),
                "ClusterRoleBinding" => format!("{roles}/clusterrolebindings"),
                "Role" => format!("{roles}/namespaces/{NAMESPACE}/roles"),
                "RoleBinding" => format!("{roles}/namespaces/{NAMESPACE}/rolebindings"),
                _ => continue,
            };
            stage.create(&path, &object);
        }
        stage
    }

    fn chart(&self, settings: &[&str]) -> Vec<Value> {
        let mut helm = Command::new(tools::helm());
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/chart");
        helm.args(["template", "lazaret"]).arg(chart).args([
            "--namespace",
            NAMESPACE,
            "--kube-version",
            "1.37.0",
        ]);
        for home in ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            helm.env(home, self.folder.path().join("helm"));
        }
        settings.iter().for_each(|setting| {
            helm.args(["--set", setting]);
        });
        let text = tools::run(&mut helm);
        let all = text.split("---\n").filter(|document| !document.trim().is_empty());
        all.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
    }

    /// A kubeconfig with nothing but the token of a service account, in a file as a pod has it.
    fn kubeconfig(&self, account: &str) -> PathBuf {
        let (token, config) =
            (self.folder.path().join(format!("{account}.token")), self.folder.path().join(account));
        self.renew(account, &token);
        let authority = self.folder.path().join("ca.crt");
        fs::write(&authority, self.cluster.authority()).unwrap();
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("https://{}", self.cluster.address()), "certificate-authority": authority}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"tokenFile": token}}],
        });
        fs::write(&config, text.to_string()).unwrap();
        config
    }

    fn renew(&self, account: &str, file: &Path) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}});
        let answer = self.create(&path, &request);
        fs::write(file, answer["status"]["token"].as_str().unwrap()).unwrap();
    }

    fn request(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Result<Value, String> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(bytes)
            .unwrap();
        let client = self.cluster.client();
        self.cluster
            .block_on(async move { client.request::<Value>(request).await })
            .map_err(|error| error.to_string())
    }

    fn create(&self, path: &str, object: &Value) -> Value {
        self.request("POST", path, "application/json", object).unwrap_or_else(|why| panic!("{path}: {why}"))
    }

    fn list(&self, path: &str) -> Vec<Value> {
        let list = self.request("GET", path, "application/json", &Value::Null).unwrap();
        list["items"].as_array().cloned().unwrap()
    }

    fn pods(&self) -> Vec<Value> {
        self.list("/api/v1/namespaces/default/pods")
    }

    /// So many pods of a ReplicaSet, each with a device, that run.
    fn workload(&self, replicas: usize) {
        self.create(
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
            &json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
                "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}},
            }),
        );
        let pod = json!({
            "containers": [{"name": "c", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
            "terminationGracePeriodSeconds": 0,
        });
        self.create(
            "/apis/apps/v1/namespaces/default/replicasets",
            &json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod}},
            }),
        );
        self.until("all pods run", || {
            let pods = self.pods();
            pods.len() == replicas && pods.iter().all(|pod| pod["status"]["phase"] == "Running")
        });
    }

    fn taint(&self, name: &str, pool: &str, effect: &str) {
        self.create(
            "/apis/resource.k8s.io/v1/devicetaintrules",
            &json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name},
                "spec": {"deviceSelector": {"driver": DRIVER, "pool": pool}, "taint": {"key": "example.com/out", "effect": effect}},
            }),
        );
    }

    /// Requests that were refused for want of a permission.
    fn refused(&self) -> Vec<String> {
        let request = Request::builder().uri("/metrics").body(Vec::new()).unwrap();
        let client = self.cluster.client();
        let text = self.cluster.block_on(async move { client.request_text(request).await }).unwrap();
        let of = |line: &&str| line.starts_with("apiserver_request_total") && line.contains("code=\"403\"");
        text.lines().filter(of).map(str::to_owned).collect()
    }

    #[allow(clippy::disallowed_methods, reason = "a test bounds itself by a clock")]
    fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Duration {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "never: {what}; refused: {:?}", self.refused());
            std::thread::sleep(Duration::from_millis(20));
        }
        start.elapsed()
    }

    fn holder(&self) -> Option<String> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/lazaret-controllers");
        let lease = self.request("GET", &path, "application/json", &Value::Null).ok()?;
        lease["spec"]["holderIdentity"].as_str().filter(|name| !name.is_empty()).map(str::to_owned)
    }

    /// How often each pod was evicted, by the events that say so.
    fn evictions(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for event in self.list("/api/v1/namespaces/default/events") {
            if event["reason"] == "DeviceTaintManagerEviction" {
                *counts.entry(event["involvedObject"]["uid"].as_str().unwrap().to_owned()).or_default() += 1;
            }
        }
        counts
    }
}

/// One replica.
struct Replica {
    process: Child,
    metrics: String,
    /// Where it serves the webhook, if it does.
    webhook: Option<String>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Replica {
    fn start(config: &Path, identity: &str, words: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_lazaret"))
            .arg("run")
            .args(words)
            .args(["--metrics-listen", "127.0.0.1:0", "--identity", identity, "--lease-namespace", NAMESPACE])
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

    fn get(&self, path: &str) -> String {
        let mut connection = TcpStream::connect(&self.metrics).unwrap();
        write!(connection, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        text
    }

    fn is_ready(&self) -> bool {
        self.get("/readyz").starts_with("HTTP/1.1 200")
    }

    fn signal(&self, name: &str) {
        assert!(
            Command::new("kill").args([name, &self.process.id().to_string()]).status().unwrap().success()
        );
    }
}

const OTHERS: Controllers = Controllers { claims: true, ..Controllers::NONE };
const PARTS: &[&str] = &["controllers.parts.eviction=true"];

fn policy() -> Value {
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "TaintReplacementPolicy", "metadata": {"name": "web"},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "automaticReplacementOptions": {
            "taintReplacementTimeSeconds": 0,
            "deviceTaintReplacementOptions": [{"key": "*", "durationInSeconds": 0}],
        }},
    })
}

#[test]
fn the_roles_of_the_chart_are_enough_to_replace_and_to_evict() {
    let stage = Stage::with(OTHERS, PARTS);
    let config = stage.kubeconfig("lazaret-controllers");
    let replica = Replica::start(&config, "a", &["replacement", "eviction"]);
    stage.until("it is ready", || replica.is_ready());
    assert!(replica.get("/readyz").contains("[+]synced/pods ok"), "{}", replica.get("/readyz"));
    stage.workload(2);
    stage.create("/apis/lazaret.dev/v1alpha1/namespaces/default/taintreplacementpolicies", &policy());
    // One node is left for both.
    stage.taint("soft", "node-1", "NoSchedule");
    let on = |stage: &Stage, node: &str| {
        let pods = stage.pods();
        pods.len() == 2
            && pods.iter().all(|pod| pod["spec"]["nodeName"] == node && pod["status"]["phase"] == "Running")
    };
    stage.until("both were replaced", || on(&stage, "node-2"));
    let policies = "/apis/lazaret.dev/v1alpha1/namespaces/default/taintreplacementpolicies";
    stage.until("the status says so", || {
        let status = &stage.list(policies)[0]["status"];
        status["totals"]["inFlight"] == 0 && status["totals"]["selected"] == 2
    });
    stage.request("DELETE", &format!("{policies}/web"), "application/json", &Value::Null).unwrap();
    stage
        .request("DELETE", "/apis/resource.k8s.io/v1/devicetaintrules/soft", "application/json", &Value::Null)
        .unwrap();
    stage.taint("hard", "node-2", "NoExecute");
    stage.until("both were evicted", || on(&stage, "node-1"));
    stage.until("the rule says that it is done", || {
        let rules = stage.list("/apis/resource.k8s.io/v1/devicetaintrules");
        let conditions = rules[0]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| one["type"] == "EvictionInProgress" && one["reason"] == "Completed")
    });
    stage.until("the events are there", || stage.evictions().len() == 2);
    assert_eq!(stage.refused(), Vec::<String>::new());
    assert!(!replica.get("/metrics").contains("lazaret_resource_unreadable{resource=\"pods\"} 1"));
}

#[test]
fn the_roles_of_the_chart_are_enough_to_schedule_and_to_make_claims() {
    let settings = "scheduler.enabled=true,controllers.parts.claims=true,controllers.parts.poolStatus=true";
    let stage = Stage::with(Controllers { eviction: true, ..Controllers::NONE }, &[settings]);
    let controllers = Replica::start(
        &stage.kubeconfig("lazaret-controllers"),
        "c",
        &["claims", "pool-status", "replacement"],
    );
    let scheduler = Replica::start(
        &stage.kubeconfig("lazaret-scheduler"),
        "s",
        &["scheduler", "--scheduler-name", "lazaret"],
    );
    stage.until("both are ready", || controllers.is_ready() && scheduler.is_ready());
    stage.workload_for("lazaret");
    stage.create(
        "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests",
        &json!({"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest",
            "metadata": {"name": "all"}, "spec": {"driver": DRIVER}}),
    );
    stage.until("pools are told", || {
        let request = &stage.list("/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests")[0];
        request["status"]["conditions"].as_array().is_some_and(|all| !all.is_empty())
    });
    // Claims are given back: reservations, finalizers and the claims themselves.
    stage
        .request("DELETE", "/api/v1/namespaces/default/pods/solo", "application/json", &Value::Null)
        .unwrap();
    stage.until("the claim is gone", || {
        stage.list("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims").is_empty()
    });
    assert_eq!(stage.refused(), Vec::<String>::new());
}

impl Stage {
    /// A pod with a device that another scheduler places.
    fn workload_for(&self, scheduler: &str) {
        self.create(
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
            &json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
                "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}},
            }),
        );
        self.create(
            "/api/v1/namespaces/default/pods",
            &json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "solo"},
                "spec": {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "c", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
                    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},
            }),
        );
        self.until("it runs", || self.pods()[0]["status"]["phase"] == "Running");
    }
}

/// Half of the pods are evicted by one leader, which then ends in order or is killed, and the rest by the next; none twice.
fn leaders_change(end: &str) {
    let stage = Stage::with(OTHERS, PARTS);
    let config = stage.kubeconfig("lazaret-controllers");
    let mut replicas: BTreeMap<String, Replica> = BTreeMap::new();
    for name in ["a", "b"] {
        replicas.insert(name.to_owned(), Replica::start(&config, name, &["eviction"]));
    }
    stage.until("both are ready", || replicas.values().all(Replica::is_ready));
    stage.workload(4);
    stage.until("one of them leads", || stage.holder().is_some());
    let uids_on = |node: &str| -> BTreeSet<String> {
        let pods = stage.pods();
        let there = pods.iter().filter(|pod| pod["spec"]["nodeName"] == node);
        there.map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
    };
    let told = |uids: &BTreeSet<String>| {
        let evictions = stage.evictions();
        uids.iter().all(|uid| evictions.contains_key(uid))
    };
    let of_one = uids_on("node-1");
    stage.taint("one", "node-1", "NoExecute");
    let all_on = |node: &str| {
        let pods = stage.pods();
        pods.len() == 4
            && pods.iter().all(|pod| pod["spec"]["nodeName"] == node && pod["status"]["phase"] == "Running")
    };
    stage.until("nobody is left on node-1", || all_on("node-2"));
    // Events are sent after what they tell of, and those of a process that is killed are lost.
    stage.until("the events of the first are there", || told(&of_one));
    let (first, of_two) = (stage.holder().unwrap(), uids_on("node-2"));
    replicas[&first].signal(end);
    stage
        .request("DELETE", "/apis/resource.k8s.io/v1/devicetaintrules/one", "application/json", &Value::Null)
        .unwrap();
    stage.taint("two", "node-2", "NoExecute");
    let took = stage.until("the next one leads", || stage.holder().is_some_and(|holder| holder != first));
    eprintln!("after {end} the next one held the lease within {took:?}");
    stage.until("nobody is left on node-2", || all_on("node-1"));
    stage.until("the events are there", || told(&of_two));
    assert!(stage.evictions().values().all(|times| *times == 1), "{:?}", stage.evictions());
    assert_eq!(stage.refused(), Vec::<String>::new());
    if end == "-TERM" {
        assert!(replicas.get_mut(&first).unwrap().process.wait().unwrap().success());
    }
}

#[test]
fn a_replica_that_ends_hands_over_and_nobody_is_evicted_twice() {
    leaders_change("-TERM");
}

#[test]
fn a_replica_that_is_killed_is_followed_and_nobody_is_evicted_twice() {
    leaders_change("-KILL");
}

#[test]
fn who_lacks_a_permission_says_so_and_does_the_rest() {
    let stage = Stage::with(OTHERS, &[]);
    // The role without devices: taints of nodes still count.
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/lazaret-controllers-see";
    let rules = json!({"rules": [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["lazaret.dev"], "resources": ["taintreplacementpolicies"], "verbs": ["get", "list", "watch"]},
    ]});
    stage.request("PATCH", role, "application/merge-patch+json", &rules).unwrap();
    let replica = Replica::start(&stage.kubeconfig("lazaret-controllers"), "a", &["replacement"]);
    stage.create("/apis/lazaret.dev/v1alpha1/namespaces/default/taintreplacementpolicies", &policy());
    stage.until("it says what it cannot read", || {
        replica.get("/metrics").contains("lazaret_resource_unreadable{resource=\"resourceclaims\"} 1")
    });
    stage.until("it is ready all the same", || replica.is_ready());
    stage.until("the policy says so too", || {
        let policies = stage.list("/apis/lazaret.dev/v1alpha1/namespaces/default/taintreplacementpolicies");
        let conditions = policies[0]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| one["type"] == "Degraded" && one["status"] == "True")
    });
}

/// A process that is ended with this.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_roles_of_the_chart_are_enough_for_a_driver_and_a_node_agent() {
    let settings = "drivers.example.enabled=true,nodeAgent.enabled=true";
    let stage = Stage::with(Controllers::default(), &[settings]);
    // The path of a socket is short.
    let root = tempfile::tempdir_in("/tmp").unwrap();
    let start = |words: &[&str], account: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lazaret"));
        command.args(words).args(["--node-name", "node-1", "--kubeconfig"]).arg(stage.kubeconfig(account));
        Other(command.stdout(Stdio::null()).spawn().unwrap())
    };
    let root_text = root.path().to_str().unwrap();
    let cdi = root.path().join("cdi");
    let _agent = start(&["node", "--dra-only", "--root", root_text], "lazaret-node");
    let _driver = start(
        &[
            "driver",
            "example",
            "--driver-name",
            "nic.example.com",
            "--profile",
            "nic",
            "--devices",
            "2",
            "--kubelet-root",
            root_text,
            "--cdi-root",
            cdi.to_str().unwrap(),
        ],
        "lazaret-driver-example",
    );
    let slices = || {
        let all = stage.list("/apis/resource.k8s.io/v1/resourceslices");
        all.into_iter().filter(|slice| slice["spec"]["driver"] == "nic.example.com").collect::<Vec<_>>()
    };
    stage.until("it has published its devices", || slices().len() == 1);
    let devices = slices()[0]["spec"]["devices"].as_array().unwrap().len();
    assert_eq!(devices, 2);
    stage.until("the agent says in the Node that it reports", || {
        let node = stage.request("GET", "/api/v1/nodes/node-1", "application/json", &Value::Null).unwrap();
        node["metadata"]["annotations"]["lazaret.dev/reports-unprepared"] == "true"
    });
    assert_eq!(stage.refused(), Vec::<String>::new());
}

/// A policy selects by expression; Kubernetes, played by the controllers in the test's own process, evicts for every NoExecute taint that it sees.
#[test]
fn a_policy_becomes_rules_that_evict_nobody_and_its_pods_leave_at_its_pace() {
    let stage = Stage::with(Controllers { claims: true, eviction: true, ..Controllers::NONE }, &[]);
    let replica = Replica::start(&stage.kubeconfig("lazaret-controllers"), "a", &["policies", "replacement"]);
    stage.until("it is ready", || replica.is_ready());
    // All pods begin on one node.
    stage.taint("elsewhere", "node-2", "NoSchedule");
    // The controllers of the test's process hear of it together with the scheduler.
    stage.until("the rule was heard of", || {
        !stage.list("/apis/resource.k8s.io/v1/devicetaintrules")[0]["status"]["conditions"].is_null()
    });
    stage.workload(4);
    stage
        .request(
            "DELETE",
            "/apis/resource.k8s.io/v1/devicetaintrules/elsewhere",
            "application/json",
            &Value::Null,
        )
        .unwrap();
    let policies = "/apis/lazaret.dev/v1alpha1/devicetaintpolicies";
    let empty = json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "metadata": {"name": "all"},
        "spec": {"deviceSelector": {}, "taint": {"key": "k", "effect": "NoExecute"}}});
    let refused = stage.request("POST", policies, "application/json", &empty).unwrap_err();
    assert!(refused.contains("an empty selector would select every device"), "{refused}");
    stage.create(
        policies,
        &json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "metadata": {"name": "node-1"},
            "spec": {
                "deviceSelector": {"deviceClassName": DRIVER, "pool": "node-1", "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
                "taint": {"key": "example.com/out", "effect": "NoExecute", "evictionsPerSecond": 2},
            },
        }),
    );
    let rules = || stage.list("/apis/resource.k8s.io/v1/devicetaintrules");
    stage.until("each device of the node has a rule", || rules().len() == 4);
    stage.until("nobody is left on node-1", || {
        let pods = stage.pods();
        pods.len() == 4
            && pods
                .iter()
                .all(|pod| pod["spec"]["nodeName"] == "node-2" && pod["status"]["phase"] == "Running")
    });
    let policy = || stage.list(policies).remove(0);
    let condition = |kind: &str| {
        let conditions = policy()["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
    };
    stage.until("it says that its devices are idle", || condition("Drained")["status"] == "True");
    assert_eq!(condition("Compiled")["message"], "4 DeviceTaintRules");
    stage.until("its rules keep late pods off", || {
        rules().iter().all(|rule| rule["spec"]["taint"]["effect"] == "NoExecute")
    });
    // Who evicted says so: Lazaret, for the policy, and Kubernetes nobody.
    stage.until("its rules say who evicts", || {
        rules().iter().all(|rule| {
            let said = conditions(rule);
            let (status, reason, message) = said.get("EvictionInProgress").cloned().unwrap_or_default();
            (status.as_str(), reason.as_str()) == ("False", "ByPolicy")
                && message == "The DeviceTaintPolicy that controls the rule evicts pods and counts them."
                && rule["status"]["evictions"].is_null()
        })
    });
    stage.until("the events are there", || stage.evictions().len() == 4);
    let evicted = stage.evictions();
    stage.until("the policy counts them", || policy()["status"]["evictions"]["pods"] == 4);
    assert!(evicted.values().all(|times| *times == 1), "{evicted:?}");
    let owner = rules()[0]["metadata"]["ownerReferences"][0].clone();
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("DeviceTaintPolicy"), &json!("node-1")));
    stage.request("DELETE", &format!("{policies}/node-1"), "application/json", &Value::Null).unwrap();
    stage.until("its rules go with it", || rules().is_empty());
    assert_eq!(stage.refused(), Vec::<String>::new());
}

/// Kubernetes 1.34 has no DeviceTaintRules in v1: what drivers publish counts, and the process says that this is all.
fn conditions(object: &Value) -> BTreeMap<String, (String, String, String)> {
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|one| (text(one, "type"), (text(one, "status"), text(one, "reason"), text(one, "message"))))
        .collect()
}

/// A patch on a cluster whose scheduler does not read patches, under the roles of the chart.
#[test]
fn a_patch_taints_by_rules_and_says_which_attributes_are_not_in_effect() {
    let stage = Stage::with(Controllers { claims: true, eviction: true, ..Controllers::NONE }, &[]);
    let replica = Replica::start(&stage.kubeconfig("lazaret-controllers"), "a", &["policies", "replacement"]);
    stage.until("it is ready", || replica.is_ready());
    stage.workload(4);
    let (patches, policies) =
        ("/apis/lazaret.dev/v1alpha1/resourceslicepatches", "/apis/lazaret.dev/v1alpha1/devicetaintpolicies");
    let rules = || stage.list("/apis/resource.k8s.io/v1/devicetaintrules");
    let patch = |devices: Value| {
        json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "ResourceSlicePatch", "metadata": {"name": "recall"},
            "spec": {"devices": devices}})
    };
    let taints = json!([
        {"key": "example.com/recalled", "value": "board", "effect": "NoExecute", "evictionsPerSecond": 5},
        {"key": "example.com/seen", "effect": "None"},
    ]);
    for (devices, why) in [
        (json!({"filter": {}, "taints": taints}), "an empty selector would select every device"),
        (json!({"filter": {"driver": DRIVER}}), "the patch changes nothing"),
        (
            json!({"filter": {"driver": DRIVER}, "attributes": {"a": {"int": 1, "bool": true}}}),
            "spec.devices.attributes",
        ),
    ] {
        let refused = stage.request("POST", patches, "application/json", &patch(devices)).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    stage.create(
        patches,
        &patch(json!({
            "filter": {"deviceClassName": DRIVER, "pool": "node-1"}, "taints": taints,
            "attributes": {"example.com/rack": {"string": "7"}}, "capacity": {"memory": {"value": "40Gi"}},
        })),
    );
    stage.until("each taint is on each of four devices", || rules().len() == 8);
    stage.until("nobody is left on node-1", || {
        let pods = stage.pods();
        pods.len() == 4
            && pods
                .iter()
                .all(|pod| pod["spec"]["nodeName"] == "node-2" && pod["status"]["phase"] == "Running")
    });
    stage.until("late pods are kept off", || {
        let of = |rule: &Value| rule["spec"]["taint"]["key"] == "example.com/recalled";
        let all = rules();
        all.iter().filter(|rule| of(rule)).all(|rule| rule["spec"]["taint"]["effect"] == "NoExecute")
    });
    let one =
        || stage.request("GET", &format!("{patches}/recall"), "application/json", &Value::Null).unwrap();
    stage.until("the patch says what it became", || conditions(&one()).len() == 2);
    let said = conditions(&one());
    assert_eq!(said["Compiled"], ("True".into(), "AsSelected".into(), "2 DeviceTaintPolicies".into()));
    assert_eq!((&*said["AttributesApplied"].0, &*said["AttributesApplied"].1), ("False", "DriverPublishes"));
    assert!(said["AttributesApplied"].2.starts_with("not in effect: example.com/rack, memory; "), "{said:?}");
    let made = stage.list(policies);
    assert!(
        made.iter().all(|policy| policy["metadata"]["ownerReferences"][0]["uid"] == one()["metadata"]["uid"])
    );
    stage.request("DELETE", &format!("{patches}/recall"), "application/json", &Value::Null).unwrap();
    stage.until("everything goes with it", || stage.list(policies).is_empty() && rules().is_empty());
    assert!(stage.evictions().values().all(|times| *times == 1), "{:?}", stage.evictions());
    assert_eq!(stage.refused(), Vec::<String>::new());
}

/// Rules are made by creation, which never takes over what is there, and changed by an apply that owns what the policy says and nothing else.
#[test]
fn what_others_wrote_is_never_touched_and_what_they_changed_is_changed_back() {
    let stage = Stage::with(OTHERS, &[]);
    let replica = Replica::start(&stage.kubeconfig("lazaret-controllers"), "a", &["policies", "replacement"]);
    stage.until("it is ready", || replica.is_ready());
    let (policies, rules) =
        ("/apis/lazaret.dev/v1alpha1/devicetaintpolicies", "/apis/resource.k8s.io/v1/devicetaintrules");
    let policy = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "metadata": {"name": "mine"},
        "spec": {"deviceSelector": {"driver": DRIVER, "pool": "node-1"}, "taint": {"key": "example.com/out", "effect": "NoSchedule"}},
    });
    let send =
        |method: &str, path: &str, kind: &str, body: &Value| stage.request(method, path, kind, body).unwrap();
    stage.create(policies, &policy);
    stage.until("it has its rule", || stage.list(rules).len() == 1);
    let name = stage.list(rules)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let rule = format!("{rules}/{name}");
    let get = |path: &str| send("GET", path, "application/json", &Value::Null);
    send("DELETE", &format!("{policies}/mine"), "application/json", &Value::Null);
    stage.until("the rule goes with it", || stage.list(rules).is_empty());

    // Somebody else has the name, with the very same spec. A controller that hears late of the policy's end makes the rule once more before it goes.
    let theirs = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name},
        "spec": policy["spec"]});
    stage.until("the name is free", || stage.request("POST", rules, "application/json", &theirs).is_ok());
    let theirs = get(&rule);
    stage.create(policies, &policy);
    let compiled = || conditions(&get(&format!("{policies}/mine"))).remove("Compiled").unwrap_or_default();
    stage.until("the policy says so", || compiled().1 == "NameTaken");
    assert!(compiled().2.contains(&name), "{:?}", compiled());
    assert_eq!(get(&rule)["metadata"]["resourceVersion"], theirs["metadata"]["resourceVersion"]);
    send("DELETE", &rule, "application/json", &Value::Null);
    stage.until("the name is free and the rule is made", || compiled().1 == "AsSelected");
    stage.until("the rule is the policy's", || {
        let there = stage.request("GET", &rule, "application/json", &Value::Null);
        there.is_ok_and(|rule| !rule["metadata"]["ownerReferences"].is_null())
    });

    // Somebody edits the policy's rule.
    let edit = json!({
        "metadata": {"labels": {"team": "storage"}, "annotations": {"example.com/note": "ask first"}, "finalizers": ["example.com/keep"]},
        "spec": {"taint": {"value": "edited", "effect": "NoExecute"}},
    });
    send("PATCH", &format!("{rule}?fieldManager=somebody"), "application/merge-patch+json", &edit);
    stage.until("what the policy says is back", || {
        let taint = &get(&rule)["spec"]["taint"];
        taint["effect"] == "NoSchedule" && taint["value"].as_str().unwrap_or_default().is_empty()
    });
    let after = get(&rule);
    assert_eq!(after["metadata"]["labels"]["team"], "storage");
    assert_eq!(after["metadata"]["annotations"]["example.com/note"], "ask first");
    assert_eq!(after["metadata"]["finalizers"], json!(["example.com/keep"]));
    let managers = after["metadata"]["managedFields"].as_array().unwrap();
    let of = |name: &str, operation: &str| {
        managers.iter().find(|one| one["manager"] == name && one["operation"] == operation)
    };
    assert!(of("device-taint-policies", "Apply").is_some(), "{managers:?}");
    let left = of("somebody", "Update").unwrap();
    // The server may have set its time when they changed the effect.
    let taint = &left["fieldsV1"]["f:spec"]["f:taint"];
    assert!(
        taint["f:effect"].is_null() && taint["f:value"].is_null(),
        "the taint is the policy's alone: {left}"
    );
    let free = json!({"metadata": {"finalizers": null}});
    send("PATCH", &rule, "application/merge-patch+json", &free);
    assert_eq!(stage.refused(), Vec::<String>::new());
}

#[test]
fn a_cluster_without_rules_is_served_as_far_as_that_goes() {
    let release: lazaret_server::Release = "1.34".parse().unwrap();
    let mut features = Features::of(release);
    features.parse("DRADeviceTaints=true").unwrap();
    let stage = Stage::of(Cluster::options().features(features), PARTS);
    let replica = Replica::start(&stage.kubeconfig("lazaret-controllers"), "a", &["eviction", "policies"]);
    stage.until("it is ready", || replica.is_ready());
    let metrics = replica.get("/metrics");
    assert!(metrics.contains("lazaret_resource_unreadable{resource=\"devicetaintrules\"} 1"), "{metrics}");
    stage.until("it leads", || {
        replica.get("/metrics").contains("lazaret_leading{controller=\"device-taint-eviction\"} 1")
    });
}

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const HOOK: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/lazaret-webhook";
const SECRET: &str = "/api/v1/namespaces/lazaret-system/secrets/lazaret-webhook";
const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";

impl Stage {
    fn get(&self, path: &str) -> Result<Value, String> {
        self.request("GET", path, "application/json", &Value::Null)
    }

    fn merge(&self, path: &str, patch: &Value) -> Result<Value, String> {
        self.request("PATCH", path, "application/merge-patch+json", patch)
    }

    /// What the server says to a rule that it would not keep.
    fn would_make(&self, effect: &str) -> Result<Value, String> {
        let rule = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"generateName": "r-"},
            "spec": {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "example.com/out", "effect": effect}},
        });
        self.request("POST", &format!("{RULES}?dryRun=All"), "application/json", &rule)
    }

    /// The webhook of the chart, at an address of this machine.
    fn register(&self, settings: &[&str], url: &str) {
        let is_it = |object: &Value| object["kind"] == "ValidatingWebhookConfiguration";
        let mut hook = self.chart(settings).into_iter().find(is_it).unwrap();
        hook["webhooks"][0]["clientConfig"] = json!({"url": url});
        // The longest there is: on a slow machine an answer may take its time.
        hook["webhooks"][0]["timeoutSeconds"] = 30.into();
        self.create(HOOKS, &hook);
    }

    /// The line of `kubectl device check` about the webhook.
    fn check(&self) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_lazaret"))
            .args(["device", "check"])
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.contains("webhook for rules"));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    }
}

/// The chart's roles are enough to serve the webhook; guards say no to rules for which Kubernetes would evict; replicas share one certificate, and
/// whatever happens to it or to what the server trusts is mended.
#[test]
fn a_webhook_asks_guards_before_kubernetes_evicts() {
    let settings = &["webhook.enabled=true"];
    let stage = Stage::with(Controllers { eviction: true, ..OTHERS }, settings);
    let config = stage.kubeconfig("lazaret-controllers");
    let words = [
        "replacement",
        "--webhook-listen",
        "127.0.0.1:0",
        "--webhook-service",
        "lazaret-system/lazaret-webhook",
        "--webhook-hosts",
        "127.0.0.1",
    ];
    let replica = Replica::start(&config, "a", &words);
    stage.register(settings, replica.webhook.as_deref().unwrap());
    stage.workload(2);
    stage.create(
        "/apis/lazaret.dev/v1alpha1/disruptionguards",
        &json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "stop"},
            "spec": {"paused": {"reason": "freeze"}}}),
    );
    // Watches tell of the guard, of the pods and of their claims one after another.
    stage.until("the guard is asked about both pods", || {
        stage.would_make("NoExecute").is_err_and(|why| {
            why.contains("admission webhook \"rules.lazaret.dev\" denied the request: DisruptionGuard stop is paused: freeze; Kubernetes would evict 2 pods in 1 namespace")
                && why.contains("run `kubectl device resume stop`")
        })
    });
    stage.until("it is ready", || replica.is_ready());
    // Nobody leaves because of it; and what a rule does may not become worse.
    stage.taint("soft", "node-1", "NoSchedule");
    let soft = format!("{RULES}/soft");
    assert!(stage.merge(&soft, &json!({"spec": {"taint": {"effect": "NoExecute"}}})).is_err());
    assert!(stage.merge(&soft, &json!({"metadata": {"labels": {"a": "b"}}})).is_ok());
    assert!(stage.check().starts_with("√ the webhook for rules answers"), "{}", stage.check());

    let secret = stage.get(SECRET).unwrap();
    let second = Replica::start(&config, "b", &words);
    stage.until("the second replica is ready", || second.is_ready());
    assert_eq!(stage.get(SECRET).unwrap(), secret, "it serves with the same certificate");

    stage.request("DELETE", SECRET, "application/json", &Value::Null).unwrap();
    let stranger = json!({"webhooks": stage.get(HOOK).unwrap()["webhooks"].clone()});
    let mut stranger = stranger;
    stranger["webhooks"][0]["clientConfig"]["caBundle"] = Value::Null;
    stage.merge(HOOK, &stranger).unwrap();
    stage.until("the Secret is back, with the same authority", || {
        stage.get(SECRET).is_ok_and(|found| found["data"]["ca.crt"] == secret["data"]["ca.crt"])
    });
    stage.until("the server trusts it again", || {
        stage.get(HOOK).unwrap()["webhooks"][0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
    });
    stage.until("the guard is asked again", || stage.would_make("NoExecute").is_err());

    stage
        .request(
            "DELETE",
            "/apis/lazaret.dev/v1alpha1/disruptionguards/stop",
            "application/json",
            &Value::Null,
        )
        .unwrap();
    stage.until("no guard minds any more", || stage.would_make("NoExecute").is_ok());
    let metrics = replica.get("/metrics");
    assert!(metrics.contains("lazaret_webhook_reviews_total{answer=\"denied\"}"), "{metrics}");
    assert!(metrics.contains("lazaret_webhook_certificate_not_after_seconds 1"), "{metrics}");
    // The webhook's own refusals aside.
    let refused = stage.refused().into_iter().filter(|line| !line.contains("resource=\"devicetaintrules\""));
    assert_eq!(refused.collect::<Vec<_>>(), Vec::<String>::new());
    drop(replica);
    assert!(
        stage
            .check()
            .starts_with("× the webhook for rules answers: lazaret-webhook (the API server gets no answer)"),
        "{}",
        stage.check()
    );
    assert!(stage.would_make("NoExecute").is_ok(), "failurePolicy is Ignore");
}
