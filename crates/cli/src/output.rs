//! What people and programs read: tables as kubectl draws them, JSON, YAML.

use std::io::{self, Write};

use anyhow::{Context, Result};
use serde::Serialize;

/// `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs, everything.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Columns as wide as their widest cell and three spaces between them; no borders, nothing after the last cell.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Self {
        Self { rows: vec![header.map(str::to_owned).to_vec()] }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    pub(crate) fn without_header() -> Self {
        Self::default()
    }

    pub(crate) fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$}   "));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Writes to standard output; a reader that has gone away is an error like any other.
pub(crate) fn print(text: &str) -> Result<()> {
    io::stdout().lock().write_all(text.as_bytes()).context("write to standard output")
}

/// Writes `value` as `format` says.
pub(crate) fn structured(value: &impl Serialize, format: Format) -> Result<()> {
    match format {
        Format::Json | Format::Table => print(&format!("{}\n", serde_json::to_string_pretty(value)?)),
        Format::Yaml => print(&serde_saphyr::to_string(value).context("write YAML")?),
    }
}

/// A note for people, on standard error so that it never mixes with output that a program reads.
pub(crate) fn note(text: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// The error and what led to it, on one line.
pub(crate) fn error(error: &anyhow::Error) {
    note(&format!("error: {error:#}"));
}

pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_its_columns_and_leaves_no_trailing_space() {
        let mut table = Table::new(["NAME", "NODE", "STATE"]);
        table.row(["gpu-0".into(), "n".into(), String::new()]);
        table.row(["a-long-name".into(), "node-1".into(), "free".into()]);
        assert_eq!(
            table.render(),
            "NAME          NODE     STATE\ngpu-0         n\na-long-name   node-1   free\n"
        );
    }
}
