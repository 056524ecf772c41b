//! How long ago, in as few characters as kubectl.

use lazaret_model::{Timestamp, human_duration};

/// `3d4h`, `12m`, `8s`: how long it is since `then`.
#[must_use]
pub fn age(then: Timestamp, now: Timestamp) -> String {
    human_duration(now.millis_since(then).max(0) / 1000)
}

/// `12m ago`, or `at an unknown time`.
#[must_use]
pub fn ago(then: Option<Timestamp>, now: Timestamp) -> String {
    then.map_or_else(|| "at an unknown time".to_owned(), |then| format!("{} ago", age(then, now)))
}
