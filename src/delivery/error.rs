//! What can be wrong before any attempt: settings, secrets, files. The outcome of an attempt is a value, see `outcome`.

use std::io;
use std::path::PathBuf;

/// Why a setting or a secret does not serve. No message holds a password or a secret.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error("this is not a webhook secret: expected whsec_ and base64 of 24 to 64 bytes")]
    Secret,
    #[error("cannot make a secret: the system gives no random bytes")]
    Randomness(#[source] getrandom::Error),
    #[error("cannot set up the HTTP client for webhooks")]
    HttpClient(#[source] reqwest::Error),
    #[error("'{0}' is not a sender: expected an address with or without a name, like Earthquake alerts <alerts@example.org>")]
    Sender(String),
    #[error("this {url}: URL is not where mail can go: {fault}")]
    Transport { url: String, fault: &'static str },
    #[error("cannot log in to the SMTP server: found {0}, expected both or neither")]
    Login(&'static str),
    #[error("cannot use the certificates in {}: {fault}", path.display())]
    CaFile { path: PathBuf, fault: &'static str },
    #[error("cannot set up TLS for the SMTP server")]
    Tls(#[source] lettre::transport::smtp::Error),
    #[error("'{text}' is not where pages can be: {fault}")]
    BaseUrl { text: String, fault: &'static str },
    #[error("cannot use the key of the unsubscribe links in {}", path.display())]
    UnsubscribeKey { path: PathBuf, source: io::Error },
    #[error("cannot use {} for messages: expected a directory that can be written", path.display())]
    Directory { path: PathBuf, source: io::Error },
}
