//! The example driver, called as kubelet calls it and told to fail.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{path::PathBuf, time::Duration};

use k8s_openapi::api::{
    core::v1::{Namespace, Node},
    resource::v1::{Device, ResourceClaim, ResourceSlice},
};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use lazaret_driver::{
    Client,
    proto::{self, ClaimMessage, ClaimsRequest, PrepareResponse, UnprepareResponse},
};
use lazaret_example::{Example, Options, start, tell};
use lazaret_testkit::Cluster;
use serde_json::json;

const DRIVER: &str = "gpu.example.com";

struct World {
    cluster: Cluster,
    root: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let world =
            Self { cluster: Cluster::start(), root: tempfile::Builder::new().prefix("e").tempdir().unwrap() };
        let nodes: Api<Node> = Api::all(world.cluster.client());
        let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        // Without it, nobody may have a device for administration.
        let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
        let namespaces: Api<Namespace> = Api::all(world.cluster.client());
        namespaces.patch("default", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
        world
    }

    async fn start(&self) -> Example {
        let options = Options {
            driver: DRIVER.into(),
            node: "n".into(),
            devices: 3,
            kubelet_root: self.root.path().into(),
            cdi: self.cdi(),
            pod_uid: None,
            health_interval: Duration::from_millis(5),
            recover_after: Duration::from_millis(1),
            faults: vec![],
        };
        let example = start(self.cluster.client(), options).await.unwrap();
        example.running.publisher().settled().await;
        example
    }

    fn cdi(&self) -> PathBuf {
        self.root.path().join("cdi")
    }

