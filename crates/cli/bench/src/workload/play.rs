//! A workload, from nodes to pods.

use std::{cell::Cell, rc::Rc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    catalog::{Test, Workload},
    shape::{Shape, claim_name},
};
use crate::{
    bench::Bench,
    clock,
    load::{self, LoadEnd},
    objects::{self, CLASSES, LEASES, NODES, RULES, SLICES, claims_path, pods_path, templates_path},
    pods::{Pods, name},
    report::{Phase, Report},
    target::{Caller, Target},
};
use lazaret_print::note;

const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1";
/// How long pods are replaced in a steady workload.
const STEADY: Duration = Duration::from_secs(10);
/// Heartbeats of nodes: no controller gives them up, however long it takes.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Pods that are replaced at a time, at most all of the ten that there are.
const REPLACERS: usize = 10;
const AT_ONCE: &str = r#"{"gracePeriodSeconds":0,"propagationPolicy":"Background"}"#;
const STALLED: Duration = Duration::from_secs(60);

/// Makes the cluster that the workload wants and measures how its pods are placed.
pub(crate) async fn play(bench: &mut Bench<'_>, workload: &Workload, report: &mut Report) -> Result<()> {
    let shape = Rc::new(Shape {
        test: workload.test,
        run: bench.run.clone(),
        driver: format!("{}.lazaret.dev", bench.run),
    });
    report.nodes = workload.nodes + workload.plain_nodes;
    report.pods = workload.pods;
    report.kubernetes_threshold = workload.least;
    if shape.groups() > 0 && bench.caller.get(GROUPS).await?.is_none() {
        bail!(
            "this server does not serve PodGroups: it needs {GROUPS} and the features {}",
            workload.gates()
        );
    }
    let stage = StepContext { workload, shape, target: bench.target.clone(), clients: bench.args.clients };
    let (target, run) = (bench.target.clone(), bench.run.clone());
    let beating = beat(&target, &run, report.nodes);
    tokio::select! {
        ended = beating => ended,
        played = stage.play(bench, report) => played,
    }
}

/// Renews the leases of all nodes, for as long as it is asked.
async fn beat(target: &Target, run: &str, nodes: usize) -> Result<()> {
    let mut caller = Caller::new(target).await?;
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        let renewal = json!({"spec": {"renewTime": micro_time()?}}).to_string();
        for number in 0..nodes {
            let answer = caller.ask(&target.patch(&format!("{LEASES}/{run}-{number}"), &renewal)).await?;
            // Nodes may not be made yet.
            ensure!(matches!(answer.code, 200 | 404), "renew a lease: {}", answer.refusal());
        }
    }
}

fn micro_time() -> Result<String> {
    let seconds = i64::try_from(clock::unix_seconds()).context("read the time")?;
    let now = jiff::Timestamp::from_second(seconds).context("read the time")?;
    Ok(now.to_string().replace('Z', ".000000Z"))
}

/// State that the steps of a workload share.
struct StepContext<'a> {
    workload: &'a Workload,
    shape: Rc<Shape>,
    target: Target,
    clients: usize,
}

