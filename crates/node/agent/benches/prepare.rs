//! The time that the agent adds to a plugin's own when the claims of a pod are prepared, step by step.
//!
//! A plugin that answers at once, and pods one after another. The checkpoint is on the disk that holds the temporary directory.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark"
)]

#[allow(dead_code, unreachable_pub, reason = "shared with tests")]
#[path = "../tests/agent/plugin.rs"]
mod plugin;
#[allow(dead_code, unreachable_pub, reason = "shared with tests")]
#[path = "../tests/agent/world.rs"]
mod world;

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Instant,
};

use lazaret_agent::Agent;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

const PODS: usize = 200;
const DRIVER: &str = "gpu.example.com";
/// The target of events that say what the agent does.
const TARGET: &str = "lazaret_agent::steps";

/// The ways of a pod: what it waits for, from which step to which.
const WAYS: &[(&str, &str, &str)] = &[
    ("the pod is seen, its claims are asked for", "pod seen", "read claims"),
    ("the API server answers", "read claims", "claims read"),
    ("the claims are checked and the checkpoint made", "claims read", "write checkpoint"),
    ("the checkpoint is on disk", "write checkpoint", "written"),
    ("the plugin is called", "written", "call plugin"),
    ("the plugin answers", "call plugin", "plugin answered"),
    ("the CDI names are offered", "plugin answered", "offer devices"),
];

type Steps = Arc<Mutex<Vec<(String, Instant)>>>;

struct Recorder(Steps);

struct Step(Option<String>);

impl Visit for Step {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "step" {
            self.0 = Some(format!("{value:?}").trim_matches('"').to_owned());
        }
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let now = Instant::now();
        let mut step = Step(None);
        event.record(&mut step);
        if let Some(step) = step.0 {
            self.0.lock().unwrap().push((step, now));
        }
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn main() {
    let steps = Steps::default();
    tracing::subscriber::set_global_default(Recorder(Arc::clone(&steps))).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = world::World::new().await;
        let _plugin = plugin::Plugin::start(world.root(), DRIVER, &["v1.DRAPlugin"], |_, _| None);
        let agent = Agent::start(world.cluster.client(), world.options(), &world.metrics).unwrap();
        let mut sums = vec![0.0; WAYS.len()];
        for number in 0..PODS {
            let uid = world.pod(&format!("p{number}"), DRIVER, &format!("gpu-{number}")).await;
            world.until_offered(&uid).await;
            let taken = std::mem::take(&mut *steps.lock().unwrap());
            for (sum, way) in sums.iter_mut().zip(ways(&taken)) {
                *sum += way;
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "a count")]
        let means: Vec<f64> = sums.iter().map(|sum| sum * 1_000.0 / PODS as f64).collect();
        println!("{PODS} pods one after another, means:");
        for ((name, ..), mean) in WAYS.iter().zip(&means) {
            println!("{mean:8.3} ms  {name}");
        }
        let all: f64 = means.iter().sum();
        println!("from the pod to its CDI names: {all:.3} ms");
        println!(
            "added by the agent to the plugin's time and the API server's: {:.3} ms",
            all - means[1] - means[5]
        );
        agent.stop().await;
    });
}

/// How long each part of a pod's way took, in seconds. The last steps of each kind before the devices are offered.
fn ways(steps: &[(String, Instant)]) -> Vec<f64> {
    let offered = steps.iter().rposition(|(step, _)| step == "offer devices").unwrap();
    let mut end = offered;
    let mut times = Vec::new();
    for (_, from, to) in WAYS.iter().rev() {
        // Something else may be written meanwhile: the first step of a way is the last one before its end.
        let begin = steps[..end].iter().rposition(|(step, _)| step == from);
        let begin = begin.unwrap_or_else(|| panic!("no {from} before {to}: {steps:?}"));
        times.push((steps[end].1 - steps[begin].1).as_secs_f64());
        end = begin;
    }
    times.reverse();
    times
}
