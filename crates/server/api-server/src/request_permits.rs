//! Resources of the server held by a running request: released while it waits for a webhook or a node.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use crate::flow_control::Seat;

/// A request ends after this time, whatever it waits for: the `--request-timeout` of Kubernetes.
const REQUEST_SECONDS_MAX: u64 = 60;

/// The seat and other places of one request. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestPermits(Arc<Mutex<PermitState>>);

#[derive(Debug, Default)]
struct PermitState {
    seat: Option<Seat>,
    /// Among requests with large bodies.
    turn: Option<OwnedSemaphorePermit>,
    /// Among requests that take long to compute.
    place: Option<OwnedSemaphorePermit>,
    deadline: Option<Instant>,
}

impl RequestPermits {
    /// The resources held by a request over a connection.
    pub(crate) fn new(seat: Seat) -> Self {
        let held = Self::default();
        held.lock().seat = Some(seat);
        held
    }

    pub(crate) fn keep_turn(&self, turn: OwnedSemaphorePermit) {
        self.lock().turn = Some(turn);
    }

    pub(crate) fn keep_place(&self, place: OwnedSemaphorePermit) {
        self.lock().place = Some(place);
    }

    pub(crate) fn give_place_back(&self) {
        let place = self.lock().place.take();
        drop(place);
    }

    /// Releases everything. The work after the wait is done without: it is short, and the number of requests that may wait is
    /// limited.
    pub(crate) fn release(&self) {
        let (seat, turn, place) = {
            let mut places = self.lock();
            (places.seat.take(), places.turn.take(), places.place.take())
        };
        // This wakes requests that wait for a seat, and not under the lock.
        drop((seat, turn, place));
    }

    /// The seat, for rendering the answer, if it was not released. The rest is.
    pub(crate) fn into_seat(self) -> Option<Seat> {
        let seat = self.lock().seat.take();
        self.release();
        seat
    }

    /// When the request ends, counted from when that was asked first.
    pub(crate) fn deadline(&self) -> Instant {
        let mut places = self.lock();
        *places.deadline.get_or_insert_with(|| Instant::now() + Duration::from_secs(REQUEST_SECONDS_MAX))
    }

    fn lock(&self) -> MutexGuard<'_, PermitState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
