//! Which policies are acted on, and what their status says of it.

use std::sync::Arc;

use lazaret_api::{HealthPolicy, account_refusal};
use lazaret_fleet::Input as Told;
use lazaret_lifecycle::{Input as CoreInput, Mode, Notice, Policy};
use lazaret_model::{Text, Timestamp};
use lazaret_runtime::{Effect, EffectId, Object};
use lazaret_signals::selection;

use super::{
    super::{
        acceptance::{self, Candidate, Problem},
        executor::Operation,
        writes,
    },
    Health, Verdict,
};
use crate::header::Header;

impl Health {
    pub(super) fn policy(&mut self, now: Timestamp, object: &Object) {
        let name = object.key.name.clone();
        match lazaret_api::read_health_policy(object.text()) {
            Ok(policy) => {
                let generation = policy.generation;
                let known = self.candidates.get(&name).map(|known| known.policy.generation);
                if known == Some(generation) && generation > 0 {
                    return;
                }
                self.candidates.insert(name.clone(), Candidate::new(policy, object));
                self.weigh(now, Some(&name));
            }
            Err(error) => {
                let generation = Header::read(object.json()).unwrap_or_default().generation();
                self.discard(now, &name);
                let problem = Problem { reason: "Invalid", message: error.to_string() };
                self.judge(name, (generation, Some(problem)));
            }
        }
    }

    pub(super) fn policy_gone(&mut self, now: Timestamp, name: &Text) {
        self.verdicts.remove(name);
        self.broken.remove(name);
        self.discard(now, name);
    }

    /// There is no policy of this name that can be understood.
    pub(super) fn discard(&mut self, now: Timestamp, name: &Text) {
        self.excessive.remove(name);
        self.candidates.remove(name);
        self.withdraw(now, name);
        self.weigh(now, None);
    }

    /// Acts on every policy that can be acted on, and on no other; on `changed` anew.
    pub(super) fn weigh(&mut self, now: Timestamp, changed: Option<&Text>) {
        let was_excessive = changed.is_some_and(|name| self.excessive.remove(name).is_some());
        let names: Vec<Text> = self.candidates.keys().cloned().collect();
        for name in names {
            let Some(candidate) = self.candidates.get(&name).cloned() else { continue };
            let generation = candidate.policy.generation;
            if let Some(problem) = acceptance::contradiction(&name, &self.candidates) {
                self.withdraw(now, &name);
                self.judge(name, (generation, Some(problem)));
                continue;
            }
            let known = self.policies.get(&name);
            if changed == Some(&name) || known.is_none_or(|known| known.generation != generation) {
                // One that enforced before goes on: its devices are out of service, and stay so.
                let enforced = known.is_some_and(|known| known.policy.mode == Mode::Enforce)
                    && !self.untried.contains(&name)
                    && !was_excessive;
                if candidate.must_be_tried() && !enforced {
                    self.untried.insert(name.clone());
                }
                self.act_on(now, &name, &candidate.policy);
            }
            if !self.untried.contains(&name) {
                let problem = self.excessive.get(&name).cloned();
                self.judge(name, (generation, problem));
            }
        }
    }

    /// Hands a policy to the core. One that was not tried yet, or that would take everything out of service, only observes.
    pub(super) fn act_on(&mut self, now: Timestamp, name: &Text, policy: &Arc<HealthPolicy>) {
        let selection = selection(name.clone(), policy.generation, policy.selector.clone());
        self.fleet.apply(Told::Rule(Arc::new(selection)));
        let observes = self.untried.contains(name) || self.excessive.contains_key(name);
        let mode = if observes { Mode::Observe } else { policy.policy.mode };
        let blocked = account_refusal(policy.account.as_ref(), &self.repair_namespaces)
            .filter(|_| !policy.steps.is_empty() || policy.validation.is_some())
            .map(Text::from);
        let known = Policy { mode, blocked, ..policy.policy.clone() };
        self.core.handle(now, Notice::Core(CoreInput::Policy(Box::new(known))));
        if !self.policies.contains_key(name) && !policy.counts.is_empty() {
            let counted = CoreInput::Counted { policy: name.clone(), tallies: policy.counts.clone() };
            self.core.handle(now, Notice::Core(counted));
        }
        self.levels.policy(name.clone(), policy.identity.clone());
        self.policies.insert(name.clone(), Arc::clone(policy));
    }

    pub(super) fn withdraw(&mut self, now: Timestamp, name: &Text) {
        self.untried.remove(name);
        if self.policies.remove(name).is_some() {
            self.fleet.apply(Told::RuleGone(name.clone()));
            self.core.handle(now, Notice::Core(CoreInput::PolicyGone(name.clone())));
            self.levels.policy_gone(name);
        }
    }

    /// Guards have changed: what they permit may be enough for policies that would take everything out of service.
    pub(super) fn try_again(&mut self) {
        let excessive = core::mem::take(&mut self.excessive);
        self.untried.extend(excessive.into_keys());
    }

    pub(super) fn judge(&mut self, name: Text, verdict: Verdict) {
        if self.verdicts.get(&name).is_none_or(|(known, _)| *known != verdict) {
            self.verdicts.insert(name.clone(), (verdict, false));
            self.reports.push_back(name);
        }
    }

    /// An expression of a policy could not be evaluated: its status says so until its spec changes.
    pub(super) fn note_broken(&mut self, name: &Text, problem: String) {
        let Some(((generation, _), is_told)) = self.verdicts.get_mut(name) else { return };
        // Each signal may fail in another way: the status has the first error.
        if self.broken.get(name).is_some_and(|(of, _)| of == generation) {
            return;
        }
        *is_told = false;
        self.broken.insert(name.clone(), (*generation, problem));
        self.reports.push_back(name.clone());
    }

    /// The next status of a policy to be written, if there is one.
    pub(super) fn poll_report(&mut self) -> Option<Effect<Operation>> {
        // A policy that is gone has no status.
        let (name, kind) = loop {
            let name = self.reports.pop_front()?;
            if let Some(((generation, problem), _)) = self.verdicts.get(&name) {
                let broken = self.broken.get(&name).filter(|(of, _)| of == generation);
                let broken = broken.map(|(_, message)| message.as_str());
                let kind = writes::verdict(self.now, &name, *generation, (problem.as_ref(), broken));
                break (name, kind);
            }
        };
        let id = EffectId(self.next);
        self.next += 1;
        self.reporting.insert(id, name);
        Some(Effect { id, kind })
    }
}
