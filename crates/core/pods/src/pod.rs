//! The state of a pod.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use crate::{
    Action, ConditionKind, FoundSandbox, Kind, Millis, PodRef, PodView, Resources, Restart, Status,
    container::{Container, Work},
    machine::Out,
    view::{Amounts, ContainerView, InitialContainerStatus, InitialStatus, PullPolicy},
};

/// Grace period for containers of a pod that the API does not know.
const ORPHAN_GRACE_S: u64 = 2;
/// Kubelet's grace period for a pod that it evicts, in milliseconds.
const EVICTION_GRACE_MS: Millis = 1_000;
/// The same warning about a pod is not given again within this time.
const WARN_AGAIN_MS: Millis = 60_000;
/// A condition that another client changed is written again after this time: the pod that was seen may be older than the last write, and the
/// other client may insist.
const CORRECT_AFTER_MS: Millis = 5_000;

/// A pod of this node.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) view: PodView,
    /// The API does not have it any more.
    pub(crate) is_gone: bool,
    /// Whether this node takes it has been decided.
    pub(crate) is_admitted: bool,
    pub(crate) containers: Vec<Container>,
    /// How many init containers are done.
    pub(crate) initialized: usize,
    pub(crate) volumes: Volumes,
    pub(crate) sandbox: Sandbox,
    pub(crate) claims: Claims,
    pub(crate) started_at: Millis,
    pub(crate) ending: Option<Ending>,
    /// Nothing of it runs, and its claims are unprepared: its status may say how it ended.
    pub(crate) is_stopped: bool,
    pub(crate) deletion: Deletion,
    pub(crate) retry_at: Millis,
    pub(crate) failures: u32,
    pub(crate) wake: Option<Millis>,
    pub(crate) writing: Writing,
    /// The status that the API has from here.
    pub(crate) shown: Option<Status>,
    pub(crate) unshown_since: Option<Millis>,
    pub(crate) must_rewrite: bool,
    /// Another client changed a condition of this node's: it is written again then.
    pub(crate) correct_at: Option<Millis>,
    /// Its status says already how it ended.
    pub(crate) is_frozen: bool,
    pub(crate) conditions: BTreeMap<ConditionKind, (bool, Millis)>,
    pub(crate) has_said_not_applied: bool,
    /// Its containers are to have more than there is now: why they have to wait.
    pub(crate) resize_deferred: Option<String>,
    warned: Option<(String, Millis)>,
}

/// How far its volumes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Volumes {
    Wanted,
    Making,
    Made,
    Removing { with_logs: bool },
    Removed { with_logs: bool },
}

/// How far its sandbox is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sandbox {
    None,
    Making,
    /// Making it failed, and may have happened, until a list that was requested after this number says.
    Unsure {
        since: u64,
    },
    Ready {
        id: String,
        ips: Vec<String>,
        known_since: u64,
    },
    /// Nothing can run in it any more.
    Dead {
        id: String,
    },
    Stopping {
        id: String,
    },
    Removing {
        id: String,
    },
}

/// How far its claims are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claims {
    Unused,
    Waiting,
    Prepared,
    Releasing,
    Released,
}

/// Why it ends, and by when its containers have to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) why: EndReason,
    pub(crate) deadline: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// Its containers have ended, and are not started again.
    Completed,
    /// Its deletion was asked for, or it is gone.
    Deleted,
    /// It failed as a whole: one word and a sentence.
    Failed { reason: String, message: String },
    /// It uses too much of what the node is short of, or more of the disk than it may.
    Evicted { message: String, is_disruption: bool },
    /// This node does not take it.
    Refused { reason: String, message: String },
}

/// How far its removal from the API is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    NotBefore(Millis),
    InFlight,
}

/// How far a write of its status is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    Idle,
    InFlight,
    NotBefore(Millis),
}

