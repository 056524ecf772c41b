//! The object that was made for the repair or validation of an incident: only what it says counts.

use alloc::boxed::Box;

use crate::{Lifecycle, incident::TaskObject, machine::open_mut, stages::waits_for};

impl Lifecycle {
    /// This object was made for the task that was begun last.
    pub(crate) fn made(&mut self, number: u64, object: TaskObject) {
        let Some(incident) = open_mut(&mut self.incidents, number) else { return };
        let is_known = incident.task.as_deref() == Some(&object);
        if is_known || incident.task_name() != object.name {
            return;
        }
        incident.task = Some(Box::new(object));
        if let Some(policy) = self.policies.get(&incident.policy) {
            incident.waits_for = self.texts.share(waits_for(policy, incident));
        }
        self.record(number);
    }
}
