//! The channel: what deliveries share on their way out, and what is therefore limited and breaks together. And the lane: those of
//! one channel that the same limits cover.

use std::fmt;

use serde::Serialize;
use url::Position;

use crate::subscriber::{Destination, Subscriber, Tags};

/// The mail relay (`email`), or the origin of a webhook's URL (`https://hooks.example.org`, with the port where it is not
/// the usual one): one host as far as a sender can tell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Channel(String);

/// The relay's name. An origin has a scheme and is never equal to it.
const EMAIL: &str = "email";

impl Channel {
    /// The channel of a destination.
    #[must_use]
    pub fn of(destination: &Destination) -> Channel {
        match destination {
            Destination::Email(_) => Channel(EMAIL.to_owned()),
            // Its scheme, host and port: it has no user, and the parser leaves out the usual port.
            Destination::Webhook(url) => Channel(url.as_url()[..Position::BeforePath].to_owned()),
        }
    }

    /// The channel that was written as this text.
    #[must_use]
    pub fn from_text(text: String) -> Channel {
        Channel(text)
    }

    /// The channel as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the mail relay.
    #[must_use]
    pub fn is_email(&self) -> bool {
        self.0 == EMAIL
    }

    /// The webhook's host, with its port where that is not the usual one; `None` for the mail relay.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.0.split_once("://").map(|(_, host)| host)
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The deliveries of one channel whose subscribers have the same tags: what limits cover, they cover as a whole. A row has it
/// as one text, the channel and then ` #` before each tag: `email`, `email #bulk #europe`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    text: String,
    channel: Channel,
    tags: Tags,
}

/// Stands before each tag; neither a relay nor an origin has a space in it.
const BEFORE_TAG: &str = " #";

impl Lane {
    /// The lane of what goes to this subscriber.
    #[must_use]
    pub fn of(subscriber: &Subscriber) -> Lane {
        Lane::new(Channel::of(&subscriber.destination), subscriber.tags.clone())
    }

    /// The lane without tags of a channel.
    #[must_use]
    pub fn untagged(channel: Channel) -> Lane {
        Lane::new(channel, Tags::default())
    }

    fn new(channel: Channel, tags: Tags) -> Lane {
        let mut text = channel.0.clone();
        for tag in tags.iter() {
            text.push_str(BEFORE_TAG);
            text.push_str(tag.as_str());
        }
        Lane { text, channel, tags }
    }

    /// The lane that was written as this text. A tag that is none stays in the text, and nothing names it.
    #[must_use]
    pub fn from_text(text: String) -> Lane {
        let mut parts = text.split(BEFORE_TAG);
        let channel = Channel(parts.next().unwrap_or_default().to_owned());
        let tags = Tags::new(parts.filter_map(|tag| tag.parse().ok())).unwrap_or_default();
        Lane { text, channel, tags }
    }

    /// The lane as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The channel that it is one of.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The tags that its subscribers have.
    #[must_use]
    pub fn tags(&self) -> &Tags {
        &self.tags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_a_channel_with_tags() {
        for (text, channel, tags) in [
            ("email", "email", ""),
            ("email #bulk #europe", "email", "bulk, europe"),
            ("https://[2001:db8::1]:8443 #a", "https://[2001:db8::1]:8443", "a"),
        ] {
            let lane = Lane::from_text(text.to_owned());
            assert_eq!((lane.as_str(), lane.channel().as_str(), lane.tags().to_string().as_str()), (text, channel, tags));
            assert_eq!(Lane::new(lane.channel.clone(), lane.tags.clone()), lane);
        }
    }

    #[test]
    fn a_channel_is_the_relay_or_an_origin() {
        let hook = |url: &str| Channel::of(&Destination::Webhook(url.parse().expect(url)));
        for (url, channel, host) in [
            ("https://hooks.example.org/a/b?c", "https://hooks.example.org", "hooks.example.org"),
            ("https://HOOKS.example.org:443?c", "https://hooks.example.org", "hooks.example.org"),
            ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("https://[2001:db8::1]/", "https://[2001:db8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!((hook(url).as_str(), hook(url).host(), hook(url).is_email()), (channel, Some(host), false));
        }
        let mail = Channel::of(&Destination::Email("anna@example.org".parse().expect("an address")));
        assert_eq!((mail.as_str(), mail.host(), mail.is_email()), ("email", None, true));
    }
}
