//! The fast reader against a plain one on the `csv` crate: the same times from every valid file, the same line for the
//! first bad row of every other.

use proptest::prelude::*;
use throttler::catalogue::{CatalogueError, Filter, Query};
use throttler::event::Magnitude;
use throttler::time::Timestamp;

use crate::support::{read, read_row_by_row};

/// What the plain reader finds, or the line of the first bad row.
fn plainly(text: &str, query: &Query) -> Result<Vec<Timestamp>, u64> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let strict = first_unquotable_row(text);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let (mut columns, mut times, mut record) = (Vec::new(), Vec::new(), csv::StringRecord::new());
    while reader.read_record(&mut record).expect("UTF-8 from memory") {
        let start = record.position().expect("from a reader").byte();
        let start = skip_line_ends(text, usize::try_from(start).expect("small"));
        let line = || line_at(text, start);
        if strict.is_some_and(|bad| start >= bad) {
            return Err(line_at(text, strict.unwrap_or(start)));
        }
        if columns.is_empty() {
            columns = record.iter().map(str::to_owned).collect();
            continue;
        }
        let place = |name: &str| columns.iter().position(|column| column == name);
        if record.len() != columns.len() {
            return Err(line());
        }
        let at: Timestamp = record[place("time").expect("a time column")].parse().map_err(|_| line())?;
        let magnitude = match place("mag").map(|place| &record[place]) {
            None | Some("") => None,
            Some(text) => Some(text.parse::<Magnitude>().map_err(|_| line())?),
        };
        if query.filter.min_magnitude.is_none_or(|least| magnitude.is_some_and(|found| found >= least)) {
            times.push(at);
        }
    }
    times.sort_unstable();
    match strict {
        Some(bad) => Err(line_at(text, bad)),
        None => Ok(times),
    }
}

fn skip_line_ends(text: &str, from: usize) -> usize {
    from + text[from..].len() - text[from..].trim_start_matches(['\r', '\n']).len()
}

fn line_at(text: &str, place: usize) -> u64 {
    1 + text[..place].matches('\n').count() as u64
}

/// Where the first row starts whose quotes or carriage returns RFC 4180 forbids, byte by byte.
fn first_unquotable_row(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut row, mut at) = (0, 0);
    loop {
        // At the start of a field.
        if bytes.get(at) == Some(&b'"') {
            at += 1;
            loop {
                match (bytes.get(at), bytes.get(at + 1)) {
                    (None, _) => return Some(row),
                    (Some(b'"'), Some(b'"')) => at += 2,
                    (Some(b'"'), _) => break,
                    _ => at += 1,
                }
            }
            at += 1;
        } else {
            while bytes.get(at).is_some_and(|byte| !b",\"\r\n".contains(byte)) {
                at += 1;
            }
        }
        match (bytes.get(at), bytes.get(at + 1)) {
            (None, _) | (Some(b'\r'), None) => return None,
            (Some(b','), _) => at += 1,
            (Some(b'\n'), _) => (row, at) = (at + 1, at + 1),
            (Some(b'\r'), Some(b'\n')) => (row, at) = (at + 2, at + 2),
            _ => return Some(row),
        }
    }
}

/// A field as it may stand in a file, with the quotes that it needs, or needlessly with quotes.
fn quoted(text: &str, always: bool) -> String {
    if always || text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn some_time() -> impl Strategy<Value = String> {
    let usual = (0_i64..4_000_000_000_000).prop_map(|millis| Timestamp::from_millis(millis).expect("in range").to_string());
    let other = prop::sample::select(vec!["2025-01-01", "2025-01-01T12:00:00Z", "2025-01-01T12:00:00.123456+05:30"]);
    prop_oneof![8 => usual, 1 => other.prop_map(str::to_owned)]
}

fn some_text() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec!["12 km N of Here", ",", "\"", "\n", "\r\n", "é", "", "x", "aftershock "]);
    prop::collection::vec(parts, 0..12).prop_map(|parts| parts.concat())
}

/// A file: columns in any order, some missing, rows, line ends, and whether the last line has one.
fn some_file() -> impl Strategy<Value = String> {
    let columns = prop::sample::subsequence(vec!["mag", "place", "id", "type", "net", "updated"], 0..=6).prop_shuffle();
    let magnitude = prop::sample::select(vec!["5", "4.95", "", "-0.5", "6.123", "5e0", "4.9"]);
    let row = (some_time(), magnitude, some_text(), some_text(), 0_u8..16);
    (columns, any::<prop::sample::Index>(), prop::collection::vec(row, 0..40), any::<[bool; 3]>()).prop_map(
        |(mut columns, place, rows, [returns, last_end, mark])| {
            columns.insert(place.index(columns.len() + 1), "time");
            let end = if returns { "\r\n" } else { "\n" };
            let mut lines = vec![columns.join(",")];
            for (time, magnitude, one, other, style) in rows {
                let field = |name: &&str| match *name {
                    "time" => quoted(&time, style == 0),
                    "mag" => quoted(magnitude, style == 1),
                    "place" => quoted(&one, style < 8),
                    _ => quoted(&other, style == 3),
                };
                lines.push(columns.iter().map(field).collect::<Vec<_>>().join(","));
                if style == 15 {
                    lines.push(String::new());
                }
            }
            let mark = if mark { "\u{feff}" } else { "" };
            format!("{mark}{}{}", lines.join(end), if last_end { end } else { "" })
        },
    )
}

