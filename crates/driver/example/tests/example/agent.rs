//! The agent's machine and the example driver, over real sockets: registration, prepare, restart, unprepare.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use k8s_openapi::api::{core::v1::Node, resource::v1::ResourceClaim};
use kube::api::{Api, Patch, PatchParams, PostParams};
use lazaret_driver::{
    Client, Registration,
    proto::{
        self, ClaimMessage, ClaimsRequest, InfoRequest, PluginInfo, PrepareResponse, RegistrationStatus,
        RegistrationStatusResponse, UnprepareResponse,
    },
};
use lazaret_example::{Example, Options, start};
use lazaret_node::{
    Answer, ClaimId, ClaimKind, ClaimName, ClaimView, ContainerClaim, DeviceState, Effect, Manager,
    NodeError, PodClaim, PodView, cdi_ids,
};
use lazaret_testkit::Cluster;
use serde_json::json;

const DRIVER: &str = "gpu.example.com";
const KIND: ClaimKind = ClaimKind::Structured;

struct Agent {
    root: tempfile::TempDir,
    manager: Manager,
}

impl Agent {
    fn checkpoint(&self) -> PathBuf {
        self.root.path().join("dra_manager_state")
    }

    /// Registers all plugins whose sockets are there, as kubelet does.
    async fn register(&mut self) {
        for entry in std::fs::read_dir(self.root.path().join("plugins_registry")).unwrap().flatten() {
            let mut plugin = Client::connect(&entry.path()).await.unwrap();
            let info: PluginInfo = plugin.call(proto::GET_INFO, InfoRequest {}).await.unwrap();
            assert_eq!(info.r#type, proto::PLUGIN_TYPE);
            let result =
                self.manager.plugins.register(KIND, &info.name, &info.endpoint, &info.supported_versions);
            let error = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
            let status = RegistrationStatus { plugin_registered: result.is_ok(), error };
            let _: RegistrationStatusResponse = plugin.call(proto::NOTIFY, status).await.unwrap();
        }
    }

    /// Carries all effects out; how the operation ended.
    async fn work(&mut self) -> Result<(), NodeError> {
        let mut ended = None;
        while let Some((id, effect)) = self.manager.poll() {
            let answer = match effect {
                Effect::Done(_, result) => {
                    ended = Some(result);
                    continue;
                }
                Effect::Checkpoint(text) => {
                    std::fs::write(self.checkpoint(), text).unwrap();
                    Answer::Written
                }
                Effect::Prepare { endpoint, claims, .. } => prepare(endpoint, claims).await,
                Effect::Unprepare { endpoint, claims, .. } => unprepare(endpoint, claims).await,
                Effect::CallClassic { .. } | Effect::FindClaim(_) => {
                    unreachable!("no claim is a classic one")
                }
            };
            self.manager.acknowledge(id, answer);
        }
        ended.unwrap()
    }
}

fn request(claims: Vec<ClaimId>) -> ClaimsRequest {
    let claim = |id: ClaimId| ClaimMessage { namespace: id.namespace, name: id.name, uid: id.uid };
    ClaimsRequest { claims: claims.into_iter().map(claim).collect() }
}

async fn prepare(endpoint: String, claims: Vec<ClaimId>) -> Answer {
    let mut plugin = Client::connect(endpoint.as_ref()).await.unwrap();
    let answer: Result<PrepareResponse, _> = plugin.call(proto::PREPARE_V1, request(claims)).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(status) => return Answer::Failed(status.to_string()),
    };
    let claims = answer.claims.into_iter().map(|(uid, claim)| {
        let devices = claim.devices.into_iter().map(|device| DeviceState {
            pool: device.pool_name,
            device: device.device_name,
            share: device.share_id,
            requests: device.request_names,
            cdi_ids: device.cdi_device_ids,
        });
        (uid, if claim.error.is_empty() { Ok(devices.collect()) } else { Err(claim.error) })
    });
    Answer::Claims(claims.collect())
}

