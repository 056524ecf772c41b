//! Whether anybody leaves faster than a pace allows, across controllers and their lives.

use std::collections::BTreeMap;

use lazaret_eviction::PaceKey;

/// Thousandths in one pod.
const POD: i64 = 1_000;

/// A bucket: at most `burst` at once, and `rate` a second. Equal to the bound on every span of time at once.
#[derive(Clone, Debug)]
struct Bucket {
    /// Below zero: a group owes it.
    level: i64,
    settled: u64,
    rate: u64,
    /// How often the pace had been edited when it was last used.
    edits: u64,
    /// After an edit, different controllers go by different rates for a while.
    lenient_until: u64,
}

/// All buckets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paces {
    buckets: BTreeMap<PaceKey, Bucket>,
}

impl Paces {
    /// One more leaves under this pace. Returns whether that is too many.
    pub(crate) fn charge(
        &mut self,
        key: &PaceKey,
        now: u64,
        rate: u64,
        burst: u64,
        edits: u64,
        lenient_ms: u64,
    ) -> bool {
        let full = i64::try_from(burst).unwrap_or(i64::MAX / POD) * POD;
        let bucket = self.buckets.entry(key.clone()).or_insert(Bucket {
            level: full,
            settled: now,
            rate,
            edits,
            lenient_until: 0,
        });
        if bucket.edits != edits {
            bucket.edits = edits;
            bucket.lenient_until = now + lenient_ms;
        }
        if now < bucket.lenient_until {
            bucket.level = full;
        }
        let faster = bucket.rate.max(rate);
        let flowed = i64::try_from((now - bucket.settled) * faster).unwrap_or(i64::MAX);
        bucket.level = full.min(bucket.level.saturating_add(flowed));
        (bucket.settled, bucket.rate) = (now, rate);
        let exceeded = bucket.level < POD;
        if !exceeded {
            bucket.level -= POD;
        }
        exceeded
    }

    /// That it was too many is owed: it left together with the others of its group.
    pub(crate) fn owe(&mut self, key: &PaceKey) {
        if let Some(bucket) = self.buckets.get_mut(key) {
            bucket.level -= POD;
        }
    }

    /// The last one did not leave after all.
    pub(crate) fn refund(&mut self, key: &PaceKey, burst: u64) {
        if let Some(bucket) = self.buckets.get_mut(key) {
            let full = i64::try_from(burst).unwrap_or(i64::MAX / POD) * POD;
            bucket.level = full.min(bucket.level + POD);
        }
    }

    /// A clock jumped forward: buckets of whoever has that clock filled up.
    pub(crate) fn fill(&mut self) {
        self.buckets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let (mut paces, key) = (Paces::default(), PaceKey::Rule("r".into()));
        assert!((0..10).all(|_| !paces.charge(&key, 0, 2, 10, 0, 0)));
        assert!(!paces.charge(&key, 500, 2, 10, 0, 0));
        assert!(paces.charge(&key, 999, 2, 10, 0, 0));
    }

    #[test]
    fn a_refund_can_be_used_again() {
        let (mut paces, key) = (Paces::default(), PaceKey::Rule("r".into()));
        assert!(!paces.charge(&key, 0, 1, 1, 0, 0));
        paces.refund(&key, 1);
        assert!(!paces.charge(&key, 0, 1, 1, 0, 0));
        assert!(paces.charge(&key, 0, 1, 1, 0, 0));
    }
}
