//! Devices and case tables as text.
//!
//! A table holds expressions at the start of a line and, indented below each, one row per case:
//!
//! ```text
//! device.driver == "dra.example.com"
//!     bare | stored | 4 | 4 | true
//! ```
//!
//! The columns are the device, the environment (`stored`, or `new` followed by the features that are on; `derive`
//! in front makes it a derived attribute), the estimated cost, the actual cost and the outcome. `-` is a cost that is not
//! available, `*` one that depends on the order in which a map is walked. In expressions `␤` is a line break and
//! `«text*3»` is the text three times. Lines that start with `#` are remarks, with `==` headings.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lazaret_cel::{Bound, CompileError, Env, Mode, Outcome, Program, SimpleDevice, compile, compile_derived};
use lazaret_model::{AttrNames, AttrValue, Quantity, Text, VersionValue};

/// One row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) line: usize,
    pub(crate) expression: String,
    pub(crate) device: String,
    pub(crate) environment: String,
    pub(crate) expected: Observation,
}

/// The observed result of a case, as the text of its last three columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) estimate: String,
    pub(crate) cost: String,
    pub(crate) outcome: String,
}

/// All devices of `cases/devices.txt`, by name, and the table of their names.
pub(crate) struct Devices {
    pub(crate) names: AttrNames,
    pub(crate) by_name: BTreeMap<String, SimpleDevice>,
}

/// Reads a table; panics on a line that is none.
pub(crate) fn cases(table: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut expression = String::new();
    for (at, line) in table.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') || line.starts_with("==") {
            continue;
        }
        let Some(row) = line.strip_prefix("    ") else {
            expression = expand(line);
            continue;
        };
        let columns: Vec<&str> = row.splitn(5, " | ").collect();
        let [device, environment, estimate, cost, outcome] = columns[..] else {
            panic!("line {}: five columns wanted: {line}", at + 1);
        };
        cases.push(Case {
            line: at + 1,
            expression: expression.clone(),
            device: device.to_owned(),
            environment: environment.to_owned(),
            expected: Observation {
                estimate: estimate.to_owned(),
                cost: cost.to_owned(),
                outcome: outcome.to_owned(),
            },
        });
    }
    cases
}

/// Reads the devices.
pub(crate) fn devices(text: &str) -> Devices {
    let mut names = AttrNames::default();
    let mut by_name = BTreeMap::new();
    for block in text.split("\n\n").filter(|block| block.starts_with("device ")) {
        let mut lines = block.lines();
        let head: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [_, name, driver, ..] = head[..] else { panic!("device NAME DRIVER wanted: {block}") };
        let mut attributes = Vec::new();
        let mut capacity = Vec::new();
        for line in lines {
            let words: Vec<&str> = line.trim().splitn(3, ' ').collect();
            match words[..] {
                ["capacity", key, value] => {
                    capacity.push((Text::from(key), value.parse::<Quantity>().unwrap()));
                }
                [kind, key, values] => attributes.push((Text::from(key), attribute(kind, values))),
                [kind, key] => attributes.push((Text::from(key), attribute(kind, ""))),
                _ => panic!("KIND KEY VALUE wanted: {line}"),
            }
        }
        let driver = driver.trim_matches('"');
        let multiple = head.contains(&"multiple");
        let device = SimpleDevice::new(driver, attributes, capacity, multiple, &mut names);
        by_name.insert(name.to_owned(), device);
    }
    Devices { names, by_name }
}

fn attribute(kind: &str, values: &str) -> AttrValue {
    let list = || values.split(' ');
    match kind {
        "string" => AttrValue::String(values.into()),
        "int" => AttrValue::Int(values.parse().unwrap()),
        "bool" => AttrValue::Bool(values.parse().unwrap()),
        "version" => AttrValue::Version(VersionValue::new(values)),
        "strings" => AttrValue::Strings(list().map(Text::from).collect()),
        "ints" => AttrValue::Ints(list().map(|v| v.parse().unwrap()).collect()),
        "bools" => AttrValue::Bools(list().map(|v| v.parse().unwrap()).collect()),
        "versions" => AttrValue::Versions(list().map(VersionValue::new).collect()),
        "unset" => AttrValue::Unsupported,
        other => panic!("unknown kind {other}"),
    }
}

