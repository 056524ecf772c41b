//! Since when a rule is in force for a controller, by the events that it got: found out here, and not asked of its machine.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_model::{DeviceTaintRule, Text, Timestamp, Uid};

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

impl InForce {
    /// The watch of rules has come this far: a rule that was suspended and is not any more is in force since now, unless its status says another
    /// instant.
    pub(crate) fn note<'a>(
        &mut self,
        now: Timestamp,
        position: usize,
        rules: impl Iterator<Item = &'a Arc<DeviceTaintRule>>,
    ) {
        if self.position == Some(position) {
            return;
        }
        let found = rules.map(|rule| {
            let said = rule.effective_since;
            let is_suspended = rule.is_held() || rule.is_said_to_be_expired();
            let since = match self.rules.get(&rule.uid) {
                Some(before) if before.said == said && before.is_suspended && !is_suspended => Some(now),
                Some(before) if before.said == said => before.since,
                Some(_) | None => said,
            };
            (rule.uid.clone(), Known { said, is_suspended, since })
        });
        *self = Self { rules: found.collect(), position: Some(position) };
    }

    /// Since when the rule of this name is in force, as far as a controller that sees these rules can know.
    pub(crate) fn since<'a>(
        &self,
        mut rules: impl Iterator<Item = &'a Arc<DeviceTaintRule>>,
        name: &Text,
    ) -> Option<Timestamp> {
        let rule = rules.find(|rule| rule.name == *name)?;
        self.rules.get(&rule.uid)?.since
    }
}
