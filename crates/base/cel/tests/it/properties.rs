//! Properties of any text: no panic, errors that point into the text, a budget that stops every evaluation, and the
//! same answer every time.

use std::sync::LazyLock;

use crate::support::{Devices, cases, devices};
use lazaret_cel::{COST_MAX, Env, Mode, Outcome, SimpleDevice, compile, compile_derived};
use proptest::prelude::*;

fn world() -> &'static Devices {
    static WORLD: LazyLock<Devices> = LazyLock::new(|| devices(include_str!("../cases/devices.txt")));
    &WORLD
}

fn environments() -> [Env; 3] {
    [
        Env::stored(),
        Env::new(Mode::New),
        Env::new(Mode::New).with_list_attributes(true).with_consumable_capacity(true),
    ]
}

/// Compiles and runs an expression in every way there is; returns how often it compiled.
fn exercise(expression: &str, world: &Devices) -> usize {
    let mut compiled = 0;
    for env in environments() {
        match compile(expression, &env) {
            Ok(program) => {
                compiled += 1;
                let estimate = program.estimated_cost();
                assert!(estimate.min <= estimate.max);
                assert_eq!(program.expression(), expression);
                let bound = program.bind(&world.names);
                for device in ["gpu", "bare", "broken"] {
                    evaluate(&bound, &world.by_name[device], expression);
                }
            }
            Err(error) => {
                assert!(!error.issues.is_empty());
                for issue in &error.issues {
                    assert!(issue.span.start <= issue.span.end && issue.span.end <= expression.len().max(1));
                    assert!(issue.line >= 1 && issue.column >= 1 && !issue.message.is_empty());
                }
                assert!(error.render(expression).contains(&error.issues[0].message));
            }
        }
        if let Ok(program) = compile_derived(expression, &env) {
            let bound = program.bind(&world.names);
            let first = bound.derive(&world.by_name["gpu"]);
            assert_eq!(first, bound.derive(&world.by_name["gpu"]), "{expression}");
        }
    }
    compiled
}

fn evaluate(bound: &lazaret_cel::Bound, device: &SimpleDevice, expression: &str) {
    let (outcome, cost) = bound.matches_with_cost(device);
    assert_eq!(bound.matches(device), outcome, "with and without counting");
    let stopped = matches!(&outcome, Outcome::Error(error) if error.is_cost_exceeded());
    assert!(stopped || cost <= COST_MAX, "{expression}: {cost}");
    let (again, cost_again) = bound.matches_with_cost(device);
    assert_eq!((format!("{outcome:?}"), cost), (format!("{again:?}"), cost_again), "{expression}");
}

/// Pieces that make texts which nearly are expressions.
const TOKENS: &[&str] = &[
    "device",
    ".attributes",
    ".capacity",
    ".driver",
    "[\"gpu.example.com\"]",
    ".model",
    ".cores",
    ".links",
    ".?nope",
    "[?0]",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    ".",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    ">=",
    " in ",
    "1",
    "0",
    "2u",
    "1.5",
    "\"a\"",
    "b'x'",
    "true",
    "null",
    "x",
    "y",
    ".all(x, ",
    ".exists(x, ",
    ".map(x, ",
    ".filter(i, v, ",
    "has(",
    "cel.bind(x, ",
    ".size()",
    "size(",
    ".matches(",
    ".split(",
    ".format(",
    "quantity(",
    "semver(",
    "optional.of(",
    ".orValue(",
    ".sum()",
    "lists.range(",
    "duration(",
    "timestamp(",
    "\"1h\"",
    "string(",
    "int(",
    "type(",
    "dyn(",
    "// c\n",
    "\"",
    "'",
    "\\",
    "é",
    "\n",
    ".sortBy(x, ",
    ".optMap(x, ",
    ".transformMap(k, v, ",
    "0x",
    "1e999",
    "9223372036854775808",
];

fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(TOKENS)
}

/// A valid expression of the tables with one piece cut out, doubled or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let tables = [
        include_str!("../cases/device.txt"),
        include_str!("../cases/language.txt"),
        include_str!("../cases/library.txt"),
        include_str!("../cases/derived.txt"),
    ];
    let expressions: Vec<String> = tables
        .into_iter()
        .flat_map(cases)
        .map(|case| case.expression)
        .filter(|expression| !expression.is_empty())
        .collect();
    let place = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    (prop::sample::select(expressions), place, token(), 0..4_u8).prop_map(
        |(expression, place, token, how)| {
            let chars: Vec<char> = expression.chars().collect();
            let (a, b) = (place.0.index(chars.len()), place.1.index(chars.len()));
            let (from, to) = (a.min(b), a.max(b));
            let text = |range: &[char]| range.iter().collect::<String>();
            match how {
                0 => text(&chars[..from]) + &text(&chars[to..]),
                1 => text(&chars[..to]) + &text(&chars[from..]),
                2 => text(&chars[..from]) + token + &text(&chars[to..]),
                _ => text(&chars[..from]) + token + &text(&chars[from..]),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_survived(text in any::<String>()) {
        exercise(&text, world());
    }

    #[test]
    fn near_expressions_are_survived(tokens in prop::collection::vec(token(), 0..24)) {
        exercise(&tokens.concat(), world());
    }

    #[test]
    fn damaged_expressions_are_survived(text in mutated()) {
        exercise(&text, world());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Loops within loops over lists, ranges and maps of any size end within the budget.
    #[test]
    fn loops_end(
        levels in prop::collection::vec((0..4_u8, 1..100_000_u32), 1..7),
        body in prop::sample::select(vec![
            "true", "x0 == x0", "[1, 2, 3].map(e, e * 2).sum() > 0", "'aaaaaaaa'.matches('(a|b)*c?')",
            "size('x' + string(x0)) > 0", "lists.range(1000).sort().size() == 1000", "{'a': x0}.a == x0",
        ]),
    ) {
        let mut expression = body.to_owned();
        for (level, (kind, size)) in levels.iter().enumerate().rev() {
            let range = match kind {
                0 => "[1,2,3,4,5,6,7,8,9,10]".to_owned(),
                1 => format!("lists.range({size})"),
                2 => "device.attributes[\"gpu.example.com\"]".to_owned(),
                _ => format!("lists.range({}).map(m, m + 1)", size % 1_000),
            };
            expression = format!("{range}.all(x{level}, {expression})");
        }
        let world = world();
        let program = compile(&expression, &Env::stored()).unwrap();
        evaluate(&program.bind(&world.names), &world.by_name["gpu"], &expression);
    }
}

#[test]
fn the_tables_compile_mostly() {
    let world = world();
    let table = cases(include_str!("../cases/device.txt"));
    let compiled = table.iter().filter(|case| exercise(&case.expression, world) > 0).count();
    assert!(compiled * 10 > table.len() * 6, "{compiled} of {}", table.len());
}
