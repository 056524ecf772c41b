//! Devices as health controllers hear of them: by the watches of their process, through the machine that makes signals of slices and nodes.

use std::sync::Arc;

use lazaret_fleet::{Fleet, Input as Told};
use lazaret_lifecycle::{INCOMPLETE_MS, Input as CoreInput, Notice, Presence};
use lazaret_model::{DeviceSelector, Timestamp};
use lazaret_signals::{Levels, POOL_COMPLETE_KEY, PUBLISHED_KEY, beside_policies, rule_name, selection};

use crate::{
    actors::{
        health::HealthAgent,
        news::{Event, Gaps, Progress, listed},
    },
    api::{Api, Kind, Resource, Table},
    mutant::Mutant,
    palette,
    world::World,
};

/// A policy selects every device.
pub(super) fn select(policy: &str, fleet: &mut Fleet, levels: &mut Levels) {
    fleet.apply(Told::Rule(Arc::new(selection(policy.into(), 1, DeviceSelector::default()))));
    levels.policy(policy.into(), palette::word(palette::IDENTITY));
}

/// A policy is gone.
pub(super) fn select_nothing(policy: &str, fleet: &mut Fleet, levels: &mut Levels) {
    fleet.apply(Told::RuleGone(policy.into()));
    levels.policy_gone(&policy.into());
}

impl World {
    /// A controller hears what its watches have shown since it last heard of them.
    pub(super) fn hear_news(&mut self, number: usize) {
        let (gaps, view) = (&self.clients[number].gaps, &self.clients[number].view);
        let HealthAgent { fleet, levels, usage, progress, .. } = &mut self.health.agents[number];
        let mut inputs = Inputs { fleet, levels, api: &self.api, gaps };
        let progress = progress.get_or_insert_with(|| inputs.begin(gaps.began));
        inputs.hear(progress, Kind::ALL.map(|kind| view.position(kind)));
        let changes = fleet.take_changes();
        if !changes.classes.is_empty() {
            levels.tell_all();
        }
        usage.changed(&changes);
    }

    /// Tells a controller the signals of devices that changed.
    pub(super) fn hear_devices(&mut self, number: usize, now: Timestamp) {
        let HealthAgent { core, fleet, levels, usage, .. } = &mut self.health.agents[number];
        let mut told = levels.settle(now, fleet, core.lifecycle());
        if self.mutant == Some(Mutant::EarlyTornPools) {
            told.extend(levels.settle(now.plus_millis(INCOMPLETE_MS / 2), fleet, core.lifecycle()));
        }
        told.retain(|heard| !is_overlooked(self.mutant, heard));
        for heard in told.iter_mut().filter(|_| self.mutant == Some(Mutant::PresumedGone)) {
            if let CoreInput::Presence { presence, .. } = heard {
                *presence = Presence::Unpublished;
            }
        }
        for heard in &told {
            usage.told(heard);
            core.handle(now, Notice::Core(heard.clone()));
        }
        for heard in told.iter().filter(|_| self.trace) {
            self.say(format_args!("health controller {number} hears {heard:?}"));
        }
        self.note_torn_pools(number, now);
    }

    /// A controller that begins to lead knows the incidents: it misses devices that went before, and goes on with pools that the incidents are about.
    pub(super) fn begin_with_incidents(&mut self, number: usize, now: Timestamp) {
        if self.mutant != Some(Mutant::OverlookAbsent) {
            self.health.agents[number].levels.begin();
        }
        self.note_pools_of_incidents(number, now);
    }
}

/// Whether a mutant keeps a signal from a core.
fn is_overlooked(mutant: Option<Mutant>, heard: &CoreInput) -> bool {
    match (mutant, heard) {
        (Some(Mutant::OverlookVanished), CoreInput::Raised(signal)) => *signal.key == *PUBLISHED_KEY,
        (Some(Mutant::OverlookTornPools), CoreInput::Raised(signal)) => *signal.key == *POOL_COMPLETE_KEY,
        (Some(Mutant::KeepTornPools), CoreInput::Lowered { key, .. }) => **key == *POOL_COMPLETE_KEY,
        (Some(_) | None, _) => false,
    }
}

/// The way in which an agent gets news.
struct Inputs<'a> {
    fleet: &'a mut Fleet,
    levels: &'a mut Levels,
    api: &'a Api,
    gaps: &'a Gaps,
}

impl Inputs<'_> {
    /// The first lists of the watches.
    fn begin(&mut self, heard: [usize; Kind::ALL.len()]) -> Progress {
        let api = self.api;
        self.list(&api.classes, heard);
        self.list(&api.slices, heard);
        self.list(&api.patches, heard);
        self.list(&api.rules, heard);
        self.list(&api.nodes, heard);
        self.list(&api.claims, heard);
        self.list(&api.pods, heard);
        Progress { heard, ..Progress::default() }
    }

    fn list<T: Resource>(&mut self, table: &Table<T>, heard: [usize; Kind::ALL.len()]) {
        for place in listed(table, heard[T::KIND as usize]) {
            if let Some(place) = (place as usize).checked_sub(1) {
                self.found(table, place);
            }
        }
    }

    /// Everything up to here.
    fn hear(&mut self, progress: &mut Progress, to: [usize; Kind::ALL.len()]) {
        let from = core::mem::replace(&mut progress.heard, to);
        let api = self.api;
        self.follow(&api.classes, from, to);
        self.follow(&api.slices, from, to);
        self.follow(&api.patches, from, to);
        self.follow(&api.rules, from, to);
        self.follow(&api.nodes, from, to);
        self.follow(&api.claims, from, to);
        self.follow(&api.pods, from, to);
    }

    fn follow<T: Resource>(
        &mut self,
        table: &Table<T>,
        from: [usize; Kind::ALL.len()],
        to: [usize; Kind::ALL.len()],
    ) {
        let kind = T::KIND as usize;
        for Event { place, .. } in self.gaps.events(table, from[kind], to[kind]) {
            self.found(table, place);
        }
    }

    /// An object was written, or removed, at this place of the log.
    fn found<T: Resource>(&mut self, table: &Table<T>, place: usize) {
        let logged = &table.log()[place];
        let mut told = match &logged.object {
            Some(object) => T::found(Arc::clone(object)),
            None => T::gone(table.key(logged.number).clone()),
        };
        match &mut told {
            Told::Slice(slice) => self.levels.slice(slice),
            Told::SliceGone(name) => self.levels.slice_gone(name),
            Told::Node(node) => self.levels.node(&node.name, core::iter::empty()),
            Told::NodeGone(name) => self.levels.node_gone(name),
            Told::Patch(_) | Told::PatchGone(_) => self.levels.tell_all(),
            Told::Rule(rule) => *rule = Arc::new(beside_policies(rule)),
            Told::RuleGone(name) => *name = rule_name(name),
            Told::Class(_)
            | Told::ClassGone(_)
            | Told::Claim(_)
            | Told::ClaimGone(_)
            | Told::Pod(_)
            | Told::PodGone(_) => {}
        }
        self.fleet.apply(told);
    }
}
