//! The parts of a pod that only its replacement needs: when it was made, its labels, the mark of its replacement, and whether it may be scheduled.

use std::sync::Arc;

use hashbrown::HashMap;
use lazaret_machine::Labels;
use lazaret_model::{Timestamp, Uid};
use lazaret_replacement::Mark;
use rustc_hash::FxBuildHasher;

use super::Api;

/// The metadata of a pod.
#[derive(Clone, Debug)]
pub(crate) struct PodNotes {
    pub(crate) created: Timestamp,
    pub(crate) labels: Arc<Labels>,
    /// The record of its replacement, on a pod that was released and on a copy.
    pub(crate) mark: Option<Mark>,
    /// It may not be scheduled yet.
    pub(crate) is_gated: bool,
}

/// By incarnation of a pod: metadata, each with the place in the log from which on it is so. Empty where no pod is replaced.
#[derive(Clone, Debug, Default)]
pub(super) struct NotesOfPods(HashMap<Uid, Vec<(usize, PodNotes)>, FxBuildHasher>);

impl Api {
    /// The metadata of a pod as it is stored now.
    pub(crate) fn pod_notes(&self, uid: &Uid) -> Option<&PodNotes> {
        self.pod_notes_at(uid, usize::MAX)
    }

    /// The metadata of a pod that was written at this place of the log.
    pub(crate) fn pod_notes_at(&self, uid: &Uid, place: usize) -> Option<&PodNotes> {
        let all = self.pod_notes.0.get(uid)?;
        all.iter().rev().find(|(since, _)| *since <= place).map(|(_, notes)| notes)
    }

    /// The pod that is written at this place of the log has this metadata.
    pub(crate) fn note_pod(&mut self, uid: &Uid, place: usize, notes: PodNotes) {
        self.pod_notes.0.entry(uid.clone()).or_default().push((place, notes));
    }
}
