//! Reading times from a catalogue in memory, and finding the smallest bucket for one rate and for sixty.
//!
//! Whole processes are compared as `benches/README.md` says; this shows where their time goes.

use std::fmt::Write;
use std::hint::black_box;
use std::io::Cursor;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use throttler::analysis::needs;
use throttler::catalogue::{Filter, Query, Source, read_times};
use throttler::rate::Rate;
use throttler::time::Timestamp;

const ROWS: i64 = 100_000;

/// Rows like those of `generate_catalogue`, twenty minutes apart.
fn catalogue() -> String {
    let mut text = "time,latitude,longitude,depth,mag,magType,nst,gap,dmin,rms,net,id,updated,place,type,status\n".to_owned();
    for row in 0..ROWS {
        let at = Timestamp::saturating_from_ticks(i128::from(row) * 1_200_345_000);
        writeln!(
            text,
            "{at},52.5424,160.527,10,4.{},mb,19,222,1.238,0.51,us,us{row:08x},{at},\"140 km ESE of Here, Russia\",earthquake,reviewed",
            row % 10
        )
        .expect("writing to a string succeeds");
    }
    text
}

fn reading(criterion: &mut Criterion) {
    let text = catalogue();
    let filter = Filter { min_magnitude: Some("4.5".parse().expect("a magnitude")), ..Filter::default() };
    let filtered = Query { filter, ..Query::default() };
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Bytes(text.len() as u64));
    for (name, query) in [("all times", Query::default()), ("M >= 4.5", filtered)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let input = Box::new(Cursor::new(text.clone()));
                let mut sources = [Source::Stream { name: "memory".to_owned(), input }];
                read_times(black_box(&mut sources), &query, 1, &|_| ()).expect("a good catalogue").0.len()
            });
        });
    }
    group.finish();
}

fn smallest_bucket(criterion: &mut Criterion) {
    let seconds = |row: i64| row * row % 977 + row * 900;
    let mut times: Vec<_> = (0..ROWS).map(|row| Timestamp::saturating_from_ticks(i128::from(seconds(row)) * 1_000_000)).collect();
    times.sort_unstable();
    let rates: Vec<Rate> = (1..=60).map(|limit| format!("{limit}/h").parse().expect("a rate")).collect();
    let mut group = criterion.benchmark_group("min-bucket");
    group.throughput(Throughput::Elements(times.len() as u64));
    for (name, rates) in [("1 rate", &rates[4..5]), ("60 rates", &rates[..])] {
        group.bench_function(name, |bencher| bencher.iter(|| needs(black_box(&times), rates)));
    }
    group.finish();
}

criterion_group!(benches, reading, smallest_bucket);
criterion_main!(benches);
