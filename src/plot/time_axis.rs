//! The scale of time, in UTC, with ticks that suit anything from a minute to centuries.

use chrono::{DateTime, Datelike, NaiveDate, Utc};

use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// Maps instants to pixels, left to right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimeScale {
    pub from: Timestamp,
    pub to: Timestamp,
    pub left: f64,
    pub right: f64,
}

/// A tick: its label, and below it the day or year where that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeTick {
    pub at: Timestamp,
    pub label: String,
    pub below: Option<String>,
}

/// How far ticks are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Whole seconds, counted from the first Monday of the epoch, so that a week begins on a Monday.
    Seconds(i64),
    Months(u32),
    Years(i32),
}

const DAY: i64 = 86_400;
/// 1970-01-05.
const FIRST_MONDAY: i64 = 4 * DAY;
/// The shortest time that an axis shows.
const SHORTEST: Span = Span::from_seconds(60);

const STEPS: [Step; 34] = {
    use Step::{Months, Seconds, Years};
    [
        Seconds(1),
        Seconds(2),
        Seconds(5),
        Seconds(10),
        Seconds(15),
        Seconds(30),
        Seconds(60),
        Seconds(120),
        Seconds(300),
        Seconds(600),
        Seconds(900),
        Seconds(1_800),
        Seconds(3_600),
        Seconds(7_200),
        Seconds(10_800),
        Seconds(21_600),
        Seconds(43_200),
        Seconds(DAY),
        Seconds(2 * DAY),
        Seconds(7 * DAY),
        Seconds(14 * DAY),
        Months(1),
        Months(2),
        Months(3),
        Months(6),
        Years(1),
        Years(2),
        Years(5),
        Years(10),
        Years(20),
        Years(50),
        Years(100),
        Years(500),
        Years(1_000),
    ]
};

impl TimeScale {
    /// The scale of a stretch of time; one shorter than a minute is widened to both sides.
    pub fn new(from: Timestamp, to: Timestamp, left: f64, right: f64) -> TimeScale {
        if to.since(from) >= SHORTEST {
            return TimeScale { from, to, left, right };
        }
        let half = Span::from_ticks(SHORTEST.ticks() / 2);
        TimeScale { from: from.minus(half), to: from.plus(half), left, right }
    }

    fn ticks_long(&self) -> i64 {
        // Timestamps are so far inside 64 bits that their difference is as well.
        self.to.ticks() - self.from.ticks()
    }

    /// The pixel of an instant; instants outside lie outside the axis.
    pub fn at(&self, instant: Timestamp) -> f64 {
        let share = (instant.ticks() - self.from.ticks()) as f64 / self.ticks_long() as f64;
        self.left + share * (self.right - self.left)
    }

    /// Which of so many equal columns an instant falls into, the ends included.
    pub fn column(&self, instant: Timestamp, columns: usize) -> usize {
        let passed = i128::from(instant.ticks() - self.from.ticks());
        let column = passed * columns as i128 / i128::from(self.ticks_long());
        usize::try_from(column.max(0)).unwrap_or(usize::MAX).min(columns.saturating_sub(1))
    }

    /// At most `most` ticks.
    pub fn ticks(&self, most: usize) -> Vec<TimeTick> {
        let fits = STEPS.into_iter().find_map(|step| {
            let instants: Vec<Timestamp> = step.instants(self.from, self.to).take(most + 1).collect();
            (instants.len() <= most).then_some((step, instants))
        });
        let Some((step, instants)) = fits else { return Vec::new() };
        let mut last = String::new();
        let label = |at: Timestamp| {
            let (label, below) = step.formats();
            let below = at.to_utc().format(below).to_string();
            let changed = below != last;
            last.clone_from(&below);
            TimeTick { at, label: at.to_utc().format(label).to_string(), below: changed.then_some(below) }
        };
        instants.into_iter().map(label).collect()
    }
}

