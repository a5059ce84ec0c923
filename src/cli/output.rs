//! Printing: aligned tables and numbers for people, JSON for programs.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::failure::Failure;
use crate::event::Event;
use crate::time::Span;
use crate::words::Table as Words;

pub(super) use crate::words::{Side, count, counted, duration};

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Aligned tables for people
    #[default]
    Text,
    /// One JSON document
    Json,
}

/// Prints to standard output.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints one JSON document.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    print(&(text + "\n"))
}

/// A bar on standard error if that is a terminal, else one that draws nothing. `template` is indicatif's.
pub(super) fn progress_bar(length: Option<u64>, template: &str) -> ProgressBar {
    let target = if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(length, target).with_style(style)
}

/// A table with a rule under its heads, ending in a line break.
pub(super) fn table(columns: &[(&str, Side)], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let cell = |text: &str, side: Side| {
        Cell::new(text).set_alignment(match side {
            Side::Left => CellAlignment::Left,
            Side::Right => CellAlignment::Right,
        })
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|(head, side)| cell(head, *side)));
    for row in rows {
        table.add_row(row.iter().zip(columns).map(|(text, (_, side))| cell(text, *side)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// A table that is shown elsewhere too.
pub(super) fn printed(words: &Words) -> String {
    let columns: Vec<_> = words.columns.iter().map(|(head, side)| (head.as_str(), *side)).collect();
    table(&columns, words.rows.iter().cloned())
}

/// Names with their values below each other, indented.
pub(super) fn pairs(rows: &[(impl AsRef<str>, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.as_ref().len()).max().unwrap_or(0) + 2;
    rows.iter().fold(String::new(), |text, (name, value)| text + &format!("  {:<width$}{value}\n", name.as_ref()))
}

/// Seconds as JSON shows them: whole where they are whole.
pub(super) fn seconds(span: Span) -> serde_json::Number {
    if span.ticks().is_multiple_of(1_000_000) {
        (span.ticks() / 1_000_000).into()
    } else {
        // A span has finitely many seconds.
        serde_json::Number::from_f64(span.as_seconds()).unwrap_or_else(|| 0.into())
    }
}

/// Which event it is, in short, as JSON shows it where it is not the subject.
pub(super) fn event_in_short(event: &Event) -> serde_json::Value {
    serde_json::json!({ "id": event.id, "magnitude": event.magnitude, "time": event.origin_at })
}
