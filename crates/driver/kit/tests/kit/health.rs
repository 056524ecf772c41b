//! The health stream, and what it has in common with taints.

use std::{collections::BTreeMap, time::Duration};

use lazaret_driver::{
    Condition, HealthRule, HealthTable, KubeletService, StartError, TaintEffect,
    proto::{self, HealthStatus, InfoRequest, PluginInfo, PrepareResponse, WatchRequest, WatchResponse},
};

use crate::world::{DRIVER, NODE, World, connect, pools};

fn conditions(found: &[(&str, &[(&str, &str)])]) -> Option<BTreeMap<String, Vec<Condition>>> {
    let list = |conditions: &[(&str, &str)]| {
        let make =
            |(name, detail): &(&str, &str)| Condition { name: (*name).into(), detail: (*detail).into() };
        conditions.iter().map(make).collect()
    };
    Some(found.iter().map(|(device, conditions)| ((*device).to_owned(), list(conditions))).collect())
}

fn table() -> HealthTable {
    HealthTable::new(DRIVER)
        .with("xid", HealthRule::new("gpu.example.com/xid", TaintEffect::NoExecute).after(1, 1))
        .unwrap()
}

async fn next(stream: &mut tonic::Streaming<WatchResponse>) -> BTreeMap<String, (HealthStatus, String)> {
    let message = stream.message().await.unwrap().unwrap();
    let read = |device: proto::DeviceHealth| {
        assert!(device.last_updated_time > 1_700_000_000);
        assert_eq!(device.health_check_timeout_seconds, 5);
        let status = device.health();
        (device.device.unwrap().device_name, (status, device.message))
    };
    message.devices.into_iter().map(read).collect()
}

#[tokio::test]
async fn one_state_is_a_taint_and_on_the_stream_and_both_recover() {
    let world = World::new();
    world.node().await;
    *world.script.conditions.lock().unwrap() = conditions(&[("gpu-0", &[]), ("gpu-1", &[])]);
    let kit = world
        .kit()
        .node(NODE)
        .pools(pools(2))
        .health_table(table())
        .health_interval(Duration::from_millis(5));
    let running = kit.start(world.driver()).await.unwrap();
    let mut registration = connect(&running.sockets().registration).await;
    let info: PluginInfo = registration.call(proto::GET_INFO, InfoRequest {}).await.unwrap();
    let services =
        ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"];
    assert_eq!(info.supported_versions, services);

    let mut client = connect(&running.sockets().service).await;
    let mut streams: Vec<tonic::Streaming<WatchResponse>> = vec![
        client.watch(proto::WATCH_V1, WatchRequest {}).await.unwrap(),
        client.watch(proto::WATCH_V1ALPHA1, WatchRequest {}).await.unwrap(),
    ];
    for stream in &mut streams {
        let first = next(stream).await;
        assert_eq!(first["gpu-0"], (HealthStatus::Healthy, String::new()));
        assert_eq!(first.len(), 2);
    }
    let slices = world.slices_when(|slices| slices.len() == 1).await;
    assert_eq!(slices[0].spec.devices.as_ref().unwrap().len(), 2);

    *world.script.conditions.lock().unwrap() = conditions(&[("gpu-0", &[]), ("gpu-1", &[("xid", "79")])]);
    while next(&mut streams[0]).await["gpu-1"] != (HealthStatus::Unhealthy, "xid: 79".into()) {}
    let taint = |slices: &[k8s_openapi::api::resource::v1::ResourceSlice]| {
        let devices = slices.first()?.spec.devices.as_ref()?;
        assert!(devices[0].taints.is_none());
        devices[1].taints.as_ref()?.first().cloned()
    };
    let slices = world.slices_when(|slices| taint(slices).is_some()).await;
    let found = taint(&slices).unwrap();
    assert_eq!(
        (found.key.as_str(), found.value.as_deref(), found.effect.as_str()),
        ("gpu.example.com/xid", Some("79"), "NoExecute")
    );
    assert!(found.time_added.is_some());
    assert_eq!(slices[0].spec.pool.generation, 1, "in place");

    // Another publication does not lose it.
    running.publisher().publish(pools(3)).unwrap();
    let slices =
        world.slices_when(|slices| slices[0].spec.devices.as_ref().is_some_and(|all| all.len() == 3)).await;
    assert_eq!(taint(&slices).unwrap().time_added, found.time_added);

    *world.script.conditions.lock().unwrap() = conditions(&[("gpu-0", &[]), ("gpu-1", &[])]);
    while next(&mut streams[1]).await["gpu-1"].0 != HealthStatus::Healthy {}
    world.slices_when(|slices| taint(slices).is_none()).await;
}

