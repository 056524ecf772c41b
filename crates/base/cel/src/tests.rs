//! The crate as its users see it: reference costs, the rules of the domain maps, budgets, messages.

use std::{format, string::String, vec, vec::Vec};

use lazaret_model::{AttrNames, AttrValue, QualifiedName, Quantity, VersionValue};

use crate::{Env, Look, Mode, Outcome, SimpleDevice, compile, compile_derived};

const ENV: Env = Env::new(Mode::New).with_list_attributes(true).with_consumable_capacity(true);

fn device() -> (SimpleDevice, AttrNames) {
    let mut names = AttrNames::default();
    let attributes = [
        ("name", AttrValue::String("fish".into())),
        ("count", AttrValue::Int(2)),
        ("on", AttrValue::Bool(true)),
        ("version", AttrValue::Version(VersionValue::new("1.2.3"))),
        ("ints", AttrValue::Ints([1, 2].as_slice().into())),
        ("other.com/name", AttrValue::String("bird".into())),
    ];
    let capacity = [("memory", Quantity::parse("1Mi").unwrap())];
    let device = SimpleDevice::new("dra.example.com", attributes, capacity, false, &mut names);
    (device, names)
}

/// `match`, `no match`, `error: ...` or `refused: ...`.
fn outcome(expression: &str) -> String {
    let (device, names) = device();
    match compile(expression, &ENV) {
        Err(error) => format!("refused: {error}"),
        Ok(program) => match program.bind(&names).matches(&device) {
            Outcome::Match => "match".into(),
            Outcome::NoMatch => "no match".into(),
            Outcome::Error(error) => format!("error: {error}"),
        },
    }
}

