//! How many pods objects want of which nothing else is known: what their subresource `scale` said.

use serde::Deserialize;

use crate::prelude::*;

/// Answers that are remembered; a dropped one is requested again.
const SCALES_MAX: usize = 4_096;

/// The scale subresource of an object. It is valid until the object changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Its `spec.replicas`.
    Replicas(i32),
    /// Its kind has no such subresource, or there is no such object any more.
    Absent,
}

/// The answers, by the UID of the object.
#[derive(Debug, Default)]
pub(crate) struct Scales(BTreeMap<String, Scale>);

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default)]
    replicas: i32,
}

impl Scales {
    pub(crate) fn get(&self, uid: &str) -> Option<Scale> {
        self.0.get(uid).copied()
    }

    /// The subresource as it was answered for the object with this UID.
    pub(crate) fn put(&mut self, uid: &str, answer: Option<&[u8]>) {
        let scale = answer.and_then(|text| serde_json::from_slice::<Wire>(text).ok());
        let own = scale.filter(|scale| scale.metadata.uid.as_deref() == Some(uid));
        if self.0.len() >= SCALES_MAX {
            self.0.pop_first();
        }
        self.0
            .insert(uid.to_owned(), own.map_or(Scale::Absent, |scale| Scale::Replicas(scale.spec.replicas)));
    }

    /// The object has changed or gone.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}
