//! Seeded randomness.

/// splitmix64.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        usize::try_from(self.draw() % sides.max(1) as u64).unwrap()
    }

    /// True in one of `times`.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }
}
