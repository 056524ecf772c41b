//! Runtime classes: checked, kept, and applied to pods that name one. No node here looks at the handler.

use lazaret_json::Value;

use crate::{
    Column, Context, Errors, FieldProblem, Rules,
    check::{dns_label, immutable, label_name, label_value},
    core::{container_resources, toleration},
    kind::age,
    path::Path,
    value::{
        canonical_quantities, count, entries, field_mut, has, is_filled, list, number, put, quantity, some,
        stripped, text,
    },
};

/// Runtime classes.
#[derive(Debug)]
pub(crate) struct RuntimeClass;

impl Rules for RuntimeClass {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        canonical_quantities(object, "node/v1.RuntimeClass");
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        match text(object, "handler") {
            "" => errors.required("handler", ""),
            handler => dns_label(errors, &Path::root("handler"), handler),
        }
        errors.warn("the handler of a RuntimeClass is for nodes to act on, and simulated nodes do not");
        if let Some(overhead) = some(object, "overhead") {
            let limits = lazaret_json::json!({"limits": overhead["podFixed"]});
            container_resources(errors, &Path::root("overhead"), &limits);
        }
        if let Some(scheduling) = some(object, "scheduling") {
            self::scheduling(errors, &Path::root("scheduling"), scheduling);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        immutable(errors, &Path::root("handler"), new, old, "handler");
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Handler"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![text(object, "handler").into(), age(object, context)]
    }
}

fn scheduling(errors: &mut Errors, path: &Path<'_>, scheduling: &Value) {
    for (key, value) in entries(scheduling, "nodeSelector") {
        label_name(errors, &path.field("nodeSelector"), key);
        label_value(errors, &path.field("nodeSelector"), value.as_str().unwrap_or_default());
    }
    let path = path.field("tolerations");
    let mut seen = Vec::new();
    for (at, item) in list(scheduling, "tolerations").iter().enumerate() {
        toleration(errors, &path.index(at), item);
        let key = ["key", "operator", "value", "effect"].map(|field| text(item, field));
        if seen.contains(&key) {
            errors.push(path.index(at), FieldProblem::Duplicate(item.clone()));
        }
        seen.push(key);
    }
}

/// Gives a new pod the overhead of its class, and has it placed where the class says.
///
/// # Errors
/// The contradiction between the pod and the class.
pub fn admit(pod: &mut Value, class: &Value) -> Result<(), String> {
    let spec = field_mut(pod, "spec");
    if let Some(overhead) = some(class, "overhead") {
        if count(spec, "overhead") > 0 && !same_amounts(&overhead["podFixed"], &spec["overhead"]) {
            return Err(MISMATCH.to_owned());
        }
        put(spec, "overhead", overhead["podFixed"].clone());
    }
    let Some(scheduling) = some(class, "scheduling") else { return Ok(()) };
    for (key, wanted) in entries(scheduling, "nodeSelector") {
        let (wanted, said) = (wanted.as_str().unwrap_or_default(), some(&spec["nodeSelector"], key));
        if let Some(said) = said.and_then(Value::as_str).filter(|said| *said != wanted) {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {said}"
            ));
        }
        put(field_mut(spec, "nodeSelector"), key, wanted);
    }
    if is_filled(scheduling, "tolerations") {
        let merged = merge(list(spec, "tolerations"), list(scheduling, "tolerations"));
        put(spec, "tolerations", merged);
    }
    Ok(())
}

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Whether a new pod has the overhead of its class, and no other.
///
/// # Errors
/// When it has not.
pub fn check(pod: &Value, class: Option<&Value>) -> Result<(), String> {
    let stated = &pod["spec"]["overhead"];
    match class.and_then(|class| some(class, "overhead")) {
        Some(overhead) if same_amounts(&overhead["podFixed"], stated) => Ok(()),
        Some(_) => Err(MISMATCH.to_owned()),
        None if stated.is_null() => Ok(()),
        None => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            Err(why.to_owned())
        }
    }
}

