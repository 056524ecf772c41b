//! Rows about objects that cannot be read.

use super::{
    check::{Check, State, check},
    cluster::Cluster,
    unread::Unread,
};

/// Objects that get a row of their own at most.
const ROWS_MAX: usize = 20;

/// A row for each object that cannot be read; one row that says so where all can be.
#[must_use]
pub fn unread_checks(cluster: &Cluster) -> Vec<Check> {
    let unread = &cluster.unreadable;
    let section = "devices";
    if unread.is_empty() {
        return vec![check(section, "every object could be read", State::Ok, String::new(), "")];
    }
    let hint = "what it holds is kept until then: write the object so that it can be read, or delete it";
    let row = |one: &Unread| {
        let name = format!("{} {} cannot be read", one.kind, one.name);
        check(section, name.trim(), State::Failed, format!("{}; kept: {}", one.why, one.kept), hint)
    };
    let mut rows: Vec<Check> = unread.iter().take(ROWS_MAX).map(row).collect();
    if let more @ 1.. = unread.len().saturating_sub(ROWS_MAX) {
        rows.push(check(
            section,
            &format!("{more} more objects cannot be read"),
            State::Failed,
            String::new(),
            hint,
        ));
    }
    rows
}
