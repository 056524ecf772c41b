//! Removes the part of an object that is wrong.

use serde_json::Value;

/// A step down from an object to a part.
#[derive(Debug, PartialEq)]
enum Step<'a> {
    Field(&'a str),
    /// An item of a list, or an entry of a map.
    Entry(&'a str),
}

/// Removes what an error names, no deeper than `depth` steps down; where that is missing, what it is missing in. Gives the names of the fields
/// on the way to it, joined by dots, without items and entries; `None` when only the object as a whole is left to remove.
pub(super) fn remove(object: &mut Value, path: &str, depth: usize) -> Option<String> {
    let steps = steps(path);
    let mut there = 0;
    let mut at = &*object;
    for step in steps.iter().take(depth) {
        let Some(next) = child(at, step) else { break };
        (at, there) = (next, there + 1);
    }
    let (last, way) = steps[..there].split_last()?;
    let mut holder = object;
    for step in way {
        holder = child_mut(holder, step)?;
    }
    let (Step::Field(name) | Step::Entry(name)) = last;
    match holder {
        Value::Object(fields) => drop(fields.remove(*name)?),
        Value::Array(items) => drop(items.remove(name.parse().ok()?)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    }
    let names = steps[..there].iter().filter_map(|step| match step {
        Step::Field(name) => Some(*name),
        Step::Entry(_) => None,
    });
    Some(names.collect::<Vec<_>>().join("."))
}

fn child<'v>(value: &'v Value, step: &Step<'_>) -> Option<&'v Value> {
    let (Step::Field(name) | Step::Entry(name)) = step;
    match value {
        Value::Object(fields) => fields.get(*name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn child_mut<'v>(value: &'v mut Value, step: &Step<'_>) -> Option<&'v mut Value> {
    let (Step::Field(name) | Step::Entry(name)) = step;
    match value {
        Value::Object(fields) => fields.get_mut(*name),
        Value::Array(items) => items.get_mut(name.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The steps of a path as errors have it: `spec.devices[0].attributes[gpu.example.com/model].string`.
fn steps(path: &str) -> Vec<Step<'_>> {
    let (mut steps, mut rest) = (Vec::new(), path);
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (entry, after) = inside.split_once(']').unwrap_or((inside, ""));
            steps.push(Step::Entry(entry));
            rest = after;
        } else {
            let name = rest.trim_start_matches('.');
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 {
                break;
            }
            steps.push(Step::Field(&name[..end]));
            rest = &name[end..];
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_goes_and_what_is_missing_takes_its_holder_along() {
        let object = json!({"spec": {"a": [{"b": 1, "m": {"x.y/z": 2}}], "c": 3}});
        for (path, depth, lost, left) in [
            ("spec.a[0].b", 9, Some("spec.a.b"), json!({"spec": {"a": [{"m": {"x.y/z": 2}}], "c": 3}})),
            ("spec.a[0].m[x.y/z]", 9, Some("spec.a.m"), json!({"spec": {"a": [{"b": 1, "m": {}}], "c": 3}})),
            ("spec.a[0].missing", 9, Some("spec.a"), json!({"spec": {"a": [], "c": 3}})),
            ("spec.a[0].b", 2, Some("spec.a"), json!({"spec": {"c": 3}})),
            ("status.x", 9, None, object.clone()),
            ("", 9, None, object.clone()),
            ("]..[", 9, None, object.clone()),
        ] {
            let mut value = object.clone();
            assert_eq!((remove(&mut value, path, depth).as_deref(), value), (lost, left), "{path}");
        }
    }
}
