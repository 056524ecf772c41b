//! Events for people.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use lazaret_model::{ObjectKey, Timestamp, Uid};
use lazaret_runtime::{Call, Clock, EVENTS, Outcome, Postbox, Resource};
use serde_json::json;

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

/// Leaves events in the postbox of a part. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    postbox: Postbox,
    clock: Clock,
    serial: Arc<AtomicU64>,
}

impl Events {
    pub(crate) fn new(postbox: Postbox, clock: Clock) -> Self {
        Self { postbox, clock, serial: Arc::default() }
    }

    pub(crate) fn post(&self, event: &Event<'_>) -> Outcome {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        self.postbox.post(event.call(self.clock.now(), serial))
    }
}

/// The longest message that the API takes.
const MESSAGE_MAX: usize = 1_024;

impl Event<'_> {
    /// The call that posts it. `serial` tells two events of one object in one millisecond apart.
    fn call(&self, now: Timestamp, serial: u64) -> Call {
        // Objects without a namespace have their events in the default one.
        let namespace = if self.key.namespace.is_empty() { "default" } else { &self.key.namespace };
        let time =
            lazaret_api::format_time(Timestamp::from_millis(now.as_millis().div_euclid(1_000) * 1_000));
        let stem: String = self.key.name.chars().take(200).collect();
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{stem}.{:x}{serial:x}", now.as_millis()), "namespace": namespace},
            "involvedObject": {
                "apiVersion": self.about.api_version(), "kind": self.about.kind,
                "namespace": &*self.key.namespace, "name": &*self.key.name, "uid": &**self.uid,
            },
            "type": self.severity,
            "reason": self.reason,
            "action": self.action,
            "message": truncated(self.message),
            "source": {"component": self.component},
            "reportingComponent": self.component,
            "reportingInstance": self.component,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        });
        Call::create(&EVENTS, namespace, body.to_string())
    }
}

fn truncated(message: &str) -> &str {
    let mut end = message.len().min(MESSAGE_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}
