//! Leader election as a state machine over a Lease: `(now, the lease as read) → the lease to write`.
//!
//! A candidate never trusts another machine's clock: a lease is taken over when *this* clock has seen it unchanged for as
//! long as it lasts. A holder stops acting before others may think so. A holder that could not renew in time does nothing until the lease says
//! that it has changed hands, or a renewal succeeds. A renewal that succeeds with as many transitions as before proves that no other
//! candidate has held the lease meanwhile, so its [`Term`] goes on; otherwise, and after a long pause, it leads in a new one.
//!
//! A short lease is followed soon, and lost by a holder whose server is slow. So a holder stretches its lease while renewals are slow or fail: it
//! writes a longer duration, which others go by, and renews less often. Each version of a Lease stands for itself: its holder acts until a part of
//! the duration in it has passed since it was sent, and others replace that very version after all of it has passed since they saw it.

use alloc::string::String;

use lazaret_model::Timestamp;

/// A lease is not stretched beyond this, or its own duration where that is longer: the duration that Kubernetes' own controllers take.
const STRETCHED_MS_MAX: i64 = 15_000;
/// A term that was not renewed in time may go on for this long. After that the view of the cluster is as old as that of a candidate that never led.
const RESUMED_MS_MAX: i64 = STRETCHED_MS_MAX;
/// Renewals in a row that must be quick before a stretched lease gets shorter.
const QUICK_RENEWALS: u32 = 32;

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// How long a lease lasts after its last renewal.
    pub duration_ms: i64,
    /// A holder that could not renew for this long stops leading.
    pub renew_deadline_ms: i64,
    /// Between two tries or renewals.
    pub retry_ms: i64,
}

impl Default for LeaseOptions {
    /// Those of Kubernetes' own controllers.
    fn default() -> Self {
        Self { duration_ms: 15_000, renew_deadline_ms: 10_000, retry_ms: 2_000 }
    }
}

/// A Lease.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LeaseRecord {
    /// The identity of its holder; empty when released.
    pub holder: String,
    /// How long it lasts.
    pub duration_ms: i64,
    /// When it was last renewed, by the holder's clock: compared for change, never for order.
    pub renewed: String,
    /// How often it changed hands.
    pub transitions: i64,
    /// The precondition of a write.
    pub resource_version: String,
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// Read the lease.
    Read,
    /// Write it with this precondition (empty: create it).
    Write {
        /// How often it changed hands.
        transitions: i64,
        /// Only if it is still at this version.
        resource_version: String,
        /// Whether it changes hands.
        acquire: bool,
    },
    /// Nothing before this instant.
    Wait(Timestamp),
}

/// A time in which no other candidate acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Grows with each term of a candidate.
    pub number: u64,
    /// It acts from then on.
    from: Timestamp,
    /// When the last renewal that succeeded was sent.
    renewed: Timestamp,
    /// How long the lease lasts that it wrote.
    duration_ms: i64,
    /// And until then, unless it renews again.
    until: Timestamp,
    /// How often the lease had changed hands when it began.
    transitions: i64,
    /// It does not go on, whatever the lease says.
    is_over: bool,
}

impl Term {
    /// Whether it may act.
    #[must_use]
    pub fn lasts(&self, now: Timestamp) -> bool {
        self.is_held(now) && now >= self.from
    }

    fn is_held(&self, now: Timestamp) -> bool {
        // A clock that went back says nothing about how long ago it was.
        !self.is_over && (self.renewed..self.until).contains(&now)
    }

    /// Whether it acts, or did until a renewal was late: if the lease has not changed hands, it goes on.
    #[must_use]
    pub fn may_go_on(&self, now: Timestamp) -> bool {
        let end = self.until.as_millis().saturating_add(RESUMED_MS_MAX);
        !self.is_over && now >= self.from && (self.renewed..Timestamp::from_millis(end)).contains(&now)
    }
}