fn same_amounts(one: &Value, other: &Value) -> bool {
    let (one_list, other_list) = (one.as_object(), other.as_object());
    one_list.map_or(0, |all| all.len()) == other_list.map_or(0, |all| all.len())
        && one_list
            .into_iter()
            .flatten()
            .all(|(name, amount)| other.get(name).is_some_and(|other| quantity(amount) == quantity(other)))
}

/// Both lists of tolerations, without those that another one includes.
fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut merged: Vec<Value> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let included = merged.iter().any(|known| includes(known, one));
        let later =
            || all[at + 1..].iter().any(|other| stripped(other) != stripped(one) && includes(other, one));
        if !included && !later() {
            merged.push((*one).clone());
        }
    }
    merged
}

/// Whether a toleration tolerates all that another one does.
fn includes(wide: &Value, narrow: &Value) -> bool {
    if stripped(wide) == stripped(narrow) {
        return true;
    }
    let of = |field: &str| (text(wide, field), text(narrow, field));
    let (key, narrow_key) = of("key");
    let any_key = key.is_empty() && text(wide, "operator") == "Exists";
    if key != narrow_key && !any_key {
        return false;
    }
    let (effect, narrow_effect) = of("effect");
    if effect != narrow_effect && !effect.is_empty() {
        return false;
    }
    let limited = effect == "NoExecute" && has(wide, "tolerationSeconds");
    let longer = !has(narrow, "tolerationSeconds")
        || number(narrow, "tolerationSeconds") > number(wide, "tolerationSeconds");
    if limited && longer {
        return false;
    }
    match text(wide, "operator") {
        "" | "Equal" => text(narrow, "operator") == "Equal" && text(narrow, "value") == text(wide, "value"),
        operator => operator == "Exists",
    }
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;
    use crate::testing::{World, kind, set};

    #[test]
    fn a_pod_gets_what_its_class_says_unless_it_says_otherwise() {
        let class = json!({"handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]}});
        let mut pod = json!({"spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "kata", "operator": "Equal", "value": "x", "effect": "NoSchedule"}]}});
        admit(&mut pod, &class).unwrap();
        assert_eq!(pod["spec"]["overhead"], json!({"cpu": "250m"}));
        assert_eq!(pod["spec"]["nodeSelector"], json!({"disk": "ssd", "kata": "yes"}));
        assert_eq!(pod["spec"]["tolerations"], json!([{"key": "kata", "operator": "Exists"}]));
        assert_eq!(check(&pod, Some(&class)), Ok(()));
        assert_eq!(admit(&mut pod, &class), Ok(()), "twice is once");
        let mut other = json!({"spec": {"nodeSelector": {"kata": "no"}}});
        assert_eq!(
            admit(&mut other, &class).unwrap_err(),
            "conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no"
        );
        let mut heavy = json!({"spec": {"overhead": {"cpu": "1"}}});
        assert_eq!(admit(&mut heavy, &class).unwrap_err(), MISMATCH);
        assert_eq!(
            check(&heavy, None).unwrap_err(),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        );
    }

    #[test]
    fn a_class_has_a_handler_that_stays() {
        let classes = kind("node.k8s.io", "runtimeclasses");
        let class = json!({"metadata": {"name": "kata"}, "handler": "kata"});
        let stored = World::new().create(classes, class.clone()).ok();
        let wrong = |class: Value| World::new().create(classes, class).wrong();
        assert_eq!(wrong(set(&class, "/handler", Value::Null)), ["handler Required"]);
        assert_eq!(wrong(set(&class, "/handler", json!("No Name"))), ["handler Invalid"]);
        let heavy = set(&class, "/overhead", json!({"podFixed": {"cpu": "-1"}}));
        assert_eq!(wrong(heavy), ["overhead.limits[cpu] Invalid"]);
        let tolerations = json!({"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists", "tolerationSeconds": 1, "effect": ""}]});
        let twice = wrong(set(&class, "/scheduling", tolerations));
        assert!(twice.contains(&"scheduling.tolerations[1] Duplicate".to_owned()), "{twice:?}");
        let changed = set(&stored, "/handler", json!("runc"));
        assert_eq!(World::new().update(classes, &stored, changed).wrong(), ["handler Invalid"]);
    }
}
