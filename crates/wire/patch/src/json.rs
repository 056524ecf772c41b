//! The two standard patches: RFC 6902, with the leniency that Kubernetes has, and RFC 7386.

use std::borrow::Cow;

use lazaret_json::{Map, Value};
use lazaret_schema::DEPTH_MAX;

use crate::PatchError;

/// More operations than this in one JSON patch are refused.
pub const OPERATIONS_MAX: usize = 10_000;

/// Bound on the bytes that a JSON patch copies and moves: a value that is copied into itself again and again doubles each time.
const CARRIED_MAX: usize = 3 << 20;

/// Bound on the items of lists that are moved by one place to make room or to close a gap: as many as all operations at the front of a list
/// of 5,000 items. Each is a few bytes to copy, all of them a tenth of a second.
const SHIFTED_MAX: usize = OPERATIONS_MAX * 5_000;

/// Applies a JSON patch (RFC 6902), all of it or nothing. `null` is a patch that does nothing.
///
/// Three things that RFC 6902 forbids are allowed, as in Kubernetes: an absent field may be replaced, copied and tested, and is null; an
/// absent value is null; an index may count from the end.
///
/// # Errors
/// When the patch is malformed, too long, or an operation does not apply.
pub fn json_patch(mut object: Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = match patch {
        Value::Null => return Ok(object),
        Value::Array(operations) => operations,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) | Value::Encoded(_) => {
            return Err(PatchError::Malformed("a JSON patch must be a list of operations".into()));
        }
    };
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let operations: Vec<JsonOperation<'_>> =
        operations.iter().enumerate().map(JsonOperation::read).collect::<Result<_, _>>()?;
    let mut spent = WorkDone::default();
    for (at, operation) in operations.iter().enumerate() {
        // The changes before a failed operation are dropped with the object: nothing is to be undone.
        operation.apply(&mut object, &mut spent).map_err(|why| {
            let JsonOperation { op, path, .. } = operation;
            PatchError::DoesNotApply(format!("operation {at}, {op:?} at {:?}: {why}", path.unwrap_or("")))
        })?;
    }
    Ok(object)
}

/// The work done by the operations of a patch so far.
#[derive(Default)]
struct WorkDone {
    /// Bytes copied and moved.
    carried: usize,
    /// Items of lists that others made way for.
    shifted: usize,
}

impl WorkDone {
    fn carry(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.carried += bytes;
        if self.carried > CARRIED_MAX { Err("the patch copies and moves too much") } else { Ok(()) }
    }

    fn shift(&mut self, items: usize) -> Result<(), &'static str> {
        self.shifted += items;
        if self.shifted > SHIFTED_MAX { Err("the patch moves too many items of lists") } else { Ok(()) }
    }
}

struct JsonOperation<'a> {
    op: &'a str,
    path: Option<&'a str>,
    from: Option<&'a str>,
    /// Null if none was given.
    value: &'a Value,
}

impl<'a> JsonOperation<'a> {
    fn read((at, operation): (usize, &'a Value)) -> Result<Self, PatchError> {
        let is = |what: &str| PatchError::Malformed(format!("operation {at}: {what}"));
        if !operation.is_object() && !operation.is_null() {
            return Err(is("must be an object"));
        }
        let text = |field: &str| match operation.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(is(&format!("{field:?} must be a string"))),
        };
        Ok(Self {
            op: text("op")?.unwrap_or_default(),
            path: text("path")?,
            from: text("from")?,
            value: operation.get("value").unwrap_or(&Value::Null),
        })
    }

    fn apply(&self, object: &mut Value, spent: &mut WorkDone) -> Result<(), &'static str> {
        let path = || self.path.ok_or("it has no path");
        let from = || self.from.ok_or("it does not say from where");
        match self.op {
            "add" => {
                weigh(self.value, levels_below(path()?)?)?;
                add(object, path()?, self.value.clone(), spent)
            }
            "remove" => remove(object, path()?, spent),
            "replace" => {
                weigh(self.value, levels_below(path()?)?)?;
                replace(object, path()?, self.value.clone())
            }
            "move" | "copy" => {
                let value = get(object, from()?)?;
                spent.carry(weigh(&value, levels_below(path()?)?)?)?;
                if self.op == "move" {
                    remove(object, from()?, spent)?;
                }
                add(object, path()?, value, spent)
            }
            "test" if path()?.is_empty() && object == self.value => Ok(()),
            "test" if !path()?.is_empty() && get(object, path()?)? == *self.value => Ok(()),
            "test" => Err("the value is another"),
            _ => Err("no such operation"),
        }
    }
}

