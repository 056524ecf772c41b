//! The writes that make the rules agree with the policies.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_fleet::Fleet;
use lazaret_machine::{EffectId, Machine, Outcome, Wake};
use lazaret_model::{DeviceTaintRule, Text, Timestamp, Uid};

use crate::{
    attempts::{Attempts, Write},
    effect::{Effect, EffectKind, Report, policy_of, status_of},
    owned::{Owned, OwnedRules},
    progress::{Progress, Stage},
    todo::Todo,
    wanted::{Compiled, Owner, Wanted, compile},
};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// These policies are new, changed or gone, or select other devices than before.
    Changed(Vec<Text>),
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

/// Brings the rules that policies own to what the policies want. A policy is looked at when something of it has changed, and no other one is.
#[derive(Debug, Default)]
pub struct Policies {
    leads: bool,
    /// No guard wants approval.
    needs_no_approval: bool,
    owned: OwnedRules,
    /// Names of rules that could not be made, because rules of others have them.
    taken: BTreeSet<Text>,
    /// The policies that there are, as they were looked at last.
    plans: BTreeMap<Text, Plan>,
    /// The policy that wants a rule, by the rule's name.
    wanted_by: BTreeMap<Text, Text>,
    /// Policies to be looked at.
    stale: BTreeSet<Text>,
    todo: Todo,
    attempts: Attempts<EffectKind>,
    /// The last status of each policy.
    reported: BTreeMap<Text, Report>,
    looks: u64,
}

/// The result of the last look at a policy.
#[derive(Debug)]
enum Plan {
    /// These rules.
    Rules(Vec<Text>),
    /// Whether it is held is not decided yet: the rules of this incarnation stay as they are.
    Undecided(Uid),
}

lazaret_machine::turns!(Input, |effect, reply| Input::Acknowledged(effect, reply.outcome));

impl Machine for Policies {
    type View = Fleet;
    type Input<'a> = Input;
    type Kind = EffectKind;
    type Why = &'static str;

    fn handle(&mut self, now: Timestamp, fleet: &Fleet, input: Input) {
        match input {
            Input::Changed(policies) => self.stale.extend(policies),
            Input::Rule(rule) => {
                self.see(&rule.name);
                self.stale.insert(rule.owner.name.clone());
                self.owned.set(rule);
            }
            Input::RuleGone(name) => {
                self.see(&name);
                self.owned.remove(&name);
            }
            Input::ApprovalWanted(wanted) => {
                self.needs_no_approval = !wanted;
                self.look_at_all(fleet);
            }
            Input::Acknowledged(id, outcome) => self.acknowledged(now, id, outcome),
            Input::BecameLeader => {
                self.leads = true;
                self.reported.clear();
                self.look_at_all(fleet);
            }
            Input::LostLeadership => {
                self.leads = false;
                self.todo = Todo::default();
            }
            Input::Tick => {}
        }
        if !self.leads {
            // A leader begins with all of them.
            self.stale.clear();
            return;
        }
        for key in self.attempts.due(now) {
            self.look_at(&key);
        }
        while let Some(policy) = self.stale.pop_first() {
            self.look(now, fleet, &policy);
        }
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        let kind = self.todo.pop()?;
        Some(self.attempts.start(kind))
    }

    fn next_wake(&self) -> Option<Wake> {
        self.attempts.wake().filter(|_| self.leads)
    }
}

impl Policies {
    /// How often a policy was looked at.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// The watch showed a rule, or that it is gone.
    fn see(&mut self, name: &Text) {
        self.attempts.seen(name);
        self.taken.remove(name);
        self.todo.forget(name);
        self.look_at(name);
    }

    fn look_at_all(&mut self, fleet: &Fleet) {
        self.stale.extend(fleet.rules().map(|view| view.rule.name.clone()));
        self.stale.extend(self.plans.keys().chain(self.owned.owners()).cloned());
    }

    /// Something is another about the write with this key.
    fn look_at(&mut self, key: &Text) {
        match policy_of(key) {
            Some(policy) => {
                self.stale.insert(policy);
            }
            None => {
                let owner = self.owned.get(key).map(|owned| &owned.owner.name);
                self.stale.extend(self.wanted_by.get(key).into_iter().chain(owner).cloned());
            }
        }
    }

    fn acknowledged(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        // Acknowledged before.
        let Some((kind, is_done)) = self.attempts.acknowledge(now, id, outcome) else { return };
        let key = kind.key();
        self.look_at(&key);
        match kind {
            EffectKind::Create(rule) if outcome == Outcome::Conflict => {
                self.taken.insert(rule.name);
            }
            EffectKind::Report(report) if is_done => {
                self.reported.insert(report.policy.name.clone(), report);
            }
            EffectKind::Create(_)
            | EffectKind::Retaint(..)
            | EffectKind::Delete(..)
            | EffectKind::Report(_) => {}
        }
        self.forget_unwanted(&key);
    }

