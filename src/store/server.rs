//! Where a `PostgreSQL` server is and how it is spoken to: `postgres://user@host:port/database`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What is shown of a text that is no address.
const HIDDEN: &str = "postgres://…";
/// How long a server may take until a session is open, unless the address says otherwise (`connect_timeout`).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the answer to a statement may take, unless the address says otherwise (`answer_timeout`): longer than the server waits for
/// a lock, and well within the time in which the daemon's watchdog wants a sign of life.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);
/// The longest that an address can ask for, in seconds.
const MAX_ANSWER_TIMEOUT: u64 = 86_400;
/// After how long without a sign of life, and after how many further ones, a connection is lost.
const SILENCE: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;
/// What was sent and is not acknowledged for so long is lost with its connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// What each session asks for. A holder of locks that does not go on, stopped or cut off, loses them; waiting for one has an end.
/// The address may have other `options`.
const OPTIONS: &str = "-c idle_in_transaction_session_timeout=15s -c idle_session_timeout=60s -c lock_timeout=30s \
    -c client_min_messages=warning";

/// The address of a database on a server. Its password is never shown.
#[derive(Clone)]
pub struct ServerUrl {
    shown: String,
    config: Config,
    /// Root certificates beside the system's, in PEM.
    roots: Option<PathBuf>,
    /// How long a session may take to be opened.
    patience: Duration,
    answer_timeout: Duration,
}

/// Why a text is not the address of a database on a server.
#[derive(Debug, thiserror::Error)]
#[error("'{shown}' is not the address of a database: {fault}; expected postgres://USER@HOST/DATABASE")]
pub struct ServerUrlError {
    shown: String,
    fault: String,
}

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<ServerUrl, ServerUrlError> {
        let refused = |shown: &str, fault: String| ServerUrlError { shown: shown.to_owned(), fault };
        let mut url = url::Url::parse(text).map_err(|fault| refused(HIDDEN, fault.to_string()))?;
        if !ServerUrl::is_one(text) {
            return Err(refused(HIDDEN, "another scheme".to_owned()));
        }
        // What stands before it may be of a password that has a `/`, a `?` or a `#`.
        if [Some(url.path()), url.query(), url.fragment()].into_iter().flatten().any(|part| part.contains('@')) {
            return Err(refused(
                HIDDEN,
                "an '@' after the host; what a name has of @ / ? # is written %40 %2F %3F %23".to_owned(),
            ));
        }
        // Only where there is no host can it not be taken away, and then there is none.
        let _ = url.set_password(None);
        let shown = without_password(url.clone());
        // The first is the word that other programs have for it; the library knows neither.
        let (own, mut rest): (Vec<_>, Vec<(String, String)>) =
            url.query_pairs().into_owned().partition(|(key, _)| key == "sslrootcert" || key == "answer_timeout");
        let roots = own.iter().find(|(key, _)| key == "sslrootcert").map(|(_, file)| PathBuf::from(file));
        let asked = own.iter().find(|(key, _)| key == "answer_timeout");
        let seconds = asked.map(|(_, text)| text.parse().ok().filter(|seconds| (1..=MAX_ANSWER_TIMEOUT).contains(seconds)));
        let answer_timeout = match seconds {
            None => ANSWER_TIMEOUT,
            Some(Some(seconds)) => Duration::from_secs(seconds),
            Some(None) => {
                let fault = format!("answer_timeout is no number of seconds from 1 to {MAX_ANSWER_TIMEOUT}");
                return Err(refused(&shown, fault));
            }
        };
        for (_, mode) in rest.iter_mut().filter(|(key, _)| key == "sslmode") {
            match mode.as_str() {
                // Where there is TLS, the certificate and its name are verified.
                "verify-full" => "require".clone_into(mode),
                "disable" | "prefer" | "require" => {}
                _ => return Err(refused(&shown, "sslmode is none of disable, prefer, require and verify-full".to_owned())),
            }
        }
        let (address, query) = text.split_once('?').map_or((text, None), |(address, query)| (address, Some(query)));
        let mut address = address.to_owned();
        if query.is_some() && !rest.is_empty() {
            let query: Vec<String> = rest.iter().map(|(key, value)| format!("{}={}", encoded(key), encoded(value))).collect();
            address = format!("{address}?{}", query.join("&"));
        }
        let mut config: Config = address.parse().map_err(|fault: tokio_postgres::Error| refused(&shown, with_cause(&fault)))?;
        if config.get_hosts().is_empty() {
            return Err(refused(&shown, "without a host".to_owned()));
        }
        if config.get_dbname().is_none() {
            return Err(refused(&shown, "without a database".to_owned()));
        }
        let patience = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        config.connect_timeout(patience).keepalives_idle(SILENCE).keepalives_interval(SILENCE / PROBES);
        config.keepalives_retries(PROBES).tcp_user_timeout(UNACKNOWLEDGED).application_name("throttler");
        let options = config.get_options().unwrap_or_default().to_owned();
        config.options(format!("{OPTIONS} {options}"));
        // Without another word nothing leaves this machine in the clear, and nothing is enciphered that does not.
        if rest.iter().all(|(key, _)| key != "sslmode") {
            config.ssl_mode(if config.get_hosts().iter().all(is_here) { SslMode::Disable } else { SslMode::Require });
        }
        Ok(ServerUrl { shown, config, roots, patience, answer_timeout })
    }
}

