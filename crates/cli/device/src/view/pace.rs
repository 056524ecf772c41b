//! How fast pods leave.

/// How many pods leave, in pods per 1000 seconds: fractions of a pod a second are whole numbers of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace(u32);

/// Pods a second that nobody can tell from all at once.
const PODS_PER_SECOND_MAX: u32 = 100_000;

impl Pace {
    /// Reads pods a second: `2`, `0.5`, `12.25`.
    ///
    /// # Errors
    /// A sentence that says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no number of pods a second: write it as 2 or 0.5, from 0.001 to {PODS_PER_SECOND_MAX}"
            )
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
            return Err(wrong());
        }
        let whole: u32 = whole.parse().map_err(|_| wrong())?;
        let fraction: u32 = format!("{fraction:0<3}").parse().map_err(|_| wrong())?;
        let pace = whole.checked_mul(1000).and_then(|whole| whole.checked_add(fraction)).ok_or_else(wrong)?;
        if pace == 0 || whole > PODS_PER_SECOND_MAX { Err(wrong()) } else { Ok(Self(pace)) }
    }

    /// The time that this many pods take, in milliseconds; rounded up, so that a pace is never exceeded.
    pub(super) fn millis_of(self, pods: usize) -> i64 {
        let millis =
            u64::try_from(pods).unwrap_or(u64::MAX).saturating_mul(1_000_000).div_ceil(u64::from(self.0));
        i64::try_from(millis).unwrap_or(i64::MAX)
    }

    /// The smallest whole number of pods a second that is no slower, for a rule.
    #[must_use]
    pub fn per_second(self) -> i64 {
        i64::from(self.0.div_ceil(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces() {
        for (text, pods, millis) in
            [("2", 1, 500), ("0.5", 3, 6000), ("3", 1, 334), ("0.001", 1, 1_000_000), ("1.25", 5, 4000)]
        {
            assert_eq!(Pace::parse(text).unwrap().millis_of(pods), millis, "{text}");
        }
        for text in ["", "0", "0.0", "-1", "1e3", ".5", "1.", "0.0001", "99999999999", "inf"] {
            assert!(Pace::parse(text).unwrap_err().contains("pods a second"), "{text}");
        }
        assert_eq!(["0.5", "1", "2.1"].map(|text| Pace::parse(text).unwrap().per_second()), [1, 1, 3]);
    }
}
