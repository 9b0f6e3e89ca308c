//! A table whose rows arrive one after another: its columns become wider, and never narrower.

use unicode_width::UnicodeWidthStr as _;

use super::columns::Columns;
use super::screen::{fit, printable};

/// A line of the table.
pub(crate) struct Row {
    /// What happened to the object.
    pub(crate) sign: char,
    /// The SGR parameters of the line.
    pub(crate) parameters: &'static str,
    pub(crate) cells: Vec<String>,
    /// A text after the last column.
    pub(crate) note: &'static str,
}

/// Rows are held until there are enough of them to know the widths of the columns.
pub(crate) struct Table {
    /// Whether objects of several namespaces are shown, unless they have none.
    has_namespaces: bool,
    columns: Columns,
    /// The widest text of each column so far.
    widths: Vec<usize>,
    held: Vec<Row>,
    has_header: bool,
}

/// The most rows that are held.
const HELD: usize = 500;

/// The spaces between columns.
const GAP: usize = 2;

/// A column that does not fit is cut, but not shorter than this.
const SHORTEST: usize = 8;

impl Table {
    pub(crate) fn new(columns: Columns, has_namespaces: bool) -> Self {
        Self {
            has_namespaces,
            columns,
            widths: Vec::new(),
            held: Vec::new(),
            has_header: false,
        }
    }

    /// Adds a row for an object; `json` is empty if the object is not known as JSON. Returns whether it is time to print.
    pub(crate) fn add(
        &mut self,
        (sign, parameters): (char, &'static str),
        (namespace, name): (&str, &str),
        json: &[u8],
        note: &'static str,
    ) -> bool {
        let object = serde_json::from_slice(json).unwrap_or_default();
        let mut cells = Vec::new();
        self.has_namespaces &= !namespace.is_empty();
        if self.has_namespaces {
            cells.push(namespace.to_owned());
        }
        if self.columns.has_name {
            cells.push(name.to_owned());
        }
        cells.extend(self.columns.cells(&object));
        for cell in &mut cells {
            // Only the last column of an Event has several lines.
            if let Some((first, _)) = cell.split_once(['\n', '\r']) {
                *cell = format!("{first}...");
            }
            *cell = printable(cell);
        }
        self.held.push(Row {
            sign,
            parameters,
            cells,
            note,
        });
        self.has_header || self.held.len() >= HELD
    }

    /// Formats the rows that are held, for a terminal of this width. The first ones follow the header.
    pub(crate) fn print(
        &mut self,
        width: Option<usize>,
        paint: impl Fn(&str, &str) -> String,
    ) -> Vec<String> {
        let mut rows = core::mem::take(&mut self.held);
        if rows.is_empty() {
            return Vec::new();
        }
        if !self.has_header {
            self.has_header = true;
            rows.insert(0, self.header());
        }
        for row in &rows {
            self.widths.resize(row.cells.len(), 0);
            for (widest, cell) in self.widths.iter_mut().zip(&row.cells) {
                *widest = cell.width().max(*widest);
            }
        }
        let widths = fitting(&self.widths, width);
        let format = |row: &Row| paint(row.parameters, &fit(&line(row, &widths), width));
        rows.iter().map(format).collect()
    }

    fn header(&self) -> Row {
        let namespace = self.has_namespaces.then_some("NAMESPACE");
        let name = self.columns.has_name.then_some("NAME");
        let titles = namespace
            .into_iter()
            .chain(name)
            .chain(self.columns.titles());
        Row {
            sign: ' ',
            parameters: "1",
            cells: titles.map(printable).collect(),
            note: "",
        }
    }
}

/// Narrows the widest columns until a line fits.
fn fitting(widths: &[usize], width: Option<usize>) -> Vec<usize> {
    let mut widths = widths.to_vec();
    let Some(width) = width else { return widths };
    // The sign and a space, and the gaps.
    let room = width.saturating_sub(2 + GAP * widths.len().saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > SHORTEST) else {
            break;
        };
        *widest -= 1;
    }
    widths
}

fn line(row: &Row, widths: &[usize]) -> String {
    let mut line = format!("{} ", row.sign);
    let mut missing = 0;
    for (cell, &width) in row.cells.iter().zip(widths) {
        line.extend(core::iter::repeat_n(' ', missing));
        let cell = fit(cell, Some(width));
        line.push_str(&cell);
        missing = width.saturating_sub(cell.width()) + GAP;
    }
    line + row.note
}
