//! What has to be written so that the rules are as the policies want them.

use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    vec::Vec,
};

use lazaret_fleet::Fleet;
use lazaret_machine::{Backoff, EffectId, Flights, Machine, Outcome, Turn, Wake};
use lazaret_model::{DeviceSelector, Effect as TaintEffect, Text, Timestamp, Uid};

use crate::wanted::{Compiled, Owner, Wanted, compile};

/// A write that was done shows in the watch soon. Until then, or for so long, its object is left alone.
const SEEN_WITHIN_MS: i64 = 5_000;
/// Pauses after writes that failed.
const RETRY: Backoff = Backoff::new(500, 60_000);

/// A rule of Kubernetes that a policy owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
    /// Its policy.
    pub owner: Owner,
    /// What it selects.
    pub selector: DeviceSelector,
    /// The key of its taint.
    pub key: Text,
    /// The value of its taint.
    pub value: Text,
    /// The effect of its taint.
    pub effect: TaintEffect,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The fleet, policies among it, may be another.
    Changed,
    /// A rule that a policy owns is so.
    Rule(Owned),
    /// There is no such rule, or no policy owns it.
    RuleGone(Text),
    /// Whether some guard wants approval of policies that reach far: then a policy stays what it was until its status says whether it is held.
    /// True until this is heard.
    ApprovalWanted(bool),
    /// What became of an effect.
    Acknowledged(EffectId, Outcome),
    /// Effects are wanted from now on.
    BecameLeader,
    /// No effects are wanted.
    LostLeadership,
    /// Time has passed.
    Tick,
}

/// Something to be done.
pub type Effect = lazaret_machine::Effect<EffectKind>;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectKind {
    /// Make a rule.
    Create(Wanted),
    /// Give a rule of this incarnation this taint.
    Retaint(Uid, Wanted),
    /// Delete a rule of this incarnation.
    Delete(Text, Uid),
    /// Say in a policy's status what it became.
    Report {
        /// The policy.
        policy: Owner,
        /// Of which generation this is said.
        generation: i64,
        /// How many rules it has.
        rules: usize,
        /// How many selected devices have none.
        left_out: usize,
    },
}

/// What a policy's status was last said to be: generation, rules, devices without one.
type Reported = (i64, usize, usize);

/// Brings the rules that policies own to what the policies want.
#[derive(Debug, Default)]
pub struct Policies {
    leads: bool,
    /// No guard wants approval.
    needs_no_approval: bool,
    owned: BTreeMap<Text, Owned>,
    queue: VecDeque<EffectKind>,
    flights: Flights<EffectKind, EffectKind>,
    /// What is left alone until then, and how often a write of it failed; by [`key`].
    not_before: BTreeMap<Text, (Timestamp, u32)>,
    reported: BTreeMap<Owner, Reported>,
    /// When the queue was last filled.
    planned: Option<Timestamp>,
}

impl From<Turn> for Input {
    fn from(turn: Turn) -> Self {
        match turn {
            Turn::Tick => Self::Tick,
            Turn::BecameLeader => Self::BecameLeader,
            Turn::LostLeadership => Self::LostLeadership,
            Turn::Acknowledged(effect, reply) => Self::Acknowledged(effect, reply.outcome),
        }
    }
}

impl Machine for Policies {
    type View = Fleet;
    type Input<'a> = Input;
    type Kind = EffectKind;
    type Why = &'static str;

    fn handle(&mut self, now: Timestamp, fleet: &Fleet, input: Input) {
        let mut is_stale = true;
        match input {
            Input::Changed => {}
            Input::Rule(rule) => {
                self.not_before.remove(&rule.name);
                self.owned.insert(rule.name.clone(), rule);
            }
            Input::RuleGone(name) => {
                self.not_before.remove(&name);
                self.owned.remove(&name);
            }
            Input::ApprovalWanted(wanted) => self.needs_no_approval = !wanted,
            Input::Acknowledged(id, outcome) => self.acknowledged(now, id, outcome),
            Input::BecameLeader => {
                self.leads = true;
                self.reported.clear();
            }
            Input::LostLeadership => {
                self.leads = false;
                self.queue.clear();
            }
            Input::Tick => is_stale = self.next_wake().is_some_and(|wake| wake.at <= now),
        }
        if self.leads && is_stale {
            self.planned = Some(now);
            self.plan(now, fleet);
        }
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        let kind = self.queue.pop_front()?;
        Some(self.flights.send(kind.clone(), kind))
    }

