//! The address of a feed: http, https or a file, checked before anything is asked of it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};
use url::{Host, Url};

use super::error::FeedError;
use super::fdsn::FdsnUrl;
use crate::time::Span;

/// The least time between two polls of a feed: the service renews its feeds once a minute.
pub const MIN_POLL: Span = Span::from_seconds(60);
/// The least time between two polls of a file or of a feed on this machine.
pub const MIN_POLL_LOCAL: Span = Span::from_millis(10);
/// The periods of the USGS's summary feeds, and how far back each reaches.
const PERIODS: [(&str, Span); 4] = [
    ("hour", Span::from_seconds(3_600)),
    ("day", Span::from_seconds(86_400)),
    ("week", Span::from_seconds(7 * 86_400)),
    ("month", Span::from_seconds(30 * 86_400)),
];
/// Who runs the default feed.
const USGS_HOST: &str = "earthquake.usgs.gov";
/// Who hands on the EMSC's events.
const EMSC_DOMAIN: &str = "seismicportal.eu";
/// How much of a host's name goes in front of an id, which has room for 64 bytes.
const MAX_SERVICE_BYTES: usize = 32;
/// The longest address, in bytes.
const MAX_URL_BYTES: usize = 2_048;

/// An `http`, `https` or `file` URL without credentials or fragment, at most 2048 bytes long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FeedUrl(Url);

impl FeedUrl {
    /// The URL.
    #[must_use]
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// The least time between two polls: [`MIN_POLL_LOCAL`] for files and loopback, [`MIN_POLL`] for all others.
    #[must_use]
    pub fn min_poll(&self) -> Span {
        if self.0.scheme() == "file" || is_loopback(&self.0) { MIN_POLL_LOCAL } else { MIN_POLL }
    }

    /// How far back the origins of the feed's events lie: told by names like the USGS's, `4.5_day.geojson`; unknown for files
    /// and others.
    #[must_use]
    pub fn reach(&self) -> Option<Span> {
        self.period().map(|(_, at)| PERIODS[at].1)
    }

    /// The feeds beside this one that reach further back, and how far, the shortest first.
    #[must_use]
    pub fn wider(&self) -> Vec<(FeedUrl, Span)> {
        let Some((events, at)) = self.period() else { return Vec::new() };
        let folder = self.0.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        let beside = |(period, reach): &(&str, Span)| {
            let mut url = self.0.clone();
            url.set_path(&format!("{folder}/{events}_{period}.geojson"));
            (FeedUrl(url), *reach)
        };
        PERIODS[at + 1..].iter().map(beside).collect()
    }

    /// The magnitude from which on the feed shows every event, by its name; unknown where a magnitude alone does not tell.
    #[must_use]
    pub fn threshold(&self) -> Option<f64> {
        match self.period()?.0 {
            "all" => Some(f64::NEG_INFINITY),
            events => events.parse().ok(),
        }
    }

    /// Which events the feed shows by its name, and the place of its period among [`PERIODS`].
    fn period(&self) -> Option<(&str, usize)> {
        let name = self.0.path().rsplit('/').next()?.strip_suffix(".geojson")?;
        let (events, period) = name.rsplit_once('_')?;
        let is_known = matches!(events, "all" | "significant" | "1.0" | "2.5" | "4.5");
        let at = PERIODS.iter().position(|(name, _)| *name == period)?;
        (is_known && self.0.scheme() != "file" && self.0.query().is_none()).then_some((events, at))
    }

    /// The FDSN event service beside a feed of the USGS; none is known for others.
    #[must_use]
    pub fn fdsn(&self) -> Option<FdsnUrl> {
        (self.0.host_str() == Some(USGS_HOST)).then(FdsnUrl::usgs)
    }

    /// What goes in front of ids that do not name their network: nothing for the USGS and for files, which show the USGS's;
    /// `emsc` for the EMSC; the host for others.
    #[must_use]
    pub fn service(&self) -> String {
        match self.0.host_str() {
            None | Some(USGS_HOST) => String::new(),
            Some(host) if host == EMSC_DOMAIN || host.ends_with(&format!(".{EMSC_DOMAIN}")) => super::foreign::EMSC.to_owned(),
            // The end of a long name tells hosts apart better than its beginning.
            Some(host) => host.get(host.len().saturating_sub(MAX_SERVICE_BYTES)..).unwrap_or(host).to_owned(),
        }
    }

    /// Whether this is a question to an FDSN service, which answers 204 where nothing matches.
    pub(super) fn is_query(&self) -> bool {
        self.0.path().ends_with("/query")
    }

    /// The path of a file feed; `None` for the others.
    pub(super) fn file_path(&self) -> Option<PathBuf> {
        if self.0.scheme() == "file" { self.0.to_file_path().ok() } else { None }
    }
}

/// Whether the host is this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl FromStr for FeedUrl {
    type Err = FeedError;

    fn from_str(text: &str) -> Result<FeedUrl, FeedError> {
        let url = plain_url(text, "expected a URL that begins with https://, http:// or file://")?;
        match fault(&url) {
            None => Ok(FeedUrl(url)),
            Some(fault) => Err(FeedError::Address { url: super::wire::excerpt(text), fault }),
        }
    }
}

/// A URL of bounded length without credentials. `expected` is the complaint about what is none.
pub(super) fn plain_url(text: &str, expected: &'static str) -> Result<Url, FeedError> {
    let wrong = |fault| FeedError::Address { url: super::wire::excerpt(text), fault };
    if text.len() > MAX_URL_BYTES {
        return Err(wrong("expected at most 2048 bytes"));
    }
    if text.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(wrong("expected no spaces or control characters"));
    }
    let url = Url::parse(text).map_err(|_| wrong(expected))?;
    if !url.username().is_empty() || url.password().is_some() {
        // Not repeated in the message: it holds a password.
        let url = format!("{}://…@{}", url.scheme(), url.host_str().unwrap_or_default());
        return Err(FeedError::Address { url, fault: "expected no user name or password in it" });
    }
    Ok(url)
}

/// What is wrong with a URL for a feed.
fn fault(url: &Url) -> Option<&'static str> {
    if url.fragment().is_some() {
        return Some("expected no fragment (#…)");
    }
    match url.scheme() {
        "http" | "https" if url.host_str().is_none_or(str::is_empty) => Some("expected a host"),
        "http" | "https" if is_usgs_summary(url) && url.query().is_some() => Some(
            "expected no query (?…), which this service refuses with 403; choose another feed, or a query address (/fdsnws/…)",
        ),
        "file" if url.query().is_some() => Some("expected no query (?…) on a file"),
        "file" if url.to_file_path().is_err() => {
            Some("expected an absolute path on this machine, like file:///var/lib/feed.geojson")
        }
        "http" | "https" | "file" => None,
        _ => Some("expected https, http or file"),
    }
}

fn is_usgs_summary(url: &Url) -> bool {
    url.host_str() == Some(USGS_HOST) && url.path().starts_with("/earthquakes/feed/")
}

impl fmt::Display for FeedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for FeedUrl {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FeedUrl, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
