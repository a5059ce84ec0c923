//! The notice: what the operator is told of the service itself, as alerts tell subscribers of earthquakes. What has changed is
//! told, once; how a message looks is `delivery`'s business, when one is made `daemon`'s.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// A notice lists at most so many of each kind, those that were noticed first; its counts tell of all.
pub const MAX_LISTED: usize = 50;
/// What is noticed within this after the first change is told together with it.
pub const GATHER: Span = Span::from_seconds(60);
/// Whom messages with notices name as their recipient.
pub const OPERATOR: &str = "operator";

/// What the operator may want to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum Topic {
    /// The feed goes stale, and recovers.
    StaleFeed,
    /// A destination refuses for good, or a message to it was given up; and it takes messages again.
    DeadDestination,
    /// A limiter stands in a subscriber's way day after day, and does no more.
    SustainedWithholding,
}

/// By which of the operator's own two ways a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    Email,
    Webhook,
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    FeedStale,
    FeedFresh,
    DestinationDead,
    DestinationRecovered,
    WithholdingBegan,
    WithholdingEnded,
}

/// What one message tells: each [`What`] at most once, in their order; never nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub sections: Vec<Section>,
    /// Whether it only tries the way to the operator: nothing of it is so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exercise: bool,
}

/// All that changed in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    pub what: What,
    pub count: u64,
    /// Those noticed first, at most [`MAX_LISTED`]; never empty.
    pub listed: Vec<Item>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Whose it is; `None` where it is the feed's.
    pub subscriber: Option<String>,
    pub noticed_at: Timestamp,
    /// Since when it is so.
    pub since: Timestamp,
    /// In one line without a full stop.
    pub detail: String,
}

impl Topic {
    /// All of them: the default.
    pub const ALL: [Topic; 3] = [Topic::StaleFeed, Topic::DeadDestination, Topic::SustainedWithholding];

    /// Its word in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Topic::StaleFeed => "stale-feed",
            Topic::DeadDestination => "dead-destination",
            Topic::SustainedWithholding => "sustained-withholding",
        }
    }
}

impl FromStr for Topic {
    type Err = String;

    fn from_str(text: &str) -> Result<Topic, String> {
        let known = Topic::ALL.into_iter().find(|topic| topic.name() == text);
        known.ok_or_else(|| format!("'{text}' is not a notice: expected stale-feed, dead-destination or sustained-withholding"))
    }
}

impl TryFrom<String> for Topic {
    type Error = String;

    fn try_from(text: String) -> Result<Topic, String> {
        text.parse()
    }
}

impl Way {
    /// Both, in the order in which they are attempted.
    pub const ALL: [Way; 2] = [Way::Email, Way::Webhook];

    /// Its word in the database and in JSON, and the key of the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Way::Email => "email",
            Way::Webhook => "webhook",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Way, String> {
        let known = Way::ALL.into_iter().find(|way| way.name() == text);
        known.ok_or_else(|| format!("'{text}' is not a way: expected email or webhook"))
    }
}

impl What {
    /// All of them, in the order in which they are told.
    pub const ALL: [What; 6] = [
        What::FeedStale,
        What::FeedFresh,
        What::DestinationDead,
        What::DestinationRecovered,
        What::WithholdingBegan,
        What::WithholdingEnded,
    ];

    /// Its word in the database and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            What::FeedStale => "feed-stale",
            What::FeedFresh => "feed-fresh",
            What::DestinationDead => "destination-dead",
            What::DestinationRecovered => "destination-recovered",
            What::WithholdingBegan => "withholding-began",
            What::WithholdingEnded => "withholding-ended",
        }
    }

    /// What to do about it: the same as the documents say of the log's lines.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            What::FeedStale => "Look at the network, or wait for the service: another notice tells when it is over.",
            What::FeedFresh => "Nothing; what came meanwhile is asked for by itself.",
            What::DestinationDead => {
                "Ask the subscriber, then `throttler subscriber set` another destination, or `subscriber resume`. \
                 `throttler outbox list --status dead` says why; `outbox retry` puts messages back, `outbox drop` ends them."
            }
            What::DestinationRecovered => {
                "Nothing; `throttler outbox retry` puts back what was given up meanwhile, if it is still of use."
            }
            What::WithholdingBegan => {
                "The limit is too small for the interest: look at `throttler report`, then `throttler subscriber set` \
                 a larger rate or bucket, or another interest."
            }
            What::WithholdingEnded => "Nothing.",
        }
    }

    /// So many of these, in words.
    #[must_use]
    pub fn counted(self, count: u64) -> String {
        let (destinations, are, take) = if count == 1 { ("destination", "is", "takes") } else { ("destinations", "are", "take") };
        let subscribers = if count == 1 { "subscriber" } else { "subscribers" };
        match self {
            What::FeedStale => "the feed is stale".to_owned(),
            What::FeedFresh => "the feed is fresh again".to_owned(),
            What::DestinationDead => format!("{count} {destinations} {are} dead"),
            What::DestinationRecovered => format!("{count} {destinations} {take} messages again"),
            What::WithholdingBegan => format!("withholding is sustained for {count} {subscribers}"),
            What::WithholdingEnded => format!("withholding is no longer sustained for {count} {subscribers}"),
        }
    }

    const fn is_of_the_feed(self) -> bool {
        matches!(self, What::FeedStale | What::FeedFresh)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<What, String> {
        let known = What::ALL.into_iter().find(|what| what.name() == text);
        known.ok_or_else(|| format!("'{text}' is not known here: expected feed-stale or another change"))
    }
}

