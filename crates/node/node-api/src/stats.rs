//! Resource usage of containers: `/stats/summary` and `/metrics/resource`, from the runtime's figures.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use lazaret_containers::{ContainerState, Phase, Runtime, RuntimeError, Usage};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::clock;

/// How long a runtime may take to say what one container uses.
const USAGE_WAIT: Duration = Duration::from_secs(5);
/// Time between two samples of a container, for a rate; a request waits for the first one.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// The machine, among the samples of containers. No container has this id.
const MACHINE: &str = "";
/// Containers whose last sample is kept: more than a node runs.
const SAMPLES_MAX: usize = 4_096;
const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// The last samples of processor time, for rates.
#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<BTreeMap<String, Sample>>);

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    cpu_nanoseconds: u64,
    nanocores: Option<u64>,
}

impl Samples {
    /// How many billionths of a processor a container uses, once that is known.
    fn rate(&self, id: &str, cpu_nanoseconds: u64) -> Option<u64> {
        let now = Instant::now();
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = samples.get_mut(id) else {
            if samples.len() < SAMPLES_MAX {
                samples.insert(id.to_owned(), Sample { at: now, cpu_nanoseconds, nanocores: None });
            }
            return None;
        };
        let passed = now.duration_since(last.at);
        let least = if last.nanocores.is_some() { SAMPLE_EVERY } else { FIRST_AFTER };
        if passed >= least {
            let used = u128::from(cpu_nanoseconds.saturating_sub(last.cpu_nanoseconds));
            let rate = used * NANOSECONDS_PER_SECOND / passed.as_nanos();
            *last = Sample { at: now, cpu_nanoseconds, nanocores: u64::try_from(rate).ok() };
        }
        last.nanocores
    }

    fn keep(&self, ids: &[&str]) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples.retain(|id, _| ids.contains(&id.as_str()));
    }
}

/// Resource usage of a node and its containers.
#[derive(Debug)]
pub(crate) struct Read {
    at: Timestamp,
    /// All of the machine, and its rate.
    machine: Option<(Usage, Option<u64>)>,
    pods: Vec<Pod>,
}

#[derive(Debug)]
struct Pod {
    namespace: String,
    name: String,
    uid: String,
    started_at: SystemTime,
    containers: Vec<Container>,
}

#[derive(Debug)]
struct Container {
    name: String,
    started_at: SystemTime,
    usage: Usage,
    nanocores: Option<u64>,
}

/// Asks the runtime what every container that runs uses. One that does not say in time is left out.
pub(crate) async fn read(
    runtime: &dyn Runtime,
    machine: Option<Usage>,
    samples: &Samples,
) -> Result<Read, RuntimeError> {
    let sandboxes = runtime.list().await?;
    let mut pods = Vec::new();
    let mut ids = vec![MACHINE];
    for sandbox in sandboxes.iter().filter(|sandbox| sandbox.is_ready) {
        let mut containers = Vec::new();
        for ContainerState { id, key, phase, .. } in &sandbox.containers {
            let Phase::Running { started_at, .. } = phase else { continue };
            ids.push(id.as_str());
            if let Ok(Ok(usage)) = timeout(USAGE_WAIT, runtime.usage(id)).await {
                let nanocores = samples.rate(id, usage.cpu_nanoseconds);
                containers.push(Container {
                    name: key.name.clone(),
                    started_at: *started_at,
                    usage,
                    nanocores,
                });
            }
        }
        pods.push(Pod {
            namespace: sandbox.spec.namespace.clone(),
            name: sandbox.spec.name.clone(),
            uid: sandbox.spec.pod_uid.clone(),
            started_at: sandbox.created_at,
            containers,
        });
    }
    samples.keep(&ids);
    let machine = machine.map(|usage| (usage, samples.rate(MACHINE, usage.cpu_nanoseconds)));
    Ok(Read { at: clock::now(), machine, pods })
}

/// Several of them together.
fn total<'a>(containers: impl Iterator<Item = &'a Container>) -> (Usage, Option<u64>) {
    containers.fold((Usage::default(), Some(0)), |(sum, rate), container| {
        let Usage { cpu_nanoseconds, memory_working_set, memory, pids } = container.usage;
        let sum = Usage {
            cpu_nanoseconds: sum.cpu_nanoseconds.saturating_add(cpu_nanoseconds),
            memory_working_set: sum.memory_working_set.saturating_add(memory_working_set),
            memory: sum.memory.saturating_add(memory),
            pids: sum.pids.saturating_add(pids),
        };
        (sum, rate.zip(container.nanocores).map(|(sum, one)| sum.saturating_add(one)))
    })
}

