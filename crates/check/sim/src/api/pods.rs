//! Pods as their owners see them: JSON with labels, annotations and the finalizer that holds a pod until its Job has counted it.

use std::sync::Arc;

use hashbrown::HashMap;
use lazaret_machine::Labels;
use lazaret_model::{ObjectKey, Pod, PodPhase, Text, Timestamp, Uid};
use lazaret_replacement::Mark;
use rustc_hash::FxBuildHasher;
use serde_json::{Value, json};

use super::{Api, json_text::JsonText, wall};

/// The finalizer of the pods of Jobs.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Seconds that a pod gets to end.
const GRACE_SECS: i64 = 30;

/// The annotation of a pod that was released, and of a copy.
const MARK: &str = "replacement";
/// The gate of a copy that may not be scheduled yet.
pub(crate) const GATE: &str = "replacement";

/// The metadata of a pod that changes while it lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodMetadata {
    pub(crate) labels: Arc<Labels>,
    pub(crate) annotations: Arc<Value>,
    /// The record of its replacement, on a pod that was released and on a copy.
    pub(crate) mark: Option<Mark>,
    /// A record that its tenant wrote in the place of that one, without a proof.
    pub(crate) forged: Option<Mark>,
    /// It may not be scheduled yet.
    pub(crate) is_gated: bool,
}

impl PodMetadata {
    /// The labels and annotations in the metadata of an object.
    pub(crate) fn new(metadata: &Value) -> Self {
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let labels =
            labels.filter_map(|(name, value)| Some((Text::from(&**name), Text::from(value.as_str()?))));
        Self {
            labels: Arc::new(labels.collect()),
            annotations: metadata["annotations"].clone().into(),
            ..Self::default()
        }
    }

    fn annotations(&self) -> Value {
        let mut annotations = Value::clone(&self.annotations);
        if let Some(Mark::Released(record) | Mark::Copy(record)) = &self.mark {
            annotations[MARK] = json!(&*record.uid);
        }
        annotations
    }
}

/// The parts of a pod that only its owner, its replacement and the API server need.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodNotes {
    /// Each with the place in the log from which on it is so.
    pub(crate) metadata: Vec<(usize, PodMetadata)>,
    /// When it was made, in ms.
    pub(crate) created: u64,
    /// It was made with the finalizer.
    pub(crate) is_tracked: bool,
    /// The place in the log from which on the finalizer is off.
    pub(crate) released: Option<usize>,
    /// The place in the log from which on no grace period is left.
    pub(crate) stopped: Option<usize>,
}

/// By incarnation of a pod.
pub(super) type PodNotesByUid = HashMap<Uid, PodNotes, FxBuildHasher>;

impl Api {
    /// Notes the metadata of a pod that is about to be made.
    pub(crate) fn note_pod(&mut self, uid: &Uid, notes: PodNotes) {
        self.pod_notes.insert(uid.clone(), notes);
    }

    /// The metadata of a pod as it is stored now.
    pub(crate) fn pod_metadata(&self, uid: &Uid) -> Option<&PodMetadata> {
        self.pod_metadata_at(uid, usize::MAX)
    }

    /// The metadata of a pod that was written at this place of the log.
    pub(crate) fn pod_metadata_at(&self, uid: &Uid, place: usize) -> Option<&PodMetadata> {
        let all = &self.pod_notes.get(uid)?.metadata;
        all.iter().rev().find(|(since, _)| *since <= place).map(|(_, metadata)| metadata)
    }

    /// Writes a pod with its metadata; false when there is none of this incarnation.
    pub(crate) fn edit_metadata(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        change: impl FnOnce(&mut PodMetadata),
        edit: impl FnOnce(&mut Pod),
    ) -> bool {
        let mut metadata = self.pod_metadata(uid).cloned().unwrap_or_default();
        change(&mut metadata);
        let place = self.pods.log().len();
        let is_there = self.edit_pod(key, uid, edit);
        if is_there {
            self.change_metadata(uid, place, metadata);
        }
        is_there
    }

    /// The pod that is written at this place of the log has this metadata.
    pub(crate) fn change_metadata(&mut self, uid: &Uid, place: usize, metadata: PodMetadata) {
        self.pod_notes.entry(uid.clone()).or_default().metadata.push((place, metadata));
    }

    /// When a pod was made.
    pub(crate) fn created(&self, uid: &Uid) -> Timestamp {
        wall(self.pod_notes.get(uid).map_or(0, |notes| notes.created)).truncated_to_secs()
    }

    /// The label of a pod.
    pub(crate) fn label(&self, uid: &Uid, name: &str) -> Option<&str> {
        self.pod_metadata(uid)?.labels.get(name).map(|value| &**value)
    }

    /// Whether a finalizer holds a pod.
    pub(crate) fn is_held(&self, uid: &Uid) -> bool {
        self.pod_notes.get(uid).is_some_and(|notes| notes.is_tracked && notes.released.is_none())
    }

    /// Whether a pod had the finalizer when it was written at this place of the log.
    pub(crate) fn was_held_at(&self, uid: &Uid, place: usize) -> bool {
        let is_held =
            |notes: &PodNotes| notes.is_tracked && notes.released.is_none_or(|released| place < released);
        self.pod_notes.get(uid).is_some_and(is_held)
    }

    /// Removes a pod. One that a finalizer holds is kept, without a grace period, until the finalizer is off. False when there is none.
    pub(crate) fn remove_pod(&mut self, now: u64, key: &ObjectKey) -> bool {
        let Some(number) = self.pods.number(key) else { return false };
        let Some(stored) = self.pods.now(number) else { return false };
        if !self.is_held(&stored.object.uid) {
            self.pods.record(&mut self.versions, number, None);
            return true;
        }
        let deleting_since = stored.object.deleting_since.or(Some(wall(now).truncated_to_secs()));
        let pod = Pod { deleting_since, ..Pod::clone(stored.object) };
        let place = self.pods.log().len();
        if let Some(notes) = self.pod_notes.get_mut(&pod.uid) {
            notes.stopped.get_or_insert(place);
        }
        self.pods.record(&mut self.versions, number, Some(Arc::new(pod)));
        true
    }