impl StepContext<'_> {
    async fn play(&self, bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
        let Workload { nodes, plain_nodes, .. } = *self.workload;
        note(&format!("{} nodes", nodes + plain_nodes));
        self.nodes(nodes + plain_nodes).await?;
        let (setup, measured) = (bench.run.clone() + "-init", bench.run.clone());
        for namespace in [&setup, &measured] {
            objects::make_namespace(&mut bench.caller, &bench.run, namespace).await?;
        }
        for class in self.shape.classes() {
            bench.caller.create(CLASSES, &class).await?;
        }
        if let Some(rule) = self.shape.rule() {
            bench.caller.create(RULES, &rule).await?;
        }
        for namespace in [&setup, &measured] {
            bench.caller.create(&templates_path(namespace), &self.shape.template()).await?;
        }
        if self.workload.test == Test::PublishResourceSlices {
            return self.publish(&measured, report).await;
        }
        self.slices().await?;
        if self.workload.initial > 0 {
            self.initial(&setup).await?;
        }
        let pods = Pods::watch(&self.target, &measured).await?;
        self.claims_and_groups(&measured, self.workload.pods).await?;
        if self.workload.steady {
            self.steady(&measured, &pods, report).await
        } else {
            self.burst(&measured, &pods, report).await
        }
    }

    /// Sends `count` requests as fast as it goes.
    async fn all(&self, count: usize, request: impl Fn(usize) -> Vec<u8> + 'static) -> Result<load::Outcome> {
        let shape = load::Shape { clients: self.clients, until: LoadEnd::Sent(count), rate: 0 };
        load::run(&self.target, shape, request, |_, _| {}).await
    }

    fn post(
        &self,
        path: String,
        object: impl Fn(&Shape, usize) -> Value + 'static,
    ) -> impl Fn(usize) -> Vec<u8> + 'static {
        let (target, shape) = (self.target.clone(), Rc::clone(&self.shape));
        move |number| target.post(&path, &object(&shape, number).to_string())
    }

    async fn nodes(&self, count: usize) -> Result<()> {
        let with = self.workload.nodes;
        self.all(count, self.post(NODES.into(), move |shape, number| shape.node(number, number < with)))
            .await?;
        let now = micro_time()?;
        let lease = move |shape: &Shape, number| {
            let name = shape.node_name(number);
            json!({
                "metadata": objects::meta(&shape.run, &name),
                "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now},
            })
        };
        self.all(count, self.post(LEASES.into(), lease)).await?;
        // A server keeps pods from a new node until a controller removes its taint.
        let (target, shape) = (self.target.clone(), Rc::clone(&self.shape));
        let ready = move |number| {
            target.patch(&format!("{NODES}/{}", shape.node_name(number)), r#"{"spec":{"taints":null}}"#)
        };
        self.all(count, ready).await.map(drop)
    }

    async fn slices(&self) -> Result<load::Outcome> {
        let per_node = self.shape.slices(0).len();
        if per_node == 0 {
            let common = |shape: &Shape, number| shape.common_slice(number);
            return self.all(self.shape.groups(), self.post(SLICES.into(), common)).await;
        }
        let slice = move |shape: &Shape, number: usize| {
            shape.slices(number / per_node).swap_remove(number % per_node)
        };
        self.all(self.workload.nodes * per_node, self.post(SLICES.into(), slice)).await
    }

    /// Makes the objects that exist before the measurement.
    async fn initial(&self, namespace: &str) -> Result<()> {
        let Workload { initial, nodes, test, .. } = *self.workload;
        if test.begins_with_pods() {
            note(&format!("{initial} pods beforehand"));
            let pods = Pods::watch(&self.target, namespace).await?;
            self.claims_and_groups(namespace, initial).await?;
            self.make_pods(namespace, &pods, initial).await?;
            return pods.wait("pods bound beforehand", initial, |counts| counts.bound).await;
        }
        note(&format!("{initial} claims with devices beforehand"));
        self.all(initial, self.post(claims_path(namespace), |shape, number| shape.claim(number))).await?;
        let (target, shape, path) = (self.target.clone(), Rc::clone(&self.shape), claims_path(namespace));
        let allocate = move |number| {
            let path = format!("{path}/{}/status", claim_name(number));
            target.patch(&path, &shape.allocation(number, nodes).to_string())
        };
        self.all(initial, allocate).await.map(drop)
    }

    async fn claims_and_groups(&self, namespace: &str, pods: usize) -> Result<()> {
        let claims = self.post(claims_path(namespace), |shape, number| shape.claim(number));
        self.all(self.shape.claims_for(pods), claims).await?;
        let groups = self
            .post(format!("{GROUPS}/namespaces/{namespace}/podgroups"), |shape, number| shape.group(number));
        self.all(self.shape.groups(), groups).await.map(drop)
    }

    async fn make_pods(&self, namespace: &str, pods: &Rc<Pods>, count: usize) -> Result<load::Outcome> {
        let shape = load::Shape { clients: self.clients, until: LoadEnd::Sent(count), rate: 0 };
        let request = self.post(pods_path(namespace), |shape, number| shape.pod(&name(number), number));
        let sent = Rc::clone(pods);
        load::run(&self.target, shape, request, move |number, at| sent.sent(number, at)).await
    }

    /// All pods at once, until all are placed.
    async fn burst(&self, namespace: &str, pods: &Rc<Pods>, report: &mut Report) -> Result<()> {
        let count = self.workload.pods;
        let (made, ()) = tokio::try_join!(
            self.make_pods(namespace, pods, count),
            pods.wait("pods bound", count, |counts| counts.bound)
        )?;
        report.phases.push(made.phase("create answered"));
        report.phases.push(pods.phase("created to bound", made.start, |seen| seen.bound));
        Ok(())
    }

    /// A pod that is placed makes room for another, for ten seconds.
    async fn steady(&self, namespace: &str, pods: &Rc<Pods>, report: &mut Report) -> Result<()> {
        let (orders, taken) = mpsc::unbounded_channel::<usize>();
        let start = clock::now();
        let first = self.workload.pods;
        self.make_pods(namespace, pods, first).await?;
        let manage = async move {
            while start.elapsed() < STEADY {
                for number in pods.take_bound() {
                    orders.send(number).context("nobody replaces pods")?;
                }
                let left = STEADY.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
                tokio::select! {
                    changed = pods.change(STALLED) => changed?,
                    () = tokio::time::sleep(left) => {}
                }
            }
            Ok::<_, anyhow::Error>(())
        };
        tokio::try_join!(manage, self.replace(namespace, pods, taken))?;
        let phase = pods.phase("created to bound", start, |seen| seen.bound);
        ensure!(phase.count > 0, "no pod was placed within {} s", STEADY.as_secs());
        report.phases.push(phase);
        Ok(())
    }

    /// Deletes each pod that comes and makes another in its place, several at a time: the load must not be what is measured.
    async fn replace(
        &self,
        namespace: &str,
        pods: &Rc<Pods>,
        taken: mpsc::UnboundedReceiver<usize>,
    ) -> Result<()> {
        let taken = Rc::new(tokio::sync::Mutex::new(taken));
        let next = Rc::new(Cell::new(self.workload.pods));
        let mut replacers = JoinSet::new();
        for mut connection in load::connect(&self.target, REPLACERS).await? {
            let (taken, next, pods) = (Rc::clone(&taken), Rc::clone(&next), Rc::clone(pods));
            let (target, shape, path) = (self.target.clone(), Rc::clone(&self.shape), pods_path(namespace));
            replacers.spawn_local(async move {
                loop {
                    let Some(number) = taken.lock().await.recv().await else {
                        return Ok::<_, anyhow::Error>(());
                    };
                    let old = target.delete(&format!("{path}/{}", name(number)), AT_ONCE);
                    load::ask(&mut connection, &old).await?;
                    let number = next.replace(next.get() + 1);
                    let new = target.post(&path, &shape.pod(&name(number), number).to_string());
                    pods.sent(number, clock::now());
                    load::ask(&mut connection, &new).await?;
                }
            });
        }
        while let Some(done) = replacers.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Slices, until a pod can be placed on the node of the last of them.
    async fn publish(&self, namespace: &str, report: &mut Report) -> Result<()> {
        let pods = Pods::watch(&self.target, namespace).await?;
        let made = self.slices().await?;
        report.phases.push(made.phase("slice published"));
        let mut pod = self.shape.pod(&name(0), 0);
        let last = self.shape.node_name(self.workload.nodes.saturating_sub(1));
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": last});
        let asked = clock::now();
        pods.sent(0, asked);
        Caller::new(&self.target).await?.create(&pods_path(namespace), &pod).await?;
        pods.wait("pods bound", 1, |counts| counts.bound).await?;
        let at = pods.each().first().and_then(|seen| seen.bound).unwrap_or(asked);
        let all = [(at.saturating_duration_since(made.start), at)];
        report.phases.push(pods.phase("created to bound", asked, |seen| seen.bound));
        report.phases.push(Phase::new("first slice to a pod on the last", made.start, &all));
        Ok(())
    }
}
