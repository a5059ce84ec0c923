//! The smallest lossless bucket.

use proptest::prelude::*;
use throttler::analysis::{Busiest, MinBucket, Run, Summary, min_bucket, needs};
use throttler::catalogue::{Disorder, Filter, Query, Reading, Side, Source};
use throttler::time::{Span, Timestamp};

use crate::support::{at, bucket_by_pairs, capture, file, need, rate, shipped, some_rate, some_times, stream};

fn ask(mut sources: Vec<Source>, query: &Query, rates: &[&str]) -> (MinBucket, Reading) {
    let rates: Vec<_> = rates.iter().map(|text| rate(text)).collect();
    min_bucket(&mut sources, query, &rates, 1, &|_| ()).expect("a good catalogue")
}

fn assert_kamchatka(found: &MinBucket) {
    let result = &found.results[0];
    assert_eq!((result.bucket, result.busiest_window), (74, 38));
    assert_eq!(format!("{:.6}", result.level), "73.973329");
    let run = result.critical_run.expect("events");
    assert_eq!(run.events, 105);
    assert_eq!((run.first, run.last), (at("2025-07-29T23:24:52.483Z"), at("2025-07-30T05:37:11.686Z")));
    assert_eq!(run.duration(), Span::from_millis(22_339_203));
}

#[test]
fn eleven_years_need_a_bucket_of_74() {
    let (found, reading) = ask(file(shipped()), &Query::default(), &["5/h"]);
    assert_eq!(found.events, 18_738);
    assert_eq!(found.ends, Some((at("2015-01-01T08:49:53.200Z"), at("2025-11-09T22:53:37.690Z"))));
    assert_kamchatka(&found);
    assert_eq!(reading, Reading::default());
}

#[test]
fn each_rate_has_its_bucket() {
    let rates = ["1/h", "2/h", "3/h", "5/h", "7/h", "10/h", "20/h", "38/h"];
    let mut files = vec![shipped()];
    files.extend(capture("reference_2015_2025_all_types.csv"));
    for path in files {
        let (found, _) = ask(file(path), &Query::default(), &rates);
        let buckets: Vec<_> = found.results.iter().map(|result| result.bucket).collect();
        assert_eq!(buckets, [157, 120, 95, 74, 62, 49, 26, 6]);
    }
}

#[test]
fn the_two_days_alone_need_the_same() {
    let filter = Filter { from: Some(at("2025-07-29T12:00:00Z")), to: Some(at("2025-07-31T12:00:00Z")), ..Filter::default() };
    let (found, _) = ask(file(shipped()), &Query { filter, ..Query::default() }, &["5/h"]);
    assert_eq!(found.events, 189);
    assert_kamchatka(&found);
}

#[test]
fn newest_first_is_no_disorder() {
    let Some(path) = capture("m2.5_week_2025-07-28_newest_first.csv") else { return };
    let filter = Filter { min_magnitude: Some("5".parse().expect("a magnitude")), ..Filter::default() };
    let (found, reading) = ask(file(path), &Query { filter, ..Query::default() }, &["5/h"]);
    assert_kamchatka(&found);
    assert_eq!(reading.disorder, None);
}

#[test]
fn the_fuller_capture_needs_the_same() {
    let Some(path) = capture("reference_2015_2025_all_types.csv") else { return };
    let (found, _) = ask(file(path), &Query::default(), &["5/h"]);
    assert_eq!(found.events, 19_045);
    assert_kamchatka(&found);
}

#[test]
fn nothing_needs_no_bucket_and_one_event_needs_one() {
    for empty in ["", "time\n", "\u{feff}time,mag\r\n"] {
        let (found, _) = ask(vec![stream("empty", empty)], &Query::default(), &["5/h"]);
        assert_eq!((found.events, found.ends, found.results[0].bucket), (0, None, 0), "{empty:?}");
        assert_eq!((found.results[0].busiest_window, found.results[0].critical_run), (0, None));
    }
    let (found, _) = ask(vec![stream("one", "time\n2025-01-01")], &Query::default(), &["5/h"]);
    assert_eq!((found.events, found.results[0].bucket, found.results[0].busiest_window), (1, 1, 1));
}

/// Rows of a catalogue with an id and a time in seconds.
fn rows(rows: &[(&str, i64)]) -> String {
    let line = |(id, seconds): &(&str, i64)| format!("{},{id}\n", Timestamp::from_millis(seconds * 1_000).expect("in range"));
    format!("time,id\n{}", rows.iter().map(line).collect::<String>())
}

#[test]
fn events_that_change_direction_are_sorted_with_a_note() {
    let turned = rows(&[("a", 0), ("b", 10), ("c", 20), ("d", 15), ("e", 5)]);
    let path = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(path.path(), &turned).expect("written");
    let sorted = rows(&[("a", 0), ("e", 5), ("b", 10), ("d", 15), ("c", 20)]);
    let (expected, _) = ask(vec![stream("sorted", sorted)], &Query::default(), &["1/10s", "2/h"]);
    for source in [Source::File(path.path().to_owned()), stream("turned", turned)] {
        let name = source.name();
        let (found, reading) = ask(vec![source], &Query::default(), &["1/10s", "2/h"]);
        assert_eq!(found, expected);
        assert_eq!(reading.disorder, Some(Disorder::Within(name)));
        assert!(reading.disorder.is_some_and(|note| note.to_string().ends_with("its events were sorted")));
    }
}

