//! What people and programs read.

use std::io::{self, Write as _};

use anyhow::{Context, Result};

/// Columns as wide as their widest cell and three spaces between them.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
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

/// Writes to standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    io::stdout().lock().write_all(text.as_bytes()).context("write to standard output")
}

/// A note on standard error, so that it never mixes with output that a program reads.
pub(crate) fn note(text: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// How far it is, ten times in all.
pub(crate) fn progress(what: &str, done: usize, of: usize) {
    if done > 0 && (done == of || done.is_multiple_of((of / 10).max(1))) {
        note(&format!("{what}: {done} of {of}"));
    }
}