    /// Decides what is to be written for a policy, which may be gone.
    fn look(&mut self, now: Timestamp, fleet: &Fleet, policy: &Text) {
        self.looks += 1;
        let before = self.withdraw(policy);
        if let Some(view) = fleet.rule(policy) {
            let plan = if self.needs_no_approval || view.rule.says_whether_held() {
                let compiled = compile(fleet, view.rule);
                self.plan_rules(now, policy, &compiled.rules);
                self.plan_report(now, view.rule, &compiled);
                Plan::Rules(compiled.rules.into_iter().map(|rule| rule.name).collect())
            } else {
                Plan::Undecided(view.rule.uid.clone())
            };
            self.plans.insert(policy.clone(), plan);
        }
        self.plan_deletions(now, policy);
        for name in before {
            self.forget_unwanted(&name);
            // A rule that only this policy wanted is its owner's to delete.
            let is_others = |owned: &&Owned| owned.owner.name != *policy;
            let other = self.owned.get(&name).filter(|_| !self.wanted_by.contains_key(&name));
            self.stale.extend(other.filter(is_others).map(|owned| owned.owner.name.clone()));
        }
        self.forget_unwanted(&status_of(policy));
    }

    /// Takes back what was decided for a policy. Returns the rules that it wanted.
    fn withdraw(&mut self, policy: &Text) -> Vec<Text> {
        let before = match self.plans.remove(policy) {
            Some(Plan::Rules(names)) => names,
            Some(Plan::Undecided(_)) | None => Vec::new(),
        };
        for name in &before {
            if self.wanted_by.get(name) == Some(policy) {
                self.wanted_by.remove(name);
                self.todo.rules.remove(name);
            }
        }
        self.owned.of(policy).for_each(|owned| {
            self.todo.deletions.remove(&owned.name);
        });
        self.todo.reports.remove(policy);
        before
    }

    fn plan_rules(&mut self, now: Timestamp, policy: &Text, rules: &[Wanted]) {
        for rule in rules {
            let name = &rule.name;
            self.wanted_by.insert(name.clone(), policy.clone());
            self.todo.forget(name);
            let effect = match self.owned.get(name) {
                None => EffectKind::Create(rule.clone()),
                Some(owned) if !owned.is_same_object(rule) => {
                    EffectKind::Delete(name.clone(), owned.uid.clone())
                }
                Some(owned) if owned.has_taint(rule) => continue,
                Some(owned) => EffectKind::Retaint(owned.uid.clone(), rule.clone()),
            };
            if !self.attempts.waits(now, name) {
                self.todo.rules.insert(name.clone(), effect);
            }
        }
    }

    /// Deletes what a policy owns and none wants. Of one that is not decided about only rules of other incarnations go.
    fn plan_deletions(&mut self, now: Timestamp, policy: &Text) {
        let kept = match self.plans.get(policy) {
            Some(Plan::Undecided(uid)) => Some(uid),
            Some(Plan::Rules(_)) | None => None,
        };
        for owned in self.owned.of(policy) {
            let is_kept = self.wanted_by.contains_key(&owned.name) || kept == Some(&owned.owner.uid);
            if !is_kept && !self.attempts.waits(now, &owned.name) {
                let deletion = EffectKind::Delete(owned.name.clone(), owned.uid.clone());
                self.todo.deletions.insert(owned.name.clone(), deletion);
            }
        }
    }

    /// Plans a status that says something else than the last one. While a rule of the policy is being written its status stays as it is.
    fn plan_report(&mut self, now: Timestamp, policy: &DeviceTaintRule, compiled: &Compiled) {
        let mut progress = Progress::default();
        compiled.rules.iter().for_each(|rule| progress.add(&rule.name, self.stage(now, rule)));
        let Progress { seen, taken, overdue, is_pending } = progress;
        let owner = Owner { name: policy.name.clone(), uid: policy.uid.clone() };
        let (generation, left_out) = (policy.generation, compiled.left_out);
        let report = Report { policy: owner, generation, rules: seen, left_out, taken, overdue };
        let is_said = self.reported.get(&policy.name) == Some(&report);
        if !is_pending && !is_said && !self.attempts.waits(now, &status_of(&policy.name)) {
            self.todo.reports.insert(policy.name.clone(), report);
        }
    }

    fn stage(&self, now: Timestamp, rule: &Wanted) -> Stage {
        match self.owned.get(&rule.name) {
            Some(owned) if owned.is_same_object(rule) && owned.has_taint(rule) => Stage::Seen,
            _ if self.taken.contains(&rule.name) => Stage::Taken,
            _ if self.attempts.is_overdue(now, &rule.name) => Stage::Overdue,
            _ => Stage::Pending,
        }
    }

    /// Forgets what is known of writes with this key, unless something is to be written there.
    fn forget_unwanted(&mut self, key: &Text) {
        let is_wanted = match policy_of(key) {
            Some(policy) => {
                let is_decided = matches!(self.plans.get(&policy), Some(Plan::Rules(_)));
                if !is_decided {
                    self.reported.remove(&policy);
                }
                is_decided
            }
            None => self.wanted_by.contains_key(key) || self.owned.get(key).is_some(),
        };
        if !is_wanted {
            self.attempts.seen(key);
        }
        if !self.wanted_by.contains_key(key) {
            self.taken.remove(key);
        }
    }
}
