//! Which of several replicas publishes: the one that holds a Lease.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff,
};
use kube::{Api, api::PostParams};
use lazaret_model::Timestamp;
use tokio::{sync::watch, time::timeout};
use tracing::{debug, info, warn};

use crate::{Publisher, api_words::api_words, clock::Clock, term::Term};

/// How long a Lease that is not renewed keeps others away, unless said otherwise. As in the Go helper.
const LEASE: Duration = Duration::from_secs(15);
/// The shortest: times in a Lease are whole seconds.
const LEASE_MIN: Duration = Duration::from_secs(1);
/// The longest time between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The longest. A replica that is gone is replaced within an hour at the latest.
const LEASE_MAX: Duration = Duration::from_secs(3_600);

/// Replicas of a driver of which one publishes, with [`Kit::leader_election`](crate::Kit::leader_election).
#[derive(Clone, Debug)]
pub struct LeaderElection {
    namespace: String,
    name: String,
    identity: String,
    lease: Duration,
}

impl LeaderElection {
    /// By this Lease. The identity is that of this replica: the name of its pod.
    #[must_use]
    pub fn new(namespace: impl Into<String>, lease: impl Into<String>, identity: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: lease.into(), identity: identity.into(), lease: LEASE }
    }

    /// How long a Lease that is not renewed keeps others away; 15 s unless said otherwise, 1 s to 1 h. The same for all
    /// replicas: each renews it, or tries to get it, three times within this time, and at least every 5 s.
    #[must_use]
    pub fn lease_duration(self, lease: Duration) -> Self {
        Self { lease: lease.clamp(LEASE_MIN, LEASE_MAX), ..self }
    }

    /// Between two attempts, and for one.
    fn retry(&self) -> Duration {
        (self.lease / 3).min(RETRY_MAX)
    }

    /// After the last renewal this replica stops, before another one may begin.
    fn term(&self) -> Duration {
        self.lease * 2 / 3
    }
}

/// A Lease, as far as other replicas read it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    holder: String,
    renewed: Option<MicroTime>,
    transitions: i32,
}

/// One of several replicas. Times of others are not trusted: a Lease has expired when it was not changed for its duration.
#[derive(Debug)]
struct Candidate {
    election: LeaderElection,
    seen: Option<(Record, Timestamp)>,
    leads_until: Option<Timestamp>,
}

impl Candidate {
    /// Whether the Lease may be taken or renewed.
    fn may_take(&mut self, now: Timestamp, record: Option<&Record>) -> bool {
        let Some(record) = record else { return true };
        if record.holder.is_empty() || record.holder == self.election.identity {
            return true;
        }
        match &self.seen {
            Some((seen, at)) if seen == record => now.millis_since(*at) >= millis(self.election.lease),
            Some(_) | None => {
                self.seen = Some((record.clone(), now));
                false
            }
        }
    }

    /// The Lease was written. It counts from before the request was sent, and ends before another replica may take it.
    fn taken(&mut self, asked: Timestamp) {
        self.leads_until = Some(asked.plus_millis(millis(self.election.term())));
    }

