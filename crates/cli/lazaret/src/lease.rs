//! How replicas of one process agree on which of them acts.

use std::{env, fs, path::Path};

use anyhow::{Result, ensure};
use lazaret_controllers::Rivals;
use lazaret_runtime::LeaseOptions;

/// A pod finds its own namespace here.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The Lease of which of several replicas holds one.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LeaseArgs {
    /// The name to hold leases under, another one in each replica [default: host name and process]
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// Where leases are kept [default: the namespace of this pod, outside of a cluster kube-system]
    #[arg(long, value_name = "NAME")]
    lease_namespace: Option<String>,
    /// How long a lease lasts after its last renewal, and so how soon a replica that was killed is followed. A leader whose renewals are slow writes a longer one, up to 15
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=3_600))]
    lease_duration_seconds: u16,
    /// A leader that could not renew its lease for so long stops; less than --lease-duration-seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0.75)]
    lease_renew_deadline_seconds: f64,
    /// Between two tries and two renewals; less than --lease-renew-deadline-seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0.25)]
    lease_retry_seconds: f64,
}

impl LeaseArgs {
    pub(crate) fn rivals(&self) -> Result<Rivals> {
        let lease = LeaseOptions {
            duration_ms: i64::from(self.lease_duration_seconds) * 1_000,
            renew_deadline_ms: milliseconds(self.lease_renew_deadline_seconds),
            retry_ms: milliseconds(self.lease_retry_seconds),
        };
        ensure!(
            0 < lease.retry_ms
                && lease.retry_ms < lease.renew_deadline_ms
                && lease.renew_deadline_ms < lease.duration_ms,
            "--lease-retry-seconds must be less than --lease-renew-deadline-seconds, and that less than --lease-duration-seconds"
        );
        Ok(Rivals { identity: self.identity.clone().unwrap_or_else(identity), lease })
    }

    /// Where leases are kept, if not in the usual place. `elsewhere`: a kubeconfig names the cluster, which need not be the one of this pod.
    pub(crate) fn namespace(&self, elsewhere: bool) -> Option<String> {
        self.lease_namespace.clone().or_else(|| {
            let in_pod = !elsewhere && env::var_os("KUBERNETES_SERVICE_HOST").is_some();
            in_pod.then(|| read(Path::new(POD_NAMESPACE))).flatten()
        })
    }
}

fn read(file: &Path) -> Option<String> {
    // Outside of a pod there is no such file.
    let text = fs::read_to_string(file).ok()?;
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Seconds as typed; nonsense is 0 and refused as too short.
#[allow(clippy::cast_possible_truncation, reason = "within an hour, or cut off at it")]
fn milliseconds(seconds: f64) -> i64 {
    const HOUR_MS: f64 = 3_600_000.0;
    (seconds * 1_000.0).clamp(0.0, HOUR_MS) as i64
}

fn identity() -> String {
    let host = env::var("HOSTNAME").ok().or_else(|| fs::read_to_string("/etc/hostname").ok());
    format!("{}_{}", host.as_deref().map_or("lazaret", str::trim), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(duration: u16, renew: f64, retry: f64) -> LeaseArgs {
        LeaseArgs {
            identity: Some("a".into()),
            lease_namespace: None,
            lease_duration_seconds: duration,
            lease_renew_deadline_seconds: renew,
            lease_retry_seconds: retry,
        }
    }

    /// A replica that was killed right after a renewal is followed within the lease and one look at it, less than 2 s.
    #[test]
    fn by_default_a_replica_that_was_killed_is_followed_within_2_s() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            lease: LeaseArgs,
        }
        let line = <Line as clap::Parser>::parse_from(["run"]);
        let lease = line.lease.rivals().unwrap().lease;
        assert_eq!(
            lease,
            LeaseOptions { duration_ms: 1_000, renew_deadline_ms: 750, retry_ms: 250 },
            "as the chart has them"
        );
        assert!(lease.duration_ms + lease.retry_ms <= 1_500);
        // One renewal may get lost.
        assert!(2 * lease.retry_ms < lease.renew_deadline_ms);
    }

    #[test]
    fn times_that_let_two_lead_are_refused() {
        let defaults = args(15, 10.0, 2.0).rivals().unwrap();
        assert_eq!(defaults, Rivals { identity: "a".into(), lease: LeaseOptions::default() });
        assert_eq!(args(1, 0.7, 0.2).rivals().unwrap().lease.renew_deadline_ms, 700);
        for (duration, renew, retry) in
            [(15, 15.0, 2.0), (15, 10.0, 10.0), (15, 10.0, 0.0), (15, f64::NAN, 1.0), (15, 10.0, -1.0)]
        {
            assert!(args(duration, renew, retry).rivals().is_err(), "{duration} {renew} {retry}");
        }
    }

    #[test]
    fn the_namespace_is_the_pods_own_unless_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("namespace");
        assert_eq!(read(&file), None);
        fs::write(&file, "lazaret-system\n").unwrap();
        assert_eq!(read(&file).as_deref(), Some("lazaret-system"));
        let named = LeaseArgs { lease_namespace: Some("here".into()), ..args(15, 10.0, 2.0) };
        assert_eq!(named.namespace(true).as_deref(), Some("here"));
        assert_eq!(args(15, 10.0, 2.0).namespace(true), None);
    }
}
