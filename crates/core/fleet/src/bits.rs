//! A set of devices of one slice.

/// At most 128 devices are in a slice, so a set of them is one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct DeviceBits(pub(crate) u128);

impl DeviceBits {
    pub(crate) const EMPTY: Self = Self(0);

    /// The first `len` devices.
    pub(crate) fn first(len: usize) -> Self {
        if len >= 128 { Self(u128::MAX) } else { Self((1 << len) - 1) }
    }

    #[inline]
    pub(crate) fn has(self, device: usize) -> bool {
        device < 128 && self.0 >> device & 1 == 1
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn set(&mut self, device: usize, value: bool) {
        if value {
            self.0 |= 1 << device;
        } else {
            self.0 &= !(1 << device);
        }
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let at = rest.trailing_zeros();
            if rest == 0 {
                return None;
            }
            rest &= rest - 1;
            Some(at as usize)
        })
    }
}

impl FromIterator<bool> for DeviceBits {
    fn from_iter<I: IntoIterator<Item = bool>>(iter: I) -> Self {
        let mut bits = Self::EMPTY;
        for (at, value) in (0..128).zip(iter) {
            if value {
                bits.set(at, true);
            }
        }
        bits
    }
}
