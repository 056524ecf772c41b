//! Which condition of a device means which taint.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
};
use core::fmt;

use lazaret_model::{Effect, NameError, validate_label_name, validate_label_value};

/// Rules of one table.
const RULES_MAX: usize = 256;
/// How long a condition must last before there is a taint, unless a rule says otherwise.
const RAISE_AFTER_MS: i64 = 100;
/// How long a condition must be over before its taint goes, unless a rule says otherwise.
const CLEAR_AFTER_MS: i64 = 30_000;

/// The taint of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRule {
    /// The taint's key.
    pub key: String,
    /// The taint's value; none: what was observed, as far as it can be a value.
    pub value: Option<String>,
    /// The taint's effect. `None` is for information: the device stays in use.
    pub effect: Effect,
    /// Whether pods that hold the device show it as unhealthy.
    pub unhealthy: bool,
    /// How long the condition must last before there is a taint.
    pub raise_after_ms: i64,
    /// How long the condition must be over before the taint goes.
    pub clear_after_ms: i64,
}

impl HealthRule {
    /// A taint with this key and effect; unhealthy unless the effect is only for information.
    #[must_use]
    pub fn new(key: impl Into<String>, effect: Effect) -> Self {
        Self {
            key: key.into(),
            value: None,
            unhealthy: effect != Effect::None,
            effect,
            raise_after_ms: RAISE_AFTER_MS,
            clear_after_ms: CLEAR_AFTER_MS,
        }
    }

    /// With this value, whatever is observed.
    #[must_use]
    pub fn value(self, value: impl Into<String>) -> Self {
        Self { value: Some(value.into()), ..self }
    }

    /// After it lasted, or was over, for this long.
    #[must_use]
    pub fn after(self, raise_after_ms: i64, clear_after_ms: i64) -> Self {
        Self { raise_after_ms, clear_after_ms, ..self }
    }
}

/// Conditions and what they mean. A condition that is not in the table is a reason not to schedule: what is unknown is not
/// taken for harmless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthTable {
    rules: BTreeMap<String, HealthRule>,
    fallback: HealthRule,
}

/// Why a rule was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// The key of the taint is not one.
    Key(String, NameError),
    /// The value of the taint is not one.
    Value(String, NameError),
    /// The effect is not one that can be set.
    Effect(String),
    /// There are more than 256 rules.
    TooMany,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key, why) => write!(f, "taint key {key:?}: {why}"),
            Self::Value(value, why) => write!(f, "taint value {value:?}: {why}"),
            Self::Effect(effect) => write!(f, "taint effect {effect:?} is unknown"),
            Self::TooMany => write!(f, "more than {RULES_MAX} rules"),
        }
    }
}

impl core::error::Error for TableError {}

impl HealthTable {
    /// The table of a driver without rules: every condition is a taint `<driver>/unhealthy` with its name as value and
    /// the effect `NoSchedule`.
    #[must_use]
    pub fn new(driver: &str) -> Self {
        Self {
            rules: BTreeMap::new(),
            fallback: HealthRule::new(format!("{driver}/unhealthy"), Effect::NoSchedule),
        }
    }

    /// The same, with a rule for a condition.
    ///
    /// # Errors
    /// When no such taint can be set.
    pub fn with(mut self, condition: impl Into<String>, rule: HealthRule) -> Result<Self, TableError> {
        validate_label_name(&rule.key).map_err(|why| TableError::Key(rule.key.clone(), why))?;
        if let Some(value) = &rule.value {
            validate_label_value(value).map_err(|why| TableError::Value(value.clone(), why))?;
        }
        if matches!(rule.effect, Effect::Unknown(_)) {
            return Err(TableError::Effect(rule.effect.name().to_string()));
        }
        self.rules.insert(condition.into(), rule);
        if self.rules.len() > RULES_MAX { Err(TableError::TooMany) } else { Ok(self) }
    }

    pub(crate) fn rule(&self, condition: &str) -> &HealthRule {
        self.rules.get(condition).unwrap_or(&self.fallback)
    }

    /// The value of a condition's taint. A detail that cannot be a value is left out: a taint without one is better than none.
    pub(crate) fn value_of(&self, condition: &str, detail: &str) -> String {
        if let Some(value) = &self.rule(condition).value {
            return value.clone();
        }
        let observed = if self.rules.contains_key(condition) { detail } else { condition };
        if validate_label_value(observed).is_ok() { observed.to_string() } else { String::new() }
    }
}
