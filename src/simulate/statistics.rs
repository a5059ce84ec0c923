//! Means with their standard errors, and the formulas that simulations are held against.

/// What several independent runs say about a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The mean over the runs.
    pub mean: f64,
    /// The standard error of the mean; 0 for a single run.
    pub stderr: f64,
}

impl Estimate {
    /// The estimate from one value a run; zero from none.
    #[must_use]
    pub fn of(values: &[f64]) -> Estimate {
        if values.is_empty() {
            return Estimate::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() == 1 {
            return Estimate { mean, stderr: 0.0 };
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Estimate { mean, stderr: (squares / (count - 1.0) / count).sqrt() }
    }
}

/// Erlang's B: the share of Poisson requests that find all of `slots` taken, at `load` erlangs (requests per holding time).
///
/// A sliding log of `n` under Poisson traffic is such a system: every admission holds a slot for exactly one window, and the
/// formula asks nothing of the holding time but its mean. By the recursion `B(k) = a B(k-1) / (k + a B(k-1))`, `B(0) = 1`
/// (Erlang 1917; stable for every size).
#[must_use]
pub fn erlang_b(slots: u32, load: f64) -> f64 {
    (1..=slots).fold(1.0, |blocked, slot| load * blocked / (f64::from(slot) + load * blocked))
}

/// `E[min(N, limit)] / E[N]` for a Poisson `N` of this mean: what a fixed window serves of Poisson traffic.
///
/// Terms are taken from the mode outwards, relative to it, so that no mean is too large for their exponent.
#[must_use]
pub fn poisson_truncated(limit: u32, mean: f64) -> f64 {
    /// Terms below this, relative to the largest, add nothing that a float holds.
    const NEGLIGIBLE: f64 = 1e-30;
    if mean <= 0.0 {
        return 1.0;
    }
    let mode = mean.floor();
    let limit = f64::from(limit);
    let (mut weights, mut served) = (1.0, mode.min(limit));
    let mut add = |k: f64, weight: f64| {
        weights += weight;
        served += weight * k.min(limit);
    };
    let (mut k, mut weight) = (mode, 1.0);
    while weight > NEGLIGIBLE {
        k += 1.0;
        weight *= mean / k;
        add(k, weight);
    }
    (k, weight) = (mode, 1.0);
    while weight > NEGLIGIBLE && k > 0.0 {
        weight *= k / mean;
        k -= 1.0;
        add(k, weight);
    }
    served / weights / mean
}