impl Notice {
    /// One that tries the ways to the operator.
    #[must_use]
    pub fn exercise(now: Timestamp) -> Notice {
        let detail = "an example of what a notice says".to_owned();
        let item = Item { subscriber: None, noticed_at: now, since: now, detail };
        Notice { sections: vec![Section { what: What::FeedStale, count: 1, listed: vec![item] }], exercise: true }
    }

    /// One line for people: `throttler: the feed is stale; 3 destinations are dead`. Of the feed it says what holds now.
    #[must_use]
    pub fn title(&self) -> String {
        let newest = |section: &Section| section.listed.iter().map(|item| item.noticed_at).max();
        let of_the_feed = self.sections.iter().filter(|section| section.what.is_of_the_feed());
        let holds = of_the_feed.max_by_key(|section| newest(section)).map(|section| section.what);
        let told = self.sections.iter().filter(|section| !section.what.is_of_the_feed() || Some(section.what) == holds);
        let parts: Vec<String> = told.map(Section::in_words).collect();
        format!("{}throttler: {}", if self.exercise { "EXERCISE: " } else { "" }, parts.join("; "))
    }
}

impl Section {
    /// How much of it there is; of one subscriber, also who it is.
    #[must_use]
    pub fn in_words(&self) -> String {
        let words = self.what.counted(self.count);
        match self.listed.first().and_then(|item| item.subscriber.as_deref()) {
            Some(name) if self.count == 1 => format!("{words} ({name})"),
            _ => words,
        }
    }

    /// How many are not listed.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.count.saturating_sub(u64::try_from(self.listed.len()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(what: What, count: u64, at: u64, names: &[&str]) -> Section {
        let noticed_at = Timestamp::saturating_from_ticks(0).plus(Span::from_seconds(at));
        let item = |name: Option<&str>| Item {
            subscriber: name.map(str::to_owned),
            noticed_at,
            since: noticed_at,
            detail: String::new(),
        };
        let listed = if names.is_empty() { vec![item(None)] } else { names.iter().map(|name| item(Some(name))).collect() };
        Section { what, count, listed }
    }

    #[test]
    fn the_title_tells_everything_once_and_of_the_feed_what_holds() {
        let stale = |at| section(What::FeedStale, 1, at, &[]);
        let fresh = |at| section(What::FeedFresh, 1, at, &[]);
        for (sections, title) in [
            (vec![stale(0)], "throttler: the feed is stale"),
            (vec![stale(0), fresh(1)], "throttler: the feed is fresh again"),
            (vec![stale(2), fresh(1)], "throttler: the feed is stale"),
            (vec![section(What::DestinationDead, 1, 0, &["anna"])], "throttler: 1 destination is dead (anna)"),
            (
                vec![fresh(0), section(What::DestinationDead, 3, 0, &["anna", "ben", "clara"])],
                "throttler: the feed is fresh again; 3 destinations are dead",
            ),
            (
                vec![
                    section(What::WithholdingBegan, 1, 0, &["anna"]),
                    section(What::WithholdingEnded, 1_200, 0, &["ben", "clara"]),
                ],
                "throttler: withholding is sustained for 1 subscriber (anna); withholding is no longer sustained for 1200 subscribers",
            ),
        ] {
            assert_eq!(Notice { sections, exercise: false }.title(), title);
        }
        assert_eq!(section(What::DestinationDead, 1_200, 0, &["ben", "clara"]).left_out(), 1_198);
    }

    #[test]
    fn one_is_one_and_many_are_many() {
        assert_eq!(What::DestinationRecovered.counted(1), "1 destination takes messages again");
        assert_eq!(What::DestinationRecovered.counted(2), "2 destinations take messages again");
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        assert!(Topic::ALL.into_iter().all(|topic| topic.name().parse() == Ok(topic)));
        assert!(Way::ALL.into_iter().all(|way| way.name().parse() == Ok(way)));
        assert!(What::ALL.into_iter().all(|what| what.name().parse() == Ok(what)));
        assert!(What::ALL.into_iter().all(|what| serde_json::to_value(what).is_ok_and(|word| word == what.name())));
        assert_eq!(
            "everything".parse::<Topic>(),
            Err("'everything' is not a notice: expected stale-feed, dead-destination or sustained-withholding".to_owned())
        );
    }
}
