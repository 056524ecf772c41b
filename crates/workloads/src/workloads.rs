//! All controllers over one world.

use lazaret_machine::{EffectId, Machine, Turn, Wake};

use crate::{
    controller::{CONTROLLERS_MAX, Controller},
    effect::{Effect, Outcome},
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
            Turn::LostLeadership => {
                self.leads = false;
                for effect in core::mem::take(&mut self.ready) {
                    self.acknowledge(now, effect.id, Outcome::RetryLater(None));
                }
            }
            Turn::Acknowledged(id, reply) => self.acknowledge(now, id, Outcome::of(reply, None)),
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

    /// What is known.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The controllers, with how much each has to do: its name, keys that wait, writes under way.
    pub fn load(&self) -> impl Iterator<Item = (&'static str, usize, usize)> {
        self.controllers.iter().map(|controller| {
            let (waiting, under_way) = controller.load();
            (controller.name(), waiting, under_way)
        })
    }

    /// Tells of a kind that is none of [`resource::KNOWN`], before its first list.
    pub fn learn(&mut self, resource: &'static Resource) {
        self.world.learn(resource);
    }

    /// A kind that was told of with [`Workloads::learn`] is not served any more as it was; its objects have gone with it, or are told of under
    /// another version.
    pub fn forget(&mut self, now: Timestamp, resource: &'static Resource, objects_gone: bool) {
        let heard = self.world.forget(resource, objects_gone);
        self.hear(now, heard);
    }

    /// An object is there or has changed.
    pub fn put(&mut self, now: Timestamp, object: Object) {
        let heard = self.world.put(object);
        self.hear(now, heard);
    }

    /// An object has gone.
    pub fn remove(&mut self, now: Timestamp, resource: &'static Resource, key: &Key, uid: &str) {
        let heard = self.world.remove(resource, key, uid);
        self.hear(now, heard);
    }

    /// A kind was listed, at a revision of the store. No controller decides before the kinds that it needs were listed.
    pub fn list(&mut self, now: Timestamp, resource: &'static Resource, objects: Vec<Object>, revision: u64) {
        let heard = self.world.list(resource, objects, revision);
        self.hear(now, heard);
    }

    /// What to do now. Call it when something was heard or answered, and at [`Workloads::next_wake`].
    pub fn poll(&mut self, now: Timestamp) -> Vec<Effect> {
        self.controllers.iter_mut().flat_map(|controller| controller.poll(now, &self.world)).collect()
    }

    /// When to poll next, unless something is heard before.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.controllers.iter().filter_map(Controller::next_wake).min()
    }

    /// An effect has come to an end.
    pub fn acknowledge(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        let index = usize::try_from(id.0 % CONTROLLERS_MAX).unwrap_or(usize::MAX);
        let Some(controller) = self.controllers.get_mut(index) else { return };
        let heard = controller.acknowledge(now, &mut self.world, id, outcome);
        self.hear(now, heard);
    }

    /// No answer will come to what is under way: call it when the lead was lost and won again.
    pub fn abandon(&mut self, now: Timestamp) {
        self.controllers.iter_mut().for_each(|controller| controller.abandon(now));
    }

    fn hear(&mut self, now: Timestamp, heard: impl IntoIterator<Item = Heard>) {
        for heard in heard {
            for controller in &mut self.controllers {
                controller.hear(now, &self.world, &heard);
            }
        }
    }
}
