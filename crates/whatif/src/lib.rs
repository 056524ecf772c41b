//! What-if for the dashboard: a question about objects in, an answer out, both JSON.
//!
//! The dashboard runs this crate as a WebAssembly program in the browser, on the objects that it watches anyway. Plans are those of
//! `kubectl device plan`: [`lazaret_device::view::plan`] makes both.
//!
//! **Invariant.** An answer follows from the question alone: there is no clock, no file and no network. A question that makes no sense gets an
//! answer that says what is wrong with it.
//!
//! It must never decide anything itself.

use std::collections::BTreeMap;

use lazaret_api::Object;
use lazaret_device::view::{Cluster, Plan, plan};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Rules of one question. A page that selects more devices than this asks about a pool or an expression instead.
const RULES_MAX: usize = 1_000;

/// One form for all questions: objects stay as they were written until they are decoded.
#[derive(Deserialize)]
struct Question<'a> {
    op: Op,
    /// For a plan.
    #[serde(default)]
    now: &'a str,
    #[serde(borrow, default)]
    objects: Vec<&'a RawValue>,
    /// Rules that are not there yet, all with the same taint, or the names of rules that are.
    #[serde(borrow, default)]
    rules: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Op {
    /// What rules would do.
    Plan,
    /// Which devices rules select.
    Select,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Plan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selected: Option<BTreeMap<String, Vec<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Objects that were left out because they could not be understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
}

/// The answer to a question.
#[must_use]
pub fn answer(question: &str) -> String {
    let answer = serde_json::from_str(question)
        .map_err(|error| format!("the question cannot be read: {error}"))
        .and_then(of)
        .unwrap_or_else(|error| Answer { error: Some(error), ..Answer::default() });
    // Maps with keys of text and numbers that JSON has.
    serde_json::to_string(&answer)
        .unwrap_or_else(|_| r#"{"error":"the answer cannot be written"}"#.to_owned())
}

fn of(question: Question<'_>) -> Result<Answer, String> {
    let Question { op, now, objects, rules } = question;
    if rules.len() > RULES_MAX {
        return Err(format!("a question has at most {RULES_MAX} rules"));
    }
    let cluster = read(&objects);
    let skipped = cluster.unreadable.clone();
    match op {
        Op::Plan => {
            let plan = Some(plan_of(&cluster, now, &rules)?);
            Ok(Answer { plan, skipped, ..Answer::default() })
        }
        Op::Select => {
            let selected =
                Some(rules.into_iter().map(|rule| select(&cluster, rule)).collect::<Result<_, _>>()?);
            Ok(Answer { selected, skipped, ..Answer::default() })
        }
    }
}

fn plan_of(cluster: &Cluster, now: &str, rules: &[&RawValue]) -> Result<Plan, String> {
    let now = lazaret_api::parse_time(now)?;
    let mut selectors = Vec::new();
    let mut taint = None;
    for rule in rules {
        let decoded = lazaret_api::decode_json(rule.get()).map_err(|error| error.to_string())?;
        let Object::Rule(rule) = decoded else { return Err("a rule is a DeviceTaintRule".to_owned()) };
        // A rule without a selector selects nothing.
        selectors.extend(rule.selector.clone());
        taint.get_or_insert_with(|| rule.taint.clone());
    }
    let taint = taint.ok_or("a plan needs a rule")?;
    Ok(plan(cluster, now, &selectors, &taint))
}

fn select(cluster: &Cluster, rule: &RawValue) -> Result<(String, Vec<String>), String> {
    let name: String = serde_json::from_str(rule.get()).map_err(|error| error.to_string())?;
    let selection = cluster.fleet.rule_selection(&name);
    let mut devices: Vec<String> = selection.published().map(|device| device.id().to_string()).collect();
    devices.sort();
    Ok((name, devices))
}

fn read(objects: &[&RawValue]) -> Cluster {
    let mut cluster = Cluster::default();
    objects.iter().for_each(|object| cluster.set(object.get()));
    cluster
}
