//! The dashboard's what-if: a question about objects in, an answer out, both JSON.
//!
//! The dashboard runs this crate as a WebAssembly program in the browser, on the objects that it watches anyway. Plans are those of
//! `kubectl device plan`: [`lazaret_device::view::plan`] makes both.
//!
//! **Invariant.** An answer follows from the question alone: there is no clock, no file and no network. A question that makes no sense gets an
//! answer that says what is wrong with it.
//!
//! It must never decide anything itself.

use lazaret_api::Object;
use lazaret_device::view::{Cluster, Place, Plan, places, plan};
use lazaret_eviction::impact;
use lazaret_model::{DeviceTaintRule, Impact, Timestamp};
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
    /// For a plan: rules that are not there yet, all with the same taint.
    #[serde(borrow, default)]
    rules: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Op {
    /// The effects of rules, and where the evicted pods could go.
    Plan,
    /// Which devices each rule selects.
    Select,
    /// How much the first rule reaches, as an approval of it says.
    Impact,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Plan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    places: Option<Vec<Place>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selected: Option<Vec<Selected>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impact: Option<Reach>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Objects that were left out because they could not be understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
}

/// The published devices that a rule selects, and why not everything can be said.
#[derive(Serialize)]
struct Selected {
    devices: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The numbers of pods, namespaces and devices that a rule reaches.
#[derive(Serialize)]
struct Reach {
    pods: u64,
    namespaces: u64,
    devices: u64,
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
    let rules: Vec<DeviceTaintRule> = rules.into_iter().map(rule).collect::<Result<_, _>>()?;
    let mut cluster = read(&objects);
    let answer = match op {
        Op::Plan => {
            let now = lazaret_api::parse_time(now)?;
            let plan = plan_of(&cluster, now, &rules)?;
            let places = places(&mut cluster, now, rules, &plan);
            Answer { plan: Some(plan), places: Some(places), ..Answer::default() }
        }
        Op::Select => {
            let selected = rules.iter().map(|rule| select(&cluster, rule)).collect();
            Answer { selected: Some(selected), ..Answer::default() }
        }
        Op::Impact => {
            let rule = rules.first().ok_or("there is no rule")?;
            let Impact { pods, namespaces, devices } = impact(&cluster.fleet, rule);
            Answer { impact: Some(Reach { pods, namespaces, devices }), ..Answer::default() }
        }
    };
    let skipped =
        cluster.unreadable.iter().map(|unread| format!("{}: {}", unread.name, unread.why)).collect();
    Ok(Answer { skipped, ..answer })
}

fn rule(raw: &RawValue) -> Result<DeviceTaintRule, String> {
    match lazaret_api::decode_json(raw.get()) {
        Ok(Object::Rule(rule)) => Ok(rule),
        Ok(_) => Err("a rule is a DeviceTaintRule".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn plan_of(cluster: &Cluster, now: Timestamp, rules: &[DeviceTaintRule]) -> Result<Plan, String> {
    let taint = &rules.first().ok_or("a plan needs a rule")?.taint;
    // A rule without a selector selects nothing.
    let selectors: Vec<_> = rules.iter().filter_map(|rule| rule.selector.clone()).collect();
    Ok(plan(cluster, now, &selectors, taint))
}

fn select(cluster: &Cluster, rule: &DeviceTaintRule) -> Selected {
    // A rule without a selector selects nothing.
    let Some(selector) = &rule.selector else { return Selected { devices: Vec::new(), problem: None } };
    let selection = cluster.fleet.selection_of(selector);
    let mut devices: Vec<String> = selection.published().map(|device| device.id().to_string()).collect();
    devices.sort();
    Selected { devices, problem: selection.problem().map(|problem| problem.to_string()) }
}

fn read(objects: &[&RawValue]) -> Cluster {
    let mut cluster = Cluster::default();
    objects.iter().for_each(|object| cluster.set(object.get()));
    cluster
}