impl Step {
    /// How a tick of this step is written, and what stands below where it changes.
    fn formats(self) -> (&'static str, &'static str) {
        match self {
            Step::Seconds(step) if step < 60 => ("%H:%M:%S", "%-d %b %Y"),
            Step::Seconds(step) if step < DAY => ("%H:%M", "%-d %b %Y"),
            Step::Seconds(_) => ("%-d %b", "%Y"),
            Step::Months(_) => ("%b", "%Y"),
            Step::Years(_) => ("%-Y", ""),
        }
    }

    /// The instants of this step from `from` to `to`, both inclusive.
    fn instants(self, from: Timestamp, to: Timestamp) -> Box<dyn Iterator<Item = Timestamp>> {
        let instants: Box<dyn Iterator<Item = Option<Timestamp>>> = match self {
            Step::Seconds(step) => {
                let whole = -(-(from.seconds() - FIRST_MONDAY)).div_euclid(step);
                let second = move |k: i64| k.checked_mul(step)?.checked_add(FIRST_MONDAY)?.checked_mul(TICKS_PER_SECOND);
                Box::new((whole..).map(move |k| second(k).and_then(|ticks| Timestamp::from_ticks(ticks).ok())))
            }
            Step::Months(step) => {
                let year = from.to_utc().year();
                let per_year = 12 / step;
                Box::new((year..).flat_map(move |year| (0..per_year).map(move |k| first_of(year, k * step + 1))))
            }
            Step::Years(step) => {
                let first = from.to_utc().year().div_euclid(step) * step;
                Box::new((0..).map(move |k| first_of(first.checked_add(step.checked_mul(k)?)?.max(1), 1)))
            }
        };
        let within = instants.map_while(|instant| instant).skip_while(move |at| *at < from).take_while(move |at| *at <= to);
        Box::new(within)
    }
}

fn first_of(year: i32, month: u32) -> Option<Timestamp> {
    let midnight: DateTime<Utc> = NaiveDate::from_ymd_opt(year, month, 1)?.and_time(chrono::NaiveTime::MIN).and_utc();
    Timestamp::from_ticks(midnight.timestamp_micros()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect(text)
    }

    fn labels(from: &str, to: &str) -> String {
        let ticks = TimeScale::new(at(from), at(to), 0.0, 1.0).ticks(12);
        let written =
            |tick: TimeTick| tick.label + &tick.below.filter(|b| !b.is_empty()).map_or(String::new(), |b| format!("({b})"));
        ticks.into_iter().map(written).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_span_has_ticks_that_suit_it() {
        for (from, to, expected) in [
            (
                "2025-07-29T23:59:30Z",
                "2025-07-30T00:00:30Z",
                "23:59:30(29 Jul 2025) 23:59:40 23:59:50 00:00:00(30 Jul 2025) 00:00:10 00:00:20 00:00:30",
            ),
            (
                "2025-07-29T12:00:00Z",
                "2025-07-31T12:00:00Z",
                "12:00(29 Jul 2025) 18:00 00:00(30 Jul 2025) 06:00 12:00 18:00 00:00(31 Jul 2025) 06:00 12:00",
            ),
            ("2024-12-25", "2025-01-31", "30 Dec(2024) 6 Jan(2025) 13 Jan 20 Jan 27 Jan"),
            ("2024-11-02", "2025-06-01", "Dec(2024) Jan(2025) Feb Mar Apr May Jun"),
            ("2015-01-01", "2025-11-10", "2015 2016 2017 2018 2019 2020 2021 2022 2023 2024 2025"),
            ("0001-01-01", "9999-12-31", "1 1000 2000 3000 4000 5000 6000 7000 8000 9000"),
        ] {
            assert_eq!(labels(from, to), expected, "{from} to {to}");
        }
    }

    #[test]
    fn a_moment_is_widened_to_a_minute() {
        let scale = TimeScale::new(at("2025-07-30"), at("2025-07-30"), 0.0, 60.0);
        assert!((scale.at(at("2025-07-30")) - 30.0).abs() < 1e-9);
        assert_eq!([at("2025-07-29"), at("2025-07-30"), at("2025-07-31")].map(|t| scale.column(t, 6)), [0, 3, 5]);
    }
}
