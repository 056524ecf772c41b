//! Processes as `/proc` shows them.

use std::fs;

/// When a process began, in ticks since boot: with its id, that is which process it is.
pub(crate) fn born_at(pid: u32) -> Option<u64> {
    stat(pid)?.get(19)?.parse().ok()
}

/// The fields of `/proc/PID/stat` after the name, which may have spaces and parentheses of its own.
pub(crate) fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split(' ').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_began_once() {
        let own = std::process::id();
        assert!(born_at(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(born_at(own), born_at(own));
        assert_eq!(born_at(u32::MAX), None);
    }
}
