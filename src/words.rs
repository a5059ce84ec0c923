//! Counts and lengths of time as people read them, on the command line and in pages.

use crate::time::Span;

/// So many of these: `1 event`, `2 events`.
#[must_use]
pub fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
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
