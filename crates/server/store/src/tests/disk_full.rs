//! A full disk: the store stops writing, says why, and keeps answering; how it goes on is in `healing`.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::fault::{Fault, FaultyDisk};
use crate::{CompactError, Op, Options, Store, TxnError};

#[test]
fn a_full_disk_makes_the_store_read_only_until_it_is_opened_again() {
    let disk = FaultyDisk::new(1);
    let store = Store::open_on(Arc::new(disk.clone()), Options::default()).unwrap();
    let before = store.txn_blocking(vec![Op::create("/a", "kept")]).unwrap().revision;

    // For longer than this test lasts: no attempt to heal succeeds.
    let step = disk.steps();
    (step..step + 10_000).for_each(|step| disk.plan(step, Fault::Refuse(ErrorKind::StorageFull)));
    let error = store.txn_blocking(vec![Op::create("/b", vec![b'x'; 5_000])]).unwrap_err();
    assert!(matches!(error, TxnError::Unknown(_)), "{error}");
    let error = store.txn_blocking(vec![Op::create("/c", "no")]).unwrap_err();
    assert!(matches!(error, TxnError::ReadOnly(_)), "{error}");
    assert!(matches!(store.compact_blocking(before), Err(CompactError::ReadOnly(_))));
    assert_eq!(store.revision(), before);
    assert!(store.get("/a").is_some() && store.get("/b").is_none());
    assert!(store.stats().read_only.unwrap().contains("append to log-0000000001"));
    store.close();

    let store = Store::open_on(Arc::new(disk.after_kill()), Options::default()).unwrap();
    assert_eq!(store.get("/a").unwrap().value, "kept");
    assert!(store.txn_blocking(vec![Op::create("/c", "yes")]).unwrap().revision > before);
}