impl Pod {
    pub(crate) fn new(now: Millis, view: PodView) -> Self {
        let before = |container: &ContainerView| {
            let known = view.before.containers.get(&container.name);
            Container::new(known.copied().unwrap_or_default())
        };
        let is_frozen = view.before.phase.is_terminal();
        Self {
            is_gone: false,
            is_admitted: false,
            containers: view.containers.iter().map(before).collect(),
            initialized: 0,
            volumes: Volumes::Wanted,
            sandbox: Sandbox::None,
            claims: if view.has_claims { Claims::Waiting } else { Claims::Unused },
            started_at: view.before.started_at.unwrap_or(now),
            ending: is_frozen.then_some(Ending { why: EndReason::Completed, deadline: now }),
            is_stopped: false,
            deletion: Deletion::NotBefore(now),
            retry_at: 0,
            failures: 0,
            wake: None,
            writing: Writing::Idle,
            shown: None,
            unshown_since: None,
            must_rewrite: false,
            correct_at: None,
            is_frozen,
            conditions: view.before.conditions.iter().map(|(kind, is, at)| (*kind, (*is, *at))).collect(),
            has_said_not_applied: false,
            resize_deferred: None,
            warned: None,
            view,
        }
    }

    /// A pod of which only the runtime knows. It may hold claims.
    pub(crate) fn orphan(now: Millis, found: &FoundSandbox) -> Self {
        let mut names: Vec<&str> = found.containers.iter().map(|container| container.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let container = |name: &str| ContainerView {
            name: name.to_string(),
            image: String::new(),
            kind: Kind::Main,
            restart: None,
            rules: Vec::new(),
            pull: PullPolicy::Never,
            startup: None,
            readiness: None,
            liveness: None,
            has_post_start: false,
            has_pre_stop: false,
            resources: Resources::default(),
            restarts_on_cpu: false,
            restarts_on_memory: false,
        };
        let view = PodView {
            pod: found.pod.clone(),
            containers: names.into_iter().map(container).collect(),
            restart: Restart::Never,
            grace_s: ORPHAN_GRACE_S,
            deletion_grace_s: None,
            deadline_s: None,
            has_claims: true,
            priority: 0,
            is_best_effort: true,
            tolerates_memory_pressure: false,
            requests: Amounts::default(),
            refusal: None,
            gates: Vec::new(),
            before: InitialStatus::default(),
        };
        Self { is_gone: true, is_admitted: true, ..Self::new(now, view) }
    }

    /// The API has it anew.
    pub(crate) fn update(&mut self, now: Millis, view: PodView) {
        let is_other = |shown: &Status| shown.differs(&view.before.conditions);
        self.correct_at = (self.shown.as_ref().is_some_and(is_other))
            .then(|| self.correct_at.unwrap_or(now + CORRECT_AFTER_MS));
        // Ephemeral containers may be added, at the end; nothing else can.
        let is_same = view.containers.len() >= self.view.containers.len()
            && view.containers.iter().zip(&self.view.containers).all(|(new, old)| new.name == old.name);
        let before = core::mem::take(&mut self.view.before);
        let containers = core::mem::take(&mut self.view.containers);
        let has_claims = self.view.has_claims || view.has_claims;
        self.view = PodView { before, has_claims, ..view };
        if is_same {
            let known = self.containers.len();
            let added = self.view.containers.iter().skip(known);
            self.containers.extend(added.map(|_| Container::new(InitialContainerStatus::default())));
        } else {
            self.view.containers = containers;
        }
        if self.view.has_claims && self.claims == Claims::Unused {
            self.claims = Claims::Waiting;
        }
        self.is_gone = false;
    }

    pub(crate) fn reference(&self) -> PodRef {
        self.view.pod.clone()
    }

    /// Whether nothing of it is to stay.
    pub(crate) fn is_to_go(&self) -> bool {
        self.is_gone || self.view.deletion_grace_s.is_some()
    }

    /// Whether it takes of what the node has.
    pub(crate) fn counts(&self) -> bool {
        let is_refused = matches!(&self.ending, Some(Ending { why: EndReason::Refused { .. }, .. }));
        self.is_admitted && !self.is_stopped && !self.is_frozen && !is_refused
    }

    pub(crate) fn has_claims_ready(&self) -> bool {
        matches!(self.claims, Claims::Unused | Claims::Prepared)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.containers.iter().any(Container::is_alive)
    }

    /// Whether nothing of it is left here, and the API does not have it any more.
    pub(crate) fn is_over(&self) -> bool {
        let is_idle = self.containers.iter().all(|container| container.work == Work::Idle);
        self.is_gone
            && self.is_stopped
            && is_idle
            && self.sandbox == Sandbox::None
            && self.volumes == (Volumes::Removed { with_logs: true })
    }

    /// Looks at it anew: does what can be done now.
    pub(crate) fn advance(&mut self, now: Millis, out: &mut Out) {
        self.note_end(now, out);
        if self.ending.is_some() {
            self.advance_end(now, out);
        } else {
            self.advance_start(now, out);
        }
        self.show(now, out);
    }

    fn note_end(&mut self, now: Millis, out: &mut Out) {
        let grace_s = match (self.view.deletion_grace_s, self.is_gone) {
            (Some(grace), _) => Some(grace),
            (None, true) => Some(self.view.grace_s),
            (None, false) => None,
        };
        if let Some(grace_s) = grace_s {
            self.end(EndReason::Deleted, now.saturating_add(grace_s.saturating_mul(1_000)));
        }
        if self.ending.is_some() {
            return;
        }
        let deadline =
            self.view.deadline_s.map(|limit| self.started_at.saturating_add(limit.saturating_mul(1_000)));
        match deadline {
            Some(at) if at <= now => {
                let message = "Pod was active on the node longer than the specified deadline";
                self.warn(now, out, "DeadlineExceeded", message.to_string());
                let why = EndReason::Failed { reason: "DeadlineExceeded".into(), message: message.into() };
                self.end_by_grace(now, why);
            }
            Some(at) => out.later(at),
            None => {}
        }
    }

    /// It is to end by then, or earlier if that was said before. The first reason stays.
    pub(crate) fn end(&mut self, why: EndReason, deadline: Millis) {
        match &mut self.ending {
            Some(ending) => ending.deadline = ending.deadline.min(deadline),
            None => self.ending = Some(Ending { why, deadline }),
        }
    }

    /// It goes because the node needs what it uses. It has its own grace up to this much, and never less than the least.
    pub(crate) fn evict(&mut self, now: Millis, message: String, is_disruption: bool, grace_ms_max: Millis) {
        let own_ms = self.view.grace_s.saturating_mul(1_000);
        let grace_ms = own_ms.min(grace_ms_max).max(EVICTION_GRACE_MS);
        self.end(EndReason::Evicted { message, is_disruption }, now.saturating_add(grace_ms));
    }

    pub(crate) fn is_evicted(&self) -> bool {
        matches!(&self.ending, Some(Ending { why: EndReason::Evicted { .. }, .. }))
    }

    /// Whether it can be evicted: something of it is here, and it is not going anyway.
    pub(crate) fn is_evictable(&self) -> bool {
        self.is_admitted && self.ending.is_none() && !self.is_gone && self.sandbox != Sandbox::None
    }

    /// Whether nothing of it takes room any more.
    pub(crate) fn is_cleaned(&self) -> bool {
        self.is_stopped
            && self.sandbox == Sandbox::None
            && matches!(self.volumes, Volumes::Removed { with_logs: true })
    }

    pub(crate) fn end_by_grace(&mut self, now: Millis, why: EndReason) {
        self.end(why, now.saturating_add(self.view.grace_s.saturating_mul(1_000)));
    }

    /// Says something about the pod to people.
    pub(crate) fn event(
        &self,
        out: &mut Out,
        container: Option<usize>,
        warns: bool,
        reason: &'static str,
        message: String,
    ) {
        if self.view.pod.name.is_empty() {
            return;
        }
        let container = container.map(|index| self.view.containers[index].name.clone());
        out.act(Action::Event { pod: self.reference(), container, is_warning: warns, reason, message });
    }

    /// The same, unless it was just said.
    pub(crate) fn warn(&mut self, now: Millis, out: &mut Out, reason: &'static str, message: String) {
        let text = format!("{reason}: {message}");
        let is_old = |(said, at): &(String, Millis)| *said == text && now < at.saturating_add(WARN_AGAIN_MS);
        if !self.warned.as_ref().is_some_and(is_old) {
            self.warned = Some((text, now));
            self.event(out, None, true, reason, message);
        }
    }
}
