//! When images were used, which the runtime does not say.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use lazaret_images::{Candidate, Thresholds, order_unused};

use crate::proto;

/// When each image was used or first seen, by its id. The runtime does not say.
#[derive(Debug, Default)]
pub(crate) struct Uses(Mutex<BTreeMap<String, SystemTime>>);

impl Uses {
    /// An image was asked for.
    pub(crate) fn touch(&self, id: &str, now: SystemTime) {
        self.lock().insert(id.to_owned(), now);
    }

    /// Those of these images that may go, the one that was unused for longest first. Images that are gone are dropped from the table.
    pub(crate) fn unused(
        &self,
        images: &[proto::Image],
        in_use: &BTreeSet<String>,
        now: SystemTime,
        thresholds: Thresholds,
    ) -> Vec<Candidate> {
        let mut uses = self.lock();
        let before = std::mem::take(&mut *uses);
        let mut candidates = Vec::new();
        for image in images {
            let is_used = is_named(image, in_use);
            let known = before.get(&image.id).copied().filter(|_| !is_used).unwrap_or(now);
            uses.insert(image.id.clone(), known);
            if !is_used && !image.pinned {
                candidates.push(Candidate { id: image.id.clone(), last_used: Some(known) });
            }
        }
        order_unused(candidates, now, thresholds.unused_for)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, SystemTime>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Containers name their image by its id, a digest or a tag.
fn is_named(image: &proto::Image, names: &BTreeSet<String>) -> bool {
    let mut own = image.repo_tags.iter().chain(&image.repo_digests).chain([&image.id]);
    own.any(|name| names.contains(name))
}
