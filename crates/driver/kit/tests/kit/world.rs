//! A cluster, a kubelet's directories, and a driver that a test controls.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use k8s_openapi::api::{
    core::v1::Node,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
    resource::v1::{Device, ResourceClaim, ResourceSlice},
};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use lazaret_driver::{
    Claim, ClaimRef, Client, Condition, DeviceKey, Driver, Failure, HealthReport, Kit, Observation, Pool,
    PreparedDevice, Running,
    proto::{ClaimMessage, ClaimsRequest},
};
use lazaret_testkit::Cluster;
use serde_json::json;
use tokio::sync::Notify;

pub(crate) const DRIVER: &str = "gpu.example.com";
pub(crate) const NODE: &str = "node-1";

type Answers = Vec<Result<Vec<PreparedDevice>, Failure>>;

/// The instructions of a driver, and its calls.
#[derive(Default)]
pub(crate) struct Script {
    /// The conditions of each device, by name.
    pub(crate) conditions: Mutex<Option<BTreeMap<String, Vec<Condition>>>>,
    /// The answer of `prepare`, instead of preparing.
    pub(crate) answer: Mutex<Option<Answers>>,
    pub(crate) panics: Mutex<bool>,
    /// `prepare` waits for this.
    pub(crate) holds: Mutex<Option<Arc<Notify>>>,
    pub(crate) begun: AtomicUsize,
    pub(crate) finished: AtomicUsize,
    /// Calls in flight in all instances that share this, and the most there ever were.
    pub(crate) inside: AtomicUsize,
    pub(crate) most_inside: AtomicUsize,
    pub(crate) unprepared: Mutex<Vec<ClaimRef>>,
}

/// A driver that follows its script.
#[derive(Clone)]
pub(crate) struct ScriptedDriver(pub Arc<Script>);

impl Driver for ScriptedDriver {
    async fn prepare(&self, claims: &[Claim]) -> Answers {
        let script = &self.0;
        script.begun.fetch_add(1, Ordering::SeqCst);
        let inside = script.inside.fetch_add(1, Ordering::SeqCst) + 1;
        script.most_inside.fetch_max(inside, Ordering::SeqCst);
        assert!(!*script.panics.lock().unwrap(), "told to panic");
        let hold = script.holds.lock().unwrap().clone();
        if let Some(hold) = hold {
            hold.notified().await;
        }
        tokio::task::yield_now().await;
        script.inside.fetch_sub(1, Ordering::SeqCst);
        script.finished.fetch_add(1, Ordering::SeqCst);
        if let Some(answer) = script.answer.lock().unwrap().clone() {
            return answer;
        }
        let cdi = |claim: &Claim, device: &str| format!("{DRIVER}/gpu={}-{device}", claim.id.uid);
        let prepare = |claim: &Claim| {
            let devices = claim.devices.iter();
            Ok(devices
                .map(|device| PreparedDevice::of(device).with_cdi(cdi(claim, &device.device)))
                .collect())
        };
        claims.iter().map(prepare).collect()
    }

    async fn unprepare(&self, claims: &[ClaimRef]) -> Vec<Result<(), Failure>> {
        self.0.unprepared.lock().unwrap().extend_from_slice(claims);
        claims.iter().map(|_| Ok(())).collect()
    }

    async fn health(&self) -> HealthReport {
        let Some(conditions) = self.0.conditions.lock().unwrap().clone() else {
            return HealthReport::NotMonitored;
        };
        let observed = conditions.into_iter().map(|(device, found)| Observation {
            device: DeviceKey { pool: NODE.into(), device },
            found: Ok(found),
        });
        HealthReport::Observed(observed.collect())
    }
}

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) root: tempfile::TempDir,
    pub(crate) script: Arc<Script>,
}

