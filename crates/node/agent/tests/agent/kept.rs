//! The agent's memory about pods, counted: nothing about pods that are gone, however they went.

use kube::api::DeleteParams;
use lazaret_runtime::Metrics;

use crate::{
    plugin::Plugin,
    running::{images, start_with},
    runtime::Fake,
    world::{World, until},
};

const DRIVER: &str = "gpu.example.com";
const ROUNDS: usize = 6;
const PODS_PER_ROUND: usize = 5;

/// The count of a kind, as `/metrics` has it.
fn kept(metrics: &Metrics, kind: &str) -> Option<usize> {
    let text = metrics.text();
    let line =
        text.lines().find_map(|line| line.strip_prefix(&format!("lazaret_node_kept{{kind=\"{kind}\"}} ")));
    line?.parse().ok()
}

#[tokio::test]
async fn nothing_is_kept_of_pods_that_are_gone() {
    let (world, runtime) = (World::new().await, Fake::new());
    let _plugin = Plugin::start(world.root(), DRIVER, &["v1.DRAPlugin"], |_, _| None);
    let images = images(&world).await;
    let agent = start_with(&world, &runtime, &images, &world.metrics);
    for round in 0..ROUNDS {
        let names: Vec<String> = (0..PODS_PER_ROUND).map(|number| format!("p-{round}-{number}")).collect();
        let mut uids = Vec::new();
        for (number, name) in names.iter().enumerate() {
            uids.push(world.pod_with(name, DRIVER, &format!("gpu-{number}"), &["/bin/true"]).await);
        }
        until("all containers run", || async { (runtime.running() == PODS_PER_ROUND).then_some(()) }).await;
        until("all are counted", || async {
            (kept(&world.metrics, "pods") == Some(PODS_PER_ROUND)).then_some(())
        })
        .await;
        // One has ended and waits to be started again when its pod goes.
        runtime.end(&format!("{}-c-0", uids[0]), 1);
        for (number, name) in names.iter().enumerate() {
            let params =
                if number == 1 { DeleteParams::default().grace_period(0) } else { DeleteParams::default() };
            world.delete(name, &params).await;
        }
        for name in &names {
            world.until_gone(name).await;
        }
        until("nothing runs", || async { runtime.is_empty().then_some(()) }).await;
        for kind in [
            "pods",
            "actions",
            "entries",
            "claim_pods",
            "claim_operations",
            "objects",
            "tokens",
            "volume_locks",
        ] {
            until(&format!("{kind} are forgotten in round {round}"), || async {
                (kept(&world.metrics, kind) == Some(0)).then_some(())
            })
            .await;
        }
    }
    world.until_nothing_is_prepared().await;
    agent.stop().await;
}
