use super::*;
use alloc::collections::BTreeMap;
use proptest::prelude::*;

fn limits(level: Level) -> LevelLimits {
    let (nominal_seats, guaranteed_seats, seats_max) = match level {
        Level::Exempt | Level::Health => (2, 2, 2),
        Level::LeaderElection => (4, 2, 8),
        Level::System => (8, 4, 16),
        Level::Workload => (8, 4, 16),
        Level::Anonymous => (2, 1, 4),
    };
    LevelLimits {
        nominal_seats,
        guaranteed_seats,
        seats_max,
        waiting_per_flow_max: 5,
        waiting_max: 12,
        flows_max: 8,
        wait_ms_max: 1_000,
    }
}

fn started(seats: &mut Seats<u8>) -> Vec<(RequestId, Ticket<u8>)> {
    let mut list = Vec::new();
    while let Some(effect) = seats.poll_effect() {
        if let Effect::Start(id, ticket) = effect {
            list.push((id, ticket));
        }
    }
    list
}

/// Fills a level with requests that run; returns their tickets.
fn fill(seats: &mut Seats<u8>, level: Level, flow: u8) -> Vec<Ticket<u8>> {
    let mut tickets = Vec::new();
    loop {
        match seats.arrive(0, level, &flow, 1) {
            Decision::Start(ticket) => tickets.push(ticket),
            Decision::Wait(id, _) => {
                seats.cancel(0, id);
                return tickets;
            }
            Decision::Refuse(refusal) => panic!("{refusal:?}"),
        }
    }
}

#[test]
fn an_idle_levels_seats_are_lent_but_never_those_it_is_guaranteed() {
    let mut seats = Seats::new(limits);
    assert_eq!(seats.total(), 24);
    // 2 + 2 + 4 + 1 are guaranteed to the others; 16 is the most of the level itself.
    assert_eq!(fill(&mut seats, Level::Workload, 1).len(), 15);
    for level in [Level::Health, Level::LeaderElection, Level::System, Level::Anonymous] {
        let guaranteed = limits(level).guaranteed_seats as usize;
        assert_eq!(fill(&mut seats, level, 2).len(), guaranteed, "{level:?}");
    }
}

#[test]
fn what_was_lent_comes_back_when_its_owner_waits() {
    let mut seats = Seats::new(limits);
    let lent = fill(&mut seats, Level::Workload, 1);
    for _ in 0..5 {
        assert!(matches!(seats.arrive(0, Level::Workload, &1, 1), Decision::Wait(..)));
    }
    let _own = fill(&mut seats, Level::System, 2);
    for _ in 0..4 {
        assert!(matches!(seats.arrive(0, Level::System, &2, 1), Decision::Wait(..)));
    }
    for ticket in lent.into_iter().take(4) {
        seats.finish(1, ticket);
    }
    let levels: Vec<Level> = started(&mut seats).iter().map(|(_, ticket)| ticket.level).collect();
    assert_eq!(levels, [Level::System; 4], "4 of 8 seats are in use there, 11 of 8 here");
}

#[test]
fn exempt_requests_never_wait() {
    let mut seats = Seats::new(limits);
    let _all = fill(&mut seats, Level::Workload, 1);
    for _ in 0..1_000 {
        assert!(matches!(seats.arrive(0, Level::Exempt, &9, 7), Decision::Start(_)));
    }
}

#[test]
fn a_wide_request_is_not_overtaken_in_its_level_and_fits_some_day() {
    let mut seats = Seats::new(limits);
    let mut running = fill(&mut seats, Level::Workload, 1);
    let Decision::Wait(wide, _) = seats.arrive(0, Level::Workload, &2, 100) else { panic!() };
    let Decision::Wait(narrow, _) = seats.arrive(0, Level::Workload, &3, 1) else { panic!() };
    for _ in 0..3 {
        seats.finish(1, running.pop().unwrap());
        assert!(started(&mut seats).is_empty(), "four seats are needed");
    }
    seats.finish(1, running.pop().unwrap());
    let now = started(&mut seats);
    assert_eq!((now[0].0, now[0].1.seats), (wide, 4), "a request takes what is guaranteed at most");
    seats.finish(1, running.pop().unwrap());
    assert_eq!(started(&mut seats)[0].0, narrow);
}

