//! Sustained withholding: when a limiter no longer smooths bursts but stands in the way, day after day.

use crate::time::Span;

/// The length of one day of the rule; the days are counted back from the moment of the question.
pub const DAY: Span = Span::from_seconds(86_400);
/// So many days in a row make it sustained.
pub const SUSTAINED_DAYS: usize = 3;
/// A day with fewer events than this that a subscriber was interested in says nothing of its limit.
pub const MIN_MATCHED: u64 = 4;
/// The most days that are looked back.
pub const MAX_DAYS: usize = 30;

/// The rule in one sentence, for reports.
pub const RULE: &str = "more than half of at least 4 matched events refused by the limiter, on each of the last 3 days or more";

/// What happened to one subscriber on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Day {
    /// Events that matched its interest.
    pub matched: u64,
    /// Of them those that its limiter refused, whatever became of them.
    pub refused: u64,
}

impl Day {
    /// Whether more was withheld on it than let through, of enough to tell.
    #[must_use]
    pub const fn is_withheld(self) -> bool {
        self.matched >= MIN_MATCHED && self.refused > self.matched / 2
    }
}

/// For how many days up to now it has gone on, `days` beginning with the last one; `None` if that is not
/// [`SUSTAINED_DAYS`].
#[must_use]
pub fn sustained(days: &[Day]) -> Option<usize> {
    let in_a_row = days.iter().take_while(|day| day.is_withheld()).count();
    (in_a_row >= SUSTAINED_DAYS).then_some(in_a_row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(days: &[(u64, u64)]) -> Vec<Day> {
        days.iter().map(|&(matched, refused)| Day { matched, refused }).collect()
    }

    #[test]
    fn a_day_counts_if_more_than_half_of_enough_events_were_refused() {
        for (matched, refused, withheld) in [
            (0, 0, false),
            (3, 3, false),
            (4, 2, false),
            (4, 3, true),
            (5, 2, false),
            (5, 3, true),
            (100, 50, false),
            (100, 51, true),
            (u64::MAX, u64::MAX, true),
        ] {
            assert_eq!(Day { matched, refused }.is_withheld(), withheld, "{refused} of {matched}");
        }
    }

    #[test]
    fn it_is_sustained_after_three_days_in_a_row_up_to_now() {
        let bad = (10, 9);
        for (history, expected) in [
            (vec![], None),
            (vec![bad, bad], None),
            (vec![bad, bad, bad], Some(3)),
            (vec![bad, bad, bad, bad, (10, 5), bad], Some(4)),
            (vec![(10, 5), bad, bad, bad], None),
            (vec![bad, bad, (3, 3), bad], None),
            (vec![bad; MAX_DAYS], Some(MAX_DAYS)),
        ] {
            assert_eq!(sustained(&days(&history)), expected, "{history:?}");
        }
        assert!(RULE.contains(&format!("at least {MIN_MATCHED}")) && RULE.contains(&format!("last {SUSTAINED_DAYS} days")));
    }
}
