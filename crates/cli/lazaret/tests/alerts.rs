//! Alertmanager's webhook, as `lazaret up` and `lazaret run` serve it: alerts become signals of devices, and unknown senders change nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use kube::config::{AuthInfo, Kubeconfig};
use serde_json::{Value, json};
use support::{Cluster, LAZARET, wait_until};

const SIGNALS: &str = "/apis/lazaret.dev/v1alpha1/devicesignals";
const INCIDENTS: &str = "/apis/lazaret.dev/v1alpha1/deviceincidents";
const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/devicehealthpolicies";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// The sender of an alert.
enum Sender {
    Admin,
    Nobody,
    Token(String),
}

/// Sends to a cluster, or to another place with its certificates.
struct Webhook {
    runtime: tokio::runtime::Runtime,
    client: kube::Client,
}

impl Webhook {
    fn new(cluster: &Cluster, address: Option<&str>, sender: Sender) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let file = Kubeconfig::read_from(cluster.folder.path().join("kubeconfig")).unwrap();
        let client = runtime.block_on(async {
            let mut config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
            if let Some(address) = address {
                config.cluster_url = address.parse().unwrap();
                // It serves with a certificate that is made for the test.
                config.accept_invalid_certs = true;
            }
            match sender {
                Sender::Admin => {}
                Sender::Nobody => config.auth_info = AuthInfo::default(),
                Sender::Token(token) => {
                    config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
                }
            }
            kube::Client::try_from(config).unwrap()
        });
        Self { runtime, client }
    }

    /// The status of the answer, and its text.
    fn post(&self, body: &str) -> (u16, String) {
        let request = http::Request::post("/v1/alerts")
            .header("content-type", "application/json")
            .body(kube::client::Body::from(body.as_bytes().to_vec()))
            .unwrap();
        self.runtime.block_on(async {
            let response = self.client.send(request).await.unwrap();
            let code = response.status().as_u16();
            let bytes = response.into_body().collect_bytes().await.unwrap();
            (code, String::from_utf8_lossy(&bytes).into_owned())
        })
    }
}

/// A notification as Alertmanager sends it.
fn notification(status: &str, labels: &Value) -> String {
    json!({
        "version": "4",
        "groupKey": "{}:{alertname=\"GPUFellOffTheBus\"}",
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "lazaret",
        "groupLabels": {"alertname": "GPUFellOffTheBus"},
        "commonLabels": labels,
        "commonAnnotations": {},
        "externalURL": "http://alertmanager:9093",
        "alerts": [{
            "status": status,
            "labels": labels,
            "annotations": {"summary": "XID 79 on a GPU"},
            "startsAt": "2026-01-31T12:00:00.000Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus:9090/graph",
            "fingerprint": "c0ffee0123456789",
        }],
    })
    .to_string()
}

fn policy() -> Value {
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": "alerts"},
        "spec": {"mode": "Enforce", "clearAfter": "1s", "rules": [
            {"name": "bus", "stage": "Quarantined", "when": "signal.source == 'Alert' && signal.key == 'GPUFellOffTheBus'"},
        ]},
    })
}

fn uuid_of(cluster: &Cluster, device: &str) -> String {
    let slices = cluster.get(SLICES);
    let mut devices = slices["items"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|slice| slice["spec"]["devices"].as_array().unwrap());
    let found = devices.find(|one| one["name"] == device).unwrap();
    found["attributes"]["uuid"]["string"].as_str().unwrap().to_owned()
}

fn stage(cluster: &Cluster) -> Value {
    cluster.get(INCIDENTS)["items"][0]["status"]["stage"].clone()
}

