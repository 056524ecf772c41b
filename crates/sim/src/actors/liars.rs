//! Tenants who write into the annotations and labels of their pods what is not so. Our server permits a wish about evictions and a group, and refuses marks of
//! replacements. Where another API server lets such a mark through, no controller believes it: it has no proof by the key of the installation.

use lazaret_model::{EvictionPreference, Pod, Text};
use lazaret_replacement::{Mark as PodMark, Plan, Record};
use std::sync::Arc;

use crate::{coverage::Mark, palette, world::World};

/// Groups that tenants invent, in a namespace.
const GROUPS: u32 = 3;
/// The longest wish, in seconds.
const WISH_SECS_MAX: u32 = 40;

impl World {
    /// The tenant of a pod writes a lie into it.
    pub(crate) fn lie(&mut self, number: u32, what: u32, how: u32) {
        let count = self.api.pods.len();
        let found = self.api.pods.iter().nth(number as usize % count.max(1));
        let Some(pod) = found.map(|stored| Arc::clone(stored.object)) else { return };
        match what % 4 {
            0 if self.config.protected != 0 => {
                let wish = wish(how);
                self.api.edit_pod(&pod.key, &pod.uid, |pod| pod.eviction_preference = Some(wish));
            }
            1 if self.config.protected != 0 => {
                let group = palette::text(format_args!("lie-{}", how % GROUPS));
                self.api.edit_pod(&pod.key, &pod.uid, |pod| pod.eviction_group = Some(group));
            }
            // Our server changes no mark for a tenant.
            2 | 3 if self.config.once == 0 && self.config.replaced != 0 => {
                let Some(mark) = self.forged_mark(&pod, how) else { return };
                self.api.edit_metadata(&pod.key, &pod.uid, |known| known.forged = Some(mark), |_| {});
                self.coverage.hit(Mark::ForgedMark);
            }
            _ => return,
        }
        self.coverage.hit(Mark::Lied);
    }

    /// The mark of somebody else's replacement, as it is or about another pod, as that of the copy or of the one that was released.
    fn forged_mark(&self, liar: &Pod, how: u32) -> Option<PodMark> {
        let records = &self.replacements.records;
        let mut record = records.values().nth(how as usize % records.len().max(1))?.clone();
        if how.is_multiple_of(2) {
            let victims = self.api.pods.iter().map(|stored| stored.object);
            let mut victims =
                victims.filter(|pod| pod.key.namespace == liar.key.namespace && pod.uid != liar.uid);
            let victim = victims.next()?;
            let node = victim.node.clone().unwrap_or_else(Text::default);
            let plan = Plan::Copy { name: liar.key.name.clone() };
            record = Record { pod: victim.key.clone(), uid: victim.uid.clone(), node, plan, ..record };
        }
        Some(if (how / 2).is_multiple_of(3) { PodMark::Released(record) } else { PodMark::Copy(record) })
    }
}

fn wish(how: u32) -> EvictionPreference {
    match how % 3 {
        0 => EvictionPreference::Immediate,
        1 => EvictionPreference::AllowCompletion,
        _ => EvictionPreference::Seconds(how / 3 % WISH_SECS_MAX),
    }
}
