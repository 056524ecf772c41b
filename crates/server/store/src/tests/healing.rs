//! Faults that come and go, with kills and losses of power between them: a store that heals has lost nothing that it
//! acknowledged, has nothing by halves, gives no revision out twice, and what was in doubt stays decided.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use super::crash::{ExpectedState, after_crash, work};
use super::rig::{Rig, random_group, small_options};
use crate::error::OpenError;
use crate::fault::{Fault, FaultyDisk, Random};
use crate::keys::{EncryptionKey, EncryptionKeys};
use crate::options::Options;
use crate::{Notice, Observer, Op, Store, TxnError};

/// Enough groups, failures, attempts and crashes for every order of them.
const ROUNDS: usize = 30;

fn keys(lines: &[&EncryptionKey]) -> EncryptionKeys {
    let text: Vec<String> = lines.iter().map(|key| key.line()).collect();
    EncryptionKeys::parse(&format!("{}\nidentity", text.join("\n")), "keys").unwrap()
}

#[derive(Debug, Default)]
struct Seen {
    failures: u64,
    heals: u64,
    attempts_in_vain: u64,
    crashes: u64,
}

/// One long life of a store on a disk that fails in stretches of any length, and of the processes that use it.
fn live(seed: u64, options: &Options, seen: &mut Seen) {
    let mut random = Random(seed);
    let mut disk = FaultyDisk::new(seed);
    let mut rig = Rig::open(&disk, options).unwrap();
    let mut truth = ExpectedState::new();
    for round in 0..ROUNDS {
        let context = format!("seed {seed} round {round}");
        fail_for_a_while(&disk, &mut random);
        let failed = work(&mut rig, &mut truth, &mut random, 12);
        seen.failures += u64::from(failed);
        let before = truth.revision;
        let attempts = if failed { random.below(6) } else { 0 };
        for _ in 0..attempts {
            if rig.heal() {
                seen.heals += 1;
                truth.void(&rig, &context);
                break;
            }
            seen.attempts_in_vain += 1;
            let refused = rig.commit(random_group(&mut random, &rig.shared.clone()));
            assert!(refused.iter().all(|answer| matches!(answer, Err(TxnError::ReadOnly(_)))), "{context}");
            assert_eq!(rig.shared.revision(), before, "{context}: what is refused changes nothing");
        }
        if random.below(3) == 0 || rig.shared.failure().is_some() && random.below(2) == 0 {
            seen.crashes += 1;
            drop(rig);
            (rig, disk) = open_again(&disk, options, &mut random, &context);
            truth.check(&rig, &context);
        }
    }
    let disk = disk.after_power_loss(seed);
    truth.check(&Rig::open(&disk, options).unwrap(), &format!("seed {seed}, at the end"));
}

/// Plans refusals: single ones, and stretches in which nothing works.
fn fail_for_a_while(disk: &FaultyDisk, random: &mut Random) {
    let kinds = [ErrorKind::StorageFull, ErrorKind::Other, ErrorKind::QuotaExceeded];
    for _ in 0..random.below(3) {
        let kind = kinds[random.below(kinds.len())];
        let first = disk.steps() + random.below(40) as u64;
        let length = [1, 1, 2, 5, 20][random.below(5)];
        (first..first + length).for_each(|step| disk.plan(step, Fault::Refuse(kind)));
    }
    if random.below(4) == 0 {
        disk.plan(disk.steps() + random.below(60) as u64, Fault::Crash);
    }
}

/// Opens a disk after a crash, with crashes and refusals meanwhile.
fn open_again(disk: &FaultyDisk, options: &Options, random: &mut Random, context: &str) -> (Rig, FaultyDisk) {
    let mut disk = after_crash(disk, random);
    for attempt in 0.. {
        if attempt < 3 && random.below(2) == 0 {
            let fault = [Fault::Crash, Fault::Refuse(ErrorKind::StorageFull)][random.below(2)];
            disk.plan(random.below(8) as u64, fault);
        }
        match Rig::open(&disk, options) {
            Ok(rig) => return (rig, disk),
            Err(OpenError::Storage(_)) => disk = after_crash(&disk, random),
            Err(other) => panic!("{context}: {other}\n{:?}", disk.sizes()),
        }
    }
    unreachable!("the last attempt has no faults")
}

#[test]
fn faults_that_come_and_go_lose_nothing_acknowledged() {
    let mut seen = Seen::default();
    for seed in 0..400 {
        live(seed, &small_options(), &mut seen);
    }
    assert!(seen.failures > 1_000 && seen.heals > 500 && seen.crashes > 1_000, "{seen:?}");
    assert!(seen.attempts_in_vain > 100, "{seen:?}");
    println!("{seen:?}");
}

#[test]
fn faults_that_come_and_go_lose_nothing_that_is_encrypted() {
    let key = EncryptionKey::generate().unwrap();
    let options = Options { encryption: keys(&[&key]), ..small_options() };
    let mut seen = Seen::default();
    for seed in 1_000..1_200 {
        live(seed, &options, &mut seen);
    }
    assert!(seen.failures > 500 && seen.heals > 200 && seen.crashes > 500, "{seen:?}");
}

