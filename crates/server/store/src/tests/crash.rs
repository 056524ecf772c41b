//! Crashes at every step of random work: nothing acknowledged is lost, nothing is there by halves, revisions do not
//! go back, and the history that is left is the true one.

use std::sync::Arc;

use lazaret_storage::{Event, TxnError};

use super::rig::{Contents, ExpectedCommit, Rig, random_group, small_options};
use crate::error::OpenError;
use crate::fault::{Fault, FaultyDisk, Random};
use crate::options::Options;
use crate::store::FIRST_REVISION;

/// Enough work for every seed to take a snapshot on the way.
const GROUPS: usize = 50;

/// The expected state, whatever the disk does.
#[derive(Debug, Clone)]
pub(super) struct ExpectedState {
    pub(super) revision: u64,
    contents: Contents,
    /// Every event since the beginning.
    events: Vec<Arc<Event>>,
    /// The last group, if it was not acknowledged: it may be there or not.
    doubtful: Option<ExpectedCommit>,
}

impl ExpectedState {
    pub(super) fn new() -> ExpectedState {
        ExpectedState {
            revision: FIRST_REVISION,
            contents: Contents::new(),
            events: Vec::new(),
            doubtful: None,
        }
    }

    fn accept(&mut self, forecast: ExpectedCommit) {
        self.revision = forecast.revision;
        self.contents = forecast.contents;
        self.events.extend(forecast.events);
    }

    /// The store took writes again: the doubtful group is not there, and its revisions are left out.
    pub(super) fn void(&mut self, rig: &Rig, context: &str) {
        if let Some(doubtful) = self.doubtful.take() {
            self.revision = doubtful.revision;
        }
        self.check(rig, context);
    }

    /// Checks a store that was just opened, and learns which way the doubtful group went: it is there, or the store
    /// had begun to take writes again without it, or it never reached the disk.
    pub(super) fn check(&mut self, rig: &Rig, context: &str) {
        if let Some(doubtful) = self.doubtful.take()
            && rig.shared.revision() != self.revision
        {
            if rig.contents() == doubtful.contents {
                self.accept(doubtful);
            } else {
                self.revision = doubtful.revision;
            }
        }
        assert_eq!(rig.shared.revision(), self.revision, "{context}: revision");
        assert_eq!(rig.contents(), self.contents, "{context}: contents");
        let oldest = rig.shared.oldest();
        let expected: Vec<_> = self.events.iter().filter(|event| event.revision > oldest).cloned().collect();
        assert_eq!(rig.history(), expected, "{context}: history after {oldest}");
    }
}

/// Works until done or until the disk gives up. Tells whether it gave up.
pub(super) fn work(rig: &mut Rig, truth: &mut ExpectedState, random: &mut Random, groups: usize) -> bool {
    for _ in 0..groups {
        if random.below(12) == 0 {
            let oldest = rig.shared.oldest();
            let to = oldest + random.below(usize::try_from(truth.revision - oldest).unwrap() + 1) as u64;
            if !rig.compact(to) {
                return true;
            }
            continue;
        }
        let group = random_group(random, &rig.shared);
        let forecast = rig.forecast(&group);
        let answers = rig.commit(group);
        let refused = |answer: &Result<_, TxnError>| {
            matches!(answer, Err(TxnError::Unknown(_) | TxnError::ReadOnly(_)))
        };
        if answers.iter().any(refused) {
            assert!(answers.iter().all(refused), "a group fails as one");
            assert_eq!(rig.shared.revision(), truth.revision, "what failed is not visible");
            if answers.iter().any(|answer| matches!(answer, Err(TxnError::Unknown(_)))) {
                truth.doubtful = Some(forecast);
            }
            return true;
        }
        truth.accept(forecast);
    }
    rig.shared.failure().is_some()
}

/// Opens a disk, crashing some times while at it.
fn reopen(disk: &FaultyDisk, options: &Options, random: &mut Random, context: &str) -> (Rig, FaultyDisk) {
    let mut disk = after_crash(disk, random);
    for _ in 0..random.below(3) {
        disk.plan(random.below(8) as u64, Fault::Crash);
        match Rig::open(&disk, options) {
            Ok(_) => {}
            Err(OpenError::Storage(_)) => {}
            Err(other) => panic!("{context}: {other}"),
        }
        disk = after_crash(&disk, random);
    }
    match Rig::open(&disk, options) {
        Ok(rig) => (rig, disk),
        Err(error) => panic!("{context}: {error}\n{:?}", disk.sizes()),
    }
}