#[test]
fn flows_that_always_want_more_are_served_alike_by_time() {
    let mut seats = Seats::new(limits);
    let mut running = fill(&mut seats, Level::Workload, 0);
    let mut served: BTreeMap<u8, u64> = BTreeMap::new();
    let mut now = 0;
    for _ in 0..2_000 {
        // Flow 1 fills its queue, flow 2 asks for one at a time, flow 3's requests take 5 times as long.
        for (flow, most) in [(1, 5), (2, 2), (3, 5)] {
            while seats.levels[Level::Workload.index()].flows.waiting_of(&flow) < most {
                if !matches!(seats.arrive(now, Level::Workload, &flow, 1), Decision::Wait(..)) {
                    break;
                }
            }
        }
        let ticket = running.remove(0);
        let took = if ticket.flow == 3 { 50 } else { 10 };
        now = now.max(ticket.started_ms + took);
        *served.entry(ticket.flow).or_default() += took;
        seats.finish(ticket.started_ms + took, ticket);
        running.extend(started(&mut seats).into_iter().map(|(_, ticket)| ticket));
    }
    let (one, two, three) = (served[&1], served[&2], served[&3]);
    for (a, b) in [(one, two), (one, three), (two, three)] {
        assert!(a * 10 <= b * 13 && b * 10 <= a * 13, "{served:?}");
    }
}

#[test]
fn a_full_queue_takes_the_first_request_of_a_new_user_from_the_longest_flow() {
    let mut seats = Seats::new(limits);
    let _running = fill(&mut seats, Level::Workload, 0);
    let mut newest = Vec::new();
    for flow in 1..=3 {
        for _ in 0..4 {
            let Decision::Wait(id, _) = seats.arrive(0, Level::Workload, &flow, 1) else { panic!() };
            newest.push(id);
        }
    }
    assert!(matches!(seats.arrive(0, Level::Workload, &9, 1), Decision::Wait(..)));
    assert_eq!(seats.waiting(Level::Workload), 12);
    let Some(Effect::Refuse(id, level, Refusal::QueueFull)) = seats.poll_effect() else { panic!() };
    assert!(
        level == Level::Workload && [3, 7, 11].map(|at| newest[at]).contains(&id),
        "the newest of a flow"
    );
    assert_eq!(seats.poll_effect(), None);
}

#[test]
fn a_flow_waits_in_a_queue_of_its_own_length_and_only_so_long() {
    let mut seats = Seats::new(limits);
    let _running = fill(&mut seats, Level::Workload, 1);
    for _ in 0..5 {
        assert!(matches!(seats.arrive(7, Level::Workload, &1, 1), Decision::Wait(_, 1_007)));
    }
    assert_eq!(seats.arrive(7, Level::Workload, &1, 1), Decision::Refuse(Refusal::QueueFull));
    seats.expire(1_006);
    assert_eq!(seats.poll_effect(), None);
    seats.expire(1_007);
    let mut refused = 0;
    while let Some(effect) = seats.poll_effect() {
        assert!(matches!(effect, Effect::Refuse(_, Level::Workload, Refusal::TimeOut)));
        refused += 1;
    }
    assert_eq!((refused, seats.waiting(Level::Workload)), (5, 0));
}

#[test]
fn users_beyond_the_limit_of_flows_are_refused_until_one_is_idle() {
    let mut seats = Seats::new(limits);
    let mut tickets = Vec::new();
    for flow in 0..8 {
        let Decision::Start(ticket) = seats.arrive(0, Level::Workload, &flow, 1) else { panic!() };
        tickets.push(ticket);
    }
    assert_eq!(seats.arrive(0, Level::Workload, &99, 1), Decision::Refuse(Refusal::TooManyFlows));
    seats.finish(5, tickets.pop().unwrap());
    assert!(matches!(seats.arrive(6, Level::Workload, &99, 1), Decision::Start(_)));
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(Level, u8, u32),
    Finish(usize),
    Cancel(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_usize..6, 0_u8..12, 1_u32..12)
            .prop_map(|(level, flow, seats)| Step::Arrive(Level::ALL[level], flow, seats)),
        4 => any::<usize>().prop_map(Step::Finish),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => (0_u64..400).prop_map(Step::Pass),
    ]
}

