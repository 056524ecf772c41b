//! DeviceHealthPolicy, from its JSON.

use lazaret_cel::{Env, Mode as CelMode, compile};
use lazaret_lifecycle::{
    Count, DoneWhen, Flaps, Mode, Policy, Recovery, Rule, Step, TALLIES_MAX, TaintKeyValue, Tally, Target,
    When,
};
use lazaret_model::{DeviceSelector, Text, validate_qualified_name};
use serde::Deserialize;
use serde_json::Value;

use super::tally::WireTally;
use crate::{
    FieldError,
    decode::parse_derived,
    wire::{self, Fields as _},
};

const KIND: &str = "DeviceHealthPolicy";
const API_VERSION: &str = "lazaret.dev/v1alpha1";
/// The value of the taint when a rule names none.
const TAINT_VALUE: &str = "unhealthy";
/// The default of `clearAfter`.
const CLEAR_AFTER_MS: i64 = 15 * 60 * 1_000;
/// The attribute by which a device is known under another name, unless the policy names another.
const IDENTITY: &str = "uuid";
/// Where Jobs run whose template names no namespace.
const NAMESPACE: &str = "default";

/// A policy, which devices it means, and what it runs.
#[derive(Clone, Debug)]
pub struct HealthPolicy {
    /// The policy as the state machine sees it.
    pub policy: Policy,
    /// Which devices.
    pub selector: DeviceSelector,
    /// The attribute that stays the same when a device is renamed.
    pub identity: Text,
    /// How fast pods leave.
    pub evictions_per_second: Option<i64>,
    /// How they leave: `spec.eviction` of the DeviceTaintPolicy that drains a device; empty: they are deleted.
    pub eviction: serde_json::Map<String, Value>,
    /// The counts of its rules, left by an earlier controller.
    pub counts: Vec<Tally>,
    /// Its repair steps, as the machine numbers them.
    pub steps: Vec<HealthStep>,
    /// The check that a repaired device must pass.
    pub validation: Option<Validation>,
    /// The generation of its spec.
    pub generation: i64,
}

/// One step of a repair.
#[derive(Clone, Debug)]
pub enum HealthStep {
    /// A Job on the node of the device.
    Job {
        /// Where.
        namespace: String,
        /// Its template: metadata and spec of a Job.
        template: Value,
    },
    /// An object that another controller acts on.
    Request {
        /// Its version.
        api_version: String,
        /// Its kind.
        kind: String,
        /// Its metadata and whatever else it has.
        template: Value,
        /// When it is done.
        done_when: DoneWhen,
    },
}

