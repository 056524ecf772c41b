//! CRC-32 as in Ethernet and zip, eight bytes at a time.

/// Bytes that are looked up at a time.
const STRIDE: usize = 8;

/// The change of a checksum by a byte that 0 to 7 bytes follow.
const TABLES: [[u32; 256]; STRIDE] = tables();

#[allow(clippy::cast_possible_truncation, reason = "numbers below 256")]
const fn tables() -> [[u32; 256]; STRIDE] {
    let mut tables = [[0; 256]; STRIDE];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut after = 1;
    while after < STRIDE {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[after - 1][byte];
            tables[after][byte] = (crc >> 8) ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        after += 1;
    }
    tables
}

/// CRC-32 as in Ethernet and zip, of several pieces.
#[derive(Debug)]
pub(crate) struct Checksum(u32);

impl Default for Checksum {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Checksum {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let (strides, rest) = bytes.as_chunks::<STRIDE>();
        for stride in strides {
            let mut mixed = *stride;
            for (byte, before) in mixed.iter_mut().zip(self.0.to_le_bytes()) {
                *byte ^= before;
            }
            let after = TABLES.iter().rev();
            self.0 = mixed.iter().zip(after).fold(0, |crc, (byte, table)| crc ^ table[usize::from(*byte)]);
        }
        for byte in rest {
            let [low, ..] = self.0.to_le_bytes();
            self.0 = (self.0 >> 8) ^ TABLES[0][usize::from(low ^ byte)];
        }
    }

    pub(crate) fn value(&self) -> u32 {
        !self.0
    }
}

/// Of all these bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut checksum = Checksum::default();
    checksum.add(bytes);
    checksum.value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
        assert_eq!(checksum(b""), 0);
    }

    /// Bit by bit, as the standard describes it.
    fn slowly(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |crc, byte| {
            (0..8)
                .fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
        })
    }

    #[test]
    fn the_checksum_of_any_length_is_that_of_its_bits() {
        let bytes: Vec<u8> = (0..200_u8).map(|number| number.wrapping_mul(37)).collect();
        for length in 0..bytes.len() {
            assert_eq!(checksum(&bytes[..length]), slowly(&bytes[..length]), "{length}");
            let mut pieces = Checksum::default();
            bytes[..length].chunks(1 + length % 13).for_each(|piece| pieces.add(piece));
            assert_eq!(pieces.value(), slowly(&bytes[..length]), "{length} in pieces");
        }
    }
}
