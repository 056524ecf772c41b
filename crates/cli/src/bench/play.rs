//! The work itself: pods are made, a rule is made, and a watch tells when what happened.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::Pod;
use lazaret_hollow::HollowOptions;
use lazaret_runtime::{
    CLAIM_TEMPLATES, Call, CallError, Client, Hub, Inbox, Metrics, NAMESPACES, NODES, News, PODS, RULES,
    RULES_V1ALPHA3, Resource, SERVICE_ACCOUNTS, SLICES,
};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use super::{
    Args, What,
    server::{Started, load},
    stats::{Phase, Report},
};
use crate::{connect, output};

const DRIVER: &str = "gpu.example.com";
/// So often is looked whether a new namespace has its account.
const ACCOUNT_TRIES: u32 = 200;
/// Nothing is waited for any longer without a step forward.
const STALLED: Duration = Duration::from_secs(60);

#[allow(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn instant() -> Instant {
    Instant::now()
}

pub(super) async fn play(args: &Args) -> Result<Report> {
    let mut report = Report {
        nodes: args.nodes,
        devices: args.devices,
        pods: args.pods,
        load_before: load(),
        ..Report::default()
    };
    let started = match args.kubeconfig {
        Some(_) => None,
        None => Some(Started::start(args.nodes, args.devices).await?),
    };
    let kubeconfig = started.as_ref().map(|started| &started.kubeconfig).or(args.kubeconfig.as_ref());
    let client = Client::new(connect::client(kubeconfig.map(PathBuf::as_path), None).await?);
    let hub = Hub::new(client.clone(), Metrics::default());
    let (stop, stopped) = watch::channel(false);
    let fleet = match started {
        Some(_) => None,
        None => {
            let options =
                HollowOptions { nodes: args.nodes, devices: args.devices, ..HollowOptions::default() };
            Some(lazaret_hollow::start(&hub, options, &stopped).map_err(|error| anyhow!("--{error}"))?)
        }
    };
    let bench = Bench { client, namespace: format!("lazaret-bench-{}", std::process::id()), args };
    let at_rest = started.as_ref().map_or(0, |started| started.usage().1);
    let played = tokio::select! {
        played = bench.all(&hub, &mut report) => played,
        signal = tokio::signal::ctrl_c() => signal.context("wait for Ctrl-C").and_then(|()| bail!("stopped")),
    };
    report.server = started.as_ref().map(|started| started.report(at_rest));
    report.load_after = load();
    // Whoever waits for the end has it already.
    let _ = stop.send(true);
    drop(fleet);
    match started {
        Some(started) => started.stop().await,
        None => bench.clean_up().await,
    }
    played.map(|()| report)
}

struct Bench<'a> {
    client: Client,
    namespace: String,
    args: &'a Args,
}