    async fn claim(&self, name: &str, device: &str, admin: bool) -> ClaimsRequest {
        let api: Api<ResourceClaim> = Api::namespaced(self.cluster.client(), "default");
        let claim = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        }));
        let claim = api.create(&PostParams::default(), &claim.unwrap()).await.unwrap();
        let mut result = json!({"request": "r", "driver": DRIVER, "pool": "n", "device": device});
        if admin {
            result["adminAccess"] = true.into();
        }
        let status = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        let claim =
            ClaimMessage { namespace: "default".into(), name: name.into(), uid: claim.metadata.uid.unwrap() };
        ClaimsRequest { claims: vec![claim] }
    }

    async fn devices_when(&self, wanted: impl Fn(&[Device]) -> bool) -> Vec<Device> {
        let api: Api<ResourceSlice> = Api::all(self.cluster.client());
        loop {
            let slices = api.list(&ListParams::default()).await.unwrap().items;
            let devices: Vec<Device> =
                slices.into_iter().flat_map(|slice| slice.spec.devices.unwrap_or_default()).collect();
            if wanted(&devices) {
                return devices;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn prepare(example: &Example, request: &ClaimsRequest) -> Result<Vec<String>, String> {
    let mut kubelet = Client::connect(&example.running.sockets().service).await.unwrap();
    let answer: PrepareResponse =
        kubelet.call(proto::PREPARE_V1, request.clone()).await.map_err(|status| status.to_string())?;
    let entry = &answer.claims[&request.claims[0].uid];
    if !entry.error.is_empty() {
        return Err(entry.error.clone());
    }
    Ok(entry.devices.iter().flat_map(|device| device.cdi_device_ids.clone()).collect())
}

async fn unprepare(example: &Example, request: &ClaimsRequest) -> String {
    let mut kubelet = Client::connect(&example.running.sockets().service).await.unwrap();
    let answer: UnprepareResponse = kubelet.call(proto::UNPREPARE_V1, request.clone()).await.unwrap();
    answer.claims[&request.claims[0].uid].error.clone()
}

async fn say(example: &Example, command: &str) -> String {
    tell(&example.control, &[command.to_owned()]).await.unwrap().trim_end().to_owned()
}

#[tokio::test]
async fn a_gpu_is_given_to_one_claim_at_a_time_also_after_a_restart() {
    let world = World::new().await;
    let example = world.start().await;
    let (first, second) = (world.claim("a", "gpu-0", false).await, world.claim("b", "gpu-0", false).await);
    let ids = prepare(&example, &first).await.unwrap();
    let mut oci = json!({});
    lazaret_cdi::Cache::new([world.cdi()]).inject(&mut oci, &ids).unwrap();
    let env = oci["process"]["env"].as_array().unwrap();
    assert!(env.iter().any(|variable| variable.as_str().unwrap().starts_with("GPU_0_UUID=gpu-")), "{env:?}");
    assert!(prepare(&example, &second).await.unwrap_err().contains("in use by claim"));
    let admin = world.claim("admin", "gpu-0", true).await;
    prepare(&example, &admin).await.unwrap();
    example.stop().await;

    let example = world.start().await;
    assert!(prepare(&example, &second).await.unwrap_err().contains("in use by claim"));
    assert_eq!(prepare(&example, &first).await.unwrap(), ids, "the same answer again");
    for _ in 0..2 {
        assert_eq!(unprepare(&example, &first).await, "");
    }
    prepare(&example, &second).await.unwrap();
    for request in [&second, &admin] {
        assert_eq!(unprepare(&example, request).await, "");
    }
    assert_eq!(std::fs::read_dir(world.cdi()).unwrap().count(), 0, "no CDI file is left");
    // What is in use is not known: nothing is given.
    std::fs::write(world.root.path().join("plugins/gpu.example.com/checkpoint.json"), "{").unwrap();
    assert!(prepare(&example, &first).await.unwrap_err().contains("not a checkpoint"));
}

#[tokio::test]
async fn faults_become_taints_and_go_again() {
    let world = World::new().await;
    let example = world.start().await;
    let taint = |devices: &[Device], index: usize| {
        let taint = devices.get(index)?.taints.as_ref()?.first()?.clone();
        Some(format!("{}={}:{}", taint.key, taint.value.unwrap_or_default(), taint.effect))
    };
    assert_eq!(say(&example, "fail gpu-1 xid 79").await, "ok");
    assert_eq!(say(&example, "fail gpu-2 lost").await, "ok");
    world
        .devices_when(|devices| {
            taint(devices, 1).as_deref() == Some("gpu.example.com/xid=79:NoSchedule")
                && taint(devices, 2).as_deref() == Some("gpu.example.com/lost=:NoExecute")
        })
        .await;
    assert_eq!(say(&example, "list").await, "fail gpu-1 xid 79\nfail gpu-2 lost");
    for command in ["recover gpu-1", "recover gpu-2"] {
        assert_eq!(say(&example, command).await, "ok");
    }
    world.devices_when(|devices| devices.iter().all(|device| device.taints.is_none())).await;
    assert!(say(&example, "recover gpu-9").await.starts_with("error: there is no GPU"));
    assert!(say(&example, "what").await.starts_with("error: not understood"));
}

#[tokio::test]
async fn gpus_vanish_and_return_under_another_name_with_the_same_uuid() {
    let world = World::new().await;
    let example = world.start().await;
    let uuid = |device: &Device| device.attributes.as_ref().unwrap()["uuid"].string.clone();
    let before = world.devices_when(|devices| devices.len() == 3).await;
    say(&example, "vanish gpu-1").await;
    world.devices_when(|devices| devices.len() == 2).await;
    let claim = world.claim("a", "gpu-1", false).await;
    assert!(prepare(&example, &claim).await.unwrap_err().contains("there is no n/gpu-1"));
    say(&example, "return gpu-1 gpu-7").await;
    let after = world.devices_when(|devices| devices.len() == 3).await;
    let returned = after.iter().find(|device| device.name == "gpu-7").unwrap();
    assert_eq!(uuid(returned), uuid(&before[1]));
    say(&example, "fail gpu-1 lost").await;
    world
        .devices_when(|devices| {
            devices.iter().any(|device| device.name == "gpu-7" && device.taints.is_some())
        })
        .await;
}

#[tokio::test]
async fn calls_hang_and_fail_on_command() {
    let world = World::new().await;
    let example = world.start().await;
    let claim = world.claim("a", "gpu-0", false).await;
    say(&example, "error prepare out of luck").await;
    assert_eq!(prepare(&example, &claim).await.unwrap_err(), "out of luck");
    say(&example, "hang prepare").await;
    let waiting = prepare(&example, &claim);
    tokio::pin!(waiting);
    for _ in 0..5 {
        tokio::select! {
            _ = &mut waiting => panic!("it hangs"),
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
    }
    say(&example, "work prepare").await;
    assert!(waiting.await.is_ok());
    say(&example, "error unprepare busy").await;
    assert_eq!(unprepare(&example, &claim).await, "busy");
    say(&example, "work unprepare").await;
    assert_eq!(unprepare(&example, &claim).await, "");
}
