//! How a subscriber leaves: the page with one click (RFC 8058), what the message says, and the header that mail programs act on
//! (RFC 2369).
//!
//! A link ends in a token: the subscriber's number and a code that only the holder of the installation's key can make
//! (HMAC-SHA256, cut to 128 bits). So a link never expires, needs no row, and cannot be guessed; nor can it be made out of the
//! database, since the key lies in a file of its own.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;
use url::{Host, Url};

use super::error::DeliveryError;
use crate::subscriber::Enrolment;

/// What may stand unescaped in a `mailto:` URL here (RFC 6068 allows more).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
/// The same for the address itself, whose `@` and `+` programs expect as they are.
const ESCAPED_IN_ADDRESS: &AsciiSet = &ESCAPED.remove(b'@').remove(b'+');
/// The length of the installation's key, in bytes.
const KEY_BYTES: usize = 32;
/// How many bytes of a token name the subscriber, and how many prove that it is from here.
const NUMBER_BYTES: usize = 8;
const CODE_BYTES: usize = 16;
/// The longest address of the pages, in bytes: a link must fit into one line of a message.
const MAX_BASE_BYTES: usize = 200;
/// Sets these codes apart from others that a key might ever make.
const PURPOSE: &[u8] = b"throttler unsubscribe v1";

/// The installation's key. It does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct UnsubscribeKey([u8; KEY_BYTES]);

/// Where the pages are: an `https` URL, or `http` to this machine, without query, fragment and credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(Url);

/// What makes links, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsubscribeLinks {
    pub base: BaseUrl,
    pub key: UnsubscribeKey,
}

impl FromStr for UnsubscribeKey {
    type Err = String;

    fn from_str(text: &str) -> Result<UnsubscribeKey, String> {
        let key = STANDARD_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        key.map(UnsubscribeKey).ok_or_else(|| "expected 32 bytes in base64 without padding".to_owned())
    }
}

impl UnsubscribeKey {
    /// The key in the file at `path`; made there, readable by its owner alone, where there is none.
    ///
    /// # Errors
    /// [`DeliveryError::UnsubscribeKey`] for a file that cannot be made or read, that others may read, or that holds something
    /// else; it is as it was then.
    pub fn open(path: &Path) -> Result<UnsubscribeKey, DeliveryError> {
        let wrap = |source| DeliveryError::UnsubscribeKey { path: path.to_owned(), source };
        match UnsubscribeKey::read(path) {
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => {}
            read => return read.map_err(wrap),
        }
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(DeliveryError::Randomness)?;
        match write_new(path, &UnsubscribeKey(key).expose()) {
            Ok(()) => Ok(UnsubscribeKey(key)),
            // Another process was quicker.
            Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => UnsubscribeKey::read(path).map_err(wrap),
            Err(fault) => Err(wrap(fault)),
        }
    }

    /// The key as its file has it. It is a secret.
    #[must_use]
    pub fn expose(&self) -> String {
        STANDARD_NO_PAD.encode(self.0)
    }

    fn read(path: &Path) -> io::Result<UnsubscribeKey> {
        let file = File::open(path)?;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            return Err(io::Error::other("others than its owner may read it; expected mode 600"));
        }
        let mut text = String::new();
        file.take(1_000).read_to_string(&mut text)?;
        text.trim_end().parse().map_err(io::Error::other)
    }

    /// The token of a subscriber: 32 letters, digits, `-` and `_`.
    #[must_use]
    pub fn token(&self, who: Enrolment) -> String {
        let number = who.number.to_be_bytes();
        let code = self.mac(who).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([&number, &code[..CODE_BYTES]].concat())
    }

    /// The number of the subscriber that a token claims to be of; `None` for a text that is no token.
    #[must_use]
    pub fn claimed_number(token: &str) -> Option<i64> {
        let (number, _) = parts(token)?;
        Some(i64::from_be_bytes(number))
    }

    /// Whether this token is the subscriber's, in the same time for every wrong one.
    #[must_use]
    pub fn verifies(&self, token: &str, who: Enrolment) -> bool {
        parts(token).is_some_and(|(_, code)| self.mac(who).verify_truncated_left(&code).is_ok())
    }

    fn mac(&self, who: Enrolment) -> Hmac<Sha256> {
        // A key of a hash's length is one that HMAC takes; it takes any.
        let mut mac = Hmac::<Sha256>::new(&{
            let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
            block[..KEY_BYTES].copy_from_slice(&self.0);
            block
        });
        mac.update(PURPOSE);
        mac.update(&who.number.to_be_bytes());
        mac.update(&who.at.ticks().to_be_bytes());
        mac
    }
}

/// The two parts of a token.
fn parts(token: &str) -> Option<([u8; NUMBER_BYTES], [u8; CODE_BYTES])> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (number, code) = bytes.split_first_chunk()?;
    Some((*number, code.try_into().ok()?))
}

/// Writes a file that is there whole or not at all, readable by its owner alone.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft =
        tempfile::Builder::new().prefix(".key-").permissions(fs::Permissions::from_mode(0o600)).tempfile_in(directory)?;
    writeln!(draft, "{text}")?;
    draft.as_file().sync_all()?;
    draft.persist_noclobber(path).map_err(|failed| failed.error)?;
    // The name is on disk only now; links that go out before would die with it.
    File::open(directory)?.sync_all()
}

