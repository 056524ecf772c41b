//! What people and programs read.

pub(crate) use lazaret_print::{Cell, Plain, Structured, Table, Tint, count, line};
use serde::Serialize;

use crate::{Console, Error};

/// `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For people with wide screens.
    Wide,
    /// For programs, everything.
    Json,
    /// The same as YAML.
    Yaml,
    /// Names only, one a line.
    Name,
}

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
