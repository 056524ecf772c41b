//! People who make a pod with a claim of their own, and delete the pod before it runs. The claim stays as it is: an allocation of it that is still on its
//! way to the server is as valid as when it was decided.

use lazaret_model::{ClaimSource, ObjectKey, Pod, PodClaim};

use crate::{
    actors::workloads::SHARED,
    api::{PodMetadata, PodNotes},
    palette,
    world::World,
};

/// As many people do so.
const PEOPLE: u32 = 8;
/// The number of tolerations that their claims have: none.
const TOLERATIONS: u32 = 0;

fn key(number: u32) -> ObjectKey {
    let namespace = palette::word(palette::NAMESPACES[number as usize % palette::NAMESPACES.len()]);
    ObjectKey { namespace, name: palette::text(format_args!("h{}", number % PEOPLE)) }
}

impl World {
    /// One of them makes a pod, and the claim if it is not there; or deletes the pod.
    pub(crate) fn hesitate(&mut self, number: u32, makes: bool) {
        let key = key(number);
        if !makes {
            // It may be gone, or may never have been made.
            let _begun = self.api.delete_pod(self.now, &key, None);
            return;
        }
        if self.api.pods.get(&key).is_some() {
            return;
        }
        if self.api.claims.get(&key).is_none() {
            let uid = self.api.new_uid();
            let claim = self.workloads.specs.new_claim(key.clone(), uid, palette::CLASSES[0], TOLERATIONS);
            self.api.claims.put(&mut self.api.versions, claim);
        }
        let uid = self.api.new_uid();
        let metadata = vec![(0, PodMetadata::default())];
        self.api.note_pod(&uid, PodNotes { metadata, created: self.now, ..PodNotes::default() });
        let claim = PodClaim { name: palette::word(SHARED), source: ClaimSource::Claim(key.name.clone()) };
        self.api.pods.put(&mut self.api.versions, Pod { key, uid, claims: vec![claim], ..Pod::default() });
    }
}
