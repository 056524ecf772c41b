//! Which DeviceTaintPolicies a ResourceSlicePatch stands for on a cluster whose scheduler does not read patches.
//!
//! Each taint of a patch becomes a policy, which becomes rules in turn and has its pods leave at a pace. Attributes and capacities have no such
//! way: Kubernetes' scheduler takes them from ResourceSlices alone, which belong to the driver. They are named in the patch's status.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    vec::Vec,
};

use lazaret_machine::{Effect, EffectId, Machine, Outcome, Turn, Wake};
use lazaret_model::{DeviceSelector, ResourceSlicePatch, Taint, Text, Timestamp, Uid};

use crate::{
    attempts::{Attempts, Write},
    progress::{Progress, Stage},
    wanted::{Owner, name_with_digest},
};

/// A policy as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPolicy {
    /// Its name, which follows from its patch and its taint.
    pub name: Text,
    /// The patch that it belongs to.
    pub owner: Owner,
    /// Which devices.
    pub selector: DeviceSelector,
    /// The taint.
    pub taint: Taint,
}

/// A policy that a patch owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedPolicy {
    /// Its incarnation.
    pub uid: Uid,
    /// Its spec.
    pub said: WantedPolicy,
}

/// The policies of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledPatch {
    /// Its policies, by name.
    pub policies: Vec<WantedPolicy>,
    /// Attributes and capacities that it overrides, and that stay what the driver published.
    pub not_applied: Vec<Text>,
}

/// The policies of a patch. One that selects nothing has none.
#[must_use]
pub fn compile_patch(patch: &ResourceSlicePatch) -> CompiledPatch {
    let owner = Owner { name: patch.name.clone(), uid: patch.uid.clone() };
    let mut policies = BTreeMap::new();
    for taint in patch.selector.iter().flat_map(|_| &patch.patch.taints) {
        let selector = patch.selector.clone().unwrap_or_default();
        let words = format!("{}\n{}={}:{}", patch.name, taint.key, taint.value, taint.effect.name());
        let name = name_with_digest(&patch.name, &words);
        // As an object shows it.
        let time_added =
            taint.time_added.map(|at| Timestamp::from_millis(at.as_millis().div_euclid(1_000) * 1_000));
        let taint = Taint { time_added, ..taint.clone() };
        let policy = WantedPolicy { name: name.clone(), owner: owner.clone(), selector, taint };
        policies.insert(name, policy);
    }
    let attributes = patch.patch.attributes.iter().map(|(name, _)| name);
    let not_applied: BTreeSet<&Text> =
        attributes.chain(patch.patch.capacity.iter().map(|(name, _)| name)).collect();
    CompiledPatch {
        policies: policies.into_values().collect(),
        not_applied: not_applied.into_iter().cloned().collect(),
    }
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum PatchInput {
    /// A patch is so, in this generation.
    Patch(i64, ResourceSlicePatch),
    /// There is no such patch.
    PatchGone(Text),
    /// A policy that a patch owns is so.
    Policy(OwnedPolicy),
    /// There is no such policy, or no patch owns it.
    PolicyGone(Text),
    /// The outcome of an effect.
    Acknowledged(EffectId, Outcome),
    /// Effects are wanted from now on, or no longer.
    Leads(bool),
    /// Time has passed, or many inputs came.
    Tick,
}

/// The kinds of effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchEffect {
    /// Make a policy.
    Create(WantedPolicy),
    /// Have a policy of this incarnation say this.
    Change(Uid, WantedPolicy),
    /// Delete a policy of this incarnation.
    Delete(Text, Uid),
    /// Say in a patch's status what it became.
    Report(PatchReport),
}

/// The status of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchReport {
    /// The patch.
    pub patch: Owner,
    /// The generation of the patch that it reports on.
    pub generation: i64,
    /// How many policies it has, as the watch shows them.
    pub policies: usize,
    /// Names of its policies that policies of others have.
    pub taken: Vec<Text>,
    /// How many policies could not be written so far.
    pub overdue: usize,
    /// Attributes and capacities that stay what the driver published.
    pub not_applied: Vec<Text>,
}

impl Write for PatchEffect {
    fn key(&self) -> Text {
        match self {
            Self::Create(policy) | Self::Change(_, policy) => policy.name.clone(),
            Self::Delete(name, _) => name.clone(),
            Self::Report(report) => format!("/{}", report.patch.name).into(),
        }
    }

    fn is_unseen(&self) -> bool {
        matches!(self, Self::Report(_))
    }
}

/// Brings the policies that patches own to what the patches want.
#[derive(Debug, Default)]
pub struct Patches {
    leads: bool,
    patches: BTreeMap<Text, (i64, ResourceSlicePatch)>,
    owned: BTreeMap<Text, OwnedPolicy>,
    /// Names of policies that could not be made, because policies of others have them.
    taken: BTreeSet<Text>,
    queue: VecDeque<PatchEffect>,
    attempts: Attempts<PatchEffect>,
    reported: BTreeMap<Text, PatchReport>,
    /// An input came since the writes were last decided.
    is_stale: bool,
}

impl From<Turn> for PatchInput {
    fn from(turn: Turn) -> Self {
        match turn {
            Turn::Tick => Self::Tick,
            Turn::BecameLeader => Self::Leads(true),
            Turn::LostLeadership => Self::Leads(false),
            Turn::Acknowledged(effect, reply) => Self::Acknowledged(effect, reply.outcome),
        }
    }
}