impl World {
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("k").tempdir().unwrap();
        let cluster = Cluster::start();
        cluster.allow_devices_twice();
        Self { cluster, root, script: Arc::default() }
    }

    pub(crate) fn kit(&self) -> Kit {
        Kit::new(DRIVER, self.cluster.client()).kubelet_root(self.root.path())
    }

    pub(crate) fn driver(&self) -> ScriptedDriver {
        ScriptedDriver(Arc::clone(&self.script))
    }

    pub(crate) async fn started(&self) -> Running {
        self.kit().start(self.driver()).await.unwrap()
    }

    /// A claim that was given these devices (request, driver, device).
    pub(crate) async fn claim(&self, name: &str, devices: &[(&str, &str, &str)]) -> ClaimMessage {
        let api: Api<ResourceClaim> = Api::namespaced(self.cluster.client(), "default");
        let requests: Vec<_> = devices
            .iter()
            .map(|(request, _, _)| json!({"name": request, "exactly": {"deviceClassName": "gpu"}}))
            .collect();
        let claim: ResourceClaim = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"devices": {"requests": requests}},
        }))
        .unwrap();
        let claim = api.create(&PostParams::default(), &claim).await.unwrap();
        if !devices.is_empty() {
            let results: Vec<_> = devices
                .iter()
                .map(|(request, driver, device)| {
                    json!({"request": request, "driver": driver, "pool": NODE, "device": device})
                })
                .collect();
            let status = json!({"status": {"allocation": {"devices": {"results": results}}}});
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        }
        ClaimMessage { namespace: "default".into(), name: name.into(), uid: claim.metadata.uid.unwrap() }
    }

    /// A claim with one result that has these fields.
    pub(crate) async fn claim_with(&self, name: &str, more: serde_json::Value) -> ClaimMessage {
        let claim = self.claim(name, &[("r", DRIVER, "gpu-0")]).await;
        let api: Api<ResourceClaim> = Api::namespaced(self.cluster.client(), "default");
        let gone = json!({"status": {"allocation": null}});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(gone)).await.unwrap();
        let mut result = json!({"request": "r", "driver": DRIVER, "pool": NODE});
        result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let status = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        claim
    }

    pub(crate) async fn node(&self) {
        let api: Api<Node> = Api::all(self.cluster.client());
        let node = serde_json::from_value(json!({"metadata": {"name": NODE}})).unwrap();
        api.create(&PostParams::default(), &node).await.unwrap();
    }

    /// Lets a user do what a driver has to.
    pub(crate) async fn allow(&self, user: &str) {
        let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        let slices = ["get", "list", "watch", "create", "update", "delete"];
        let rules = [
            rule("resource.k8s.io", "resourceclaims", &["get"]),
            rule("resource.k8s.io", "resourceslices", &slices),
            rule("", "nodes", &["get"]),
        ];
        let role = serde_json::from_value(json!({"metadata": {"name": "driver"}, "rules": rules})).unwrap();
        let roles: Api<ClusterRole> = Api::all(self.cluster.client());
        roles.create(&PostParams::default(), &role).await.unwrap();
        let binding = json!({
            "metadata": {"name": "driver"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "driver"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        let bindings: Api<ClusterRoleBinding> = Api::all(self.cluster.client());
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    }

    pub(crate) fn slices_api(&self) -> Api<ResourceSlice> {
        Api::all(self.cluster.client())
    }

    pub(crate) async fn slices(&self) -> Vec<ResourceSlice> {
        self.slices_api().list(&ListParams::default()).await.unwrap().items
    }

    /// Waits until the slices are as the test wants them.
    pub(crate) async fn slices_when(&self, wanted: impl Fn(&[ResourceSlice]) -> bool) -> Vec<ResourceSlice> {
        loop {
            let slices = self.slices().await;
            if wanted(&slices) {
                return slices;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

pub(crate) fn devices(count: usize) -> Vec<Device> {
    (0..count).map(|number| Device { name: format!("gpu-{number}"), ..Device::default() }).collect()
}

pub(crate) fn pools(count: usize) -> BTreeMap<String, Pool> {
    [(NODE.to_owned(), Pool::of(devices(count)))].into()
}

pub(crate) fn of(claims: &[&ClaimMessage]) -> ClaimsRequest {
    ClaimsRequest { claims: claims.iter().map(|claim| (*claim).clone()).collect() }
}

pub(crate) async fn connect(socket: &Path) -> Client {
    Client::connect(socket).await.unwrap()
}
