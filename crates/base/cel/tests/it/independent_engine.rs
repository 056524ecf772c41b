//! The common language against an engine by other people: the `cel` crate, which knows no static types, costs or
//! devices. Both must come to the same value, or both to an error.

use std::sync::Arc;

use lazaret_cel::{Env, SimpleDevice, compile_derived};
use lazaret_model::{AttrNames, AttrValue};
use proptest::prelude::*;
use proptest::strategy::Union;

/// The result of an expression.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Bool(bool),
    Int(i64),
    String(String),
    Ints(Vec<i64>),
    Strings(Vec<String>),
    Error,
}

fn ours(expression: &str) -> Answer {
    let program = compile_derived(expression, &Env::stored())
        .unwrap_or_else(|error| panic!("{}", error.render(expression)));
    let mut names = AttrNames::default();
    let none: [(&str, AttrValue); 0] = [];
    let device = SimpleDevice::new("dra.example.com", none, [], false, &mut names);
    match program.bind(&names).derive(&device) {
        Ok(AttrValue::Bool(value)) => Answer::Bool(value),
        Ok(AttrValue::Int(value)) => Answer::Int(value),
        Ok(AttrValue::String(value)) => Answer::String(value.to_string()),
        Ok(AttrValue::Ints(values)) => Answer::Ints(values.to_vec()),
        Ok(AttrValue::Strings(values)) => Answer::Strings(values.iter().map(ToString::to_string).collect()),
        Ok(other) => panic!("{expression}: {other:?}"),
        Err(error) if error.is_cost_exceeded() => panic!("{expression}: {error}"),
        Err(_) => Answer::Error,
    }
}

fn theirs(expression: &str) -> Answer {
    let program = cel::Program::compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    match program.execute(&cel::Context::default()) {
        Ok(cel::Value::Bool(value)) => Answer::Bool(value),
        Ok(cel::Value::Int(value)) => Answer::Int(value),
        Ok(cel::Value::String(value)) => Answer::String(value.to_string()),
        Ok(cel::Value::List(values)) => list(&values),
        Ok(other) => panic!("{expression}: {other:?}"),
        Err(_) => Answer::Error,
    }
}

/// A list by its first element; an empty one is a list of strings, as for derived attributes.
fn list(values: &Arc<Vec<cel::Value>>) -> Answer {
    if let Some(cel::Value::Int(_)) = values.first() {
        let ints =
            values.iter().map(|value| if let cel::Value::Int(value) = value { *value } else { panic!() });
        return Answer::Ints(ints.collect());
    }
    let strings = values.iter().map(|value| {
        if let cel::Value::String(value) = value { value.to_string() } else { panic!("{value:?}") }
    });
    Answer::Strings(strings.collect())
}

/// Types of generated expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Bool,
    Int,
    String,
    Ints,
    Strings,
}

const TYPES: [Type; 5] = [Type::Bool, Type::Int, Type::String, Type::Ints, Type::Strings];

type Expression = BoxedStrategy<String>;

/// An expression of a type. `depth` counts operators, `names` the variables in scope: `i0`, `i1`... and `s0`, `s1`...
fn expression(of: Type, depth: u32, names: u32) -> Expression {
    let leaf = leaf(of, names);
    if depth == 0 {
        return leaf;
    }
    let e = move |of| expression(of, depth - 1, names);
    let choices = match of {
        Type::Bool => bools(&e, depth, names),
        Type::Int => ints(&e),
        Type::String => strings(&e),
        Type::Ints => int_lists(&e, depth, names),
        Type::Strings => string_lists(&e, depth, names),
    };
    let choices = choices.into_iter().map(|choice| (3, choice)).chain([(2, leaf), (1, ternary(of, &e))]);
    Union::new_weighted(choices.collect()).boxed()
}

fn leaf(of: Type, names: u32) -> Expression {
    let literals: &[&str] = match of {
        Type::Bool => &["true", "false"],
        Type::Int => &["0", "1", "2", "-3", "7", "9223372036854775807", "-9223372036854775808"],
        Type::String => &["''", "'a'", "'b'", "'abc'", "'cab'", "'zebra'"],
        // A literal `[]` has no type of its own, and `x in []` is known to be false before x is looked at.
        Type::Ints => &["[1].filter(e, false)", "[1]", "[1, 2, 3]", "[3, 1]"],
        Type::Strings => &["['a'].filter(e, false)", "['a']", "['a', 'abc', 'b']"],
    };
    let mut leaves: Vec<String> = literals.iter().map(ToString::to_string).collect();
    let prefix = match of {
        Type::Int => Some('i'),
        Type::String => Some('s'),
        Type::Bool | Type::Ints | Type::Strings => None,
    };
    if let Some(prefix) = prefix {
        leaves.extend((0..names).map(|name| format!("{prefix}{name}")));
    }
    prop::sample::select(leaves).boxed()
}

fn ternary(of: Type, e: &dyn Fn(Type) -> Expression) -> Expression {
    (e(Type::Bool), e(of), e(of)).prop_map(|(c, a, b)| format!("({c} ? {a} : {b})")).boxed()
}

