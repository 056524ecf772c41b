//! How long ago, in as few characters as kubectl.

use lazaret_model::Timestamp;

/// `3d4h`, `12m`, `8s`: how long it is since `then`.
#[must_use]
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.millis_since(then).max(0) / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        172_800..691_200 if hours % 24 != 0 => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// `12m ago`, or `at an unknown time`.
#[must_use]
pub fn ago(then: Option<Timestamp>, now: Timestamp) -> String {
    then.map_or_else(|| "at an unknown time".to_owned(), |then| format!("{} ago", age(then, now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_as_kubectl_writes_them() {
        let rows = [
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (130, "2m10s"),
            (600, "10m"),
            (7200, "120m"),
            (11_100, "3h5m"),
            (40_000, "11h"),
            (200_000, "2d7h"),
            (1_000_000, "11d"),
        ];
        for (seconds, text) in rows {
            assert_eq!(age(Timestamp::EPOCH, Timestamp::from_secs(seconds)), text);
        }
    }
}
