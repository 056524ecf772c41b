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
use lazaret_example::{
    Example, Extras, FaultKind, Faults, Options, Profile, Shape, Soak, SoakOptions, start_with, tell,
};
use lazaret_testkit::Cluster;
use serde_json::{Value, json};

const DRIVER: &str = "gpu.example.com";

struct World {
    cluster: Cluster,
    root: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let world =
            Self { cluster: Cluster::start(), root: tempfile::Builder::new().prefix("e").tempdir().unwrap() };
        world.cluster.allow_devices_twice();
        let nodes: Api<Node> = Api::all(world.cluster.client());
        let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        // Without it, no claim may have a device for administration.
        let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
        let namespaces: Api<Namespace> = Api::all(world.cluster.client());
        namespaces.patch("default", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
        world
    }

    async fn start(&self) -> Example {
        self.start_with(DRIVER, Extras::default()).await
    }

    async fn start_with(&self, driver: &str, extras: Extras) -> Example {
        let example = start_with(self.cluster.client(), self.options(driver), extras).await.unwrap();
        example.running.publisher().settled().await;
        example
    }

    fn options(&self, driver: &str) -> Options {
        Options {
            driver: driver.into(),
            node: "n".into(),
            devices: 3,
            kubelet_root: self.root.path().into(),
            cdi: self.cdi(),
            pod_uid: None,
            health_interval: Duration::from_millis(5),
            recover_after: Duration::from_millis(1),
            faults: vec![],
        }
    }

    fn cdi(&self) -> PathBuf {
        self.root.path().join("cdi")
    }

    async fn claim(&self, name: &str, device: &str, admin: bool) -> ClaimsRequest {
        let result = json!({"request": "r", "driver": DRIVER, "pool": "n", "device": device});
        let admin = if admin { json!({"adminAccess": true}) } else { json!({}) };
        self.claim_with(name, result, admin).await
    }

    async fn claim_with(&self, name: &str, mut result: Value, more: Value) -> ClaimsRequest {
        let api: Api<ResourceClaim> = Api::namespaced(self.cluster.client(), "default");
        let claim = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        }));
        let claim = api.create(&PostParams::default(), &claim.unwrap()).await.unwrap();
        result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let status = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        let claim =
            ClaimMessage { namespace: "default".into(), name: name.into(), uid: claim.metadata.uid.unwrap() };
        ClaimsRequest { claims: vec![claim] }
    }

    async fn slices(&self, driver: &str) -> Vec<ResourceSlice> {
        let api: Api<ResourceSlice> = Api::all(self.cluster.client());
        let fields = format!("spec.driver={driver}");
        api.list(&ListParams::default().fields(&fields)).await.unwrap().items
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
    // Without a readable checkpoint it is not known which devices are in use: none is prepared.
    std::fs::write(world.root.path().join("plugins/gpu.example.com/checkpoint.json"), "{").unwrap();
    assert!(prepare(&example, &first).await.unwrap_err().contains("checkpoint.json cannot be understood"));
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
    assert!(say(&example, "recover gpu-9").await.starts_with("error: there is no device"));
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

fn shape(profile: Profile) -> Shape {
    Shape { profile, ..Shape::default() }
}

#[tokio::test]
async fn the_api_server_takes_every_kind_of_device() {
    let world = World::new().await;
    for profile in [Profile::Gpu, Profile::Nic, Profile::Fpga] {
        for number in 0..8_u16 {
            let (partitions, is_shared, has_binding_conditions) =
                ((number & 1) * 4, number & 2 != 0, number & 4 != 0);
            let driver = format!("{}-{number}.example.com", profile.word());
            let shape = Shape { partitions, is_shared, has_binding_conditions, ..shape(profile) };
            let example = world.start_with(&driver, Extras { shape, ..Extras::default() }).await;
            let slices = world.slices(&driver).await;
            let devices: Vec<&Device> =
                slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten()).collect();
            assert_eq!(devices.len(), if partitions > 0 { 15 } else { 3 }, "{driver}");
            let counters =
                slices.iter().flat_map(|slice| slice.spec.shared_counters.iter().flatten()).count();
            assert_eq!(counters, if partitions > 0 { 3 } else { 0 });
            for device in devices {
                assert_eq!(device.consumes_counters.is_some(), partitions > 0);
                assert_eq!(device.allow_multiple_allocations == Some(true), is_shared);
                assert_eq!(device.binding_conditions.is_some(), has_binding_conditions);
                let attributes = device.attributes.as_ref().unwrap();
                assert_eq!(attributes[lazaret_example::FAILS_ON_COMMAND].bool, Some(true));
            }
            example.stop().await;
        }
    }
}

