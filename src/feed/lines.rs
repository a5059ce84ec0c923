//! One line of a table and its fields. A line is a row: none of the services breaks one within quotes, and so the longest
//! row, and with it the number of its fields, is bounded.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

/// The longest line that is looked at, in bytes. Real ones have about two hundred.
pub(super) const MAX_LINE_BYTES: usize = 64 << 10;
/// The most fields of a line. Real ones have about twenty.
pub(super) const MAX_FIELDS: usize = 256;

/// How fields are kept apart.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub delimiter: u8,
    /// Whether a field may stand in quotes, and quotes within it are doubled.
    pub quoting: bool,
}

/// Comma-separated values by RFC 4180.
pub(super) const CSV: Style = Style { delimiter: b',', quoting: true };

/// Cuts lines into fields.
pub(super) struct Splitter {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Splitter {
    pub fn new(style: Style) -> Splitter {
        let reader = ReaderBuilder::new().delimiter(style.delimiter).quoting(style.quoting).build();
        Splitter { reader, text: vec![0; MAX_LINE_BYTES + 1], ends: vec![0; MAX_FIELDS] }
    }

    /// The fields of a line, without blanks around them; what is not UTF-8 becomes U+FFFD.
    ///
    /// # Errors
    /// What is wrong with it: longer than [`MAX_LINE_BYTES`], more than [`MAX_FIELDS`], or a quote that is not closed.
    pub fn fields(&mut self, line: &[u8]) -> Result<Vec<String>, String> {
        if line.len() > MAX_LINE_BYTES {
            return Err(format!("it is longer than {MAX_LINE_BYTES} bytes"));
        }
        self.reader.reset();
        // With its end a line is a record, unless a quote is open.
        let whole = [line, b"\n"].concat();
        let (result, _, _, fields) = self.reader.read_record(&whole, &mut self.text, &mut self.ends);
        match result {
            ReadRecordResult::Record => {}
            ReadRecordResult::End => return Ok(Vec::new()),
            ReadRecordResult::OutputEndsFull => return Err(format!("it has more than {MAX_FIELDS} fields")),
            ReadRecordResult::InputEmpty | ReadRecordResult::OutputFull => return Err("a quote is not closed".to_owned()),
        }
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let field = |(start, end): (usize, &usize)| String::from_utf8_lossy(&self.text[start..*end]).trim().to_owned();
        Ok(starts.zip(&self.ends[..fields]).map(field).collect())
    }
}

/// The lines of a text, without their ends and without empty ones, each with its number from 1.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let numbered = (1_u64..).zip(text.split(|byte| *byte == b'\n'));
    numbered.map(|(number, line)| (number, line.trim_ascii())).filter(|(_, line)| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_into_bounded_fields() {
        let mut csv = Splitter::new(CSV);
        for (line, fields) in [
            ("a,b", &["a", "b"][..]),
            ("\"12 km SE of \"\"x\"\", Russia\", 5 ,", &["12 km SE of \"x\", Russia", "5", ""]),
            (",", &["", ""]),
            ("a", &["a"]),
        ] {
            assert_eq!(csv.fields(line.as_bytes()).expect(line), fields);
        }
        assert_eq!(csv.fields(b"\"a,b"), Err("a quote is not closed".to_owned()));
        assert_eq!(csv.fields(b"a,b").expect("as before"), ["a", "b"]);
        assert_eq!(csv.fields(&[b','; MAX_FIELDS]), Err("it has more than 256 fields".to_owned()));
        assert_eq!(csv.fields(&[b','; MAX_FIELDS - 1]).map(|fields| fields.len()), Ok(MAX_FIELDS));
        assert_eq!(csv.fields(&vec![b'x'; MAX_LINE_BYTES]).map(|fields| fields.len()), Ok(1));
        assert!(csv.fields(&vec![b'x'; MAX_LINE_BYTES + 1]).is_err());
        assert_eq!(csv.fields(b"\xff,b").expect("text"), ["\u{fffd}", "b"]);
        let bars = Style { delimiter: b'|', quoting: false };
        assert_eq!(Splitter::new(bars).fields(b"1 | 5 km \"NE\" | ").expect("text"), ["1", "5 km \"NE\"", ""]);
    }
}
