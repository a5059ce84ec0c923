//! Tags: words that an operator puts on subscribers, for limits that cover some of them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};

use super::SubscriberError;
use crate::plain::one_line;

/// The longest tag, in bytes.
pub const MAX_TAG_BYTES: usize = 32;
/// The most tags of one subscriber.
pub const MAX_TAGS: usize = 8;

/// One word: 1 to [`MAX_TAG_BYTES`] letters, digits, `.`, `_` or `-`, the first a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Tag(String);

/// A subscriber's tags, at most [`MAX_TAGS`], in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Tags(BTreeSet<Tag>);

impl Tag {
    /// The tag as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tag {
    type Err = SubscriberError;

    fn from_str(text: &str) -> Result<Tag, SubscriberError> {
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let rest = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if first && rest && text.len() <= MAX_TAG_BYTES {
            Ok(Tag(text.to_owned()))
        } else {
            Err(SubscriberError::Tag(one_line(text, 2 * MAX_TAG_BYTES)))
        }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for Tag {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Tag, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Tags {
    /// These tags; the same one twice is one.
    ///
    /// # Errors
    /// [`SubscriberError::Tags`] if there are more than [`MAX_TAGS`].
    pub fn new(tags: impl IntoIterator<Item = Tag>) -> Result<Tags, SubscriberError> {
        let tags: BTreeSet<Tag> = tags.into_iter().collect();
        if tags.len() > MAX_TAGS { Err(SubscriberError::Tags(tags.len())) } else { Ok(Tags(tags)) }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is among them.
    #[must_use]
    pub fn contains(&self, tag: &Tag) -> bool {
        self.0.contains(tag)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Tag> {
        self.0.iter()
    }
}

/// With commas between.
impl FromStr for Tags {
    type Err = SubscriberError;

    fn from_str(text: &str) -> Result<Tags, SubscriberError> {
        Tags::new(text.split(',').map(str::parse).collect::<Result<Vec<Tag>, _>>()?)
    }
}

impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tags: Vec<&str> = self.iter().map(Tag::as_str).collect();
        f.pad(&tags.join(", "))
    }
}

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Tags, D::Error> {
        Tags::new(Vec::<Tag>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_words_in_order_each_once() {
        let tags: Tags = "vip,bulk,vip".parse().expect("tags");
        assert_eq!(tags.to_string(), "bulk, vip");
        for text in ["", "a,", "a b", "#a", "-a", &"x".repeat(MAX_TAG_BYTES + 1)] {
            assert!(text.parse::<Tags>().is_err(), "{text:?}");
        }
        let many: Vec<String> = (0..=MAX_TAGS).map(|at| format!("t{at}")).collect();
        assert_eq!(many.join(",").parse::<Tags>(), Err(SubscriberError::Tags(MAX_TAGS + 1)));
        assert!(many[..MAX_TAGS].join(",").parse::<Tags>().is_ok());
    }
}
