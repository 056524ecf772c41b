//! Whose requests go first.

/// How important a request is; each level has seats of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Administrators: never waits and is never counted.
    Exempt,
    /// Health checks, from any client.
    Health,
    /// Leases of nodes and system controllers.
    LeaderElection,
    /// Nodes and system controllers.
    System,
    /// Everybody else with a name.
    Workload,
    /// Requests without credentials.
    Anonymous,
}

/// The properties of a request that decide its level.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a, G> {
    /// The user's name.
    pub name: &'a str,
    /// The user's groups.
    pub groups: &'a [G],
    /// The request is a health check.
    pub health: bool,
    /// The request is about a lease.
    pub lease: bool,
}

const MASTERS: &str = "system:masters";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const NODES: &str = "system:nodes";
const KUBE_SYSTEM_ACCOUNTS: &str = "system:serviceaccounts:kube-system";
const ACCOUNT: &str = "system:serviceaccount:";

impl Level {
    /// All of them, the most important first.
    pub const ALL: [Self; 6] =
        [Self::Exempt, Self::Health, Self::LeaderElection, Self::System, Self::Workload, Self::Anonymous];

    /// The level of a request.
    #[must_use]
    pub fn of<G: AsRef<str>>(caller: &Caller<'_, G>) -> Self {
        let in_group = |group: &str| caller.groups.iter().any(|one| one.as_ref() == group);
        if in_group(MASTERS) {
            return Self::Exempt;
        }
        if caller.health {
            return Self::Health;
        }
        if in_group(UNAUTHENTICATED) {
            return Self::Anonymous;
        }
        let component = caller.name.starts_with("system:") && !caller.name.starts_with(ACCOUNT);
        if component || in_group(NODES) || in_group(KUBE_SYSTEM_ACCOUNTS) {
            return if caller.lease { Self::LeaderElection } else { Self::System };
        }
        Self::Workload
    }

    /// As metrics and messages name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::Health => "health",
            Self::LeaderElection => "leader-election",
            Self::System => "system",
            Self::Workload => "workload",
            Self::Anonymous => "anonymous",
        }
    }

    /// Its place in a table with a row for each level.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Exempt => 0,
            Self::Health => 1,
            Self::LeaderElection => 2,
            Self::System => 3,
            Self::Workload => 4,
            Self::Anonymous => 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_groups_and_paths_choose_the_level() {
        let rows: &[(&str, &[&str], bool, bool, Level)] = &[
            ("admin", &["system:masters"], false, false, Level::Exempt),
            ("admin", &["system:masters"], true, false, Level::Exempt),
            ("system:anonymous", &["system:unauthenticated"], true, false, Level::Health),
            ("alice", &["system:authenticated"], true, false, Level::Health),
            ("system:anonymous", &["system:unauthenticated"], false, false, Level::Anonymous),
            ("system:node:a", &["system:nodes"], false, false, Level::System),
            ("system:node:a", &["system:nodes"], false, true, Level::LeaderElection),
            ("system:kube-scheduler", &["system:authenticated"], false, false, Level::System),
            (
                "system:serviceaccount:kube-system:a",
                &["system:serviceaccounts:kube-system"],
                false,
                false,
                Level::System,
            ),
            ("system:serviceaccount:lab:a", &["system:serviceaccounts:lab"], false, false, Level::Workload),
            ("system:serviceaccount:lab:a", &["system:serviceaccounts:lab"], false, true, Level::Workload),
            ("alice", &["system:authenticated"], false, true, Level::Workload),
        ];
        for (name, groups, health, lease, level) in rows {
            let caller = Caller { name, groups, health: *health, lease: *lease };
            assert_eq!(Level::of(&caller), *level, "{caller:?}");
        }
    }

    #[test]
    fn every_level_has_its_place() {
        for (at, level) in Level::ALL.into_iter().enumerate() {
            assert_eq!(level.index(), at);
        }
    }
}
