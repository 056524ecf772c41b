//! The driver of `docs/driver.md`, run.

#[path = "../../examples/minimal.rs"]
mod example;

use lazaret_cdi::Cache;
use lazaret_driver::proto::{self, PrepareResponse, UnprepareResponse};
use serde_json::json;

use crate::world::{NODE, World, connect, of};

#[tokio::test]
async fn the_driver_of_the_documentation_works() {
    let world = World::new();
    world.node().await;
    let (root, cdi) = (world.root.path(), world.root.path().join("cdi"));
    std::fs::create_dir(root.join("faults")).unwrap();
    std::fs::write(root.join("faults/gpu-1"), "79\n").unwrap();
    let running = example::start(world.cluster.client(), NODE, root, &cdi).await.unwrap();
    running.publisher().settled().await;
    let slices = world.slices().await;
    let devices = slices[0].spec.devices.as_ref().unwrap();
    assert_eq!(devices.iter().map(|device| device.taints.is_some()).collect::<Vec<_>>(), [false, true]);

    let claim = world.claim("c", &[("r", "minimal.example.com", "gpu-0")]).await;
    let mut kubelet = connect(&running.sockets().service).await;
    let answer: PrepareResponse = kubelet.call(proto::PREPARE_V1, of(&[&claim])).await.unwrap();
    let ids = &answer.claims[&claim.uid].devices[0].cdi_device_ids;
    let mut oci = json!({"process": {"env": ["PATH=/bin"]}});
    Cache::new([&cdi]).inject(&mut oci, ids).unwrap();
    assert_eq!(oci["process"]["env"], json!(["PATH=/bin", "GPU=gpu-0"]));
    let _: UnprepareResponse = kubelet.call(proto::UNPREPARE_V1, of(&[&claim])).await.unwrap();
    assert!(Cache::new([&cdi]).inject(&mut oci, ids).is_err());
}

#[test]
fn the_documentation_shows_the_driver_that_is_tested() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("../../../docs/driver.md")).unwrap();
    let example = std::fs::read_to_string(root.join("examples/minimal.rs")).unwrap();
    assert!(document.contains(&format!("```rust\n{example}```")), "docs/driver.md shows another driver");
    assert!(example.lines().count() <= 80, "more than an afternoon");
}
