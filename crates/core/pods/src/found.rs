//! Compares the sandboxes of the runtime with the known state.

use crate::{
    Exit, FoundContainer, FoundPhase, FoundSandbox, Kind, Millis,
    container::{Hook, Instance, InstancePhase, Work},
    machine::Out,
    pod::{Pod, Sandbox},
};

impl Pod {
    /// Takes in a list's entry of this pod, `None` when it has none. Objects made after the list was requested may be missing from it.
    pub(crate) fn found(&mut self, now: Millis, list: u64, found: Option<&FoundSandbox>, out: &mut Out) {
        for container in &mut self.containers {
            if matches!(container.work, Work::Unsure { since } if since < list) {
                container.work = Work::Idle;
            }
        }
        if matches!(self.sandbox, Sandbox::Unsure { since } if since < list) {
            self.sandbox = Sandbox::None;
        }
        match (&self.sandbox, found) {
            (Sandbox::None, Some(found)) => {
                let (id, ips) = (found.id.clone(), found.ips.clone());
                self.is_admitted = true;
                if found.is_ready {
                    self.sandbox = Sandbox::Ready { id, ips, known_since: list };
                    self.look_at_containers(now, list, found);
                } else {
                    self.look_at_containers(now, list, found);
                    self.lose_sandbox(now, id, out);
                }
            }
            (Sandbox::Ready { id, known_since, .. }, Some(found)) if *id == found.id => {
                let is_newer = *known_since < list;
                let id = id.clone();
                self.look_at_containers(now, list, found);
                if !found.is_ready && is_newer {
                    self.lose_sandbox(now, id, out);
                }
            }
            (Sandbox::Ready { known_since, .. }, None) if *known_since < list => {
                for index in 0..self.containers.len() {
                    self.lose(now, list, index);
                }
                self.reset_init(out);
                self.sandbox = Sandbox::None;
            }
            (Sandbox::Dead { id }, Some(found)) if *id == found.id => {
                self.look_at_containers(now, list, found);
            }
            (Sandbox::Dead { .. }, None) => self.sandbox = Sandbox::None,
            // It is being made or removed: the outcome of that action follows.
            (
                Sandbox::None
                | Sandbox::Making
                | Sandbox::Unsure { .. }
                | Sandbox::Ready { .. }
                | Sandbox::Dead { .. }
                | Sandbox::Stopping { .. }
                | Sandbox::Removing { .. },
                _,
            ) => {}
        }
    }

    /// Nothing can run in the sandbox any more: what ran has ended, and everything begins anew in another one.
    fn lose_sandbox(&mut self, now: Millis, id: alloc::string::String, out: &mut Out) {
        for container in &mut self.containers {
            if let Some(instance) = &mut container.instance
                && let InstancePhase::Running { started_at } = instance.phase
            {
                instance.phase = InstancePhase::Exited(Exit::unknown(now, Some(started_at)));
            }
        }
        self.reset_init(out);
        self.sandbox = Sandbox::Dead { id };
    }

    fn reset_init(&mut self, out: &mut Out) {
        self.initialized = 0;
        if self.ending.is_some() {
            return;
        }
        for index in 0..self.init_count() {
            let is_done = self.containers[index].exit().is_some();
            if self.view.containers[index].kind == Kind::Init && is_done {
                self.retire(index, out);
                self.containers[index].restarts += 1;
            }
        }
    }

    fn look_at_containers(&mut self, now: Millis, list: u64, found: &FoundSandbox) {
        for index in 0..self.containers.len() {
            let name = &self.view.containers[index].name;
            let newest =
                found.containers.iter().filter(|found| found.name == *name).max_by_key(|found| found.attempt);
            match newest {
                Some(newest) => {
                    self.adopt(now, list, index, newest);
                    self.adopt_last(index, newest.attempt, found);
                }
                None => self.lose(now, list, index),
            }
        }
        if matches!(self.sandbox, Sandbox::Ready { .. }) {
            self.note_initialized(found);
        }
    }

    /// A container as the runtime has it.
    fn adopt(&mut self, now: Millis, list: u64, index: usize, found: &FoundContainer) {
        let (view, container) = (&self.view.containers[index], &mut self.containers[index]);
        if let Some(instance) = &mut container.instance {
            if instance.id == found.id {
                if let (FoundPhase::Exited(exit), true) = (&found.phase, instance.is_running()) {
                    instance.phase = InstancePhase::Exited(exit.clone());
                }
            } else if let InstancePhase::Running { started_at } = instance.phase
                && instance.known_since < list
            {
                instance.phase = InstancePhase::Exited(Exit::unknown(now, Some(started_at)));
            }
            return;
        }
        if matches!(container.work, Work::Starting | Work::Unsure { .. })
            || container.last.as_ref().is_some_and(|(id, _)| *id == found.id)
        {
            return;
        }
        let started_at = match &found.phase {
            FoundPhase::Created => {
                container.restarts = found.attempt;
                return;
            }
            FoundPhase::Running { started_at } => *started_at,
            FoundPhase::Exited(exit) => exit.started_at.unwrap_or(exit.finished_at),
        };
        let mut instance =
            Instance::running(found.id.clone(), found.image_id.clone(), list, started_at, view);
        // The process that started it has run its hook, or has ended meanwhile.
        instance.hook = Hook::Over;
        instance.probes.take_over(now, container.before);
        instance.resources = container.before.resources.unwrap_or(instance.resources);
        if let FoundPhase::Exited(exit) = &found.phase {
            instance.phase = InstancePhase::Exited(exit.clone());
        }
        container.restarts = found.attempt;
        (container.instance, container.waiting, container.work) = (Some(instance), None, Work::Idle);
    }

    /// The one before, for its log.
    fn adopt_last(&mut self, index: usize, newest: u32, found: &FoundSandbox) {
        let (name, container) = (&self.view.containers[index].name, &mut self.containers[index]);
        if container.last.is_some() || container.instance.is_none() {
            return;
        }
        let older = found.containers.iter().filter(|found| found.name == *name && found.attempt < newest);
        // It is the first.
        let Some(last) = older.max_by_key(|found| found.attempt) else { return };
        if let FoundPhase::Exited(exit) = &last.phase {
            container.last = Some((last.id.clone(), exit.clone()));
        }
    }

    /// The runtime does not have it any more.
    fn lose(&mut self, now: Millis, list: u64, index: usize) {
        // It was not started yet.
        let Some(instance) = &mut self.containers[index].instance else { return };
        if let (InstancePhase::Running { started_at }, true) = (&instance.phase, instance.known_since < list)
        {
            instance.phase = InstancePhase::Exited(Exit::unknown(now, Some(*started_at)));
        }
    }

    /// Init containers before one that is there were done.
    fn note_initialized(&mut self, found: &FoundSandbox) {
        let is_found = |name: &str| found.containers.iter().any(|container| container.name == name);
        let last =
            self.view.containers[..self.mains_end()].iter().rposition(|container| is_found(&container.name));
        let inits = self.init_count();
        if let Some(last) = last {
            self.initialized = self.initialized.max(last.min(inits));
        }
    }
}
