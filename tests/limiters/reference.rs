//! The literal definitions of the five limiters, as slow and as plain as they are written down: lists of admissions, a
//! bucket of rational tokens, a queue with rational departures. Nothing here is shared with what is tested.

use throttler::limiter::{Algorithm, CounterRule, Limit};

/// A limiter by definition.
#[derive(Clone, Debug)]
pub struct Reference {
    algorithm: Algorithm,
    rule: CounterRule,
    n: i128,
    w: i128,
    b: i128,
    /// Every admission so far: tick and cost.
    admissions: Vec<(i128, i128)>,
    /// Tokens times `w`, which is whole, and the tick at which there were so many. Starts full.
    tokens: i128,
    filled_at: Option<i128>,
    /// The queue's next free turn, in ticks times `n`.
    next: Option<i128>,
}

impl Reference {
    pub fn new(limit: Limit) -> Reference {
        let (n, w) = (i128::from(limit.rate().limit()), i128::from(limit.rate().window().ticks()));
        let b = limit.bucket().map_or(n, i128::from);
        Reference {
            algorithm: limit.algorithm(),
            rule: limit.rule(),
            n,
            w,
            b,
            admissions: Vec::new(),
            tokens: b * w,
            filled_at: None,
            next: None,
        }
    }

    /// The most it can ever hold.
    pub fn most(&self) -> i128 {
        if self.algorithm.has_bucket() { self.b } else { self.n }
    }

    /// Whether a request that uses `cost` and leaves `keep` is admitted at `t`.
    pub fn admits(&self, t: i128, cost: i128, keep: i128) -> bool {
        let needed = cost + keep;
        match self.algorithm {
            Algorithm::FixedWindow => self.in_clock_window(t.div_euclid(self.w)) + needed <= self.n,
            Algorithm::SlidingLog => self.in_stretch_before(t) + needed <= self.n,
            Algorithm::SlidingCounter => {
                // As if asked for one after the other: the last sees what the others have used.
                let before_last = self.estimate_times_w(t) + (needed - 1) * self.w;
                match self.rule {
                    CounterRule::Below => before_last < self.n * self.w,
                    CounterRule::Fits => before_last + self.w <= self.n * self.w,
                }
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket => self.tokens_times_w(t) >= needed * self.w,
        }
    }

    /// Records an admission.
    pub fn record(&mut self, t: i128, cost: i128) {
        self.tokens = self.tokens_times_w(t) - cost * self.w;
        self.filled_at = Some(t);
        self.next = Some(self.departure_times_n(t) + cost * self.w);
        self.admissions.push((t, cost));
    }

    /// When a request admitted at `t` would leave the queue, in ticks times `n`.
    pub fn departure_times_n(&self, t: i128) -> i128 {
        self.next.map_or(t * self.n, |next| next.max(t * self.n))
    }

    /// The tick at which a request admitted at `t` may leave: at once, or in its turn, rounded up.
    pub fn departs_at(&self, t: i128) -> i128 {
        let departure = self.departure_times_n(t);
        if self.algorithm == Algorithm::LeakyBucket { (departure + self.n - 1).div_euclid(self.n) } else { t }
    }

    /// Whether anything that was spent still counts at `t`.
    pub fn is_spent(&self, t: i128) -> bool {
        match self.algorithm {
            Algorithm::FixedWindow => self.in_clock_window(t.div_euclid(self.w)) > 0,
            Algorithm::SlidingLog => self.in_stretch_before(t) > 0,
            Algorithm::SlidingCounter => self.estimate_times_w(t) > 0,
            Algorithm::TokenBucket | Algorithm::LeakyBucket => self.tokens_times_w(t) < self.b * self.w,
        }
    }

    fn in_clock_window(&self, window: i128) -> i128 {
        self.admissions.iter().filter(|(at, _)| at.div_euclid(self.w) == window).map(|(_, cost)| cost).sum()
    }

    fn in_stretch_before(&self, t: i128) -> i128 {
        self.admissions.iter().filter(|(at, _)| t - self.w < *at && *at <= t).map(|(_, cost)| cost).sum()
    }

    fn estimate_times_w(&self, t: i128) -> i128 {
        let window = t.div_euclid(self.w);
        let elapsed = t - window * self.w;
        self.in_clock_window(window - 1) * (self.w - elapsed) + self.in_clock_window(window) * self.w
    }

    fn tokens_times_w(&self, t: i128) -> i128 {
        let refill = self.filled_at.map_or(0, |before| (t - before) * self.n);
        (self.tokens + refill).min(self.b * self.w)
    }
}

/// GCRA as it is written in the definitions, for requests of cost 1: a theoretical arrival time in ticks times `n`.
#[derive(Clone, Copy, Debug)]
pub struct Gcra {
    n: i128,
    w: i128,
    b: i128,
    tat: Option<i128>,
}

impl Gcra {
    pub fn new(limit: Limit) -> Gcra {
        let reference = Reference::new(limit);
        Gcra { n: reference.n, w: reference.w, b: reference.b, tat: None }
    }

    /// Admits and records, or refuses.
    pub fn admit(&mut self, t: i128) -> bool {
        let now = t * self.n;
        let tat = self.tat.unwrap_or(now);
        let admitted = now >= tat - (self.b - 1) * self.w;
        if admitted {
            self.tat = Some(tat.max(now) + self.w);
        }
        admitted
    }
}
