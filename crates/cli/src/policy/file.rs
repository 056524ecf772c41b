//! Policies and signals as files have them.

use anyhow::{Context, Result, anyhow, bail, ensure};
use lazaret_lifecycle::{Count, Flaps, Mode, Policy, Recovery, Rule, Signal, Source, Step, Target, When};
use lazaret_model::{DeviceId, Timestamp};
use serde::Deserialize;
use serde_json::Value;

const KIND: &str = "DeviceHealthPolicy";
const API_VERSION: &str = "lazaret.dev/v1alpha1";
/// What a device is quarantined with when a rule says nothing.
const TAINT_VALUE: &str = "unhealthy";
/// Signals that are played; more are one file too many.
const SIGNALS_MAX: usize = 1_000_000;
/// The default of `clearAfter`.
const CLEAR_AFTER_MS: i64 = 15 * 60 * 1_000;

/// A policy, and which devices it means.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) policy: Policy,
    pub(super) selector: Selector,
}

/// A recorded signal, or its end.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) signal: Signal,
    pub(super) is_over: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Object {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    device_selector: Selector,
    rules: Vec<WireRule>,
    clear_after: Option<String>,
    /// How pods leave is for a cluster to do.
    #[serde(rename = "eviction")]
    _eviction: Option<Value>,
    repair: Option<WireRepair>,
    recovery: Option<WireRecovery>,
    mode: Option<WireMode>,
}

/// Which devices.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Selector {
    driver: Option<String>,
    pool: Option<String>,
    device: Option<String>,
    device_class_name: Option<String>,
    selectors: Vec<Value>,
}

#[derive(Debug, Deserialize)]
enum WireMode {
    Observe,
    Enforce,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRule {
    name: String,
    when: String,
    count: Option<WireCount>,
    r#for: Option<String>,
    stage: WireTarget,
    taint: Option<WireTaint>,
}

#[derive(Debug, Deserialize)]
enum WireTarget {
    Suspect,
    Quarantined,
    Drained,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireTaint {
    #[serde(rename = "key")]
    _key: Option<String>,
    value: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WireCount {
    at_least: u32,
    within: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WireRepair {
    #[serde(default)]
    steps: Vec<WireStep>,
    max_attempts: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WireStep {
    name: String,
    job: Option<Value>,
    request: Option<Value>,
    #[serde(rename = "doneWhen")]
    _done_when: Option<String>,
    timeout_seconds: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRecovery {
    probation: String,
    validation: Option<Value>,
    flaps: Option<WireFlaps>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WireFlaps {
    at_most: u32,
    within: String,
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
pub(super) fn duration(text: &str) -> Result<i64, String> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|error| format!("{error}: write it as 90s, 10m or 1h30m"))?;
    i64::try_from(duration.as_millis()).map_err(|_| "is too long".to_owned())
}

fn duration_of(field: &str, text: &str) -> Result<i64> {
    duration(text).map_err(|error| anyhow!("{field}: {error}"))
}

impl Selector {
    /// Whether names alone decide.
    pub(super) fn is_by_names(&self) -> bool {
        self.device_class_name.is_none() && self.selectors.is_empty()
    }

    /// Whether the names are those of this device.
    pub(super) fn matches(&self, id: &DeviceId) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        is(&self.driver, &id.driver) && is(&self.pool, &id.pool) && is(&self.device, &id.device)
    }
}

/// The policies of a file.
pub(super) fn policies(file: &str, text: &str) -> Result<Vec<Read>> {
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
        let object: Object =
            serde_saphyr::from_str(document).map_err(|error| anyhow!("{}: {error}", place()))?;
        policies.push(read(object).with_context(place)?);
    }
    Ok(policies)
}

fn read(object: Object) -> Result<Read> {
    let Object { api_version, kind, metadata, spec } = object;
    ensure!(
        kind == KIND && api_version == API_VERSION,
        "is a {kind} of {api_version}: a {KIND} of {API_VERSION} is wanted"
    );
    let rules = spec.rules.into_iter().enumerate().map(|(index, rule)| read_rule(index, rule));
    let rules = rules.collect::<Result<Vec<_>>>()?;
    let repair = spec.repair.unwrap_or(WireRepair { steps: Vec::new(), max_attempts: None });
    for (index, step) in repair.steps.iter().enumerate() {
        ensure!(
            step.job.is_some() != step.request.is_some(),
            "spec.repair.steps[{index}]: has job or request, one of them"
        );
    }
    let steps = repair.steps.into_iter().map(|step| Step {
        name: step.name.as_str().into(),
        timeout_ms: i64::from(step.timeout_seconds) * 1_000,
    });
    let policy = Policy {
        name: metadata.name.as_str().into(),
        mode: match spec.mode {
            Some(WireMode::Enforce) => Mode::Enforce,
            Some(WireMode::Observe) | None => Mode::Observe,
        },
        rules,
        clear_after_ms: match &spec.clear_after {
            Some(text) => duration_of("spec.clearAfter", text)?,
            None => CLEAR_AFTER_MS,
        },
        steps: steps.collect(),
        attempts_max: repair.max_attempts.unwrap_or(1),
        recovery: spec.recovery.map(read_recovery).transpose()?,
    };
    if let Some(problem) = policy.problems().into_iter().next() {
        bail!("{problem}");
    }
    Ok(Read { policy, selector: spec.device_selector })
}

fn read_rule(index: usize, rule: WireRule) -> Result<Rule> {
    let field = |name: &str| format!("spec.rules[{index}].{name}");
    let count = match rule.count {
        Some(count) => Some(Count {
            at_least: count.at_least,
            within_ms: duration_of(&field("count.within"), &count.within)?,
        }),
        None => None,
    };
    let value = rule.taint.and_then(|taint| taint.value);
    Ok(Rule {
        name: rule.name.as_str().into(),
        when: When::compile(&rule.when).map_err(|error| anyhow!("{}: {error}", field("when")))?,
        count,
        hold_ms: rule.r#for.map_or(Ok(0), |text| duration_of(&field("for"), &text))?,
        target: match rule.stage {
            WireTarget::Suspect => Target::Suspect,
            WireTarget::Quarantined => Target::Quarantined,
            WireTarget::Drained => Target::Drained,
        },
        taint_value: value.as_deref().unwrap_or(TAINT_VALUE).into(),
    })
}

fn read_recovery(recovery: WireRecovery) -> Result<Recovery> {
    let flaps = recovery.flaps.map(|flaps| {
        let within_ms = duration_of("spec.recovery.flaps.within", &flaps.within)?;
        anyhow::Ok(Flaps { at_most: flaps.at_most, within_ms })
    });
    Ok(Recovery {
        probation_ms: duration_of("spec.recovery.probation", &recovery.probation)?,
        validates: recovery.validation.is_some(),
        flaps: flaps.transpose()?,
    })
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
