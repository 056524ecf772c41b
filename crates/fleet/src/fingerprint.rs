//! Content as a number of 128 bits, so that equal content can be recognised without keeping it twice.
//!
//! SipHash-1-3 with a fixed key: the same content has the same fingerprint in every process. Two contents that
//! differ share one with a probability nobody will live to see, and a driver cannot construct such a pair.

use core::hash::{Hash, Hasher};

/// SipHash-1-3 with 128 bits of output.
#[derive(Clone, Debug)]
pub(crate) struct Fingerprint {
    v: [u64; 4],
    tail: u64,
    tail_len: usize,
    total_len: u64,
}

const KEY: (u64, u64) = (0x6c61_7a61_7265_7420, 0x7175_6172_616e_7469);

impl Fingerprint {
    pub(crate) fn new() -> Self {
        let (k0, k1) = KEY;
        Self {
            v: [
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ],
            tail: 0,
            tail_len: 0,
            total_len: 0,
        }
    }

    pub(crate) fn finish128(mut self) -> u128 {
        let last = (self.total_len << 56) | self.tail;
        self.absorb(last);
        self.v[2] ^= 0xee;
        self.rounds(3);
        let low = self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3];
        self.v[1] ^= 0xdd;
        self.rounds(3);
        let high = self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3];
        (u128::from(high) << 64) | u128::from(low)
    }

    /// Takes in the `len` lowest bytes of a word; the others are zero.
    #[inline]
    fn push(&mut self, word: u64, len: usize) {
        self.total_len = self.total_len.wrapping_add(len as u64);
        if len == 8 && self.tail_len == 0 {
            return self.absorb(word);
        }
        let shift = 8 * self.tail_len;
        self.tail |= word << shift;
        self.tail_len += len;
        if self.tail_len >= 8 {
            let full = self.tail;
            self.tail_len -= 8;
            // The bytes that did not fit. The shift is not zero: a whole word at a border was absorbed above.
            self.tail = word >> (64 - shift);
            self.absorb(full);
        }
    }

    #[inline]
    fn absorb(&mut self, word: u64) {
        self.v[3] ^= word;
        self.rounds(1);
        self.v[0] ^= word;
    }

    #[inline]
    fn rounds(&mut self, n: usize) {
        let [mut a, mut b, mut c, mut d] = self.v;
        for _ in 0..n {
            a = a.wrapping_add(b);
            b = b.rotate_left(13) ^ a;
            a = a.rotate_left(32);
            c = c.wrapping_add(d);
            d = d.rotate_left(16) ^ c;
            a = a.wrapping_add(d);
            d = d.rotate_left(21) ^ a;
            c = c.wrapping_add(b);
            b = b.rotate_left(17) ^ c;
            c = c.rotate_left(32);
        }
        self.v = [a, b, c, d];
    }
}

impl Hasher for Fingerprint {
    fn write(&mut self, mut bytes: &[u8]) {
        while let Some((word, rest)) = bytes.split_first_chunk() {
            self.push(u64::from_le_bytes(*word), 8);
            bytes = rest;
        }
        if !bytes.is_empty() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.push(u64::from_le_bytes(word), bytes.len());
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.push(u64::from(byte), 1);
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.push(word, 8);
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "one half after the other")]
    fn write_u128(&mut self, word: u128) {
        self.push(word as u64, 8);
        self.push((word >> 64) as u64, 8);
    }

    fn finish(&self) -> u64 {
        // Only the 128-bit result is meant to be used; this one is here because the trait asks for it.
        self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3] ^ self.tail
    }
}

/// Small content as it is, in 128 bits: which kind of content, and at most 120 bits of it. Prints of different kinds
/// differ, and none equals one of [`of_hash`].
pub(crate) fn exact(kind: u8, content: u128) -> u128 {
    u128::from(kind) << 120 | content
}

/// Any other content: its fingerprint, told apart from content as it is.
pub(crate) fn of_hash(content: &impl Hash) -> u128 {
    let mut hasher = Fingerprint::new();
    content.hash(&mut hasher);
    hasher.finish128() | 0xff << 120
}

/// One fingerprint out of two, order mattering.
pub(crate) fn combine(left: u128, right: u128) -> u128 {
    left.wrapping_mul(0xda94_2042_e4dd_58b5_2545_f491_4f6c_dd1d).rotate_left(41) ^ right
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the bytes are cut, the same bytes give the same fingerprint, and any other bytes another.
    #[test]
    fn depends_on_the_bytes_alone() {
        let of = |parts: &[&[u8]]| {
            let mut hasher = Fingerprint::new();
            parts.iter().for_each(|part| hasher.write(part));
            hasher.finish128()
        };
        let bytes: std::vec::Vec<u8> = (0..40).collect();
        let whole = of(&[&bytes]);
        for (first, second) in (0..40).flat_map(|first| (first..40).map(move |second| (first, second))) {
            assert_eq!(of(&[&bytes[..first], &bytes[first..second], &bytes[second..]]), whole);
        }
        let prefixes: std::collections::BTreeSet<u128> = (0..=40).map(|len| of(&[&bytes[..len]])).collect();
        assert_eq!(prefixes.len(), 41);
        let mut flipped = bytes.clone();
        for bit in 0..320 {
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of(&[&flipped]), whole);
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
