//! Any CSV with a column of times.

use throttler::catalogue::{Query, TimeColumn, TimeFormat};

use crate::support::read;

fn ask(text: &str, column: &str, format: &str) -> Result<Vec<i64>, String> {
    let time_column: TimeColumn = column.parse().expect("a column");
    let time_format: TimeFormat = format.parse().expect("a format");
    let query = Query { time_column, time_format, ..Query::default() };
    let times = read(text.as_bytes(), &query).map_err(|error| error.to_string())?;
    Ok(times.iter().map(|at| at.ticks()).collect())
}

#[test]
fn times_are_read_by_name_or_number_in_every_format() {
    assert_eq!(ask("host,When\na,1.5\nb,2\n", "when", "epoch-s"), Ok(vec![1_500_000, 2_000_000]));
    assert_eq!(ask("a,1500\nb,2000.5\n", "2", "epoch-ms"), Ok(vec![1_500_000, 2_000_500]));
    assert_eq!(ask("-5\n7", "1", "epoch-us"), Ok(vec![-5, 7]));
    assert_eq!(ask("\"x,\"\"y\",1970-01-01T01:00:00+01:00\n", "2", "rfc3339"), Ok(vec![0]));
}

#[test]
fn by_number_the_first_row_is_a_header_if_its_field_is_a_word() {
    assert_eq!(ask("host,when\na,1\n", "2", "epoch-s"), Ok(vec![1_000_000]));
    assert_eq!(ask("host,\"when\"\na,1\n", "2", "epoch-s"), Ok(vec![1_000_000]));
    for (text, message) in [
        ("a,1x\nb,2\n", "test.csv, line 1, column 2: '1x' is not a time: expected seconds since 1970"),
        ("a,\nb,2\n", "test.csv, line 1, column 2: '' is not a time"),
        ("a,1\nb,when\n", "test.csv, line 2, column 2: 'when' is not a time"),
        ("a\nb\n", "test.csv, line 1: there is no column 2, only 1 columns; expected one of that name"),
    ] {
        assert!(ask(text, "2", "epoch-s").expect_err(text).starts_with(message), "{text:?}");
    }
}

#[test]
fn a_wrong_column_or_format_is_a_wrong_question() {
    for text in ["0", "", " "] {
        assert!(text.parse::<TimeColumn>().expect_err(text).to_string().contains("expected a name from the header, or a number"));
    }
    let error = "unix".parse::<TimeFormat>().expect_err("no format");
    assert_eq!(error.to_string(), "'unix' is not a time format: expected rfc3339, epoch-s, epoch-ms or epoch-us");
    assert_eq!(error.blame(), throttler::catalogue::Blame::Usage);
}
