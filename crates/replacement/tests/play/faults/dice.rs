//! Chance, the same everywhere.

/// xorshift64*.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % below
    }

    pub(super) fn often(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    pub(super) fn late(&mut self, ms_max: i64) -> i64 {
        i64::try_from(self.roll(u64::try_from(ms_max).unwrap())).unwrap()
    }
}