#[tokio::test]
async fn a_device_and_its_parts_are_never_used_together() {
    let world = World::new().await;
    let shape = Shape { partitions: 2, ..Shape::default() };
    let example = world.start_with(DRIVER, Extras { shape, ..Extras::default() }).await;
    let whole = world.claim("whole", "gpu-0", false).await;
    let parts =
        [world.claim("a", "gpu-0-part-0", false).await, world.claim("b", "gpu-0-part-1", false).await];
    for part in &parts {
        prepare(&example, part).await.unwrap();
    }
    assert!(prepare(&example, &whole).await.unwrap_err().contains("in use by claim"));
    for part in &parts {
        unprepare(&example, part).await;
    }
    prepare(&example, &whole).await.unwrap();
    assert!(prepare(&example, &parts[1]).await.unwrap_err().contains("in use by claim"));
    // A fault of the whole is a fault of its parts; when it vanishes, they do.
    say(&example, "fail gpu-1 lost").await;
    world
        .devices_when(|devices| {
            let tainted = devices.iter().filter(|device| device.taints.is_some());
            tainted.filter(|device| device.name.starts_with("gpu-1")).count() == 3
        })
        .await;
    say(&example, "vanish gpu-1").await;
    world.devices_when(|devices| devices.iter().all(|device| !device.name.starts_with("gpu-1"))).await;
}

