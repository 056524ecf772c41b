//! Facts about the pods of this node beyond the machine's state: the objects, their devices, and their sandboxes.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use lazaret_containers::{ContainerState, Key, SandboxState};
use lazaret_node::{ResourceStatus, SeenPod};

/// One pod.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// As the API had it last; none for a pod of which only the runtime knows.
    pub(super) pod: Option<Arc<Pod>>,
    /// The pod as the claims' machine sees it.
    pub(super) seen: Option<SeenPod>,
    /// The API does not have it any more.
    pub(super) is_gone: bool,
    /// Its containers have stopped: its claims may be unprepared.
    pub(super) is_released: bool,
    /// CDI names of its containers.
    pub(super) devices: BTreeMap<String, Vec<String>>,
    /// How the devices of its containers are.
    pub(super) health: BTreeMap<String, Vec<ResourceStatus>>,
    /// Its sandbox.
    pub(super) sandbox: Option<SandboxState>,
    /// Termination messages of containers, by name and attempt.
    words: BTreeMap<(String, u32), Option<String>>,
}

/// All of them, by UID.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) entries: BTreeMap<String, Entry>,
}

impl Table {
    pub(super) fn pod(&self, uid: &str) -> Option<Arc<Pod>> {
        self.entries.get(uid)?.pod.clone()
    }

    pub(super) fn entry(&mut self, uid: &str) -> &mut Entry {
        self.entries.entry(uid.to_owned()).or_default()
    }

    /// The termination message of a container; the inner `None` is an empty one, the outer one that it was not read yet.
    #[allow(clippy::option_option, reason = "silence is an answer")]
    pub(super) fn words(&self, key: &Key) -> Option<Option<String>> {
        self.entries.get(&key.pod_uid)?.words.get(&(key.name.clone(), key.attempt)).cloned()
    }

    pub(super) fn keep_words(&mut self, key: &Key, words: Option<String>) {
        if let Some(entry) = self.entries.get_mut(&key.pod_uid) {
            entry.words.insert((key.name.clone(), key.attempt), words);
        }
    }

    /// Takes in the runtime's current sandboxes.
    pub(super) fn note(&mut self, states: Vec<SandboxState>) {
        for state in states {
            let Some(entry) = self.entries.get_mut(&state.spec.pod_uid) else { continue };
            let has = |name: &str, attempt: u32| {
                state
                    .containers
                    .iter()
                    .any(|container| container.key.name == name && container.key.attempt == attempt)
            };
            entry.words.retain(|(name, attempt), _| has(name, *attempt));
            entry.sandbox = Some(state);
        }
    }

    /// A container was started: a request about it need not wait for the next list.
    pub(super) fn started(&mut self, uid: &str, container: ContainerState) {
        let sandbox = self.entries.get_mut(uid).and_then(|entry| entry.sandbox.as_mut());
        if let Some(sandbox) = sandbox {
            sandbox.containers.retain(|known| known.id != container.id);
            sandbox.containers.push(container);
        }
    }

    /// The log of a container, by the runtime's id.
    pub(super) fn log(&self, uid: &str, id: &str) -> Option<PathBuf> {
        let sandbox = self.entries.get(uid)?.sandbox.as_ref()?;
        let container = sandbox.containers.iter().find(|container| container.id == id)?;
        Some(container.log.clone())
    }
}
