//! Devices that are given twice all the same: by a server that does not ask, or before it did.

use lazaret_model::{DeviceResult, Timestamp, Uid};

/// Whether two results, of two claims, are of the same device and cannot both be used: one has all of it, or both have the same share.
#[must_use]
pub fn collide(one: &DeviceResult, other: &DeviceResult) -> bool {
    let apart = one.share_id.is_some() && other.share_id.is_some() && one.share_id != other.share_id;
    one.device == other.device && !one.admin_access && !other.admin_access && !apart
}

/// How firmly a claim has its devices.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// A pod that is on a node, or on its way there, uses the claim; or it is not known who does.
    pub is_used: bool,
    /// When it was allocated, if that was recorded.
    pub allocated: Option<Timestamp>,
    /// The claim.
    pub uid: &'a Uid,
}

/// Whether of two claims that collide the first one gives its devices back. One that is used never does. Of two that nobody uses yet, it is the one that
/// was allocated later.
#[must_use]
pub fn gives_way(one: Standing<'_>, other: Standing<'_>) -> bool {
    let age = |standing: Standing<'_>| (standing.allocated.is_none(), standing.allocated);
    !one.is_used && (other.is_used || (age(one), one.uid) > (age(other), other.uid))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use lazaret_model::DeviceId;

    use super::*;

    #[test]
    fn results_collide_unless_they_are_other_shares_or_only_watch() {
        let result = |device: &str, share: Option<&str>, admin_access| DeviceResult {
            request: "r".into(),
            device: DeviceId::new("d", "p", device),
            admin_access,
            tolerations: vec![],
            binding_conditions: vec![],
            binding_failure_conditions: vec![],
            share_id: share.map(Into::into),
            consumed_capacity: vec![],
            skip_node_operations: vec![],
        };
        let gpu = result("gpu-0", None, false);
        let table = [
            (result("gpu-0", None, false), true),
            (result("gpu-1", None, false), false),
            (result("gpu-0", None, true), false),
            (result("gpu-0", Some("s"), false), true),
        ];
        for (other, expected) in table {
            assert_eq!((collide(&gpu, &other), collide(&other, &gpu)), (expected, expected), "{other:?}");
        }
        let share = |id| result("gpu-0", Some(id), false);
        assert!(collide(&share("s"), &share("s")) && !collide(&share("s"), &share("t")));
    }

    #[test]
    fn of_two_claims_at_most_one_gives_way_and_never_one_that_is_used() {
        let (a, b) = (Uid::from("a"), Uid::from("b"));
        let at = |secs| Some(Timestamp::from_secs(secs));
        let standing = |is_used, allocated, uid| Standing { is_used, allocated, uid };
        let table = [
            (standing(true, at(9), &a), standing(false, at(1), &b), false),
            (standing(false, at(1), &a), standing(true, at(9), &b), true),
            (standing(true, at(1), &a), standing(true, at(9), &b), false),
            (standing(false, at(9), &a), standing(false, at(1), &b), true),
            (standing(false, None, &a), standing(false, at(1), &b), true),
            (standing(false, at(1), &a), standing(false, at(1), &b), false),
            (standing(false, at(1), &b), standing(false, at(1), &a), true),
        ];
        for (one, other, expected) in table {
            assert_eq!(gives_way(one, other), expected, "{one:?} {other:?}");
            let is_used = one.is_used && other.is_used;
            assert_eq!(gives_way(other, one), !expected && !is_used, "{other:?} {one:?}");
        }
    }
}
