//! The one place of this crate where dice are thrown: UIDs, generated names, addresses and ports.

/// Random bytes from the operating system. A machine that has none cannot give out identities that never repeat.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[allow(clippy::expect_used, reason = "there is nothing sensible to do without randomness")]
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// A version 4 UUID.
pub(crate) fn uid() -> String {
    let mut bytes: [u8; 16] = bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 0x0f)]));
    }
    text
}

/// The random end of a generated name: five characters that spell no word.
pub(crate) fn name_suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    bytes::<5>().iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

/// A number below `end`, or 0.
pub(crate) fn below(end: u32) -> u32 {
    u32::from_le_bytes(bytes()).checked_rem(end).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn uids_have_their_form_and_differ() {
        let (a, b) = (super::uid(), super::uid());
        assert_ne!(a, b);
        assert_eq!(a.len(), 36);
        assert_eq!(a.match_indices('-').map(|(at, _)| at).collect::<Vec<_>>(), [8, 13, 18, 23]);
        assert_eq!(&a[14..15], "4");
        assert!(matches!(&a[19..20], "8" | "9" | "a" | "b"), "{a}");
        assert!(a.bytes().all(|byte| byte == b'-' || super::HEX.contains(&byte)), "{a}");
        assert_eq!(super::name_suffix().len(), 5);
    }
}