/// Writes of a failed group that may have reached the disk are void once the store takes writes again, also for the next
/// process, and its revisions are not used again.
#[test]
fn a_group_in_doubt_is_void_after_healing_and_its_revisions_are_not_used_again() {
    for (refused, kind) in [(0, ErrorKind::StorageFull), (1, ErrorKind::Other)] {
        let disk = FaultyDisk::new(1);
        let mut rig = Rig::open(&disk, &small_options()).unwrap();
        rig.commit(vec![vec![Op::create("/kept", "1")]]);
        disk.plan(disk.steps() + refused, Fault::Refuse(kind));
        let doubtful = rig.commit(vec![vec![Op::create("/x", "1"), Op::create("/y", "2")]]);
        assert!(matches!(doubtful[0], Err(TxnError::Unknown(_))));
        assert!(rig.heal());
        assert_eq!(rig.shared.revision(), 4, "revisions 3 and 4 may be on the disk");
        let committed = rig.commit(vec![vec![Op::create("/x", "mine")]]).remove(0).unwrap();
        assert_eq!(committed.revision, 5);
        for disk in [disk.after_kill(), disk.after_power_loss(1)] {
            let rig = Rig::open(&disk, &small_options()).unwrap();
            assert_eq!(rig.shared.revision(), 5);
            assert_eq!(rig.shared.get(b"/x").unwrap().value, "mine");
            assert!(rig.shared.get(b"/y").is_none() && rig.shared.get(b"/kept").is_some());
        }
    }
}

/// After a failed sync a kernel may hold for clean what it never wrote: so everything is written anew, to files that
/// did not exist before, and the suspect ones are gone.
#[test]
fn after_a_failed_sync_no_old_file_is_trusted() {
    let disk = FaultyDisk::new(3);
    let mut rig = Rig::open(&disk, &small_options()).unwrap();
    rig.commit(vec![vec![Op::create("/kept", "1")]]);
    let before = disk.sizes();
    disk.plan(disk.steps() + 1, Fault::Refuse(ErrorKind::Other));
    rig.commit(vec![vec![Op::create("/x", "1")]]);
    assert_eq!(rig.shared.stats(0).syncs_failed, 1);
    assert!(rig.heal());
    assert!(disk.sizes().keys().all(|name| !before.contains_key(name)), "{:?}", disk.sizes());
    let rig = Rig::open(&disk.after_power_loss(3), &small_options()).unwrap();
    assert!(rig.shared.get(b"/kept").is_some() && rig.shared.get(b"/x").is_none());
}

#[test]
fn a_store_heals_by_itself_and_tells_what_happened() {
    let notices: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&notices);
    let observer = Observer::new(move |notice: &Notice| notes.lock().unwrap().push(notice.to_string()));
    let disk = FaultyDisk::new(5);
    let store = Store::open_on(Arc::new(disk.clone()), Options { observer, ..Options::default() }).unwrap();
    store.txn_blocking(vec![Op::create("/a", "1")]).unwrap();
    let step = disk.steps();
    // The write fails, and so does the first attempt to heal: cutting the tail and creating a segment.
    (step..step + 3).for_each(|step| disk.plan(step, Fault::Refuse(ErrorKind::StorageFull)));
    let failed = store.txn_blocking(vec![Op::create("/b", "1")]).unwrap_err();
    assert!(matches!(failed, TxnError::Unknown(_)), "{failed}");
    let revision = loop {
        match store.txn_blocking(vec![Op::create("/c", "1")]) {
            Ok(committed) => break committed.revision,
            Err(TxnError::ReadOnly(_)) => std::thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(revision, 4, "revision 3 may be on the disk");
    assert!(store.get("/b").is_none());
    let stats = store.stats();
    assert_eq!((stats.failures, stats.heals, stats.read_only), (1, 1, None));
    let notices = notices.lock().unwrap().clone();
    assert_eq!(notices.len(), 3, "{notices:?}");
    assert!(notices[0].starts_with("the store is read-only: append to log-0000000001: "), "{notices:?}");
    assert!(notices[1].starts_with("the store is still read-only after 1 attempts: create "), "{notices:?}");
    assert_eq!(notices[2], "the store takes writes again after 2 attempts, from revision 3");
}

/// An encrypted store begins a new segment when it is opened. If the disk is too full for that, reading works, and
/// writing begins when there is room.
#[test]
fn an_encrypted_store_opens_on_a_full_disk_and_heals_later() {
    let key = EncryptionKey::generate().unwrap();
    let options = Options { encryption: keys(&[&key]), ..small_options() };
    let disk = FaultyDisk::new(7);
    Rig::open(&disk, &options).unwrap().commit(vec![vec![Op::create("/a", "1")]]);
    let disk = disk.after_kill();
    // Syncing the directory, rewriting the last frame and syncing it work; nothing new can be made.
    (3..30).for_each(|step| disk.plan(step, Fault::Refuse(ErrorKind::StorageFull)));
    let mut rig = Rig::open(&disk, &options).unwrap();
    assert!(rig.shared.get(b"/a").is_some());
    assert!(matches!(rig.commit(vec![vec![Op::create("/b", "1")]])[0], Err(TxnError::ReadOnly(_))));
    while !rig.heal() {}
    assert!(rig.commit(vec![vec![Op::create("/b", "1")]])[0].is_ok());
    let rig = Rig::open(&disk.after_power_loss(7), &options).unwrap();
    assert!(rig.shared.get(b"/b").is_some());
}
