//! Clients of one tenant that mean harm. Each repeats one thing until the time is over, on a thread of their own, so that what they do
//! does not delay the measuring client.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use crate::{connection::Connection, objects::NAMESPACES, target::Target};

/// An attack that is still on when the measurement has ended by itself ends after this long.
const ATTACK_MAX: Duration = Duration::from_secs(600);
/// A client that was cut or refused tries again after this long.
const AGAIN: Duration = Duration::from_millis(20);
/// Bytes that are announced, and those that are sent, of a body that never ends.
const ANNOUNCED_BYTES: usize = 3_000_000;
const SENT_BYTES: usize = 1_000_000;
/// Bytes of a large patch.
const PATCH_BYTES: usize = 900_000;

/// The behaviour of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttackKind {
    /// Sends a third of a body and waits.
    HalfSentBody,
    /// Connects and says nothing.
    Silence,
    /// Asks for a long list and does not read it.
    UnreadList,
    /// Watches from the beginning and does not read.
    UnreadWatch,
    /// Asks for lists that have to be searched, one after the other.
    ExpensiveList,
    /// Sends large patches, one after the other.
    LargePatch,
}

/// The clients of each kind, of a hundred.
const MIX: &[(AttackKind, usize)] = &[
    (AttackKind::HalfSentBody, 30),
    (AttackKind::Silence, 20),
    (AttackKind::UnreadList, 20),
    (AttackKind::UnreadWatch, 10),
    (AttackKind::ExpensiveList, 10),
    (AttackKind::LargePatch, 10),
];

fn harm(number: usize) -> AttackKind {
    let mut left = number % 100;
    for (harm, count) in MIX {
        if left < *count {
            return *harm;
        }
        left -= count;
    }
    AttackKind::Silence
}

/// An attack that is going on; it ends when this goes.
#[derive(Debug)]
pub(super) struct Attack {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    refusals: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Attack {
    /// Starts `clients` clients.
    pub(super) fn begin(tenant: &Target, namespace: &str, clients: usize) -> Result<Self> {
        let (stop, answers, refusals) = (Arc::default(), Arc::default(), Arc::default());
        let client = Client {
            tenant: tenant.clone(),
            path: format!("{NAMESPACES}/{namespace}/configmaps"),
            stop: Arc::clone(&stop),
            answers: Arc::clone(&answers),
            refusals: Arc::clone(&refusals),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new()
            .name("attack".to_owned())
            .spawn(move || {
                let local = tokio::task::LocalSet::new();
                local.block_on(&runtime, async move {
                    let mut tasks = JoinSet::new();
                    for number in 0..clients {
                        tasks.spawn_local(client.clone().repeat(harm(number)));
                    }
                    let over = async {
                        while !client.stop.load(Ordering::Relaxed) {
                            tokio::time::sleep(AGAIN).await;
                        }
                    };
                    let _ = tokio::time::timeout(ATTACK_MAX, over).await;
                });
            })
            .context("start the attack")?;
        Ok(Self { stop, answers, refusals, thread: Some(thread) })
    }

    /// Requests that were answered, and those that were refused with 429.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.answers.load(Ordering::Relaxed), self.refusals.load(Ordering::Relaxed))
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

#[derive(Clone)]
struct Client {
    tenant: Target,
    path: String,
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    refusals: Arc<AtomicUsize>,
}

impl Client {
    async fn repeat(self, harm: AttackKind) {
        while !self.stop.load(Ordering::Relaxed) {
            if let Ok(mut connection) = self.tenant.connect().await {
                // To be cut is what an attacker has to expect.
                let _ = self.harm(harm, &mut connection).await;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn harm(&self, harm: AttackKind, connection: &mut Connection) -> Result<()> {
        match harm {
            AttackKind::HalfSentBody => {
                let request = self.tenant.announce(&self.path, ANNOUNCED_BYTES);
                connection.send(&request).await?;
                connection.send(&vec![b' '; SENT_BYTES]).await?;
                connection.wait_for_end().await
            }
            AttackKind::Silence => connection.wait_for_end().await,
            AttackKind::UnreadList => self.unread(connection, &self.path).await,
            AttackKind::UnreadWatch => self.unread(connection, &format!("{}?watch=true", self.path)).await,
            AttackKind::ExpensiveList => {
                let path = format!("{}?labelSelector=nothing%3Dlike-it", self.path);
                self.ask_on(connection, &self.tenant.get(&path)).await
            }
            AttackKind::LargePatch => {
                let body = format!(r#"{{"data":{{"key":"{}"}}}}"#, "x".repeat(PATCH_BYTES));
                self.ask_on(connection, &self.tenant.patch(&format!("{}/map-0", self.path), &body)).await
            }
        }
    }

    /// Asks and reads nothing until it is cut, or has waited as long as servers do.
    async fn unread(&self, connection: &mut Connection, path: &str) -> Result<()> {
        connection.send(&self.tenant.get(path)).await?;
        self.answers.fetch_add(1, Ordering::Relaxed);
        for _ in 0..45 {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    async fn ask_on(&self, connection: &mut Connection, request: &[u8]) -> Result<()> {
        while !self.stop.load(Ordering::Relaxed) {
            let answer = connection.ask(request).await?;
            if answer.code == 429 {
                self.refusals.fetch_add(1, Ordering::Relaxed);
            } else {
                self.answers.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_clients_are_mixed_as_the_table_says() {
        assert_eq!(MIX.iter().map(|(_, count)| count).sum::<usize>(), 100);
        for (kind, count) in MIX {
            assert_eq!((100..200).filter(|number| harm(*number) == *kind).count(), *count, "{kind:?}");
        }
    }
}
