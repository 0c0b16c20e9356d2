//! Tables for terminals: columns as wide as their widest cell.

use crate::out::say;

/// Where the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table, row by row.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these heads.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Table {
        let heads = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
        Table { columns: columns.iter().map(|(_, align)| *align).collect(), rows: vec![heads] }
    }

    /// A table with these heads, whose first column stands left and all others right.
    pub(crate) fn of_numbers(heads: &[&str]) -> Table {
        let align = |i| if i == 0 { Align::Left } else { Align::Right };
        let columns: Vec<_> = heads.iter().enumerate().map(|(i, head)| (*head, align(i))).collect();
        Table::new(&columns)
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The lines, two spaces between columns and none at the end.
    pub(crate) fn lines(&self) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells =
                row.iter().zip(&widths).zip(&self.columns).map(|((cell, &width), align)| match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    /// Prints it.
    pub(crate) fn print(&self) {
        self.lines().iter().for_each(|line| say!("{line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("name", Align::Left), ("n", Align::Right), ("path", Align::Left)]);
        table.row(["a", "1", "x"].map(str::to_owned));
        table.row(["volume", "1000", "a long path"].map(str::to_owned));
        assert_eq!(table.lines(), ["name       n  path", "a          1  x", "volume  1000  a long path"]);
    }

    #[test]
    fn numbers_stand_right() {
        let mut table = Table::of_numbers(&["", "requests"]);
        table.row(["read", "7"].map(str::to_owned));
        assert_eq!(table.lines(), ["      requests", "read         7"]);
    }
}