const NO_PATH: &str = "there is no such path";
const NO_INDEX: &str = "there is no such index";
const TOO_DEEP: &str = "what it makes is nested too deep";

/// The steps to the parent of a path's end, and the end. The part before the first slash does not count.
fn steps(path: &str) -> Result<(Vec<Cow<'_, str>>, Cow<'_, str>), &'static str> {
    let mut steps: Vec<Cow<'_, str>> = path.split('/').skip(1).map(unescaped).collect();
    let last = steps.pop().ok_or(NO_PATH)?;
    Ok((steps, last))
}

fn unescaped(step: &str) -> Cow<'_, str> {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}

/// The position that a step names among `length`; below zero from the end.
fn index(step: &str, length: usize) -> Result<usize, &'static str> {
    let said: i64 = step.parse().map_err(|_| "an index must be a number")?;
    let length = i64::try_from(length).map_err(|_| NO_INDEX)?;
    let from_start = if said < 0 { said.checked_add(length).ok_or(NO_INDEX)? } else { said };
    usize::try_from(from_start).ok().filter(|_| from_start < length).ok_or(NO_INDEX)
}

fn get(object: &Value, path: &str) -> Result<Value, &'static str> {
    let (steps, last) = steps(path)?;
    let within = |holder: &Value, step: &str| match holder {
        Value::Object(map) => Ok(map.get(step).cloned().unwrap_or_default()),
        Value::Array(items) => Ok(items[index(step, items.len())?].clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {
            Err(NO_PATH)
        }
    };
    // Each step costs a count, not a copy.
    let holder = steps.iter().try_fold(object.clone(), |holder, step| within(&holder, step))?;
    within(&holder, &last)
}

fn holder<'v>(object: &'v mut Value, steps: &[Cow<'_, str>]) -> Result<&'v mut Value, &'static str> {
    steps.iter().try_fold(object, |holder, step| match holder {
        Value::Object(map) => map.get_mut(step).ok_or(NO_PATH),
        Value::Array(items) => {
            let at = index(step, items.len())?;
            Ok(&mut items[at])
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {
            Err(NO_PATH)
        }
    })
}

fn add(object: &mut Value, path: &str, value: Value, spent: &mut WorkDone) -> Result<(), &'static str> {
    let (steps, last) = steps(path)?;
    match holder(object, &steps)? {
        Value::Object(map) => drop(map.insert(last, value)),
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(&last, items.len() + 1)?;
            spent.shift(items.len() - at)?;
            items.insert(at, value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {
            return Err(NO_PATH);
        }
    }
    Ok(())
}

fn remove(object: &mut Value, path: &str, spent: &mut WorkDone) -> Result<(), &'static str> {
    let (steps, last) = steps(path)?;
    match holder(object, &steps)? {
        Value::Object(map) => drop(map.remove(&last).ok_or(NO_PATH)?),
        Value::Array(items) => {
            let at = index(&last, items.len())?;
            spent.shift(items.len() - at)?;
            items.remove(at);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {
            return Err(NO_PATH);
        }
    }
    Ok(())
}

fn replace(object: &mut Value, path: &str, value: Value) -> Result<(), &'static str> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("the whole can be replaced by an object only");
        }
        *object = value;
        return Ok(());
    }
    let (steps, last) = steps(path)?;
    match holder(object, &steps)? {
        Value::Object(map) => drop(map.insert(last, value)),
        Value::Array(items) => {
            let at = index(&last, items.len())?;
            items[at] = value;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => {
            return Err(NO_PATH);
        }
    }
    Ok(())
}

/// Levels that a value at a path may have, so that the whole is nested no deeper than a body may be: every walk through an object relies
/// on it.
fn levels_below(path: &str) -> Result<usize, &'static str> {
    DEPTH_MAX.checked_sub(path.matches('/').count()).ok_or(TOO_DEEP)
}

