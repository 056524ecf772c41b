//! How many requests may wait for webhooks. A request that waits has given its seat back: these limits are what it is held to instead.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Semaphore;

// DEVIATION(webhook-waiting)
/// Requests that wait at a time. Each holds its body and a connection; some hold a thread, of which there are 512.
pub(super) const REQUESTS_MAX: usize = 384;
/// Of these, requests of one user: others always find a place.
pub(super) const USER_REQUESTS_MAX: usize = REQUESTS_MAX / 2;
/// Of these, requests that wait for one webhook: one that hangs leaves room for the others.
pub(super) const WEBHOOK_REQUESTS_MAX: usize = REQUESTS_MAX / 2;
/// Calls in flight at a time, over all webhooks: each holds a connection, a review and an answer of up to 3 MiB.
const CALLS_MAX: usize = 128;
/// After this many seconds a client may try again.
pub(super) const RETRY_AFTER_SECONDS: u32 = 1;

/// The limits of a server's calls of webhooks.
#[derive(Clone, Debug)]
pub(crate) struct WebhookLimits {
    counts: Arc<Mutex<Counts>>,
    calls: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_user: BTreeMap<Arc<str>, usize>,
    by_webhook: BTreeMap<Arc<str>, usize>,
}

/// A request that waits, counted out when it goes.
#[derive(Debug)]
pub(super) struct Waiting {
    counts: Arc<Mutex<Counts>>,
    user: Arc<str>,
    webhooks: Vec<Arc<str>>,
}

impl Default for WebhookLimits {
    fn default() -> Self {
        Self { counts: Arc::default(), calls: Arc::new(Semaphore::new(CALLS_MAX)) }
    }
}

impl WebhookLimits {
    /// Counts a request in that waits for these webhooks; `None` when there are too many already.
    pub(super) fn wait(&self, user: &str, webhooks: Vec<Arc<str>>) -> Option<Waiting> {
        let mut counts = lock(&self.counts);
        let count = |counts: &BTreeMap<Arc<str>, usize>, name: &str| counts.get(name).copied().unwrap_or(0);
        let full = counts.all >= REQUESTS_MAX
            || count(&counts.by_user, user) >= USER_REQUESTS_MAX
            || webhooks.iter().any(|name| count(&counts.by_webhook, name) >= WEBHOOK_REQUESTS_MAX);
        if full {
            return None;
        }
        let user: Arc<str> = user.into();
        counts.all += 1;
        *counts.by_user.entry(user.clone()).or_default() += 1;
        for name in &webhooks {
            *counts.by_webhook.entry(name.clone()).or_default() += 1;
        }
        Some(Waiting { counts: self.counts.clone(), user, webhooks })
    }

    pub(super) fn calls(&self) -> &Semaphore {
        &self.calls
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        fn less(counts: &mut BTreeMap<Arc<str>, usize>, name: &Arc<str>) {
            if let Some(count) = counts.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(name);
                }
            }
        }
        let mut counts = lock(&self.counts);
        counts.all -= 1;
        less(&mut counts.by_user, &self.user);
        for name in &self.webhooks {
            less(&mut counts.by_webhook, name);
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_user_nor_a_webhook_takes_all_places_and_all_come_back() {
        let limits = WebhookLimits::default();
        let wait = |user: &str, webhook: &str| limits.wait(user, vec![webhook.into()]);
        let mut held: Vec<Waiting> = Vec::new();
        for at in 0..USER_REQUESTS_MAX {
            held.extend(wait("greedy", &format!("w{at}")));
        }
        assert_eq!(held.len(), USER_REQUESTS_MAX);
        assert!(wait("greedy", "other").is_none(), "a user has its share");
        for at in 0..REQUESTS_MAX - USER_REQUESTS_MAX {
            held.extend(wait(&format!("u{at}"), "slow"));
        }
        assert_eq!(held.len(), REQUESTS_MAX);
        assert!(wait("late", "another").is_none(), "all places are taken");
        held.truncate(USER_REQUESTS_MAX);
        assert!(wait("late", "slow").is_some());
        held.clear();
        let counts = lock(&limits.counts);
        assert_eq!((counts.all, counts.by_user.len(), counts.by_webhook.len()), (0, 0, 0));
    }

    #[test]
    fn a_webhook_that_hangs_leaves_room_for_others() {
        let limits = WebhookLimits::default();
        let users: Vec<String> = (0..WEBHOOK_REQUESTS_MAX).map(|at| format!("u{at}")).collect();
        let held: Vec<_> = users.iter().filter_map(|user| limits.wait(user, vec!["hangs".into()])).collect();
        assert_eq!(held.len(), WEBHOOK_REQUESTS_MAX);
        assert!(limits.wait("late", vec!["hangs".into()]).is_none());
        assert!(limits.wait("late", vec!["works".into()]).is_some());
    }
}
