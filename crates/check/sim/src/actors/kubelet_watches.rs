//! The watches of the kubelets, and the behaviour of pods and nodes as their objects state it.

use std::{collections::BTreeSet, sync::Arc};

use lazaret_kubelet::{Input, RestartPolicy, Script, SeenCheckpoint, SeenNode, SeenPod};
use lazaret_model::{NodeReport, Pod, PodPhase, Text};

use crate::{
    actors::{kubelets::KubeletStep, news::Progress, nodes::NodeWrite},
    api::{Kind, Live, wall},
    mutant::Mutant,
    rng::Rng,
    world::{Step, World},
};

/// The stream of randomness that the behaviour of pods and nodes comes from.
const BEHAVIOUR: u64 = 44;
/// The longest that a watch is behind when faults have ended.
const RESTING_LAG_MS: u32 = 500;
/// A watch delivers a part of what there is in this many of a thousand deliveries.
const PARTS_PERMILLE: u64 = 200;
/// How long the driver of a slow node takes to unprepare.
const SLOW_MS: i64 = 30_000;
/// How long the drivers of nodes take otherwise.
const UNPREPARE_MS: [i64; 4] = [0, 0, 500, 3_000];
/// A pod takes no longer to stop when its object was removed.
const STOP_MS_MAX: u64 = 8_000;
/// The pod of a job takes at most this long.
const JOB_MS_MAX: u64 = 60_000;
/// A pod whose containers are to exit does so within this time.
const END_MS_MAX: u64 = 1_000;

/// A watch of the kubelets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Pods,
    Claims,
    Nodes,
}

impl World {
    /// The process starts: it lists everything.
    pub(crate) fn start_kubelets(&mut self) {
        let now = wall(self.now);
        let pods: Live = self.api.pods.live().clone();
        let found = pods.iter().filter_map(|place| self.api.pods.written(*place));
        let seen: Vec<Arc<SeenPod>> = found.filter_map(|stored| self.as_seen(stored.object)).collect();
        let claims = self.api.claims.iter().map(|stored| Arc::clone(stored.object)).collect();
        let there = self.reports.by_node.values().map(|report| self.as_node(report));
        // The kubelet of a machine that is off hears nothing: not that its Node is gone either.
        let gone = self.kubelets.off.iter().filter(|name| !self.reports.by_node.contains_key(*name));
        let unheard =
            gone.map(|name| NodeReport { name: name.clone(), reports: true, ..NodeReport::default() });
        let nodes = there.chain(unheard.map(|report| self.as_node(&report))).collect();
        let mut heard = [0; Kind::ALL.len()];
        heard[Kind::Pod as usize] = self.api.pods.log().len();
        heard[Kind::Claim as usize] = self.api.claims.log().len();
        let kubelets = &mut self.kubelets;
        for input in [Input::NodesListed(nodes), Input::ClaimsListed(claims), Input::PodsListed(seen)] {
            kubelets.core.handle(now, input);
        }
        kubelets.progress = Progress { heard, pods, reports: self.reports.log.len(), ..Progress::default() };
        (kubelets.is_up, kubelets.is_told, kubelets.started_at) = (true, true, self.now);
    }

    /// There is something to deliver: plans it, unless it is planned.
    pub(crate) fn plan_kubelet_delivery(&mut self, watch: Watch) {
        let lag = if self.resting { RESTING_LAG_MS.min(self.config.lag_ms) } else { self.config.lag_ms };
        let kubelets = &mut self.kubelets;
        if !core::mem::replace(&mut kubelets.planned[watch as usize], true) {
            let at = self.now + kubelets.rng.below(u64::from(lag) + 1);
            self.push(at, Step::Kubelet(Box::new(KubeletStep::Deliver(watch))));
        }
    }