/// The requests that a test has sent.
#[derive(Default)]
struct Known {
    running: Vec<Ticket<u8>>,
    waiting: BTreeMap<RequestId, (Level, u8, u64)>,
}

impl Known {
    fn take_effects(&mut self, seats: &mut Seats<u8>, now: u64) {
        while let Some(effect) = seats.poll_effect() {
            match effect {
                Effect::Start(id, ticket) => {
                    let (level, flow, deadline) = self.waiting.remove(&id).expect("it waited");
                    assert!((level, flow) == (ticket.level, ticket.flow) && now <= deadline);
                    let older = self
                        .waiting
                        .iter()
                        .any(|(other, place)| *other < id && (place.0, place.1) == (level, flow));
                    assert!(!older, "first come, first served in a flow");
                    self.running.push(ticket);
                }
                Effect::Refuse(id, level, refusal) => {
                    let place = self.waiting.remove(&id).expect("it waited");
                    assert_eq!(place.0, level);
                    assert_eq!(refusal == Refusal::TimeOut, now >= place.2, "{refusal:?}");
                }
            }
        }
    }

    fn check(&self, seats: &Seats<u8>, now: u64) {
        let mut total = 0;
        for level in Level::ALL {
            let sum: u32 = self.running.iter().filter(|one| one.level == level).map(|one| one.seats).sum();
            assert_eq!(seats.executing(level), sum);
            let mine = self.waiting.values().filter(|place| place.0 == level);
            assert_eq!(seats.waiting(level), mine.clone().count());
            if level == Level::Exempt {
                assert_eq!(seats.waiting(level), 0);
                continue;
            }
            total += sum;
            let limits = limits(level);
            assert!(sum <= limits.seats_max && seats.waiting(level) <= limits.waiting_max);
            let state = &seats.levels[level.index()];
            assert!(state.flows.len() <= limits.flows_max);
            for flow in 0..12 {
                assert!(mine.clone().filter(|place| place.1 == flow).count() <= limits.waiting_per_flow_max);
            }
            if let Some(head) = state.flows.head() {
                assert!(!seats.fits(level, head.seats), "nothing waits that could run");
                assert!(sum + head.seats > limits.guaranteed_seats, "what is guaranteed is there");
            }
        }
        assert!(total <= seats.total());
        assert!(self.waiting.values().all(|place| place.2 > now));
    }
}

proptest! {
    #[test]
    fn limits_hold_guarantees_are_kept_and_every_request_is_answered(
        steps in proptest::collection::vec(step(), 0..400),
    ) {
        let (mut seats, mut known, mut now) = (Seats::new(limits), Known::default(), 0);
        for step in steps {
            match step {
                Step::Arrive(level, flow, wanted) => match seats.arrive(now, level, &flow, wanted) {
                    Decision::Start(ticket) => known.running.push(ticket),
                    Decision::Wait(id, deadline) => {
                        known.waiting.insert(id, (level, flow, deadline));
                    }
                    Decision::Refuse(_) => {}
                },
                Step::Finish(at) if !known.running.is_empty() => {
                    let at = at % known.running.len();
                    seats.finish(now, known.running.swap_remove(at));
                }
                Step::Cancel(at) if !known.waiting.is_empty() => {
                    let id = *known.waiting.keys().nth(at % known.waiting.len()).unwrap();
                    known.waiting.remove(&id);
                    assert!(seats.cancel(now, id));
                    assert!(!seats.cancel(now, id));
                }
                Step::Finish(_) | Step::Cancel(_) => {}
                Step::Pass(ms) => {
                    now += ms;
                    seats.expire(now);
                }
            }
            known.take_effects(&mut seats, now);
            known.check(&seats, now);
        }
        // Every waiting request runs once others have ended: none starves.
        while let Some(ticket) = known.running.pop() {
            seats.finish(now, ticket);
            known.take_effects(&mut seats, now);
            known.check(&seats, now);
        }
        prop_assert!(known.waiting.is_empty());
    }
}
