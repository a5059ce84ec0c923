//! The catalogue's readers on any bytes: the one that streams times and the one that gives whole events find the same, and
//! how the input comes in pieces makes no difference.
#![no_main]

use std::io::{Cursor, Read};

use libfuzzer_sys::fuzz_target;
use throttler::catalogue::{CatalogueError, Events, Query, Source, read_events, read_times};
use throttler::time::Timestamp;

/// Gives a few bytes at a time.
struct Trickle<R>(R, usize);

impl<R: Read> Read for Trickle<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 7 + 1;
        let most = self.1.min(buffer.len());
        self.0.read(&mut buffer[..most])
    }
}

fn stream(input: impl Read + Send + 'static) -> [Source; 1] {
    [Source::Stream { name: "fuzz.csv".to_owned(), input: Box::new(input) }]
}

fn times(input: impl Read + Send + 'static, query: &Query) -> Result<Vec<Timestamp>, CatalogueError> {
    read_times(&mut stream(input), query, 1, &|_| ()).map(|(times, _)| times)
}

fuzz_target!(|bytes: &[u8]| {
    for skip_bad_rows in [false, true] {
        let query = Query { skip_bad_rows, ..Query::default() };
        let owned = bytes.to_vec();
        let whole = times(Cursor::new(owned.clone()), &query);
        let pieces = times(Trickle(Cursor::new(owned.clone()), 0), &query);
        match (&whole, &pieces) {
            (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces),
            (Err(whole), Err(pieces)) => assert_eq!(whole.to_string(), pieces.to_string()),
            differ => panic!("{differ:?}"),
        }
        let events = read_events(&mut stream(Cursor::new(owned)), &query);
        if let (Ok(whole), Ok((events, _))) = (&whole, &events) {
            assert!(events.len() <= whole.len());
            if !skip_bad_rows {
                assert!(events.iter().map(|event| event.origin_at).eq(whole.iter().copied()));
            }
        }
        if let Ok(events) = Events::open(bytes, "fuzz.csv", &query) {
            // Row by row to the end or to the first error.
            let _ = events.take_while(Result::is_ok).count();
        }
    }
});
