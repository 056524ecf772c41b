//! The parts of the contract that a step-by-step comparison does not reach: waiting and closing.

mod linear;

use lazaret_storage::{Op, Storage, TxnError, WatchError};

use crate::Memory;

#[tokio::test]
async fn a_waiting_watch_is_woken_by_a_commit() {
    let memory = Memory::default();
    let mut watch = memory.watch("/a/".into(), memory.revision()).unwrap();
    let write = async {
        tokio::task::yield_now().await;
        memory.txn(vec![Op::create("/b/1", "x"), Op::create("/a/1", "x")]).await.unwrap()
    };
    let (event, committed) = tokio::join!(watch.next(), write);
    assert_eq!(event.unwrap().revision, committed.revision);
}

#[tokio::test]
async fn a_revision_that_is_still_to_come_is_waited_for() {
    let memory = Memory::default();
    let write = async {
        tokio::task::yield_now().await;
        memory.txn(vec![Op::put("/a", "x")]).await.unwrap()
    };
    let (reached, committed) = tokio::join!(memory.reached(memory.revision() + 1), write);
    assert_eq!(reached, committed.revision);
}

#[tokio::test]
async fn watches_end_with_the_last_handle() {
    let memory = Memory::default();
    let mut watch = memory.watch("/".into(), memory.revision()).unwrap();
    memory.txn(vec![Op::put("/a", "x")]).await.unwrap();
    let other = memory.clone();
    drop(memory);
    assert!(watch.try_next().unwrap().is_some(), "one handle is left");
    assert_eq!(watch.try_next(), Ok(None));
    drop(other);
    assert_eq!(watch.next().await, Err(WatchError::Closed));
}

#[tokio::test]
async fn a_closed_store_refuses_writes_and_watches_and_still_reads() {
    let memory = Memory::default();
    memory.txn(vec![Op::put("/a", "x")]).await.unwrap();
    memory.close();
    assert!(matches!(memory.txn(vec![Op::put("/a", "y")]).await, Err(TxnError::Closed)));
    assert!(matches!(memory.watch("/".into(), memory.revision()), Err(WatchError::Closed)));
    assert_eq!(memory.get(b"/a").unwrap().value, "x");
}
