//! The events of a run: taints come and go, processes die, leadership changes, watches miss changes.

use std::collections::BTreeSet;

use lazaret_model::Text;
use lazaret_replacement::{Share, Spec, Strategy};

use super::{
    dice::Dice,
    world::{KINDS, LATE_MS_MAX, NODES, Place, Stay, World},
};
use crate::api::{Api, option, spec};

impl World {
    /// From now on nothing goes wrong, and taints stay as they are. Few do: breakers must be able to reset.
    pub(super) fn calm(&mut self) {
        self.calm = true;
        self.api.budget = None;
        let specs = self.api.policies.values().filter_map(|policy| policy.spec.as_ref().ok());
        let keep = if specs.clone().any(|spec| matches!(spec.max_domains_tainted, Some(Share::Percent(_)))) {
            1
        } else {
            2
        };
        let open: BTreeSet<Place> =
            self.stays.iter().filter(|stay| stay.to.is_none()).map(|stay| stay.place.clone()).collect();
        let gone: Vec<Place> = open.into_iter().skip(keep).collect();
        for at in 0..self.stays.len() {
            if self.stays[at].to.is_none() && gone.contains(&self.stays[at].place) {
                self.relieve(at);
            }
        }
    }

    /// Takes a taint off.
    fn relieve(&mut self, at: usize) {
        let stay = &mut self.stays[at];
        stay.to = Some(self.now);
        let told = format!("{:?} no longer tainted {}", stay.place, stay.key);
        match &stay.place {
            Place::Node(node) => self.api.untaint(node, &stay.key),
            Place::Device(node) => self.api.taint_device(node, &stay.key, None),
        }
        self.trace(|| told);
    }

    /// Taints come and go.
    pub(super) fn administer(&mut self) {
        if self.calm {
            return;
        }
        if self.dice.often(6) {
            let node: Text = format!("n{}", self.dice.roll(NODES as u64)).into();
            let key: Text = ["a", "b", "c"][usize::try_from(self.dice.roll(3)).unwrap()].into();
            let place = if self.dice.often(60) { Place::Node(node) } else { Place::Device(node) };
            let mut open = self.stays.iter().enumerate().filter(|(_, stay)| stay.to.is_none());
            let count = open.clone().count();
            if let Some((there, _)) = open.find(|(_, stay)| stay.place == place && stay.key == key) {
                self.relieve(there);
            } else if count < NODES / 2 {
                let dated = self.dice.often(50);
                let added = dated.then_some(self.now);
                match &place {
                    Place::Node(node) => self.api.taint(node, &key, added),
                    Place::Device(node) => self.api.taint_device(node, &key, Some(added)),
                }
                self.trace(|| format!("{place:?} tainted {key}"));
                self.stays.push(Stay { place, key, dated, from: self.now, to: None });
            }
        }
        if self.dice.often(1) {
            self.api.budget = if self.api.budget.is_some() { None } else { Some(1) };
        }
    }

    /// Processes die, leadership changes, watches lose the thread.
    pub(super) fn upset(&mut self) {
        if self.calm {
            return;
        }
        let at = usize::try_from(self.dice.roll(2)).unwrap();
        if self.dice.often(2) {
            self.trace(|| format!("{at} dies"));
            self.lives[at] += 1;
            let leads = self.processes[at].leads;
            self.processes[at] = self.process();
            self.lead(at, leads);
        }
        if self.dice.often(2) {
            // A lease: what the old leader sent has arrived or is refused before the new one begins.
            let from = usize::from(self.processes[1].leads);
            self.trace(|| format!("{from} leads no longer"));
            self.lead(from, false);
            self.writes.clear();
            self.lives[from] += 1;
            self.processes[from].answers.clear();
            self.catch_up(1 - from);
            self.lead(1 - from, true);
        }
        if self.dice.often(3) {
            let kind = usize::try_from(self.dice.roll(KINDS as u64)).unwrap();
            let until = self.now.plus_millis(self.dice.late(LATE_MS_MAX / 2));
            self.processes[at].lost[kind].get_or_insert(until);
        }
    }
}

/// Policies as chance has it.
pub(super) fn set_policies(dice: &mut Dice, api: &mut Api) {
    let mut base = spec();
    base.node_options = vec![option("a", 20), option("b", 40), option("*", 30)];
    base.device_options = vec![option("a", 25), option("*", 35)];
    base.max_concurrent = 1 + u32::try_from(dice.roll(2)).unwrap();
    base.strategy = if dice.often(25) { Strategy::Recreate } else { Strategy::ReplaceFirst };
    base.fault_domain_key = dice.often(40).then(|| "zone".into());
    base.max_domains_tainted = match dice.roll(4) {
        0 => Some(Share::Percent(60)),
        1 => Some(Share::Count(3)),
        _ => None,
    };
    base.ready_secs = 60;
    api.set_policy("p", base.clone());
    if dice.often(50) {
        let node_options = vec![option("a", 35)];
        let device_options = if dice.often(50) { vec![option("b", 20)] } else { Vec::new() };
        let other = Spec { node_options, device_options, max_concurrent: 1, fault_domain_key: None, ..base };
        api.set_policy("q", other);
    }
}