    fn next_wake(&self) -> Option<Wake> {
        let later = |at: &Timestamp| self.planned.is_none_or(|planned| *at > planned);
        let at = self.not_before.values().map(|(at, _)| *at).filter(later).min().filter(|_| self.leads)?;
        Some(Wake::new(at, "a rule that was written is looked at again"))
    }
}

impl Policies {
    fn acknowledged(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        let Some(kind) = self.flights.land(id) else { return };
        let key = key(&kind);
        let failures = self.not_before.get(&key).map_or(0, |(_, failures)| *failures);
        if !is_done(outcome) {
            let failures = failures.saturating_add(1);
            self.not_before.insert(key, (now.plus_millis(RETRY.after(failures)), failures));
        } else if let EffectKind::Report { policy, generation, rules, left_out } = kind {
            self.not_before.remove(&key);
            self.reported.insert(policy, (generation, rules, left_out));
        } else {
            self.not_before.insert(key, (now.plus_millis(SEEN_WITHIN_MS), 0));
        }
    }

    /// Fills the queue. Devices are tainted before others are freed.
    fn plan(&mut self, now: Timestamp, fleet: &Fleet) {
        self.queue.clear();
        let mut wanted: BTreeMap<Text, Wanted> = BTreeMap::new();
        let mut reports = Vec::new();
        let mut undecided: Vec<&Uid> = Vec::new();
        for view in fleet.rules() {
            if !self.needs_no_approval && !view.rule.says_whether_held() {
                undecided.push(&view.rule.uid);
                continue;
            }
            let Compiled { rules, left_out } = compile(fleet, view.rule);
            let owner = Owner { name: view.rule.name.clone(), uid: view.rule.uid.clone() };
            reports.push((owner, (view.rule.generation, rules.len(), left_out)));
            wanted.extend(rules.into_iter().map(|rule| (rule.name.clone(), rule)));
        }
        let in_flight: Vec<Text> = self.flights.all().into_iter().map(key).collect();
        let waits =
            |key: &Text| in_flight.contains(key) || self.not_before.get(key).is_some_and(|(at, _)| *at > now);
        let mut deletions = Vec::new();
        for (name, rule) in &wanted {
            let effect = match self.owned.get(name) {
                None => EffectKind::Create(rule.clone()),
                Some(owned) if !is_same_object(owned, rule) => {
                    EffectKind::Delete(name.clone(), owned.uid.clone())
                }
                Some(owned) if has_taint(owned, rule) => continue,
                Some(owned) => EffectKind::Retaint(owned.uid.clone(), rule.clone()),
            };
            if !waits(name) {
                self.queue.push_back(effect);
            }
        }
        for owned in self.owned.values().filter(|owned| !wanted.contains_key(&owned.name)) {
            if !waits(&owned.name) && !undecided.contains(&&owned.owner.uid) {
                deletions.push(EffectKind::Delete(owned.name.clone(), owned.uid.clone()));
            }
        }
        self.queue.extend(deletions);
        let mut reported = BTreeMap::new();
        let mut kept: Vec<Text> = Vec::new();
        for (policy, counts) in reports {
            let (generation, rules, left_out) = counts;
            let effect = EffectKind::Report { policy: policy.clone(), generation, rules, left_out };
            kept.push(key(&effect));
            if self.reported.get(&policy) == Some(&counts) {
                reported.insert(policy, counts);
            } else if !waits(&key(&effect)) {
                self.queue.push_back(effect);
            }
        }
        self.reported = reported;
        let owned = &self.owned;
        self.not_before
            .retain(|key, _| wanted.contains_key(key) || owned.contains_key(key) || kept.contains(key));
    }
}

fn is_done(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Done | Outcome::Gone)
}

/// What an effect is about: the rule's name, or the policy's after a slash, which no name has.
fn key(kind: &EffectKind) -> Text {
    match kind {
        EffectKind::Create(rule) | EffectKind::Retaint(_, rule) => rule.name.clone(),
        EffectKind::Delete(name, _) => name.clone(),
        EffectKind::Report { policy, .. } => format!("/{}", policy.name).into(),
    }
}

/// A rule of another incarnation of the policy, or with another selector, is not changed but made anew.
fn is_same_object(owned: &Owned, wanted: &Wanted) -> bool {
    owned.owner == wanted.owner && owned.selector == wanted.selector
}

fn has_taint(owned: &Owned, wanted: &Wanted) -> bool {
    (&owned.key, &owned.value, &owned.effect) == (&wanted.key, &wanted.value, &wanted.effect)
}