/// One who wants to lead.
#[derive(Debug)]
pub struct Candidate {
    identity: String,
    options: LeaseOptions,
    /// How long writes of the last holder may be on their way.
    flight_ms: i64,
    /// The lease as last read, and when this clock first saw it so.
    seen: Option<(LeaseRecord, Timestamp)>,
    /// The last term, over or not; `None` once another was seen to hold the lease.
    term: Option<Term>,
    terms: u64,
    next: Timestamp,
    /// Whether what was seen may be written upon.
    fresh: bool,
    /// By what durations are multiplied: a power of two.
    stretch: i64,
    /// Quick renewals in a row.
    quick: u32,
}

impl Candidate {
    /// A candidate that has not read the lease yet.
    #[must_use]
    pub fn new(identity: impl Into<String>, options: LeaseOptions) -> Self {
        Self {
            identity: identity.into(),
            options,
            flight_ms: 0,
            seen: None,
            term: None,
            terms: 0,
            next: Timestamp::from_millis(i64::MIN),
            fresh: false,
            stretch: 1,
            quick: 0,
        }
    }

    /// The same, which does not act before writes of a holder that did not give the lease back have ended.
    #[must_use]
    pub fn waiting_out(self, flight_ms: i64) -> Self {
        Self { flight_ms, ..self }
    }

    /// How long the next lease that it writes lasts.
    #[must_use]
    pub fn duration_ms(&self) -> i64 {
        self.options.duration_ms.saturating_mul(self.stretch)
    }

    /// How long after sending a renewal it may act on it, and how long it waits for an answer.
    #[must_use]
    pub fn renew_deadline_ms(&self) -> i64 {
        self.options.renew_deadline_ms.saturating_mul(self.stretch)
    }

    /// Its name.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The term in which it may act.
    #[must_use]
    pub fn term(&self, now: Timestamp) -> Option<Term> {
        self.term.filter(|term| term.lasts(now))
    }

