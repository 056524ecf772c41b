//! Functions of lists, sets and maps.

use alloc::{sync::Arc, vec::Vec};
use core::cmp::Ordering;

use super::{
    arithmetic,
    compare::{compare, is_equal},
    context::Context,
    outcome::{Outcome, unfit},
    value::{List, Map, Value},
};
use crate::{check::decls::Func, error::EvalError};

/// The longest range.
const RANGE_MAX: i64 = 1_000_000;

/// Whether there is a range of this length.
pub(crate) fn is_range(count: i64) -> bool {
    (0..=RANGE_MAX).contains(&count)
}

pub(crate) fn call<'v>(context: Context<'v>, func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    let has =
        |list: &List<'v>, value: &Value<'v>| list.iter().any(|element| is_equal(context, &element, value));
    match (func, args) {
        (Func::SetsContains, [Value::List(a), Value::List(b)]) => {
            Ok(Value::Bool(b.iter().all(|v| has(a, &v))))
        }
        (Func::SetsIntersects, [Value::List(a), Value::List(b)]) => {
            Ok(Value::Bool(a.iter().any(|v| has(b, &v))))
        }
        (Func::SetsEquivalent, [Value::List(a), Value::List(b)]) => {
            Ok(Value::Bool(b.iter().all(|v| has(a, &v)) && a.iter().all(|v| has(b, &v))))
        }
        (Func::Slice, [Value::List(list), Value::Int(start), Value::Int(end)]) => slice(list, *start, *end),
        (Func::Flatten, [Value::List(list)]) => flattened(list, 1),
        (Func::Flatten, [Value::List(list), Value::Int(depth)]) => flattened(list, *depth),
        (Func::Distinct, [Value::List(list)]) => {
            let mut seen: Vec<Value<'v>> = Vec::new();
            for value in list.iter() {
                if !seen.iter().any(|known| is_equal(context, &value, known)) {
                    seen.push(value);
                }
            }
            Ok(Value::list(seen))
        }
        (Func::Range, [Value::Int(count)]) if is_range(*count) => {
            Ok(Value::list((0..*count).map(Value::Int).collect()))
        }
        (Func::Range, [Value::Int(count)]) => Err(EvalError::new(alloc::format!(
            "lists.range: size must be non-negative and at most {RANGE_MAX}, got {count}"
        ))),
        (Func::Reverse, [Value::List(list)]) => {
            let mut values: Vec<_> = list.iter().collect();
            values.reverse();
            Ok(Value::list(values))
        }
        (Func::Sort, [Value::List(list)]) => sorted(list, list),
        (Func::SortByKeys, [Value::List(list), Value::List(keys)]) => sorted(list, keys),
        (Func::First, [Value::List(list)]) => Ok(optional(list.get(0))),
        (Func::Last, [Value::List(list)]) => {
            Ok(optional(list.len().checked_sub(1).and_then(|at| list.get(at))))
        }
        (Func::IsSorted, [Value::List(list)]) => is_sorted(list),
        (Func::Sum, [Value::List(list)]) => sum(list),
        (Func::Min, [Value::List(list)]) => extreme(list, Ordering::Less, "min"),
        (Func::Max, [Value::List(list)]) => extreme(list, Ordering::Greater, "max"),
        (Func::Includes, [Value::List(list), value]) => Ok(Value::Bool(has(list, value))),
        (Func::Includes, [target, value]) => Ok(Value::Bool(is_equal(context, target, value))),
        (Func::IndexOf, [Value::List(list), value]) => {
            Ok(position(list.iter().position(|element| is_equal(context, &element, value))))
        }
        (Func::LastIndexOf, [Value::List(list), value]) => {
            let mut found = None;
            for (at, element) in list.iter().enumerate() {
                if is_equal(context, &element, value) {
                    found = Some(at);
                }
            }
            Ok(position(found))
        }
        (Func::Unwrap, [Value::List(list)]) => unwrapped(list),
        _ => unfit(args),
    }
}

