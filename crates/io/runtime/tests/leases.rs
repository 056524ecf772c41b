//! Candidates for one Lease, whose questions and answers take time, on clocks of their own: never two that act.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use lazaret_model::Timestamp;
use lazaret_runtime::{Candidate, Client, Leader, LeaseAction, LeaseOptions, LeaseRecord, Metrics};
use tokio::{sync::watch, task::JoinSet};

const KUBERNETES: LeaseOptions =
    LeaseOptions { duration_ms: 15_000, renew_deadline_ms: 10_000, retry_ms: 2_000 };
const SHORT: LeaseOptions = LeaseOptions { duration_ms: 1_000, renew_deadline_ms: 750, retry_ms: 250 };

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn held(holder: &str, renewed: &str, duration_ms: i64) -> LeaseRecord {
    LeaseRecord {
        holder: holder.into(),
        duration_ms,
        renewed: renewed.into(),
        transitions: 3,
        resource_version: format!("v-{renewed}"),
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i64::try_from(self.0 % u64::try_from(n).unwrap()).unwrap()
    }
}

/// A call in flight: when it was sent, reaches the server and is answered; and the answer, once the server has seen the call.
struct Flight {
    action: LeaseAction,
    duration_ms: i64,
    sent: i64,
    reaches: i64,
    answered: i64,
    answer: Option<Result<Option<LeaseRecord>, ()>>,
}

struct World {
    lease: Option<LeaseRecord>,
    version: u64,
    dice: Dice,
    /// How long a call takes at most, each way.
    delay_ms: i64,
    /// One call in eight gets lost on its way, and another one's answer on its way back.
    is_lossy: bool,
}

impl World {
    fn new(delay_ms: i64, is_lossy: bool, seed: u64) -> Self {
        let dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        Self { lease: None, version: 0, dice, delay_ms, is_lossy }
    }

    fn loses(&mut self) -> bool {
        self.is_lossy && self.dice.roll(8) == 0
    }

    /// Applies a call to the lease, as the server does.
    fn serve(&mut self, identity: &str, flight: &Flight) -> Result<Option<LeaseRecord>, ()> {
        if self.loses() {
            return Err(());
        }
        let answer = match &flight.action {
            LeaseAction::Write { transitions, resource_version, .. } => {
                let current = self.lease.as_ref().map_or("", |lease| &lease.resource_version);
                if current != resource_version {
                    return Err(());
                }
                self.version += 1;
                let version = self.version.to_string();
                self.lease = Some(LeaseRecord {
                    holder: identity.into(),
                    duration_ms: flight.duration_ms,
                    renewed: version.clone(),
                    transitions: *transitions,
                    resource_version: version,
                });
                self.lease.clone()
            }
            LeaseAction::Read | LeaseAction::Wait(_) => self.lease.clone(),
        };
        if self.loses() { Err(()) } else { Ok(answer) }
    }

    /// The server sees what has reached it.
    fn deliver(&mut self, time: i64, identity: &str, flight: &mut Flight) {
        if flight.answer.is_none() && time >= flight.reaches {
            flight.answer = Some(self.serve(identity, flight));
        }
    }

    /// A candidate hears the answer to its last call, or sends the next one. `skew`: how far its clock is ahead.
    fn step(&mut self, time: i64, skew: i64, who: &mut Candidate, slot: &mut Option<Flight>) {
        let now = at(time + skew);
        if let Some(mut flight) = slot.take() {
            self.deliver(time, who.identity(), &mut flight);
            let patience = flight.sent + who.renew_deadline_ms();
            match flight.answer.take() {
                Some(answer) if time >= flight.answered => match (answer, &flight.action) {
                    (Ok(found), LeaseAction::Read) => who.read(now, found),
                    (Ok(Some(written)), _) => who.written(at(flight.sent + skew), now, written),
                    (Ok(None) | Err(()), _) => who.failed(now),
                },
                // The call may still reach the server, but its answer is ignored: it is given up only after it did.
                Some(_) if time >= patience => who.failed(now),
                answer => *slot = Some(Flight { answer, ..flight }),
            }
            return;
        }
        match who.next(now) {
            LeaseAction::Wait(_) => {}
            action @ (LeaseAction::Read | LeaseAction::Write { .. }) => {
                let reaches = time + 1 + self.dice.roll(self.delay_ms);
                let answered = reaches + self.dice.roll(self.delay_ms);
                let duration_ms = who.duration_ms();
                *slot = Some(Flight { action, duration_ms, sent: time, reaches, answered, answer: None });
            }
        }
    }
}

