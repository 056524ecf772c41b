//! What the agent adds to a plugin's own time when the claims of a pod are prepared: the checkpoint twice, and its own work.
//!
//! A plugin that answers at once, pods one after another, and kubelet's own metrics: the time of the operation without the
//! time of the call. The disk is the one that holds the temporary directory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a benchmark")]

#[allow(dead_code, unreachable_pub, reason = "shared with tests")]
#[path = "../tests/agent/plugin.rs"]
mod plugin;
#[allow(dead_code, unreachable_pub, reason = "shared with tests")]
#[path = "../tests/agent/world.rs"]
mod world;

use lazaret_agent::Agent;

const PODS: usize = 200;
const DRIVER: &str = "gpu.example.com";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = world::World::new().await;
        let _plugin = plugin::Plugin::start(world.root(), DRIVER, &["v1.DRAPlugin"], |_, _| None);
        let agent = Agent::start(world.cluster.client(), world.options(), &world.metrics).unwrap();
        for number in 0..PODS {
            let uid = world.pod(&format!("p{number}"), DRIVER, &format!("gpu-{number}")).await;
            world.until_offered(&uid).await;
        }
        let text = world.metrics.text();
        let operations = sum(&text, "dra_operations_duration_seconds_sum", "PrepareResources");
        let calls = sum(&text, "dra_grpc_operations_duration_seconds_sum", "NodePrepareResources");
        #[allow(clippy::cast_precision_loss, reason = "a count")]
        let mean = |seconds: f64| seconds * 1_000.0 / PODS as f64;
        println!(
            "{PODS} pods, means: prepared in {:.3} ms, of which the call to the plugin takes {:.3} ms",
            mean(operations),
            mean(calls)
        );
        println!("added by the agent: {:.3} ms", mean(operations - calls));
        agent.stop().await;
    });
}

/// The sum of a histogram whose labels contain this.
fn sum(text: &str, name: &str, label: &str) -> f64 {
    let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}