/// An address without the password that may stand behind it.
fn without_password(mut url: url::Url) -> String {
    let (secret, rest): (Vec<_>, Vec<_>) = url.query_pairs().into_owned().partition(|(key, _)| key == "password");
    if !secret.is_empty() {
        url.set_query(None);
        for (key, value) in rest {
            url.query_pairs_mut().append_pair(&key, &value);
        }
    }
    url.to_string()
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn with_cause(fault: &dyn std::error::Error) -> String {
    fault.source().map_or_else(|| fault.to_string(), |cause| format!("{fault}: {cause}"))
}

/// Whether it is this machine: a socket, or a loopback address.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback()),
        Host::Unix(_) => true,
    }
}

impl ServerUrl {
    /// Whether a text is meant for one, rather than for the name of a file.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// The same with this password.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> ServerUrl {
        self.config.password(password);
        self
    }

    /// Whether it has a password of its own.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// Whether what it points to on this machine can be used; connects to nobody.
    ///
    /// # Errors
    /// A line that says what is wrong with the certificates.
    pub fn check(&self) -> Result<(), String> {
        self.tls().map(|_| ())
    }

    /// What a session is opened with.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// How long a session may take to be opened, from the first packet to the last.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// How long the answer to a statement may take.
    pub(super) fn answer_timeout(&self) -> Duration {
        self.answer_timeout
    }

    /// After how long the server breaks off a statement that is not to take long: a little earlier, so that one which lives says so.
    pub(super) fn statement_timeout(&self) -> Duration {
        self.answer_timeout * 8 / 9
    }

    /// How the server's certificate is verified: against the system's roots and those that are named. `None`: there is none.
    ///
    /// # Errors
    /// A line that says what is wrong with the roots.
    pub(super) fn tls(&self) -> Result<Option<MakeRustlsConnect>, String> {
        if self.config.get_ssl_mode() == SslMode::Disable {
            return Ok(None);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|fault| fault.to_string())?;
        let roots = self.roots.as_deref().map(certificates).transpose()?.unwrap_or_default();
        let verifier = Verifier::new_with_extra_roots(roots, provider).map_err(|fault| fault.to_string())?;
        let config = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
        Ok(Some(MakeRustlsConnect::new(config)))
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |fault: &dyn fmt::Display| format!("sslrootcert={}: expected certificates in PEM: {fault}", file.display());
    let found = CertificateDer::pem_file_iter(file).map_err(|fault| wrong(&fault))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|fault| wrong(&fault))?;
    if found.is_empty() { Err(wrong(&"there is none")) } else { Ok(found) }
}

/// As it may be shown: without its password.
impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.shown)
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self})")
    }
}

impl PartialEq for ServerUrl {
    fn eq(&self, other: &ServerUrl) -> bool {
        self.config == other.config && self.roots == other.roots && self.answer_timeout == other.answer_timeout
    }
}

impl Eq for ServerUrl {}
