//! Opening and closing on a real file system.

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
