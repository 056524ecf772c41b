//! Priorities of pods, and the classes that give them names.

use lazaret_json::Value;

use crate::{
    Column, Context, Errors, Rules,
    check::{IMMUTABLE, one_of},
    kind::age,
    path::Path,
    value::{fill, has, is_true, number, put, same_field, some, text},
};

/// Classes that always exist.
const SYSTEM: &[(&str, i64)] =
    &[("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
/// The highest value of a class that a user creates.
const USER_VALUE_MAX: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
const PREEMPTION: &[&str] = &["Never", "PreemptLowerPriority"];

/// The value and the preemption policy that a class stands for; `None` if there is no such class.
fn class(name: &str, context: &Context<'_>) -> Option<(i64, String)> {
    if let Some(found) = (context.lookup)("priorityclasses", "", name) {
        let policy = Some(text(&found, "preemptionPolicy")).filter(|policy| !policy.is_empty());
        return Some((number(&found, "value"), policy.unwrap_or("PreemptLowerPriority").to_owned()));
    }
    let (_, value) = SYSTEM.iter().find(|(known, _)| *known == name)?;
    Some((*value, "PreemptLowerPriority".to_owned()))
}

/// Gives a new pod the priority of its class, and 0 without one.
pub(super) fn resolve(spec: &mut Value, context: &Context<'_>) {
    let name = text(spec, "priorityClassName").to_owned();
    let found =
        if name.is_empty() { Some((0, "PreemptLowerPriority".to_owned())) } else { class(&name, context) };
    if let Some((value, policy)) = found {
        fill(spec, "priority", value);
        fill(spec, "preemptionPolicy", policy);
    }
}

/// Whether a new pod that states a priority or how it preempts states what its class says. `class`: that which it names, if it is stored.
///
/// # Errors
/// The contradiction.
pub fn check_stated_priority(spec: &Value, class: Option<&Value>) -> Result<(), String> {
    let of_system = SYSTEM.iter().find(|(known, _)| *known == text(spec, "priorityClassName"));
    let value = class.map_or(of_system.map_or(0, |(_, value)| *value), |class| number(class, "value"));
    let policy = class.map(|class| text(class, "preemptionPolicy")).filter(|policy| !policy.is_empty());
    let policy = policy.unwrap_or("PreemptLowerPriority");
    if let Some(stated) = some(spec, "priority").and_then(Value::as_i64).filter(|stated| *stated != value) {
        return Err(format!(
            "the integer value of priority ({stated}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        ));
    }
    match some(spec, "preemptionPolicy").and_then(Value::as_str) {
        Some(stated) if stated != policy => Err(format!(
            "the string value of PreemptionPolicy ({stated}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )),
        _ => Ok(()),
    }
}

/// Whether a new pod's priority is that of its class.
pub(super) fn check(errors: &mut Errors, spec: &Value, context: &Context<'_>) {
    let path = Path::root("spec");
    let name = text(spec, "priorityClassName");
    let expected = if name.is_empty() {
        0
    } else {
        let Some((value, _)) = class(name, context) else {
            errors.forbidden(
                path.field("priorityClassName"),
                format!("no PriorityClass with name {name} was found"),
            );
            return;
        };
        value
    };
    let given = number(spec, "priority");
    if given != expected {
        errors.forbidden(
            path.field("priority"),
            format!("the integer value of priority ({given}) must not be provided in pod spec; its class says {expected}"),
        );
    }
}

/// Classes of priorities.
#[derive(Debug)]
pub(crate) struct PriorityClass;

impl Rules for PriorityClass {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        fill(object, "preemptionPolicy", "PreemptLowerPriority");
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        if !has(new, "value") {
            put(new, "value", number(old, "value"));
        }
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let (name, value) = (text(&object["metadata"], "name"), number(object, "value"));
        if name.starts_with(SYSTEM_PREFIX) {
            if !SYSTEM.contains(&(name, value)) {
                errors.forbidden(
                    "metadata.name",
                    "priority class names with 'system-' prefix are reserved for system use only",
                );
            }
        } else if value > USER_VALUE_MAX {
            errors.forbidden(
                "value",
                format!("maximum allowed value of a user defined priority is {USER_VALUE_MAX}"),
            );
        }
        one_of(errors, &Path::root("preemptionPolicy"), text(object, "preemptionPolicy"), PREEMPTION);
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        if number(new, "value") != number(old, "value") {
            errors.forbidden("value", "may not be changed in an update.");
        }
        if !same_field(new, old, "preemptionPolicy") {
            errors.invalid("preemptionPolicy", text(new, "preemptionPolicy"), IMMUTABLE);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::number("Value"),
            Column { name: "Global-Default", kind: "boolean", priority: 0 },
            Column::AGE,
            Column::text("PreemptionPolicy"),
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![
            number(object, "value").into(),
            is_true(object, "globalDefault").into(),
            age(object, context),
            some(object, "preemptionPolicy").cloned().unwrap_or_else(|| "".into()),
        ]
    }
}