impl Machine for Patches {
    type View = ();
    type Input<'a> = PatchInput;
    type Kind = PatchEffect;
    type Why = &'static str;

    /// Records an input. The writes are decided at the next [`PatchInput::Tick`].
    fn handle(&mut self, now: Timestamp, (): &(), input: PatchInput) {
        match input {
            PatchInput::Patch(generation, patch) => {
                self.patches.insert(patch.name.clone(), (generation, patch));
            }
            PatchInput::PatchGone(name) => {
                self.patches.remove(&name);
            }
            PatchInput::Policy(policy) => {
                let name = policy.said.name.clone();
                self.attempts.seen(&name);
                self.taken.remove(&name);
                self.owned.insert(name, policy);
            }
            PatchInput::PolicyGone(name) => {
                self.attempts.seen(&name);
                self.taken.remove(&name);
                self.owned.remove(&name);
            }
            PatchInput::Acknowledged(id, outcome) => self.acknowledged(now, id, outcome),
            PatchInput::Leads(leads) => {
                self.leads = leads;
                self.reported.clear();
                self.queue.clear();
            }
            PatchInput::Tick => {
                let is_due = self.is_stale || self.attempts.wake().is_some_and(|wake| wake.at <= now);
                if self.leads && is_due {
                    self.is_stale = false;
                    self.attempts.plan(now);
                    self.plan(now);
                }
                return;
            }
        }
        self.is_stale = true;
    }

    fn poll_effect(&mut self) -> Option<Effect<PatchEffect>> {
        let effect = self.queue.pop_front()?;
        Some(self.attempts.start(effect))
    }

    fn next_wake(&self) -> Option<Wake> {
        let soon = self.is_stale.then_some(Wake::now("patches or policies have changed"));
        soon.or_else(|| self.attempts.wake()).filter(|_| self.leads)
    }
}

impl Patches {
    fn acknowledged(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        // Acknowledged before.
        let Some((effect, is_done)) = self.attempts.acknowledge(now, id, outcome) else { return };
        match effect {
            PatchEffect::Create(policy) if outcome == Outcome::Conflict => {
                self.taken.insert(policy.name);
            }
            PatchEffect::Report(report) if is_done => {
                self.reported.insert(report.patch.name.clone(), report);
            }
            PatchEffect::Create(_)
            | PatchEffect::Change(..)
            | PatchEffect::Delete(..)
            | PatchEffect::Report(_) => {}
        }
    }

    fn stage(&self, now: Timestamp, policy: &WantedPolicy) -> Stage {
        match self.owned.get(&policy.name) {
            Some(owned) if owned.said == *policy => Stage::Seen,
            _ if self.taken.contains(&policy.name) => Stage::Taken,
            _ if self.attempts.is_overdue(now, &policy.name) => Stage::Overdue,
            _ => Stage::Pending,
        }
    }

    /// Fills the queue. Devices are tainted before others are freed, and both before a status says so: that of a patch of which a policy is being
    /// written stays until that is done or has failed.
    fn plan(&mut self, now: Timestamp) {
        self.queue.clear();
        let waits = |key: &Text| self.attempts.waits(now, key);
        let mut wanted: BTreeMap<Text, WantedPolicy> = BTreeMap::new();
        let mut reports = Vec::new();
        for (generation, patch) in self.patches.values() {
            let CompiledPatch { policies, not_applied } = compile_patch(patch);
            let mut progress = Progress::default();
            policies.iter().for_each(|policy| progress.add(&policy.name, self.stage(now, policy)));
            let Progress { seen, taken, overdue, is_pending } = progress;
            if !is_pending {
                let patch = Owner { name: patch.name.clone(), uid: patch.uid.clone() };
                let generation = *generation;
                reports.push(PatchReport { patch, generation, policies: seen, taken, overdue, not_applied });
            }
            wanted.extend(policies.into_iter().map(|policy| (policy.name.clone(), policy)));
        }
        for (name, policy) in wanted.iter().filter(|(name, _)| !waits(name)) {
            match self.owned.get(name) {
                None => self.queue.push_back(PatchEffect::Create(policy.clone())),
                Some(owned) if owned.said.owner != policy.owner => {
                    self.queue.push_back(PatchEffect::Delete(name.clone(), owned.uid.clone()));
                }
                Some(owned) if owned.said == *policy => {}
                Some(owned) => {
                    self.queue.push_back(PatchEffect::Change(owned.uid.clone(), policy.clone()));
                }
            }
        }
        let unwanted = self.owned.iter().filter(|(name, _)| !wanted.contains_key(*name) && !waits(name));
        self.queue.extend(unwanted.map(|(name, owned)| PatchEffect::Delete(name.clone(), owned.uid.clone())));
        let said = &self.reported;
        let news = reports.iter().filter(|report| said.get(&report.patch.name) != Some(report));
        let news = news.cloned().map(PatchEffect::Report).filter(|report| !waits(&report.key()));
        self.queue.extend(news);
        self.reported.retain(|name, _| self.patches.contains_key(name));
        let (owned, patches) = (&self.owned, &self.patches);
        let is_patch = |key: &Text| key.strip_prefix('/').is_some_and(|name| patches.contains_key(name));
        self.attempts.keep(|key| wanted.contains_key(key) || owned.contains_key(key) || is_patch(key));
        self.taken.retain(|name| wanted.contains_key(name));
    }
}
