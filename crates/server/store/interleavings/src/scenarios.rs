//! Scenarios, with the properties that must hold in every order.

use std::sync::Arc;

use lazaret_storage::{Key, Op, WatchError};
use loom::thread;

use crate::rig::{START, commit, every_order, list, new_shared, next};

/// More than any scenario makes.
const HISTORY: usize = 100;

#[test]
fn a_waiting_watch_gets_every_event_once_and_can_read_it() {
    every_order(|| {
        let shared = new_shared(HISTORY);
        let mut watch = shared.watch(Key::from("/a/"), START).unwrap();
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                commit(&shared, Op::put("/a/x", "1"));
                commit(&shared, Op::put("/a/x", "2"));
            })
        };
        for revision in [2, 3] {
            let event = next(&mut watch).unwrap();
            assert_eq!(event.revision, revision);
            assert!(shared.revision() >= revision, "what is watched is published");
            assert!(shared.get(b"/a/x").unwrap().modified >= revision, "what is watched can be read");
        }
        writer.join().unwrap();
        assert!(watch.try_next().unwrap().is_none());
    });
}

#[test]
fn a_list_and_the_watch_after_it_miss_nothing() {
    every_order(|| {
        let shared = new_shared(HISTORY);
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                commit(&shared, Op::put("/a/x", "1"));
                commit(&shared, Op::put("/b/x", "1"));
                commit(&shared, Op::delete_any("/a/x"));
            })
        };
        let (mut contents, revision) = list(&shared, "/a/");
        let mut watch = shared.watch(Key::from("/a/"), revision).unwrap();
        for due in [2, 4].into_iter().filter(|due| *due > revision) {
            let event = next(&mut watch).unwrap();
            assert_eq!(event.revision, due);
            contents.retain(|(key, _)| *key != event.key);
            contents.extend(event.new.iter().map(|item| (item.key.clone(), item.modified)));
        }
        writer.join().unwrap();
        assert_eq!(contents, list(&shared, "/a/").0);
    });
}

#[test]
fn progress_never_passes_over_an_event() {
    every_order(|| {
        let shared = new_shared(HISTORY);
        let mut watch = shared.watch(Key::from("/a/"), START).unwrap();
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                commit(&shared, Op::put("/b/x", "1"));
                commit(&shared, Op::put("/a/x", "1"));
            })
        };
        let progress = watch.progress();
        let event = watch.try_next().unwrap();
        let seen = event.map(|event| event.revision);
        assert!(progress < 3, "revision 3 was not delivered at progress {progress}");
        let later = watch.progress();
        assert!(later < 3 || seen == Some(3), "progress {later}, delivered {seen:?}");
        writer.join().unwrap();
        if seen.is_none() {
            assert_eq!(next(&mut watch).unwrap().revision, 3);
        }
        assert_eq!(watch.progress(), 3);
    });
}

#[test]
fn a_close_ends_a_watch_after_all_that_was_published() {
    every_order(|| {
        let shared = new_shared(HISTORY);
        let mut watch = shared.watch(Key::from("/a/"), START).unwrap();
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                commit(&shared, Op::put("/a/x", "1"));
                shared.close();
            })
        };
        assert_eq!(next(&mut watch).unwrap().revision, 2);
        assert_eq!(next(&mut watch), Err(WatchError::Closed));
        writer.join().unwrap();
    });
}

#[test]
fn a_watch_behind_a_short_history_is_told_and_never_skips() {
    every_order(|| {
        let shared = new_shared(1);
        let mut watch = shared.watch(Key::from("/a/"), START).unwrap();
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                commit(&shared, Op::put("/a/x", "1"));
                commit(&shared, Op::put("/a/x", "2"));
            })
        };
        let mut due = 2;
        while due <= 3 {
            match next(&mut watch) {
                Ok(event) => assert_eq!(event.revision, due, "an event was skipped"),
                Err(WatchError::Compacted { asked, oldest }) => {
                    assert!(asked + 1 == due && oldest >= due, "{asked}, {oldest}, {due}");
                    break;
                }
                Err(other) => panic!("{other}"),
            }
            due += 1;
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_watch_that_leaves_takes_no_other_along() {
    every_order(|| {
        let shared = new_shared(HISTORY);
        let leaves = shared.watch(Key::from("/a/"), START).unwrap();
        let mut stays = shared.watch(Key::from("/a/"), START).unwrap();
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || commit(&shared, Op::put("/a/x", "1")))
        };
        drop(leaves);
        assert_eq!(next(&mut stays).unwrap().revision, 2);
        writer.join().unwrap();
        drop(stays);
        assert_eq!(shared.stats(0).watched_prefixes, 0);
    });
}
