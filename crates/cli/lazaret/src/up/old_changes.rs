//! Lets go of the changes that watches have long passed, and of trees of objects that are not written any more: after a storm the memory is given
//! back.

use std::time::Duration;

use lazaret_server::{Server, forget_trees_until};
use lazaret_store::{CompactError, Store};

/// How often changes are let go, as an API server of Kubernetes has etcd compact: they are kept for this long, and at most twice as long.
const EVERY: Duration = Duration::from_secs(5 * 60);

/// Never ends by itself.
pub(super) async fn let_go(store: Store, server: &Server) {
    let mut turns = tokio::time::interval(EVERY);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ripe = 0;
    loop {
        turns.tick().await;
        forget_trees_until(server, ripe);
        ripe = turn(&store, ripe).await;
    }
}

/// Lets go of changes up to the revision of the turn before. Returns the one for the next turn.
async fn turn(store: &Store, ripe: u64) -> u64 {
    let now = store.revision();
    if ripe > 0
        && let Err(error) = store.compact(ripe).await
    {
        match error {
            // The disk is full, which the store says itself. The next turn lets go of more.
            CompactError::ReadOnly(_) | CompactError::Closed => {}
            CompactError::Future { .. } => tracing::error!(%error, "old changes are kept"),
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use lazaret_store::{Op, Options, WatchError};

    use super::*;

    async fn write(store: &Store, key: &str) {
        store.txn(vec![Op::put(key, "value")]).await.unwrap();
    }

    #[tokio::test]
    async fn changes_are_kept_from_one_turn_to_the_next_and_let_go_at_the_one_after_that() {
        let store = Store::ephemeral(Options::default()).unwrap();
        write(&store, "/one").await;
        let first = turn(&store, 0).await;
        write(&store, "/two").await;
        assert!(store.watch("/", 1).is_ok(), "nothing is let go in the first turn");
        let second = turn(&store, first).await;
        assert!(matches!(store.watch("/", first - 1), Err(WatchError::Compacted { .. })));
        assert!(store.watch("/", first).is_ok(), "a watch from the turn before goes on");
        assert_eq!(turn(&store, second).await, second, "nothing was written");
        assert!(store.watch("/", second).is_ok());
    }
}
