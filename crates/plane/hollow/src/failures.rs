//! Which devices of a node fail: a JSON object in an annotation of the Node, from device to taint.
//!
//! `{"gpu-3": {"effect": "NoExecute", "reason": "xid-79"}}`

use std::collections::BTreeMap;

use lazaret_model::validate_label_value;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How a device fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The effect of its taint: `NoExecute`, `NoSchedule` or `None`.
    #[serde(default)]
    pub effect: FailureEffect,
    /// The value of the taint: a label value, may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The effect of the taint of a failing device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FailureEffect {
    /// New claims keep away and pods leave.
    #[default]
    NoExecute,
    /// New claims keep away.
    NoSchedule,
    /// It is only shown.
    None,
}

impl FailureEffect {
    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoExecute => "NoExecute",
            Self::NoSchedule => "NoSchedule",
            Self::None => "None",
        }
    }
}

/// Why an annotation cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FailuresError {
    /// It is not what it should be.
    #[error("not a JSON object from device to {{effect, reason}}: {0}")]
    Form(String),
    /// A reason is not fit to be the value of a taint.
    #[error("{device}: the reason {reason:?} is no label value: {why}")]
    Reason {
        /// Of which device.
        device: String,
        /// The reason given.
        reason: String,
        /// The error in it.
        why: String,
    },
}

/// By device.
pub type Failures = BTreeMap<String, Failure>;

/// Reads the annotation. No annotation, or an empty one: none fail.
///
/// # Errors
/// The annotation is not valid.
pub fn read(annotation: Option<&str>) -> Result<Failures, FailuresError> {
    let text = annotation.unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(Failures::new());
    }
    let failures: Failures =
        serde_json::from_str(text).map_err(|error| FailuresError::Form(error.to_string()))?;
    for (device, failure) in &failures {
        validate_label_value(&failure.reason).map_err(|error| FailuresError::Reason {
            device: device.clone(),
            reason: failure.reason.clone(),
            why: error.to_string(),
        })?;
    }
    Ok(failures)
}

/// Writes the annotation.
#[must_use]
pub fn write(failures: &Failures) -> String {
    // Strings and two enums: nothing that could fail to be written.
    serde_json::to_string(failures).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let mut failures = Failures::new();
        failures
            .insert("gpu-3".into(), Failure { effect: FailureEffect::NoSchedule, reason: "xid-79".into() });
        failures.insert("gpu-0".into(), Failure { effect: FailureEffect::default(), reason: String::new() });
        assert_eq!(read(Some(&write(&failures))).as_ref(), Ok(&failures));
        assert_eq!(
            write(&failures),
            r#"{"gpu-0":{"effect":"NoExecute"},"gpu-3":{"effect":"NoSchedule","reason":"xid-79"}}"#
        );
    }

    #[test]
    fn little_is_enough() {
        assert_eq!(read(None), Ok(Failures::new()));
        assert_eq!(read(Some(" ")), Ok(Failures::new()));
        let failures = read(Some(r#"{"gpu-1":{}}"#)).unwrap();
        assert_eq!(failures["gpu-1"].effect, FailureEffect::NoExecute);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("gpu-1", "not a JSON object"),
            (r#"{"gpu-1":{"effect":"Explode"}}"#, "Explode"),
            (r#"{"gpu-1":{"efect":"None"}}"#, "efect"),
            (r#"{"gpu-1":{"reason":"very bad"}}"#, "no label value"),
        ] {
            let error = read(Some(text)).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
