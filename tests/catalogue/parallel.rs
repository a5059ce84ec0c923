//! Several threads give exactly what one gives.

use std::fmt::Write;

use proptest::prelude::*;
use throttler::catalogue::Query;

use crate::support::{read_file, saved};

/// A file of several blocks. Places hold line feeds, many of them before something that looks like a row.
fn large_file(seed: u64, rows: usize, fault: Option<(usize, &str)>) -> String {
    let mut state = seed | 1;
    let mut number = move |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let mut text = "time,mag,place,id\n".to_owned();
    for row in 0..rows {
        if let Some((_, damage)) = fault.filter(|(place, _)| *place == row) {
            text.push_str(damage);
            text.push('\n');
        }
        let filler = "x".repeat(usize::try_from(number(120)).expect("small"));
        let place = match number(4) {
            0 => format!("\"{filler}\n2025-01-01T00:00:00.000Z,9.9,\"\"looks like a row,\n\n{filler}\""),
            1 => format!("\"{filler}, \"\"quoted\"\"\""),
            // Longer than what is read beyond a block's end, and sometimes than a block.
            2 if number(400) == 0 => format!("\"{}\"", "y\n".repeat(usize::try_from(number(400_000)).expect("small"))),
            _ => filler,
        };
        let millis = row * 1_000;
        writeln!(
            text,
            "2025-01-01T{:02}:{:02}:{:02}.000Z,5.1,{place},id{row}",
            millis / 3_600_000 % 24,
            millis / 60_000 % 60,
            row % 60
        )
        .expect("text");
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_result_does_not_depend_on_the_number_of_threads(
        seed in any::<u64>(),
        rows in 4_000_usize..12_000,
        threads in 2_usize..5,
        fault in prop::option::of((
            0_usize..12_000,
            prop::sample::select(vec!["yesterday,5,x,y", "2025-01-01,5,x", "2025-01-01,5,a\"b,y", "2025-01-01,5,\"open,y", "2025-01-01,five,x,y"]),
        )),
        skip_bad_rows in any::<bool>(),
    ) {
        let file = saved(large_file(seed, rows, fault).as_bytes());
        let query = Query { skip_bad_rows, ..Query::default() };
        let serial = read_file(&file, &query, 1);
        if fault.is_none() {
            prop_assert_eq!(serial.as_ref().map(|(times, _)| times.len()), Ok(rows));
        }
        prop_assert_eq!(read_file(&file, &query, threads), serial);
    }
}

#[test]
fn short_and_empty_files_and_those_without_a_header_are_read_too() {
    for text in ["", "time\n", "time\n2025-01-01", "time\n2025-01-01\n\n\n"] {
        let file = saved(text.as_bytes());
        assert_eq!(read_file(&file, &Query::default(), 3), read_file(&file, &Query::default(), 1), "{text:?}");
    }
    let numbers: String = (0..300_000).fold(String::new(), |mut text, number| {
        writeln!(text, "{number}").expect("text");
        text
    });
    let file = saved(numbers.as_bytes());
    let query = Query {
        time_column: "1".parse().expect("a column"),
        time_format: "epoch-s".parse().expect("a format"),
        ..Query::default()
    };
    let serial = read_file(&file, &query, 1);
    assert_eq!(serial.as_ref().map(|(times, _)| times.len()), Ok(300_000));
    assert_eq!(read_file(&file, &query, 2), serial);
}
