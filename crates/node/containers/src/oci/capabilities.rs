//! Which capabilities a container has.

use crate::Security;

/// Those of a container that asks for nothing, as containerd and Docker have them.
const DEFAULT: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// All that Linux has, in the order of their numbers.
const ALL: &[&str] = &[
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// The capabilities of a container as OCI writes them. `held` is the mask of those that can be handed on: a runtime
/// refuses a container that asks for one that the runtime itself does not have.
pub(super) fn of(security: &Security, held: u64) -> Vec<String> {
    let named = |list: &[String], name: &str| {
        list.iter().any(|entry| {
            let entry = entry.to_ascii_uppercase();
            let entry = entry.strip_prefix("CAP_").unwrap_or(&entry);
            entry == "ALL" || entry == name
        })
    };
    let has = |name: &str| {
        security.privileged
            || named(&security.add_capabilities, name)
            || (DEFAULT.contains(&name) && !named(&security.drop_capabilities, name))
    };
    let is_held = |number: usize| held >> number & 1 == 1;
    ALL.iter()
        .enumerate()
        .filter(|(number, name)| has(name) && is_held(*number))
        .map(|(_, name)| format!("CAP_{name}"))
        .collect()
}

/// The mask of this process' own bounding set.
pub(super) fn held() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn security(add: &[&str], drop: &[&str]) -> Security {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Security { add_capabilities: list(add), drop_capabilities: list(drop), ..Security::default() }
    }

    #[test]
    fn what_is_added_wins_over_what_is_dropped() {
        assert_eq!(of(&security(&[], &[]), u64::MAX).len(), DEFAULT.len());
        assert_eq!(of(&security(&[], &["ALL"]), u64::MAX), [""; 0]);
        assert_eq!(of(&security(&["CAP_NET_ADMIN"], &["ALL"]), u64::MAX), ["CAP_NET_ADMIN"]);
        assert_eq!(of(&security(&["all"], &[]), u64::MAX).len(), ALL.len());
        assert_eq!(of(&security(&[], &["kill"]), u64::MAX).len(), DEFAULT.len() - 1);
    }

    #[test]
    fn what_this_process_lacks_is_not_asked_for() {
        let privileged = Security { privileged: true, ..Security::default() };
        let all = of(&privileged, !(1 << 24));
        assert!(!all.contains(&"CAP_SYS_RESOURCE".to_owned()));
        assert_eq!(all.len(), ALL.len() - 1);
    }

    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!(ALL.iter().position(|name| *name == "SYS_ADMIN"), Some(21));
        assert_eq!(ALL.iter().position(|name| *name == "SYS_RESOURCE"), Some(24));
        assert_eq!(ALL.iter().position(|name| *name == "CHECKPOINT_RESTORE"), Some(40));
    }
}
