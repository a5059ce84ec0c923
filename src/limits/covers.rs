//! Which deliveries a limit covers.

use std::fmt;

use super::{LimitName, LimitsError};
use crate::channel::Lane;
use crate::subscriber::Tag;

/// The part of the deliveries that shares a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Covers {
    /// All of them.
    All,
    /// All by the mail relay, or all webhooks.
    Channel(Kind),
    /// Webhooks at this host, with its port where it is not the usual one.
    Host(String),
    /// Those to subscribers that have this tag.
    Tag(Tag),
}

/// The two kinds of channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Email,
    Webhook,
}

impl Kind {
    /// Both.
    pub const ALL: [Kind; 2] = [Kind::Email, Kind::Webhook];

    /// Its word in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Email => "email",
            Kind::Webhook => "webhook",
        }
    }

    /// The kind of this name, for the limit `of`.
    ///
    /// # Errors
    /// [`LimitsError::Channel`] with the nearest name there is.
    pub fn named(text: &str, of: &LimitName) -> Result<Kind, LimitsError> {
        let known = Kind::ALL.into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| {
            let nearness = |kind: &Kind| strsim::jaro_winkler(text, kind.name());
            let nearest = Kind::ALL.into_iter().max_by(|a, b| nearness(a).total_cmp(&nearness(b)));
            let nearest = nearest.map_or("", Kind::name);
            LimitsError::Channel { name: of.clone(), text: text.to_owned(), nearest }
        })
    }
}

impl Covers {
    /// Whether what leaves by this lane is covered.
    #[must_use]
    pub fn covers(&self, lane: &Lane) -> bool {
        match self {
            Covers::All => true,
            Covers::Channel(kind) => lane.channel().is_email() == (*kind == Kind::Email),
            Covers::Host(host) => lane.channel().host() == Some(host),
            Covers::Tag(tag) => lane.tags().contains(tag),
        }
    }

    /// Where it covers none of these lanes: why, with the nearest that it would.
    #[must_use]
    pub fn misses(&self, lanes: &[Lane]) -> Option<String> {
        if lanes.is_empty() || lanes.iter().any(|lane| self.covers(lane)) {
            return None;
        }
        let nearest = |text: &str, known: &mut dyn Iterator<Item = &str>| {
            let nearness = |other: &&str| strsim::jaro_winkler(text, other);
            let nearest = known.max_by(|a, b| nearness(a).total_cmp(&nearness(b)));
            nearest.map_or_else(String::new, |nearest| format!("; the nearest is '{nearest}'"))
        };
        match self {
            // What goes by a kind of channel may come to be; its name is right.
            Covers::All | Covers::Channel(_) => None,
            Covers::Host(host) => {
                let nearest = nearest(host, &mut lanes.iter().filter_map(|lane| lane.channel().host()));
                Some(format!("no subscriber has a webhook at '{host}'{nearest}"))
            }
            Covers::Tag(tag) => {
                let nearest = nearest(tag.as_str(), &mut lanes.iter().flat_map(|lane| lane.tags().iter()).map(Tag::as_str));
                Some(format!("no subscriber has the tag '{tag}'{nearest}"))
            }
        }
    }
}

impl fmt::Display for Covers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Covers::All => f.pad("all deliveries"),
            Covers::Channel(Kind::Email) => f.pad("all email"),
            Covers::Channel(Kind::Webhook) => f.pad("all webhooks"),
            Covers::Host(host) => f.pad(&format!("webhooks at {host}")),
            Covers::Tag(tag) => f.pad(&format!("subscribers tagged {tag}")),
        }
    }
}
