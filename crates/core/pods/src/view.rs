//! The spec of a pod, as far as the machine uses it.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use crate::{ConditionKind, Millis, Phase, PodRef, Resources};

/// A pod of this node as the API has it, reduced to what decides when its containers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Which.
    pub pod: PodRef,
    /// Init containers in their order, then main ones, then ephemeral ones.
    pub containers: Vec<ContainerView>,
    /// Whether its containers are started again.
    pub restart: Restart,
    /// How long its containers may take to stop, in seconds.
    pub grace_s: u64,
    /// Its deletion was asked for: how long its containers may take, in seconds.
    pub deletion_grace_s: Option<u64>,
    /// How long it may be active, in seconds.
    pub deadline_s: Option<u64>,
    /// Whether it has claims that must be prepared before anything of it runs.
    pub has_claims: bool,
    /// How important it is: of two that use too much, the less important one is evicted first.
    pub priority: i32,
    /// Whether no container of it asks for anything or has a limit.
    pub is_best_effort: bool,
    /// Whether it may come to a node that is short of memory although it asks for nothing.
    pub tolerates_memory_pressure: bool,
    /// The sum of its containers' requests.
    pub requests: Amounts,
    /// Why this node does not take it: a reason and a sentence.
    pub refusal: Option<(String, String)>,
    /// Conditions that others must set before it is ready.
    pub gates: Vec<Gate>,
    /// Its status when this process first saw it.
    pub before: InitialStatus,
}

/// A container as its pod has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView {
    /// Its name in the pod.
    pub name: String,
    /// Its image, as a person wrote it.
    pub image: String,
    /// When it runs.
    pub kind: Kind,
    /// Its own policy.
    pub restart: Option<Restart>,
    /// Exit codes after which it is started again whatever the policy says.
    pub rules: Vec<RestartRule>,
    /// When its image is pulled.
    pub pull: PullPolicy,
    /// Until this succeeds, it has not started.
    pub startup: Option<Probe>,
    /// Whether it is ready.
    pub readiness: Option<Probe>,
    /// When this fails, it is started again.
    pub liveness: Option<Probe>,
    /// Something is run after it started.
    pub has_post_start: bool,
    /// Something is run before it is stopped.
    pub has_pre_stop: bool,
    /// Requests and limits.
    pub resources: Resources,
    /// Whether it is started again when its share of the processors changes.
    pub restarts_on_cpu: bool,
    /// The same for its memory.
    pub restarts_on_memory: bool,
}

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To its end, before the next one.
    Init,
    /// An init container that goes on running beside the main ones.
    Sidecar,
    /// When all init containers are done.
    Main,
    /// Once, beside whatever runs: it was added to a pod that was there, to look at it. Nothing waits for it.
    Ephemeral,
}

/// Whether a container that ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// After every exit code.
    Always,
    /// When it failed.
    OnFailure,
    /// Not.
    Never,
}

/// Exit codes after which a container is started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartRule {
    /// Whether the codes are those meant, or all others.
    pub is_in: bool,
    /// Exit codes.
    pub codes: Vec<i32>,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// Before each start.
    Always,
    /// When it is not there.
    IfNotPresent,
    /// Not: it is there, or the container cannot start.
    Never,
}

/// How a container is asked how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// After the start, in seconds.
    pub initial_delay_s: u64,
    /// Between two, in seconds.
    pub period_s: u64,
    /// For one, in seconds.
    pub timeout_s: u64,
    /// Successes in a row that count.
    pub successes: u32,
    /// Failures in a row that count.
    pub failures: u32,
    /// How long the container may take to stop when this failed, in seconds, if not as the pod says.
    pub grace_s: Option<u64>,
}

/// Amounts that a pod requests, or that a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Thousandths of a processor.
    pub cpu_milli: u64,
    /// Bytes.
    pub memory: u64,
    /// Bytes.
    pub ephemeral_storage: u64,
}

/// A condition that others must set before a pod is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its type.
    pub name: String,
    /// The status of that condition on the pod, if it has it.
    pub status: Option<String>,
}

/// The status of a pod when this process first saw it: an earlier process may have written it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitialStatus {
    /// Its phase.
    pub phase: Phase,
    /// When a node took it.
    pub started_at: Option<Millis>,
    /// Its conditions, and since when each is so.
    pub conditions: Vec<(ConditionKind, bool, Millis)>,
    /// Its containers, by name.
    pub containers: BTreeMap<String, InitialContainerStatus>,
}

/// The status of a container at that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InitialContainerStatus {
    /// How often it was started again.
    pub restarts: u32,
    /// Whether it was ever started: its count begins after those before.
    pub has_run: bool,
    /// Whether its startup probe had succeeded.
    pub is_started: bool,
    /// Whether it was ready.
    pub is_ready: bool,
    /// Its resources, if the status had them.
    pub resources: Option<Resources>,
}

impl ContainerView {
    /// Whether it is started again after this exit code.
    pub(crate) fn restarts_after(&self, pod: Restart, code: i32) -> bool {
        match self.kind {
            Kind::Sidecar => return true,
            Kind::Ephemeral => return false,
            Kind::Init | Kind::Main => {}
        }
        if self.rules.iter().any(|rule| rule.codes.contains(&code) == rule.is_in) {
            return true;
        }
        match self.restart.unwrap_or(pod) {
            Restart::Always => self.kind != Kind::Init || code != 0,
            Restart::OnFailure => code != 0,
            Restart::Never => false,
        }
    }
}

impl Phase {
    /// Whether nothing follows it.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}
