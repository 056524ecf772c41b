//! The objects to look at again.

use alloc::{collections::BTreeSet, vec::Vec};

use lazaret_model::{PoolId, Text};

use crate::{ClaimIx, Fleet, PodIx};

/// Everything that differs from when changes were last taken; sorted, each thing once. May name a thing that was
/// touched and ended up as it was; never leaves out one that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The fleet's revision that this leads to.
    pub revision: u64,
    /// Claims that are new or gone, whose allocation, reservation or owner changed, or that hold a device whose
    /// effective taints changed.
    pub claims: Vec<ClaimIx>,
    /// Pods that are new, changed or gone, or that use other claims than before.
    pub pods: Vec<PodIx>,
    /// Rules that are new, changed or gone, or that mean other devices or other holders than before.
    pub rules: Vec<Text>,
    /// Pools in which anything changed, taints and usage included.
    pub pools: Vec<PoolId>,
    /// Nodes that are new, changed or gone.
    pub nodes: Vec<Text>,
    /// Classes that are new, changed or gone.
    pub classes: Vec<Text>,
    /// There are more claims or pods than these.
    pub partial: bool,
}

impl Changes {
    /// Whether there is nothing to look at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
            && self.pods.is_empty()
            && self.rules.is_empty()
            && self.pools.is_empty()
            && self.nodes.is_empty()
            && self.classes.is_empty()
            && !self.partial
    }
}

impl Fleet {
    /// The changes since the last call. From now on the numbers of claims and pods that it reports as gone may be given to new ones.
    pub fn take_changes(&mut self) -> Changes {
        self.take_some_changes(usize::MAX)
    }

    /// The same, with at most `most` claims and pods. The rest comes with the next calls.
    pub fn take_some_changes(&mut self, most: usize) -> Changes {
        let noted = &mut self.noted;
        // Each was noted once, by its flag.
        let mut claims = first(&mut noted.claims, most);
        claims.sort_unstable();
        let mut pods = first(&mut noted.pods, most - claims.len());
        pods.sort_unstable();
        let partial = !(noted.claims.is_empty() && noted.pods.is_empty());
        for claim in &claims {
            if let Some(entry) = self.claims.get_mut(claim.0) {
                entry.noted = false;
            }
        }
        for pod in &pods {
            if let Some(entry) = self.pods.get_mut(pod.0) {
                entry.noted = false;
            }
        }
        if !partial {
            self.claims.recycle();
            self.pods.recycle();
        }
        let mut pools = core::mem::take(&mut noted.gone_pools);
        if !noted.pools.is_empty() {
            pools.reserve(noted.pools.len());
            for pool in noted.pools.drain(..) {
                if let Some(entry) = self.pools.get_mut(pool) {
                    entry.noted = false;
                    pools.push(entry.id.clone());
                }
            }
        }
        pools.sort_unstable();
        pools.dedup();
        Changes {
            revision: self.revision,
            claims,
            pods,
            rules: listed(&mut noted.rules),
            pools,
            nodes: listed(&mut noted.nodes),
            classes: listed(&mut noted.classes),
            partial,
        }
    }

    #[inline]
    pub(crate) fn note_claim(&mut self, claim: u32) {
        self.noted.moved = true;
        if let Some(entry) = self.claims.get_mut(claim)
            && !entry.noted
        {
            entry.noted = true;
            self.noted.claims.push(ClaimIx(claim));
        }
    }

    #[inline]
    pub(crate) fn note_pod(&mut self, pod: u32) {
        self.noted.moved = true;
        if let Some(entry) = self.pods.get_mut(pod)
            && !entry.noted
        {
            entry.noted = true;
            self.noted.pods.push(PodIx(pod));
        }
    }

    pub(crate) fn note_pool(&mut self, pool: u32) {
        self.noted.moved = true;
        if let Some(entry) = self.pools.get_mut(pool) {
            entry.revision = self.revision + 1;
            if !entry.noted {
                entry.noted = true;
                self.noted.pools.push(pool);
            }
            if !entry.stale {
                entry.stale = true;
                self.stale_pools.push(pool);
            }
        }
    }

    pub(crate) fn note_rule(&mut self, name: &Text) {
        self.noted.moved = true;
        if !self.noted.rules.contains(name) {
            self.noted.rules.insert(name.clone());
        }
    }
}

/// Takes out as many, the latest noted first: nothing has to move for that.
#[inline]
fn first<T>(noted: &mut Vec<T>, most: usize) -> Vec<T> {
    if noted.len() <= most { core::mem::take(noted) } else { noted.split_off(noted.len() - most) }
}

/// Takes the names out. Mostly there are none, and then the set stays where it is.
#[inline]
fn listed(names: &mut BTreeSet<Text>) -> Vec<Text> {
    if names.is_empty() { Vec::new() } else { core::mem::take(names).into_iter().collect() }
}
