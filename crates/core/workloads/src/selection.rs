//! Which controllers run.

use crate::{ALL, prelude::*};

/// Names of controllers in Kubernetes' controller manager, each with the rules that do its work here.
const NAMES: &[(&str, &[&str])] = &[
    ("cronjob-controller", &["cronjob"]),
    ("daemonset-controller", &["daemonset"]),
    ("deployment-controller", &["deployment"]),
    ("disruption-controller", &["disruption", "stale-disruption"]),
    ("endpoints-controller", &["endpoint"]),
    ("endpointslice-controller", &["endpointslice"]),
    ("endpointslice-mirroring-controller", &["endpointslicemirroring"]),
    ("garbage-collector-controller", &["garbage-collector"]),
    ("job-controller", &["job"]),
    ("namespace-controller", &["namespace"]),
    ("node-lifecycle-controller", &["node-lifecycle"]),
    ("pod-garbage-collector-controller", &["podgc"]),
    ("replicaset-controller", &["replicaset"]),
    ("replicationcontroller-controller", &["replicationcontroller"]),
    ("serviceaccount-controller", &["serviceaccount"]),
    ("statefulset-controller", &["statefulset"]),
    ("taint-eviction-controller", &["taint-eviction"]),
];

/// A choice of controllers, one bit for each of [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection(u32);

impl Default for Selection {
    fn default() -> Self {
        Self::ALL
    }
}

impl Selection {
    /// Every controller.
    pub const ALL: Self = Self(u32::MAX);

    /// Reads a list as `--controllers` of Kubernetes' controller manager has it: `*` is every controller, a name adds one, and a name with a
    /// minus leaves one out. An entry for a name takes precedence over `*`, and the first entry over later ones.
    ///
    /// # Errors
    /// A name that is not known.
    pub fn parse(list: &str) -> Result<Self, String> {
        let (mut added, mut left_out, mut everything) = (0, 0, 0);
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            if entry == "*" {
                everything = u32::MAX;
                continue;
            }
            let name = entry.strip_prefix('-').unwrap_or(entry);
            let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
            let Some(at) = known.iter().position(|known| *known == name) else {
                return Err(format!(
                    "{name:?} is not in the list of known controllers: {}",
                    known.join(", ")
                ));
            };
            let bit = 1 << at;
            if (added | left_out) & bit == 0 {
                *(if name == entry { &mut added } else { &mut left_out }) |= bit;
            }
        }
        Ok(Self((everything & !left_out) | added))
    }

    /// The rules of the controllers that were chosen, in the order of [`ALL`].
    #[must_use]
    pub fn rules(self) -> Vec<Rules> {
        let chosen = |rules: &&Rules| {
            let at = NAMES.iter().position(|(_, own)| own.contains(&rules.name));
            at.is_none_or(|at| self.0 & (1 << at) != 0)
        };
        ALL.iter().filter(chosen).copied().collect()
    }
}
