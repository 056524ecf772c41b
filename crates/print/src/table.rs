//! For people: columns.

use std::fmt;

/// How a cell is to stand out on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    /// As it should be.
    Good,
    /// Worth a look.
    Careful,
    /// Not as it should be.
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
    #[must_use]
    pub fn paint(self, text: &str, colours: bool) -> String {
        if colours { format!("{}{text}\x1b[0m", self.code()) } else { text.to_owned() }
    }
}

/// A text and how it stands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tint: Option<Tint>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), tint: None }
    }
}

impl Cell {
    /// A text that stands out.
    #[must_use]
    pub fn tinted(text: &str, tint: Tint) -> Self {
        Self { text: text.to_owned(), tint: Some(tint) }
    }
}

/// Columns as wide as their widest cell and three spaces between them; no borders, nothing after the last cell.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table whose first row is this; `Table::default()` has none.
    #[must_use]
    pub fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|title| Cell::from(*title)).collect()] }
    }

    /// Adds a row.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// How wide each column is.
    #[must_use]
    pub fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.text.chars().count()).max()
        };
        (0..columns).map(|at| width(at).unwrap_or(0)).collect()
    }

    /// The table, coloured where asked.
    #[must_use]
    pub fn render(&self, colours: bool) -> String {
        let widths = self.widths();
        self.rows.iter().map(|row| line(row, &widths, colours)).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// One line of a table whose columns have these widths.
#[must_use]
pub fn line(row: &[Cell], widths: &[usize], colours: bool) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_its_columns_leaves_no_trailing_space_and_colours_only_where_asked() {
        let mut table = Table::new(&["NAME", "STATE", "NODE"]);
        table.row([Cell::from("a-long-name"), Cell::tinted("Free", Tint::Good), "n".into()]);
        table.row([Cell::from("b"), Cell::tinted("Tainted", Tint::Careful), "".into()]);
        table.row(["c"]);
        assert_eq!(
            table.to_string(),
            "NAME          STATE     NODE\na-long-name   Free      n\nb             Tainted\nc\n"
        );
        assert!(table.render(true).contains("\x1b[32mFree\x1b[0m      n\n"));
    }

    #[test]
    fn a_table_without_a_header_is_as_wide_as_its_rows() {
        let mut table = Table::default();
        table.row(["a", "b"]);
        table.row(["ccc", "d"]);
        assert_eq!(table.to_string(), "a     b\nccc   d\n");
    }
}
