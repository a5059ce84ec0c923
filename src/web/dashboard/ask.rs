//! What the dashboard is asked: which days, whose, and which names the table shows.

use crate::subscriber::MAX_NAME_BYTES;
use crate::time::{Span, Timestamp};
use crate::web::query::Query;
use crate::web::shell::Refusal;

/// The days that the form offers, and those that it shows unless told otherwise: as many as `throttler report`.
pub(super) const CHOICES: [u64; 4] = [1, 2, 7, 30];
const DEFAULT_DAYS: u64 = 7;
/// The longest stretch, in days.
const MAX_DAYS: u64 = 366;
const DAY: Span = Span::from_seconds(86_400);

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub from: Timestamp,
    /// Exclusive.
    pub to: Timestamp,
    /// So many days up to now; `None` for other ones.
    pub days: Option<u64>,
    /// The fields for other days, as they were filled in.
    pub from_field: String,
    pub to_field: String,
    /// Whose scene it is: as it was written, since a name is asked for while it is typed.
    pub subscriber: Option<String>,
    /// Only names that begin so are in the table.
    pub prefix: String,
}

impl Ask {
    pub fn of(query: &Query, now: Timestamp) -> Result<Ask, Refusal> {
        let days = query.value("days")?.unwrap_or(DEFAULT_DAYS);
        if !(1..=MAX_DAYS).contains(&days) {
            return Err(Refusal::Asked(format!("days: expected 1 to {MAX_DAYS}, found {days}")));
        }
        let (from, to): (Option<Timestamp>, Option<Timestamp>) = (query.value("from")?, query.value("to")?);
        let others = from.is_some() || to.is_some();
        let to = to.unwrap_or(now);
        let from = from.unwrap_or_else(|| to.minus(Span::from_seconds(days * 86_400)));
        if from >= to {
            return Err(Refusal::Asked(format!("from: {from} is not before {to}")));
        }
        if to.since(from).ticks() > DAY.ticks() * MAX_DAYS {
            return Err(Refusal::Asked(format!("from: {from} is more than {MAX_DAYS} days before {to}")));
        }
        let field = |name| query.text(name).unwrap_or_default().to_owned();
        let name = |name| query.text(name).filter(|text| text.len() <= MAX_NAME_BYTES).map(str::to_owned);
        Ok(Ask {
            from,
            to,
            days: (!others).then_some(days),
            from_field: field("from"),
            to_field: field("to"),
            subscriber: name("subscriber"),
            prefix: name("name").unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: &str) -> Result<Ask, String> {
        let now = "2025-07-31T12:00:00Z".parse().expect("a time");
        Ask::of(&Query::of(&address.parse().expect("an address")), now).map_err(|fault| fault.to_string())
    }

    #[test]
    fn days_are_counted_back_from_now_unless_others_are_named() {
        let stretch = |address: &str| ask(address).map(|ask| format!("{} {} {:?}", ask.from, ask.to, ask.days));
        for (address, expected) in [
            ("/", "2025-07-24T12:00:00.000Z 2025-07-31T12:00:00.000Z Some(7)"),
            ("/?days=1&from=&to=", "2025-07-30T12:00:00.000Z 2025-07-31T12:00:00.000Z Some(1)"),
            ("/?from=2025-07-29", "2025-07-29T00:00:00.000Z 2025-07-31T12:00:00.000Z None"),
            ("/?days=2&to=2025-07-30", "2025-07-28T00:00:00.000Z 2025-07-30T00:00:00.000Z None"),
        ] {
            assert_eq!(stretch(address).as_deref(), Ok(expected), "{address}");
        }
        for (address, expected) in [
            ("/?days=0", "days: expected 1 to 366, found 0"),
            ("/?days=-1", "days: invalid digit found in string"),
            ("/?days=367", "days: expected 1 to 366, found 367"),
            ("/?from=2025-08-01", "from: 2025-08-01T00:00:00.000Z is not before 2025-07-31T12:00:00.000Z"),
            ("/?from=2020-01-01", "from: 2020-01-01T00:00:00.000Z is more than 366 days before 2025-07-31T12:00:00.000Z"),
        ] {
            assert_eq!(stretch(address).expect_err(address), expected);
        }
        assert!(ask("/?from=yesterday").expect_err("no time").starts_with("from: "));
    }

    #[test]
    fn names_are_taken_as_they_are_written() {
        let asked = ask("/?subscriber=%3Cb%3E&name=an").expect("an answer");
        assert_eq!((asked.subscriber.as_deref(), asked.prefix.as_str()), (Some("<b>"), "an"));
        assert_eq!(ask(&format!("/?name={}", "x".repeat(65))).expect("an answer").prefix, "");
    }
}
