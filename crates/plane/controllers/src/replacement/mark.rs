//! The mark of a replacement on a pod, and the proof that this installation wrote it.
//!
//! A user who may write pods can write any annotation. A mark counts only with a proof: for a pod that was released one by its own record, for a copy one by
//! its own name. So no mark of one pod counts on another.

use lazaret_model::Text;
use lazaret_replacement::{Mark, Record};
use lazaret_runtime::Object;
use serde::Deserialize;

use super::record;
use crate::proof::Proofs;

/// The annotation with the proof.
pub(super) const PROOF: &str = "lazaret.dev/replacement-proof";
const RELEASED: &str = "released Pod";
const COPY: &str = "copied Pod";

#[derive(Deserialize)]
struct Marked {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: std::collections::BTreeMap<String, String>,
}

/// The proof for a pod that is released.
pub(super) fn of_released(proofs: &Proofs, of: &Record) -> String {
    proofs.of(RELEASED, &of.pod.namespace, &of.pod.name, &text(of))
}

/// The proof for a copy of this name.
pub(super) fn of_copy(proofs: &Proofs, name: &str, of: &Record) -> String {
    proofs.of(COPY, &of.pod.namespace, name, &text(of))
}

/// The mark of a pod, if this installation wrote it.
pub(super) fn read(proofs: &Proofs, object: &Object, mark: &str) -> Option<Mark> {
    let Ok(Marked { metadata }) = serde_json::from_slice(object.json()) else { return None };
    let proof = metadata.annotations.get(PROOF)?;
    let record = record::parse(mark)?;
    let place = (object.key.namespace.as_str(), object.key.name.as_str());
    let is_of_place = record.pod.namespace == object.key.namespace;
    let is_proved = |kind| is_of_place && proofs.holds(proof, kind, place, &text(&record));
    if record.uid == object.uid && record.pod == object.key {
        return is_proved(RELEASED).then_some(Mark::Released(record));
    }
    is_proved(COPY).then_some(Mark::Copy(record))
}

/// A record reads the same after it was written, so its text is that of the annotation.
fn text(of: &Record) -> Text {
    record::format(of).as_str().into()
}

#[cfg(test)]
mod tests {
    use lazaret_model::{ObjectKey, Owner, Timestamp};
    use lazaret_replacement::{Cause, Origin, Plan};
    use lazaret_runtime::PODS;
    use serde_json::json;

    use super::*;

    fn record(namespace: &str) -> Record {
        let owner =
            Owner { group: "apps".into(), kind: "ReplicaSet".into(), name: "s".into(), uid: "s-uid".into() };
        Record {
            policy: "p".into(),
            counted_by: vec!["p".into()],
            pod: ObjectKey::new(namespace, "a"),
            uid: "u".into(),
            node: "w".into(),
            cause: Cause {
                origin: Origin::Node,
                place: "w".into(),
                key: "k".into(),
                value: "".into(),
                effect: "NoSchedule".into(),
            },
            since: Timestamp::from_secs(1),
            started: Timestamp::from_secs(9),
            lacking: 0,
            plan: Plan::Release { owner, label: "l".into() },
        }
    }

    fn read_from(name: &str, uid: &str, of: &Record, proof: Option<&str>) -> Option<Mark> {
        let annotations = match proof {
            Some(proof) => json!({PROOF: proof, super::super::MARK: record::format(of)}),
            None => json!({super::super::MARK: record::format(of)}),
        };
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "n", "name": name, "uid": uid, "annotations": annotations},
            "spec": {"containers": []},
        });
        let object = Object::new(&PODS, pod.to_string()).unwrap();
        read(&Proofs::new(b"ours"), &object, &record::format(of))
    }

    /// A tenant writes a mark on a pod of its own, or takes over one that it reads elsewhere.
    #[test]
    fn a_mark_counts_with_a_proof_for_its_pod_alone() {
        let (proofs, of) = (Proofs::new(b"ours"), record("n"));
        let released = of_released(&proofs, &of);
        let copy = of_copy(&proofs, "a-r1", &of);
        assert_eq!(read_from("a", "u", &of, Some(&released)), Some(Mark::Released(of.clone())));
        assert_eq!(read_from("a-r1", "v", &of, Some(&copy)), Some(Mark::Copy(of.clone())));
        let elsewhere = record("other");
        let changed = Record { plan: Plan::Copy { name: "a-r1".into() }, ..of.clone() };
        let theirs = of_copy(&Proofs::new(b"theirs"), "a-r1", &of);
        for (name, uid, of, proof) in [
            ("a", "u", &of, None),
            ("a", "u", &of, Some("")),
            ("a", "u", &of, Some("zz")),
            ("a", "u", &of, Some(copy.as_str())),
            ("a", "other", &of, Some(released.as_str())),
            ("a-r1", "v", &of, Some(released.as_str())),
            ("a-r2", "v", &of, Some(copy.as_str())),
            ("a-r1", "v", &of, Some(theirs.as_str())),
            ("a-r1", "v", &changed, Some(copy.as_str())),
            ("a-r1", "v", &elsewhere, Some(of_copy(&proofs, "a-r1", &elsewhere).as_str())),
        ] {
            assert_eq!(read_from(name, uid, of, proof), None, "{name} {uid} {proof:?}");
        }
    }
}
