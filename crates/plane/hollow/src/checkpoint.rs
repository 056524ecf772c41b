//! The annotation of a Node that says what is prepared on it.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_kubelet::{Checkpoint, HeldDevice, NotedClaim, SeenCheckpoint};
use lazaret_model::{DeviceId, ObjectKey, Uid};
use serde::{Deserialize, Serialize};

/// A longer annotation was not written by a hollow node.
const BYTES_MAX: usize = 2 * lazaret_kubelet::CHECKPOINT_BYTES_MAX;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    writer: u64,
    sequence: u64,
    claims: BTreeMap<String, WireClaim>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireClaim {
    namespace: String,
    name: String,
    pods: BTreeSet<String>,
    held: Vec<WireDevice>,
    stop_ms: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireDevice {
    driver: String,
    pool: String,
    device: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<String>,
}

/// The text of a checkpoint; `None`: nothing is prepared.
pub(crate) fn to_text(checkpoint: &Checkpoint) -> Option<String> {
    let device = |one: &HeldDevice| WireDevice {
        driver: one.device.driver.to_string(),
        pool: one.device.pool.to_string(),
        device: one.device.device.to_string(),
        share: one.share.as_ref().map(ToString::to_string),
    };
    let claim = |(uid, one): (&Uid, &NotedClaim)| {
        let wire = WireClaim {
            namespace: one.key.namespace.to_string(),
            name: one.key.name.to_string(),
            pods: one.pods.iter().map(ToString::to_string).collect(),
            held: one.held.iter().map(device).collect(),
            stop_ms: one.stop_ms,
        };
        (uid.to_string(), wire)
    };
    let Checkpoint { writer, sequence, claims } = checkpoint;
    let wire = Wire { writer: *writer, sequence: *sequence, claims: claims.iter().map(claim).collect() };
    // Texts and numbers cannot fail.
    (!claims.is_empty()).then(|| serde_json::to_string(&wire).unwrap_or_default())
}

/// Reads the annotation. Whatever cannot be read is not taken for nothing.
pub(crate) fn read(text: Option<&str>) -> SeenCheckpoint {
    let Some(text) = text else { return SeenCheckpoint::Missing };
    if text.len() > BYTES_MAX {
        return SeenCheckpoint::Unreadable(format!("more than {BYTES_MAX} bytes").into());
    }
    let wire: Wire = match serde_json::from_str(text) {
        Ok(wire) => wire,
        Err(error) => return SeenCheckpoint::Unreadable(error.to_string().into()),
    };
    let device = |one: WireDevice| HeldDevice {
        device: DeviceId::new(one.driver, one.pool, one.device),
        share: one.share.map(Into::into),
    };
    let claim = |(uid, one): (String, WireClaim)| {
        let noted = NotedClaim {
            key: ObjectKey::new(one.namespace, one.name),
            pods: one.pods.into_iter().map(Uid::from).collect(),
            held: one.held.into_iter().map(device).collect(),
            stop_ms: one.stop_ms,
        };
        (Uid::from(uid), noted)
    };
    SeenCheckpoint::Known(Checkpoint {
        writer: wire.writer,
        sequence: wire.sequence,
        claims: wire.claims.into_iter().map(claim).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_written_and_nothing_else_is_taken_for_one() {
        let held = |share: Option<&str>| HeldDevice {
            device: DeviceId::new("d", "node-1", "gpu-0"),
            share: share.map(Into::into),
        };
        let noted = NotedClaim {
            key: ObjectKey::new("default", "c"),
            pods: ["p".into(), "q".into()].into(),
            held: vec![held(None), held(Some("s"))],
            stop_ms: 1_500,
        };
        let checkpoint = Checkpoint { writer: u64::MAX, sequence: 3, claims: [("u".into(), noted)].into() };
        let text = to_text(&checkpoint).unwrap();
        assert_eq!(read(Some(&text)), SeenCheckpoint::Known(checkpoint));
        assert_eq!(to_text(&Checkpoint::default()), None);
        assert_eq!(read(None), SeenCheckpoint::Missing);
        let cut = &text[..text.len() - 1];
        let long = format!("{text}{}", " ".repeat(BYTES_MAX));
        for damaged in ["", "{}", "null", "[]", cut, long.as_str(), &text.replace("held", "hold")] {
            assert!(matches!(read(Some(damaged)), SeenCheckpoint::Unreadable(_)), "{damaged:.80}");
        }
    }
}