fn stamp(at: SystemTime) -> String {
    let at = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH);
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

fn seconds(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Read {
    /// The usage of the machine; where that is not known, the sum of its pods.
    fn node(&self) -> (Usage, Option<u64>) {
        self.machine.unwrap_or_else(|| total(self.pods.iter().flat_map(|pod| &pod.containers)))
    }

    /// The `Summary` of kubelet's `stats/v1alpha1`, as far as it is known.
    pub(crate) fn summary(&self, node: &str) -> Value {
        let time = Timestamp::from_second(self.at.as_second()).unwrap_or(self.at).to_string();
        let part = |usage: Usage, nanocores: Option<u64>| {
            let mut part = json!({
                "cpu": {"time": time, "usageCoreNanoSeconds": usage.cpu_nanoseconds},
                "memory": {"time": time, "usageBytes": usage.memory, "workingSetBytes": usage.memory_working_set},
            });
            if let Some(nanocores) = nanocores {
                part["cpu"]["usageNanoCores"] = nanocores.into();
            }
            part
        };
        let pods: Vec<Value> = self
            .pods
            .iter()
            .map(|pod| {
                let containers = pod.containers.iter().map(|container| {
                    let mut one = part(container.usage, container.nanocores);
                    one["name"] = container.name.as_str().into();
                    one["startTime"] = stamp(container.started_at).into();
                    one
                });
                let (usage, nanocores) = total(pod.containers.iter());
                let mut one = part(usage, nanocores);
                one["podRef"] = json!({"name": pod.name, "namespace": pod.namespace, "uid": pod.uid});
                one["startTime"] = stamp(pod.started_at).into();
                one["containers"] = containers.collect::<Vec<_>>().into();
                one["process_stats"] = json!({"process_count": usage.pids});
                one
            })
            .collect();
        let (usage, nanocores) = self.node();
        let mut node_part = part(usage, nanocores);
        node_part["nodeName"] = node.into();
        json!({"node": node_part, "pods": pods})
    }

    /// Kubelet's `/metrics/resource`, as text for Prometheus.
    #[allow(clippy::cast_precision_loss, reason = "samples are floating-point numbers by their format")]
    pub(crate) fn metrics(&self) -> String {
        let core_seconds = |usage: Usage| usage.cpu_nanoseconds as f64 / 1e9;
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, samples: Vec<(String, f64)>| {
            let _ = writeln!(text, "# TYPE {name} {kind}");
            for (labels, value) in samples {
                let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let containers = |value: &dyn Fn(&Container) -> f64| {
            let each = self.pods.iter().flat_map(|pod| pod.containers.iter().map(move |one| (pod, one)));
            each.map(|(pod, one)| {
                let Pod { namespace, name, .. } = pod;
                let container = &one.name;
                (format!(r#"container="{container}",namespace="{namespace}",pod="{name}""#), value(one))
            })
            .collect::<Vec<_>>()
        };
        let pods = |value: &dyn Fn(Usage) -> f64| {
            let each = self.pods.iter().map(|pod| {
                let Pod { namespace, name, containers, .. } = pod;
                (format!(r#"namespace="{namespace}",pod="{name}""#), value(total(containers.iter()).0))
            });
            each.collect::<Vec<_>>()
        };
        let node = self.node().0;
        let memory = |usage: Usage| usage.memory_working_set as f64;
        family("container_cpu_usage_seconds_total", "counter", containers(&|one| core_seconds(one.usage)));
        family("container_memory_working_set_bytes", "gauge", containers(&|one| memory(one.usage)));
        family("container_start_time_seconds", "gauge", containers(&|one| seconds(one.started_at)));
        family("node_cpu_usage_seconds_total", "counter", vec![(String::new(), core_seconds(node))]);
        family("node_memory_working_set_bytes", "gauge", vec![(String::new(), memory(node))]);
        family("pod_cpu_usage_seconds_total", "counter", pods(&core_seconds));
        family("pod_memory_working_set_bytes", "gauge", pods(&memory));
        family("resource_scrape_error", "gauge", vec![(String::new(), 0.0)]);
        text
    }
}
