//! The limits of the front.

use std::time::Duration;

use lazaret_flow::{ConnectionLimits, LedgerLimits, Level, LevelLimits};

/// Connections, if the system permits as many files: each costs some 30 KB.
const CONNECTIONS_MAX: usize = 8_192;
/// Files that are left to the store, its snapshots and other parts of this process.
const RESERVED_FILES: usize = 256;
/// With fewer connections than these an ordinary cluster is in trouble: said when the server starts.
const CONNECTIONS_EXPECTED: usize = 1_024;
const MIB: u64 = 1 << 20;

/// Limits of a server's front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrontLimits {
    pub(crate) connections: ConnectionLimits,
    /// A connection over which nothing was ever asked is closed after this.
    pub(crate) first_request: Duration,
    /// A connection without credentials and without requests is closed after this.
    pub(crate) idle_unidentified: Duration,
    /// The same for everybody else: as in Kubernetes.
    pub(crate) idle: Duration,
    /// A client that takes nothing of what is sent to it for this long is cut: the one answer, or the connection if it takes nothing
    /// at all.
    pub(crate) stall: Duration,
}

impl FrontLimits {
    /// Limits for this process: raises its limit of open files as far as it may, and derives the number of connections from it.
    pub(crate) fn of_this_process() -> Self {
        let files = raise_file_limit().unwrap_or(CONNECTIONS_MAX + RESERVED_FILES);
        let connections = files.saturating_sub(RESERVED_FILES).clamp(16, CONNECTIONS_MAX);
        if connections < CONNECTIONS_EXPECTED {
            tracing::warn!(
                files,
                connections,
                "the limit of open files is low: few connections are possible"
            );
        }
        Self::with_connections(connections)
    }

    pub(crate) fn with_connections(connections: usize) -> Self {
        Self {
            connections: ConnectionLimits::of_total(connections),
            first_request: Duration::from_secs(15),
            idle_unidentified: Duration::from_secs(30),
            idle: Duration::from_secs(90),
            stall: Duration::from_secs(30),
        }
    }
}

// DEVIATION(fixed-flow-control): levels are no objects.
/// Seats of a level. In all 280: a seat is a request that runs or waits for the disk, and lists of 1,000 objects take 10.
pub(crate) fn seats(level: Level) -> LevelLimits {
    let (nominal_seats, guaranteed_seats, seats_max) = match level {
        Level::Exempt => (10, 10, 10),
        Level::Health => (20, 20, 20),
        Level::LeaderElection => (30, 20, 60),
        Level::System => (110, 60, 200),
        Level::Workload => (110, 60, 200),
        Level::Anonymous => (10, 10, 20),
    };
    LevelLimits {
        nominal_seats,
        guaranteed_seats,
        seats_max,
        waiting_per_flow_max: 50,
        waiting_max: 1_000,
        flows_max: 2_000,
        // A quarter of the 60 s after which Kubernetes gives a request up, as there.
        wait_ms_max: 15_000,
    }
}

/// Bytes of bodies that have arrived, or begun to, and are not answered.
pub(crate) fn inbound_bytes(level: Level) -> LedgerLimits {
    let (total, per_user, per_connection) = match level {
        Level::Exempt => (256, 256, 64),
        Level::LeaderElection | Level::System => (32, 8, 8),
        Level::Workload => (64, 16, 8),
        Level::Health | Level::Anonymous => (4, 4, 1),
    };
    bytes(total, per_user, per_connection)
}

/// Bytes of answers that are rendered and not sent.
pub(crate) fn outbound_bytes(level: Level) -> LedgerLimits {
    let (total, per_user, per_connection) = match level {
        Level::Exempt => (256, 256, 64),
        Level::LeaderElection | Level::System => (32, 8, 8),
        Level::Workload => (64, 16, 8),
        Level::Health | Level::Anonymous => (4, 4, 1),
    };
    bytes(total, per_user, per_connection)
}

fn bytes(total: u64, per_user: u64, per_connection: u64) -> LedgerLimits {
    LedgerLimits {
        total: total * MIB,
        per_user: per_user * MIB,
        per_connection: per_connection * MIB,
        first_of_user: 256 << 10,
    }
}

/// Watches that are open.
pub(crate) fn watches(level: Level) -> LedgerLimits {
    let (total, per_user) = match level {
        Level::Exempt => (u64::MAX, u64::MAX),
        Level::LeaderElection | Level::System => (20_000, 2_000),
        Level::Workload => (8_000, 1_000),
        Level::Health | Level::Anonymous => (20, 20),
    };
    LedgerLimits { total, per_user, per_connection: per_user, first_of_user: 1 }
}

/// Raises the limit of open files to the most that this process may have; says how many that is.
#[cfg(unix)]
fn raise_file_limit() -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files cannot be raised");
            limit.current
        }
    };
    // Without a limit there is nothing to derive from.
    current.and_then(|files| usize::try_from(files).ok())
}

#[cfg(not(unix))]
fn raise_file_limit() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_fits_into_what_its_level_is_guaranteed() {
        for level in Level::ALL {
            let limits = seats(level);
            assert!(limits.guaranteed_seats >= lazaret_flow::LIST_SEATS_MAX, "{level:?}");
            assert!(
                limits.guaranteed_seats <= limits.nominal_seats && limits.nominal_seats <= limits.seats_max
            );
        }
    }

    #[test]
    fn connections_leave_files_to_the_store() {
        let limits = FrontLimits::of_this_process();
        assert!(limits.connections.total <= CONNECTIONS_MAX);
        #[cfg(unix)]
        {
            let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            assert_eq!(files.current, files.maximum, "raised");
            let most = files.current.unwrap_or(u64::MAX);
            assert!(limits.connections.total as u64 + RESERVED_FILES as u64 <= most.max(16 + 256));
        }
    }
}
