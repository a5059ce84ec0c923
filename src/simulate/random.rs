//! The source of chance: one independent stream a run, the same on every machine.
//!
//! `ChaCha8` with the seed as its key and the run as its stream. The crates are pinned exactly, and the distributions take
//! their logarithms and powers from a portable library, not from the platform's; a test holds the first values.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Exp1, Geometric, Pareto, Uniform};

/// The Pareto shape of the on and off periods: finite mean, infinite variance.
const PERIOD_SHAPE: f64 = 1.5;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of this number under this seed. Streams of different numbers are independent.
    #[must_use]
    pub fn new(seed: u64, number: u64) -> Stream {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut source = ChaCha8Rng::from_seed(key);
        source.set_stream(number);
        Stream(source)
    }

    /// A length with exponential distribution, in whole ticks.
    pub fn exponential(&mut self, mean_ticks: f64) -> u64 {
        let length: f64 = Exp1.sample(&mut self.0);
        whole(length * mean_ticks)
    }

    /// A length with Pareto distribution of shape 1.5, in whole ticks; never below a third of the mean.
    pub fn pareto(&mut self, mean_ticks: f64) -> u64 {
        let least = mean_ticks.max(1.0) * (PERIOD_SHAPE - 1.0) / PERIOD_SHAPE;
        // Scale and shape are positive.
        Pareto::new(least, PERIOD_SHAPE).map_or(1, |periods| whole(periods.sample(&mut self.0)))
    }

    /// A group's size, at least 1, with geometric distribution.
    pub fn group(&mut self, mean: f64) -> u64 {
        // 1 / mean is a probability for every mean of 1 or more.
        Geometric::new(1.0 / mean.max(1.0)).map_or(1, |more| more.sample(&mut self.0).saturating_add(1))
    }

    /// A whole number from 0 to `end`, exclusive; 0 if that is empty.
    pub fn below(&mut self, end: u64) -> u64 {
        Uniform::new(0, end).map_or(0, |numbers| numbers.sample(&mut self.0))
    }
}

/// The nearest whole number of ticks.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, and lengths are not negative")]
fn whole(ticks: f64) -> u64 {
    ticks.round() as u64
}
