//! The address of an FDSN event service: what stands before `query` and `count`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, de};
use url::Url;

use crate::feed::error::FeedError;
use crate::feed::source::{is_loopback, plain_url};

/// The USGS's service.
const USGS: &str = "https://earthquake.usgs.gov/fdsnws/event/1/";

/// An `http` or `https` URL without credentials, query or fragment that ends in a slash, like [`FdsnUrl::usgs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdsnUrl(Url);

impl FdsnUrl {
    /// The USGS's service.
    ///
    /// # Panics
    /// Never: its address is one, as a test shows.
    #[must_use]
    pub fn usgs() -> FdsnUrl {
        // Proved by the test below.
        FdsnUrl(Url::parse(USGS).expect("a constant URL"))
    }

    /// Whether the service runs on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }

    pub(super) fn as_url(&self) -> &Url {
        &self.0
    }

    /// The address of `method` with these parameters.
    pub(super) fn ask(&self, method: &str, parameters: &[(&str, String)]) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{method}", self.0.path()));
        url.query_pairs_mut().extend_pairs(parameters);
        url
    }
}

/// With or without the slash at its end, also with the `query` behind it.
impl FromStr for FdsnUrl {
    type Err = FeedError;

    fn from_str(text: &str) -> Result<FdsnUrl, FeedError> {
        const EXPECTED: &str = "expected the address of an FDSN event service, like https://earthquake.usgs.gov/fdsnws/event/1/";
        let mut url = plain_url(text, EXPECTED)?;
        let fits = matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.fragment().is_none();
        if !fits {
            return Err(FeedError::Address { url: crate::feed::wire::excerpt(text), fault: EXPECTED });
        }
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix("/query").unwrap_or(path).to_owned() + "/";
        url.set_path(&path);
        Ok(FdsnUrl(url))
    }
}

impl fmt::Display for FdsnUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for FdsnUrl {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FdsnUrl, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_known_by_its_base() {
        for text in [USGS, "https://earthquake.usgs.gov/fdsnws/event/1", "https://earthquake.usgs.gov/fdsnws/event/1/query"] {
            assert_eq!(text.parse::<FdsnUrl>().expect(text), FdsnUrl::usgs());
        }
        let asked = FdsnUrl::usgs().ask("query", &[("starttime", "2015-01-01T00:00:00".into()), ("eventtype", "a b,c".into())]);
        assert_eq!(
            asked.as_str(),
            "https://earthquake.usgs.gov/fdsnws/event/1/query?starttime=2015-01-01T00%3A00%3A00&eventtype=a+b%2Cc"
        );
        for text in ["", "x", "file:///x/", "https://a:b@x.example/", "https://x.example/?a=1", "https://x.example/#a"] {
            assert!(text.parse::<FdsnUrl>().is_err(), "{text}");
        }
    }
}