/// Runs a case and records its result.
pub(crate) fn observe(case: &Case, devices: &Devices) -> Observation {
    let device = &devices.by_name[&case.device];
    let derives = case.environment.starts_with("derive");
    let env = environment(case.environment.trim_start_matches("derive").trim());
    let compiled =
        if derives { compile_derived(&case.expression, &env) } else { compile(&case.expression, &env) };
    match compiled {
        Err(error) => rejected(&error),
        Ok(program) => {
            let bound = program.bind(&devices.names);
            let (outcome, cost) = if derives { derived(&bound, device) } else { matched(&bound, device) };
            Observation { estimate: estimate(&program), cost, outcome }
        }
    }
}

fn environment(words: &str) -> Env {
    if words == "stored" {
        return Env::stored();
    }
    let has = |feature| words.split(' ').any(|word| word == feature);
    assert!(has("new"), "stored or new wanted: {words}");
    Env::new(Mode::New).with_list_attributes(has("list")).with_consumable_capacity(has("consumable"))
}

fn rejected(error: &CompileError) -> Observation {
    Observation { estimate: "-".to_owned(), cost: "-".to_owned(), outcome: format!("rejected: {error}") }
}

fn estimate(program: &Program) -> String {
    let range = program.estimated_cost();
    assert!(range.min <= range.max, "{range:?}");
    range.max.to_string()
}

fn matched(bound: &Bound, device: &SimpleDevice) -> (String, String) {
    let (outcome, cost) = bound.matches_with_cost(device);
    assert_eq!(bound.matches(device), outcome, "with and without counting: {}", bound.program().expression());
    let outcome = match outcome {
        Outcome::Match => "true".to_owned(),
        Outcome::NoMatch => "false".to_owned(),
        Outcome::Error(error) => format!("error: {error}"),
    };
    (outcome, cost.to_string())
}

fn derived(bound: &Bound, device: &SimpleDevice) -> (String, String) {
    let (_, cost) = bound.matches_with_cost(device);
    let outcome = match bound.derive(device) {
        Ok(value) => written(&value),
        Err(error) => format!("error: {error}"),
    };
    (outcome, cost.to_string())
}

fn written(value: &AttrValue) -> String {
    let mut out = String::new();
    let mut list = |kind: &str, values: Vec<String>| {
        out.push_str(kind);
        for value in values {
            write!(out, " {value}").unwrap();
        }
    };
    match value {
        AttrValue::Int(v) => list("int", vec![v.to_string()]),
        AttrValue::Bool(v) => list("bool", vec![v.to_string()]),
        AttrValue::String(v) => list("string", vec![v.to_string()]),
        AttrValue::Version(v) => list("version", vec![v.text.to_string()]),
        AttrValue::Ints(v) => list("ints", v.iter().map(ToString::to_string).collect()),
        AttrValue::Bools(v) => list("bools", v.iter().map(ToString::to_string).collect()),
        AttrValue::Strings(v) => list("strings", v.iter().map(ToString::to_string).collect()),
        AttrValue::Versions(v) => list("versions", v.iter().map(|v| v.text.to_string()).collect()),
        AttrValue::Unsupported => list("unset", vec![]),
    }
    out
}

/// Whether what was seen is what was wanted; texts of errors need only contain the wanted one.
pub(crate) fn agrees(expected: &Observation, seen: &Observation) -> bool {
    let number = |expected: &str, seen: &str| expected == "*" || expected == seen;
    let outcome = ["rejected: ", "error: "]
        .into_iter()
        .find_map(|kind| Some((expected.outcome.strip_prefix(kind)?, seen.outcome.strip_prefix(kind))))
        .map_or(expected.outcome == seen.outcome, |(wanted, text)| {
            text.is_some_and(|text| text.contains(wanted))
        });
    outcome && number(&expected.estimate, &seen.estimate) && number(&expected.cost, &seen.cost)
}

/// Undoes the shorthands of the table.
fn expand(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('«') {
        out.push_str(before);
        let (repeat, after) = after.split_once('»').unwrap();
        let (text, count) = repeat.rsplit_once('*').unwrap();
        out.push_str(&text.repeat(count.parse().unwrap()));
        rest = after;
    }
    out.push_str(rest);
    out.replace('␤', "\n")
}
