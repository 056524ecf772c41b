//! For what may wait: events tell people what was done, and must not keep anything from being done.

use tokio::{sync::mpsc, task::JoinSet};
use tracing::{debug, error, warn};

use crate::{Call, CallError, Client, Outcome, Precedence, in_flight::InFlight, panics::caught};

/// Calls that wait. More are refused: whoever has so much to say has said enough.
const WAITING_MAX: usize = 16_384;
/// Calls in flight at once.
const FLYING_MAX: usize = 4;

/// A call that waits.
#[derive(Debug)]
struct Letter {
    call: Call,
    /// The call that is sent if the object of this one is not there.
    otherwise: Option<Call>,
}

/// Takes calls whose outcome nobody waits for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Postbox {
    waiting: mpsc::Sender<Letter>,
}

/// Empties a [`Postbox`].
#[derive(Debug)]
pub struct Postman {
    client: Client,
    in_flight: InFlight,
    waiting: mpsc::Receiver<Letter>,
}

impl Postbox {
    /// An empty one, and who empties it.
    pub(crate) fn new(client: Client, in_flight: InFlight) -> (Self, Postman) {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        (Self { waiting: sender }, Postman { client, in_flight, waiting })
    }

    /// Leaves a call to be sent. [`Outcome::RetryLater`] when there is no room.
    #[must_use]
    pub fn post(&self, call: Call) -> Outcome {
        self.leave(Letter { call, otherwise: None })
    }

    /// The same with another call, to be sent if the first one's object is not there.
    #[must_use]
    pub fn post_or(&self, call: Call, otherwise: Call) -> Outcome {
        self.leave(Letter { call, otherwise: Some(otherwise) })
    }

    fn leave(&self, letter: Letter) -> Outcome {
        match self.waiting.try_send(letter) {
            Ok(()) => Outcome::Done,
            Err(_) => {
                warn!(waiting = WAITING_MAX, "too many events wait to be posted; one is left out");
                Outcome::RetryLater
            }
        }
    }
}

impl Postman {
    /// Sends what was left, in order of arrival, until every [`Postbox`] is dropped and empty.
    pub async fn run(self) {
        let Self { client, in_flight, mut waiting } = self;
        let mut flying = JoinSet::new();
        while let Some(Letter { call, otherwise }) = waiting.recv().await {
            while flying.len() >= Precedence::Patient.room(in_flight.counts(), FLYING_MAX) {
                flying.join_next().await;
            }
            let client = client.clone();
            flying.spawn(async move {
                let send = async {
                    match (client.send(call).await, otherwise) {
                        (Err(CallError::NotFound(_)), Some(otherwise)) => client.send(otherwise).await,
                        (sent, _) => sent,
                    }
                };
                match caught(send).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => debug!(%error, "an event was not posted"),
                    Err(panic) => error!(panic, "posting an event panicked; it is left out"),
                }
            });
        }
        while flying.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PODS;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    #[tokio::test]
    async fn all_that_was_left_is_sent_before_the_end_and_only_so_much_waits() {
        let sent = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&sent);
        let client = Client::direct(move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            std::future::ready(http::Response::new(String::new()))
        });
        let (postbox, postman) = Postbox::new(client, InFlight::default());
        let post = || postbox.post(Call::get(&PODS, "n", "a"));
        assert!((0..WAITING_MAX).all(|_| post() == Outcome::Done));
        assert_eq!(post(), Outcome::RetryLater);
        drop(postbox);
        postman.run().await;
        assert_eq!(sent.load(Ordering::Relaxed), WAITING_MAX);
    }
}
