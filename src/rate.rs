//! The rate `n/w`: how many admissions in which window.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};

use crate::time::{Span, parse_span};

/// `n` admissions per window `w`, written `5/h`, `100/60s`, `13/90m` or `1/2d`.
///
/// `n` is from 1 to [`Rate::MAX_LIMIT`], `w` from one tick to [`Rate::MAX_WINDOW`], all inclusive; a rate in text has a
/// window of at least one millisecond. Within these bounds no product of the limiters leaves 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    limit: u32,
    window: Span,
}

/// Why something is not a rate. The message names it and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    #[error("'{0}' is not a rate: expected N/WINDOW with a window in ms, s, m, h, d or w, like 5/h, 100/60s or 1/2d")]
    Text(String),
    #[error("a rate admits 1 to {max} per window, not {0}", max = Rate::MAX_LIMIT)]
    Limit(u64),
    #[error("a rate's window is longer than zero and at most ten years (3653d), not {0}")]
    Window(Span),
}

impl Rate {
    /// The most admissions per window.
    pub const MAX_LIMIT: u32 = 1_000_000_000;
    /// The longest window: ten years, leap days included.
    pub const MAX_WINDOW: Span = Span::from_seconds(3_653 * 86_400);

    /// `limit` admissions per `window`.
    ///
    /// # Errors
    /// [`RateError::Limit`] or [`RateError::Window`] outside the bounds above.
    pub fn new(limit: u64, window: Span) -> Result<Rate, RateError> {
        let small = u32::try_from(limit).ok().filter(|n| (1..=Self::MAX_LIMIT).contains(n)).ok_or(RateError::Limit(limit))?;
        if window == Span::ZERO || window > Self::MAX_WINDOW {
            return Err(RateError::Window(window));
        }
        Ok(Rate { limit: small, window })
    }

    /// A rate from parts that came out of one.
    pub(crate) const fn from_checked(limit: u32, window: Span) -> Rate {
        Rate { limit, window }
    }

    /// `n`: admissions per window.
    #[must_use]
    pub const fn limit(self) -> u32 {
        self.limit
    }

    /// `w`: the window.
    #[must_use]
    pub const fn window(self) -> Span {
        self.window
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Rate, RateError> {
        let malformed = || RateError::Text(text.to_owned());
        let (limit, window) = text.split_once('/').ok_or_else(malformed)?;
        if limit.is_empty() || !limit.bytes().all(|b| b.is_ascii_digit()) {
            return Err(malformed());
        }
        let window = parse_span(window, true).ok_or_else(malformed)?;
        Rate::new(limit.parse().unwrap_or(u64::MAX), window)
    }
}

/// The canonical text: `5/h`, `100/m` for 100 in sixty seconds, `13/90m`, `1/2d`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = self.window.to_string();
        let unit = window.strip_prefix('1').filter(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
        f.pad(&format!("{}/{}", self.limit, unit.unwrap_or(&window)))
    }
}

impl Serialize for Rate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_in_every_form_of_the_contract() {
        for (text, limit, seconds, shown) in [
            ("5/h", 5, 3_600, "5/h"),
            ("100/60s", 100, 60, "100/m"),
            ("13/90m", 13, 5_400, "13/90m"),
            ("10/min", 10, 60, "10/m"),
            ("1/2d", 1, 172_800, "1/2d"),
            ("1/w", 1, 604_800, "1/w"),
            ("2/10s", 2, 10, "2/10s"),
            ("1000000000/3653d", 1_000_000_000, 3_653 * 86_400, "1000000000/3653d"),
        ] {
            let rate: Rate = text.parse().expect(text);
            assert_eq!((rate.limit(), rate.window()), (limit, Span::from_seconds(seconds)), "{text}");
            assert_eq!(rate.to_string(), shown);
        }
        assert_eq!("3/ms".parse::<Rate>().map(Rate::window), Ok(Span::from_millis(1)));
    }

    #[test]
    fn a_wrong_rate_is_told_what_was_expected() {
        for text in ["", "5", "/h", "5/", "five/h", "5/fortnight", "-1/h", "5/1.5h", "+5/h", "5 / h", "5/h/h"] {
            assert_eq!(text.parse::<Rate>(), Err(RateError::Text(text.to_owned())), "{text}");
        }
        assert_eq!("0/h".parse::<Rate>(), Err(RateError::Limit(0)));
        assert_eq!("1000000001/h".parse::<Rate>(), Err(RateError::Limit(1_000_000_001)));
        assert_eq!("5/0h".parse::<Rate>(), Err(RateError::Window(Span::ZERO)));
        assert_eq!("5/3654d".parse::<Rate>(), Err(RateError::Window(Span::from_seconds(3_654 * 86_400))));
    }
}
