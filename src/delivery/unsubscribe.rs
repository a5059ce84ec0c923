//! How a subscriber leaves: what the message says, and the header that mail programs act on (RFC 2369).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What may stand unescaped in a `mailto:` URL here (RFC 6068 allows more).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
/// The same for the address itself, whose `@` and `+` programs expect as they are.
const ESCAPED_IN_ADDRESS: &AsciiSet = &ESCAPED.remove(b'@').remove(b'+');

/// The sentence at the end of a webhook's message.
pub(super) fn from_webhook(subscriber: &str) -> String {
    format!("To unsubscribe, remove this webhook or answer 410 Gone; the operator knows it as \"{subscriber}\".")
}

/// By mail to the operator, with the subscriber's name in the subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsubscribe {
    address: String,
    subject: String,
}

impl Unsubscribe {
    /// By mail to `address`, for the subscriber of that name.
    #[must_use]
    pub fn by_mail(address: &str, subscriber: &str) -> Unsubscribe {
        Unsubscribe { address: address.to_owned(), subject: format!("unsubscribe {subscriber}") }
    }

    /// The sentence at the end of a message.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!("To unsubscribe, write to {} with the subject \"{}\".", self.address, self.subject)
    }

    /// A `mailto:` URL, in ASCII and without spaces.
    #[must_use]
    pub fn url(&self) -> String {
        let address = utf8_percent_encode(&self.address, ESCAPED_IN_ADDRESS);
        format!("mailto:{address}?subject={}", utf8_percent_encode(&self.subject, ESCAPED))
    }
}
