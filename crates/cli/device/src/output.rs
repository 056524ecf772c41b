//! Output for people and for programs.

pub(crate) use lazaret_print::{Cell, Fit, Layout, Plain, Structured, Table, Tint, count};
use serde::Serialize;

use crate::{Console, Error};

/// `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people; on a terminal as wide as that.
    #[default]
    Table,
    /// More columns, each whole.
    Wide,
    /// For programs, everything.
    Json,
    /// The same as YAML.
    Yaml,
    /// Names only, one a line.
    Name,
}

/// `-o` of a table without names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Tabular {
    /// For people; on a terminal as wide as that.
    #[default]
    Table,
    /// Every column whole, whatever the width of the terminal.
    Wide,
    /// For programs, everything.
    Json,
    /// The same as YAML.
    Yaml,
}

impl Tabular {
    /// The form for programs, if it is one.
    pub(crate) fn structured(self) -> Option<Structured> {
        match self {
            Self::Table | Self::Wide => None,
            Self::Json => Some(Structured::Json),
            Self::Yaml => Some(Structured::Yaml),
        }
    }
}

/// How a table is laid out: within the terminal, if there is one and nobody asked for all of it.
pub(crate) fn layout(table: &Table, width: Option<usize>, optional: &[&str], elastic: &[&str]) -> Layout {
    match width {
        Some(width) => table.layout_within(&Fit { width, optional, elastic }),
        None => table.layout(),
    }
}

/// The form of every result that is no object of the API.
pub(crate) const RESULT_VERSION: &str = "lazaret.dev/v1alpha1";

/// Writes `value` for programs.
pub(crate) fn structured(
    console: &mut Console,
    value: &impl Serialize,
    form: Structured,
) -> Result<(), Error> {
    let failed = |error: lazaret_print::Unwritable| Error::Unreadable {
        what: "write output".into(),
        cause: error.to_string(),
    };
    console.print(&form.text(value).map_err(failed)?)
}
