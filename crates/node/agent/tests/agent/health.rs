//! The health of devices, from a plugin's stream to a pod's status.

use lazaret_driver::proto::{self, DeviceHealth, DeviceIdentifier, HealthStatus, WatchResponse};
use prost::Message;
use tokio::sync::mpsc;

use crate::{
    plugin::{Plugin, Reply},
    world::{World, until},
};

const DRIVER: &str = "gpu.example.com";

fn report(health: HealthStatus, message: &str) -> Vec<u8> {
    let device = DeviceIdentifier { pool_name: "n".into(), device_name: "gpu-0".into() };
    let health = DeviceHealth {
        device: Some(device),
        health: health.into(),
        message: message.into(),
        ..DeviceHealth::default()
    };
    WatchResponse { devices: vec![health] }.encode_to_vec()
}

async fn until_shown(world: &World, health: &str, message: Option<&str>) {
    until(health, || async {
        let pod = world.pods().get("p").await.unwrap();
        let statuses = pod.status?.container_statuses?;
        let resource = statuses.first()?.allocated_resources_status.as_ref()?.first()?;
        assert_eq!(resource.name, "claim:gpu");
        let shown = resource.resources.as_ref()?.first()?;
        (shown.health.as_deref() == Some(health) && shown.message.as_deref() == message).then_some(())
    })
    .await;
}

/// A plugin whose health stream a test feeds, again for each stream that is opened.
fn plugin(
    world: &World,
    path: &'static str,
    services: &[&str],
) -> (Plugin, mpsc::Receiver<mpsc::Sender<Vec<u8>>>) {
    let (streams, opened) = mpsc::channel(8);
    let plugin = Plugin::start(world.root(), DRIVER, services, move |called, _| {
        (called == path).then(|| {
            let (sender, messages) = mpsc::channel(8);
            streams.try_send(sender).unwrap();
            Reply::Stream(messages)
        })
    });
    (plugin, opened)
}

#[tokio::test]
async fn health_reaches_the_pod_changes_and_is_unknown_after_the_stream_stops() {
    let world = World::new().await;
    for (path, services) in [
        (proto::WATCH_V1, ["v1.DRAPlugin", "v1.DRAResourceHealth"]),
        (proto::WATCH_V1ALPHA1, ["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"]),
    ] {
        let agent = world.agent();
        let (plugin, mut opened) = plugin(&world, path, &services);
        let stream = opened.recv().await.unwrap();
        let uid = world.pod("p", DRIVER, "gpu-0").await;
        world.until_offered(&uid).await;
        stream.send(report(HealthStatus::Healthy, "")).await.unwrap();
        until_shown(&world, "Healthy", None).await;
        stream.send(report(HealthStatus::Unhealthy, "on fire")).await.unwrap();
        until_shown(&world, "Unhealthy", Some("on fire")).await;
        drop(stream);
        until_shown(&world, "Unknown", None).await;
        // The stream is opened again by itself.
        let stream = opened.recv().await.unwrap();
        stream.send(report(HealthStatus::Healthy, "")).await.unwrap();
        until_shown(&world, "Healthy", None).await;
        assert_eq!(plugin.connections(), 1, "one connection for calls and health");
        plugin.stop().await;
        until_shown(&world, "Unknown", None).await;
        world.delete("p", &kube::api::DeleteParams::default().grace_period(0)).await;
        world.claims().delete("p", &kube::api::DeleteParams::default()).await.unwrap();
        agent.stop().await;
        std::fs::remove_file(world.options().checkpoint()).unwrap();
    }
}

#[tokio::test]
async fn a_driver_that_does_not_implement_its_health_service_is_not_asked_again() {
    let world = World::new().await;
    let plugin = Plugin::start(world.root(), DRIVER, &["v1.DRAPlugin", "v1.DRAResourceHealth"], |_, _| None);
    let agent = world.agent();
    until("it was asked", || async { (plugin.count("NodeWatchResources") == 1).then_some(()) }).await;
    let uid = world.pod("p", DRIVER, "gpu-0").await;
    world.until_offered(&uid).await;
    until_shown(&world, "Unknown", None).await;
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(20)).await;
    tokio::time::resume();
    world.delete("p", &kube::api::DeleteParams::default()).await;
    world.until_gone("p").await;
    assert_eq!(plugin.count("NodeWatchResources"), 1);
    agent.stop().await;
}

#[tokio::test]
async fn a_health_message_that_is_too_large_or_garbage_ends_the_stream_and_nothing_else() {
    let world = World::new().await;
    let (plugin, mut opened) = plugin(&world, proto::WATCH_V1, &["v1.DRAPlugin", "v1.DRAResourceHealth"]);
    let agent = world.agent();
    let stream = opened.recv().await.unwrap();
    stream.send(vec![0; 10 << 20]).await.unwrap();
    let stream = opened.recv().await.unwrap();
    stream.send(vec![0xff; 16]).await.unwrap();
    let stream = opened.recv().await.unwrap();
    stream.send(report(HealthStatus::Unhealthy, &"x".repeat(5_000))).await.unwrap();
    let uid = world.pod("p", DRIVER, "gpu-0").await;
    world.until_offered(&uid).await;
    until_shown(&world, "Unhealthy", Some(&format!("{}...", "x".repeat(1_021)))).await;
    assert_eq!(plugin.connections(), 1);
    agent.stop().await;
}