#[test]
fn an_alert_quarantines_the_device_that_it_names_until_it_is_resolved() {
    let cluster = Cluster::start(&["--nodes", "1", "--devices", "2"]);
    cluster.until("the devices are there", |cluster| !cluster.names(SLICES).is_empty());
    cluster.send("POST", POLICIES, &policy());
    let admin = Webhook::new(&cluster, None, Sender::Admin);
    let labels = json!({
        "alertname": "GPUFellOffTheBus", "severity": "critical", "Hostname": "node-1", "UUID": uuid_of(&cluster, "gpu-1"),
        "device": "nvidia1",
    });
    let (code, said) = admin.post(&notification("firing", &labels));
    assert_eq!((code, said.contains(r#""raised":1"#)), (200, true), "{said}");
    cluster.until("the device is quarantined", |cluster| stage(cluster) == "Quarantined");
    let incident = cluster.get(INCIDENTS)["items"][0].clone();
    assert_eq!(incident["spec"]["device"]["device"], "gpu-1");
    assert_eq!(incident["spec"]["cause"], "rule bus: XID 79 on a GPU");
    cluster.until("it is tainted", |cluster| !cluster.names(RULES).is_empty());
    // Alertmanager repeats itself.
    assert_eq!(admin.post(&notification("firing", &labels)).0, 200);
    assert_eq!(cluster.names(SIGNALS), ["alert-c0ffee0123456789"]);
    assert_eq!(cluster.names(INCIDENTS).len(), 1);
    assert_eq!(admin.post(&notification("resolved", &labels)).0, 200);
    assert!(cluster.names(SIGNALS).is_empty());
    cluster.until("the device is well", |cluster| stage(cluster) == "Cleared");
    cluster.until("its taint is gone", |cluster| cluster.names(RULES).is_empty());
}

#[test]
fn who_is_unknown_or_sends_nonsense_changes_nothing_and_is_counted() {
    let cluster = Cluster::start(&["--nodes", "1", "--devices", "1"]);
    cluster.until("the devices are there", |cluster| !cluster.names(SLICES).is_empty());
    let labels = json!({"alertname": "a", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"});
    let fires = notification("firing", &labels);
    let admin = Webhook::new(&cluster, None, Sender::Admin);
    cluster.send("POST", ACCOUNTS, &json!({"metadata": {"name": "am"}}));
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = cluster.send("POST", &format!("{ACCOUNTS}/am/token"), &asked)["status"]["token"].clone();
    let token = token.as_str().unwrap().to_owned();
    let account = Webhook::new(&cluster, None, Sender::Token(token));
    assert_eq!(Webhook::new(&cluster, None, Sender::Nobody).post(&fires).0, 401);
    assert_eq!(Webhook::new(&cluster, None, Sender::Token("no-such-token".into())).post(&fires).0, 401);
    assert_eq!(account.post(&fires).0, 403);
    assert_eq!(admin.post("{\"version\": \"4\", \"alerts\": 7}").0, 400);
    assert_eq!(admin.post(&fires.replace("\"4\"", "\"3\"")).0, 400);
    assert_eq!(admin.post(&" ".repeat((1 << 20) + 1)).0, 413);
    let (code, said) =
        admin.post(&notification("firing", &json!({"alertname": "a", "node": "node-1", "uuid": "no"})));
    assert_eq!((code, said.contains(r#""unmatched":1"#)), (200, true), "{said}");
    assert!(cluster.names(SIGNALS).is_empty(), "nothing was changed");
    let metrics = cluster.text("/metrics");
    for (outcome, count) in [("unauthenticated", 2), ("forbidden", 1), ("malformed", 3), ("unmatched", 1)] {
        let line = format!("lazaret_alerts_received_total{{outcome=\"{outcome}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
    // A role that may write signals is enough; one that may create them could end alerts of others.
    let mut role = json!({
        "metadata": {"name": "am"},
        "rules": [{"apiGroups": ["lazaret.dev"], "resources": ["devicesignals"], "verbs": ["create"]}],
    });
    cluster.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role);
    let binding = json!({
        "metadata": {"name": "am"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "am"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "am"}],
    });
    cluster.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
    wait_until("the role holds", || {
        account.post(&fires).1.contains("cannot delete devicesignals.lazaret.dev")
    });
    assert!(cluster.names(SIGNALS).is_empty(), "nothing was changed");
    role["rules"][0]["verbs"] = json!(["create", "delete"]);
    cluster.send("PUT", "/apis/rbac.authorization.k8s.io/v1/clusterroles/am", &role);
    wait_until("the role holds", || account.post(&fires).0 == 200);
    assert_eq!(cluster.names(SIGNALS).len(), 1);
}

/// `lazaret run health`, ended with this.
struct Run {
    process: Child,
    address: String,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Run {
    fn start(cluster: &Cluster) -> Self {
        let file = |name: &str| cluster.folder.path().join(name);
        let mut process = Command::new(LAZARET)
            .args(["run", "health", "--alerts-listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(file("kubeconfig"))
            .arg("--alerts-cert")
            .arg(file("ca.crt"))
            .arg("--alerts-key")
            .arg(file("ca.key"))
            .arg("--alerts-client-ca")
            .arg(file("ca.crt"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().unwrap().contains("https://")).unwrap().unwrap();
        let (_, rest) = line.split_once("https://").unwrap();
        let address = format!("https://{}", rest.split('/').next().unwrap());
        // Later lines are read and dropped.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, address }
    }
}

#[test]
fn beside_another_api_server_alerts_are_taken_over_https_from_a_certificate_or_a_token() {
    let cluster = Cluster::start(&["--api-only"]);
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "own"},
        "spec": {
            "driver": "own.example.com", "nodeName": "node-1",
            "devices": [{"name": "a", "attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:3b:00.0"}}}],
            "pool": {"name": "own", "generation": 1, "resourceSliceCount": 1},
        },
    });
    cluster.send("POST", SLICES, &slice);
    cluster.send("POST", POLICIES, &policy());
    let run = Run::start(&cluster);
    let labels = json!({"alertname": "GPUFellOffTheBus", "node": "node-1", "pci_bus_id": "00000000:3B:00.0"});
    let fires = notification("firing", &labels);
    let to = Some(run.address.as_str());
    assert_eq!(Webhook::new(&cluster, to, Sender::Nobody).post(&fires).0, 401);
    assert_eq!(Webhook::new(&cluster, to, Sender::Token("no-such-token".into())).post(&fires).0, 401);
    let admin = Webhook::new(&cluster, to, Sender::Admin);
    assert_eq!(admin.post("nonsense").0, 400);
    assert!(cluster.names(SIGNALS).is_empty(), "nothing was changed");
    let (code, said) = admin.post(&fires);
    assert_eq!(code, 200, "{said}");
    cluster.until("the device is quarantined", |cluster| stage(cluster) == "Quarantined");
    assert_eq!(admin.post(&notification("resolved", &labels)).0, 200);
    cluster.until("the device is well", |cluster| stage(cluster) == "Cleared");
}
