//! Late, repeated and lost news, lost answers, partial writes, new leaders: what must never happen does not, and in
//! the end all is as it should be, so that a machine that has just begun finds nothing to do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use crate::world::{World, consumer, direct, is_needed, key, templated};
use lazaret_claims::{Claims, Effect, Input, Options, Outcome};
use lazaret_model::{ClaimSource, ObjectKey, Timestamp};
use proptest::prelude::*;

/// One listener with its machine.
struct Run {
    world: World,
    machine: Claims,
    now: Timestamp,
    taken: Vec<Effect>,
}

impl Run {
    fn new() -> Self {
        let mut run = Self {
            world: World::default(),
            machine: Claims::new(Options::default()),
            now: Timestamp::from_secs(1_000),
            taken: Vec::new(),
        };
        run.restart();
        run
    }

    /// A new process: knows what a list says, and nothing else.
    fn restart(&mut self) {
        // Small limits, so that they are met.
        self.machine = Claims::new(Options { in_flight_max: 4, gone_max: 1, ..Options::default() });
        self.taken.clear();
        self.relist();
        self.tell(Input::BecameLeader);
        self.tell(Input::Synced);
    }

    fn tell(&mut self, input: Input) {
        self.machine.handle(self.now, input);
    }

    /// The watch broke: what it had to tell is lost, and lists take its place.
    fn relist(&mut self) {
        self.world.news.iter_mut().for_each(|watch| watch.clear());
        self.world.list().into_iter().for_each(|input| self.tell(input));
    }

    fn hear(&mut self, watch: usize, count: usize, twice: bool) {
        for _ in 0..count {
            let Some(input) = self.world.news[watch].pop_front() else { return };
            if twice {
                self.tell(input.clone());
            }
            self.tell(input);
        }
    }

    fn take_effects(&mut self) {
        while let Some(effect) = self.machine.poll_effect() {
            self.taken.push(effect);
        }
    }

    /// Carries out one of the effects that were taken; `how` says how it goes wrong.
    fn do_one(&mut self, which: usize, how: u8) {
        self.take_effects();
        if self.taken.is_empty() {
            return;
        }
        let effect = self.taken.remove(which % self.taken.len());
        let outcome = match how % 8 {
            0 => Outcome::RetryLater,
            1 => Outcome::Unknown,
            2 => {
                self.world.carry_out(&effect.kind, usize::MAX);
                Outcome::Unknown
            }
            3 => self.world.carry_out(&effect.kind, 1),
            _ => self.world.carry_out(&effect.kind, usize::MAX),
        };
        let why = Some("because".into());
        let answer = Input::Acknowledged { effect: effect.id, outcome, why };
        if how.is_multiple_of(3) {
            self.tell(answer.clone());
        }
        self.tell(answer);
    }

    /// All is well from now on, for as long as it takes.
    fn settle(&mut self) {
        self.relist();
        for _ in 0..10_000 {
            (0..3).for_each(|watch| self.hear(watch, usize::MAX, false));
            self.take_effects();
            if !self.taken.is_empty() {
                self.do_one(0, 7);
            } else if let Some(wake) = self.machine.next_wake() {
                assert!(wake.at > self.now, "{wake:?} is not later than {:?}", self.now);
                self.now = wake.at;
                self.tell(Input::Tick);
            } else {
                return;
            }
        }
        panic!("does not come to rest");
    }

    fn act(&mut self, (what, a, b): (u8, u8, u8)) {
        let pod = format!("p{}", a % 3);
        let claims: Vec<ObjectKey> = self.world.claims.keys().cloned().collect();
        let claim = (!claims.is_empty()).then(|| claims[usize::from(b) % claims.len()].clone());
        match what % 20 {
            0 | 1 => self.world.add_pod(&pod, vec![templated("gpu", "t0"), templated("nic", "t1")]),
            2 => self.world.add_pod(&pod, vec![direct("mine", "shared"), templated("gpu", "t0")]),
            3 => self.world.bind(&pod),
            4 => self.world.finish(&pod),
            5 => self.world.delete_pod(&pod),
            6 => self.world.remove_pod(&pod),
            7 => self.world.add_template(&format!("t{}", b % 2)),
            8 => self.world.remove_template(&format!("t{}", b % 2)),
            9 => self.world.add_claim("shared"),
            10 => claim.iter().for_each(|claim| self.world.protect(claim)),
            11 => {
                let user = claim.as_ref().and_then(|claim| self.user_of(claim, &pod));
                claim.iter().for_each(|claim| self.world.allocate(claim, user.as_ref()));
            }
            12 => claim.iter().for_each(|claim| self.world.delete_claim(claim)),
            13 => self.hear(usize::from(a % 3), usize::from(b % 8), false),
            14 => self.hear(usize::from(a % 3), usize::from(b % 4), true),
            15 => self.relist(),
            16 => {
                self.now = self.now.plus_millis(i64::from(b) * 200);
                self.tell(Input::Tick);
            }
            17 => match b % 4 {
                0 => self.restart(),
                1 => self.tell(Input::LostLeadership),
                2 => self.tell(Input::BecameLeader),
                _ => self.now = self.now.plus_millis(-i64::from(a) * 100),
            },
            _ => self.do_one(usize::from(a), b),
        }
    }

