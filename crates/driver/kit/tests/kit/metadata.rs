//! Files in which containers read what their devices are.

use std::path::Path;

use k8s_openapi::api::resource::v1::{DeviceAttribute, NetworkDeviceData, ResourceClaim};
use kube::api::{Api, Patch, PatchParams};
use lazaret_driver::{
    ClaimRef, DeviceMetadata, Kit, MetadataVersion, PreparedDevice, Running, StartError,
    proto::{self, ClaimMessage, PrepareResponse, UnprepareResponse},
};
use serde_json::{Value, json};

use crate::world::{DRIVER, NODE, World, connect, of};

const BOTH: [MetadataVersion; 2] = [MetadataVersion::V1alpha1, MetadataVersion::V1beta1];

fn model(name: &str) -> DeviceMetadata {
    let model = DeviceAttribute { string: Some(name.into()), ..DeviceAttribute::default() };
    DeviceMetadata { attributes: [("model".to_owned(), model)].into(), network_data: None }
}

fn prepared(requests: &[&str], device: &str) -> PreparedDevice {
    PreparedDevice {
        requests: requests.iter().map(|name| (*name).to_owned()).collect(),
        pool: NODE.into(),
        device: device.into(),
        ..PreparedDevice::default()
    }
}

async fn start(world: &World, driver: &str, versions: &[MetadataVersion]) -> Running {
    let kit = Kit::new(driver, world.cluster.client()).kubelet_root(world.root.path());
    let kit = kit.device_metadata(versions.iter().copied()).cdi_directory(world.root.path().join("cdi"));
    kit.start(world.driver()).await.unwrap()
}

/// The CDI names of each device.
async fn prepare(running: &Running, claim: &ClaimMessage) -> Vec<Vec<String>> {
    let mut kubelet = connect(&running.sockets().service).await;
    let answer: PrepareResponse = kubelet.call(proto::PREPARE_V1, of(&[claim])).await.unwrap();
    let entry = &answer.claims[&claim.uid];
    assert_eq!(entry.error, "");
    entry.devices.iter().map(|device| device.cdi_device_ids.clone()).collect()
}

async fn unprepare(running: &Running, claim: &ClaimMessage) -> String {
    let mut kubelet = connect(&running.sockets().service).await;
    let answer: UnprepareResponse = kubelet.call(proto::UNPREPARE_V1, of(&[claim])).await.unwrap();
    answer.claims[&claim.uid].error.clone()
}

/// The mounts that a container with these devices gets: source, destination, options.
fn mounts(root: &Path, ids: &[String]) -> Vec<(String, String, Value)> {
    let mut oci = json!({});
    lazaret_cdi::Cache::new([root.join("cdi")]).inject(&mut oci, ids).unwrap();
    let text = |mount: &Value, name: &str| mount[name].as_str().unwrap().to_owned();
    let list = oci["mounts"].as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|mount| (text(mount, "source"), text(mount, "destination"), mount["options"].clone()))
        .collect()
}

fn documents(path: impl AsRef<Path>) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect()
}

#[tokio::test]
async fn each_request_of_a_direct_claim_has_a_file_in_the_right_containers() {
    let world = World::new();
    let running = start(&world, DRIVER, &BOTH).await;
    let claim = world.claim("c", &[("a", DRIVER, "gpu-0"), ("b", DRIVER, "gpu-2")]).await;
    *world.script.answer.lock().unwrap() = Some(vec![Ok(vec![
        prepared(&["a/big"], "gpu-0").with_metadata(model("m")),
        prepared(&["a/big"], "gpu-1"),
        prepared(&["b"], "gpu-2"),
        prepared(&[], "gpu-3"),
    ])]);
    let ids = prepare(&running, &claim).await;
    let id = |request: &str| format!("{DRIVER}/metadata={}_{request}", claim.uid);
    assert_eq!(ids, [vec![id("a")], vec![], vec![id("b")], vec![]], "once for each request");
    assert_eq!(prepare(&running, &claim).await, ids, "the same again");

    let found = mounts(world.root.path(), &ids[0]);
    let (source, destination, options) = &found[0];
    assert_eq!(found.len(), 1);
    assert_eq!(*options, json!(["ro", "bind"]));
    let directory = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims";
    assert_eq!(*destination, format!("{directory}/c/a/{DRIVER}-metadata.json"));
    let data = world.root.path().join("plugins").join(DRIVER);
    assert_eq!(Path::new(source), data.join("dra-device-metadata/default_c/a/metadata.json"));
    let device = |name: &str| json!({"driver": DRIVER, "pool": NODE, "name": name});
    let mut first = device("gpu-0");
    first["attributes"] = json!({"model": {"string": "m"}});
    let document = |version: &str| {
        json!({
            "kind": "DeviceMetadata",
            "apiVersion": format!("metadata.resource.k8s.io/{version}"),
            "metadata": {"name": "c", "namespace": "default", "uid": claim.uid, "generation": 1},
            "requests": [{"name": "a/big", "devices": [first, device("gpu-1")]}],
        })
    };
    assert_eq!(documents(source), [document("v1beta1"), document("v1alpha1")], "the newest first");

    assert_eq!(unprepare(&running, &claim).await, "");
    assert!(!data.join("dra-device-metadata/default_c").exists());
    assert_eq!(std::fs::read_dir(world.root.path().join("cdi")).unwrap().count(), 0);
    assert_eq!(unprepare(&running, &claim).await, "", "nothing there is a success");
}

