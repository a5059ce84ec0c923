//! The same seed gives the same: on every machine, on any number of threads, for a part of an experiment as for the whole.

use throttler::simulate::clients::Clients;
use throttler::simulate::traffic::{Demand, Shape};
use throttler::simulate::{Stream, Work};
use throttler::time::Span;

use crate::support::published_rate;

/// The published traffic of an hour at 80 %.
fn requests(shape: Shape, seed: u64) -> Vec<i64> {
    let demand = Demand { shape, load_percent: 80, rate: published_rate(), length: Span::from_seconds(3_600) };
    demand.requests(&mut Stream::new(seed, 0)).iter().map(|at| at.ticks()).collect()
}

/// FNV-1a over the ticks: changes when any of them does.
fn digest(ticks: &[i64]) -> u64 {
    let bytes = ticks.iter().flat_map(|tick| tick.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A change here means that every published seed gives other figures: never by accident, through an update of a crate.
#[test]
fn the_streams_of_seed_1_are_these() {
    for (shape, count, first, hash) in GOLDEN {
        let ticks = requests(shape, 1);
        assert_eq!((ticks.len(), &ticks[..3], digest(&ticks)), (count, &first[..], hash), "{shape}");
    }
}

const GOLDEN: [(Shape, usize, [i64; 3], u64); 5] = [
    (Shape::Steady, 4_834, [225_496, 829_938, 3_424_929], 0x4c20_026f_4f8e_fafc),
    (Shape::SmallBursts, 4_952, [1_308_044, 1_346_815, 1_472_781], 0xb47f_6f6a_4950_9aa6),
    (Shape::PageLoads, 4_349, [4_524_918, 4_545_093, 4_574_052], 0x9dbf_d69e_9d35_6294),
    (Shape::BigBursts, 4_190, [11_289_695, 11_304_800, 11_308_365], 0x8523_669b_3e88_0b20),
    (Shape::OnOff, 5_449, [120_888, 639_886, 1_027_931], 0x47fb_fe63_1416_440e),
];

#[test]
fn another_seed_and_another_stream_are_other_traffic() {
    assert_ne!(requests(Shape::Steady, 1), requests(Shape::Steady, 2));
    let first = |number| Stream::new(1, number).below(u64::MAX);
    assert_ne!(first(0), first(1));
}

fn small() -> Clients {
    Clients { runs: 3, length: Span::from_seconds(40 * 60), ..Clients::published(published_rate(), 5) }
}

#[test]
fn any_number_of_threads_gives_the_same() {
    let alone = small().run(&Work::QUIET).expect("an experiment");
    for threads in [2, 7] {
        let together = small().run(&Work { threads, progress: &|_, _| {} }).expect("an experiment");
        assert_eq!(alone, together, "{threads} threads");
    }
}

#[test]
fn a_part_of_the_experiment_gives_the_same_as_the_whole() {
    let whole = small().run(&Work::QUIET).expect("an experiment");
    let part = Clients { traffic: vec![(Shape::PageLoads, 80)], ..small() }.run(&Work::QUIET).expect("an experiment");
    let of_whole: Vec<_> = whole.rows.into_iter().filter(|row| (row.shape, row.load_percent) == (Shape::PageLoads, 80)).collect();
    assert_eq!(part.rows, of_whole);
}
