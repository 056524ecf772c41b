//! DeviceHealthPolicy, from its JSON.

use lazaret_cel::{Env, Mode as CelMode, compile};
use lazaret_lifecycle::{
    Count, DoneWhen, Flaps, Policy, Recovery, Rule, Step, TaintKeyValue, Tally, Target,
    VALIDATION_TIMEOUT_MS, When,
};
use lazaret_model::{DeviceSelector, Text, validate_qualified_name};
use serde_json::Value;

use super::{
    account::{self, ServiceAccount},
    tally,
};
use crate::{
    FieldError,
    convert::{self, FromWire as _, Version, named},
    decode::parse,
    field::Path,
    fields,
    wire::{
        self, AnyDeviceSelector, DeviceHealthPolicySpec, DeviceHealthPolicyStatus, Fields as _,
        HealthRecovery, HealthRule, HealthStep as WireStep, Nullable, ObjectMeta, Raw,
    },
};

const KIND: &str = "DeviceHealthPolicy";
const API_VERSION: &str = "lazaret.dev/v1alpha1";
/// The value of the taint when a rule names none.
const TAINT_VALUE: &str = "unhealthy";
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
    /// The service account as which both are created.
    pub account: Option<ServiceAccount>,
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

fields! {
    struct Object(false; "metadata", "spec") {
        api_version: Nullable<String> = "apiVersion",
        kind: Nullable<String> = "kind",
        metadata: ObjectMeta = "metadata",
        spec: DeviceHealthPolicySpec = "spec",
        status: Nullable<DeviceHealthPolicyStatus> = "status",
    }
}

type Result<T> = std::result::Result<T, FieldError>;

/// A length of time like `1h30m`, in milliseconds.
fn duration(path: &Path<'_>, text: &str) -> Result<i64> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|error| path.error(format!("{error}: write it as 90s, 10m or 1h30m")))?;
    i64::try_from(duration.as_millis()).map_err(|_| path.error("is too long"))
}

/// JSON whose form somebody else decides.
fn tree(raw: &Raw) -> Value {
    serde_json::from_str(raw.0.get()).unwrap_or_default()
}

/// Reads a policy. One that breaks a limit, or has an expression that does not compile, is refused with the field.
///
/// # Errors
/// The first field that is wrong.
pub fn read_health_policy(json: &str) -> Result<HealthPolicy> {
    let Object { api_version, kind, metadata, spec, status } = parse(json)?;
    let (api_version, kind) = (api_version.0, kind.0);
    if kind != KIND || api_version != API_VERSION {
        let wanted = format!("is a {kind} of {api_version}: a {KIND} of {API_VERSION} is wanted");
        return Err(Path::ROOT.error(wanted));
    }
    let path = &Path::ROOT.field("spec");
    spec.check(path)?;
    let place = path.field("rules");
    let rules = spec.rules.into_iter().enumerate().map(|(index, rule)| read_rule(rule, &place.index(index)));
    let rules = rules.collect::<Result<Vec<_>>>()?;
    let (repair, place) = (spec.repair.0, path.field("repair"));
    let place = place.field("steps");
    let (mut steps, mut known) = (Vec::new(), Vec::new());
    for (index, step) in repair.steps.0.into_iter().enumerate() {
        let (name, timeout_ms) = (step.name.as_str().into(), step.timeout_seconds * 1_000);
        let step = read_step(step, &place.index(index))?;
        known.push(Step { name, timeout_ms, is_request: matches!(step, HealthStep::Request { .. }) });
        steps.push(step);
    }
    let class = spec.device_selector.0.device_class_name.clone();
    let (recovery, validation) = match spec.recovery {
        Some(recovery) => read_recovery(recovery, class, &path.field("recovery"))?,
        None => (None, None),
    };
    let account = spec.service_account.map(|wire| account::read(wire, &path.field("serviceAccount")));
    let policy = Policy {
        name: metadata.name.0.into(),
        mode: named(spec.mode, &path.field("mode"))?,
        rules,
        clear_after_ms: duration(&path.field("clearAfter"), &spec.clear_after.0)?,
        steps: known,
        attempts_max: u32::from_wire(repair.max_attempts.0, path)?,
        recovery,
        blocked: None,
    };
    if let Some(problem) = policy.problems().into_iter().next() {
        return Err(FieldError { path: problem.field, message: problem.message });
    }
    let identity = spec.identity_attribute.0;
    validate_qualified_name(&identity).map_err(|error| {
        path.field("identityAttribute").error(format!("{error}; write it as uuid or gpu.example.com/uuid"))
    })?;
    let (evictions_per_second, eviction) = read_eviction(spec.eviction.as_ref(), &path.field("eviction"))?;
    Ok(HealthPolicy {
        policy,
        selector: read_selector(spec.device_selector.0, &path.field("deviceSelector"))?,
        identity: identity.into(),
        evictions_per_second,
        eviction,
        counts: tally::read(status.0),
        steps,
        validation,
        account: account.transpose()?,
        generation: metadata.generation.0,
    })
}

