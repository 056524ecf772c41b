//! Sets of characters, as ranges in order.

use alloc::vec::Vec;

/// Ranges that are in order and do not touch, by the numbers of characters. Numbers that are no character may be among them: no text has them.
pub(crate) type Set = Vec<(u32, u32)>;

/// The last character.
pub(crate) const LAST: u32 = 0x0010_FFFF;

/// Puts ranges in order and joins those that touch.
pub(crate) fn ordered(mut ranges: Set) -> Set {
    ranges.sort_unstable();
    let mut joined: Set = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match joined.last_mut() {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => joined.push((low, high)),
        }
    }
    joined
}

/// All other characters.
pub(crate) fn negated(set: &[(u32, u32)]) -> Set {
    let mut rest = Vec::with_capacity(set.len() + 1);
    let mut next = 0;
    for &(low, high) in set {
        if low > next {
            rest.push((next, low - 1));
        }
        next = high + 1;
    }
    if next <= LAST {
        rest.push((next, LAST));
    }
    rest
}

pub(crate) fn contains(set: &[(u32, u32)], c: u32) -> bool {
    let at = set.partition_point(|range| range.1 < c);
    set.get(at).is_some_and(|range| range.0 <= c)
}