impl Bench<'_> {
    async fn all(&self, hub: &Hub, report: &mut Report) -> Result<()> {
        self.wait_for_slices(hub).await?;
        let mut inbox = hub.listen(&[PODS, SLICES, NODES]);
        while !inbox.is_synced() {
            inbox.next().await;
        }
        self.prepare().await?;
        self.schedule(&mut inbox, report).await?;
        match self.args.what {
            What::Schedule => {}
            What::Evict => self.evict(&mut inbox, report).await?,
            What::TaintLatency => self.taint_latency(&mut inbox, report).await?,
        }
        Ok(())
    }

    async fn wait_for_slices(&self, hub: &Hub) -> Result<()> {
        let mut inbox = hub.listen(&[SLICES]);
        let mut slices = BTreeSet::new();
        while slices.len() < self.args.nodes {
            match next(&mut inbox).await? {
                News::Listed(_, objects, _) => slices.extend(objects.iter().map(|object| object.key.clone())),
                News::Set(_, object) => {
                    slices.insert(object.key.clone());
                }
                News::Gone(_, object) => {
                    slices.remove(&object.key);
                }
            }
            progress("devices published", slices.len(), self.args.nodes);
        }
        Ok(())
    }

    async fn prepare(&self) -> Result<()> {
        let namespace =
            json!({"metadata": {"name": self.namespace, "labels": {"lazaret.dev/bench": "true"}}});
        self.create(&NAMESPACES, "", &namespace).await?;
        let template = json!({
            "metadata": {"name": "one"},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}},
        });
        self.create(&CLAIM_TEMPLATES, &self.namespace, &template).await?;
        // Pods are refused until somebody has made their account.
        for _ in 0..ACCOUNT_TRIES {
            if self.client.send(Call::get(&SERVICE_ACCOUNTS, &self.namespace, "default")).await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn create(&self, resource: &Resource, namespace: &str, object: &Value) -> Result<()> {
        let call = Call::create(resource, namespace, object.to_string());
        self.client.send(call).await.map(drop).map_err(|error| anyhow!("make {}: {error}", resource.kind))
    }

    /// Pods are made by several clients at once; the watch says when each was bound and when it ran.
    async fn schedule(&self, inbox: &mut Inbox, report: &mut Report) -> Result<()> {
        let start = instant();
        let mut makers = JoinSet::new();
        let clients = self.args.clients.max(1);
        for maker in 0..clients {
            let (client, namespace, pods) = (self.client.clone(), self.namespace.clone(), self.args.pods);
            makers.spawn(async move {
                let mut made = Vec::new();
                for number in (maker..pods).step_by(clients) {
                    let name = format!("pod-{number}");
                    let sent = instant();
                    client.send(Call::create(&PODS, &namespace, pod(&name).to_string())).await?;
                    made.push((name, sent));
                }
                Ok::<_, CallError>(made)
            });
        }
        let (mut sent, mut bound, mut running) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        while running.len() < self.args.pods {
            let news = tokio::select! {
                news = next(inbox) => news?,
                Some(made) = makers.join_next(), if !makers.is_empty() => {
                    sent.extend(made.context("make pods")?.map_err(|error| anyhow!("make pods: {error}"))?);
                    continue;
                }
            };
            let News::Set(PODS, object) = news else { continue };
            if *object.key.namespace != *self.namespace {
                continue;
            }
            let pod = object.read::<Pod>()?;
            let name = object.key.name.to_string();
            if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
                bound.entry(name.clone()).or_insert_with(instant);
            }
            if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running") {
                running.entry(name).or_insert_with(instant);
            }
            progress("pods running", running.len(), self.args.pods);
        }
        while let Some(made) = makers.join_next().await {
            sent.extend(made.context("make pods")?.map_err(|error| anyhow!("make pods: {error}"))?);
        }
        let phase = |name, seen: &BTreeMap<String, Instant>| {
            let each = seen
                .iter()
                .filter_map(|(pod, at)| Some(at.saturating_duration_since(*sent.get(pod)?).as_secs_f64()));
            let last = seen.values().max().copied().unwrap_or(start);
            Phase::new(name, each.collect(), last.saturating_duration_since(start).as_secs_f64())
        };
        report.phases.push(phase("created to bound", &bound));
        report.phases.push(phase("created to running", &running));
        Ok(())
    }

    async fn evict(&self, inbox: &mut Inbox, report: &mut Report) -> Result<()> {
        let mut taint = json!({"key": "lazaret.dev/bench", "effect": "NoExecute"});
        let resource = if self.args.rate > 0 {
            taint["evictionsPerSecond"] = self.args.rate.into();
            RULES_V1ALPHA3
        } else {
            RULES
        };
        let rule = json!({
            "metadata": {"name": self.namespace, "labels": {"lazaret.dev/bench": "true"}},
            "spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint},
        });
        let start = instant();
        self.create(&resource, "", &rule).await?;
        let leaving = self.leaving(inbox, self.args.pods).await?;
        let each = leaving.values().map(|at| at.saturating_duration_since(start).as_secs_f64());
        let last = leaving.values().max().copied().unwrap_or(start);
        let seconds = last.saturating_duration_since(start).as_secs_f64();
        report.phases.push(Phase::new("rule made to pod deleted", each.collect(), seconds));
        Ok(())
    }

    /// When so many pods were first seen with a time of deletion, or gone.
    async fn leaving(&self, inbox: &mut Inbox, count: usize) -> Result<BTreeMap<String, Instant>> {
        let mut leaving = BTreeMap::new();
        while leaving.len() < count {
            let (object, gone) = match next(inbox).await? {
                News::Set(PODS, object) => (object, false),
                News::Gone(PODS, object) => (object, true),
                News::Listed(..) | News::Set(..) | News::Gone(..) => continue,
            };
            if *object.key.namespace != *self.namespace {
                continue;
            }
            if gone || object.read::<Pod>()?.metadata.deletion_timestamp.is_some() {
                leaving.entry(object.key.name.to_string()).or_insert_with(instant);
            }
            progress("pods leaving", leaving.len(), count);
        }
        Ok(leaving)
    }

    /// One device after the other fails: from the slice that says so to the pod that leaves, both as a watch tells them.
    async fn taint_latency(&self, inbox: &mut Inbox, report: &mut Report) -> Result<()> {
        let (start, mut each) = (instant(), Vec::new());
        for number in 1..=self.args.nodes {
            let failed = (0..self.args.devices)
                .map(|device| (format!("gpu-{device}"), json!({"effect": "NoExecute", "reason": "bench"})));
            let failed = Value::Object(failed.collect()).to_string();
            let node = format!("node-{number}");
            let patch = json!({"metadata": {"annotations": {lazaret_hollow::FAIL: failed}}}).to_string();
            let call = Call::patch(&NODES, "", &node, "", lazaret_runtime::PatchKind::Merge, patch);
            self.client
                .send(call)
                .await
                .map_err(|error| anyhow!("make the devices of {node} fail: {error}"))?;
            each.extend(self.one_latency(inbox, &node).await?);
            progress("nodes tainted", number, self.args.nodes);
        }
        report.phases.push(Phase::new("slice tainted to pod deleted", each, start.elapsed().as_secs_f64()));
        Ok(())
    }

    async fn one_latency(&self, inbox: &mut Inbox, node: &str) -> Result<Vec<f64>> {
        let mut tainted = None;
        let mut each = BTreeMap::new();
        let quiet = Duration::from_millis(200);
        loop {
            let news = match tokio::time::timeout(quiet, inbox.next()).await {
                Ok(news) => news,
                // Nobody else leaves: whoever had a device here is gone.
                Err(_) if tainted.is_some() => return Ok(each.into_values().collect()),
                Err(_) => continue,
            };
            let gone = matches!(news, News::Gone(..));
            match news {
                News::Set(SLICES, object) if tainted.is_none() && object.key.name.ends_with(node) => {
                    tainted = core::str::from_utf8(object.json())?.contains("\"taints\"").then(instant);
                }
                // A pod without grace is gone without having been seen to leave.
                News::Set(PODS, object) | News::Gone(PODS, object)
                    if *object.key.namespace == *self.namespace =>
                {
                    let pod = object.read::<Pod>()?;
                    let here = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
                    let leaves = gone || pod.metadata.deletion_timestamp.is_some();
                    if let Some(tainted) = tainted.filter(|_| here && leaves) {
                        each.entry(object.key.clone())
                            .or_insert_with(|| instant().saturating_duration_since(tainted).as_secs_f64());
                    }
                }
                News::Listed(..) | News::Set(..) | News::Gone(..) => {}
            }
        }
    }

    /// Takes away what this run made, and nothing else.
    async fn clean_up(&self) {
        let mut calls = vec![
            Call::delete(&RULES, "", &self.namespace, "{}"),
            Call::delete(&NAMESPACES, "", &self.namespace, "{}"),
        ];
        for number in 1..=self.args.nodes {
            calls.push(Call::delete(&NODES, "", &format!("node-{number}"), "{}"));
        }
        for call in calls {
            match self.client.send(call).await {
                Ok(_) | Err(CallError::NotFound(_)) => {}
                Err(error) => output::note(&format!("left behind: {error}")),
            }
        }
    }
}

async fn next(inbox: &mut Inbox) -> Result<News> {
    tokio::time::timeout(STALLED, inbox.next()).await.context("nothing happened for a minute")
}

fn progress(what: &str, done: usize, of: usize) {
    if done > 0 && (done == of || done.is_multiple_of((of / 10).max(1))) {
        output::note(&format!("{what}: {done} of {of}"));
    }
}

fn pod(name: &str) -> Arc<Value> {
    Arc::new(json!({
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "work", "image": "work", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
    }))
}