/// The rows of a file again and again, so that they are found strip by strip and piece by piece, ever elsewhere in them;
/// from `turn` on, if carriage returns are new to it, each line ends with one.
fn many_times(text: &str, times: usize, turn: usize) -> String {
    let (header, body) = text.split_once('\n').unwrap_or((text, ""));
    let end = if body.is_empty() || body.ends_with('\n') { "" } else { "\n" };
    let mut long = format!("{header}\n");
    for round in 0..times {
        let body = format!("{body}{end}");
        long.push_str(&if round >= turn && !text.contains('\r') { body.replace('\n', "\r\n") } else { body });
    }
    long
}

/// What the reader finds, whether it takes rows of the usual form together or each by itself.
fn fast(text: &str, query: &Query) -> Result<Vec<Timestamp>, u64> {
    let [together, row_by_row] = [read, read_row_by_row].map(|read| {
        read(text.as_bytes(), query).map_err(|error| match error {
            CatalogueError::Row(row) => row.line,
            other => panic!("{other}"),
        })
    });
    assert_eq!(together, row_by_row, "{text:?}");
    together
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn both_find_the_same_in_a_valid_file(text in some_file(), filtered in any::<bool>()) {
        let has_magnitude = text.lines().next().is_some_and(|header| header.contains("mag"));
        let least = (filtered && has_magnitude).then(|| "4.95".parse().expect("a magnitude"));
        let query = Query { filter: Filter { min_magnitude: least, ..Filter::default() }, ..Query::default() };
        let expected = plainly(&text, &query);
        prop_assert!(expected.is_ok(), "the file is valid: {text:?}");
        prop_assert_eq!(fast(&text, &query), expected);
    }

    #[test]
    fn both_refuse_the_same_line_of_a_damaged_file(
        text in some_file(),
        place in any::<prop::sample::Index>(),
        damage in prop::sample::select(vec!["\"", ",", "\n", "\r", "x", "\"\"", "\"x", ""]),
    ) {
        // The header stays whole, and so does every character.
        prop_assume!(text.contains('\n'));
        let body = text.find('\n').map_or(text.len(), |end| end + 1);
        let places: Vec<_> = (body..=text.len()).filter(|place| text.is_char_boundary(*place)).collect();
        let place = places[place.index(places.len())];
        let rest = if damage.is_empty() { text[place..].chars().as_str().get(1..).unwrap_or("") } else { &text[place..] };
        let damaged = format!("{}{damage}{rest}", &text[..place]);
        let query = Query::default();
        prop_assert_eq!(fast(&damaged, &query), plainly(&damaged, &query), "{:?}", damaged);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn both_find_the_same_in_a_long_file(
        text in some_file(),
        times in 1_usize..150,
        turn in 0_usize..150,
        damage in prop::option::of((any::<prop::sample::Index>(), prop::sample::select(vec!["\"", ",", "\n", "\r", "x"]))),
    ) {
        let mut long = many_times(&text, times, turn);
        if let Some((place, damage)) = damage {
            let body = long.find('\n').map_or(long.len(), |end| end + 1);
            let place = body + place.index(long.len() - body + 1);
            let place = (place..=long.len()).find(|place| long.is_char_boundary(*place)).unwrap_or(long.len());
            long.insert_str(place, damage);
        }
        let query = Query::default();
        prop_assert!(fast(&long, &query) == plainly(&long, &query), "{times} times {text:?}, {damage:?}");
    }
}

#[test]
fn rows_shorter_than_a_chunk_are_all_found() {
    for rows in [1, 63, 64, 127, 128, 129, 5_000] {
        for row in ["2025-01-01,5", "2025-01-01T00:00:00.000Z,5.1", "2025-01-01T00:00:00.000Z,\"5.1\"", "2025-01-01,5\n\n\n\n"] {
            let text = format!("time,mag\n{}", format!("{row}\n").repeat(rows));
            assert_eq!(fast(&text, &Query::default()).map(|times| times.len()), Ok(rows), "{row:?}");
        }
    }
}
