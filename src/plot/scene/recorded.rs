//! What a subscriber really got, as a row of the scene: from decisions and messages as they were recorded, not decided again.

use super::super::level::clipped;
use super::{BusiestWindow, Fate, Mark, Row, named};
use crate::event::Event;
use crate::rate::Rate;
use crate::replay::busiest_stretch;
use crate::subscriber::{Mode, Subscriber};
use crate::time::{Span, Timestamp};

/// A decision as it was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub event: Event,
    pub decided_at: Timestamp,
    pub fate: Fate,
    /// When its alert left, if one did.
    pub departs_at: Timestamp,
    pub why: String,
}

/// What was left in the bucket at an instant, as it was recorded then: a whole number, cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    pub at: Timestamp,
    pub tokens: u64,
}

impl Row {
    /// A row of what was recorded, in order of time, from `from` to `to`. `left` may begin before `from`; without anything before, the
    /// bucket was full. `sent` are the instants of the messages that the limit counts, in order.
    #[must_use]
    pub fn recorded(
        subscriber: &Subscriber,
        (from, to): (Timestamp, Timestamp),
        decisions: Vec<Recorded>,
        left: &[Left],
        sent: &[Timestamp],
    ) -> Row {
        let limit = subscriber.policy.limit;
        let promise = subscriber.policy.promise();
        let bounded = subscriber.policy.always_from.is_none() && subscriber.mode == Mode::Enforce;
        let window = limit.rate().window();
        let ticks: Vec<i128> = sent.iter().map(|at| i128::from(at.ticks())).collect();
        let busiest = busiest_stretch(&ticks, i128::from(window.ticks()));
        let level = limit.bucket().map(|bucket| clipped(&Filling::line(bucket, limit.rate(), (from, to), left), from, to));
        Row {
            name: format!("{}: {}", subscriber.name, named(limit)),
            limit,
            promise: promise.to_string(),
            most_in_any_window: bounded.then_some(promise.most_in_any_window),
            decisions: decisions.into_iter().map(mark).collect(),
            busiest: busiest.map(|(first, count)| BusiestWindow::new(sent[first], limit, count)),
            level: level.unwrap_or_default(),
        }
    }
}

fn mark(recorded: Recorded) -> Mark {
    let Recorded { event, decided_at, fate, departs_at, why } = recorded;
    let why = if event.origin_at == decided_at { why } else { format!("origin {}; {why}", event.origin_at) };
    Mark { at: decided_at, magnitude: event.magnitude, title: event.title(), id: event.id.to_string(), fate, departs_at, why }
}

/// The line through what was recorded: after each record the bucket fills at its rate, up to the brim. In whole parts of a token, of
/// which a tick brings as many as the rate has events a window.
struct Filling {
    token: u128,
    brim: u128,
    a_tick: u128,
    at: Timestamp,
    level: u128,
    points: Vec<(Timestamp, f64)>,
}

impl Filling {
    fn line(bucket: u32, rate: Rate, (from, to): (Timestamp, Timestamp), left: &[Left]) -> Vec<(Timestamp, f64)> {
        let token = u128::from(rate.window().ticks());
        let (brim, a_tick) = (token * u128::from(bucket), u128::from(rate.limit()));
        let at = left.first().map_or(from, |first| first.at.min(from));
        let mut filling = Filling { token, brim, a_tick, at, level: brim, points: Vec::new() };
        filling.corner(at);
        for record in left.iter().filter(|record| record.at <= to) {
            filling.until(record.at);
            let recorded = (token * u128::from(record.tokens)).min(brim);
            // What was cut off of a record is less than one token.
            if !(recorded..recorded + token).contains(&filling.level) {
                filling.level = recorded;
            }
            filling.corner(record.at);
        }
        filling.until(to);
        filling.points
    }

    fn until(&mut self, at: Timestamp) {
        let passed = u128::from(at.since(self.at).ticks());
        let missing = self.brim - self.level;
        if missing > 0 && self.a_tick * passed > missing {
            let full_after = u64::try_from(missing.div_ceil(self.a_tick)).unwrap_or(u64::MAX);
            self.level = self.brim;
            self.corner(self.at.plus(Span::from_ticks(full_after)));
        }
        self.level = self.brim.min(self.level + self.a_tick * passed);
        self.corner(at);
        self.at = at;
    }

    fn corner(&mut self, at: Timestamp) {
        self.points.push((at, self.level as f64 / self.token as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_goes_through_what_was_recorded_and_fills_in_between() {
        let at = |second: u64| Timestamp::saturating_from_ticks(0).plus(Span::from_seconds(second));
        let left = |second, tokens| Left { at: at(second), tokens };
        let rate = "1/m".parse().expect("a rate");
        let line = |left: &[Left], from, to| -> Vec<(i64, String)> {
            let line = clipped(&Filling::line(2, rate, (at(from), at(to)), left), at(from), at(to));
            line.into_iter().map(|(at, level)| (at.seconds(), format!("{level:.2}"))).collect()
        };
        let told = |corners: &[(i64, &str)]| corners.iter().map(|(at, level)| (*at, (*level).to_owned())).collect::<Vec<_>>();
        // Full, one taken at 60 s, one at 90 s, full again at 180 s.
        let found = line(&[left(60, 1), left(90, 0)], 0, 300);
        assert_eq!(
            found,
            told(&[(0, "2.00"), (60, "2.00"), (60, "1.00"), (90, "1.50"), (90, "0.00"), (210, "2.00"), (300, "2.00")])
        );
        // A record that agrees with what the bucket has, but for its fraction, moves nothing.
        assert_eq!(line(&[left(60, 1), left(90, 1)], 60, 100)[2..4], told(&[(60, "1.00"), (90, "1.50")]));
        // What was recorded before is where it begins.
        assert_eq!(line(&[left(60, 0)], 90, 100), told(&[(90, "0.50"), (100, "0.67")]));
        assert_eq!(line(&[], 0, 10), told(&[(0, "2.00"), (10, "2.00")]));
    }
}
