//! Content as a number of 128 bits, so that equal content can be recognised without keeping it twice.
//!
//! SipHash-1-3 with a fixed key: the same content has the same fingerprint in every process. Two contents that
//! differ share one with a probability nobody will live to see, and a driver cannot construct such a pair.

use core::hash::Hash;

use siphasher::sip128::{Hasher128, SipHasher13};

const KEY: (u64, u64) = (0x6c61_7a61_7265_7420, 0x7175_6172_616e_7469);

/// Takes in content, in any number of parts.
pub(crate) fn hasher() -> SipHasher13 {
    SipHasher13::new_with_keys(KEY.0, KEY.1)
}

/// Small content as it is, in 128 bits: which kind of content, and at most 120 bits of it. Prints of different kinds
/// differ, and none equals one of [`of_hash`].
pub(crate) fn exact(kind: u8, content: u128) -> u128 {
    u128::from(kind) << 120 | content
}

/// Any other content: its fingerprint, told apart from content as it is.
pub(crate) fn of_hash(content: &impl Hash) -> u128 {
    let mut hasher = hasher();
    content.hash(&mut hasher);
    hasher.finish128().as_u128() | 0xff << 120
}

/// One fingerprint out of two, order mattering.
pub(crate) fn combine(left: u128, right: u128) -> u128 {
    left.wrapping_mul(0xda94_2042_e4dd_58b5_2545_f491_4f6c_dd1d).rotate_left(41) ^ right
}
