//! For people: columns.

use std::borrow::Cow;
use std::fmt;

use crate::{
    harmless::in_a_line,
    tint::{PLAIN, Tint},
};

impl Tint {
    /// The text in this colour, where there are colours.
    #[must_use]
    pub fn paint(self, text: &str, colours: bool) -> String {
        let text = in_a_line(text);
        if colours { format!("{}{text}{PLAIN}", self.code()) } else { text.into_owned() }
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
        let text = text.into();
        let harmful = match in_a_line(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(shown) => Some(shown),
        };
        Self { text: harmful.unwrap_or(text), tint: None }
    }
}

impl Cell {
    /// A text that stands out.
    #[must_use]
    pub fn tinted(text: &str, tint: Tint) -> Self {
        Self { text: in_a_line(text).into_owned(), tint: Some(tint) }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    /// At most `width` characters; `…` stands for what is missing.
    fn cut(&self, width: usize) -> String {
        if self.width() <= width {
            return self.text.clone();
        }
        self.text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
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

    /// Every column, as wide as its widest cell.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(Cell::width).max();
        let columns = (0..columns).map(|at| Column { at, width: width(at).unwrap_or(0), cut: false });
        Layout { columns: columns.collect() }
    }

    /// The columns that fit into `fit.width` characters, named by the titles in the first row.
    #[must_use]
    pub fn layout_within(&self, fit: &Fit<'_>) -> Layout {
        let mut layout = self.layout();
        let title =
            |column: &Column| self.rows.first().and_then(|row| row.get(column.at)).map(|cell| &*cell.text);
        for optional in fit.optional {
            if layout.width() <= fit.width {
                return layout;
            }
            layout.columns.retain(|column| title(column) != Some(optional));
        }
        let elastic = |column: &Column| title(column).is_some_and(|title| fit.elastic.contains(&title));
        while layout.width() > fit.width {
            let widest =
                layout.columns.iter_mut().filter(|column| elastic(column)).max_by_key(|column| column.width);
            match widest {
                Some(column) if column.width > ELASTIC_WIDTH_MIN => {
                    column.width -= 1;
                    column.cut = true;
                }
                Some(_) | None => break,
            }
        }
        layout
    }

    /// The table, coloured where asked.
    #[must_use]
    pub fn render(&self, colours: bool) -> String {
        self.render_as(&self.layout(), colours)
    }

    /// The table in a layout, coloured where asked.
    #[must_use]
    pub fn render_as(&self, layout: &Layout, colours: bool) -> String {
        self.rows.iter().map(|row| layout.line(row, colours)).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// How a table gives way on a terminal. Columns that are neither optional nor elastic are always shown whole.
#[derive(Clone, Copy, Debug)]
pub struct Fit<'a> {
    /// Characters in a line of the terminal.
    pub width: usize,
    /// Titles of the columns to leave out, the first one first.
    pub optional: &'a [&'a str],
    /// Titles of the columns whose cells end in `…` where they are too long.
    pub elastic: &'a [&'a str],
}

/// An elastic column does not become narrower than this: fewer characters tell nothing.
const ELASTIC_WIDTH_MIN: usize = 16;
/// Spaces between columns.
const GAP: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Column {
    /// Its place in a row.
    at: usize,
    width: usize,
    /// Longer cells are cut.
    cut: bool,
}

/// Which columns of a table are shown, and how wide.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    columns: Vec<Column>,
}

impl Layout {
    fn width(&self) -> usize {
        let widths: usize = self.columns.iter().map(|column| column.width).sum();
        widths + GAP * self.columns.len().saturating_sub(1)
    }

    /// One row in these columns.
    #[must_use]
    pub fn line(&self, row: &[Cell], colours: bool) -> String {
        let mut cells: Vec<(String, Option<Tint>, usize)> = Vec::new();
        for column in &self.columns {
            let Some(cell) = row.get(column.at) else { continue };
            let text = if column.cut { cell.cut(column.width) } else { cell.text.clone() };
            cells.push((text, cell.tint, column.width));
        }
        let last = cells.iter().rposition(|(text, ..)| !text.is_empty()).unwrap_or(0);
        let mut line = String::new();
        for (at, (text, tint, width)) in cells.iter().enumerate().take(last + 1) {
            let pad = if at == last { 0 } else { width.saturating_sub(text.chars().count()) + GAP };
            match tint {
                Some(tint) => line.push_str(&tint.paint(text, colours)),
                None => line.push_str(text),
            }
            line.push_str(&" ".repeat(pad));
        }
        line.push('\n');
        line
    }
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
    fn a_cell_is_one_line_that_drives_no_terminal() {
        let mut table = Table::new(&["NAME", "STATE"]);
        table.row([Cell::from("a\x1b[2J\r"), Cell::tinted("b\nc\u{202e}", Tint::Bad)]);
        assert_eq!(table.render(true), "NAME         STATE\na\\x1b[2J\\r   \x1b[31mb\\nc\\u202e\x1b[0m\n");
    }

    #[test]
    fn a_table_without_a_header_is_as_wide_as_its_rows() {
        let mut table = Table::default();
        table.row(["a", "b"]);
        table.row(["ccc", "d"]);
        assert_eq!(table.to_string(), "a     b\nccc   d\n");
    }

    #[test]
    fn a_table_gives_way_column_by_column_and_names_stay_whole() {
        let mut table = Table::new(&["NAME", "MODEL", "TAINTS", "HOLDER"]);
        table.row([
            "node-1/gpu-0",
            "A100",
            "example.com/a-long-taint:NoSchedule",
            "research/trainer-7fvjb2mb4k",
        ]);
        let fit = |width| Fit { width, optional: &["MODEL"], elastic: &["TAINTS", "HOLDER"] };
        let within = |width| table.render_as(&table.layout_within(&fit(width)), false);
        assert_eq!(within(200), table.to_string());
        assert_eq!(
            within(80),
            "NAME           TAINTS                                HOLDER\n\
             node-1/gpu-0   example.com/a-long-taint:NoSchedule   research/trainer-7fvjb2mb4k\n"
        );
        let narrow = within(60);
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(narrow.contains("node-1/gpu-0   example.com/a-long") && narrow.contains('…'), "{narrow}");
        // Where nothing more can give way, lines are longer than the terminal: a name is never cut.
        assert!(
            within(10).contains("node-1/gpu-0   example.com/a-l…   research/traine…\n"),
            "{}",
            within(10)
        );
    }
}
