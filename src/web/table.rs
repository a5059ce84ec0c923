//! A table in words as one of a page.

use serde::Serialize;

use super::shell::{Markup, Refusal};
use crate::words::{Side, Table};

/// The table under a caption; `chosen` says of which rows it is that they are what was asked for, by their number.
pub(super) fn table_of(caption: &str, table: &Table, chosen: impl Fn(usize) -> bool) -> Result<Markup, Refusal> {
    #[derive(Serialize)]
    struct Column<'t> {
        head: &'t str,
        right: bool,
    }
    #[derive(Serialize)]
    struct Line<'t> {
        cells: &'t [String],
        chosen: bool,
    }
    #[derive(Serialize)]
    struct Shown<'t> {
        caption: &'t str,
        columns: Vec<Column<'t>>,
        rows: Vec<Line<'t>>,
    }
    let columns = table.columns.iter().map(|(head, side)| Column { head, right: *side == Side::Right }).collect();
    let rows = table.rows.iter().enumerate().map(|(number, cells)| Line { cells, chosen: chosen(number) }).collect();
    Markup::filled("table.html", Shown { caption, columns, rows })
}
