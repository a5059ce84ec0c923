//! One line of a table and its fields. A line is a row: none of the services breaks one within quotes, and so the longest
//! row, and with it the number of its fields, is bounded.

use csv::{ByteRecord, ReaderBuilder, Trim};

/// The longest line that is looked at, in bytes. Real ones have about two hundred.
pub(super) const MAX_LINE_BYTES: usize = 64 << 10;

/// How fields are kept apart.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub delimiter: u8,
    /// Whether a field may stand in quotes, and quotes within it are doubled.
    pub quoting: bool,
}

/// Comma-separated values by RFC 4180.
pub(super) const CSV: Style = Style { delimiter: b',', quoting: true };

/// The fields of a line, without blanks around them; `None` if it is too long.
pub(super) fn fields(line: &[u8], style: Style) -> Option<ByteRecord> {
    if line.len() > MAX_LINE_BYTES {
        return None;
    }
    let mut reader = ReaderBuilder::new();
    reader.delimiter(style.delimiter).quoting(style.quoting).trim(Trim::All).has_headers(false).flexible(true);
    let mut record = ByteRecord::new();
    // Bytes in memory, and records of any number of fields: there is nothing to fail.
    let read = reader.buffer_capacity(line.len().max(1)).from_reader(line).read_byte_record(&mut record);
    read.ok().map(|_| record)
}

/// The lines of a text, without their ends and without empty ones, each with its number from 1.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let numbered = (1_u64..).zip(text.split(|byte| *byte == b'\n'));
    numbered.map(|(number, line)| (number, line.trim_ascii())).filter(|(_, line)| !line.is_empty())
}
