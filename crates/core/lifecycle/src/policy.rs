//! Health policies: which signals matter, and what follows.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use lazaret_cel::{Datum, Expression, Shape, Wanted, compile_expression};
use lazaret_model::{Text, named, validate_label_name, validate_label_value};

use crate::signal::shape;

/// The largest `count.atLeast`: as many instants are kept for each rule and device.
pub const COUNT_MAX: u32 = 100;

/// How long a validation may take where its policy says nothing, in milliseconds: the Job may wait for an image and for room on the node.
pub const VALIDATION_TIMEOUT_MS: i64 = 60 * 60 * 1_000;

/// Which signals matter on the devices that it selects, and what follows from them.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name.
    pub name: Text,
    /// Whether it acts.
    pub mode: Mode,
    /// In order; every one that matches counts.
    pub rules: Vec<Rule>,
    /// A device is calm when no rule has matched for this long.
    pub clear_after_ms: i64,
    /// Repair steps, in order. None: a person repairs.
    pub steps: Vec<Step>,
    /// How often all steps are tried.
    pub attempts_max: u32,
    /// How a device is trusted again.
    pub recovery: Option<Recovery>,
    /// Why no repair and no validation may begin, in words for people. Everything else goes on.
    pub blocked: Option<Text>,
}

named! {
    /// Whether a policy acts.
    #[derive(Default)]
    pub enum Mode {
        /// Incidents are written, and nothing else is done.
        #[default]
        Observe,
        /// Devices are tainted, drained, repaired and brought back.
        Enforce,
    }
}

/// One kind of trouble.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name.
    pub name: Text,
    /// Which signals it means.
    pub when: When,
    /// How many of them it takes.
    pub count: Option<Count>,
    /// For how long it must hold. Interruptions that are shorter do not count.
    pub hold_ms: i64,
    /// How far the device goes.
    pub target: Target,
    /// The taint that the device gets.
    pub taint: TaintKeyValue,
}

/// Which taint: its key and its value. The effect follows from the stage of an incident.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaintKeyValue {
    /// Its key.
    pub key: Text,
    /// Its value; may be empty.
    pub value: Text,
}

impl TaintKeyValue {
    /// The key of the taints of incidents, unless a rule names another.
    pub const KEY_DEFAULT: &str = "lazaret.dev/quarantine";

    /// A taint with the default key.
    #[must_use]
    pub fn quarantine(value: impl Into<Text>) -> Self {
        Self { key: Self::KEY_DEFAULT.into(), value: value.into() }
    }
}

impl core::fmt::Display for TaintKeyValue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

named! {
    /// How far a rule takes a device.
    pub enum Target {
        /// It is looked at more closely.
        Suspect,
        /// It is not given to new claims.
        Quarantined,
        /// Its pods leave as well, and it is repaired.
        Drained,
    }
}

/// A number of signals within a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Signals that it takes.
    pub at_least: u32,
    /// The time from the first to the last of them, in milliseconds.
    pub within_ms: i64,
}

/// One repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub name: Text,
    /// It has failed when it takes longer.
    pub timeout_ms: i64,
    /// Whether it is an object that somebody else acts on, which has to be asked for its progress. Otherwise it is a Job.
    pub is_request: bool,
}

/// How a device is trusted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// No signal for this long.
    pub probation_ms: i64,
    /// Whether a validation must pass as well.
    pub validates: bool,
    /// The validation has failed when it takes longer.
    pub validation_timeout_ms: i64,
    /// When it is trusted no more.
    pub flaps: Option<Flaps>,
}

/// How often a device may come back in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaps {
    /// More are too many.
    pub at_most: u32,
    /// Within this time.
    pub within_ms: i64,
}

/// A condition on a signal.
#[derive(Clone, Debug)]
pub struct When {
    expression: Expression,
    /// As it was written.
    source: Text,
    /// It means signals with this key and no others. Most signals are about something else, and are not evaluated.
    key: Option<Text>,
}

/// The key without which an expression is not true: `signal.key == "KEY"`, alone or among the comparisons that it begins with, joined by `&&`.
/// Where anything else could make the whole true, or a key be written in another way, there is none.
fn only_key(source: &str) -> Option<Text> {
    if source.contains("||") || source.contains('?') {
        return None;
    }
    for part in source.split("&&") {
        let (field, value) = comparison(part)?;
        if field == "key" {
            return Some(value.into());
        }
    }
    None
}

/// The field and the text of `signal.FIELD == "TEXT"`, and nothing but that.
fn comparison(part: &str) -> Option<(&str, &str)> {
    let (field, rest) = part.trim().strip_prefix("signal.")?.split_once("==")?;
    let rest = rest.trim();
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let value = rest[1..].strip_suffix(quote)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    let is_name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric());
    let field = field.trim();
    (is_name(field) && !value.is_empty() && value.chars().all(is_plain)).then_some((field, value))
}

/// A condition on an object that somebody else acts on.
#[derive(Clone, Debug)]
pub struct DoneWhen(Expression);

impl DoneWhen {
    /// Compiles an expression over `object`.
    ///
    /// # Errors
    /// When it is not CEL, or does not come to true or false.
    pub fn compile(source: &str) -> Result<Self, String> {
        let compiled = compile_expression(source, &[("object", Shape::any())], Wanted::Bool);
        compiled.map(Self).map_err(|error| error.render(source))
    }

    /// Whether the object says that it is done. One that has no such field yet has not.
    #[must_use]
    pub fn holds(&self, object: Datum) -> bool {
        let (result, _) = self.0.evaluate(&[object]);
        result.ok().and_then(|value| value.as_bool()).unwrap_or(false)
    }
}

