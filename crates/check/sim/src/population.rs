//! The initial state of worlds: nodes, devices, pods, claims, and clients that have listed it all. To make it costs as much as to run a small world,
//! so neighbouring seeds share one, each with its own faults and events.

use std::rc::Rc;

use lazaret_fleet::Changes;

use crate::{actors::client::Client, scenario::Config, world::World};

/// A world in which nothing has happened yet.
#[derive(Debug)]
pub(crate) struct Population {
    birth: [u64; 8],
    pub(crate) world: World,
    /// A client that has listed everything, and the changes that it would get first.
    pub(crate) client: Client,
    pub(crate) changes: Changes,
}

/// Runs worlds one after the other, and keeps what the next may share with the last.
#[derive(Debug, Default)]
pub struct Runner {
    last: Option<Rc<Population>>,
}

impl Runner {
    /// The initial state of a world of this configuration.
    pub(crate) fn population(&mut self, config: &Config) -> Rc<Population> {
        if self.last.as_ref().is_none_or(|last| last.birth != birth(config)) {
            self.last = None;
        }
        Rc::clone(self.last.get_or_insert_with(|| Rc::new(Population::new(config))))
    }
}

impl Population {
    fn new(config: &Config) -> Self {
        let mut world = World::empty(config);
        world.populate();
        let (client, changes) = world.newcomer();
        Self { birth: birth(config), world, client, changes }
    }
}

/// Everything in a configuration that a population follows from.
fn birth(config: &Config) -> [u64; 8] {
    let Config { population, pods, nodes, slices, devices, taint_slices, wide, binding, .. } = config;
    let [pods, nodes, slices, devices, taint_slices, wide, binding] =
        [pods, nodes, slices, devices, taint_slices, wide, binding].map(|number| u64::from(*number));
    [*population, pods, nodes, slices, devices, taint_slices, wide, binding]
}
