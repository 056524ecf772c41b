//! All controllers over one world.

use lazaret_machine::{EffectId, Machine, Turn, Wake};

use crate::{
    controller::{CONTROLLERS_MAX, Controller},
    effect::{Answer, Effect},
    limits::Limits,
    prelude::*,
    rules,
};

/// Every controller that there is, in the order in which they are polled.
pub const ALL: &[Rules] = &[
    rules::DEPLOYMENTS,
    rules::REPLICA_SETS,
    rules::REPLICATION_CONTROLLERS,
    rules::STATEFUL_SETS,
    rules::DAEMON_SETS,
    rules::JOBS,
    rules::CRON_JOBS,
    rules::BUDGETS,
    rules::NAMESPACES,
    rules::NODES,
    rules::NODE_TAINTS,
    rules::POD_GC,
    rules::STALE_DISRUPTIONS,
    rules::SERVICE_ACCOUNTS,
    rules::ENDPOINT_SLICES,
    rules::ENDPOINTS,
    rules::MIRRORED_SLICES,
    rules::GARBAGE,
];

/// The controllers over one world: news goes in, effects come out, answers go in.
#[derive(Debug)]
pub struct Workloads {
    world: World,
    controllers: Vec<Controller>,
    leads: bool,
    /// Decided and not taken yet: bounded by what the controllers let be in flight.
    ready: VecDeque<Effect>,
}

impl Machine for Workloads {
    type View = ();
    type Input<'a> = Turn;
    type Kind = Write;
    type Why = &'static str;

    fn handle(&mut self, now: Timestamp, (): &(), turn: Turn) {
        match turn {
            Turn::Tick if self.leads => {
                let effects = self.poll(now);
                self.ready.extend(effects);
            }
            Turn::Tick => {}
            Turn::BecameLeader => self.leads = true,
            // Another process decides meanwhile: what was decided in this term is decided anew in the next.
            Turn::LostLeadership => {
                self.leads = false;
                self.ready.clear();
                self.abandon(now);
            }
            Turn::Acknowledged(id, reply) => self.acknowledge(now, id, reply.into()),
        }
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.ready.pop_front()
    }

    fn next_wake(&self) -> Option<Wake> {
        Self::next_wake(self).map(|at| Wake::new(at, "a workload is to be looked at"))
    }
}

impl Default for Workloads {
    fn default() -> Self {
        Self::new(ALL)
    }
}

impl Workloads {
    /// These controllers, over a world of which nothing is known yet.
    #[must_use]
    pub fn new(rules: &[Rules]) -> Self {
        Self::with_limits(rules, Limits::default())
    }

    /// The same within limits.
    #[must_use]
    pub fn with_limits(rules: &[Rules], limits: Limits) -> Self {
        let controllers = rules
            .iter()
            .zip(0..CONTROLLERS_MAX)
            .map(|(rules, index)| Controller::new(*rules, index, limits))
            .collect();
        Self { world: World::new(), controllers, leads: false, ready: VecDeque::new() }
    }

    /// The cache that all controllers decide from.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The controllers, with how much each has to do: its name, keys that wait, writes in flight.
    pub fn load(&self) -> impl Iterator<Item = (&'static str, usize, usize)> {
        self.controllers.iter().map(|controller| {
            let (waiting, in_flight) = controller.load();
            (controller.name(), waiting, in_flight)
        })
    }

    /// Tells of a kind that is none of [`resource::KNOWN`], before its first list.
    pub fn learn(&mut self, resource: &'static Resource) {
        self.world.learn(resource);
    }

    /// A kind that was added with [`Workloads::learn`] is no longer served in this version; its objects are gone with it, or are served under
    /// another version.
    pub fn forget(&mut self, now: Timestamp, resource: &'static Resource, objects_gone: bool) {
        let changes = self.world.forget(resource, objects_gone);
        self.changed(now, changes);
    }

    /// An object is there or has changed.
    pub fn put(&mut self, now: Timestamp, object: Object) {
        let change = self.world.put(object);
        self.changed(now, change);
    }

    /// An object has gone.
    pub fn remove(&mut self, now: Timestamp, resource: &'static Resource, key: &Key, uid: &str) {
        let change = self.world.remove(resource, key, uid);
        self.changed(now, change);
    }

    /// A kind was listed, at a revision of the store. No controller decides before the kinds that it needs were listed.
    pub fn list(&mut self, now: Timestamp, resource: &'static Resource, objects: Vec<Object>, revision: u64) {
        self.list_keeping(now, resource, objects, &[], revision);
    }

    /// The same. Those in `kept` are there and cannot be read: what was known of them stays.
    pub fn list_keeping(
        &mut self,
        now: Timestamp,
        resource: &'static Resource,
        objects: Vec<Object>,
        kept: &[Key],
        revision: u64,
    ) {
        let changes = self.world.list(resource, objects, kept, revision);
        self.changed(now, changes);
    }

    /// The effects that are due now. Call it after each input or answer, and at [`Workloads::next_wake`].
    pub fn poll(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        for controller in &mut self.controllers {
            effects.append(&mut controller.poll(now, &self.world));
        }
        effects
    }

    /// When to poll next, unless something is heard before.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.controllers.iter().filter_map(Controller::next_wake).min()
    }

    /// The controller that wants an effect, by its name.
    #[must_use]
    pub fn controller_of(&self, id: EffectId) -> Option<&'static str> {
        let index = usize::try_from(id.0 % CONTROLLERS_MAX).unwrap_or(usize::MAX);
        self.controllers.get(index).map(Controller::name)
    }

    /// An effect has come to an end.
    pub fn acknowledge(&mut self, now: Timestamp, id: EffectId, answer: Answer) {
        let index = usize::try_from(id.0 % CONTROLLERS_MAX).unwrap_or(usize::MAX);
        // No controller has given such an id.
        let Some(controller) = self.controllers.get_mut(index) else { return };
        let changes = controller.acknowledge(now, &mut self.world, id, answer);
        self.changed(now, changes);
    }

    /// No answer to what is in flight counts any more.
    fn abandon(&mut self, now: Timestamp) {
        self.controllers.iter_mut().for_each(|controller| controller.abandon(now));
    }

    fn changed(&mut self, now: Timestamp, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            for controller in &mut self.controllers {
                controller.changed(now, &self.world, &change);
            }
        }
    }
}