    pub(super) fn kubelets_hear(&mut self, watch: Watch) {
        let kubelets = &mut self.kubelets;
        kubelets.planned[watch as usize] = false;
        if !kubelets.is_up {
            return;
        }
        kubelets.is_told = true;
        let in_part = kubelets.rng.chance(PARTS_PERMILLE);
        let most = if in_part { kubelets.rng.between(1, 8) } else { u64::MAX };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (heard, length) = match watch {
            Watch::Pods => (kubelets.progress.heard[Kind::Pod as usize], self.api.pods.log().len()),
            Watch::Claims => (kubelets.progress.heard[Kind::Claim as usize], self.api.claims.log().len()),
            Watch::Nodes => (kubelets.progress.reports, self.reports.log.len()),
        };
        let to = heard.saturating_add(most).min(length);
        match watch {
            Watch::Pods => {
                self.kubelets.progress.heard[Kind::Pod as usize] = to;
                (heard..to).for_each(|place| self.kubelets_hear_pod(place));
            }
            Watch::Claims => {
                self.kubelets.progress.heard[Kind::Claim as usize] = to;
                for logged in &self.api.claims.log()[heard..to] {
                    let input = match &logged.object {
                        Some(claim) => Input::Claim(Arc::clone(claim)),
                        None => Input::ClaimGone(self.api.claims.key(logged.number).clone()),
                    };
                    self.kubelets.core.handle(wall(self.now), input);
                }
            }
            Watch::Nodes => self.kubelets_hear_nodes(to),
        }
        if to < length {
            self.plan_kubelet_delivery(watch);
        }
    }

    /// Nodes as they were written, up to this place of the log.
    fn kubelets_hear_nodes(&mut self, to: usize) {
        let heard = core::mem::replace(&mut self.kubelets.progress.reports, to);
        for place in heard..to {
            let NodeWrite { name, report } = &self.reports.log[place];
            let input = match report {
                Some(report) => Input::Node(self.as_node(report)),
                None if self.kubelets.off.contains(name) => continue,
                None => Input::NodeGone(name.clone()),
            };
            self.kubelets.core.handle(wall(self.now), input);
        }
    }

    /// The kubelet of a machine that has just started lists its Node before it looks at its pods.
    pub(super) fn look_for_node(&mut self, name: &Text) {
        if !self.kubelets.is_up {
            return;
        }
        self.kubelets_hear_nodes(self.reports.log.len());
        if !self.reports.by_node.contains_key(name) {
            self.kubelets.core.handle(wall(self.now), Input::NodeGone(name.clone()));
        }
        self.kubelets.is_told = true;
    }

    /// A pod was written or removed at this place of the log.
    fn kubelets_hear_pod(&mut self, place: usize) {
        let logged = &self.api.pods.log()[place];
        let (number, pod) = (logged.number as usize, logged.object.clone());
        let after = if pod.is_some() { u32::try_from(place + 1).unwrap_or(u32::MAX) } else { 0 };
        let known = &mut self.kubelets.progress.pods;
        known.resize(known.len().max(number + 1), 0);
        let before = core::mem::replace(&mut known[number], after);
        let seen = pod.as_ref().and_then(|pod| self.as_seen(pod));
        let input = match (seen, self.api.pods.written(before)) {
            (Some(seen), _) => Input::Pod(seen),
            (None, Some(stored)) if pod.is_none() => {
                Input::PodGone { key: stored.object.key.clone(), uid: stored.object.uid.clone() }
            }
            (None, _) => return,
        };
        self.kubelets.core.handle(wall(self.now), input);
        if let Some(pod) = pod {
            self.check_devices_are_free(&pod);
            let is_stopping = pod.deleting_since.is_some() && pod.phase == PodPhase::Running;
            if is_stopping && self.mutant == Some(Mutant::EarlyEnd) {
                self.api.edit_pod(&pod.key, &pod.uid, |pod| pod.phase = PodPhase::Failed);
            }
        }
    }

    /// The kubelet of a node is slow from now on.
    pub(crate) fn slow_kubelet(&mut self, node: Text) {
        self.kubelets.slow.push(node.clone());
        self.write_report(&node, |_| {});
    }