    fn leads(&self, now: Timestamp) -> bool {
        self.leads_until.is_some_and(|until| now < until)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Lets the publisher write while this replica holds the Lease. Gives it up when the driver ends.
pub(crate) async fn lead(
    client: kube::Client,
    election: LeaderElection,
    clock: Clock,
    (publisher, term): (Publisher, Term),
    mut closing: watch::Receiver<bool>,
) {
    let api: Api<Lease> = Api::namespaced(client, &election.namespace);
    let (retry, mut led) = (election.retry(), false);
    let mut candidate = Candidate { election, seen: None, leads_until: None };
    loop {
        let asked = clock.now();
        // The pause before it and an attempt are together no longer than a term. Where this comes back late, writes end by the term itself.
        match timeout(retry, attempt(&api, &mut candidate, asked)).await {
            Ok(Ok(true)) => candidate.taken(asked),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                warn!(why = api_words(&error), lease = candidate.election.name, "read or write the Lease")
            }
            Err(_) => warn!(lease = candidate.election.name, "read or write the Lease: no answer"),
        }
        let leads = candidate.leads(clock.now());
        term.set(candidate.leads_until);
        if leads != led {
            info!(lease = candidate.election.name, leads, "which replica publishes has changed");
            led = leads;
            if leads { publisher.resume() } else { publisher.pause() }
        }
        tokio::select! {
            () = clock.sleep_until(Some(asked.plus_millis(millis(retry)))) => {}
            // Also when the sender is gone.
            _ = closing.wait_for(|is_closing| *is_closing) => break,
        }
    }
    term.set(None);
    publisher.pause();
    if led && !matches!(timeout(retry, give_up(&api, &candidate.election)).await, Ok(Ok(()))) {
        debug!(lease = candidate.election.name, "the Lease is not given up: it ends by itself");
    }
}

/// Lets the next one begin at once.
async fn give_up(api: &Api<Lease>, election: &LeaderElection) -> Result<(), kube::Error> {
    let mut lease = api.get(&election.name).await?;
    let spec = lease.spec.get_or_insert_default();
    if spec.holder_identity.as_ref() == Some(&election.identity) {
        spec.holder_identity = Some(String::new());
        api.replace(&election.name, &PostParams::default(), &lease).await?;
    }
    Ok(())
}

/// Takes or renews the Lease, if that is allowed; whether it was.
async fn attempt(api: &Api<Lease>, candidate: &mut Candidate, now: Timestamp) -> Result<bool, kube::Error> {
    let name = candidate.election.name.clone();
    let found = api.get_opt(&name).await?;
    let record = found.as_ref().and_then(|lease| lease.spec.as_ref()).map(record);
    if found.is_some() && !candidate.may_take(now, record.as_ref()) {
        return Ok(false);
    }
    let lease = claimed(&candidate.election, found, now);
    let written = match &lease.metadata.resource_version {
        None => api.create(&PostParams::default(), &lease).await,
        Some(_) => api.replace(&name, &PostParams::default(), &lease).await,
    };
    match written {
        Ok(_) => Ok(true),
        // Another one was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            debug!(lease = name, "another replica has changed the Lease");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn record(spec: &LeaseSpec) -> Record {
    Record {
        holder: spec.holder_identity.clone().unwrap_or_default(),
        renewed: spec.renew_time.clone(),
        transitions: spec.lease_transitions.unwrap_or(0),
    }
}

/// The Lease, held by this replica.
fn claimed(election: &LeaderElection, found: Option<Lease>, now: Timestamp) -> Lease {
    let mut lease = found.unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(election.name.clone()),
            namespace: Some(election.namespace.clone()),
            ..ObjectMeta::default()
        },
        ..Lease::default()
    });
    let time = jiff::Timestamp::from_millisecond(now.as_millis()).ok().map(MicroTime);
    let mut spec = lease.spec.take().unwrap_or_default();
    if spec.holder_identity.as_ref() != Some(&election.identity) {
        let before = spec.lease_transitions.unwrap_or(-1);
        spec.lease_transitions = Some(before.saturating_add(1));
        spec.acquire_time.clone_from(&time);
        spec.holder_identity = Some(election.identity.clone());
    }
    spec.lease_duration_seconds = Some(i32::try_from(election.lease.as_secs()).unwrap_or(i32::MAX));
    spec.renew_time = time;
    lease.spec = Some(spec);
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two candidates and a Lease, in steps of one millisecond by two clocks that differ: they never lead at the same time,
    /// whatever answers are lost, and when the one is gone the other leads.
    #[test]
    fn no_two_lead_at_a_time_and_one_that_is_gone_is_replaced() {
        let election =
            |name: &str| LeaderElection::new("n", "l", name).lease_duration(Duration::from_secs(3));
        let mut led = [0; 2];
        for seed in 1..200_u64 {
            let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut roll = |sides: u64| {
                dice ^= dice << 13;
                dice ^= dice >> 7;
                dice ^= dice << 17;
                dice % sides
            };
            let new = |name| Candidate { election: election(name), seen: None, leads_until: None };
            let mut all = [new("a"), new("b")];
            let ahead = [0, 86_400_000];
            let mut lease: Option<Lease> = None;
            let mut next = [0_i64; 2];
            for at in 0..60_000_i64 {
                let is_gone = at > 40_000;
                for who in 0..2 {
                    if at < next[who] || (is_gone && who == 0) {
                        continue;
                    }
                    next[who] = at + 1_000;
                    let now = Timestamp::from_millis(at + ahead[who]);
                    let found = lease.as_ref().and_then(|lease| lease.spec.as_ref()).map(record);
                    if !all[who].may_take(now, found.as_ref()) {
                        continue;
                    }
                    // The write is lost, or its answer is, or neither.
                    let lost = roll(4);
                    if lost != 0 {
                        lease = Some(claimed(&all[who].election, lease.take(), now));
                    }
                    if lost > 1 {
                        all[who].taken(now);
                    }
                }
                let leads = [0, 1].map(|who| all[who].leads(Timestamp::from_millis(at + ahead[who])));
                assert_ne!(leads, [true, true], "seed {seed} at {at}");
                for who in 0..2 {
                    led[who] += i64::from(leads[who] && (who == 0) != is_gone);
                }
            }
        }
        // Of 199 worlds, half of whose answers are lost: most of the time a replica leads, the second after the first is gone.
        assert!(led[0] > 199 * 20_000 && led[1] > 199 * 10_000, "{led:?}");
    }
}
