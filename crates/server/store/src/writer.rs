//! The one thread that writes: takes what is queued, up to a limit, and commits it as a group. After a failure it tries
//! to heal, again and again, until the disk does.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::commit::{Committer, Request};
use crate::options::Options;

/// A message of the queue.
#[derive(Debug)]
pub(crate) enum Message {
    Request(Request),
    /// Try to write again after a failure.
    Heal,
    /// Take nothing more; finish what is queued. (Not left to the last sender's drop: a forgotten future may hold
    /// a sender for ever.)
    Close,
}

/// The first attempt to heal comes this long after the failure, later ones twice as long after the one before.
const HEAL_BACKOFF_MS_MIN: u64 = 100;
/// A disk that was full for hours is noticed this soon after it has room again.
const HEAL_BACKOFF_MS_MAX: u64 = 5_000;
/// A store that fails again before this many groups were committed has not healed: the backoff goes on where it was.
const HEALTHY_GROUPS_MIN: u64 = 100;

/// Runs until it is closed and the queue is empty; then drops the committer and `close_on_drop`,
/// in that order.
pub(crate) fn spawn(
    committer: Committer,
    queue: mpsc::Receiver<Message>,
    sender: mpsc::WeakSender<Message>,
    options: &Options,
    close_on_drop: impl Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let mut intake = Intake {
        queue,
        held: None,
        group_ops_max: options.group_ops_max,
        group_bytes_max: options.group_bytes_max,
    };
    let mut committer = committer;
    let mut healing = WriteRecovery { queue: sender, state: Backoff::default() };
    thread::Builder::new().name("store-writer".into()).spawn(move || {
        healing.check(&mut committer);
        while let Some(work) = intake.next() {
            match work {
                Work::Group(group) => committer.commit(group),
                Work::Heal => {
                    committer.heal();
                    healing.state.tried(&committer);
                }
            }
            healing.check(&mut committer);
        }
        drop(committer);
        drop(close_on_drop);
    })
}

/// When to try to heal.
struct WriteRecovery {
    queue: mpsc::WeakSender<Message>,
    state: Backoff,
}

impl WriteRecovery {
    /// Plans an attempt if one is needed and none is planned. Where there is no thread to wait on, the writer waits itself: a read-only
    /// store has nothing to write.
    fn check(&mut self, committer: &mut Committer) {
        while committer.is_read_only()
            && let Some(wait) = self.state.plan(committer.groups())
            && schedule_recovery(self.queue.clone(), wait).is_err()
        {
            thread::sleep(wait);
            committer.heal();
            self.state.tried(committer);
        }
    }
}

/// Asks the writer to heal after `wait`, on a thread that ends with that: a store that is well has none.
fn schedule_recovery(queue: mpsc::WeakSender<Message>, wait: Duration) -> io::Result<()> {
    let reminder = move || {
        thread::sleep(wait);
        if let Some(queue) = queue.upgrade() {
            // Fails only if the writer is gone, and then there is nothing to heal.
            drop(queue.blocking_send(Message::Heal));
        }
    };
    thread::Builder::new().name("store-heal-timer".into()).spawn(reminder).map(drop)
}

/// How long to wait, by how often it was in vain.
#[derive(Debug, Default)]
struct Backoff {
    planned: bool,
    attempts: u32,
    /// The groups that were committed when the store healed last.
    healed_at: Option<u64>,
}

impl Backoff {
    fn plan(&mut self, groups: u64) -> Option<Duration> {
        if self.planned {
            return None;
        }
        if self.healed_at.take().is_some_and(|healed_at| groups - healed_at >= HEALTHY_GROUPS_MIN) {
            self.attempts = 0;
        }
        self.planned = true;
        let doubled = HEAL_BACKOFF_MS_MIN.saturating_mul(1 << self.attempts.min(16));
        self.attempts = self.attempts.saturating_add(1);
        Some(Duration::from_millis(doubled.min(HEAL_BACKOFF_MS_MAX)))
    }

    fn tried(&mut self, committer: &Committer) {
        self.planned = false;
        if !committer.is_read_only() {
            self.healed_at = Some(committer.groups());
        }
    }
}

enum Work {
    Group(Vec<Request>),
    Heal,
}

struct Intake {
    queue: mpsc::Receiver<Message>,
    /// The work that did not fit into the group before.
    held: Option<Message>,
    group_ops_max: usize,
    group_bytes_max: usize,
}

impl Intake {
    /// Waits for one request, and takes along those that wait already and fit.
    fn next(&mut self) -> Option<Work> {
        let first = match self.first()? {
            Message::Request(request) => request,
            Message::Heal | Message::Close => return Some(Work::Heal),
        };
        let (mut ops, mut bytes) = first.weight();
        let mut group = vec![first];
        while let Ok(message) = self.queue.try_recv() {
            let request = match message {
                Message::Request(request) => request,
                Message::Heal => {
                    self.held = Some(Message::Heal);
                    break;
                }
                Message::Close => {
                    self.queue.close();
                    continue;
                }
            };
            let (more_ops, more_bytes) = request.weight();
            ops += more_ops;
            bytes += more_bytes;
            if ops > self.group_ops_max || bytes > self.group_bytes_max {
                self.held = Some(Message::Request(request));
                break;
            }
            group.push(request);
        }
        Some(Work::Group(group))
    }

    /// A request or the order to heal.
    fn first(&mut self) -> Option<Message> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        loop {
            match self.queue.blocking_recv()? {
                Message::Close => self.queue.close(),
                message @ (Message::Request(_) | Message::Heal) => return Some(message),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_to_its_limit_and_begins_anew_only_after_health() {
        let mut backoff = Backoff::default();
        let mut waits = Vec::new();
        for _ in 0..8 {
            waits.extend(backoff.plan(0).map(|wait| wait.as_millis()));
            assert_eq!(backoff.plan(0), None, "one attempt at a time");
            backoff.planned = false;
        }
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        backoff.healed_at = Some(10);
        assert_eq!(backoff.plan(10 + HEALTHY_GROUPS_MIN - 1), Some(Duration::from_millis(5_000)));
        backoff.planned = false;
        backoff.healed_at = Some(10);
        assert_eq!(backoff.plan(10 + HEALTHY_GROUPS_MIN), Some(Duration::from_millis(100)));
    }
}
