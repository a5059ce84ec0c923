//! How severe an event is, in the words of the Common Alerting Protocol, for the presets that rank or colour.

use crate::alert::{Alert, Content};
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
    /// Of the largest event that the message tells of; unknown of one that was withdrawn, and of a notice.
    pub fn of_alert(alert: &Alert) -> Severity {
        match &alert.content {
            Content::Withdrawal { .. } | Content::Notice(_) => Severity::Unknown,
            Content::Event { .. } | Content::Digest(_) | Content::Update(_) | Content::Exercise(_) => {
                alert.largest().map_or(Severity::Unknown, Severity::of)
            }
        }
    }

    /// PAGER's colour where there is one, since it estimates harm; else by magnitude; unknown without either.
    fn of(event: &Event) -> Severity {
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