fn two_never_lead(options: LeaseOptions, delay_ms: i64, seed: u64) -> (usize, usize) {
    let mut world = World::new(delay_ms, true, seed);
    let mut all = [Candidate::new("a", options), Candidate::new("b", options)];
    let skew = [0_i64, 3_600_000];
    let mut flights: [Option<Flight>; 2] = [None, None];
    let (mut led, mut changes, mut last) = (0, 0, None);
    let mut numbers = [0, 0];
    for time in (0..60_000_i64).step_by(10) {
        for who in 0..2 {
            // One stands still now and then, as a machine that swaps does.
            if world.dice.roll(400) != 0 {
                world.step(time, skew[who], &mut all[who], &mut flights[who]);
            }
        }
        let leading: Vec<usize> =
            (0..2).filter(|one| all[*one].term(at(time + skew[*one])).is_some()).collect();
        assert!(leading.len() < 2, "seed {seed}, delay {delay_ms} at {time}");
        led += leading.len();
        if let [one] = leading[..] {
            let number = all[one].term(at(time + skew[one])).unwrap().number;
            if last != Some(one) {
                (changes, last) = (changes + 1, Some(one));
                assert!(
                    number > numbers[one],
                    "seed {seed} at {time}: another led, and term {number} goes on"
                );
            }
            numbers[one] = number;
        }
    }
    (led, changes)
}

#[test]
fn two_never_lead_at_the_same_time() {
    for options in [KUBERNETES, SHORT] {
        for delay_ms in [10, 200, 900] {
            let (mut led, mut changes) = (0, 0);
            for seed in 0..40 {
                let (one, two) = two_never_lead(options, delay_ms, seed);
                (led, changes) = (led + one, changes + two);
            }
            // A world without a leader proves nothing.
            assert!(led > 40 * 1_000 && changes >= 40, "{options:?} {delay_ms}: {led} {changes}");
        }
    }
}

/// The time from the leader's end until the other one may act. Calls that the leader had sent still reach the server.
fn followed_after(killed: i64, delay_ms: i64, seed: u64) -> i64 {
    let mut world = World::new(delay_ms, false, seed);
    let (mut leader, mut follower) = (Candidate::new("a", SHORT), Candidate::new("b", SHORT));
    let (mut of_leader, mut of_follower) = (None, None);
    for time in 0..killed + 60_000 {
        if time < killed {
            world.step(time, 0, &mut leader, &mut of_leader);
        } else if let Some(flight) = &mut of_leader {
            world.deliver(time, "a", flight);
        }
        // It comes second.
        if time > 1_000 {
            world.step(time, 0, &mut follower, &mut of_follower);
        }
        if follower.term(at(time)).is_some() {
            assert!(time >= killed && leader.term(at(time)).is_none(), "two lead at {time}");
            return time - killed;
        }
    }
    panic!("killed at {killed}, never followed");
}

/// With the settings that `lazaret run` has by default, whatever the leader was doing when it was killed.
#[test]
fn a_leader_that_is_killed_is_followed_within_2_s() {
    let took: Vec<i64> =
        (0..260).map(|at| followed_after(5_000 + at, 60, u64::try_from(at).unwrap() + 1)).collect();
    let (least, most) = (took.iter().min().unwrap(), took.iter().max().unwrap());
    assert!(*least >= 500 && *most <= 2_000, "{least} to {most} ms");
}

/// A lease that was renewed after the question for it was sent is not older than the answer.
#[test]
fn the_age_of_a_lease_counts_from_the_answer() {
    let mut me = Candidate::new("me", SHORT);
    me.read(at(900), Some(held("other", "a", 1_000)));
    assert_eq!(me.next(at(1_000)), LeaseAction::Wait(at(1_150)));
    me.read(at(1_899), Some(held("other", "a", 1_000)));
    assert_eq!(me.next(at(1_899)), LeaseAction::Wait(at(1_900)));
    me.read(at(1_900), Some(held("other", "a", 1_000)));
    assert!(matches!(me.next(at(1_900)), LeaseAction::Write { acquire: true, .. }));
}

#[test]
fn a_lease_is_longer_while_renewals_are_slow_and_short_again_when_they_are_quick() {
    let mut me = Candidate::new("me", SHORT);
    me.read(at(0), None);
    me.written(at(0), at(5), held("me", "a", 1_000));
    assert_eq!((me.duration_ms(), me.renew_deadline_ms()), (1_000, 750));
    assert_eq!(me.next(at(5)), LeaseAction::Wait(at(250)));
    // Half of the deadline is too slow, also for a lease that was stretched before.
    me.written(at(250), at(650), held("me", "b", 1_000));
    assert_eq!((me.duration_ms(), me.renew_deadline_ms()), (2_000, 1_500));
    assert!(me.term(at(999)).is_some() && me.term(at(1_000)).is_none(), "it acts by what it wrote");
    // The lease that it writes now lasts longer, and so does its term.
    me.written(at(700), at(800), held("me", "c", 2_000));
    assert!(me.term(at(2_199)).is_some() && me.term(at(2_200)).is_none());
    assert_eq!(me.next(at(800)), LeaseAction::Wait(at(1_200)), "it renews less often");
    me.failed(at(1_300));
    assert_eq!(me.duration_ms(), 4_000);
    for _ in 0..10 {
        me.failed(at(1_400));
    }
    assert_eq!(me.duration_ms(), 8_000, "no longer than 15 s");
    let mut time = 2_000;
    let mut renewals = 0;
    while me.duration_ms() > 1_000 {
        me.written(at(time), at(time + 5), held("me", "d", me.duration_ms()));
        time += 250;
        renewals += 1;
    }
    assert_eq!(renewals, 3 * 32);
}

