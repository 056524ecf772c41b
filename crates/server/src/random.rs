//! The one place of this crate where dice are thrown: UIDs and generated names.

/// Random bytes from the operating system. A machine that has none cannot give out identities that never repeat.
fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[allow(clippy::expect_used, reason = "there is nothing sensible to do without randomness")]
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// A version 4 UUID.
pub(crate) fn uid() -> String {
    let mut bytes: [u8; 16] = bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// The random end of a generated name: five characters that spell no word.
pub(crate) fn name_suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    bytes::<5>().iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn uids_have_their_form_and_differ() {
        let (a, b) = (super::uid(), super::uid());
        assert_ne!(a, b);
        assert_eq!(a.len(), 36);
        assert_eq!(&a[14..15], "4");
        assert_eq!(super::name_suffix().len(), 5);
    }
}