fn bools(e: &dyn Fn(Type) -> Expression, depth: u32, names: u32) -> Vec<Expression> {
    let logic = (e(Type::Bool), prop::sample::select(vec!["&&", "||"]), e(Type::Bool));
    let compare = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let search = prop::sample::select(vec!["contains", "startsWith", "endsWith"]);
    let equal = prop::sample::select(TYPES.to_vec()).prop_flat_map(move |of| {
        let side = expression(of, depth - 1, names);
        (side.clone(), prop::sample::select(vec!["==", "!="]), side)
    });
    vec![
        logic.prop_map(infix).boxed(),
        e(Type::Bool).prop_map(|x| format!("!({x})")).boxed(),
        (e(Type::Int), compare.clone(), e(Type::Int)).prop_map(infix).boxed(),
        (e(Type::String), compare, e(Type::String)).prop_map(infix).boxed(),
        equal.prop_map(infix).boxed(),
        (e(Type::Int), Just("in"), e(Type::Ints)).prop_map(infix).boxed(),
        (e(Type::String), Just("in"), e(Type::Strings)).prop_map(infix).boxed(),
        (e(Type::String), search, e(Type::String)).prop_map(|(a, f, b)| format!("{a}.{f}({b})")).boxed(),
        quantified(Type::Ints, 'i', e, depth, names),
        quantified(Type::Strings, 's', e, depth, names),
    ]
}

/// `list.all(x, p)` and its relatives; the body may name the variable.
fn quantified(of: Type, prefix: char, e: &dyn Fn(Type) -> Expression, depth: u32, names: u32) -> Expression {
    let body = expression(Type::Bool, depth - 1, names + 1);
    let other = if prefix == 'i' { 's' } else { 'i' };
    (e(of), prop::sample::select(vec!["all", "exists", "exists_one"]), body)
        .prop_map(move |(list, function, body)| {
            let body = body.replace(&format!("{other}{names}"), if other == 's' { "'a'" } else { "1" });
            format!("{list}.{function}({prefix}{names}, {body})")
        })
        .boxed()
}

fn ints(e: &dyn Fn(Type) -> Expression) -> Vec<Expression> {
    let operator = prop::sample::select(vec!["+", "-", "*", "/", "%"]);
    vec![
        (e(Type::Int), operator, e(Type::Int)).prop_map(infix).boxed(),
        e(Type::Int).prop_map(|x| format!("-({x})")).boxed(),
        e(Type::String).prop_map(|x| format!("size({x})")).boxed(),
        e(Type::Ints).prop_map(|x| format!("size({x})")).boxed(),
        e(Type::Strings).prop_map(|x| format!("{x}.size()")).boxed(),
        (e(Type::Ints), e(Type::Int)).prop_map(|(list, at)| format!("{list}[{at}]")).boxed(),
    ]
}

fn strings(e: &dyn Fn(Type) -> Expression) -> Vec<Expression> {
    vec![
        (e(Type::String), Just("+"), e(Type::String)).prop_map(infix).boxed(),
        (e(Type::Strings), e(Type::Int)).prop_map(|(list, at)| format!("{list}[{at}]")).boxed(),
        e(Type::Int).prop_map(|x| format!("string({x})")).boxed(),
    ]
}

fn int_lists(e: &dyn Fn(Type) -> Expression, depth: u32, names: u32) -> Vec<Expression> {
    vec![
        (e(Type::Ints), Just("+"), e(Type::Ints)).prop_map(infix).boxed(),
        prop::collection::vec(e(Type::Int), 1..3).prop_map(|items| format!("[{}]", items.join(", "))).boxed(),
        mapped(Type::Ints, Type::Int, 'i', e, depth, names),
        mapped(Type::Strings, Type::Int, 's', e, depth, names),
    ]
}

fn string_lists(e: &dyn Fn(Type) -> Expression, depth: u32, names: u32) -> Vec<Expression> {
    vec![
        (e(Type::Strings), Just("+"), e(Type::Strings)).prop_map(infix).boxed(),
        prop::collection::vec(e(Type::String), 1..3)
            .prop_map(|items| format!("[{}]", items.join(", ")))
            .boxed(),
        mapped(Type::Strings, Type::String, 's', e, depth, names),
    ]
}

/// `list.map(x, f)`, and `list.filter(x, p)` where the list keeps its type.
fn mapped(
    from: Type,
    to: Type,
    prefix: char,
    e: &dyn Fn(Type) -> Expression,
    depth: u32,
    names: u32,
) -> Expression {
    let other = if prefix == 'i' { 's' } else { 'i' };
    let close =
        move |body: String| body.replace(&format!("{other}{names}"), if other == 's' { "'a'" } else { "1" });
    let map = (e(from), expression(to, depth - 1, names + 1))
        .prop_map(move |(list, body)| format!("{list}.map({prefix}{names}, {})", close(body)));
    let keeps = matches!((from, to), (Type::Ints, Type::Int) | (Type::Strings, Type::String));
    if !keeps {
        return map.boxed();
    }
    let filter = (e(from), expression(Type::Bool, depth - 1, names + 1))
        .prop_map(move |(list, body)| format!("{list}.filter({prefix}{names}, {})", close(body)));
    prop_oneof![map, filter].boxed()
}

fn infix((left, operator, right): (String, &'static str, String)) -> String {
    format!("({left} {operator} {right})")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_engines_agree(
        expression in prop::sample::select(TYPES.to_vec()).prop_flat_map(|of| expression(of, 3, 0))
    ) {
        prop_assert_eq!(ours(&expression), theirs(&expression), "{}", expression);
    }
}