    /// Takes the finalizer off a pod, which goes if only that held it.
    pub(crate) fn release_pod(&mut self, key: &ObjectKey) {
        let Some(number) = self.pods.number(key) else { return };
        let Some(pod) = self.pods.now(number).map(|stored| Arc::clone(stored.object)) else { return };
        let place = self.pods.log().len();
        let Some(notes) = self.pod_notes.get_mut(&pod.uid) else { return };
        notes.released.get_or_insert(place);
        let is_over = notes.stopped.is_some() && pod.deleting_since.is_some();
        self.pods.record(&mut self.versions, number, (!is_over).then_some(pod));
    }

    /// The pod that was written at this place of the log, as JSON. `Null`: it was removed there.
    pub(crate) fn pod_json(&self, place: usize) -> Value {
        let text = self.pod_text(place);
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// The pod that was written at this place of the log, as the text of JSON; `None`: it was removed there.
    pub(crate) fn pod_text(&self, place: usize) -> Option<Vec<u8>> {
        let logged = &self.pods.log()[place];
        let pod = logged.object.as_deref()?;
        let notes = self.pod_notes.get(&pod.uid);
        let is_stopped = notes.and_then(|notes| notes.stopped).is_some_and(|stopped| stopped <= place);
        let created = notes.map_or(0, |notes| notes.created);
        let changing = self.pod_metadata_at(&pod.uid, place);
        let mut text = JsonText::new();
        text.open("metadata");
        let annotations = changing.map(PodMetadata::annotations).filter(|annotations| !annotations.is_null());
        if let Some(annotations) = annotations {
            text.value("annotations", &annotations);
        }
        text.field("creationTimestamp", &lazaret_api::format_time(wall(created)));
        if let Some(since) = pod.deleting_since {
            let grace = if is_stopped { 0 } else { GRACE_SECS };
            text.raw("deletionGracePeriodSeconds", &grace.to_string());
            text.field("deletionTimestamp", &lazaret_api::format_time(since.plus_secs(grace)));
        }
        if self.was_held_at(&pod.uid, place) {
            text.raw("finalizers", &format!("[\"{TRACKING}\"]"));
        }
        if let Some(known) = changing {
            text.open("labels");
            known.labels.iter().for_each(|(name, value)| text.field(name, value));
            text.close();
        }
        text.field("name", &pod.key.name);
        text.field("namespace", &pod.key.namespace);
        if let Some(owner) = &pod.owner {
            text.open_list("ownerReferences");
            text.field("apiVersion", &format!("{}/v1", owner.group));
            text.raw("blockOwnerDeletion", "true");
            text.raw("controller", "true");
            text.field("kind", &owner.kind);
            text.field("name", &owner.name);
            text.field("uid", &owner.uid);
            text.close_list();
        }
        text.field("resourceVersion", &logged.version.to_string());
        text.field("uid", &pod.uid);
        text.close();
        text.open("spec");
        text.raw("containers", r#"[{"name":"main"}]"#);
        if let Some(node) = &pod.node {
            text.field("nodeName", node);
        }
        if changing.is_some_and(|known| known.is_gated) {
            text.raw("schedulingGates", &format!("[{{\"name\":\"{GATE}\"}}]"));
        }
        text.close();
        text.open("status");
        let ready = if pod.phase == PodPhase::Running { "True" } else { "False" };
        text.raw("conditions", &format!("[{{\"status\":\"{ready}\",\"type\":\"Ready\"}}]"));
        text.raw("phase", phase(pod.phase));
        text.close();
        Some(text.end())
    }
}

/// As JSON.
fn phase(phase: PodPhase) -> &'static str {
    match phase {
        PodPhase::Pending => "\"Pending\"",
        PodPhase::Running => "\"Running\"",
        PodPhase::Succeeded => "\"Succeeded\"",
        PodPhase::Failed => "\"Failed\"",
        PodPhase::Unknown => "\"Unknown\"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_its_job_has_not_counted_is_kept() {
        let mut api = Api::default();
        let key = ObjectKey::new("a", "p");
        let pod = Pod { key: key.clone(), uid: "1".into(), node: Some("n".into()), ..Pod::default() };
        api.note_pod(&pod.uid, PodNotes { is_tracked: true, ..PodNotes::default() });
        api.pods.put(&mut api.versions, pod);
        assert!(api.remove_pod(5_000, &key));
        let held = api.pod_json(api.pods.log().len() - 1);
        assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
        assert_eq!(held["metadata"]["finalizers"], json!([TRACKING]));
        api.release_pod(&key);
        assert!(api.pods.get(&key).is_none());
    }

    #[test]
    fn a_pod_that_runs_outlives_its_finalizer() {
        let mut api = Api::default();
        let key = ObjectKey::new("a", "p");
        api.note_pod(&"1".into(), PodNotes { is_tracked: true, ..PodNotes::default() });
        api.pods.put(&mut api.versions, Pod { key: key.clone(), uid: "1".into(), ..Pod::default() });
        api.release_pod(&key);
        assert_eq!(api.pod_json(0)["metadata"]["finalizers"], json!([TRACKING]));
        assert!(api.pod_json(1)["metadata"]["finalizers"].is_null());
        assert!(api.remove_pod(0, &key) && api.pods.get(&key).is_none());
    }
}
