//! How severe an event is, in the words of the Common Alerting Protocol, for the presets that rank or colour.

use crate::event::{Event, Magnitude, PagerLevel};

/// CAP's own scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Unknown,
    Minor,
    Moderate,
    Severe,
    Extreme,
}

impl Severity {
    /// PAGER's colour where there is one, since it estimates harm; else by magnitude; unknown without either.
    pub fn of(event: &Event) -> Severity {
        match event.pager {
            Some(PagerLevel::Red) => Severity::Extreme,
            Some(PagerLevel::Orange) => Severity::Severe,
            Some(PagerLevel::Yellow) => Severity::Moderate,
            Some(PagerLevel::Green) => Severity::Minor,
            None => event.magnitude.map_or(Severity::Unknown, Severity::of_magnitude),
        }
    }

    fn of_magnitude(magnitude: Magnitude) -> Severity {
        match magnitude.value() {
            8.0.. => Severity::Extreme,
            7.0.. => Severity::Severe,
            6.0.. => Severity::Moderate,
            _ => Severity::Minor,
        }
    }

    /// CAP's word.
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Unknown => "Unknown",
            Severity::Minor => "Minor",
            Severity::Moderate => "Moderate",
            Severity::Severe => "Severe",
            Severity::Extreme => "Extreme",
        }
    }
}