fn optional(value: Option<Value<'_>>) -> Value<'_> {
    Value::Optional(value.map(Arc::new))
}

fn position<'v>(at: Option<usize>) -> Value<'v> {
    Value::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn slice<'v>(list: &List<'v>, start: i64, end: i64) -> Outcome<'v> {
    let refuse = |why: &str| Err(EvalError::new(alloc::format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return refuse("negative indexes not supported");
    };
    if from > to {
        return refuse("start index must be less than or equal to end index");
    }
    if list.len() < to {
        return refuse(&alloc::format!("list is length {}", list.len()));
    }
    Ok(Value::list((from..to).filter_map(|at| list.get(at)).collect()))
}

fn flattened<'v>(list: &List<'v>, depth: i64) -> Outcome<'v> {
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    // Values nest as deep as the expression does at most: this recursion is bounded.
    fn flatten<'v>(list: &List<'v>, depth: i64, out: &mut Vec<Value<'v>>) {
        for value in list.iter() {
            match value {
                Value::List(inner) if depth > 0 => flatten(&inner, depth - 1, out),
                other => out.push(other),
            }
        }
    }
    let mut out = Vec::new();
    flatten(list, depth, &mut out);
    Ok(Value::list(out))
}

fn sorted<'v>(list: &List<'v>, keys: &List<'v>) -> Outcome<'v> {
    if list.len() != keys.len() {
        return Err(EvalError::new("sorting needs as many keys as elements"));
    }
    let mut pairs: Vec<(Value<'v>, Value<'v>)> = keys.iter().zip(list.iter()).collect();
    if let Some((first, _)) = pairs.first() {
        if compare(first, first).is_err() {
            return Err(EvalError::new("list elements must be comparable"));
        }
        let type_name = first.type_name();
        if pairs.iter().any(|(key, _)| key.type_name() != type_name) {
            return Err(EvalError::new("list elements must have the same type"));
        }
    }
    pairs.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect()))
}

fn is_sorted<'v>(list: &List<'v>) -> Outcome<'v> {
    let values: Vec<_> = list.iter().collect();
    if let Some(first) = values.first() {
        compare(first, first)?;
    }
    let out_of_order = |pair: &[Value<'v>]| compare(&pair[0], &pair[1]).is_ok_and(Ordering::is_gt);
    Ok(Value::Bool(!values.windows(2).any(out_of_order)))
}

fn sum<'v>(list: &List<'v>) -> Outcome<'v> {
    let mut total = match list.get(0) {
        None => Value::Int(0),
        Some(first @ (Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_))) => first,
        Some(_) => return Err(EvalError::no_such_overload()),
    };
    for value in list.iter().skip(1) {
        total = arithmetic::call(Func::Add, &[total, value])?;
    }
    Ok(total)
}

fn extreme<'v>(list: &List<'v>, wanted: Ordering, name: &str) -> Outcome<'v> {
    let mut values = list.iter();
    let Some(mut best) = values.next() else {
        return Err(EvalError::new(alloc::format!("{name} called on empty list")));
    };
    compare(&best, &best)?;
    for value in values {
        if compare(&value, &best)? == wanted {
            best = value;
        }
    }
    Ok(best)
}

fn unwrapped<'v>(list: &List<'v>) -> Outcome<'v> {
    let mut values = Vec::new();
    for value in list.iter() {
        match value {
            Value::Optional(Some(inner)) => values.push((*inner).clone()),
            Value::Optional(None) => {}
            other => return Err(EvalError::new(alloc::format!("value {} is not optional", other.shown()))),
        }
    }
    Ok(Value::list(values))
}

/// A map and one or many entries more; none of them may be there already.
pub(crate) fn insert<'v>(context: Context<'v>, args: &[Value<'v>]) -> Outcome<'v> {
    let (Value::Map(map), added) = (match args {
        [map, key, value] => (map, alloc::vec![(key.clone(), value.clone())]),
        [map, Value::Map(more)] => {
            let more = context.entries(more);
            (map, more.iter().map(|(key, value)| (key.to_value(), value.clone())).collect())
        }
        _ => return unfit(args),
    }) else {
        return unfit(args);
    };
    let mut entries = context.entries(map);
    let grown = Arc::make_mut(&mut entries);
    for (key, value) in added {
        insert_entry(grown, &key, value)?;
    }
    Ok(Value::Map(Map::Made(entries)))
}

/// Adds an entry that must be new.
pub(crate) fn insert_entry<'v>(
    entries: &mut alloc::collections::BTreeMap<super::value::Key<'v>, Value<'v>>,
    key: &Value<'v>,
    value: Value<'v>,
) -> Result<(), EvalError> {
    let entry = key.to_key().ok_or_else(|| unsupported_key(key))?;
    if entries.insert(entry, value).is_some() {
        return Err(EvalError::new(alloc::format!("insert failed: key {} already exists", key.shown())));
    }
    Ok(())
}

/// DEVIATION(cel-map-keys): constant keys are not excepted.
pub(crate) fn unsupported_key(key: &Value<'_>) -> EvalError {
    EvalError::new(alloc::format!("unsupported key type: {}", key.type_name()))
}
