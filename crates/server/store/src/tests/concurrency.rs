//! Many writers, readers and watchers at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lazaret_storage::block_on;

use crate::fault::{Fault, FaultyDisk, Random};
use crate::{Event, Expect, Op, Options, RangeOptions, Store, TxnError, WatchError};

/// Applies events to contents, checking that each follows from the one before.
fn follow(contents: &mut BTreeMap<String, u64>, event: &Event) {
    let key = event.key.to_string();
    assert_eq!(event.old.as_ref().map(|item| item.modified), contents.get(&key).copied(), "{key}");
    match &event.new {
        Some(item) => contents.insert(key, item.modified),
        None => contents.remove(&key),
    };
}

#[test]
fn counters_raised_by_many_writers_lose_no_increment() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    store.txn_blocking(vec![Op::create("/counter", "0")]).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let mut held = store.get("/counter").unwrap();
                    loop {
                        let count: u32 = std::str::from_utf8(&held.value).unwrap().parse().unwrap();
                        let next = Op::update("/counter", held.modified, format!("{}", count + 1));
                        match store.txn_blocking(vec![next]) {
                            Ok(_) => break,
                            Err(TxnError::Conflict { current, .. }) => held = current.unwrap(),
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(store.get("/counter").unwrap().value, "400");
}

#[test]
fn list_then_watch_sees_every_change_once_under_load() {
    let store = Store::ephemeral(Options::default()).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..6_u64)
            .map(|writer| {
                let store = &store;
                scope.spawn(move || {
                    let mut random = Random(writer);
                    for _ in 0..1_500 {
                        let key = format!("/{}/{:02}", ["a", "b"][random.below(2)], random.below(30));
                        let op =
                            if random.below(3) == 0 { Op::delete_any(key) } else { Op::put(key, "value") };
                        let other = Op::check("/nothing", Expect::Absent);
                        let committed = store.txn_blocking(vec![op, other]).unwrap();
                        assert!(store.revision() >= committed.revision, "acknowledged is visible");
                    }
                })
            })
            .collect();
        for watcher in 0..12 {
            let (store, done) = (&store, &done);
            scope.spawn(move || {
                let prefix = ["/", "/a/", "/b/", "/b/1"][watcher % 4];
                while !done.load(Ordering::SeqCst) {
                    let list = store.range(prefix, &RangeOptions::default()).unwrap();
                    let mut contents: BTreeMap<_, _> =
                        list.items.iter().map(|item| (item.key.to_string(), item.modified)).collect();
                    let mut watch = store.watch(prefix, list.revision).unwrap();
                    let mut seen = list.revision;
                    for _ in 0..500 {
                        match watch.try_next().unwrap() {
                            Some(event) => {
                                assert!(event.revision > seen);
                                assert!(store.revision() >= event.revision, "what is watched can be read");
                                seen = event.revision;
                                follow(&mut contents, &event);
                            }
                            None => seen = watch.progress(),
                        }
                    }
                    let then = store.range(
                        prefix,
                        &RangeOptions { at: Some(watch.progress()), ..RangeOptions::default() },
                    );
                    let then: BTreeMap<_, _> = then
                        .unwrap()
                        .items
                        .iter()
                        .map(|item| (item.key.to_string(), item.modified))
                        .collect();
                    // Everything up to the progress was delivered, so the past looks like what was followed.
                    assert_eq!(then, contents);
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(store.stats().watches, 0);
    assert_eq!(store.stats().watched_prefixes, 0);
}

#[test]
fn a_waiting_watch_is_woken_by_each_commit_and_by_the_close() {
    let store = Store::ephemeral(Options::default()).unwrap();
    let watchers: Vec<_> = (0..16)
        .map(|_| {
            let mut watch = store.watch("/a/", store.revision()).unwrap();
            thread::spawn(move || {
                let mut count = 0;
                loop {
                    match block_on(watch.next()) {
                        Ok(_) => count += 1,
                        Err(error) => return (count, error),
                    }
                }
            })
        })
        .collect();
    for n in 0..200 {
        store.txn_blocking(vec![Op::put(format!("/a/{n}"), "x"), Op::put(format!("/b/{n}"), "x")]).unwrap();
    }
    store.close();
    for watcher in watchers {
        assert_eq!(watcher.join().unwrap(), (200, WatchError::Closed));
    }
}

#[test]
fn a_slow_watch_is_dropped_and_an_idle_one_is_not() {
    let store = Store::ephemeral(Options { history_events_max: 100, ..Options::default() }).unwrap();
    let mut slow = store.watch("/busy/", 1).unwrap();
    let mut idle = store.watch("/quiet/", 1).unwrap();
    for n in 0..500 {
        store.txn_blocking(vec![Op::put("/busy/x", format!("{n}"))]).unwrap();
    }
    assert_eq!(slow.try_next(), Err(WatchError::Compacted { asked: 1, oldest: 401 }));
    assert_eq!(slow.try_next(), Err(WatchError::Compacted { asked: 1, oldest: 401 }));
    assert_eq!(idle.try_next(), Ok(None));
    assert_eq!(idle.progress(), 501);
    store.txn_blocking(vec![Op::put("/quiet/x", "at last")]).unwrap();
    assert_eq!(idle.try_next().unwrap().unwrap().revision, 502);
    assert_eq!(store.stats().watches_dropped, 1);
}

#[test]
fn the_history_is_bounded_in_bytes_too() {
    let store = Store::ephemeral(Options { history_bytes_max: 50_000, ..Options::default() }).unwrap();
    for _ in 0..100 {
        store.txn_blocking(vec![Op::put("/x", vec![b'x'; 5_000])]).unwrap();
    }
    let stats = store.stats();
    assert!(stats.history_bytes <= 50_000 && stats.history_events < 10, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_the_bounded_queue() {
    let options =
        Options { queue_txns_max: 4, queue_bytes_max: 2_000, group_ops_max: 3, ..Options::default() };
    let store = Store::ephemeral(options).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..200 {
        let store = store.clone();
        tasks.spawn(
            async move { store.txn(vec![Op::create(format!("/{n}"), vec![b'x'; 900])]).await.unwrap() },
        );
    }
    let mut revisions: Vec<u64> = tasks.join_all().await.iter().map(|committed| committed.revision).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, (2..=201).collect::<Vec<_>>());
    assert_eq!(store.reached(150).await, 201);
    let waiting = store.clone();
    let reached = async move { waiting.reached(202).await };
    let (reached, _) = tokio::join!(reached, store.txn(vec![Op::put("/more", "x")]));
    assert_eq!(reached, 202);
}

/// Threads, real group commits and snapshots beside them, on a disk that stops somewhere.
#[test]
fn a_crash_under_load_loses_nothing_acknowledged() {
    for seed in 0..150_u64 {
        let mut random = Random(seed);
        let disk = FaultyDisk::new(seed);
        disk.plan(20 + random.below(400) as u64, Fault::Crash);
        let options = Options {
            segment_bytes_max: 4_000,
            snapshot_log_bytes_min: 8_000,
            group_ops_max: 5,
            ..Options::default()
        };
        let store = Store::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
        let (store, disk_ref) = (&store, &disk);
        // Each writer owns one key: what it knows to be acknowledged, and what it tried last.
        let known: Vec<(u64, u64)> = thread::scope(|scope| {
            let writers: Vec<_> = (0..4_u64)
                .map(|writer| {
                    scope.spawn(move || {
                        let mut acknowledged = 0;
                        for count in 1..400_u64 {
                            let value = format!(
                                "{count:0width$}",
                                width = 20 + 150 * usize::try_from(writer).unwrap()
                            );
                            match store.txn_blocking(vec![Op::put(format!("/{writer}"), value)]) {
                                Ok(_) => acknowledged = count,
                                Err(_) => return (acknowledged, count),
                            }
                        }
                        (acknowledged, acknowledged)
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let visible = store.revision();
        store.close();
        let store = Store::open_on(Arc::new(disk_ref.after_power_loss(seed)), options).unwrap();
        assert!(store.revision() >= visible, "seed {seed}");
        for (writer, (acknowledged, tried)) in known.into_iter().enumerate() {
            let held = store.get(format!("/{writer}"));
            let held: u64 = held.map_or(0, |item| std::str::from_utf8(&item.value).unwrap().parse().unwrap());
            assert!(
                (acknowledged..=tried).contains(&held),
                "seed {seed}: {acknowledged} <= {held} <= {tried}"
            );
        }
    }
}
