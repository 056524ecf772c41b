//! `key=value:effect`, as `kubectl taint` has it; a `-` at the end takes the taint away.

use lazaret_model::{Effect, validate_label_name, validate_label_value};

/// A change of a taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaintSpec {
    /// Put it there.
    Set {
        /// The key.
        key: String,
        /// The value, may be empty.
        value: String,
        /// The effect.
        effect: Effect,
    },
    /// Take it away.
    Remove {
        /// The key.
        key: String,
        /// With this value only.
        value: Option<String>,
        /// With this effect only.
        effect: Option<Effect>,
    },
}

impl TaintSpec {
    /// Whether an argument is a taint and not a device: no device has `:` or `=` in its name, or `-` at its end.
    #[must_use]
    pub fn looks_like(text: &str) -> bool {
        text.contains([':', '=']) || text.ends_with('-')
    }
}

/// Reads a taint.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_taint(text: &str) -> Result<TaintSpec, String> {
    let (body, remove) = text.strip_suffix('-').map_or((text, false), |body| (body, true));
    let (pair, effect) = match body.split_once(':') {
        Some((pair, effect)) => (pair, Some(parse_effect(text, effect)?)),
        None => (body, None),
    };
    let (key, value) = pair.split_once('=').map_or((pair, None), |(key, value)| (key, Some(value)));
    validate_label_name(key).map_err(|error| format!("taint {text:?}: key {key:?}: {error}"))?;
    let value = value.map(str::to_owned);
    if let Some(value) = &value {
        validate_label_value(value).map_err(|error| format!("taint {text:?}: value {value:?}: {error}"))?;
    }
    if remove {
        return Ok(TaintSpec::Remove { key: key.to_owned(), value, effect });
    }
    let effect = effect.ok_or_else(|| {
        format!("taint {text:?} has no effect: write {pair}:NoSchedule to keep new pods away, {pair}:NoExecute to evict pods, {pair}:None to leave a note, or {pair}- to remove it")
    })?;
    Ok(TaintSpec::Set { key: key.to_owned(), value: value.unwrap_or_default(), effect })
}

/// Reads a taint of effect NoExecute that devices have: its key and its value.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_evicting_taint(text: &str) -> Result<(String, String), String> {
    match parse_taint(text)? {
        TaintSpec::Set { key, value, effect: Effect::NoExecute } => Ok((key, value)),
        TaintSpec::Set { .. } | TaintSpec::Remove { .. } => {
            Err(format!("taint {text:?} evicts no pod: write KEY=VALUE:NoExecute"))
        }
    }
}

fn parse_effect(text: &str, effect: &str) -> Result<Effect, String> {
    match Effect::from_name(effect) {
        Effect::Unknown(name) if name == "PreferNoSchedule" => Err(format!(
            "taint {text:?}: devices have no PreferNoSchedule, only None, NoSchedule and NoExecute"
        )),
        Effect::Unknown(_) => {
            Err(format!("taint {text:?}: effect {effect:?} is none of None, NoSchedule and NoExecute"))
        }
        known @ (Effect::None | Effect::NoSchedule | Effect::NoExecute) => Ok(known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_of_kubectl_taint() {
        let set =
            |key: &str, value: &str, effect| TaintSpec::Set { key: key.into(), value: value.into(), effect };
        let remove = |key: &str, value: Option<&str>, effect| TaintSpec::Remove {
            key: key.into(),
            value: value.map(Into::into),
            effect,
        };
        let rows = [
            ("a=b:NoSchedule", set("a", "b", Effect::NoSchedule)),
            ("example.com/a:NoExecute", set("example.com/a", "", Effect::NoExecute)),
            ("a=:None", set("a", "", Effect::None)),
            ("a:NoExecute-", remove("a", None, Some(Effect::NoExecute))),
            ("a=b:NoExecute-", remove("a", Some("b"), Some(Effect::NoExecute))),
            ("a-", remove("a", None, None)),
        ];
        for (text, wanted) in rows {
            assert_eq!(parse_taint(text), Ok(wanted), "{text}");
        }
        for (text, part) in [
            ("a=b", "has no effect"),
            ("a:PreferNoSchedule", "no PreferNoSchedule"),
            ("a:noexecute", "none of None"),
            ("-a:NoExecute", "key"),
            ("a=b b:NoExecute", "value"),
            (":NoExecute", "key"),
        ] {
            let error = parse_taint(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
