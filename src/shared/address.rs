//! Where the store is: a URL, whose password is shown nowhere.

use std::fmt;
use std::str::FromStr;

use redis::{ConnectionInfo, IntoConnectionInfo};
use url::Url;

use super::SharedError;
use crate::plain::{one_line, without_url_secrets};

/// The address of a Redis server: `redis://host`, `rediss://host` with TLS, or `redis+unix:///path`, each perhaps with a user, a
/// password, and the number of a database.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreAddress {
    url: Url,
    /// In place of the URL's.
    password: Option<String>,
}

/// The kinds of address.
const SCHEMES: [&str; 3] = ["redis", "rediss", "redis+unix"];

impl StoreAddress {
    /// The same with this password.
    #[must_use]
    pub fn with_password(self, password: String) -> StoreAddress {
        StoreAddress { password: Some(password), ..self }
    }

    pub(super) fn connection_info(&self) -> Result<ConnectionInfo, SharedError> {
        // What the client says of an address may show it.
        let wrong = |_| SharedError::Address { shown: self.to_string(), fault: "it cannot be connected to".to_owned() };
        let info = self.url.clone().into_connection_info().map_err(wrong)?;
        let Some(password) = &self.password else { return Ok(info) };
        let login = info.redis_settings().clone().set_password(password);
        Ok(info.set_redis_settings(login))
    }
}

impl FromStr for StoreAddress {
    type Err = SharedError;

    fn from_str(text: &str) -> Result<StoreAddress, SharedError> {
        let wrong = |fault: &str| {
            let shown = one_line(&without_url_secrets(text), 100);
            SharedError::Address { shown, fault: fault.to_owned() }
        };
        let url: Url = text.parse().map_err(|_| wrong("expected a URL like redis://127.0.0.1:6379"))?;
        if !SCHEMES.contains(&url.scheme()) {
            return Err(wrong("expected local, redis://, rediss:// or redis+unix://"));
        }
        // A fragment turns off that certificates are looked at.
        if url.fragment().is_some() || url.query().is_some() {
            return Err(wrong("expected no more than a host or a path, and the number of a database"));
        }
        let address = StoreAddress { url, password: None };
        address.connection_info().map_err(|_| wrong("expected a host or a path, and the number of a database"))?;
        Ok(address)
    }
}

/// Without user and password.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.url.clone();
        // Only URLs without a host refuse, and they have neither.
        let _ = shown.set_password(None);
        let _ = shown.set_username("");
        f.pad(shown.as_str())
    }
}

/// Without user and password.
impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
