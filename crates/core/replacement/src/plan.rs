//! How a pod is to be replaced.

use alloc::{format, string::String};

use lazaret_model::Text;

use crate::{
    objects::Pod,
    policy::{Spec, Strategy},
    record::{Mark, Plan},
    selector::{TEMPLATE_HASH, key_to_remove},
    tables::Tables,
};

/// The longest name that a pod may have.
const NAME_MAX: usize = 253;

/// The new pod first wherever there can be two: under a replica set that will let go of it, or a copy of a bare pod. A
/// pod that uses a claim by name cannot have a second one that is better off: it would get the same devices.
pub(crate) fn plan_for(tables: &Tables, spec: &Spec, pod: &Pod) -> Plan {
    let two = spec.strategy == Strategy::ReplaceFirst && !pod.pinned;
    let Some(owner) = pod.owner.clone() else {
        let name = copy_name(pod);
        return if two { Plan::Copy { name } } else { Plan::Rebuild { name } };
    };
    if two && owner.kind == "ReplicaSet" && owner.group == "apps" {
        let label = match tables.replica_sets.get(&owner.uid) {
            Some(set) => key_to_remove(&set.selector).cloned(),
            None => Some(Text::from(TEMPLATE_HASH)),
        };
        if let Some(label) = label.filter(|label| pod.labels.contains_key(label)) {
            return Plan::Release { owner, label };
        }
    }
    Plan::Evict { owner }
}

/// A name that follows from the pod: making the copy twice makes it once.
fn copy_name(pod: &Pod) -> Text {
    let suffix = format!("-r{:08x}", hash(&pod.uid));
    let name: &str = &pod.key.name;
    // The copy of a copy is called like a copy, not like a copy's copy.
    let stem = match &pod.mark {
        Some(Mark::Copy(_)) => name.get(..name.len().saturating_sub(suffix.len())).unwrap_or(name),
        Some(Mark::Released(_)) | None => name,
    };
    let stem: String = stem.chars().take(NAME_MAX - suffix.len()).collect();
    format!("{}{suffix}", stem.trim_end_matches(['-', '.'])).into()
}

/// FNV-1a.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
