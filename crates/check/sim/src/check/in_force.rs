//! Since when a rule is in force for a controller, by the events that it got: found out here, and not asked of its machine.

use std::collections::BTreeMap;

use lazaret_model::{Text, Timestamp, Uid};

use crate::{api::Kind, world::World};

/// Since when the rules of a controller's view are in force, where something held them or they had expired.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    rules: BTreeMap<Uid, Known>,
    /// How far the watch of rules was.
    position: Option<usize>,
}

/// The last news of a rule that a controller got.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The instant that its status says.
    said: Option<Timestamp>,
    /// Its status says that it is held, or that it has expired; or it needs a decision.
    is_suspended: bool,
    since: Option<Timestamp>,
}

impl World {
    /// A controller gets news of rules: one that was suspended and is not any more is in force since then, unless its status says another instant.
    pub(crate) fn note_in_force(&mut self, number: usize) {
        let position = self.clients[number].view.position(Kind::Rule);
        let controller = &self.controllers[number];
        if controller.in_force.position == Some(position) {
            return;
        }
        let now = controller.clock(self.now);
        let found = self.seen(number).rules().map(|rule| {
            let said = rule.effective_since;
            let is_suspended = rule.is_held() || rule.is_said_to_be_expired();
            let since = match controller.in_force.rules.get(&rule.uid) {
                Some(before) if before.said == said && before.is_suspended && !is_suspended => Some(now),
                Some(before) if before.said == said => before.since,
                Some(_) | None => said,
            };
            (rule.uid.clone(), Known { said, is_suspended, since })
        });
        let rules = found.collect();
        self.controllers[number].in_force = InForce { rules, position: Some(position) };
    }

    /// Since when a rule of this name is in force, as far as a controller can know.
    pub(crate) fn in_force_since(&self, number: usize, name: &Text) -> Option<Timestamp> {
        let rule = self.seen(number).rules().find(|rule| rule.name == *name)?;
        self.controllers[number].in_force.rules.get(&rule.uid)?.since
    }
}