#[tokio::test]
async fn a_taint_survives_a_restart_of_the_driver() {
    let world = World::new();
    world.node().await;
    *world.script.conditions.lock().unwrap() = conditions(&[("gpu-0", &[("xid", "79")])]);
    let start = || async {
        let kit = world.kit().node(NODE).pools(pools(1)).health_table(table());
        kit.start(world.driver()).await.unwrap()
    };
    let running = start().await;
    running.publisher().settled().await;
    let before = world.slices().await;
    assert!(before[0].spec.devices.as_ref().unwrap()[0].taints.is_some());
    running.stop().await;
    let running = start().await;
    running.publisher().settled().await;
    let after = world.slices().await;
    assert_eq!(
        after[0].metadata.resource_version, before[0].metadata.resource_version,
        "nothing was written"
    );
}

#[tokio::test]
async fn a_new_device_is_looked_at_before_it_is_published() {
    let world = World::new();
    world.node().await;
    *world.script.conditions.lock().unwrap() = conditions(&[("gpu-0", &[])]);
    // The driver does not look at its devices by itself while this test runs.
    let hour = Duration::from_secs(3600);
    let kit = world.kit().node(NODE).pools(pools(1)).health_table(table()).health_interval(hour);
    let running = kit.start(world.driver()).await.unwrap();
    running.publisher().settled().await;
    *world.script.conditions.lock().unwrap() = conditions(&[("gpu-0", &[]), ("gpu-1", &[("xid", "79")])]);
    running.publisher().publish(pools(2)).unwrap();
    let is_there = |slices: &[k8s_openapi::api::resource::v1::ResourceSlice]| {
        slices[0].spec.devices.as_ref().is_some_and(|devices| devices.len() == 2)
    };
    let slices = world.slices_when(is_there).await;
    let devices = slices[0].spec.devices.as_ref().unwrap();
    assert!(devices[1].taints.is_some(), "it was never published without its taint");
    assert!(devices[0].taints.is_none());
}

#[tokio::test]
async fn a_driver_may_offer_some_services_only() {
    let world = World::new();
    *world.script.conditions.lock().unwrap() = conditions(&[("gpu-0", &[])]);
    let rows: [(&[KubeletService], &[&str]); 3] = [
        (&[KubeletService::HealthV1, KubeletService::PluginV1], &["v1.DRAPlugin", "v1.DRAResourceHealth"]),
        (
            &[KubeletService::PluginV1beta1, KubeletService::HealthV1alpha1],
            &["v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"],
        ),
        (&[KubeletService::PluginV1], &["v1.DRAPlugin"]),
    ];
    for (services, wanted) in rows {
        let running = world.kit().services(services.iter().copied()).start(world.driver()).await.unwrap();
        let mut registration = connect(&running.sockets().registration).await;
        let info: PluginInfo = registration.call(proto::GET_INFO, InfoRequest {}).await.unwrap();
        assert_eq!(info.supported_versions, wanted);
        running.probe().await.unwrap();
        let mut client = connect(&running.sockets().service).await;
        for (path, service) in [
            (proto::PREPARE_V1, KubeletService::PluginV1),
            (proto::PREPARE_V1BETA1, KubeletService::PluginV1beta1),
        ] {
            let answer: Result<PrepareResponse, _> = client.call(path, proto::ClaimsRequest::default()).await;
            assert_eq!(answer.is_ok(), services.contains(&service), "{path}");
        }
        for (path, service) in [
            (proto::WATCH_V1, KubeletService::HealthV1),
            (proto::WATCH_V1ALPHA1, KubeletService::HealthV1alpha1),
        ] {
            let stream: Result<tonic::Streaming<WatchResponse>, _> =
                client.watch(path, WatchRequest {}).await;
            assert_eq!(stream.is_ok(), services.contains(&service), "{path}");
        }
        running.stop().await;
    }
    let error = world.kit().services([KubeletService::HealthV1]).start(world.driver()).await.unwrap_err();
    assert!(matches!(error, StartError::NoPlugin), "{error}");
}
