//! The subscriber: one recipient with a destination, an interest, a limiter, and what happens to the excess.

mod preset;
mod tag;

use std::fmt;
use std::str::FromStr;

use email_address::EmailAddress;
use serde::{Deserialize, Serialize, de};
use url::Url;

use crate::interest::Interest;
use crate::limiter::Policy;
use crate::plain::without_url_secrets;
use crate::quiet::QuietHours;
use crate::time::Timestamp;

pub use preset::{MAX_TEMPLATE_BYTES, Preset, Template, TemplateKind};
pub use tag::{MAX_TAG_BYTES, MAX_TAGS, Tag, Tags};

/// The longest name of a subscriber, in bytes.
pub const MAX_NAME_BYTES: usize = 64;
/// The longest address or URL of a destination, in bytes.
pub const MAX_DESTINATION_BYTES: usize = 2_048;

/// One recipient: everything about it that an operator sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscriber {
    pub name: SubscriberName,
    pub destination: Destination,
    /// How a webhook's messages are written; email has one form only.
    #[serde(default, skip_serializing_if = "Preset::is_standard")]
    pub preset: Preset,
    #[serde(default)]
    pub interest: Interest,
    pub policy: Policy,
    #[serde(default)]
    pub excess: Excess,
    #[serde(default)]
    pub mode: Mode,
    #[serde(default)]
    pub updates: Updates,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<QuietHours>,
    /// What the operator's limits on deliveries may name.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
}

/// What happens to an event that the limiter refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Excess {
    /// One message tells of all of them as soon as the limiter allows one again.
    #[default]
    Digest,
    /// Each waits for its turn, the largest first; what waited too long goes into a digest.
    Delay,
    /// The ledger alone tells of it.
    Drop,
}

/// Whether the limiter's refusals count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Enforce,
    /// Decides and records, but withholds nothing: shows what a limit would do.
    Shadow,
}

/// Of which changes to what it was told a subscriber hears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Updates {
    /// Of none, not even that an event was withdrawn.
    None,
    /// Of major ones, as `revision` has them, and of withdrawals.
    #[default]
    Major,
    /// Of all that a reader sees, and of withdrawals.
    All,
}

/// Whether a subscriber takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    #[default]
    Active,
    /// By the operator, until resumed.
    Paused,
    /// By the daemon, because the destination refused for good.
    Disabled,
}

/// Which subscriber it is, whatever it is called by then: what a link to leave by stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Enrolment {
    /// Given to no other subscriber of the same database, also not after this one is removed.
    pub number: i64,
    /// When it was added: tells apart those of one number in two courses of a restored database.
    pub at: Timestamp,
}

/// A subscriber's name: 1 to [`MAX_NAME_BYTES`] letters, digits, `.`, `_`, `-` or `@`, the first a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SubscriberName(String);

/// Where alerts go.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    Email(Address),
    Webhook(WebhookUrl),
}

/// An email address, without a display name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Address(String);

/// An `http` or `https` URL with a host and without credentials or fragment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct WebhookUrl(Url);

