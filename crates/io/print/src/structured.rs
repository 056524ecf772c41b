//! For programs.

use std::fmt;

use serde::Serialize;

use crate::harmless::{harmless_json, is_unseen};

/// `-o` where a table has no wider form and things have no names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Plain {
    /// For people.
    #[default]
    Table,
    /// For programs, everything.
    Json,
    /// The same as YAML.
    Yaml,
}

impl Plain {
    /// The form for programs, if it is one.
    #[must_use]
    pub fn structured(self) -> Option<Structured> {
        match self {
            Self::Table => None,
            Self::Json => Some(Structured::Json),
            Self::Yaml => Some(Structured::Yaml),
        }
    }
}

/// Forms for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structured {
    /// Indented, with a newline at the end.
    Json,
    /// One document.
    Yaml,
}

impl Structured {
    /// `value` in this form.
    ///
    /// # Errors
    /// When it has no such form: a map whose keys are no texts, for instance.
    pub fn text(self, value: &impl Serialize) -> Result<String, Unwritable> {
        match self {
            Self::Json => json(value),
            Self::Yaml => {
                let text = serde_saphyr::to_string(value)
                    .map_err(|error| Unwritable(format!("write YAML: {error}")))?;
                let drives = |character: char| is_unseen(character) && character != '\n';
                // JSON is YAML, and has an escape for each of these.
                if text.chars().any(drives) { json(value) } else { Ok(text) }
            }
        }
    }
}

fn json(value: &impl Serialize) -> Result<String, Unwritable> {
    serde_json::to_string_pretty(value)
        .map(|text| harmless_json(&text).into_owned() + "\n")
        .map_err(|error| Unwritable(format!("write JSON: {error}")))
}

/// Why a value could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritable(String);

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unwritable {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_programs_read_means_the_same_and_drives_no_terminal() {
        let value = BTreeMap::from([("a", "\u{202e}x\u{9b}\u{1b}\r")]);
        for form in [Structured::Json, Structured::Yaml] {
            let text = form.text(&value).unwrap();
            assert!(text.is_ascii() && !text.contains(['\x1b', '\r']), "{text}");
            assert_eq!(serde_json::from_str::<BTreeMap<&str, String>>(&text).unwrap()["a"], value["a"]);
        }
    }

    #[test]
    fn programs_get_what_they_can_read() {
        let value = BTreeMap::from([("a", vec![1, 2])]);
        assert_eq!(Structured::Json.text(&value).unwrap(), "{\n  \"a\": [\n    1,\n    2\n  ]\n}\n");
        assert_eq!(Structured::Yaml.text(&value).unwrap(), "a:\n- 1\n- 2\n");
        assert!(Structured::Json.text(&BTreeMap::from([(vec![1], 2)])).is_err());
    }
}
