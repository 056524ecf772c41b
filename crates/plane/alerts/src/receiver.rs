//! From a notification to signals of devices.

use std::{sync::Arc, time::Duration};

use lazaret_runtime::{Call, CallError, Client, Clock, Metrics, PatchKind, SIGNALS, SLICES};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::{
    matching::{Device, Named},
    payload::{Alert, Payload, Status},
};

/// A notification that is longer is refused: a thousand alerts with twenty labels each take about half of it.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// A notification that takes longer is given up; Alertmanager sends it again, and what was done stays done.
const RECEIVE_TIME_MAX: Duration = Duration::from_secs(30);
/// Notifications that are taken in at a time; the next wait within their time.
const RECEIVES_MAX: usize = 4;
/// Signals that there may be before further alerts are refused: a policy has to look at each.
const SIGNALS_MAX: u64 = 10_000;

/// An alert that is not repeated for this long is over: its end was lost. Alertmanager repeats alerts that fire after `repeat_interval`, 4 hours
/// unless set otherwise.
const REPEATED_WITHIN_MS: i64 = 24 * 60 * 60 * 1_000;
/// The annotation that says until when a signal lasts, unless its alert is repeated. `lazaret-api` reads it.
const UNTIL: &str = "lazaret.dev/until";

/// The outcome of an alert, or of a whole notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is a signal now, or was one already.
    Raised,
    /// Its signal is gone.
    Cleared,
    /// Its labels name no device that is there.
    Unmatched,
    /// Its labels mean several devices.
    Ambiguous,
    /// It cannot be read.
    Malformed,
    /// The sender is not known.
    Unauthenticated,
    /// The sender has no permission.
    Forbidden,
    /// There are too many signals already.
    Limited,
    /// The API server did not take it.
    Failed,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Cleared => "cleared",
            Self::Unmatched => "unmatched",
            Self::Ambiguous => "ambiguous",
            Self::Malformed => "malformed",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::Limited => "limited",
            Self::Failed => "failed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: &'static str,
}

#[derive(Deserialize)]
struct SignalPage {
    metadata: SignalPageMetadata,
    items: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignalPageMetadata {
    remaining_item_count: Option<u64>,
    #[serde(default, rename = "continue")]
    more: String,
}

#[derive(Deserialize)]
struct SlicePage {
    items: Vec<Value>,
}

/// The answer to a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status. Alertmanager sends again what is answered with 5xx, and nothing else.
    pub code: u16,
    /// JSON.
    pub body: String,
}

/// Takes notifications in. Clones are the same.
#[derive(Clone, Debug)]
pub struct Receiver {
    client: Client,
    counts: Family<Labels, Counter>,
    turns: Arc<tokio::sync::Semaphore>,
    clock: Clock,
}

