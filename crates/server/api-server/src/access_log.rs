//! One line at debug for each request that was answered, and one for each watch that ended.
//!
//! Off, it costs a comparison for each request and each watch. The query of a request is left out: it may hold the command of an `exec`.

use std::time::{Duration, Instant};

use http::{Method, Request, Uri};
use tracing::{Level, debug, enabled};

use crate::clock;

/// A request whose answer is to be logged.
#[derive(Debug)]
pub(crate) struct AccessEntry {
    method: Method,
    uri: Uri,
}

impl AccessEntry {
    /// Notes a request; none if the log is off.
    pub(crate) fn begin<B>(request: &Request<B>) -> Option<Self> {
        enabled!(Level::DEBUG).then(|| Self { method: request.method().clone(), uri: request.uri().clone() })
    }

    /// The request was answered; `asked`: its verb and resource, if it is about objects.
    pub(crate) fn answered(self, user: &str, asked: Option<(&str, &str)>, code: u16, took: Duration) {
        let (verb, resource) = asked.unwrap_or((self.method.as_str(), ""));
        let (path, duration_us) = (self.uri.path(), micros(took));
        debug!(user, verb, resource, path, code, duration_us, "request");
    }

    /// The request was refused before it ran: its user is unknown, or there is no room for it.
    pub(crate) fn refused(self, code: u16) {
        let (verb, path) = (self.method.as_str(), self.uri.path());
        debug!(verb, path, code, "request refused");
    }
}

/// A watch whose end is to be logged.
#[derive(Debug)]
pub(crate) struct WatchEntry {
    user: String,
    resource: String,
    started: Instant,
    events: u64,
}

impl WatchEntry {
    /// Notes a watch that begins; none if the log is off.
    pub(crate) fn begin(user: &str, resource: &str) -> Option<Box<Self>> {
        enabled!(Level::DEBUG).then(|| {
            let (user, resource) = (user.to_owned(), resource.to_owned());
            Box::new(Self { user, resource, started: clock::instant(), events: 0 })
        })
    }

    /// An event was sent.
    pub(crate) fn event(&mut self) {
        self.events += 1;
    }
}

impl Drop for WatchEntry {
    fn drop(&mut self) {
        let Self { user, resource, events, .. } = &*self;
        let duration_us = micros(clock::instant().saturating_duration_since(self.started));
        debug!(user, resource, events, duration_us, "watch ended");
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
