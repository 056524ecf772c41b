//! A node with cards that a double of NVML plays, and an API server.

use std::{fs, time::Duration};

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Event as ApiEvent, Node, Pod},
    resource::v1::{Device, DeviceClass, DeviceTaint, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use lazaret_cdi::{ContainerEdits, Spec};
use lazaret_driver::{
    Client,
    proto::{self, ClaimMessage, ClaimsRequest, PrepareResponse, PreparedClaim, UnprepareResponse},
};
use lazaret_nvidia::{DRIVER, Nvidia, Options, Partitions, start};
use lazaret_testkit::Cluster;
use nvidia_ml_double::{Card, Hardware, Profile, Script, install};
use serde_json::{Value, json};

/// NVML's bit of an XID.
pub(crate) const XID: u64 = 8;
/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) node: &'static str,
    pub(crate) root: tempfile::TempDir,
    pub(crate) script: Script,
}

pub(crate) fn card(number: u32) -> Card {
    let profile = |id, name: &str, multiprocessors, size, starts: &[u32]| Profile {
        id,
        name: name.into(),
        slices: size,
        memory: 16_384 * u64::from(size),
        multiprocessors,
        size,
        starts: starts.to_vec(),
    };
    Card {
        uuid: format!("GPU-{number}"),
        name: "NVIDIA H200".into(),
        minor: number,
        memory: 143_771 << 20,
        profiles: vec![profile(19, "1g.18gb", 16, 1, &[0, 1, 2]), profile(9, "3g.71gb", 60, 4, &[0, 4])],
        ..Card::default()
    }
}

impl World {
    pub(crate) async fn new(cards: u32) -> Self {
        let cluster = Cluster::start();
        cluster.allow_devices_twice();
        let nodes: Api<Node> = Api::all(cluster.client());
        let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        Self::on(cluster, "n", cards)
    }

    pub(crate) fn on(cluster: Cluster, node: &'static str, cards: u32) -> Self {
        let cards_of = (0..cards).map(card).collect();
        let script = Script { driver: "580.159.04".into(), cards: cards_of, ..Script::default() };
        let root = tempfile::Builder::new().prefix("nv").tempdir().unwrap();
        install(root.path(), &script).unwrap();
        let world = Self { cluster, node, root, script };
        world.make_host(cards);
        world
    }

    /// A host's files, as the kernel module shows them. Device nodes are plain files: their numbers are 0.
    pub(crate) fn make_host(&self, cards: u32) {
        let host = self.host();
        for folder in ["dev", "proc", "usr/bin", "usr/lib64"] {
            fs::create_dir_all(host.join(folder)).unwrap();
        }
        fs::write(host.join("proc/devices"), "195 nvidia\n236 nvidia-caps\n").unwrap();
        fs::write(host.join("dev/nvidiactl"), "").unwrap();
        fs::write(host.join("usr/lib64/libcuda.so.580.159.04"), "").unwrap();
        for card in 0..cards {
            fs::write(host.join(format!("dev/nvidia{card}")), "").unwrap();
            for instance in 0..8 {
                let folder =
                    host.join(format!("proc/driver/nvidia/capabilities/gpu{card}/mig/gi{instance}/ci0"));
                fs::create_dir_all(&folder).unwrap();
                let minor = 10 + instance * 2;
                fs::write(folder.join("access"), format!("DeviceFileMinor: {}\n", minor + 1)).unwrap();
                fs::write(folder.parent().unwrap().join("access"), format!("DeviceFileMinor: {minor}\n"))
                    .unwrap();
            }
        }
    }

    pub(crate) fn host(&self) -> std::path::PathBuf {
        self.root.path().join("host")
    }

    pub(crate) fn cdi(&self) -> std::path::PathBuf {
        self.root.path().join("cdi")
    }

