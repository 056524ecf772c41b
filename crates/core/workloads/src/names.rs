//! Names and hashes made of what cannot be mistaken for words.

use crate::prelude::*;

/// Kubernetes' letters for generated names: no vowels, no look-alikes.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Characters of a name.
const NAME_MAX: usize = 63;
/// Letters that a generated name adds.
const SUFFIX: usize = 5;

/// A name that begins with `prefix`, different for every owner, time and number.
pub(crate) fn generated(prefix: &str, uid: &str, now: Timestamp, number: usize) -> String {
    let mut hash = Fnv::default();
    hash.write(uid.as_bytes());
    hash.write(&now.as_millis().to_le_bytes());
    hash.write(&(number as u64).to_le_bytes());
    let mut end = prefix.len().min(NAME_MAX - SUFFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix[..end].to_owned();
    letters(&mut name, hash.finish(), SUFFIX);
    name
}

/// Ten letters that stand for a JSON value: the same for the same value, however its keys were ordered.
pub(crate) fn hash_of(value: &Value, collisions: Option<i32>) -> String {
    let mut hash = Fnv::default();
    hash.write(value.to_string().as_bytes());
    if let Some(collisions) = collisions {
        hash.write(&collisions.to_le_bytes());
    }
    let mut text = String::new();
    letters(&mut text, hash.finish(), 10);
    text
}

fn letters(text: &mut String, mut bits: u64, count: usize) {
    for _ in 0..count {
        // The remainder is below 27.
        let at = usize::try_from(bits % 27).unwrap_or_default();
        text.push(char::from(LETTERS[at]));
        bits /= 27;
    }
}

/// A number that stands for a text.
pub(crate) fn number_of(text: &str) -> u64 {
    let mut hash = Fnv::default();
    hash.write(text.as_bytes());
    hash.finish()
}

/// FNV-1a with a last stir, so that close inputs give names that differ in every letter.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_valid_and_differ() {
        let long = "x".repeat(80);
        let mut seen = BTreeSet::new();
        for number in 0..500 {
            let name = generated("web-", "u", Timestamp::from_secs(1), number);
            assert_eq!(name.len(), 9);
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            );
            assert!(seen.insert(name));
        }
        assert_eq!(generated(&long, "u", Timestamp::EPOCH, 0).len(), NAME_MAX);
    }
}
