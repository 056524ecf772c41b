//! Policies and signals as files have them.

use anyhow::{Context, Result, anyhow, ensure};
use lazaret_api::{HealthPolicy, read_health_policy};
use lazaret_lifecycle::{Signal, Source};
use lazaret_model::{DeviceId, Timestamp};
use serde::Deserialize;
use serde_json::Value;

/// Signals that are played; more are one file too many.
const SIGNALS_MAX: usize = 1_000_000;

/// A recorded signal, or its end.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) signal: Signal,
    pub(super) is_over: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSignal {
    at: String,
    driver: String,
    pool: String,
    device: String,
    key: String,
    #[serde(default)]
    value: String,
    source: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    lasts: bool,
    #[serde(default)]
    over: bool,
}

/// A length of time like `1h30m`, in milliseconds.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|error| format!("{error}: write it as 90s, 10m or 1h30m"))?;
    i64::try_from(duration.as_millis()).map_err(|_| "is too long".to_owned())
}

/// The policies of a file.
pub(super) fn policies(file: &str, text: &str) -> Result<Vec<HealthPolicy>> {
    let mut policies = Vec::new();
    for (index, document) in text.split("\n---").enumerate() {
        let is_blank = |line: &str| {
            let line = line.trim();
            line.is_empty() || line.starts_with('#') || line == "---"
        };
        if document.lines().all(is_blank) {
            continue;
        }
        let place = || format!("{file}, document {}", index + 1);
        let object: Value =
            serde_saphyr::from_str(document).map_err(|error| anyhow!("{}: {error}", place()))?;
        policies.push(read_health_policy(&object.to_string()).with_context(place)?);
    }
    Ok(policies)
}

/// The signals of a file, one a line.
pub(super) fn signals(file: &str, text: &str) -> Result<Vec<Recorded>> {
    let mut signals = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        ensure!(signals.len() < SIGNALS_MAX, "{file}: has more than {SIGNALS_MAX} signals");
        let place = || format!("{file}, line {}", index + 1);
        let wire: WireSignal = serde_json::from_str(line).with_context(place)?;
        signals.push(read_signal(wire).with_context(place)?);
    }
    Ok(signals)
}

fn read_signal(wire: WireSignal) -> Result<Recorded> {
    let at: jiff::Timestamp = wire.at.parse().context("at: write it as 2026-01-31T23:59:00Z")?;
    let source = match &wire.source {
        Some(name) => Source::from_name(name).with_context(|| {
            format!("source: {name} is none of Taint, Health, Attribute, Node, Vanished, Alert, Person")
        })?,
        None => Source::Taint,
    };
    let signal = Signal {
        device: DeviceId {
            driver: wire.driver.as_str().into(),
            pool: wire.pool.as_str().into(),
            device: wire.device.as_str().into(),
        },
        key: wire.key.as_str().into(),
        value: wire.value.as_str().into(),
        source,
        at: Timestamp::from_millis(at.as_millisecond()),
        lasts: wire.lasts,
        message: wire.message.as_str().into(),
    };
    Ok(Recorded { signal, is_over: wire.over })
}
