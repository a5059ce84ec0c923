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
    struct Line {
        /// Each in pieces that stay in one line.
        cells: Vec<Vec<String>>,
        chosen: bool,
    }
    #[derive(Serialize)]
    struct Shown<'t> {
        caption: &'t str,
        columns: Vec<Column<'t>>,
        rows: Vec<Line>,
    }
    let columns = table.columns.iter().map(|(head, side)| Column { head, right: *side == Side::Right }).collect();
    let rows = table
        .rows
        .iter()
        .enumerate()
        .map(|(number, row)| Line { cells: row.iter().map(|cell| pieces(cell)).collect(), chosen: chosen(number) })
        .collect();
    Markup::filled("table.html", Shown { caption, columns, rows })
}

/// A cell in the pieces between which a line may end: a short word stays with the one before it.
fn pieces(cell: &str) -> Vec<String> {
    const SHORT: usize = 3;
    let mut pieces: Vec<String> = Vec::new();
    for word in cell.split(' ') {
        match pieces.last_mut() {
            Some(piece) if word.chars().count() <= SHORT => {
                piece.push(' ');
                piece.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_long_words_only() {
        for (cell, expected) in [
            ("M 6.9 at 2025-07-30T00:09:58.961Z", vec!["M 6.9 at", "2025-07-30T00:09:58.961Z"]),
            ("2025-07-30 (55)", vec!["2025-07-30", "(55)"]),
            ("token-bucket, b = 20", vec!["token-bucket, b = 20"]),
            ("-", vec!["-"]),
        ] {
            assert_eq!(pieces(cell), expected);
        }
    }
}
