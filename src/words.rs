//! Counts, lengths of time and tables in words for people: the same on the command line and on pages. How a table is laid out
//! is its reader's business.

use crate::time::Span;

/// Which side a column keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// A table: heads, and cells below them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<(String, Side)>,
    /// As many cells in each as there are columns.
    pub rows: Vec<Vec<String>>,
}

/// A count with its thousands apart: `18,738`.
#[must_use]
pub fn count(value: u64) -> String {
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

/// So many of these: `1 event`, `2 events`.
#[must_use]
pub fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
}

/// A length of time for people: `47 min 51 s`, `6 h 12 min`, `2 d 4 h`; two units at most.
#[must_use]
pub fn duration(span: Span) -> String {
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

/// Reads a count.
///
/// # Errors
/// A message that says what was expected.
pub fn whole_number(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // More than 64 bits hold is more than anything here may be.
    if digits { Ok(text.parse().unwrap_or(u64::MAX)) } else { Err(format!("'{text}' is not a count: expected a whole number")) }
}

/// Reads a count that is at most as large as 32 bits hold.
///
/// # Errors
/// A message that says what was expected.
pub fn small_number(text: &str) -> Result<u32, String> {
    u32::try_from(whole_number(text)?).map_err(|_| format!("'{text}' is too large: expected at most {}", u32::MAX))
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

    #[test]
    fn counts_are_read_whole() {
        assert_eq!(["7", "0", "99999999999999999999"].map(whole_number), [Ok(7), Ok(0), Ok(u64::MAX)]);
        for wrong in ["", "-1", "+1", "1.5", "1e3", "٣", " 1"] {
            assert_eq!(whole_number(wrong), Err(format!("'{wrong}' is not a count: expected a whole number")));
        }
        assert!(small_number("4294967296").is_err_and(|message| message.ends_with("expected at most 4294967295")));
    }
}
