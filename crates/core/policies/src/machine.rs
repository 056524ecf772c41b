//! The writes that make the rules agree with the policies.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    vec::Vec,
};

use lazaret_fleet::Fleet;
use lazaret_machine::{EffectId, Machine, Outcome, Wake};
use lazaret_model::{DeviceSelector, Effect as TaintEffect, Text, Timestamp, Uid};

use crate::{
    attempts::{Attempts, Write},
    progress::{Progress, Stage},
    wanted::{Compiled, Owner, Wanted, compile},
};

/// A rule of Kubernetes that a policy owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
    /// Its policy.
    pub owner: Owner,
    /// Its selector.
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
    /// True until this is received.
    ApprovalWanted(bool),
    /// The outcome of an effect.
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

/// The kinds of effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectKind {
    /// Make a rule.
    Create(Wanted),
    /// Give a rule of this incarnation this taint.
    Retaint(Uid, Wanted),
    /// Delete a rule of this incarnation.
    Delete(Text, Uid),
    /// Say in a policy's status what it became.
    Report(Report),
}

/// The status of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The policy.
    pub policy: Owner,
    /// The generation of the policy that it reports on.
    pub generation: i64,
    /// How many rules it has, as the watch shows them.
    pub rules: usize,
    /// How many selected devices have none, because there are too many.
    pub left_out: usize,
    /// Names of its rules that rules of others have.
    pub taken: Vec<Text>,
    /// How many rules could not be written so far.
    pub overdue: usize,
}

impl Write for EffectKind {
    fn key(&self) -> Text {
        match self {
            Self::Create(rule) | Self::Retaint(_, rule) => rule.name.clone(),
            Self::Delete(name, _) => name.clone(),
            Self::Report(report) => format!("/{}", report.policy.name).into(),
        }
    }

    fn is_unseen(&self) -> bool {
        matches!(self, Self::Report(_))
    }
}

/// Brings the rules that policies own to what the policies want.
#[derive(Debug, Default)]
pub struct Policies {
    leads: bool,
    /// No guard wants approval.
    needs_no_approval: bool,
    owned: BTreeMap<Text, Owned>,
    /// Names of rules that could not be made, because rules of others have them.
    taken: BTreeSet<Text>,
    queue: VecDeque<EffectKind>,
    attempts: Attempts<EffectKind>,
    /// The last status of each policy.
    reported: BTreeMap<Owner, Report>,
}

lazaret_machine::turns!(Input, |effect, reply| Input::Acknowledged(effect, reply.outcome));

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
                self.attempts.seen(&rule.name);
                self.taken.remove(&rule.name);
                self.owned.insert(rule.name.clone(), rule);
            }
            Input::RuleGone(name) => {
                self.attempts.seen(&name);
                self.taken.remove(&name);
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
            self.attempts.plan(now);
            self.plan(now, fleet);
        }
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        let kind = self.queue.pop_front()?;
        Some(self.attempts.start(kind))
    }

    fn next_wake(&self) -> Option<Wake> {
        self.attempts.wake().filter(|_| self.leads)
    }
}

impl Policies {
    fn acknowledged(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        // Acknowledged before.
        let Some((kind, is_done)) = self.attempts.acknowledge(now, id, outcome) else { return };
        match kind {
            EffectKind::Create(rule) if outcome == Outcome::Conflict => {
                self.taken.insert(rule.name);
            }
            EffectKind::Report(report) if is_done => {
                self.reported.insert(report.policy.clone(), report);
            }
            EffectKind::Create(_)
            | EffectKind::Retaint(..)
            | EffectKind::Delete(..)
            | EffectKind::Report(_) => {}
        }
    }

    /// Fills the queue. Devices are tainted before others are freed, and both before a status says so.
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
            let mut progress = Progress::default();
            rules.iter().for_each(|rule| progress.add(&rule.name, self.stage(now, rule)));
            let Progress { seen, taken, overdue, is_pending } = progress;
            let policy = Owner { name: view.rule.name.clone(), uid: view.rule.uid.clone() };
            let generation = view.rule.generation;
            reports.push((is_pending, Report { policy, generation, rules: seen, left_out, taken, overdue }));
            wanted.extend(rules.into_iter().map(|rule| (rule.name.clone(), rule)));
        }
        self.plan_rules(now, &wanted, &undecided);
        let kept = self.plan_reports(now, reports);
        let owned = &self.owned;
        self.attempts.keep(|key| wanted.contains_key(key) || owned.contains_key(key) || kept.contains(key));
        self.taken.retain(|name| wanted.contains_key(name));
    }

    fn stage(&self, now: Timestamp, rule: &Wanted) -> Stage {
        match self.owned.get(&rule.name) {
            Some(owned) if is_same_object(owned, rule) && has_taint(owned, rule) => Stage::Seen,
            _ if self.taken.contains(&rule.name) => Stage::Taken,
            _ if self.attempts.is_overdue(now, &rule.name) => Stage::Overdue,
            _ => Stage::Pending,
        }
    }

    fn plan_rules(&mut self, now: Timestamp, wanted: &BTreeMap<Text, Wanted>, undecided: &[&Uid]) {
        let waits = |key: &Text| self.attempts.waits(now, key);
        let mut deletions = Vec::new();
        for (name, rule) in wanted {
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
    }

    /// Queues what statuses do not say yet, but for policies of which a rule is being written: their status stays until that is done or has failed.
    /// Returns the keys of all.
    fn plan_reports(&mut self, now: Timestamp, reports: Vec<(bool, Report)>) -> BTreeSet<Text> {
        let mut reported = BTreeMap::new();
        let mut kept = BTreeSet::new();
        for (is_pending, report) in reports {
            let said = self.reported.remove(&report.policy);
            let effect = EffectKind::Report(report.clone());
            let key = effect.key();
            if !is_pending && said.as_ref() != Some(&report) && !self.attempts.waits(now, &key) {
                self.queue.push_back(effect);
            }
            if let Some(said) = said.filter(|said| is_pending || *said == report) {
                reported.insert(report.policy, said);
            }
            kept.insert(key);
        }
        self.reported = reported;
        kept
    }
}

/// A rule of another incarnation of the policy, or with another selector, is not changed but made anew.
fn is_same_object(owned: &Owned, wanted: &Wanted) -> bool {
    owned.owner == wanted.owner && owned.selector == wanted.selector
}

fn has_taint(owned: &Owned, wanted: &Wanted) -> bool {
    (&owned.key, &owned.value, &owned.effect) == (&wanted.key, &wanted.value, &wanted.effect)
}