/// The approximate bytes of a value as text, if it is nested no deeper than `levels`.
fn weigh(value: &Value, levels: usize) -> Result<usize, &'static str> {
    let below = || levels.checked_sub(1).ok_or(TOO_DEEP);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(4),
        Value::String(text) => Ok(text.len() + 2),
        Value::Encoded(encoded) => Ok(encoded.as_str().len()),
        Value::Array(items) => {
            let below = below()?;
            items.iter().try_fold(2, |sum, item| Ok(sum + 1 + weigh(item, below)?))
        }
        Value::Object(map) => {
            let below = below()?;
            map.iter().try_fold(2, |sum, (name, value)| Ok(sum + 4 + name.len() + weigh(value, below)?))
        }
    }
}

/// Applies a merge patch (RFC 7386): objects merge, `null` removes, everything else replaces.
#[must_use]
pub fn merge_patch(mut object: Value, patch: &Value) -> Value {
    merge(&mut object, patch);
    object
}

fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        object.clone_from(patch);
        return;
    };
    for (name, value) in patch {
        if !value.is_null() {
            merge(&mut object[name.as_str()], value);
        } else if let Some(object) = object.as_object_mut() {
            object.remove(name);
        }
    }
    // An empty patch of what is no object makes it one, too.
    if !object.is_object() {
        *object = Map::new().into();
    }
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;

    fn object() -> Value {
        json!({"data": {"k": "v", "a/b~c": "d", "null": null}, "list": [1, 2]})
    }

    fn patched(operation: Value) -> Option<Value> {
        json_patch(object(), &json!([operation])).ok()
    }

    #[test]
    fn operations_apply_as_in_kubernetes() {
        let with = |path: &str, value: Value| {
            let mut object = object();
            if let Some(place) = object.pointer_mut(path) {
                *place = value;
            } else {
                let (holder, name) = path.rsplit_once('/').unwrap();
                object.pointer_mut(holder).unwrap().as_object_mut().unwrap().insert(name, value);
            }
            Some(object)
        };
        for (operation, expected) in [
            (json!({"op": "add", "path": "/data/n", "value": "x"}), with("/data/n", json!("x"))),
            (json!({"op": "add", "path": "/list/1", "value": 7}), with("/list", json!([1, 7, 2]))),
            (json!({"op": "add", "path": "/list/-", "value": 7}), with("/list", json!([1, 2, 7]))),
            (json!({"op": "add", "path": "/list/-1", "value": 7}), with("/list", json!([1, 2, 7]))),
            (json!({"op": "add", "path": "/list/2", "value": 7}), with("/list", json!([1, 2, 7]))),
            (json!({"op": "add", "path": "/list/3", "value": 7}), None),
            (json!({"op": "add", "path": "/list/x", "value": 7}), None),
            (json!({"op": "add", "path": "/data/k"}), with("/data/k", Value::Null)),
            (json!({"op": "add", "path": "/none/k", "value": 7}), None),
            (json!({"op": "add", "path": "/data/k/z", "value": 7}), None),
            (json!({"op": "add", "path": "", "value": {}}), None),
            (json!({"op": "add", "value": 7}), None),
            (json!({"op": "remove", "path": "/list/-1"}), with("/list", json!([1]))),
            (json!({"op": "remove", "path": "/list/-3"}), None),
            (json!({"op": "remove", "path": "/list/2"}), None),
            (json!({"op": "remove", "path": "/data/none"}), None),
            (json!({"op": "replace", "path": "/data/none", "value": "x"}), with("/data/none", json!("x"))),
            (json!({"op": "replace", "path": "/list/2", "value": 7}), None),
            (json!({"op": "replace", "path": "", "value": {"x": 1}}), Some(json!({"x": 1}))),
            (json!({"op": "replace", "path": "", "value": 1}), None),
            (json!({"op": "move", "from": "/data/none", "path": "/data/n"}), None),
            (json!({"op": "move", "path": "/data/n"}), None),
            (json!({"op": "copy", "from": "/data/none", "path": "/data/n"}), with("/data/n", Value::Null)),
            (json!({"op": "copy", "from": "/data/a~1b~0c", "path": "/data/n"}), with("/data/n", json!("d"))),
            (json!({"op": "test", "path": "/data/k", "value": "v"}), Some(object())),
            (json!({"op": "test", "path": "/data/none", "value": null}), Some(object())),
            (json!({"op": "test", "path": "/data/null"}), Some(object())),
            (json!({"op": "test", "path": "/data/k"}), None),
            (json!({"op": "test", "path": "", "value": object()}), Some(object())),
            (json!({"op": "frob", "path": "/data/k"}), None),
            (json!({"path": "/data/k"}), None),
            (Value::Null, None),
        ] {
            assert_eq!(patched(operation.clone()), expected, "{operation}");
        }
    }

    #[test]
    fn what_is_no_patch_is_malformed_and_null_does_nothing() {
        for patch in [
            json!({"op": "add", "path": "/data/k"}),
            json!("x"),
            json!(["x"]),
            json!([{"op": 1, "path": "/data/k"}]),
            json!([{"op": "add", "path": 1}]),
        ] {
            let answer = json_patch(object(), &patch);
            assert!(matches!(answer, Err(PatchError::Malformed(_))), "{patch}: {answer:?}");
        }
        assert_eq!(json_patch(object(), &Value::Null), Ok(object()));
    }

    #[test]
    fn a_move_to_nowhere_is_an_error_and_no_more() {
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        let patch = json!([
            {"op": "add", "path": "/metadata/labels/x", "value": "y"},
            {"op": "move", "from": "/metadata/labels/x", "path": "/nowhere/labels/z"},
        ]);
        assert!(matches!(json_patch(object, &patch), Err(PatchError::DoesNotApply(_))));
    }

    #[test]
    fn what_is_copied_into_itself_does_not_grow_for_ever() {
        let double =
            ["a", "b"].map(|to| json!({"op": "copy", "from": "/data", "path": format!("/data/{to}")}));
        let patch = Value::Array(vec![double; 32].concat().into());
        assert!(matches!(json_patch(object(), &patch), Err(PatchError::DoesNotApply(_))));
    }

    #[test]
    fn a_list_is_not_moved_without_end() {
        let insert = |count: usize, length: usize| {
            let patch = vec![json!({"op": "add", "path": "/list/0", "value": 0}); count];
            json_patch(json!({"list": vec![0; length]}), &patch.into()).map(|patched| patched["list"].clone())
        };
        assert_eq!(insert(100, 100).unwrap().as_array().map(Vec::len), Some(200));
        assert!(insert(OPERATIONS_MAX, 20_000).unwrap_err().to_string().contains("too many items"));
    }

    #[test]
    fn nothing_is_nested_deeper_than_whoever_walks_through_it_can_bear() {
        let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({"b": inner}));
        let add = |value: Value, steps: usize| json!([{"op": "add", "path": format!("/x{}", "/b".repeat(steps)), "value": value}]);
        assert!(json_patch(json!({}), &add(nested(DEPTH_MAX - 1), 0)).is_ok());
        assert!(json_patch(json!({}), &add(nested(DEPTH_MAX), 0)).is_err());
        let object = json!({"x": nested(DEPTH_MAX - 1)});
        assert!(json_patch(object.clone(), &add(json!(1), DEPTH_MAX - 1)).is_ok());
        assert!(json_patch(object, &add(json!({}), DEPTH_MAX - 1)).is_err());
        // Twice as deep with each operation: hundreds of thousands of levels in a body of a megabyte.
        for op in ["copy", "move"] {
            let mut patch = vec![
                json!({"op": "add", "path": "/x", "value": {}}),
                json!({"op": "add", "path": "/y", "value": {}}),
            ];
            for depth in (0..18).map(|power| 1 << power) {
                patch.push(json!({"op": "copy", "from": "/x", "path": "/y"}));
                patch.push(json!({"op": op, "from": "/y", "path": format!("/x{}", "/b".repeat(depth))}));
            }
            let refused = json_patch(json!({}), &patch.into()).unwrap_err().to_string();
            assert!(refused.contains(TOO_DEEP), "{refused}");
        }
    }
}