#[tokio::test]
async fn a_claim_of_a_template_has_the_name_that_its_pod_uses() {
    let world = World::new();
    let running = start(&world, DRIVER, &[MetadataVersion::V1beta1]).await;
    let claim = world.claim("pod-gpu-x7k2p", &[("r", DRIVER, "gpu-0")]).await;
    let annotation = json!({"metadata": {"annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}}});
    let api: Api<ResourceClaim> = Api::namespaced(world.cluster.client(), "default");
    api.patch(&claim.name, &PatchParams::default(), &Patch::Merge(annotation)).await.unwrap();
    let ids = prepare(&running, &claim).await.concat();
    let own = ids.iter().filter(|id| id.contains("/metadata=")).cloned().collect::<Vec<_>>();
    let (source, destination, _) = &mounts(world.root.path(), &own)[0];
    let directory = "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates";
    assert_eq!(*destination, format!("{directory}/gpu/r/{DRIVER}-metadata.json"));
    let documents = documents(source);
    assert_eq!(documents.len(), 1, "one version alone");
    assert_eq!(documents[0]["podClaimName"], "gpu");
    assert_eq!(documents[0]["metadata"]["name"], "pod-gpu-x7k2p");
}

#[tokio::test]
async fn several_drivers_on_one_request_do_not_collide() {
    let world = World::new();
    let (other, cdi) = ("nic.example.com", world.root.path().join("cdi"));
    let (gpus, nics) = (start(&world, DRIVER, &BOTH).await, start(&world, other, &BOTH).await);
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0"), ("s", other, "nic-0")]).await;
    *world.script.answer.lock().unwrap() = Some(vec![Ok(vec![prepared(&["r"], "d-0")])]);
    let ids = [prepare(&gpus, &claim).await.concat(), prepare(&nics, &claim).await.concat()].concat();
    let mut places: Vec<String> =
        mounts(world.root.path(), &ids).into_iter().map(|(_, destination, _)| destination).collect();
    places.sort();
    let directory = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/c/r";
    assert_eq!(places, [DRIVER, other].map(|driver| format!("{directory}/{driver}-metadata.json")));
    // A file that one removes, the other keeps.
    assert_eq!(unprepare(&gpus, &claim).await, "");
    assert_eq!(mounts(world.root.path(), &ids[1..]).len(), 1);
    assert_eq!(std::fs::read_dir(cdi).unwrap().count(), 1);
}

#[tokio::test]
async fn what_becomes_known_later_is_the_next_generation() {
    let world = World::new();
    let running = start(&world, DRIVER, &BOTH).await;
    let claim = world.claim("c", &[("r", DRIVER, "nic-0")]).await;
    let id = ClaimRef { namespace: "default".into(), name: "c".into(), uid: claim.uid.clone() };
    let network = NetworkDeviceData {
        interface_name: Some("eth1".into()),
        ips: Some(vec!["10.0.0.7/24".into()]),
        hardware_address: None,
    };
    let known = DeviceMetadata { network_data: Some(network), ..DeviceMetadata::default() };
    let known = prepared(&["r"], "nic-0").with_metadata(known);
    let early = running.update_metadata(&id, "r", std::slice::from_ref(&known)).unwrap_err();
    assert!(early.to_string().contains("not prepared"), "{early}");
    *world.script.answer.lock().unwrap() = Some(vec![Ok(vec![prepared(&["r"], "nic-0")])]);
    prepare(&running, &claim).await;
    running.update_metadata(&id, "r", std::slice::from_ref(&known)).unwrap();
    let data = world.root.path().join("plugins").join(DRIVER).join("dra-device-metadata");
    let documents = documents(data.join("default_c/r/metadata.json"));
    assert_eq!(documents[0]["metadata"]["generation"], 2);
    assert_eq!(documents[1]["requests"][0]["devices"][0]["networkData"]["ips"], json!(["10.0.0.7/24"]));
    for (wrong, part) in [("../r", "not a valid name"), ("s", "not prepared")] {
        let error = running.update_metadata(&id, wrong, std::slice::from_ref(&known)).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let mut large = known;
    let attribute = DeviceAttribute { int: Some(1), ..DeviceAttribute::default() };
    large.metadata.as_mut().unwrap().attributes =
        (0..33).map(|number| (format!("a{number}"), attribute.clone())).collect();
    assert!(running.update_metadata(&id, "r", &[large]).unwrap_err().to_string().contains("more than 32"));
}

#[tokio::test]
async fn a_file_that_cannot_be_written_keeps_no_pod_and_one_that_cannot_be_removed_does() {
    let world = World::new();
    let running = start(&world, DRIVER, &BOTH).await;
    let claim = world.claim("c", &[("r", DRIVER, "gpu-0")]).await;
    // A file is where the directory should be.
    let directory = world.root.path().join("plugins").join(DRIVER).join("dra-device-metadata");
    std::fs::write(&directory, "x").unwrap();
    let ids = prepare(&running, &claim).await;
    assert_eq!(ids, [[format!("{DRIVER}/gpu={}-gpu-0", claim.uid)]], "without the file");
    assert!(unprepare(&running, &claim).await.contains("remove the device metadata"));
    std::fs::remove_file(&directory).unwrap();
    assert_eq!(unprepare(&running, &claim).await, "");
}

#[tokio::test]
async fn versions_are_chosen_and_the_newest_is_one_of_them() {
    let world = World::new();
    for versions in [vec![], vec![MetadataVersion::V1alpha1]] {
        let error = world.kit().device_metadata(versions).start(world.driver()).await.unwrap_err();
        assert!(matches!(error, StartError::MetadataVersions), "{error}");
    }
    // Off unless it is turned on.
    let running = world.started().await;
    let claim = ClaimRef { namespace: "default".into(), name: "c".into(), uid: "u".into() };
    let error = running.update_metadata(&claim, "r", &[]).unwrap_err();
    assert!(error.to_string().contains("not enabled"), "{error}");
}