impl Receiver {
    /// Writes signals through a client, and counts what became of alerts.
    #[must_use]
    pub fn new(client: Client, metrics: &Metrics) -> Self {
        let counts = Family::<Labels, Counter>::default();
        metrics.register(|registry| {
            // The library writes `_total` behind a counter's name.
            registry.register("lazaret_alerts_received", "Alerts by what became of them", counts.clone());
        });
        Self {
            client,
            counts,
            turns: Arc::new(tokio::sync::Semaphore::new(RECEIVES_MAX)),
            clock: Clock::default(),
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Something that was sent is not looked at.
    pub fn refuse(&self, outcome: Outcome) {
        self.counts.get_or_create(&Labels { outcome: outcome.name() }).inc();
    }

    /// Takes a notification of a sender that may write signals.
    pub async fn receive(&self, by: &str, body: &[u8]) -> Answer {
        if body.len() > BODY_BYTES_MAX {
            self.refuse(Outcome::Malformed);
            return refused(413, format!("a notification has at most {BODY_BYTES_MAX} bytes"));
        }
        let payload = match Payload::read(body) {
            Ok(payload) => payload,
            Err(why) => {
                self.refuse(Outcome::Malformed);
                return refused(400, format!("this is no notification of Alertmanager: {why}"));
            }
        };
        let taken = async {
            let _turn = self.turns.acquire().await;
            self.take(by, &payload.alerts).await
        };
        timeout(RECEIVE_TIME_MAX, taken).await.unwrap_or_else(|_| {
            self.refuse(Outcome::Failed);
            refused(503, "the API server takes too long; send it again".to_owned())
        })
    }

    async fn take(&self, by: &str, alerts: &[Alert]) -> Answer {
        let mut counts = std::collections::BTreeMap::<&str, u64>::new();
        let (mut notes, mut is_failed) = (Vec::new(), false);
        let mut room = self.room().await;
        for alert in alerts {
            let (outcome, note) = self.alert(by, alert, &mut room).await;
            self.refuse(outcome);
            *counts.entry(outcome.name()).or_default() += 1;
            is_failed |= matches!(outcome, Outcome::Failed | Outcome::Limited);
            if let Some(note) = note.filter(|_| notes.len() < 16) {
                warn!(outcome = outcome.name(), note, "an alert has no effect");
                notes.push(note);
            }
        }
        let body = json!({"alerts": counts, "notes": notes}).to_string();
        Answer { code: if is_failed { 503 } else { 200 }, body }
    }

    /// How many more signals there may be; why that is not known.
    async fn room(&self) -> Result<u64, String> {
        let list = self.client.send(Call::get_at(format!("{}?limit=1", SIGNALS.path("", "", "")))).await;
        let list = list.map_err(|error| error.to_string())?;
        let list: SignalPage = serde_json::from_slice(&list).map_err(|error| error.to_string())?;
        let more = match list.metadata.remaining_item_count {
            Some(more) => more,
            None if list.metadata.more.is_empty() => 0,
            None => return Err("the API server does not say how many signals there are".to_owned()),
        };
        Ok(SIGNALS_MAX.saturating_sub(list.items.len() as u64).saturating_sub(more))
    }

    /// The outcome of an alert, and why it has no effect.
    async fn alert(
        &self,
        by: &str,
        alert: &Alert,
        room: &mut Result<u64, String>,
    ) -> (Outcome, Option<String>) {
        let name = alert.signal_name();
        let (key, value) = match alert.signal() {
            Ok(signal) => signal,
            Err(why) => return (Outcome::Malformed, Some(format!("{name}: {why}"))),
        };
        // A resolved alert is cleared even if its device no longer exists.
        if alert.status() == Status::Resolved {
            return match self.client.send(Call::delete(&SIGNALS, "", &name, "{}")).await {
                Ok(_) | Err(CallError::NotFound(_)) => (Outcome::Cleared, None),
                Err(error) => (Outcome::Failed, Some(format!("{name}: {error}"))),
            };
        }
        let device = match self.device(alert).await {
            Ok(device) => device,
            Err((outcome, why)) => return (outcome, Some(format!("{name} ({key}): {why}"))),
        };
        let room = match room {
            Ok(0) => {
                return (Outcome::Limited, Some(format!("{name}: there are {SIGNALS_MAX} signals already")));
            }
            Ok(room) => room,
            Err(why) => {
                return (Outcome::Failed, Some(format!("{name}: signals cannot be counted: {why}")));
            }
        };
        let Device { driver, pool, device } = device;
        let mut body = json!({
            "apiVersion": SIGNALS.api_version(), "kind": SIGNALS.kind,
            "metadata": {
                "name": name,
                "labels": {"app.kubernetes.io/managed-by": "lazaret"},
                "annotations": {UNTIL: self.in_ms(REPEATED_WITHIN_MS)},
            },
            "spec": {
                "device": {"driver": driver, "pool": pool, "device": device},
                "key": key, "value": value, "source": "Alert", "message": alert.message(), "lasts": true,
            },
        });
        if let Some(since) = alert.since() {
            body["spec"]["at"] = since.to_string().into();
        }
        match self.client.send(Call::create(&SIGNALS, "", body.to_string())).await {
            Ok(_) => {
                *room -= 1;
                info!(name, by, device = format!("{driver}/{pool}/{device}"), key, "an alert fires");
                (Outcome::Raised, None)
            }
            Err(CallError::AlreadyExists(_)) => match self.repeated(&name).await {
                Ok(()) => (Outcome::Raised, None),
                Err(error) => (Outcome::Failed, Some(format!("{name}: {error}"))),
            },
            Err(CallError::Invalid(why)) => (Outcome::Malformed, Some(format!("{name}: {why}"))),
            Err(error) => (Outcome::Failed, Some(format!("{name}: {error}"))),
        }
    }

    /// An instant from now on, as objects have it.
    fn in_ms(&self, millis: i64) -> String {
        let at = self.clock.now().plus_millis(millis).as_millis();
        jiff::Timestamp::from_millisecond(at).unwrap_or(jiff::Timestamp::MAX).to_string()
    }

    /// An alert that is a signal already fires on. Its end is put off when half of the time is over: most notifications write nothing.
    async fn repeated(&self, name: &str) -> Result<(), CallError> {
        let known = self.client.send(Call::get_at(SIGNALS.path("", name, ""))).await?;
        let known: Value =
            serde_json::from_slice(&known).map_err(|error| CallError::Unavailable(error.to_string()))?;
        let until = known["metadata"]["annotations"][UNTIL].as_str().and_then(|text| text.parse().ok());
        let half: Option<jiff::Timestamp> = self.in_ms(REPEATED_WITHIN_MS / 2).parse().ok();
        if until.is_some_and(|until: jiff::Timestamp| Some(until) >= half) {
            return Ok(());
        }
        let body = json!({"metadata": {"annotations": {UNTIL: self.in_ms(REPEATED_WITHIN_MS)}}}).to_string();
        self.client.send(Call::patch(&SIGNALS, "", name, "", PatchKind::Merge, body)).await.map(|_| ())
    }

    /// The device that an alert means.
    async fn device(&self, alert: &Alert) -> Result<Device, (Outcome, String)> {
        let (node, mark) = match Named::of(alert) {
            Some(Named::Device(device)) => return Ok(device),
            Some(Named::OnNode(node, mark)) => (node, mark),
            None => {
                let why = "no labels driver, pool and device, nor node with uuid, pci_bus_id or gpu";
                return Err((Outcome::Unmatched, why.to_owned()));
            }
        };
        let path = format!("{}?fieldSelector=spec.nodeName%3D{node}", SLICES.path("", "", ""));
        let list = self.client.send(Call::get_at(path)).await;
        let list = list.map_err(|error| (Outcome::Failed, error.to_string()))?;
        let list: SlicePage =
            serde_json::from_slice(&list).map_err(|error| (Outcome::Failed, error.to_string()))?;
        let mut found = mark.devices(&list.items).into_iter();
        match (found.next(), found.next()) {
            (Some(device), None) => Ok(device),
            (Some(_), Some(_)) => {
                Err((Outcome::Ambiguous, format!("{mark:?} means several devices of node {node}")))
            }
            (None, _) => Err((Outcome::Unmatched, format!("node {node} has no device with {mark:?}"))),
        }
    }
}

pub(crate) fn refused(code: u16, why: String) -> Answer {
    Answer { code, body: json!({"error": why}).to_string() }
}

#[cfg(test)]
mod tests {
    use http::{Method, Request, Response, StatusCode};

    use super::*;

    /// A server that answers questions about signals so, and takes every signal.
    fn receiver(code: u16, answer: &'static str) -> Receiver {
        let client = Client::direct(move |request: Request<bytes::Bytes>| async move {
            let (code, body) = if request.method() == Method::GET { (code, answer) } else { (201, "{}") };
            let mut response = Response::new(body.to_owned());
            *response.status_mut() = StatusCode::from_u16(code).unwrap();
            response
        });
        Receiver::new(client, &Metrics::default())
    }

    #[tokio::test]
    async fn a_count_that_fails_is_not_full_room() {
        let alert = r#"{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"a","driver":"d","pool":"p","device":"x"},"startsAt":"2026-03-01T12:00:00Z"}]}"#;
        let full = r#"{"metadata":{"remainingItemCount":9999},"items":[{}]}"#;
        for (code, answer, outcome, said) in [
            (200, r#"{"metadata":{},"items":[]}"#, "raised", 200),
            (200, full, "limited", 503),
            (503, "later", "failed", 503),
            (200, "", "failed", 503),
            (200, r#"{"metadata":{"continue":"more"},"items":[{}]}"#, "failed", 503),
        ] {
            let taken = receiver(code, answer).receive("somebody", alert.as_bytes()).await;
            assert_eq!(taken.code, said, "{answer}: {}", taken.body);
            assert!(taken.body.contains(&format!(r#""{outcome}":1"#)), "{answer}: {}", taken.body);
        }
    }

    /// A server that has the signal of every alert, with this end, and takes changes of it.
    fn knowing(until: String, patches: Arc<std::sync::Mutex<Vec<Value>>>) -> Receiver {
        let client = Client::direct(move |request: Request<bytes::Bytes>| {
            let (until, patches) = (until.clone(), Arc::clone(&patches));
            async move {
                let (code, answer) = match *request.method() {
                    Method::POST => {
                        let status = json!({"kind": "Status", "status": "Failure", "reason": "AlreadyExists", "code": 409});
                        (409, status)
                    }
                    Method::PATCH => {
                        patches.lock().unwrap().push(serde_json::from_slice(request.body()).unwrap());
                        (200, json!({}))
                    }
                    _ if request.uri().query().is_some() => (200, json!({"metadata": {}, "items": []})),
                    _ => (200, json!({"metadata": {"annotations": {UNTIL: until}}})),
                };
                let mut response = Response::new(answer.to_string());
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                response
            }
        });
        Receiver::new(client, &Metrics::default())
    }

    #[tokio::test]
    async fn the_end_of_an_alert_that_fires_on_is_put_off() {
        let alert = r#"{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"a","driver":"d","pool":"p","device":"x"},"startsAt":"2026-03-01T12:00:00Z"}]}"#;
        for (in_ms, count) in [(REPEATED_WITHIN_MS / 4, 1), (REPEATED_WITHIN_MS / 4 * 3, 0), (-1_000, 1)] {
            let patches = Arc::new(std::sync::Mutex::new(Vec::new()));
            let clock = Clock::default().now().plus_millis(in_ms).as_millis();
            let until = jiff::Timestamp::from_millisecond(clock).unwrap().to_string();
            let taken = knowing(until, Arc::clone(&patches)).receive("somebody", alert.as_bytes()).await;
            assert_eq!(taken.code, 200, "{}", taken.body);
            let patches = patches.lock().unwrap();
            assert_eq!(patches.len(), count, "{in_ms}");
            assert!(patches.iter().all(|patch| patch["metadata"]["annotations"][UNTIL].is_string()));
        }
    }
}
