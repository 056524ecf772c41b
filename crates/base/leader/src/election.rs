//! A candidate for a Lease on two clocks, and the notifications about its terms.

use alloc::string::{String, ToString};

use lazaret_model::Timestamp;

use crate::{Candidate, LeaseAction, LeaseOptions, LeaseRecord, Term};

/// A holder looks at its lease at least as often: a term may end before there is anything to do.
const LOOK_MS: i64 = 500;

/// The readings of both clocks. Durations are measured by the monotonic one; but it stands still while the machine is suspended,
/// and the lease does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// The clock that only counts.
    pub monotonic: Timestamp,
    /// The clock that can be set.
    pub wall: Timestamp,
}

/// A term, and when it ends at the latest by the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    term: Term,
    ends: Timestamp,
}

impl Held {
    /// The number of its term.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.term.number
    }

    /// Whether the process may act.
    #[must_use]
    pub fn lasts(&self, at: Instants) -> bool {
        self.term.lasts(at.monotonic) && at.wall < self.ends
    }

    /// Whether it may act, or may act again once a renewal that is late succeeds.
    #[must_use]
    pub fn may_go_on(&self, at: Instants) -> bool {
        self.term.may_go_on(at.monotonic)
    }
}

/// A Lease to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseWrite {
    /// Its holder; empty: it is given back.
    pub holder: String,
    /// How long it lasts.
    pub duration_ms: i64,
    /// How often it changed hands.
    pub transitions: i64,
    /// Only if it is still at this version; empty: it is created.
    pub resource_version: String,
    /// Whether it changes hands.
    pub acquires: bool,
    /// When this was decided: it is sent at once.
    pub sent: Instants,
    /// When the wall clock ends the term.
    ends: Timestamp,
}

/// The next thing to do about a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionStep {
    /// Read it. `newest`: as the server has it now. A candidate that waits is content with what the server remembers, for a lease is replaced only at
    /// the version that was read.
    Read {
        /// Not from a cache.
        newest: bool,
    },
    /// Write it.
    Write(LeaseWrite),
    /// Nothing before this instant of the monotonic clock.
    Wait(Timestamp),
}

/// A notification about a term, for the agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermNotice {
    /// The term.
    pub held: Option<Held>,
    /// It is another term than in the last notification.
    pub is_another: bool,
    /// The agents are woken. A renewal that is in time wakes none.
    pub wakes: bool,
}

/// Competes for one Lease.
#[derive(Debug)]
pub struct Election {
    candidate: Candidate,
    /// When the wall clock ends the term.
    ends: Timestamp,
    told: Option<Held>,
}

impl Election {
    /// A candidate that holds nothing.
    #[must_use]
    pub fn new(identity: &str, options: LeaseOptions) -> Self {
        let candidate = Candidate::new(identity, options);
        Self { candidate, ends: Timestamp::EPOCH, told: None }
    }

    /// The same, which does not act before writes of a holder that did not give the lease back have ended.
    #[must_use]
    pub fn waiting_out(self, flight_ms: i64) -> Self {
        Self { candidate: self.candidate.waiting_out(flight_ms), ..self }
    }

    /// Its name.
    #[must_use]
    pub fn identity(&self) -> &str {
        self.candidate.identity()
    }

    /// An answer that comes later than this is of no use.
    #[must_use]
    pub fn patience_ms(&self) -> i64 {
        self.candidate.renew_deadline_ms().max(0)
    }

    /// Whether it has the lease; it need not act yet.
    #[must_use]
    pub fn holds(&self, at: Instants) -> bool {
        self.candidate.holds(at.monotonic)
    }

    /// The term of the last notification.
    #[must_use]
    pub const fn told(&self) -> Option<Held> {
        self.told
    }

    /// Time has passed: a term ends with the wall clock, though the monotonic one may not show it.
    pub fn pass(&mut self, at: Instants) {
        if self.holds(at) && at.wall >= self.ends {
            self.candidate.lapse();
        }
    }

    /// The notification that is due now.
    pub fn tell(&mut self, at: Instants) -> TermNotice {
        let held = self.candidate.standing(at.monotonic).map(|term| Held { term, ends: self.ends });
        let before = core::mem::replace(&mut self.told, held);
        let is_another = before.map(|held| held.number()) != held.map(|held| held.number());
        // The agents may have seen that the renewal was late, and wait.
        let was_late = before.is_some_and(|held| !held.lasts(at));
        TermNotice {
            held,
            is_another,
            wakes: is_another || was_late && held.is_some_and(|held| held.lasts(at)),
        }
    }

    /// The next step.
    #[must_use]
    pub fn next(&self, at: Instants) -> ElectionStep {
        match self.candidate.next(at.monotonic) {
            LeaseAction::Read => {
                ElectionStep::Read { newest: self.candidate.standing(at.monotonic).is_some() }
            }
            LeaseAction::Write { transitions, resource_version, acquire } => {
                let holder = self.identity().to_string();
                ElectionStep::Write(self.write(at, holder, transitions, resource_version, acquire))
            }
            LeaseAction::Wait(until) if self.holds(at) => {
                ElectionStep::Wait(until.min(at.monotonic.plus_millis(LOOK_MS)))
            }
            LeaseAction::Wait(until) => ElectionStep::Wait(until),
        }
    }

    fn write(
        &self,
        at: Instants,
        holder: String,
        transitions: i64,
        version: String,
        acquires: bool,
    ) -> LeaseWrite {
        LeaseWrite {
            holder,
            duration_ms: self.candidate.duration_ms(),
            transitions,
            resource_version: version,
            acquires,
            sent: at,
            ends: at.wall.plus_millis(self.candidate.renew_deadline_ms()),
        }
    }

