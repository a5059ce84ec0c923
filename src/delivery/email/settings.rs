//! What the operator sets for email, read from text.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use lettre::message::Mailbox;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::delivery::error::DeliveryError;
use crate::time::Span;

/// The longest that one step with the server (connecting, a command and its answer) may take, unless set otherwise.
const DEFAULT_TIMEOUT: Span = Span::from_seconds(30);

/// How email is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmailSettings {
    pub from: Sender,
    pub smtp: MailTransport,
    /// Logs in if both are set; one alone is an error.
    pub username: Option<String>,
    pub password: Option<Password>,
    /// A PEM file of certificates to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// The longest that one step with the server may take; an attempt has at most eight.
    pub timeout: Span,
}

/// Who alerts come from: an address with or without a display name, `Earthquake alerts <alerts@example.org>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender(Mailbox);

/// Where messages are handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailTransport {
    Smtp(SmtpServer),
    /// A directory for `.eml` files, or a maildir if it holds `new`, `cur` and `tmp`.
    Directory(PathBuf),
}

/// An SMTP server: `smtp://`, `smtp+starttls://` or `smtps://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtpServer {
    /// A name, or an address without brackets.
    pub host: String,
    pub port: u16,
    pub security: SmtpSecurity,
    /// The user's name in the URL, if there is one.
    pub username: Option<String>,
}

/// When the connection is encrypted. Certificates are always checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpSecurity {
    /// `smtp://`, port 25: when the server offers it. To this machine without a login or a `ca_file` it is not asked for:
    /// nothing leaves the machine, and the certificates that local servers come with do not check.
    WhenOffered,
    /// `smtp+starttls://`, port 587: or nothing is sent.
    StartTls,
    /// `smtps://`, port 465: from the first byte.
    Implicit,
}

/// A password that does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl EmailSettings {
    /// The settings with the defaults of all else: no `ca_file`, 30 seconds a step, the user of the URL.
    #[must_use]
    pub fn new(from: Sender, smtp: MailTransport) -> EmailSettings {
        let username = match &smtp {
            MailTransport::Smtp(server) => server.username.clone(),
            MailTransport::Directory(_) => None,
        };
        EmailSettings { from, smtp, username, password: None, ca_file: None, timeout: DEFAULT_TIMEOUT }
    }
}

impl Sender {
    pub(super) fn mailbox(&self) -> &Mailbox {
        &self.0
    }

    /// The address alone.
    #[must_use]
    pub fn address(&self) -> &str {
        self.0.email.as_ref()
    }
}

impl SmtpServer {
    /// Whether the server is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost") || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl Password {
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Password {
    fn from(text: String) -> Password {
        Password(text)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

impl FromStr for Sender {
    type Err = DeliveryError;

    fn from_str(text: &str) -> Result<Sender, DeliveryError> {
        let plain = !text.contains(char::is_control);
        match text.parse::<Mailbox>() {
            Ok(mailbox) if plain && mailbox.email.to_string().is_ascii() => Ok(Sender(mailbox)),
            _ => Err(DeliveryError::Sender(text.to_owned())),
        }
    }
}

impl FromStr for MailTransport {
    type Err = DeliveryError;

    fn from_str(text: &str) -> Result<MailTransport, DeliveryError> {
        // Only the scheme is repeated where a password may be in the text.
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        let wrong = |fault| DeliveryError::Transport { url: scheme.to_owned(), fault };
        let url =
            Url::parse(text).map_err(|_| wrong("expected a URL like smtp://127.0.0.1:25 or file:///var/spool/throttler"))?;
        if url.password().is_some() {
            return Err(wrong("expected no password in the URL: set smtp_password_file"));
        }
        let (security, port) = match url.scheme() {
            "smtp" => (SmtpSecurity::WhenOffered, 25),
            "smtp+starttls" => (SmtpSecurity::StartTls, 587),
            "smtps" => (SmtpSecurity::Implicit, 465),
            "file" => {
                return directory(&url)
                    .map(MailTransport::Directory)
                    .ok_or_else(|| wrong("expected an absolute path, file:///…"));
            }
            _ => return Err(wrong("expected smtp://, smtp+starttls://, smtps:// or file:///")),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("expected nothing after the host and port"));
        }
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || !host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b)) {
            return Err(wrong("expected a host name or address"));
        }
        let username = percent_decode_str(url.username()).decode_utf8().map_err(|_| wrong("expected a user name in UTF-8"))?;
        Ok(MailTransport::Smtp(SmtpServer {
            host: host.to_owned(),
            port: url.port().unwrap_or(port),
            security,
            username: Some(username.into_owned()).filter(|name| !name.is_empty()),
        }))
    }
}

fn directory(url: &Url) -> Option<PathBuf> {
    let local = url.host_str().is_none() && url.query().is_none() && url.fragment().is_none();
    local.then(|| url.to_file_path().ok()).flatten()
}