/// A Job that gets the device and nothing else.
#[derive(Clone, Debug)]
pub struct Validation {
    /// Where.
    pub namespace: String,
    /// Its template: metadata and spec of a Job.
    pub template: Value,
    /// The class through which the device is claimed.
    pub device_class: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    counts: Vec<WireTally>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    generation: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    device_selector: Selector,
    identity_attribute: Option<String>,
    rules: Vec<WireRule>,
    clear_after: Option<String>,
    eviction: Option<serde_json::Map<String, Value>>,
    repair: Option<WireRepair>,
    recovery: Option<WireRecovery>,
    mode: Option<WireMode>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Selector {
    driver: Option<String>,
    pool: Option<String>,
    device: Option<String>,
    device_class_name: Option<String>,
    selectors: Vec<WireSelector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSelector {
    cel: WireCel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireCel {
    expression: String,
}

#[derive(Deserialize)]
enum WireMode {
    Observe,
    Enforce,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRule {
    name: String,
    when: String,
    count: Option<WireCount>,
    r#for: Option<String>,
    stage: WireTarget,
    taint: Option<WireTaint>,
}

#[derive(Deserialize)]
enum WireTarget {
    Suspect,
    Quarantined,
    Drained,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireTaint {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WireCount {
    at_least: u32,
    within: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct WireRepair {
    steps: Vec<WireStep>,
    max_attempts: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WireStep {
    name: String,
    job: Option<WireJob>,
    request: Option<WireRequest>,
    done_when: Option<String>,
    timeout_seconds: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireJob {
    template: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WireRequest {
    api_version: String,
    kind: String,
    template: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRecovery {
    probation: String,
    validation: Option<WireValidation>,
    flaps: Option<WireFlaps>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WireValidation {
    template: Value,
    device_class_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WireFlaps {
    at_most: u32,
    within: String,
}

fn wrong(path: impl Into<String>, message: impl Into<String>) -> FieldError {
    FieldError { path: path.into(), message: message.into() }
}

/// A length of time like `1h30m`, in milliseconds.
fn duration(field: &str, text: &str) -> Result<i64, FieldError> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|error| wrong(field, format!("{error}: write it as 90s, 10m or 1h30m")))?;
    i64::try_from(duration.as_millis()).map_err(|_| wrong(field, "is too long"))
}

/// Reads a policy. One that breaks a limit, or has an expression that does not compile, is refused with the field.
///
/// # Errors
/// The first field that is wrong.
pub fn read_health_policy(json: &str) -> Result<HealthPolicy, FieldError> {
    let Object { api_version, kind, metadata, spec, status } = parse_derived(json)?;
    if kind != KIND || api_version != API_VERSION {
        return Err(wrong("", format!("is a {kind} of {api_version}: a {KIND} of {API_VERSION} is wanted")));
    }
    let rules = spec.rules.into_iter().enumerate().map(|(index, rule)| read_rule(index, rule));
    let rules = rules.collect::<Result<Vec<_>, _>>()?;
    let repair = spec.repair.unwrap_or_default();
    let (mut steps, mut known) = (Vec::new(), Vec::new());
    for (index, step) in repair.steps.into_iter().enumerate() {
        let (name, timeout_ms) = (step.name.as_str().into(), i64::from(step.timeout_seconds) * 1_000);
        let step = read_step(index, step)?;
        known.push(Step { name, timeout_ms, is_request: matches!(step, HealthStep::Request { .. }) });
        steps.push(step);
    }
    let class = spec.device_selector.device_class_name.clone();
    let (recovery, validation) = match spec.recovery {
        Some(recovery) => read_recovery(recovery, class)?,
        None => (None, None),
    };
    let policy = Policy {
        name: metadata.name.as_str().into(),
        mode: match spec.mode {
            Some(WireMode::Enforce) => Mode::Enforce,
            Some(WireMode::Observe) | None => Mode::Observe,
        },
        rules,
        clear_after_ms: match &spec.clear_after {
            Some(text) => duration("spec.clearAfter", text)?,
            None => CLEAR_AFTER_MS,
        },
        steps: known,
        attempts_max: repair.max_attempts.unwrap_or(1),
        recovery,
    };
    if let Some(problem) = policy.problems().into_iter().next() {
        return Err(wrong(problem.field, problem.message));
    }
    let identity = spec.identity_attribute.as_deref().unwrap_or(IDENTITY);
    validate_qualified_name(identity).map_err(|error| {
        wrong("spec.identityAttribute", format!("{error}; write it as uuid or gpu.example.com/uuid"))
    })?;
    let (evictions_per_second, eviction) = read_eviction(spec.eviction.unwrap_or_default())?;
    Ok(HealthPolicy {
        policy,
        selector: read_selector(spec.device_selector)?,
        identity: identity.into(),
        evictions_per_second,
        eviction,
        counts: status.counts.into_iter().take(TALLIES_MAX).filter_map(WireTally::read).collect(),
        steps,
        validation,
        generation: metadata.generation,
    })
}

fn read_selector(selector: Selector) -> Result<DeviceSelector, FieldError> {
    let mut cel = Vec::new();
    for (index, selector) in selector.selectors.into_iter().enumerate() {
        let expression = selector.cel.expression;
        compile(&expression, &Env::new(CelMode::New)).map_err(|error| {
            wrong(format!("spec.deviceSelector.selectors[{index}].cel.expression"), error.to_string())
        })?;
        cel.push(Text::from(expression));
    }
    let text = |name: Option<String>| name.map(Text::from);
    Ok(DeviceSelector {
        class: text(selector.device_class_name),
        driver: text(selector.driver),
        pool: text(selector.pool),
        device: text(selector.device),
        cel,
    })
}

type Eviction = (Option<i64>, serde_json::Map<String, Value>);

/// How fast pods leave, and how: all but the pace is as a DeviceTaintPolicy has it, whose schema says what each field may be.
fn read_eviction(mut eviction: serde_json::Map<String, Value>) -> Result<Eviction, FieldError> {
    let path = |field: &str| format!("spec.eviction.{field}");
    let pace = match eviction.remove("evictionsPerSecond") {
        None => None,
        Some(value) => {
            let number = value.as_i64().filter(|number| *number >= 1);
            let wrong = || wrong(path("evictionsPerSecond"), "must be a whole number, 1 or more");
            Some(number.ok_or_else(wrong)?)
        }
    };
    let known = wire::Eviction::default().shape().fields;
    if let Some(field) = eviction.keys().find(|field| !known.contains(&field.as_str())) {
        let known = known.join(", ");
        return Err(wrong(path(field), format!("unknown field: eviction has evictionsPerSecond, {known}")));
    }
    match eviction.get("mode").map(|mode| mode.as_str().unwrap_or_default()) {
        None | Some("Delete" | "Evict") => {}
        Some("EvictThenDelete") if eviction.contains_key("deadlineSeconds") => {}
        Some("EvictThenDelete") => {
            return Err(wrong(path("deadlineSeconds"), "is required with mode EvictThenDelete"));
        }
        Some(_) => return Err(wrong(path("mode"), "must be Delete, Evict or EvictThenDelete")),
    }
    Ok((pace, eviction))
}

fn read_rule(index: usize, rule: WireRule) -> Result<Rule, FieldError> {
    let field = |name: &str| format!("spec.rules[{index}].{name}");
    let count = match rule.count {
        Some(count) => Some(Count {
            at_least: count.at_least,
            within_ms: duration(&field("count.within"), &count.within)?,
        }),
        None => None,
    };
    let taint = rule.taint.unwrap_or(WireTaint { key: None, value: None });
    Ok(Rule {
        name: rule.name.as_str().into(),
        when: When::compile(&rule.when).map_err(|error| wrong(field("when"), error))?,
        count,
        hold_ms: rule.r#for.map_or(Ok(0), |text| duration(&field("for"), &text))?,
        target: match rule.stage {
            WireTarget::Suspect => Target::Suspect,
            WireTarget::Quarantined => Target::Quarantined,
            WireTarget::Drained => Target::Drained,
        },
        taint: TaintKeyValue {
            key: taint.key.as_deref().unwrap_or(TaintKeyValue::KEY_DEFAULT).into(),
            value: taint.value.as_deref().unwrap_or(TAINT_VALUE).into(),
        },
    })
}

fn read_step(index: usize, step: WireStep) -> Result<HealthStep, FieldError> {
    let field = |name: &str| format!("spec.repair.steps[{index}]{name}");
    match (step.job, step.request, step.done_when) {
        (Some(_), None, Some(_)) => {
            Err(wrong(field(".doneWhen"), "belongs to a request: a Job is done when it is complete"))
        }
        (Some(job), None, None) => {
            let namespace = namespace(&field(".job.template"), &job.template)?;
            Ok(HealthStep::Job { namespace, template: job.template })
        }
        (None, Some(request), Some(done_when)) => {
            if !request.template.is_object() {
                return Err(wrong(field(".request.template"), "must be an object"));
            }
            let done_when =
                DoneWhen::compile(&done_when).map_err(|error| wrong(field(".doneWhen"), error))?;
            let WireRequest { api_version, kind, template } = request;
            Ok(HealthStep::Request { api_version, kind, template, done_when })
        }
        (None, Some(_), None) => {
            Err(wrong(field(".doneWhen"), "is required: it says when the request is done"))
        }
        (Some(_), Some(_), _) | (None, None, _) => Err(wrong(field(""), "has job or request, one of them")),
    }
}

fn namespace(field: &str, template: &Value) -> Result<String, FieldError> {
    if !template.is_object() {
        return Err(wrong(field, "must be an object: metadata and spec of a Job"));
    }
    match &template["metadata"]["namespace"] {
        Value::Null => Ok(NAMESPACE.to_owned()),
        Value::String(name) => lazaret_model::validate_dns_label(name)
            .map(|()| name.clone())
            .map_err(|error| wrong(format!("{field}.metadata.namespace"), error.to_string())),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(wrong(format!("{field}.metadata.namespace"), "must be a text"))
        }
    }
}

type Proof = (Option<Recovery>, Option<Validation>);

fn read_recovery(recovery: WireRecovery, class: Option<String>) -> Result<Proof, FieldError> {
    let flaps = recovery.flaps.map(|flaps| {
        let within_ms = duration("spec.recovery.flaps.within", &flaps.within)?;
        Ok::<_, FieldError>(Flaps { at_most: flaps.at_most, within_ms })
    });
    let validation = recovery.validation.map(|validation| {
        let field = "spec.recovery.validation";
        let namespace = namespace(&format!("{field}.template"), &validation.template)?;
        let device_class = validation.device_class_name.or(class).ok_or_else(|| {
            wrong(
                format!("{field}.deviceClassName"),
                "is required where spec.deviceSelector names no class: the device is claimed through it",
            )
        })?;
        Ok::<_, FieldError>(Validation { namespace, template: validation.template, device_class })
    });
    let validation = validation.transpose()?;
    let recovery = Recovery {
        probation_ms: duration("spec.recovery.probation", &recovery.probation)?,
        validates: validation.is_some(),
        flaps: flaps.transpose()?,
    };
    Ok((Some(recovery), validation))
}