fn read_selector(selector: AnyDeviceSelector, path: &Path<'_>) -> Result<DeviceSelector> {
    let (mut cel, place) = (Vec::new(), path.field("selectors"));
    for (index, selector) in selector.selectors.0.into_iter().enumerate() {
        let (expression, place) = (selector.cel.expression, place.index(index));
        compile(&expression, &Env::new(CelMode::New))
            .map_err(|error| place.field("cel").field("expression").error(error.to_string()))?;
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

/// How fast pods leave, and how: all but the pace is as a rule has it.
fn read_eviction(raw: Option<&Raw>, path: &Path<'_>) -> Result<Eviction> {
    let mut eviction = match raw.map(tree) {
        None => serde_json::Map::new(),
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(path.error("must be an object")),
    };
    let pace = match eviction.remove("evictionsPerSecond") {
        None => None,
        Some(value) => {
            let number = value.as_i64().filter(|number| *number >= 1);
            let wrong = || path.field("evictionsPerSecond").error("must be a whole number, 1 or more");
            Some(number.ok_or_else(wrong)?)
        }
    };
    let known = wire::Eviction::default().shape().fields;
    if let Some(field) = eviction.keys().find(|field| !known.contains(&field.as_str())) {
        let known = known.join(", ");
        let wrong = format!("unknown field: eviction has evictionsPerSecond, {known}");
        return Err(path.field(field).error(wrong));
    }
    let said = parse(raw.map_or("{}", |raw| raw.0.get())).map_err(|error| error.below(path))?;
    convert::eviction(said, Version::V1Alpha3, path)?;
    Ok((pace, eviction))
}

fn read_rule(rule: HealthRule, path: &Path<'_>) -> Result<Rule> {
    let place = path.field("count");
    let count = rule.count.map(|count| {
        Ok::<_, FieldError>(Count {
            at_least: u32::from_wire(count.at_least, &place)?,
            within_ms: duration(&place.field("within"), &count.within)?,
        })
    });
    let taint = rule.taint.0;
    Ok(Rule {
        name: rule.name.into(),
        when: When::compile(&rule.when).map_err(|error| path.field("when").error(error))?,
        count: count.transpose()?,
        hold_ms: rule.r#for.map_or(Ok(0), |text| duration(&path.field("for"), &text))?,
        target: Target::from_name(&rule.stage).ok_or_else(|| path.field("stage").error("is no stage"))?,
        taint: TaintKeyValue {
            key: taint.key.as_deref().unwrap_or(TaintKeyValue::KEY_DEFAULT).into(),
            value: taint.value.as_deref().unwrap_or(TAINT_VALUE).into(),
        },
    })
}

fn read_step(step: WireStep, path: &Path<'_>) -> Result<HealthStep> {
    let place = path.field("doneWhen");
    match (step.job, step.request, step.done_when) {
        (Some(_), None, Some(_)) => {
            Err(place.error("belongs to a request: a Job is done when it is complete"))
        }
        (Some(job), None, None) => {
            let template = tree(&job.template);
            let namespace = namespace(&template, &path.field("job").field("template"))?;
            Ok(HealthStep::Job { namespace, template })
        }
        (None, Some(request), Some(done_when)) => {
            let template = tree(&request.template);
            if !template.is_object() {
                return Err(path.field("request").field("template").error("must be an object"));
            }
            let done_when = DoneWhen::compile(&done_when).map_err(|error| place.error(error))?;
            let (api_version, kind) = (request.api_version, request.kind);
            Ok(HealthStep::Request { api_version, kind, template, done_when })
        }
        (None, Some(_), None) => Err(place.error("is required: it says when the request is done")),
        (Some(_), Some(_), _) | (None, None, _) => Err(path.error("has job or request, one of them")),
    }
}

fn namespace(template: &Value, path: &Path<'_>) -> Result<String> {
    if !template.is_object() {
        return Err(path.error("must be an object: metadata and spec of a Job"));
    }
    let place = path.field("metadata");
    let place = place.field("namespace");
    match &template["metadata"]["namespace"] {
        Value::Null => Ok(NAMESPACE.to_owned()),
        Value::String(name) => lazaret_model::validate_dns_label(name)
            .map(|()| name.clone())
            .map_err(|error| place.error(error.to_string())),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(place.error("must be a text"))
        }
    }
}

type Proof = (Option<Recovery>, Option<Validation>);

fn read_recovery(recovery: HealthRecovery, class: Option<String>, path: &Path<'_>) -> Result<Proof> {
    let place = path.field("flaps");
    let flaps = recovery.flaps.map(|flaps| {
        let within_ms = duration(&place.field("within"), &flaps.within)?;
        Ok::<_, FieldError>(Flaps { at_most: u32::from_wire(flaps.at_most, &place)?, within_ms })
    });
    let place = path.field("validation");
    let timeout_seconds = recovery.validation.as_ref().and_then(|validation| validation.timeout_seconds);
    let timeout_ms = timeout_seconds.map(|seconds| seconds * 1_000);
    let validation = recovery.validation.map(|validation| {
        let template = tree(&validation.template);
        let namespace = namespace(&template, &place.field("template"))?;
        let device_class = validation.device_class_name.or(class).ok_or_else(|| {
            place.field("deviceClassName").error(
                "is required where spec.deviceSelector names no class: the device is claimed through it",
            )
        })?;
        Ok::<_, FieldError>(Validation { namespace, template, device_class })
    });
    let validation = validation.transpose()?;
    let recovery = Recovery {
        probation_ms: duration(&path.field("probation"), &recovery.probation)?,
        validates: validation.is_some(),
        validation_timeout_ms: timeout_ms.unwrap_or(VALIDATION_TIMEOUT_MS),
        flaps: flaps.transpose()?,
    };
    Ok((Some(recovery), validation))
}