    pub(crate) async fn start(&self, partitions: Partitions, evict_on: &[&str]) -> Nvidia {
        let options = Options {
            node: self.node.into(),
            kubelet_root: self.root.path().into(),
            cdi: self.cdi(),
            host_root: self.host(),
            library: Some(self.root.path().join("libnvidia-ml.so.1")),
            partitions,
            evict_on: evict_on.iter().map(|name| (*name).to_owned()).collect(),
            poll: Duration::from_millis(50),
            pod_uid: None,
        };
        start(self.cluster.client(), options).await.unwrap()
    }

    pub(crate) fn happens(&mut self, act: impl FnOnce(&mut Script)) {
        act(&mut self.script);
        self.script.write(self.root.path()).unwrap();
    }

    pub(crate) async fn devices(&self) -> Vec<Device> {
        let api: Api<ResourceSlice> = Api::all(self.cluster.client());
        let slices = api.list(&ListParams::default()).await.unwrap();
        slices.items.into_iter().flat_map(|slice| slice.spec.devices.unwrap_or_default()).collect()
    }

    /// Waits until the taints of a device are these: key after the driver's name, value, effect.
    pub(crate) async fn until_taints(&self, device: &str, wanted: &[(&str, &str, &str)]) {
        let written = |taint: &DeviceTaint| {
            let key = taint.key.trim_start_matches("gpu.nvidia.com/").to_owned();
            (key, taint.value.clone().unwrap_or_default(), taint.effect.clone())
        };
        let mut last = Vec::new();
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        let wait = async {
            loop {
                let devices = self.devices().await;
                let found = devices.iter().find(|found| found.name == device);
                last = found
                    .and_then(|found| found.taints.clone())
                    .unwrap_or_default()
                    .iter()
                    .map(written)
                    .collect::<Vec<_>>();
                last.sort();
                let same =
                    last.iter().map(|(key, value, effect)| (key.as_str(), value.as_str(), effect.as_str()));
                if same.eq(wanted.iter().copied()) && found.is_some() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "taints of {device} never were {wanted:?}, but {last:?}");
    }

    pub(crate) async fn claim(&self, name: &str, device: &str, config: Option<Value>) -> ClaimMessage {
        let api: Api<ResourceClaim> = Api::namespaced(self.cluster.client(), "default");
        let claim = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        }));
        let claim = api.create(&PostParams::default(), &claim.unwrap()).await.unwrap();
        let result = json!({"request": "r", "driver": DRIVER, "pool": self.node, "device": device});
        let config: Vec<Value> = config
            .into_iter()
            .map(|parameters| json!({"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": parameters}}))
            .collect();
        let status = json!({"status": {"allocation": {"devices": {"results": [result], "config": config}}}});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        ClaimMessage { namespace: "default".into(), name: name.into(), uid: claim.metadata.uid.unwrap() }
    }

    pub(crate) async fn prepare(&self, driver: &Nvidia, claim: &ClaimMessage) -> PreparedClaim {
        let mut plugin = Client::connect(&driver.running.sockets().service).await.unwrap();
        let request = ClaimsRequest { claims: vec![claim.clone()] };
        let mut answer: PrepareResponse = plugin.call(proto::PREPARE_V1, request).await.unwrap();
        answer.claims.remove(&claim.uid).unwrap()
    }

    pub(crate) async fn unprepare(&self, driver: &Nvidia, claim: &ClaimMessage) -> String {
        let mut plugin = Client::connect(&driver.running.sockets().service).await.unwrap();
        let request = ClaimsRequest { claims: vec![claim.clone()] };
        let mut answer: UnprepareResponse = plugin.call(proto::UNPREPARE_V1, request).await.unwrap();
        answer.claims.remove(&claim.uid).unwrap().error
    }

    /// The edits of a container with the prepared devices. Nodes of this host are plain files, so nothing is injected.
    pub(crate) fn edits(&self, claim: &ClaimMessage, prepared: &PreparedClaim) -> ContainerEdits {
        assert_eq!(prepared.error, "");
        let mut file = fs::read_dir(self.cdi()).unwrap().flatten().map(|entry| entry.path());
        let file = file.find(|path| path.to_string_lossy().contains(&claim.uid)).unwrap();
        let spec: Spec = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let mut edits = spec.container_edits;
        for id in prepared.devices.iter().flat_map(|device| &device.cdi_device_ids) {
            let (kind, name) = id.split_once('=').unwrap();
            assert_eq!(kind, spec.kind);
            edits.append(&spec.devices.iter().find(|device| device.name == name).unwrap().container_edits);
        }
        edits
    }

    /// Waits until a pod runs with a device that is meant; gives the device.
    pub(crate) async fn until_running_on(&self, meant: impl Fn(&str) -> bool) -> String {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client(), "default");
        let claims: Api<ResourceClaim> = Api::namespaced(self.cluster.client(), "default");
        let wait = async {
            loop {
                let all = pods.list(&ListParams::default()).await.unwrap();
                let runs = |pod: &&Pod| {
                    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                    phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
                };
                for pod in all.iter().filter(runs) {
                    let named =
                        pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
                    let name = named.and_then(|all| all.first()?.resource_claim_name.clone());
                    let Some(name) = name else { continue };
                    let Ok(claim) = claims.get(&name).await else { continue };
                    let allocation = claim.status.and_then(|status| status.allocation?.devices?.results);
                    let device = allocation.and_then(|results| Some(results.first()?.device.clone()));
                    if let Some(device) = device.filter(|device| meant(device)) {
                        return device;
                    }
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("a pod runs")
    }

    /// Waits until there is no pod that runs or is to run on a device.
    pub(crate) async fn until_none_runs(&self) {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client(), "default");
        let wait = async {
            loop {
                let all = pods.list(&ListParams::default()).await.unwrap();
                let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
                if !all.items.is_empty() && all.iter().all(|pod| phase(pod).as_deref() == Some("Pending")) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("pods wait");
    }

    /// Waits for an event of the Node with this in its message.
    pub(crate) async fn until_event(&self, part: &str) -> ApiEvent {
        let api: Api<ApiEvent> = Api::namespaced(self.cluster.client(), "default");
        let wait = async {
            loop {
                let all = api.list(&ListParams::default()).await.unwrap();
                let is_meant =
                    |event: &&ApiEvent| event.message.as_deref().is_some_and(|text| text.contains(part));
                if let Some(found) = all.iter().find(is_meant) {
                    return found.clone();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("no event with {part:?}"))
    }

    pub(crate) fn hardware(&self) -> Hardware {
        Hardware::read(self.root.path())
    }

    pub(crate) fn data(&self) -> std::path::PathBuf {
        Options::data(self.root.path())
    }

    /// A class for whole GPUs, and a ReplicaSet whose one pod wants one.
    pub(crate) async fn run_pod(&self) {
        let client = self.cluster.client();
        let classes: Api<DeviceClass> = Api::all(client.clone());
        let class = json!({
            "metadata": {"name": "gpu.nvidia.com"},
            "spec": {"selectors": [{"cel": {"expression":
                "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}]},
        });
        classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
        let templates: Api<ResourceClaimTemplate> = Api::namespaced(client.clone(), "default");
        let template = json!({"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
        ]}}}});
        templates.create(&PostParams::default(), &serde_json::from_value(template).unwrap()).await.unwrap();
        let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), "default");
        let pod = json!({
            "metadata": {"labels": {"app": "a"}},
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "g"}]}}],
                "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "one"}],
            },
        });
        let set = json!({
            "metadata": {"name": "a"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": pod},
        });
        sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    }

    pub(crate) async fn scale(&self, replicas: u32) {
        let sets: Api<ReplicaSet> = Api::namespaced(self.cluster.client(), "default");
        let patch = json!({"spec": {"replicas": replicas}});
        sets.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}