#[test]
fn several_files_are_one_catalogue() {
    let early = rows(&[("a", 0), ("b", 10), ("c", 20)]);
    let late = rows(&[("d", 30), ("e", 40)]);
    let overlapping = rows(&[("b", 10), ("c", 21), ("d", 30), ("e", 40)]);
    let whole = rows(&[("a", 0), ("b", 10), ("c", 20), ("d", 30), ("e", 40)]);
    let (expected, _) = ask(vec![stream("whole", whole)], &Query::default(), &["1/15s"]);
    for (first, second, duplicates, sorted) in
        [(&early, &late, 0, false), (&late, &early, 0, true), (&early, &overlapping, 2, true)]
    {
        let sources = vec![stream("first", first.as_str()), stream("second", second.as_str())];
        let (found, reading) = ask(sources, &Query::default(), &["1/15s"]);
        assert_eq!(found, expected);
        assert_eq!((reading.duplicates, reading.disorder.is_some()), (duplicates, sorted));
    }
}

fn busiest_by_pairs(window: Span, times: &[Timestamp]) -> u64 {
    let within = |i: usize| times[i..].iter().take_while(|at| at.since(times[i]) < window).count();
    (0..times.len()).map(within).max().unwrap_or(0) as u64
}

proptest! {
    #[test]
    fn the_bucket_is_that_of_the_definition(rate in some_rate(), times in some_times()) {
        let summary = Summary::of(rate.into(), &times);
        prop_assert_eq!(summary.as_ref().map_or(0, Summary::bucket), bucket_by_pairs(rate, &times));
        let Some(summary) = summary else { return Ok(()) };
        prop_assert_eq!(summary.count(), times.len() as u64);
        let Run { events, first, last } = summary.critical_run();
        let attains = (0..times.len()).any(|i| {
            let j = i + usize::try_from(events).expect("small") - 1;
            times[i] == first && times.get(j) == Some(&last) && {
                let tokens = need(rate, &times, i, j) as f64 / rate.window().ticks() as f64;
                (tokens - summary.level()).abs() <= 1e-9 * tokens && tokens.ceil() <= summary.bucket() as f64
            }
        });
        prop_assert!(attains, "{:?} does not attain {}", summary.critical_run(), summary.level());
    }

    #[test]
    fn many_rates_at_once_are_as_exact_as_one(rates in prop::collection::vec(some_rate(), 6..9), times in some_times()) {
        for result in needs(&times, &rates).results {
            prop_assert_eq!(result.bucket, bucket_by_pairs(result.rate, &times), "{}", result.rate);
            let window = i128::from(result.rate.window().ticks());
            let attained = result.critical_run.map_or(0, |run| {
                let flows_back = i128::from(result.rate.limit()) * i128::from(run.duration().ticks());
                (i128::from(run.events) * window - flows_back + window - 1).div_euclid(window)
            });
            prop_assert_eq!(attained, i128::from(result.bucket));
        }
    }

    #[test]
    fn pieces_merge_into_the_whole_wherever_they_are_cut(
        rate in some_rate(),
        times in some_times(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 3),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(times.len() + 1)).collect();
        cuts.extend([0, times.len()]);
        cuts.sort_unstable();
        let parts: Vec<_> = cuts.windows(2).filter_map(|cut| Summary::of(rate.into(), &times[cut[0]..cut[1]])).collect();
        let from_left = parts.iter().cloned().reduce(|earlier, later| earlier.merge(&later));
        let from_right = parts.iter().rev().cloned().reduce(|later, earlier| earlier.merge(&later));
        let whole = Summary::of(rate.into(), &times);
        let answer = |summary: &Option<Summary>| {
            summary.as_ref().map(|summary| (summary.count(), summary.ends(), summary.bucket(), summary.level()))
        };
        prop_assert_eq!(answer(&from_left), answer(&whole));
        prop_assert_eq!(answer(&from_right), answer(&whole));
    }

    #[test]
    fn the_busiest_window_is_that_of_the_definition(
        window in 1_u64..120,
        times in some_times(),
        cut in any::<prop::sample::Index>(),
    ) {
        let window = Span::from_ticks(window);
        let (earlier, later) = times.split_at(cut.index(times.len() + 1));
        let expected = busiest_by_pairs(window, &times);
        let mut rising = Busiest::new(window);
        rising.extend(earlier, Side::After);
        rising.extend(later, Side::After);
        prop_assert_eq!(rising.most(), expected);
        let mut falling = Busiest::new(window);
        falling.extend(later, Side::Before);
        falling.extend(earlier, Side::Before);
        prop_assert_eq!(falling.most(), expected);
    }
}
