//! The plain text part: for terminals, small screens and screen readers.

use std::fmt::Write;

use super::facts::Facts;

/// The widest label is `Coordinates`.
const LABEL_WIDTH: usize = 13;

/// The facts as lines.
pub(in crate::delivery) fn lay_out(facts: &Facts) -> String {
    let mut out = String::new();
    // Writing to a string never fails.
    let _ = write(&mut out, facts);
    out
}

fn write(out: &mut String, facts: &Facts) -> std::fmt::Result {
    writeln!(out, "{}\n", facts.title)?;
    if let Some(note) = &facts.note {
        writeln!(out, "{note}\n")?;
    }
    for (label, value) in &facts.details {
        writeln!(out, "{label:LABEL_WIDTH$}{value}")?;
    }
    if let Some(link) = &facts.link {
        writeln!(out, "{:LABEL_WIDTH$}{link}", "Details")?;
    }
    if !facts.rows.is_empty() {
        writeln!(out, "\n{:>5}  {:23}  Place", "M", "Time")?;
        for row in &facts.rows {
            writeln!(out, "{:>5}  {:23}  {}", row.magnitude, row.origin, row.place)?;
        }
    }
    writeln!(out, "\n{}", "-".repeat(40))?;
    for (label, value) in &facts.ending {
        writeln!(out, "{:7}{value}", format!("{label}:"))?;
    }
    Ok(())
}
