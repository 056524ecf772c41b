//! Events for people.

use std::sync::{Arc, Mutex, PoisonError};

use lazaret_machine::{CorrelatedEvent, Correlator, EventText};
use lazaret_model::{ObjectKey, Timestamp, Uid};
use lazaret_runtime::{Call, Clock, EVENTS, Outcome, PatchKind, Postbox, Resource};
use serde_json::json;
use tracing::debug;

/// Something worth telling about an object.
#[derive(Clone, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) about: Resource,
    pub(crate) key: &'a ObjectKey,
    pub(crate) uid: &'a Uid,
    /// `Normal` or `Warning`.
    pub(crate) severity: &'static str,
    pub(crate) reason: &'a str,
    pub(crate) action: &'static str,
    pub(crate) message: &'a str,
    pub(crate) component: &'static str,
}

/// Leaves events in the postbox of a part. A repeated event is counted, similar ones become one event, and of an object about which there is too
/// much some is left out, as client-go's recorder does it. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    postbox: Postbox,
    clock: Clock,
    said: Arc<Mutex<Correlator>>,
}

impl Events {
    pub(crate) fn new(postbox: Postbox, clock: Clock) -> Self {
        Self { postbox, clock, said: Arc::default() }
    }

    pub(crate) fn post(&self, event: &Event<'_>) -> Outcome {
        let now = self.clock.now();
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        let written =
            self.said.lock().unwrap_or_else(PoisonError::into_inner).correlate(millis, event.text());
        let Some(written) = written else {
            debug!(about = %event.key, reason = event.reason, "an event is left out: there are too many about its object");
            return Outcome::Done;
        };
        let create = event.create(now, &written);
        if written.count > 1 {
            // It may have expired.
            self.postbox.post_or(event.count(now, &written), create)
        } else {
            self.postbox.post(create)
        }
    }
}

/// The longest message that the API takes.
const MESSAGE_MAX: usize = 1_024;

impl Event<'_> {
    /// The keys by which it is counted.
    fn text(&self) -> EventText {
        let Self { about, key, uid, component, .. } = self;
        EventText {
            uid: format!("{component} {} {key} {uid}", about.kind),
            field: None,
            is_warning: self.severity == "Warning",
            reason: self.reason.to_owned(),
            message: truncated(self.message, MESSAGE_MAX).to_owned(),
        }
    }

    /// Objects without a namespace have their events in the default one.
    fn namespace(&self) -> &str {
        if self.key.namespace.is_empty() { "default" } else { &self.key.namespace }
    }

    fn name(&self, written: &CorrelatedEvent) -> String {
        let stem: String = self.key.name.chars().take(200).collect();
        format!("{stem}.{:x}", written.stamp)
    }

    /// The call that says that it was said again.
    fn count(&self, now: Timestamp, written: &CorrelatedEvent) -> Call {
        let body = json!({
            "count": written.count,
            "lastTimestamp": in_seconds(now),
            "message": truncated(&written.message, MESSAGE_MAX),
        });
        let (namespace, name) = (self.namespace(), self.name(written));
        Call::patch(&EVENTS, namespace, &name, "", PatchKind::Merge, body.to_string())
    }

    /// The call that makes it.
    fn create(&self, now: Timestamp, written: &CorrelatedEvent) -> Call {
        let first = Timestamp::from_millis(i64::try_from(written.first_at).unwrap_or(i64::MAX));
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self.name(written), "namespace": self.namespace()},
            "involvedObject": {
                "apiVersion": self.about.api_version(), "kind": self.about.kind,
                "namespace": &*self.key.namespace, "name": &*self.key.name, "uid": &**self.uid,
            },
            "type": self.severity,
            "reason": self.reason,
            "action": self.action,
            "message": truncated(&written.message, MESSAGE_MAX),
            "source": {"component": self.component},
            "reportingComponent": self.component,
            "reportingInstance": self.component,
            "firstTimestamp": in_seconds(first),
            "lastTimestamp": in_seconds(now),
            "count": written.count,
        });
        Call::create(&EVENTS, self.namespace(), body.to_string())
    }
}

fn in_seconds(time: Timestamp) -> String {
    lazaret_api::format_time(Timestamp::from_millis(time.as_millis().div_euclid(1_000) * 1_000))
}

fn truncated(message: &str, bytes_max: usize) -> &str {
    let mut end = message.len().min(bytes_max);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

#[cfg(test)]
mod tests {
    use lazaret_runtime::{Client, Hub, Metrics, PODS};

    use super::*;

    /// The calls that these events become, as method, path and status of the answer: `PATCH` finds nothing where `expired`.
    async fn posted(messages: &[&str], times: usize, expired: bool) -> Vec<String> {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&calls);
        let client = Client::direct(move |request: http::Request<_>| {
            let line = format!("{} {}", request.method(), request.uri().path());
            let lost = expired && request.method() == http::Method::PATCH;
            seen.lock().unwrap().push(line);
            let mut answer = http::Response::new("{}".to_owned());
            if lost {
                *answer.status_mut() = http::StatusCode::NOT_FOUND;
            }
            std::future::ready(answer)
        });
        let (postbox, postman) = Hub::new(client, Metrics::default()).postbox();
        let events = Events::new(postbox, Clock::default());
        let (key, uid) = (ObjectKey::new("n", "p"), Uid::from("u"));
        for number in 0..times {
            let message = messages[number % messages.len()];
            let event = Event {
                about: PODS,
                key: &key,
                uid: &uid,
                severity: "Normal",
                reason: "Evicting",
                action: "Evicting",
                message,
                component: "eviction",
            };
            assert_eq!(events.post(&event), Outcome::Done);
        }
        drop(events);
        postman.run().await;
        let calls = calls.lock().unwrap();
        calls.clone()
    }

    fn made(calls: &[String]) -> usize {
        calls.iter().filter(|call| call.starts_with("POST")).count()
    }

    #[tokio::test]
    async fn an_event_that_is_said_again_is_one_object() {
        let calls = posted(&["Cancelling deletion"], 20, false).await;
        assert_eq!((made(&calls), calls.len()), (1, 20), "{calls:?}");
        // An object that has expired is made anew.
        let calls = posted(&["Cancelling deletion"], 2, true).await;
        assert_eq!((made(&calls), calls.len()), (2, 3), "{calls:?}");
    }

    #[tokio::test]
    async fn events_alike_become_one_and_too_many_are_left_out() {
        let messages: Vec<String> = (0..40).map(|number| format!("attempt {number}")).collect();
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        let calls = posted(&messages, 40, false).await;
        assert_eq!((made(&calls), calls.len()), (10, 25), "{calls:?}");
    }
}