/// A holder that lost a stretched lease waits as long as others would have.
#[test]
fn who_lost_a_stretched_lease_waits_for_all_of_it() {
    let mut me = Candidate::new("me", SHORT);
    me.written(at(0), at(700), held("me", "a", 1_000));
    me.written(at(700), at(701), held("me", "b", 2_000));
    assert!(me.term(at(2_199)).is_some());
    me.lapse();
    me.written(at(2_300), at(2_301), held("me", "c", 2_000));
    assert!(me.holds(at(2_301)) && me.term(at(2_301)).is_none());
    assert_eq!(me.term(at(2_700)).map(|term| term.number), Some(2));
}

/// One that starts while the server is slow does not give up each answer before it comes.
#[test]
fn a_slow_server_keeps_nobody_from_leading() {
    let took = |seed: u64| {
        let mut world = World::new(1_000, false, seed);
        let mut me = Candidate::new("me", SHORT);
        let mut flight = None;
        (0..60_000).find(|time| {
            world.step(*time, 0, &mut me, &mut flight);
            me.term(at(*time)).is_some()
        })
    };
    let longest = (1..200).map(took).map(|time| time.expect("it leads in the end")).max();
    assert!(longest <= Some(15_000), "{longest:?}");
}

/// A burst of load and a short lease: the server answers, but late.
#[test]
fn a_server_that_is_slow_all_at_once_ends_no_term() {
    let mut world = World::new(10, false, 7);
    let mut me = Candidate::new("me", SHORT);
    let mut flight = None;
    let (mut acted, mut paused) = (0, 0);
    for time in 0..60_000 {
        if time == 5_000 {
            world.delay_ms = 1_000;
        }
        world.step(time, 0, &mut me, &mut flight);
        match (me.term(at(time)), me.standing(at(time))) {
            (Some(term), _) => {
                assert_eq!(term.number, 1);
                acted += 1;
            }
            (None, Some(_)) => paused += 1,
            (None, None) => assert_eq!(acted, 0, "it led, and leads no more at {time}"),
        }
    }
    assert!(paused > 0 && acted > 50_000, "{acted} ms acted, {paused} ms paused");
}

#[test]
fn others_hurry_less_while_a_lease_is_stretched_and_begin_with_their_own() {
    let mut me = Candidate::new("me", SHORT);
    me.read(at(0), Some(held("other", "a", 8_000)));
    assert_eq!(me.next(at(0)), LeaseAction::Wait(at(2_000)));
    me.read(at(2_000), Some(held("", "b", 8_000)));
    assert!(matches!(me.next(at(2_000)), LeaseAction::Write { acquire: true, .. }));
    assert_eq!(me.duration_ms(), 1_000);
}

/// A server on which another one holds the lease and does not renew it. Its first answer takes a while.
#[derive(Default)]
struct Slow {
    /// When the lease was first returned, and when another holder wrote it.
    told: Mutex<Option<Instant>>,
    taken: Mutex<Option<Instant>>,
}

const FIRST_ANSWER_MS: u64 = 400;

#[allow(clippy::disallowed_methods, reason = "the server of a test looks at its own clock")]
async fn answer(server: Arc<Slow>, method: http::Method) -> http::Response<String> {
    if method == http::Method::GET {
        let first = server.told.lock().unwrap().is_none();
        if first {
            tokio::time::sleep(Duration::from_millis(FIRST_ANSWER_MS)).await;
        }
        server.told.lock().unwrap().get_or_insert_with(Instant::now);
    } else {
        server.taken.lock().unwrap().get_or_insert_with(Instant::now);
    }
    let lease = serde_json::json!({
        "metadata": {"name": "l", "namespace": "n", "resourceVersion": "1"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 1, "renewTime": "2026-11-16T10:00:00.000000Z"},
    });
    http::Response::new(lease.to_string())
}

/// The lease may have been renewed while the answer was in flight: all of its duration passes after the answer.
#[tokio::test]
async fn a_leader_waits_for_all_of_anothers_lease_after_a_slow_answer() {
    let server = Arc::new(Slow::default());
    let seen = Arc::clone(&server);
    let client = Client::direct(move |request| answer(Arc::clone(&seen), request.method().clone()));
    let (leader, _leadership) = Leader::new(client, "n", "l", "me", SHORT);
    let (stop, stopped) = watch::channel(false);
    let mut running = JoinSet::new();
    running.spawn(leader.run(Metrics::default(), stopped));
    let taken = loop {
        if let Some(taken) = *server.taken.lock().unwrap() {
            break taken;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let told = server.told.lock().unwrap().unwrap();
    // A millisecond is lost to rounding at either end.
    assert!(taken.duration_since(told) >= Duration::from_millis(998), "{:?}", taken.duration_since(told));
    stop.send(true).unwrap();
    running.join_all().await;
}
