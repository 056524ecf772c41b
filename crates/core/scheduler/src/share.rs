//! Identifiers for shares of devices, made without a die.

use alloc::format;
use core::hash::BuildHasher;

use lazaret_model::{Text, Timestamp, Uid};
use rustc_hash::FxBuildHasher;

/// Gives lower-case UUIDs (of version 8: with content of our own) that depend on the pod, the instant and the
/// decision: a pod's UID is random, and no two decisions of one scheduler are the same.
#[derive(Debug)]
pub(crate) struct ShareIds<'a> {
    pod: &'a Uid,
    now: Timestamp,
    decision: u64,
    count: u64,
}

impl<'a> ShareIds<'a> {
    pub(crate) fn new(pod: &'a Uid, now: Timestamp, decision: u64) -> Self {
        Self { pod, now, decision, count: 0 }
    }

    pub(crate) fn next(&mut self) -> Text {
        self.count += 1;
        let half = |salt: u64| FxBuildHasher.hash_one((salt, self.pod, self.now, self.decision, self.count));
        let (high, low) = (half(0x5eed), half(0xc0de));
        format!(
            "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff
        )
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_have_the_form_of_a_uuid() {
        let pod: Uid = "pod".into();
        let mut seen = alloc::collections::BTreeSet::new();
        for decision in 0..100 {
            let mut ids = ShareIds::new(&pod, Timestamp::EPOCH, decision);
            for _ in 0..10 {
                let id = ids.next();
                let lengths: alloc::vec::Vec<usize> = id.split('-').map(str::len).collect();
                assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
                assert!(seen.insert(id));
            }
        }
    }
}
