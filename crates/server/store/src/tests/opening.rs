//! Opening and closing on a real file system.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::{Op, OpenError, Options, RangeOptions, Store, TxnError, WatchError};

#[test]
fn a_second_opening_is_refused_by_directory_and_pid() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let error = Store::open(dir.path(), Options::default()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, OpenError::Locked { pid: Some(pid), .. } if pid == std::process::id()), "{text}");
    assert!(text.contains(dir.path().to_str().unwrap()), "{text}");
    drop(store);
    Store::open(dir.path(), Options::default()).unwrap();
}

#[test]
fn reopening_continues_revisions_contents_and_watches() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { snapshot_log_bytes_min: 20_000, segment_bytes_max: 5_000, ..Options::default() };
    let mut last = 0;
    for round in 0..5_u32 {
        let store = Store::open(dir.path(), options.clone()).unwrap();
        assert!(store.revision() >= last);
        assert_eq!(store.count("/n/"), 40 * round as usize);
        match store.watch("/n/", last.max(1)) {
            Ok(mut watch) => assert_eq!(watch.try_next(), Ok(None), "nothing happened since"),
            Err(error) => assert!(matches!(error, WatchError::Compacted { .. }), "{error}"),
        }
        for n in 0..40_u32 {
            let key = format!("/n/{:05}", round * 40 + n);
            last = store.txn_blocking(vec![Op::create(key, vec![b'x'; 300])]).unwrap().revision;
        }
        let mut watch = store.watch("/n/", last - 40).unwrap();
        assert_eq!(std::iter::from_fn(|| watch.try_next().unwrap()).count(), 40);
    }
    let store = Store::open(dir.path(), options).unwrap();
    let range = store.range("/n/", &RangeOptions::default()).unwrap();
    assert_eq!((range.items.len(), range.revision), (200, last));
    assert!(range.items.iter().all(|item| item.created == item.modified && item.value.len() == 300));
}

#[test]
fn compaction_survives_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    for n in 0..10 {
        store.txn_blocking(vec![Op::put("/a", format!("{n}"))]).unwrap();
    }
    assert_eq!(store.compact_blocking(7).unwrap(), 7);
    assert_eq!(store.compact_blocking(3).unwrap(), 7, "what is forgotten stays forgotten");
    drop(store);
    let store = Store::open(dir.path(), Options::default()).unwrap();
    assert_eq!(store.stats().oldest, 7);
    assert_eq!(store.watch("/", 6).unwrap_err(), WatchError::Compacted { asked: 6, oldest: 7 });
    let range = store.range("/a", &RangeOptions { at: Some(7), ..RangeOptions::default() }).unwrap();
    assert_eq!(range.items[0].value, "5");
}

#[test]
fn a_closed_store_ends_watches_and_refuses_writes() {
    let store = Store::ephemeral(Options::default()).unwrap();
    let mut watch = store.watch("/", 1).unwrap();
    store.txn_blocking(vec![Op::put("/a", "1")]).unwrap();
    store.close();
    assert_eq!(watch.try_next().unwrap().unwrap().revision, 2, "what was published is delivered");
    assert_eq!(watch.try_next(), Err(WatchError::Closed));
    assert_eq!(watch.try_next(), Err(WatchError::Closed));
    assert!(matches!(store.txn_blocking(vec![Op::put("/a", "2")]), Err(TxnError::Closed)));
    assert!(matches!(store.watch("/", 1), Err(WatchError::Closed)));
    assert_eq!(store.get("/a").unwrap().value, "1", "reads go on");
}

fn put(store: &Store, key: &str) {
    store.txn_blocking(vec![Op::put(key, vec![b'x'; 2_000])]).unwrap();
}

fn is_locked(dir: &Path) -> bool {
    matches!(Store::open(dir, Options::default()), Err(OpenError::Locked { .. }))
}

#[test]
fn the_directory_is_locked_whatever_is_removed_from_it_and_however_it_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved, link) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
    let store = Store::open(&path, Options::default()).unwrap();
    symlink(&path, &link).unwrap();
    for name in [&path, &link] {
        fs::remove_file(path.join("lock")).unwrap();
        assert!(is_locked(name), "{}: the lock file is gone", name.display());
        assert!(is_locked(name), "{}: there is one that another process made", name.display());
    }
    fs::rename(&path, &moved).unwrap();
    assert!(is_locked(&moved), "renamed");
    drop(store);
    Store::open(&moved, Options::default()).unwrap();
}

#[test]
fn a_process_of_a_release_that_locked_the_file_alone_is_respected_and_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path(), Options::default()).unwrap());
    let older = fs::File::open(dir.path().join("lock")).unwrap();
    older.try_lock().unwrap();
    assert!(is_locked(dir.path()));
    older.unlock().unwrap();
    let _store = Store::open(dir.path(), Options::default()).unwrap();
    assert!(matches!(older.try_lock(), Err(fs::TryLockError::WouldBlock)));
}

/// Segments and snapshots that are made later belong to the directory that was opened, not to its name.
#[test]
fn a_store_whose_directory_is_renamed_stays_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("a"), dir.path().join("b"));
    let options = Options { snapshot_log_bytes_min: 9_000, segment_bytes_max: 3_000, ..Options::default() };
    let first = Store::open(&path, options.clone()).unwrap();
    fs::rename(&path, &moved).unwrap();
    let second = Store::open(&path, options.clone()).unwrap();
    for n in 0..20 {
        put(&first, &format!("/first/{n}"));
        put(&second, &format!("/second/{n}"));
    }
    first.snapshot_blocking().unwrap();
    second.snapshot_blocking().unwrap();
    drop((first, second));
    for (dir, mine, other) in [(&moved, "/first/", "/second/"), (&path, "/second/", "/first/")] {
        let store = Store::open(dir, options.clone()).unwrap();
        assert_eq!((store.count(mine), store.count(other)), (20, 0), "{}", dir.display());
    }
}

/// A copy of a store made of hard links is another directory with the same files.
#[test]
fn a_log_file_is_not_written_by_two() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let store = Store::open(&path, Options::default()).unwrap();
    put(&store, "/a");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        let name = entry.unwrap().file_name();
        if name != "lock" {
            fs::hard_link(path.join(&name), copy.join(&name)).unwrap();
        }
    }
    let error = Store::open(&copy, Options::default()).unwrap_err().to_string();
    assert!(error.contains("another process has the file open to write it"), "{error}");
    put(&store, "/b");
    drop(store);
    assert_eq!(Store::open(&copy, Options::default()).unwrap().count("/"), 2);
}

/// Bytes in a file without a name are not kept: the write is in doubt, and everything is written anew.
#[test]
fn a_log_file_that_is_removed_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    put(&store, "/a");
    for entry in fs::read_dir(dir.path()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let write = |key: &str| store.txn_blocking(vec![Op::put(key, "x")]);
    assert!(matches!(write("/b"), Err(TxnError::Unknown(_))));
    // Refused while the store writes everything to new files.
    while let Err(error) = write("/c") {
        assert!(matches!(error, TxnError::ReadOnly(_)), "{error}");
        std::thread::yield_now();
    }
    drop(store);
    let store = Store::open(dir.path(), Options::default()).unwrap();
    assert!(store.get("/a").is_some() && store.get("/c").is_some());
}