impl fmt::Debug for UnsubscribeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnsubscribeKey(…)")
    }
}

impl FromStr for BaseUrl {
    type Err = DeliveryError;

    fn from_str(text: &str) -> Result<BaseUrl, DeliveryError> {
        let wrong = |fault| DeliveryError::BaseUrl { text: text.to_owned(), fault };
        let mut url = Url::parse(text).map_err(|_| wrong("expected an absolute URL like https://alerts.example.org"))?;
        let here = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => return Err(wrong("expected a host")),
        };
        if url.scheme() != "https" && !(url.scheme() == "http" && here) {
            return Err(wrong("expected https, which one-click unsubscribing needs (http only to this machine)"));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("expected no user name, query or fragment in it"));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        if url.as_str().len() > MAX_BASE_BYTES {
            return Err(wrong("expected at most 200 bytes"));
        }
        Ok(BaseUrl(url))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

impl UnsubscribeLinks {
    /// The page of a subscriber.
    #[must_use]
    pub fn url(&self, who: Enrolment) -> String {
        format!("{}/unsubscribe/{}", self.base, self.key.token(who))
    }
}

/// The sentence at the end of a webhook's message.
pub(super) fn from_webhook(subscriber: &str) -> String {
    format!("To unsubscribe, remove this webhook or answer 410 Gone; the operator knows it as \"{subscriber}\".")
}

/// By mail to the operator with the subscriber's name in the subject, or on a page with one click.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsubscribe {
    address: String,
    subject: String,
    page: Option<String>,
}

impl Unsubscribe {
    /// By mail to `address`, for the subscriber of that name.
    #[must_use]
    pub fn by_mail(address: &str, subscriber: &str) -> Unsubscribe {
        Unsubscribe { address: address.to_owned(), subject: format!("unsubscribe {subscriber}"), page: None }
    }

    /// The same, and on this page where there is one.
    #[must_use]
    pub fn or_on(self, page: Option<&str>) -> Unsubscribe {
        Unsubscribe { page: page.map(str::to_owned), ..self }
    }

    /// The sentence at the end of a message.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.page {
            Some(page) => format!("To unsubscribe, open {page}"),
            None => format!("To unsubscribe, write to {} with the subject \"{}\".", self.address, self.subject),
        }
    }

    /// The page, else a `mailto:` URL; in ASCII and without spaces.
    #[must_use]
    pub fn url(&self) -> String {
        self.page.clone().unwrap_or_else(|| self.mailto())
    }

    /// The values of `List-Unsubscribe` and, where one click is enough, `List-Unsubscribe-Post`.
    pub(super) fn headers(&self) -> (String, Option<&'static str>) {
        match &self.page {
            Some(page) => (format!("<{page}>, <{}>", self.mailto()), Some("List-Unsubscribe=One-Click")),
            None => (format!("<{}>", self.mailto()), None),
        }
    }

    fn mailto(&self) -> String {
        let address = utf8_percent_encode(&self.address, ESCAPED_IN_ADDRESS);
        format!("mailto:{address}?subject={}", utf8_percent_encode(&self.subject, ESCAPED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn pages_are_where_one_click_may_be() {
        for (text, shown) in [
            ("https://alerts.example.org", "https://alerts.example.org"),
            ("https://example.org/quakes/", "https://example.org/quakes"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]/", "http://[::1]"),
        ] {
            assert_eq!(text.parse::<BaseUrl>().expect(text).to_string(), shown);
        }
        let long = format!("https://example.org/{}", "x".repeat(200));
        for text in [
            "",
            "alerts.example.org",
            "http://alerts.example.org",
            "ftp://example.org",
            "https://a:b@example.org",
            "https://example.org/?x",
            "https://example.org/#x",
            &long,
        ] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_bit_of_a_token_and_of_whose_it_is_counts() {
        let at = Timestamp::saturating_from_ticks(1_000);
        let who = Enrolment { number: 7, at };
        let (key, other) = (UnsubscribeKey([1; KEY_BYTES]), UnsubscribeKey([2; KEY_BYTES]));
        let token = key.token(who);
        assert_eq!((token.len(), UnsubscribeKey::claimed_number(&token)), (32, Some(7)));
        assert!(key.verifies(&token, who) && !other.verifies(&token, who));
        assert!(!key.verifies(&token, Enrolment { number: 8, at }));
        assert!(!key.verifies(&token, Enrolment { number: 7, at: Timestamp::saturating_from_ticks(1_001) }));
        let bytes = URL_SAFE_NO_PAD.decode(&token).expect("a token");
        for bit in NUMBER_BYTES * 8..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verifies(&URL_SAFE_NO_PAD.encode(wrong), who), "bit {bit}");
        }
        for text in ["", "x", &token[1..], &token[..24]] {
            assert!(!key.verifies(text, who) && UnsubscribeKey::claimed_number(text).is_none(), "{text}");
        }
    }
}