#[tokio::test]
async fn claims_share_a_device_and_containers_read_what_it_is() {
    let world = World::new().await;
    let shape = Shape { is_shared: true, ..shape(Profile::Nic) };
    let example = world.start_with(DRIVER, Extras { shape, has_metadata: true, ..Extras::default() }).await;
    let result = |share: &str| {
        json!({"request": "r", "driver": DRIVER, "pool": "n", "device": "nic-0", "shareID": share,
            "consumedCapacity": {"bandwidth": "10G"}})
    };
    let (first, second) = ("a4a9ba1c-7a5e-4d5e-9c44-7e9d8c1f0a01", "a4a9ba1c-7a5e-4d5e-9c44-7e9d8c1f0a02");
    let claims = [
        world.claim_with("a", result(first), json!({})).await,
        world.claim_with("b", result(second), json!({})).await,
    ];
    for (claim, share) in claims.iter().zip([first, second]) {
        let ids = prepare(&example, claim).await.unwrap();
        let uid = &claim.claims[0].uid;
        let wanted = [format!("{DRIVER}/nic={uid}-nic-0-{share}"), format!("{DRIVER}/metadata={uid}_r")];
        assert_eq!(ids, wanted);
        let mut oci = json!({});
        lazaret_cdi::Cache::new([world.cdi()]).inject(&mut oci, &ids).unwrap();
        let text = std::fs::read_to_string(oci["mounts"][0]["source"].as_str().unwrap()).unwrap();
        assert!(text.contains(r#""hardwareAddress": "02:00:00:00:00:00""#), "{text}");
    }
    for claim in &claims {
        assert_eq!(unprepare(&example, claim).await, "");
    }
    assert_eq!(std::fs::read_dir(world.cdi()).unwrap().count(), 0);
}

#[tokio::test]
async fn devices_are_made_ready_before_a_pod_is_bound() {
    let world = World::new().await;
    let shape = Shape { has_binding_conditions: true, ..shape(Profile::Fpga) };
    let example = world.start_with(DRIVER, Extras { shape, ..Extras::default() }).await;
    let result = |device: &str| {
        json!({"request": "r", "driver": DRIVER, "pool": "n", "device": device,
            "bindingConditions": [format!("{DRIVER}/ready")],
            "bindingFailureConditions": [format!("{DRIVER}/not-ready")]})
    };
    let api: Api<ResourceClaim> = Api::namespaced(world.cluster.client(), "default");
    let condition = async |name: &str| loop {
        let claim = api.get(name).await.unwrap();
        let devices = claim.status.and_then(|status| status.devices).unwrap_or_default();
        let conditions = devices.into_iter().flat_map(|device| device.conditions.unwrap_or_default());
        if let Some(condition) = conditions.into_iter().next() {
            return (condition.type_, condition.message);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    world.claim_with("a", result("fpga-0"), json!({})).await;
    assert_eq!(condition("a").await.0, format!("{DRIVER}/ready"));
    say(&example, "error bind no bitstream").await;
    world.claim_with("b", result("fpga-1"), json!({})).await;
    assert_eq!(condition("b").await, (format!("{DRIVER}/not-ready"), "no bitstream".into()));
}

#[tokio::test]
async fn stale_and_incomplete_generations_are_published_and_repaired() {
    let world = World::new().await;
    let example = world.start().await;
    let generations = async || -> Vec<(i64, i64)> {
        let slices = world.slices(DRIVER).await;
        let pool = |slice: &ResourceSlice| (slice.spec.pool.generation, slice.spec.pool.resource_slice_count);
        slices.iter().map(pool).collect()
    };
    assert_eq!(generations().await, [(1, 1)]);
    assert_eq!(say(&example, "publish stale").await, "ok");
    assert_eq!(generations().await, [(1, 1), (0, 1)]);
    // A fault is not published meanwhile.
    say(&example, "fail gpu-0 lost").await;
    assert_eq!(say(&example, "list").await, "fail gpu-0 lost\npublish stale");
    assert_eq!(say(&example, "work publish").await, "ok");
    world.devices_when(|devices| devices.len() == 3 && devices[0].taints.is_some()).await;
    assert_eq!(say(&example, "publish incomplete").await, "ok");
    assert_eq!(generations().await, [(2, 2)]);
    say(&example, "work publish").await;
    example.running.publisher().settled().await;
    while generations().await != [(2, 1)] {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(say(&example, "hang publish").await, "ok");
    say(&example, "vanish gpu-2").await;
    assert_eq!(world.devices_when(|_| true).await.len(), 3);
    say(&example, "work publish").await;
    world.devices_when(|devices| devices.len() == 2).await;
}

#[tokio::test]
async fn broken_frames_fail_calls_until_they_are_mended() {
    let world = World::new().await;
    let example = world.start().await;
    let claim = world.claim("a", "gpu-0", false).await;
    let socket = example.running.sockets().service.clone();
    for command in ["frames garbage", "frames giant"] {
        let mut connected = Client::connect(&socket).await.unwrap();
        assert_eq!(say(&example, command).await, "ok");
        // On a connection that was fine, and on a new one.
        let answer: Result<PrepareResponse, _> = connected.call(proto::PREPARE_V1, claim.clone()).await;
        assert!(answer.is_err(), "{command}");
        if let Ok(mut client) = Client::connect(&socket).await {
            let answer: Result<PrepareResponse, _> = client.call(proto::PREPARE_V1, claim.clone()).await;
            assert!(answer.is_err(), "{command}");
        }
        assert_eq!(say(&example, "work frames").await, "ok");
        prepare(&example, &claim).await.unwrap();
    }
}

#[tokio::test]
async fn an_annotation_of_the_node_makes_devices_fail() {
    let world = World::new().await;
    let example = world.start().await;
    let nodes: Api<Node> = Api::all(world.cluster.client());
    let annotate = async |text: Value| {
        let patch = json!({"metadata": {"annotations": {lazaret_example::FAIL_ANNOTATION: text}}});
        nodes.patch("n", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    let order =
        json!({format!("{DRIVER}/gpu-1"): {"effect": "NoExecute", "reason": "fan"}, "other.com/gpu-2": {}});
    annotate(order.to_string().into()).await;
    let taint = |devices: &[Device], index: usize| {
        let taint = devices.get(index)?.taints.as_ref()?.first()?.clone();
        Some(format!("{}={}:{}", taint.key, taint.value.unwrap_or_default(), taint.effect))
    };
    let devices = world.devices_when(|devices| taint(devices, 1).is_some()).await;
    assert_eq!(taint(&devices, 1).as_deref(), Some("gpu.example.com/unhealthy=fan:NoExecute"));
    assert_eq!(taint(&devices, 2), None, "it is another driver's");
    assert_eq!(say(&example, "list").await, "ordered gpu-1 NoExecute fan");
    annotate(Value::Null).await;
    world.devices_when(|devices| taint(devices, 1).is_none()).await;
}

#[tokio::test]
async fn a_driver_works_after_a_soak() {
    let world = World::new().await;
    let example = world.start().await;
    let names: Vec<String> = (0..3).map(|number| format!("gpu-{number}")).collect();
    let options = SoakOptions { seed: 7, interval: Duration::ZERO, kinds: FaultKind::SURVIVABLE.to_vec() };
    let (mut soak, mut faults) = (Soak::new(&options), Faults::default());
    for _ in 0..60 {
        let command = soak.next(&names, &faults).unwrap();
        faults.apply(&names, command.clone()).unwrap();
        assert_eq!(say(&example, &command.to_string()).await, "ok", "{command}");
    }
    let healed = [
        "recover gpu-0",
        "recover gpu-1",
        "recover gpu-2",
        "work publish",
        "work frames",
        "work prepare",
        "work unprepare",
        "work health",
        "work bind",
        "return gpu-0",
        "return gpu-1",
        "return gpu-2",
    ];
    for command in healed {
        assert_eq!(say(&example, command).await, "ok");
    }
    assert_eq!(say(&example, "list").await, "");
    let all = |devices: &[Device]| {
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        names == ["gpu-0", "gpu-1", "gpu-2"] && devices.iter().all(|device| device.taints.is_none())
    };
    world.devices_when(all).await;
    let claim = world.claim("a", "gpu-0", false).await;
    prepare(&example, &claim).await.unwrap();
    assert_eq!(unprepare(&example, &claim).await, "");
}

#[tokio::test]
async fn every_fault_can_be_there_from_the_start() {
    let world = World::new().await;
    let faults = [
        "fail gpu-0 xid 79",
        "flap gpu-0 hot",
        "vanish gpu-1",
        "return gpu-2 gpu-9",
        "hang prepare",
        "error unprepare busy",
        "error bind no",
        "publish stale",
        "frames giant",
    ];
    let options = Options {
        faults: faults.iter().map(|line| line.parse().unwrap()).collect(),
        ..world.options(DRIVER)
    };
    let example = start_with(world.cluster.client(), options, Extras::default()).await.unwrap();
    let mut listed: Vec<String> = say(&example, "list").await.lines().map(str::to_owned).collect();
    let mut wanted = faults.map(str::to_owned);
    listed.sort();
    wanted.sort();
    assert_eq!(listed, wanted);
    let names = |devices: &[Device]| devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>();
    world.devices_when(|devices| names(devices) == ["gpu-0", "gpu-9", "stale-0"]).await;
    let wrong =
        Options { faults: vec!["fail gpu-8 xid".parse().unwrap()], ..world.options("other.example.com") };
    let error = start_with(world.cluster.client(), wrong, Extras::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no device \"gpu-8\"");
}
