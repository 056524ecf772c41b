//! How long to wait before something is tried again.

use lazaret_machine::Backoff;

use crate::Millis;

/// Kubelet's first pause between starts of a container, its longest, and after how long a container that ran is trusted again.
const CRASH_FIRST_MS: Millis = 10_000;
const CRASH_MOST_MS: Millis = 300_000;
const CRASH_FORGET_MS: Millis = 2 * CRASH_MOST_MS;

/// Pauses between images that cannot be pulled, as kubelet has them.
pub(crate) const PULL: Backoff = Backoff::new(10_000, 300_000);
/// Pauses between other things that failed. Kubelet looks at a pod every 10 s or so.
pub(crate) const RETRY: Backoff = Backoff::new(1_000, 30_000);

/// Pauses between starts of one container: the first start after an end is at once, later ones wait 10 s to 300 s.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CrashBackoff {
    /// The pause after the next end, and when it was set.
    set: Option<(Millis, Millis)>,
}

impl CrashBackoff {
    /// Until when a container that ended then is not started, and the pause.
    pub(crate) fn until(&self, ended_at: Millis) -> Option<(Millis, Millis)> {
        let (pause, set_at) = self.set?;
        (ended_at.saturating_sub(set_at) <= CRASH_FORGET_MS).then(|| (ended_at.saturating_add(pause), pause))
    }

    /// It is started again now.
    pub(crate) fn started(&mut self, now: Millis, ended_at: Millis) {
        let pause = match self.set {
            Some((pause, set_at)) if ended_at.saturating_sub(set_at) <= CRASH_FORGET_MS => {
                (pause * 2).min(CRASH_MOST_MS)
            }
            Some(_) | None => CRASH_FIRST_MS,
        };
        self.set = Some((pause, now));
    }
}