/// Why a text is not a name or a destination. No message shows more of a URL than its host, see [`without_url_secrets`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscriberError {
    #[error(
        "'{0}' is not a subscriber's name: expected 1 to {MAX_NAME_BYTES} letters, digits, '.', '_', '-' or '@', starting with a letter or digit"
    )]
    Name(String),
    #[error(
        "'{0}' is not a tag: expected 1 to {MAX_TAG_BYTES} letters, digits, '.', '_' or '-', starting with a letter or digit"
    )]
    Tag(String),
    #[error("a subscriber has at most {MAX_TAGS} tags, not {0}")]
    Tags(usize),
    #[error("'{0}' is not an email address: expected one address like anna@example.org, without a display name")]
    Address(String),
    #[error("'{text}' is not known here: expected {expected}")]
    Word { text: String, expected: &'static str },
    #[error("'{url}' is not a webhook URL: {fault}")]
    Webhook { url: String, fault: &'static str },
}

impl FromStr for SubscriberName {
    type Err = SubscriberError;

    fn from_str(text: &str) -> Result<SubscriberName, SubscriberError> {
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let rest = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-@".contains(&b));
        if first && rest && text.len() <= MAX_NAME_BYTES {
            Ok(SubscriberName(text.to_owned()))
        } else {
            Err(SubscriberError::Name(without_url_secrets(text)))
        }
    }
}

impl FromStr for Address {
    type Err = SubscriberError;

    fn from_str(text: &str) -> Result<Address, SubscriberError> {
        // A quoted local part could carry spaces and specials into headers; nobody has such an address.
        let plain = !text.contains(|c: char| c.is_control() || c.is_whitespace() || "\"<>(),;:\\[]".contains(c));
        if plain && text.is_ascii() && EmailAddress::is_valid(text) {
            Ok(Address(text.to_owned()))
        } else {
            Err(SubscriberError::Address(without_url_secrets(text)))
        }
    }
}

impl FromStr for WebhookUrl {
    type Err = SubscriberError;

    fn from_str(text: &str) -> Result<WebhookUrl, SubscriberError> {
        let wrong = |fault| SubscriberError::Webhook { url: shown(text), fault };
        if text.len() > MAX_DESTINATION_BYTES {
            return Err(wrong("expected at most 2048 bytes"));
        }
        if text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return Err(wrong("expected no spaces or control characters"));
        }
        let url = Url::parse(text).map_err(|_| wrong("expected an absolute URL like https://example.org/hook"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("expected http or https"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(wrong("expected a host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("expected no user name or password in it"));
        }
        if url.fragment().is_some() {
            return Err(wrong("expected no fragment (#…)"));
        }
        Ok(WebhookUrl(url))
    }
}

/// What a message may show of a text that was to be a webhook's URL.
fn shown(text: &str) -> String {
    // Without its scheme a URL with a password is not seen to be one.
    if text.contains("://") || !text.contains('@') { without_url_secrets(text) } else { "…".to_owned() }
}

impl SubscriberName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Address {
    /// The address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl WebhookUrl {
    /// The parsed URL.
    #[must_use]
    pub fn as_url(&self) -> &Url {
        &self.0
    }
}

macro_rules! text_form {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.0.as_ref())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}
text_form!(SubscriberName, Address, WebhookUrl);

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Email(address) => address.fmt(f),
            Destination::Webhook(url) => url.fmt(f),
        }
    }
}

macro_rules! words {
    ($($name:ident { $($variant:ident = $word:literal),* } $what:literal;)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $($name::$variant => $word),* })
            }
        }

        impl FromStr for $name {
            type Err = SubscriberError;

            fn from_str(text: &str) -> Result<$name, SubscriberError> {
                match text {
                    $($word => Ok($name::$variant),)*
                    _ => Err(SubscriberError::Word { text: text.to_owned(), expected: $what }),
                }
            }
        }
    )*};
}
words! {
    Excess { Digest = "digest", Delay = "delay", Drop = "drop" } "digest, delay or drop";
    Mode { Enforce = "enforce", Shadow = "shadow" } "enforce or shadow";
    Updates { None = "none", Major = "major", All = "all" } "none, major or all";
    Standing { Active = "active", Paused = "paused", Disabled = "disabled" } "active, paused or disabled";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_could_carry_a_header_are_refused() {
        assert!("anna+quakes@example.org".parse::<Address>().is_ok());
        for text in [
            "",
            "anna",
            "anna@",
            "@example.org",
            "a b@example.org",
            "a@example.org\r\nBcc: b@example.org",
            "Anna <a@example.org>",
            "a@b@example.org",
        ] {
            assert_eq!(text.parse::<Address>(), Err(SubscriberError::Address(text.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn webhooks_are_http_without_secrets_in_the_url() {
        assert!("https://hooks.example.org/T0/B0?x=1".parse::<WebhookUrl>().is_ok());
        for text in [
            "",
            "example.org/hook",
            "ftp://example.org/",
            "file:///etc/passwd",
            "https://",
            "https://example.org/#top",
            "https://exa mple.org/",
        ] {
            assert!(text.parse::<WebhookUrl>().is_err(), "{text:?}");
        }
        let refused = "https://anna:hunter2@example.org/hook".parse::<WebhookUrl>().expect_err("credentials");
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }

    #[test]
    fn names_are_plain() {
        assert!("anna.k-2@home".parse::<SubscriberName>().is_ok());
        for text in ["", "-anna", "anna k", "anna\n", "ä", &"x".repeat(65)] {
            assert!(text.parse::<SubscriberName>().is_err(), "{text:?}");
        }
    }
}