pub(super) fn after_crash(disk: &FaultyDisk, random: &mut Random) -> FaultyDisk {
    let seed = random.draw();
    if seed.is_multiple_of(4) { disk.after_kill() } else { disk.after_power_loss(seed) }
}

/// How many steps a workload takes when nothing fails.
fn steps_of(seed: u64, options: &Options, groups: usize) -> u64 {
    let disk = FaultyDisk::new(seed);
    let mut rig = Rig::open(&disk, options).unwrap();
    let snapshots_before = rig.shared.stats(0).snapshots;
    assert!(!work(&mut rig, &mut ExpectedState::new(), &mut Random(seed), groups));
    assert!(rig.shared.stats(0).snapshots > snapshots_before, "the work is long enough for a snapshot");
    disk.steps()
}

#[test]
fn a_crash_at_every_step_loses_nothing_acknowledged() {
    let options = small_options();
    let mut runs = 0;
    for seed in 0..24 {
        for step in 0..steps_of(seed, &options, GROUPS) {
            for image in 0..2 {
                let context = format!("seed {seed} step {step} image {image}");
                let disk = FaultyDisk::new(seed);
                disk.plan(step, Fault::Crash);
                let mut truth = ExpectedState::new();
                let mut random = Random(seed);
                if let Ok(mut rig) = Rig::open(&disk, &options) {
                    work(&mut rig, &mut truth, &mut random, GROUPS);
                }
                let mut random = Random(seed * 1_000_003 + step * 31 + image);
                let (mut rig, disk) = reopen(&disk, &options, &mut random, &context);
                truth.check(&rig, &context);
                // And it goes on from there, through another crash.
                disk.plan(disk.steps() + random.below(20) as u64, Fault::Crash);
                work(&mut rig, &mut truth, &mut random, 8);
                let (rig, _) = reopen(&disk, &options, &mut random, &context);
                truth.check(&rig, &format!("{context}, second crash"));
                runs += 1;
            }
        }
    }
    assert!(runs > 5_000, "only {runs} runs");
}

#[test]
fn a_refused_step_stops_writes_and_loses_nothing_acknowledged() {
    let options = small_options();
    for seed in 100..110 {
        for step in 0..steps_of(seed, &options, GROUPS) {
            let context = format!("seed {seed} step {step}");
            let disk = FaultyDisk::new(seed);
            let kind =
                [std::io::ErrorKind::StorageFull, std::io::ErrorKind::Other][usize::from(step % 2 == 0)];
            disk.plan(step, Fault::Refuse(kind));
            let mut truth = ExpectedState::new();
            let mut random = Random(seed);
            if let Ok(mut rig) = Rig::open(&disk, &options) {
                let stopped = work(&mut rig, &mut truth, &mut random, GROUPS);
                // A snapshot may fail without harm; anything else stops all writes for good.
                assert!(
                    stopped || rig.shared.stats(0).snapshots_failed == 1,
                    "{context}: the refusal had no effect"
                );
                if stopped {
                    let again = rig.commit(random_group(&mut random, &rig.shared.clone()));
                    assert!(
                        again.iter().all(|answer| matches!(answer, Err(TxnError::ReadOnly(_)))),
                        "{context}"
                    );
                    assert_eq!(rig.contents(), truth.contents, "{context}: reads go on");
                }
            }
            // Opened again first with what the system's cache holds, then after a loss of power.
            let disk = disk.after_kill();
            let rig = Rig::open(&disk, &options).unwrap_or_else(|error| panic!("{context}: {error}"));
            truth.check(&rig, &context);
            let disk = disk.after_power_loss(seed + step);
            let rig = Rig::open(&disk, &options).unwrap_or_else(|error| panic!("{context}: {error}"));
            truth.check(&rig, &format!("{context}, loss of power"));
        }
    }
}
