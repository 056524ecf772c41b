//! What people and programs read: tables as kubectl draws them, JSON, YAML, names.

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

/// `-o` where a table has no wider form and things have no names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Plain {
    /// For people.
    #[default]
    Table,
    /// For programs, everything.
    Json,
    /// The same as YAML.
    Yaml,
}

impl Plain {
    pub(crate) fn structured(self) -> Option<Structured> {
        match self {
            Self::Table => None,
            Self::Json => Some(Structured::Json),
            Self::Yaml => Some(Structured::Yaml),
        }
    }
}

/// Forms for programs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Structured {
    Json,
    Yaml,
}

/// Writes `value` for programs.
pub(crate) fn structured(
    console: &mut Console,
    value: &impl Serialize,
    form: Structured,
) -> Result<(), Error> {
    let failed = |cause: String| Error::Unreadable { what: "write output".into(), cause };
    let text = match form {
        Structured::Json => {
            serde_json::to_string_pretty(value).map_err(|error| failed(error.to_string()))? + "\n"
        }
        Structured::Yaml => serde_saphyr::to_string(value).map_err(|error| failed(error.to_string()))?,
    };
    console.print(&text)
}

/// How a cell is to stand out on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tint {
    Good,
    Careful,
    Bad,
}

impl Tint {
    fn code(self) -> &'static str {
        match self {
            Self::Good => "\x1b[32m",
            Self::Careful => "\x1b[33m",
            Self::Bad => "\x1b[31m",
        }
    }

    /// The text in this colour, where there are colours.
    pub(crate) fn paint(self, text: &str, colours: bool) -> String {
        if colours { format!("{}{text}\x1b[0m", self.code()) } else { text.to_owned() }
    }
}

/// A text and how it stands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tint: Option<Tint>,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, tint: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Cell {
    pub(crate) fn tinted(text: &str, tint: Tint) -> Self {
        Self { text: text.to_owned(), tint: Some(tint) }
    }
}

/// Columns as wide as their widest cell and three spaces between them; no borders, nothing after the last cell.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|title| Cell::from(*title)).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub(crate) fn widths(&self) -> Vec<usize> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |at: usize| {
            self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.text.chars().count()).max()
        };
        (0..columns).map(|at| width(at).unwrap_or(0)).collect()
    }

    pub(crate) fn render(&self, colours: bool) -> String {
        let widths = self.widths();
        self.rows.iter().map(|row| line(row, &widths, colours)).collect()
    }
}

/// One line of a table whose columns have these widths.
pub(crate) fn line(row: &[Cell], widths: &[usize], colours: bool) -> String {
    let mut text = String::new();
    let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
    for (at, (cell, width)) in row.iter().zip(widths).enumerate().take(last + 1) {
        let pad = if at == last { 0 } else { width.saturating_sub(cell.text.chars().count()) + 3 };
        match cell.tint {
            Some(tint) => text.push_str(&tint.paint(&cell.text, colours)),
            None => text.push_str(&cell.text),
        }
        text.push_str(&" ".repeat(pad));
    }
    text.push('\n');
    text
}

/// `3 pods`, `1 pod`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_its_columns_and_colours_only_where_asked() {
        let mut table = Table::new(&["NAME", "STATE", "NODE"]);
        table.row(vec!["a-long-name".into(), Cell::tinted("Free", Tint::Good), "n".into()]);
        table.row(vec!["b".into(), Cell::tinted("Tainted", Tint::Careful), "".into()]);
        assert_eq!(
            table.render(false),
            "NAME          STATE     NODE\na-long-name   Free      n\nb             Tainted\n"
        );
        assert!(table.render(true).contains("\x1b[32mFree\x1b[0m      n\n"));
    }
}
