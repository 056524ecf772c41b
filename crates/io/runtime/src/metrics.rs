//! Counts of what the loops do.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{Health, Outcome, Resource, invariants};

/// The metrics of one process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    lists: Family<Watched, Counter>,
    effects: Family<Effected, Counter>,
    leading: Family<Run, Gauge>,
    duration: Family<Run, Histogram>,
    task_panics: Family<Task, Counter>,
    effect_panics: Family<Run, Counter>,
    too_large: Family<Watched, Counter>,
    unreadable: Family<Watched, Gauge>,
    unreadable_objects: Family<Watched, Gauge>,
    /// How many watches there are of what a label names: its series go with the last.
    watches: Arc<Mutex<BTreeMap<Watched, usize>>>,
    health: Health,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Watched {
    resource: Cow<'static, str>,
}

impl Watched {
    /// Kinds that users define have the name of their group: another group may have the plural, too.
    fn new(resource: &Resource) -> Self {
        let Resource { group, plural, .. } = resource;
        let is_own = !group.contains('.') || *group == "lazaret.dev";
        let is_known = is_own || group.ends_with(".k8s.io") && *group != "cdi.k8s.io";
        Self { resource: if is_known { (*plural).into() } else { format!("{plural}.{group}").into() } }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Effected {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Run {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Task {
    task: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let lists = Family::default();
        let effects = Family::default();
        let leading = Family::default();
        let duration = Family::new_with_constructor(seconds as fn() -> Histogram);
        let task_panics = Family::default();
        let effect_panics = Family::default();
        let too_large = Family::default();
        let unreadable = Family::default();
        let unreadable_objects = Family::default();
        registry.register("lazaret_lists", "Times a resource was read whole", lists.clone());
        registry.register("lazaret_effects", "Effects carried out, by outcome", effects.clone());
        registry.register("lazaret_leading", "Whether this process acts", leading.clone());
        registry.register("lazaret_effect_seconds", "How long effects take", duration.clone());
        registry.register("lazaret_task_panics", "Panics of tasks, each started again", task_panics.clone());
        registry.register(
            "lazaret_effect_panics",
            "Effects that panicked, their outcome unknown",
            effect_panics.clone(),
        );
        registry.register(
            "lazaret_invariant_violations",
            "Conditions that should always hold and did not, by module",
            invariants::counted(),
        );
        registry.register(
            "lazaret_watch_events_too_large",
            "Watch events passed over for their size",
            too_large.clone(),
        );
        registry.register(
            "lazaret_resource_unreadable",
            "Whether a resource is not served or may not be read, so that less is done",
            unreadable.clone(),
        );
        registry.register(
            "lazaret_unreadable_objects",
            "Objects whose newest version cannot be read, by resource: what they hold is kept",
            unreadable_objects.clone(),
        );
        Self {
            registry: Arc::new(Mutex::new(registry)),
            lists,
            effects,
            leading,
            duration,
            task_panics,
            effect_panics,
            too_large,
            unreadable,
            unreadable_objects,
            watches: Arc::default(),
            health: Health::default(),
        }
    }
}

fn seconds() -> Histogram {
    Histogram::new([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}

impl Metrics {
    /// Adds metrics of one's own.
    pub fn register<T>(&self, add: impl FnOnce(&mut Registry) -> T) -> T {
        add(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The text that Prometheus reads.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = self.register(|registry| prometheus_client::encoding::text::encode(&mut text, registry));
        text
    }

    /// Which tasks of the process work.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    pub(crate) fn task_panicked(&self, task: &str) {
        self.health.panicked(task);
        self.task_panics.get_or_create(&Task { task: task.to_owned() }).inc();
    }

    pub(crate) fn effect_panicked(&self, controller: &'static str) {
        self.effect_panics.get_or_create(&Run { controller }).inc();
    }

    /// A resource is watched from now on.
    pub(crate) fn watch_begins(&self, resource: &Resource) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        *watches.entry(Watched::new(resource)).or_default() += 1;
    }

    /// A watch has ended, and counts nothing any more.
    pub(crate) fn watch_ends(&self, resource: &Resource) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let label = Watched::new(resource);
        let Some(left) = watches.get_mut(&label) else { return };
        *left = left.saturating_sub(1);
        if *left == 0 {
            watches.remove(&label);
            self.lists.remove(&label);
            self.too_large.remove(&label);
            self.unreadable.remove(&label);
            self.unreadable_objects.remove(&label);
        }
    }

    pub(crate) fn event_too_large(&self, resource: &Resource) {
        self.too_large.get_or_create(&Watched::new(resource)).inc();
    }

    /// Says that a resource cannot be read, or can again.
    pub fn unreadable(&self, resource: &Resource, unreadable: bool) {
        self.unreadable.get_or_create(&Watched::new(resource)).set(i64::from(unreadable));
    }

    /// How many objects of a resource cannot be read.
    pub(crate) fn unreadable_objects(&self, resource: &Resource) -> Gauge {
        self.unreadable_objects.get_or_create(&Watched::new(resource)).clone()
    }

    pub(crate) fn listed(&self, resource: &Resource) {
        self.lists.get_or_create(&Watched::new(resource)).inc();
    }

    pub(crate) fn effect(&self, controller: &'static str, outcome: Outcome, seconds: f64) {
        self.effects.get_or_create(&Effected { controller, outcome: outcome.name() }).inc();
        self.duration.get_or_create(&Run { controller }).observe(seconds);
    }

    pub(crate) fn leading(&self, controller: &'static str, leading: bool) {
        self.leading.get_or_create(&Run { controller }).set(i64::from(leading));
    }
}
