//! What one token-bucket decision costs, out of a million subscribers with parameters of their own, beside governor.
//!
//! Every figure is a pass over all of them; its time over their number is one decision.

use std::hint::black_box;
use std::num::NonZeroU32;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use governor::clock::{Clock, DefaultClock, FakeRelativeClock};
use governor::{Quota, RateLimiter};
use throttler::limiter::{Request, TokenBucket, Verdict};
use throttler::rate::Rate;
use throttler::time::{Span, Timestamp};

const SUBSCRIBERS: usize = 1_000_000;
/// Longer than any of the buckets needs to be full again.
const LONG: Span = Span::from_seconds(2_000 * 86_400);

/// A small generator (`SplitMix64`), so that every run decides on the same subscribers in the same order.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Rates from 1 to 1,000 per 1 minute to 7 days, buckets from 1 to 200.
fn subscribers() -> Vec<TokenBucket> {
    let mut random = Random(1);
    let mut one = || {
        let window = Span::from_seconds(60 * (1 + random.below(7 * 1_440)));
        let rate = Rate::new(1 + random.below(1_000), window).expect("within the bounds of a rate");
        TokenBucket::new(rate, u32::try_from(1 + random.below(200)).expect("at most 200"))
    };
    (0..SUBSCRIBERS).map(|_| one()).collect()
}

/// Every index once, shuffled.
fn shuffled() -> Vec<u32> {
    let (mut order, mut random): (Vec<u32>, _) = ((0..).take(SUBSCRIBERS).collect(), Random(2));
    for i in (1..SUBSCRIBERS).rev() {
        let other = random.below(i as u64 + 1);
        order.swap(i, usize::try_from(other).expect("an index"));
    }
    order
}

/// The ways through all subscribers.
#[derive(Clone, Copy)]
enum Way {
    InOrder,
    Random,
    /// At random too, but a block of buckets is read before the first of it decides, so that the processor waits for all of
    /// them at once and not for one after the other.
    Gathered,
}

const WAYS: [(&str, Way); 3] = [("in order", Way::InOrder), ("random", Way::Random), ("random, gathered", Way::Gathered)];

/// Buckets read before the first of them decides.
const BLOCK: usize = 32;

/// One pass: how many of the decisions came out as counted.
fn pass(buckets: &mut [TokenBucket], order: &[u32], way: Way, mut counts: impl FnMut(&mut TokenBucket) -> bool) -> usize {
    let mut at = |buckets: &mut [TokenBucket], i: u32| usize::from(counts(&mut buckets[i as usize]));
    match way {
        Way::InOrder => buckets.iter_mut().map(|bucket| usize::from(counts(bucket))).sum(),
        Way::Random => order.iter().map(|&i| at(buckets, i)).sum(),
        Way::Gathered => {
            let (blocks, rest) = order.as_chunks::<BLOCK>();
            assert!(rest.is_empty(), "a million is a multiple of {BLOCK}");
            let block_of = |block: &[u32; BLOCK]| -> usize {
                black_box(block.map(|i| buckets[i as usize]));
                block.iter().map(|&i| at(buckets, i)).sum()
            };
            blocks.iter().map(block_of).sum()
        }
    }
}

/// The time of the first pass.
fn start() -> Timestamp {
    "2025-07-29T23:24:52.483Z".parse().expect("a time")
}

/// The time of the next pass, when every bucket is full again.
fn next_pass(now: Timestamp) -> Timestamp {
    if now.plus(LONG) < Timestamp::MAX { now.plus(LONG) } else { start() }
}