/// An error in a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The field.
    pub field: String,
    /// The error, and its remedy.
    pub message: String,
}

impl core::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl When {
    /// Compiles an expression over `signal`.
    ///
    /// # Errors
    /// When it is not CEL, or does not come to true or false.
    pub fn compile(source: &str) -> Result<Self, String> {
        let expression = compile_expression(source, &[("signal", shape())], Wanted::Bool)
            .map_err(|error| error.render(source))?;
        Ok(Self { expression, source: source.trim().into(), key: only_key(source) })
    }

    /// The key without which it means no signal.
    pub(crate) fn key(&self) -> Option<&Text> {
        self.key.as_ref()
    }

    /// Whether it means this signal.
    ///
    /// # Errors
    /// When it cannot be evaluated.
    pub(crate) fn matches(&self, signal: &Datum) -> Result<bool, String> {
        let (result, _) = self.expression.evaluate(core::slice::from_ref(signal));
        result.map(|value| value.as_bool().unwrap_or(false)).map_err(|error| error.to_string())
    }
}

impl Rule {
    /// Whether it holds whenever the other does.
    fn means_the_same(&self, other: &Self) -> bool {
        (&self.when.source, self.count, self.hold_ms) == (&other.when.source, other.count, other.hold_ms)
    }
}

impl Policy {
    /// The errors of the policy that the limits of single fields do not show, field by field.
    #[must_use]
    pub fn problems(&self) -> Vec<PolicyError> {
        let mut problems = Vec::new();
        let mut wrong = |field: String, message: &str| {
            problems.push(PolicyError { field, message: message.to_string() });
        };
        if self.clear_after_ms <= 0 {
            wrong("spec.clearAfter".into(), "must be longer than nothing: no device would ever be ill");
        }
        for (index, rule) in self.rules.iter().enumerate() {
            let field = |name: &str| format!("spec.rules[{index}].{name}");
            if self.rules[..index].iter().any(|before| before.name == rule.name) {
                wrong(field("name"), "another rule has this name");
            }
            if let Some(before) = self.rules[..index].iter().find(|before| before.means_the_same(rule)) {
                let message =
                    format!("rule {} means the same signals: change or leave out one of them", before.name);
                wrong(field("when"), &message);
            }
            if let Err(error) = validate_label_name(&rule.taint.key) {
                wrong(field("taint.key"), &format!("{error}; write it as example.com/unhealthy"));
            }
            if let Err(error) = validate_label_value(&rule.taint.value) {
                wrong(field("taint.value"), &error.to_string());
            }
            if rule.hold_ms < 0 {
                wrong(field("for"), "must not be negative");
            }
            if rule.count.is_some_and(|count| count.within_ms <= 0) {
                wrong(field("count.within"), "must be longer than nothing");
            }
        }
        if let Some(recovery) = self.recovery {
            if recovery.probation_ms <= 0 {
                wrong("spec.recovery.probation".into(), "must be longer than nothing");
            }
            if recovery.flaps.is_some_and(|flaps| flaps.within_ms <= 0) {
                wrong("spec.recovery.flaps.within".into(), "must be longer than nothing");
            }
        }
        problems
    }

    /// Two rules that mean the same signals and say another stage, by their names: one of this policy and one of the other.
    #[must_use]
    pub fn contradiction<'a>(&'a self, other: &'a Self) -> Option<(&'a Text, &'a Text)> {
        let is_contrary = |one: &&Rule, two: &Rule| one.means_the_same(two) && one.target != two.target;
        self.rules.iter().find_map(|two| {
            let one = other.rules.iter().find(|one| is_contrary(one, two))?;
            Some((&two.name, &one.name))
        })
    }

    /// The recovery that a device must pass before it is trusted: that of the policy, or as long a calm as it names.
    pub(crate) fn trust(&self) -> Recovery {
        self.recovery.unwrap_or(Recovery {
            probation_ms: self.clear_after_ms,
            validates: false,
            validation_timeout_ms: VALIDATION_TIMEOUT_MS,
            flaps: None,
        })
    }

    /// How long it counts that a device came back in vain.
    pub(crate) fn flaps_count_for_ms(&self) -> i64 {
        self.trust().flaps.map_or(0, |flaps| flaps.within_ms)
    }

    /// Whether a validation may begin.
    pub(crate) fn validates(&self) -> bool {
        self.blocked.is_none() && self.trust().validates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_only_where_nothing_else_can_make_the_whole_true() {
        let rows = [
            ("signal.key == \"a.b/c\"", Some("a.b/c")),
            (" signal.key == 'x' && signal.value in ['1', '2']", Some("x")),
            ("signal.key == 'x' || signal.key == 'y'", None),
            ("signal.key == 'x' && a || b", None),
            ("signal.key == 'x' ? true : false", None),
            ("signal.key == 'x' + 'y'", None),
            ("signal.key == 'x\\n'", None),
            ("signal.source == 'Taint' && signal.key == 'x'", Some("x")),
            ("signal.source == 'Taint' && int(signal.value) > 8 && signal.key == 'x'", None),
            ("signal.message == \"a && signal.key == 'x' && b\"", None),
            ("!(signal.source == 'a' && signal.key == 'x')", None),
            ("signal.key != 'x' && signal.key == 'x'", None),
            ("signal.value == 'x'", None),
        ];
        for (source, key) in rows {
            assert_eq!(only_key(source).as_deref(), key, "{source}");
        }
    }
}