/// Every row must say what is expected; all that do not are reported at once.
fn check(rows: &[(&str, &str)]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(expression, expected)| {
            let found = outcome(expression);
            (!found.starts_with(expected))
                .then(|| format!("{expression}\n  wanted {expected}\n  found  {found}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn estimates_are_those_of_the_reference() {
    let attribute = r#"device.attributes["dra.example.com"]"#;
    let capacity = r#"device.capacity["dra.example.com"]"#;
    let rows = [
        (r#"device.driver == """#.into(), 2),
        (r#"device.driver == "dra.example.com""#.into(), 4),
        (format!("{attribute}.on"), 4),
        (format!("cel.bind(dra, {attribute}, dra.on)"), 15),
        (format!("{attribute}.count > 0"), 5),
        (format!(r#"{attribute}.name == "fish""#), 5),
        (format!(r#"{attribute}.version.isGreaterThan(semver("0.0.1"))"#), 6),
        (format!(r#"{capacity}.memory.isGreaterThan(quantity("1Ki"))"#), 6),
        (r#""d" in device.attributes"#.into(), 3),
        (format!(r#""memory" in {capacity} && {capacity}.memory.isGreaterThan(quantity("1Ki"))"#), 10),
        (format!(r#"!("memory" in {capacity}) || {capacity}.memory.isGreaterThan(quantity("1Ki"))"#), 11),
        (format!("{attribute}.on && {attribute}.on && {attribute}.on"), 12),
        (r#"device.attributes.exists_one(x, x == "dra.example.com")"#.into(), 164),
        (format!(r#"{attribute}.exists_one(x, x == "name")"#), 133),
        (format!(r#"{attribute}.name.matches("[^a]?sym")"#), 18),
        (format!("{attribute}.ints.size() == 2"), 6),
        (format!("1 in {attribute}.ints"), 68),
        (format!("{attribute}.ints.includes(1)"), 68),
        (format!("{attribute}.ints.exists(x, x > 0)"), 5 + 6 * 64),
    ];
    for (expression, expected) in rows {
        let program = compile(&expression, &ENV).unwrap();
        assert_eq!(program.estimated_cost().max, expected, "{expression}");
    }
}

#[test]
fn an_unknown_domain_is_an_empty_map_and_an_unknown_id_an_error() {
    check(&[
        (r#"device.attributes["nope"] == {}"#, "match"),
        (r#"device.attributes["nope"].x"#, "error: no such key: x; consider"),
        (r#"device.attributes["dra.example.com"].nope"#, "error: no such key: nope"),
        (r#""nope" in device.attributes"#, "no match"),
        (r#""other.com" in device.attributes"#, "match"),
        ("has(device.attributes.nope)", "match"),
        ("device.attributes.?nope.hasValue()", "match"),
        (r#"device.attributes[?"nope"].hasValue()"#, "match"),
        (r#"has(device.attributes["dra.example.com"].nope)"#, "no match"),
        (r#"device.attributes["dra.example.com"].?nope.orValue("x") == "x""#, "match"),
        (r#"device.attributes[device.driver].name == "fish""#, "match"),
        (r#"device.attributes["a/b"].c"#, "error: no such key: c"),
    ]);
}

#[test]
fn a_term_that_decides_makes_up_for_errors() {
    check(&[
        (r#"device.attributes["x"].y || true"#, "match"),
        (r#"device.attributes["x"].y && false"#, "no match"),
        (r#"device.attributes["x"].y || false"#, "error: no such key: y"),
        (r#"device.attributes["dra.example.com"].name"#, "error: CEL result of type string"),
    ]);
}

#[test]
fn refusals_name_the_place_and_the_remedy() {
    check(&[
        ("1 + 1", "refused: 1:1: must evaluate to bool or the unknown type, not int"),
        ("foo", "refused: 1:1: undeclared reference to 'foo'"),
        ("device.foo", "refused: 1:7: undefined field 'foo'"),
        (r#"1 == "a""#, "refused: 1:3: found no matching overload for '_==_' applied to '(int, string)'"),
        ("true && 1", "refused: 1:9: expected type 'bool' but found 'int'"),
        (
            "device.driver = 'x'",
            "refused: 1:15: Syntax error: token recognition error at: '='; compare with ==",
        ),
        (r#"duration("x") == duration("1s")"#, "refused: 1:10: invalid duration argument"),
        (
            r#"device.capacity["d"].m > quantity("1")"#,
            "refused: 1:24: found no matching overload for '_>_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'; compare quantities with",
        ),
    ]);
    let any = Env::new(Mode::New);
    let error = compile(r#"device.attributes["d"].ids.exists(id, id == 1)"#, &any).unwrap_err();
    assert!(error.issues[0].message.starts_with("expression of type 'any' cannot be range"), "{error}");
    assert!(compile("device.allowMultipleAllocations", &any).is_err());
    assert!(compile(r#"device.attributes["d"].x.includes(1)"#, &any).is_err());
    let source = "true &&\n  device.foo";
    let shown = compile(source, &ENV).unwrap_err().render(source);
    assert!(shown.ends_with(" |   device.foo\n |         ^"), "{shown}");
}

#[test]
fn budgets_hold() {
    let nested = "lists.range(10).all(a, lists.range(10).all(b, lists.range(10).all(c, lists.range(10).all(d, \
                  lists.range(10).all(e, lists.range(10).all(f, lists.range(10).all(g, true)))))))";
    assert!(compile(nested, &ENV).unwrap_err().issues[0].message.contains("too complex"));
    let (device, names) = device();
    let stored = compile(nested, &Env::stored()).unwrap();
    let (outcome, cost) = stored.bind(&names).matches_with_cost(&device);
    assert!(matches!(outcome, Outcome::Error(error) if error.is_cost_exceeded()));
    // The step that breaks the budget is the last: here it makes a list of ten, at 21.
    assert!(cost <= crate::COST_MAX + 21, "stopped at once, not at {cost}");
    // No `||` makes up for an exhausted budget.
    let masked = compile(&format!("{nested} || true"), &Env::stored()).unwrap();
    assert!(matches!(masked.bind(&names).matches(&device), Outcome::Error(_)));
    assert!(compile(&" ".repeat(crate::EXPRESSION_LENGTH_MAX + 1), &ENV).is_err());
    assert!(compile(&format!("{}true{}", "(".repeat(300), ")".repeat(300)), &ENV).is_err());
    // Doubles its target each time; the tree stays small because targets are shared.
    let chained = format!("optional.of(1){}.hasValue()", ".optMap(x, x + 1)".repeat(60));
    let program = compile(&chained, &Env::stored()).unwrap();
    assert!(
        matches!(program.bind(&names).matches(&device), Outcome::Error(error) if error.is_cost_exceeded())
    );
}

#[test]
fn one_bad_value_fails_every_expression() {
    let mut names = AttrNames::default();
    let attributes = [("v", AttrValue::Version(VersionValue::new("not a version")))];
    let bad = SimpleDevice::new("d", attributes, [], false, &mut names);
    let program = compile("true", &ENV).unwrap();
    assert!(matches!(program.bind(&names).matches(&bad), Outcome::Error(_)));
}

#[test]
fn derived_attributes_are_scalars_or_lists() {
    let (device, names) = device();
    let derive = |expression: &str| {
        compile_derived(expression, &ENV)
            .map(|program| program.bind(&names).derive(&device).map_err(|e| format!("{e}")))
    };
    assert_eq!(
        derive(r#"device.attributes["dra.example.com"].name + "!""#).unwrap(),
        Ok(AttrValue::String("fish!".into()))
    );
    assert_eq!(derive("[1, 2].map(x, x * 2)").unwrap(), Ok(AttrValue::Ints([2, 4].as_slice().into())));
    assert_eq!(derive("[]").unwrap(), Ok(AttrValue::Strings([].into())));
    assert_eq!(derive(r#"semver("1.2.3")"#).unwrap(), Ok(AttrValue::Version(VersionValue::new("1.2.3"))));
    assert!(derive("dyn([1]) + dyn([true])").unwrap().unwrap_err().contains("index 1"));
    assert!(derive("dyn(null)").unwrap().is_err());
    assert!(
        derive("{1: 2}").unwrap_err().issues[0]
            .message
            .contains("a list of these scalars, not map(int, int)")
    );
    let scalar = compile_derived("[1]", &Env::new(Mode::New)).unwrap_err();
    assert!(scalar.issues[0].message.ends_with("(string, integer, boolean, semver), not list(int)"));
}

#[test]
fn reads_are_what_is_named_or_everything() {
    let name = |domain: &str, id: &str| QualifiedName { domain: domain.into(), id: id.into() };
    let reads = |expression: &str| compile(expression, &ENV).unwrap().reads().clone();
    let named = reads(
        r#"cel.bind(a, device.attributes["d"], a.x == 1 && has(a.y) && "z" in a) && device.capacity["d"].m == quantity("1")"#,
    );
    assert_eq!(named.attributes, [name("d", "x"), name("d", "y"), name("d", "z")]);
    assert_eq!(named.capacity, [name("d", "m")]);
    assert!(!named.driver && !named.whole_attributes && !named.whole_capacity && !named.allow_multiple);
    assert!(reads("device.driver == 'x'").driver);
    assert!(reads("device.allowMultipleAllocations").allow_multiple);
    assert!(reads("device.attributes.exists(d, true)").whole_attributes);
    assert!(reads(r#""d" in device.capacity"#).whole_capacity);
    assert!(reads(r#"cel.bind(a, device.attributes["d"], a.size() == 1)"#).whole_attributes);
    let dynamic = reads("device.attributes[device.driver].x == 1");
    assert!(dynamic.whole_attributes && dynamic.driver);
    assert!(reads("dyn(device).size() == 4").whole_capacity);
}

#[test]
fn a_program_says_what_it_looks_at() {
    let mut names = AttrNames::default();
    let mut id = |id: &str| names.intern(&QualifiedName { domain: "d".into(), id: id.into() });
    let (model, index, memory) = (id("model"), id("index"), id("memory"));
    let cases = [
        (r#"device.driver == "a""#, Some(vec![])),
        (r#"device.attributes["d"].model == "big""#, Some(vec![Look::Attribute(model)])),
        (
            r#"device.attributes["d"].index < 1 || device.capacity["d"].memory.compareTo(quantity("50")) > 0"#,
            Some(vec![Look::Attribute(index), Look::Capacity(memory)]),
        ),
        ("device.allowMultipleAllocations", Some(vec![Look::Sharing])),
        (r#"device.attributes.exists(d, d == "d")"#, None),
        ("device.attributes[device.driver].x == 1", None),
    ];
    for (expression, expected) in cases {
        let bound = compile(expression, &ENV).unwrap().bind(&names);
        assert_eq!(bound.looks_at().map(Iterator::collect::<Vec<_>>), expected, "{expression}");
    }
}

#[test]
fn a_program_bound_before_a_name_was_known_takes_it_for_absent() {
    let program = compile(r#"has(device.attributes["dra.example.com"].name)"#, &ENV).unwrap();
    let early = program.bind(&AttrNames::default());
    let (device, names) = device();
    assert_eq!(early.matches(&device), Outcome::NoMatch);
    assert_eq!(program.bind(&names).matches(&device), Outcome::Match);
}

#[test]
fn programs_can_be_shared_between_threads() {
    fn is_shareable<T: Send + Sync + Clone>() {}
    is_shareable::<crate::Program>();
    is_shareable::<crate::Bound>();
}

/// A short pattern can take milliseconds to compile: an expression that makes many of them ends.
#[test]
fn patterns_that_are_put_together_while_an_expression_runs_have_a_budget() {
    let (device, names) = device();
    let run = |source: &str| {
        let program = compile(source, &Env::stored()).unwrap().bind(&names);
        program.matches_counted(&device)
    };
    let each = |pattern: &str| format!("lists.range(1000).all(x, !'b'.matches({pattern}))");
    let (outcome, units) = run(&each("'(.{30}){3' + (x > 500 ? '0' : '1') + '}'"));
    assert!(matches!(&outcome, Outcome::Error(error) if error.is_cost_exceeded()), "{outcome:?}");
    assert!(units <= 4 * crate::COST_MAX, "{units}");
    let (outcome, units) = run(&each("'(.{30}){' + string(x % 30 + 1) + '}'"));
    assert!(matches!(&outcome, Outcome::Error(error) if error.is_cost_exceeded()), "{outcome:?}");
    assert!(units <= 4 * crate::COST_MAX, "{units}");
    // One that stays the same is compiled once, and small ones are as good as free.
    assert_eq!(run(&each("'a{3' + '0}'")).0, Outcome::Match);
    assert_eq!(run("lists.range(20).all(x, !'b'.matches('a' + string(x)))").0, Outcome::Match);
    // The costs that Kubernetes charges stay.
    let (plain, priced) = ("'b'.matches('a{30}')", "'b'.matches('a{3' + '0}')");
    let cost =
        |source: &str| compile(source, &Env::stored()).unwrap().bind(&names).matches_with_cost(&device).1;
    assert!(cost(priced) < cost(plain) + 10, "{}", cost(priced));
}