fn ours(c: &mut Criterion) {
    let mut group = c.benchmark_group("token bucket");
    group.throughput(Throughput::Elements(SUBSCRIBERS as u64)).sample_size(20);
    let order = shuffled();
    for (name, way) in WAYS {
        let mut buckets = subscribers();
        let mut now = start();
        group.bench_function(BenchmarkId::new("admit", name), |b| {
            b.iter(|| {
                now = next_pass(now);
                pass(&mut buckets, &order, way, |bucket| bucket.admit(now, Request::ONE) == Verdict::Admitted)
            });
        });
        group.bench_function(BenchmarkId::new("admit, full answer", name), |b| {
            b.iter(|| {
                now = next_pass(now);
                pass(&mut buckets, &order, way, |bucket| in_full(bucket, now))
            });
        });

        for bucket in &mut buckets {
            while bucket.admit(now, Request::ONE) == Verdict::Admitted {}
        }
        group.bench_function(BenchmarkId::new("refuse", name), |b| {
            b.iter(|| pass(&mut buckets, &order, way, |bucket| bucket.admit(now, Request::ONE) == Verdict::Refused));
        });
        group.bench_function(BenchmarkId::new("refuse, full answer", name), |b| {
            b.iter(|| pass(&mut buckets, &order, way, |bucket| in_full(bucket, now)));
        });
    }
    group.finish();
}

/// The verdict with `remaining`, `retry_at` and `reset_at`.
fn in_full(bucket: &mut TokenBucket, now: Timestamp) -> bool {
    let verdict = bucket.admit(now, Request::ONE);
    black_box(bucket.outlook(now, Request::ONE));
    verdict == Verdict::Admitted
}

/// Governor's quota is one for all keys, so that it has less to read than ours. A burst so large that nothing is refused
/// while the figures are taken, or so small that everything is.
fn quota(burst: u32) -> Quota {
    let positive = |count| NonZeroU32::new(count).expect("positive");
    Quota::per_hour(positive(5)).allow_burst(positive(burst))
}

/// Far above the number of passes.
const NEVER_REFUSED: u32 = 1_000_000;

fn governor_keyed<C: Clock + Clone>(c: &mut Criterion, clock_name: &str, clock: &C) {
    let mut group = c.benchmark_group(format!("governor keyed, {clock_name}"));
    group.throughput(Throughput::Elements(SUBSCRIBERS as u64)).sample_size(10);
    let in_order: Vec<u32> = (0..).take(SUBSCRIBERS).collect();
    for (name, order) in [("in order", in_order), ("random", shuffled())] {
        for (answer, burst) in [("admit", NEVER_REFUSED), ("refuse", 1)] {
            let limiter = RateLimiter::dashmap_with_clock(quota(burst), clock.clone());
            let mut pass = || order.iter().filter(|i| limiter.check_key(*i).is_ok()).count();
            assert_eq!(pass(), SUBSCRIBERS);
            group.bench_function(BenchmarkId::new(answer, name), |b| b.iter(&mut pass));
        }
    }
    group.finish();
}

/// One limiter for each subscriber, densely in a vector as ours are.
fn governor_direct<C: Clock + Clone>(c: &mut Criterion, clock_name: &str, clock: &C) {
    let mut group = c.benchmark_group(format!("governor direct, {clock_name}"));
    group.throughput(Throughput::Elements(SUBSCRIBERS as u64)).sample_size(10);
    let one = || RateLimiter::direct_with_clock(quota(NEVER_REFUSED), clock.clone());
    let limiters: Vec<_> = (0..SUBSCRIBERS).map(|_| one()).collect();
    group.bench_function(BenchmarkId::new("admit", "in order"), |b| {
        b.iter(|| limiters.iter().filter(|limiter| limiter.check().is_ok()).count());
    });
    let order = shuffled();
    group.bench_function(BenchmarkId::new("admit", "random"), |b| {
        b.iter(|| order.iter().filter(|&&i| limiters[i as usize].check().is_ok()).count());
    });
    group.finish();
}

fn governors(c: &mut Criterion) {
    let (fake, default) = (FakeRelativeClock::default(), DefaultClock::default());
    governor_keyed(c, "fake clock", &fake);
    governor_keyed(c, "default clock", &default);
    governor_direct(c, "fake clock", &fake);
    governor_direct(c, "default clock", &default);
}

criterion_group!(decisions, ours, governors);
criterion_main!(decisions);
