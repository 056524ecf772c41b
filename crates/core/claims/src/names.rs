//! The names of claims that are made for pods.
//!
//! DEVIATION(claim-names): they look as in Kubernetes, `<pod>-<entry>-` and five characters, but the characters follow
//! from the pod's UID and the entry. So a second attempt to make a claim, by whomever, finds the first one's.

use alloc::{format, string::String};

use lazaret_model::Uid;

/// Leaves room for a dash and five characters in a name of 63.
const BASE_BYTES_MAX: usize = 57;
/// The API server's alphabet for random parts: no vowels, for they make words, and nothing that looks alike.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The prefix of the name of a claim for this entry of a pod: both names, a dash after each; cut in proportion to their lengths, and without the last
/// dash, where that is too long.
#[must_use]
pub fn generate_name(pod: &str, entry: &str) -> String {
    let full = format!("{pod}-{entry}-");
    if full.len() <= BASE_BYTES_MAX {
        return full;
    }
    format!("{}-{}", share(pod, full.len()), share(entry, full.len()))
}

/// The name itself. The `attempt` makes another name, for when one is taken.
pub(crate) fn claim_name(pod: &str, uid: &Uid, entry: &str, attempt: u32) -> String {
    let mut name = generate_name(pod, entry);
    let mut digits = fingerprint(&[uid.as_bytes(), b"/", entry.as_bytes(), &attempt.to_le_bytes()]);
    for _ in 0..5 {
        let digit = usize::try_from(digits % 27).unwrap_or_default();
        name.push(char::from(ALPHABET[digit]));
        digits /= 27;
    }
    name
}

/// Names are ASCII; of a name that is not, no character is cut in two.
fn share(part: &str, full_len: usize) -> &str {
    let mut len = part.len() * BASE_BYTES_MAX / full_len;
    while !part.is_char_boundary(len) {
        len -= 1;
    }
    &part[..len]
}

/// FNV-1a, then mixed so that every bit counts in the low digits. Must stay as it is: names are made of it.
fn fingerprint(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    for _ in 0..2 {
        hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn long_names_are_cut_in_proportion() {
        assert_eq!(generate_name("web-0", "gpu"), "web-0-gpu-");
        let pod = "a".repeat(63);
        let entry = "b".repeat(21);
        let base = generate_name(&pod, &entry);
        assert_eq!(base, format!("{}-{}", "a".repeat(63 * 57 / 86), "b".repeat(21 * 57 / 86)));
        let name = claim_name(&pod, &"uid".into(), &entry, 0);
        assert!(name.len() <= 63, "{name}");
    }

    #[test]
    fn exactly_57_bytes_are_not_cut() {
        let pod = "a".repeat(51);
        assert_eq!(generate_name(&pod, "gpus").len(), 57);
        assert!(generate_name(&pod, "gpus").ends_with("-gpus-"));
        assert!(generate_name(&pod, "gpu12").ends_with("-gpu1"));
    }

    #[test]
    fn a_name_follows_from_uid_entry_and_attempt() {
        let uid: Uid = "6f1f9e0e-0c4b-4a5e-9b59-3b8a1f6f2a10".into();
        assert_eq!(claim_name("p", &uid, "gpu", 0), claim_name("p", &uid, "gpu", 0));
        let names: BTreeSet<String> =
            (0..1000).map(|n| claim_name("p", &format!("{n}").into(), "gpu", 0)).collect();
        assert_eq!(names.len(), 1000);
        let attempts: BTreeSet<String> = (0..50).map(|n| claim_name("p", &uid, "gpu", n)).collect();
        assert_eq!(attempts.len(), 50);
    }

    #[test]
    fn hostile_names_do_not_panic() {
        let pod = "ü".repeat(40);
        assert!(claim_name(&pod, &"".into(), &"é".repeat(40), 7).len() <= 64);
    }
}