    /// The lease was read; `None`: there is none.
    pub fn read(&mut self, at: Instants, record: Option<LeaseRecord>) {
        self.candidate.read(at.monotonic, record);
    }

    /// The lease could not be read.
    pub fn not_read(&mut self, at: Instants) {
        self.candidate.failed(at.monotonic);
    }

    /// The lease was written; this is what it says.
    pub fn written(&mut self, at: Instants, write: &LeaseWrite, record: LeaseRecord) {
        self.candidate.written(write.sent.monotonic, at.monotonic, record);
        self.ends = write.ends;
    }

    /// The lease was not written, or it is not known whether it was.
    pub fn not_written(&mut self, write: &LeaseWrite) {
        self.candidate.failed(write.sent.monotonic);
    }

    /// The task that competes panicked. It does not know whether it wrote: it leads no more before it has read the lease again.
    pub fn panicked(&mut self) {
        self.candidate.lapse();
    }

    /// Ends: the write that gives the lease back, if it has it. If that fails, the next holder waits until the lease is over.
    pub fn release(&mut self, at: Instants) -> Option<LeaseWrite> {
        let step = self.holds(at).then(|| self.candidate.next(Timestamp::from_millis(i64::MAX)));
        self.told = None;
        self.candidate.released();
        match step? {
            LeaseAction::Write { transitions, resource_version, .. } => {
                Some(self.write(at, String::new(), transitions, resource_version, false))
            }
            // It holds the lease at a version that it is not sure of.
            LeaseAction::Read | LeaseAction::Wait(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic: i64, wall: i64) -> Instants {
        Instants { monotonic: Timestamp::from_millis(monotonic), wall: Timestamp::from_millis(wall) }
    }

    fn same(ms: i64) -> Instants {
        at(ms, 1_000_000 + ms)
    }

    fn record(write: &LeaseWrite, version: &str) -> LeaseRecord {
        LeaseRecord {
            holder: write.holder.clone(),
            duration_ms: write.duration_ms,
            renewed: version.into(),
            transitions: write.transitions,
            resource_version: version.into(),
        }
    }

    fn write(election: &Election, at: Instants) -> LeaseWrite {
        let ElectionStep::Write(write) = election.next(at) else { panic!("it may write") };
        write
    }

    /// Holds the lease since 0, by the wall clock since 1,000,000.
    fn holder() -> Election {
        let mut me = Election::new("me", LeaseOptions::default());
        assert_eq!(me.next(same(0)), ElectionStep::Read { newest: false });
        me.read(same(0), None);
        let first = write(&me, same(0));
        assert_eq!((&*first.resource_version, first.acquires), ("", true));
        me.written(same(5), &first, record(&first, "1"));
        me
    }

    #[test]
    fn a_term_is_told_once_and_again_when_a_late_renewal_succeeds() {
        let mut me = holder();
        let tell = me.tell(same(5));
        assert!(tell.is_another && tell.wakes && tell.held.is_some_and(|held| held.lasts(same(9_999))));
        assert!(!me.tell(same(6)).wakes);
        let renewal = write(&me, same(2_000));
        me.written(same(2_010), &renewal, record(&renewal, "2"));
        assert!(!me.tell(same(2_010)).wakes, "a renewal in time");
        // The next answer comes only after the deadline.
        let late = write(&me, same(11_000));
        let paused = me.tell(same(12_500)).held.unwrap();
        assert!(!paused.lasts(same(12_500)) && paused.may_go_on(same(12_500)));
        me.written(same(13_000), &late, record(&late, "3"));
        let tell = me.tell(same(13_000));
        assert!(tell.wakes && !tell.is_another, "those who waited go on in the same term");
    }

    #[test]
    fn a_wall_clock_that_has_passed_the_end_ends_the_term() {
        let mut me = holder();
        me.tell(same(5));
        // The machine was suspended for an hour: only the wall clock shows it.
        let awake = at(100, 1_000_100 + 3_600_000);
        assert!(!me.told().unwrap().lasts(awake));
        me.pass(awake);
        let tell = me.tell(awake);
        assert!(tell.is_another && tell.wakes && tell.held.is_none());
        assert_eq!(me.next(at(2_000, awake.wall.as_millis() + 1_900)), ElectionStep::Read { newest: false });
    }

    #[test]
    fn a_wall_clock_that_is_set_back_lengthens_nothing() {
        let me = holder();
        let tell = holder().tell(same(5)).held.unwrap();
        let back = |ms: i64| at(ms, ms - 3_600_000);
        assert!(tell.lasts(back(9_999)) && !tell.lasts(back(10_000)));
        assert!(me.holds(back(9_999)));
    }

    #[test]
    fn a_panic_ends_the_term_until_the_lease_was_read() {
        let mut me = holder();
        me.tell(same(5));
        me.panicked();
        assert!(me.tell(same(10)).held.is_none());
        assert_eq!(me.next(same(2_000)), ElectionStep::Read { newest: false });
    }

    #[test]
    fn a_holder_looks_often_and_gives_the_lease_back() {
        let mut me = holder();
        assert_eq!(me.next(same(5)), ElectionStep::Wait(Timestamp::from_millis(505)));
        let release = me.release(same(600)).unwrap();
        assert_eq!((&*release.holder, &*release.resource_version, release.acquires), ("", "1", false));
        assert!(!me.holds(same(600)) && me.told().is_none());
        assert_eq!(me.release(same(601)), None);
    }
}