async fn unprepare(endpoint: String, claims: Vec<ClaimId>) -> Answer {
    let mut plugin = Client::connect(endpoint.as_ref()).await.unwrap();
    let answer: UnprepareResponse = plugin.call(proto::UNPREPARE_V1, request(claims)).await.unwrap();
    let ended = |error: String| if error.is_empty() { Ok(vec![]) } else { Err(error) };
    Answer::Claims(answer.claims.into_iter().map(|(uid, claim)| (uid, ended(claim.error))).collect())
}

async fn claim(cluster: &Cluster, pod: &str) -> ClaimView {
    let api: Api<ResourceClaim> = Api::namespaced(cluster.client(), "default");
    let claim = serde_json::from_value(json!({
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    }));
    let claim = api.create(&PostParams::default(), &claim.unwrap()).await.unwrap();
    let result = json!({"request": "r", "driver": DRIVER, "pool": "n", "device": "gpu-0"});
    let status = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
    api.patch_status("c", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    ClaimView {
        id: ClaimId {
            kind: KIND,
            namespace: "default".into(),
            name: "c".into(),
            uid: claim.metadata.uid.unwrap(),
        },
        owners: [].into(),
        reserved_for: [pod.to_owned()].into(),
        drivers: Some([DRIVER.to_owned()].into()),
        devices: vec![],
        attributes: BTreeMap::new(),
    }
}

async fn driver(cluster: &Cluster, agent: &Agent) -> Example {
    let options = Options {
        driver: DRIVER.into(),
        node: "n".into(),
        devices: 1,
        kubelet_root: agent.root.path().into(),
        cdi: agent.root.path().join("cdi"),
        pod_uid: None,
        health_interval: Duration::from_secs(1),
        recover_after: Duration::from_secs(1),
        faults: vec![],
    };
    start(cluster.client(), options).await.unwrap()
}

#[tokio::test]
async fn a_pod_gets_its_gpu_and_gives_it_back_though_agent_and_driver_restart() {
    let cluster = Cluster::start();
    let nodes: Api<Node> = Api::all(cluster.client());
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let root = tempfile::Builder::new().prefix("a").tempdir().unwrap();
    let mut agent = Agent { root, manager: Manager::default() };
    let example = driver(&cluster, &agent).await;
    agent.register().await;
    assert_eq!(*example.running.registration().borrow(), Registration::Registered);

    let claims: BTreeMap<ClaimName, ClaimView> =
        [((KIND, "c".to_owned()), claim(&cluster, "p").await)].into();
    let used = PodClaim { kind: KIND, name: Some("c".into()), is_generated: false };
    let pod = PodView { uid: "p".into(), namespace: "default".into(), name: "p".into(), claims: vec![used] };
    lazaret_example::tell(&example.control, &["error prepare not yet".into()]).await.unwrap();
    agent.manager.prepare(&pod, &claims).unwrap();
    assert!(agent.work().await.unwrap_err().to_string().contains("not yet"));
    lazaret_example::tell(&example.control, &["work prepare".into()]).await.unwrap();
    agent.manager.prepare(&pod, &claims).unwrap();
    agent.work().await.unwrap();
    let container = ContainerClaim { kind: KIND, claim: "c".into(), request: Some("r".into()) };
    let ids = cdi_ids(&agent.manager.states(), "default", std::slice::from_ref(&container));
    let mut oci = json!({});
    lazaret_cdi::Cache::new([agent.root.path().join("cdi")]).inject(&mut oci, &ids).unwrap();
    assert_eq!(oci["process"]["env"].as_array().unwrap().len(), 2);

    // Both restart. The pod was deleted by force meanwhile, and so was its claim.
    example.stop().await;
    let example = driver(&cluster, &agent).await;
    agent.manager = Manager::restore(&std::fs::read(agent.checkpoint()).unwrap()).unwrap();
    agent.register().await;
    assert_eq!(cdi_ids(&agent.manager.states(), "default", &[container]), ids);
    let api: Api<ResourceClaim> = Api::namespaced(cluster.client(), "default");
    api.delete("c", &kube::api::DeleteParams::default()).await.unwrap();
    for gone in agent.manager.inactive(&[].into()) {
        agent.manager.unprepare(&gone).unwrap();
        agent.work().await.unwrap();
    }
    assert!(agent.manager.states().is_empty());
    assert_eq!(std::fs::read_dir(agent.root.path().join("cdi")).unwrap().count(), 0);
    example.stop().await;
}
