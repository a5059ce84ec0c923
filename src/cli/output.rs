//! Printing: aligned tables and numbers for people, JSON for programs.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::failure::Failure;
use crate::event::Event;
use crate::time::Span;

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

/// Which side a column keeps to.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Left,
    Right,
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

/// Names with their values below each other, indented.
pub(super) fn pairs(rows: &[(impl AsRef<str>, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.as_ref().len()).max().unwrap_or(0) + 2;
    rows.iter().fold(String::new(), |text, (name, value)| text + &format!("  {:<width$}{value}\n", name.as_ref()))
}

/// So many of these: `1 event`, `2 events`.
pub(super) fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
}

/// A count with its thousands apart: `18,738`.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
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

/// A length of time for people: `47 min 51 s`, `6 h 12 min`, `2 d 4 h`; two units at most.
pub(super) fn duration(span: Span) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    let seconds = span.ticks() / 1_000_000;
    let Some(first) = UNITS.iter().position(|(_, length)| seconds >= *length) else {
        return format!("{} ms", span.ticks() / 1_000);
    };
    let (unit, length) = UNITS[first];
    let whole = format!("{} {unit}", seconds / length);
    match UNITS.get(first + 1) {
        Some((next, part)) if seconds % length >= *part => format!("{whole} {} {next}", seconds % length / part),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_made_for_reading() {
        assert_eq!([0, 999, 1_000, 18_738, 1_234_567].map(count), ["0", "999", "1,000", "18,738", "1,234,567"]);
        let read = |millis| duration(Span::from_millis(millis));
        assert_eq!(
            [5, 2_871_000, 22_339_203, 60_000, 187_200_000].map(read),
            ["5 ms", "47 min 51 s", "6 h 12 min", "1 min", "2 d 4 h"]
        );
    }
}