    /// The term in which it may act, or may act again once the lease is renewed.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Option<Term> {
        self.term.filter(|term| term.may_go_on(now))
    }

    /// Whether it has the lease; it need not act yet.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        self.term.is_some_and(|term| term.is_held(now))
    }

    /// The next action.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> LeaseAction {
        if now < self.next {
            return LeaseAction::Wait(self.next);
        }
        if !self.fresh {
            return LeaseAction::Read;
        }
        match &self.seen {
            None => LeaseAction::Write { transitions: 0, resource_version: String::new(), acquire: true },
            Some((record, _)) => {
                let mine = record.holder == self.identity;
                LeaseAction::Write {
                    transitions: record.transitions + i64::from(!mine),
                    resource_version: record.resource_version.clone(),
                    acquire: !mine,
                }
            }
        }
    }

    /// The lease was read, as is heard `now`; `None`: there is none. It may have been written after the request was sent, so the time of
    /// the request says nothing about its age.
    pub fn read(&mut self, now: Timestamp, record: Option<LeaseRecord>) {
        self.seen = record.map(|record| match self.seen.take() {
            Some((old, since)) if old.renewed == record.renewed && old.holder == record.holder => {
                (record, since)
            }
            _ => (record, now),
        });
        self.fresh = match &self.seen {
            None => true,
            Some((record, since)) => {
                let age = now.as_millis().saturating_sub(since.as_millis());
                record.holder.is_empty() || record.holder == self.identity || age >= record.duration_ms.max(1)
            }
        };
        if self.seen.as_ref().is_some_and(|(record, _)| record.holder != self.identity) {
            self.term = None;
            (self.stretch, self.quick) = (1, 0);
        }
        if self.fresh {
            self.next = now;
        } else {
            self.pause(now);
        }
    }

    /// The write that was sent at `sent` was done, as is heard `now`; this is what the lease says.
    pub fn written(&mut self, sent: Timestamp, now: Timestamp, record: LeaseRecord) {
        let transitions = record.transitions;
        let is_left = self.seen.as_ref().is_some_and(|(before, _)| !before.holder.is_empty());
        self.seen = Some((record, sent));
        self.fresh = true;
        let after = |at: Timestamp, ms| Timestamp::from_millis(at.as_millis().saturating_add(ms));
        let (until, duration_ms) = (after(sent, self.renew_deadline_ms()), self.duration_ms());
        self.term = Some(match self.term.take() {
            Some(term) if term.transitions == transitions && (term.is_held(now) || term.may_go_on(now)) => {
                Term { renewed: sent, duration_ms, until, ..term }
            }
            lost => {
                self.terms += 1;
                // Its last writes may still be on their way: another would have waited for as long.
                let free = lost.map(|lost| after(lost.renewed, lost.duration_ms));
                let ended = if is_left { after(sent, self.flight_ms) } else { sent };
                let from = free.map_or(ended, |free| free.max(ended));
                Term {
                    number: self.terms,
                    from,
                    renewed: sent,
                    duration_ms,
                    until,
                    transitions,
                    is_over: false,
                }
            }
        });
        self.pause(sent);
        self.measure(now.as_millis().saturating_sub(sent.as_millis()));
    }

    /// A read or write failed. The known record is not trusted for the next write.
    pub fn failed(&mut self, now: Timestamp) {
        self.fresh = false;
        // Another one's lease is not this candidate's to stretch.
        if !self.seen.as_ref().is_some_and(|(record, _)| self.is_anothers(record)) {
            self.lengthen();
        }
        self.pause(now);
    }

    fn is_anothers(&self, record: &LeaseRecord) -> bool {
        !record.holder.is_empty() && record.holder != self.identity
    }

    /// Goes by how long a renewal took. One that takes half of its time may take all of it next time.
    fn measure(&mut self, took_ms: i64) {
        if took_ms.saturating_mul(2) > self.renew_deadline_ms() {
            self.lengthen();
        } else if took_ms.saturating_mul(8) > self.renew_deadline_ms() {
            self.quick = 0;
        } else {
            self.quick = self.quick.saturating_add(1);
            if self.quick >= QUICK_RENEWALS && self.stretch > 1 {
                (self.stretch, self.quick) = (self.stretch / 2, 0);
            }
        }
    }

    fn lengthen(&mut self) {
        self.quick = 0;
        if self.duration_ms().saturating_mul(2) <= STRETCHED_MS_MAX {
            self.stretch *= 2;
        }
    }

    /// The term is over, though `now` may not show it: the machine was suspended, or the candidate does not know what it did last.
    pub fn lapse(&mut self) {
        if let Some(term) = &mut self.term {
            term.is_over = true;
        }
        self.fresh = false;
    }

    /// It was released: it leads no more.
    pub fn released(&mut self) {
        self.term = None;
        self.fresh = false;
    }

    fn pause(&mut self, now: Timestamp) {
        let retry = now.as_millis().saturating_add(self.retry_ms());
        // A candidate that waits for another's lease to expire tries when it does.
        let expiry =
            self.seen.as_ref().filter(|(record, _)| record.holder != self.identity).map(|(record, since)| {
                since
                    .as_millis()
                    .saturating_add(record.duration_ms.max(1))
                    .max(now.as_millis().saturating_add(1))
            });
        self.next = Timestamp::from_millis(expiry.map_or(retry, |expiry| expiry.min(retry)));
    }

    /// Between two tries. A holder that stretches a lease slows other candidates down, too.
    fn retry_ms(&self) -> i64 {
        let others = self.seen.as_ref().filter(|(record, _)| record.holder != self.identity);
        let theirs = others.map_or(1, |(record, _)| {
            record.duration_ms.min(STRETCHED_MS_MAX) / self.options.duration_ms.max(1)
        });
        self.options.retry_ms.saturating_mul(self.stretch.max(theirs).max(1))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn held(holder: &str, renewed: &str) -> LeaseRecord {
        LeaseRecord {
            holder: holder.into(),
            duration_ms: 15_000,
            renewed: renewed.into(),
            transitions: 3,
            resource_version: format!("v-{renewed}"),
        }
    }

    fn leads(candidate: &Candidate, now: Timestamp) -> bool {
        candidate.term(now).is_some()
    }

    fn write(transitions: i64, version: &str, acquire: bool) -> LeaseAction {
        LeaseAction::Write { transitions, resource_version: version.into(), acquire }
    }

    #[test]
    fn the_first_takes_a_lease_that_is_not_there_and_renews_it() {
        let mut me = Candidate::new("me", LeaseOptions::default());
        assert_eq!(me.next(at(0)), LeaseAction::Read);
        me.read(at(0), None);
        assert_eq!(me.next(at(0)), write(0, "", true));
        assert!(!leads(&me, at(0)));
        me.written(at(0), at(0), held("me", "a"));
        assert!(leads(&me, at(0)) && leads(&me, at(9_999)) && !leads(&me, at(10_000)));
        assert_eq!(me.next(at(5)), LeaseAction::Wait(at(2_000)));
        assert_eq!(me.next(at(2_000)), write(3, "v-a", false));
    }

    #[test]
    fn another_ones_lease_is_taken_only_after_it_was_seen_unchanged_for_as_long_as_it_lasts() {
        let mut me = Candidate::new("me", LeaseOptions::default());
        me.read(at(0), Some(held("other", "a")));
        assert_eq!(me.next(at(0)), LeaseAction::Wait(at(2_000)));
        me.read(at(14_000), Some(held("other", "b")));
        me.read(at(28_000), Some(held("other", "b")));
        assert_eq!(me.next(at(28_000)), LeaseAction::Wait(at(29_000)));
        assert_eq!(me.next(at(29_000)), LeaseAction::Read);
        me.read(at(29_000), Some(held("other", "b")));
        assert_eq!(me.next(at(29_000)), write(4, "v-b", true));
    }

    #[test]
    fn a_released_lease_and_ones_own_of_an_earlier_life_are_taken_at_once() {
        for holder in ["", "me"] {
            let mut me = Candidate::new("me", LeaseOptions::default());
            me.read(at(0), Some(held(holder, "a")));
            assert!(matches!(me.next(at(0)), LeaseAction::Write { .. }), "{holder:?}");
        }
    }

    #[test]
    fn who_was_robbed_or_cannot_renew_stops_before_others_start() {
        let mut me = Candidate::new("me", LeaseOptions::default());
        me.read(at(0), None);
        me.written(at(0), at(0), held("me", "a"));
        me.failed(at(2_000));
        assert_eq!(me.next(at(4_000)), LeaseAction::Read);
        assert!(leads(&me, at(4_000)) && !leads(&me, at(10_000)));
        me.read(at(4_000), Some(held("other", "b")));
        assert!(!leads(&me, at(4_000)));
    }

    #[test]
    fn a_term_goes_on_when_a_late_renewal_finds_that_no_other_held_the_lease() {
        let mut me = Candidate::new("me", LeaseOptions::default());
        me.read(at(0), None);
        me.written(at(0), at(0), held("me", "a"));
        me.written(at(2_000), at(2_001), held("me", "b"));
        let number = |me: &Candidate, now| me.term(at(now)).map(|term| term.number);
        assert_eq!(number(&me, 2_001), Some(1));
        // The server answers late.
        assert!(number(&me, 12_000).is_none() && me.standing(at(12_000)).is_some());
        me.written(at(11_000), at(13_000), held("me", "c"));
        assert_eq!(number(&me, 13_000), Some(1));
        // An answer that was lost, too.
        me.failed(at(21_000));
        me.read(at(23_000), Some(held("me", "d")));
        assert!(number(&me, 23_000).is_none());
        me.written(at(23_000), at(23_500), held("me", "e"));
        assert_eq!(number(&me, 23_500), Some(1));
    }

    #[test]
    fn a_candidate_waits_out_the_flight_of_a_holder_that_did_not_give_the_lease_back() {
        let begin = |before: Option<LeaseRecord>, sent: i64| {
            let mut me = Candidate::new("me", LeaseOptions::default()).waiting_out(8_000);
            me.read(at(0), before.clone());
            me.read(at(sent), before);
            me.written(at(sent), at(sent + 1), LeaseRecord { transitions: 4, ..held("me", "z") });
            me
        };
        let mut me = begin(Some(held("other", "a")), 15_000);
        assert!(me.holds(at(15_001)) && !leads(&me, at(15_001)), "it has the lease and does not act");
        for sent in [17_000, 19_000, 21_000] {
            let renewed = format!("{sent}");
            me.written(at(sent), at(sent), LeaseRecord { transitions: 4, ..held("me", &renewed) });
        }
        assert!(!leads(&me, at(22_999)) && leads(&me, at(23_000)), "renewals do not lengthen it");
        assert_eq!(me.term(at(23_000)).map(|term| term.number), Some(1));
        // The last holder let its writes end before it gave the lease back, or there was none.
        assert!(leads(&begin(Some(held("", "a")), 1), at(1)));
        assert!(leads(&begin(None, 1), at(1)));
        // A process of the same name before this one.
        assert!(!leads(&begin(Some(held("me", "a")), 1), at(8_000)));
    }

    #[test]
    fn who_lost_the_lease_and_found_it_again_leads_in_a_new_term_and_not_before_another_could() {
        let mut me = Candidate::new("me", LeaseOptions::default());
        me.read(at(0), None);
        me.written(at(0), at(0), held("me", "a"));
        assert_eq!(me.term(at(1)).map(|term| term.number), Some(1));
        // The process stood still for long.
        assert!(me.standing(at(24_999)).is_some() && me.standing(at(25_000)).is_none());
        me.written(at(25_000), at(25_000), held("me", "b"));
        assert_eq!(me.term(at(25_000)).map(|term| term.number), Some(2));
        // The lease has changed hands twice, and only the numbers tell.
        me.written(at(26_000), at(26_000), LeaseRecord { transitions: 5, ..held("me", "c") });
        assert!(me.holds(at(26_000)) && !leads(&me, at(26_000)), "its last writes may be on their way");
        assert_eq!(me.standing(at(26_000)), None);
        me.written(at(35_000), at(35_000), LeaseRecord { transitions: 5, ..held("me", "d") });
        assert!(!leads(&me, at(39_999)));
        assert_eq!(me.term(at(40_000)).map(|term| term.number), Some(3));
        // A candidate that saw another holder need not wait: the other one has.
        me.read(at(41_000), Some(held("other", "f")));
        assert!(!me.holds(at(41_000)) && me.standing(at(41_000)).is_none());
        me.written(at(41_001), at(41_001), held("me", "g"));
        assert_eq!(me.term(at(41_001)).map(|term| term.number), Some(4));
    }

    #[test]
    fn a_clock_that_is_set_back_ends_a_term() {
        let mut me = Candidate::new("me", LeaseOptions::default());
        me.written(at(5_000), at(5_000), held("me", "a"));
        assert!(leads(&me, at(5_000)) && !leads(&me, at(4_999)));
    }

    #[test]
    fn a_term_that_lapsed_is_followed_by_another_and_not_before_another_candidate_could_lead() {
        let mut me = Candidate::new("me", LeaseOptions::default());
        me.written(at(0), at(0), held("me", "a"));
        me.lapse();
        assert!(!leads(&me, at(1)) && !me.holds(at(1)));
        assert_eq!(me.next(at(2_000)), LeaseAction::Read);
        me.read(at(2_000), Some(held("me", "a")));
        me.written(at(2_000), at(2_000), held("me", "b"));
        me.written(at(10_000), at(10_000), held("me", "c"));
        assert!(!leads(&me, at(14_999)));
        assert_eq!(me.term(at(15_000)).map(|term| term.number), Some(2));
    }
}