    /// The scheduler reserves a claim made for a pod for that pod alone.
    fn user_of(&self, claim: &ObjectKey, pod: &str) -> Option<ObjectKey> {
        match &self.world.claims[claim].claim.owner {
            Some(owner) => {
                self.world.pods.values().find(|pod| pod.uid == owner.uid).map(|pod| pod.key.clone())
            }
            None => Some(key(pod)),
        }
    }

    fn check_end(&self) {
        let world = &self.world;
        for pod in world.pods.values().filter(|pod| is_needed(pod) && pod.deleting_since.is_none()) {
            let lacks_template = pod.claims.iter().any(|entry| match &entry.source {
                ClaimSource::Template { template, .. } => {
                    !world.templates.contains_key(&key(template))
                        && world.made_for(&pod.uid, &entry.name).count() == 0
                }
                ClaimSource::Claim(_) | ClaimSource::Unknown => false,
            });
            if lacks_template {
                continue;
            }
            for entry in &pod.claims {
                if let ClaimSource::Template { resolved, .. } = &entry.source {
                    let made: Vec<_> = world.made_for(&pod.uid, &entry.name).collect();
                    assert_eq!(made.len(), 1, "{} of {}", entry.name, pod.key);
                    assert_eq!(resolved, &Some(Some(made[0].claim.key.name.clone())), "{}", pod.key);
                }
            }
        }
        for stored in world.claims.values() {
            let claim = &stored.claim;
            for user in &claim.reserved_for {
                let needed = world.pods.values().any(|pod| pod.uid == user.uid && is_needed(pod));
                assert!(needed, "{} is reserved for {}", claim.key, user.name);
            }
            if let Some(owner) = &claim.owner {
                let needed = world.pods.values().any(|pod| pod.uid == owner.uid && is_needed(pod));
                assert!(needed, "{} was made for a pod that is done", claim.key);
            }
            assert!(!claim.deleting || !claim.reserved_for.is_empty(), "{} does not go", claim.key);
            for pod in world.pods.values() {
                let uses = pod.claims.iter().any(|entry| match &entry.source {
                    ClaimSource::Claim(name) => *name == claim.key.name,
                    ClaimSource::Template { resolved, .. } => {
                        *resolved == Some(Some(claim.key.name.clone()))
                            && claim.owner.as_ref().is_some_and(|owner| owner.uid == pod.uid)
                    }
                    ClaimSource::Unknown => false,
                });
                let usable = claim.allocation.is_some() && !claim.deleting;
                let wants = pod.node.is_some() && is_needed(pod) && pod.deleting_since.is_none();
                assert!(
                    !(uses && usable && wants) || claim.reserved_for.contains(&consumer(pod)),
                    "{} is not reserved for {}",
                    claim.key,
                    pod.key
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn comes_to_rest_where_it_should(acts in prop::collection::vec(any::<(u8, u8, u8)>(), 1..160)) {
        let mut run = Run::new();
        run.world.add_template("t0");
        run.world.add_template("t1");
        for act in acts {
            run.act(act);
            prop_assert!(run.world.wrong.is_empty(), "{:?}", run.world.wrong);
        }
        run.tell(Input::BecameLeader);
        run.settle();
        prop_assert!(run.world.wrong.is_empty(), "{:?}", run.world.wrong);
        run.check_end();
        let writes = run.world.writes;
        run.restart();
        run.settle();
        prop_assert_eq!(run.world.writes, writes, "a machine that has just begun finds something to do");
    }
}
