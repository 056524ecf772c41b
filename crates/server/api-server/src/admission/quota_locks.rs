//! Writers of one namespace take turns.

use std::hash::{DefaultHasher, Hasher};

use tokio::sync::{Mutex, MutexGuard};

/// Namespaces whose writers do not wait for each other, as far as the hashes of their names differ.
const TURNS: usize = 64;

/// Lets those who write in a namespace with quotas go one after the other.
pub(crate) struct QuotaLocks(Vec<Mutex<()>>);

impl Default for QuotaLocks {
    fn default() -> Self {
        Self((0..TURNS).map(|_| Mutex::new(())).collect())
    }
}

impl QuotaLocks {
    pub(super) async fn take(&self, namespace: &str) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        hasher.write(namespace.as_bytes());
        #[allow(clippy::cast_possible_truncation, reason = "a hash")]
        let hash = hasher.finish() as usize;
        self.0[hash % TURNS].lock().await
    }
}