    /// All of them are as quick as ever.
    pub(crate) fn recover_kubelets(&mut self) {
        for node in core::mem::take(&mut self.kubelets.slow) {
            self.write_report(&node, |_| {});
        }
    }

    /// The containers of a pod exit, well or badly.
    pub(crate) fn pod_exits(&mut self, pod: &Pod, well: bool) {
        if pod.node.is_some() && !pod.phase.is_finished() {
            self.kubelets.exits.insert(pod.uid.clone(), well);
            self.api.edit_pod(&pod.key, &pod.uid, |_| {});
        }
    }

    /// A Node as its kubelet reads it. The one of a machine that is off answers nothing.
    fn as_node(&self, report: &NodeReport) -> SeenNode {
        let name = &report.name;
        let drawn = self.behaviour_of(name).pick(&UNPREPARE_MS);
        let (is_deaf, is_off) = (self.mutant == Some(Mutant::DeafKubelet), self.kubelets.off.contains(name));
        let awaiting = report.awaiting.iter().filter(|_| !is_deaf && !is_off).map(|one| one.uid.clone());
        SeenNode {
            name: name.clone(),
            uid: report.uid.clone(),
            version: report.version.clone(),
            ready: true,
            taints_when_ready: None,
            unprepare_after_ms: Some(if self.kubelets.slow.contains(name) { SLOW_MS } else { drawn }),
            reports: report.reports,
            awaiting: awaiting.collect(),
            unprepared: if is_off { BTreeSet::new() } else { report.unprepared.clone() },
            checkpoint: match self.kubelets.checkpoints.get(&report.uid) {
                Some(checkpoint) => SeenCheckpoint::Known(checkpoint.clone()),
                None => SeenCheckpoint::Missing,
            },
        }
    }

    /// A pod as its kubelet reads it; `None`: it is on no node, or on one that is off.
    fn as_seen(&self, pod: &Arc<Pod>) -> Option<Arc<SeenPod>> {
        pod.node.as_ref().filter(|node| !self.kubelets.off.contains(*node))?;
        let mut drawn = self.behaviour_of(&pod.uid);
        let stop_after_ms = i64::try_from(drawn.below(STOP_MS_MAX)).unwrap_or(0);
        let job_ms = i64::try_from(drawn.below(JOB_MS_MAX)).unwrap_or(0);
        let end_ms = i64::try_from(drawn.below(END_MS_MAX)).unwrap_or(0);
        let is_job = || self.api.pods.number(&pod.key).is_some_and(|number| self.workloads.is_job(number));
        let (run_for_ms, exit_code) = match self.kubelets.exits.get(&pod.uid) {
            Some(well) => (Some(end_ms), i32::from(!well)),
            None if is_job() => (Some(job_ms), 0),
            None => (None, 0),
        };
        let restart_policy = if run_for_ms.is_some() { RestartPolicy::Never } else { RestartPolicy::Always };
        // Without a deletion it is the spec's.
        let grace_ms = if pod.deleting_since.is_some() {
            i64::from(self.config.grace_ms)
        } else {
            i64::try_from(STOP_MS_MAX).unwrap_or(0)
        };
        Some(Arc::new(SeenPod {
            pod: Arc::clone(pod),
            script: Script { run_for_ms, exit_code, stop_after_ms },
            containers: Vec::new(),
            init_containers: Vec::new(),
            restart_policy,
            host_network: true,
            grace_ms,
            generation: 0,
            start_time: None,
            address: None,
            restarts: 0,
            is_unready: pod.phase == PodPhase::Unknown,
        }))
    }

    /// Chance that is the same whenever somebody asks about the same.
    fn behaviour_of(&self, name: &str) -> Rng {
        let hash =
            name.bytes().fold(BEHAVIOUR, |hash, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
        Rng::new(self.config.population, hash)
    }
}
