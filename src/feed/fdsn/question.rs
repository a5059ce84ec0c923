//! What a catalogue is to hold, in the service's terms.

use serde::{Deserialize, Serialize};

use crate::event::Magnitude;
use crate::time::{TICKS_PER_SECOND, Timestamp};

/// Which events are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// At this instant or later.
    pub from: Timestamp,
    /// Before this instant.
    pub to: Timestamp,
    /// This magnitude or more; events without one do not match. All events without it.
    pub min_magnitude: Option<Magnitude>,
    /// Of one of these types, like `earthquake`; none means all.
    pub kinds: Vec<String>,
}

impl Question {
    /// The whole seconds that hold the span, both inclusive, as the service counts.
    pub(super) fn seconds(&self) -> (i64, i64) {
        let up = i64::from(self.to.ticks().rem_euclid(TICKS_PER_SECOND) != 0);
        (self.from.seconds(), self.to.seconds() + up)
    }

    /// The parameters of the events from one whole second to another, both inclusive.
    pub(super) fn parameters(&self, from_s: i64, to_s: i64) -> Vec<(&'static str, String)> {
        let mut parameters = vec![("starttime", second(from_s)), ("endtime", second(to_s))];
        if let Some(least) = self.min_magnitude {
            parameters.push(("minmagnitude", least.value().to_string()));
        }
        if !self.kinds.is_empty() {
            parameters.push(("eventtype", self.kinds.join(",")));
        }
        parameters
    }
}

/// `2015-01-01T00:00:00`, which every FDSN service understands; at most the ends of what a time can be.
pub(super) fn second(seconds: i64) -> String {
    let ticks = i128::from(seconds) * i128::from(TICKS_PER_SECOND);
    Timestamp::saturating_from_ticks(ticks).to_utc().format("%Y-%m-%dT%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_asked_for_in_whole_seconds_that_hold_it() {
        let at = |text: &str| text.parse::<Timestamp>().expect(text);
        let mut question = Question {
            from: at("2015-01-01T00:00:00.500Z"),
            to: at("2015-01-02T00:00:00Z"),
            min_magnitude: Some(Magnitude::new(5.0).expect("five")),
            kinds: vec!["earthquake".into(), "mine collapse".into()],
        };
        let (from, to) = question.seconds();
        let asked = question.parameters(from, to);
        let shown: Vec<String> = asked.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            shown,
            [
                "starttime=2015-01-01T00:00:00",
                "endtime=2015-01-02T00:00:00",
                "minmagnitude=5",
                "eventtype=earthquake,mine collapse"
            ]
        );
        question.to = at("2015-01-02T00:00:00.001Z");
        assert_eq!(question.seconds().1, to + 1);
        question.from = at("1969-12-31T23:59:59.500Z");
        assert_eq!(second(question.seconds().0), "1969-12-31T23:59:59");
    }
}
