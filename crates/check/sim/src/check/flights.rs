//! Writes that do harm when they land after the next agent has begun to decide: it waits for that until the longest flight of the last one's is over.

use core::fmt::Debug;

use crate::{actors::part::Part, world::World};

/// A bounded write lands whose sender led in a term that is over. The next agent, which did not see it, decides nothing yet.
pub(crate) fn check_waited_out<P: Part>(
    world: &mut World,
    sender: (usize, u64, Option<u64>),
    write: &impl Debug,
) {
    let next = (0..world.controllers.len()).find(|number| {
        let lasting = world.believed(*number);
        let term = (*number, world.controllers[*number].process, lasting);
        lasting.is_some() && term != sender && P::crew(world).agents[*number].leads_in(lasting)
    });
    if let Some(next) = next {
        let detail = format!("controller {next} decides when this of {} lands: {write:?}", sender.0);
        world.violate("a leader begins when the writes of the last one have landed", detail);
    }
}
