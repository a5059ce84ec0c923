//! The conversation with an SMTP server, step by step, over connections that are kept for the next message.
//!
//! lettre speaks the protocol; its pool is not used. It gives a connection back after an attempt that was cut off in the
//! middle, and the late answer to the last command is then taken for the answer to the next: a message could count as
//! accepted that never was. Here a connection is kept only if its last answer was read. Going step by step also tells whose
//! refusal it was.

use std::future::Future;
use std::time::Duration;

use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Severity;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::message::Composed;
use super::settings::{EmailSettings, SmtpSecurity, SmtpServer};
use super::verdict::{Cause, Failure, Step, accepted, judge};
use crate::delivery::error::DeliveryError;
use crate::delivery::outcome::Outcome;
use crate::time::{Span, Timestamp};

/// Idle connections kept for the next message.
const MAX_IDLE: usize = 32;
/// How long an idle connection is kept; servers hang up after five minutes or less.
const MAX_IDLE_TIME: Span = Span::from_seconds(60);
/// The longest that a goodbye may take.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);
/// The largest file of certificates, in bytes.
const MAX_CA_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// One SMTP server.
pub(super) struct Smtp {
    server: SmtpServer,
    hello: ClientId,
    credentials: Option<Credentials>,
    /// `None` where TLS is not asked for.
    tls: Option<TlsParameters>,
    timeout: Duration,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    connection: AsyncSmtpConnection,
    since: Timestamp,
}

impl Smtp {
    pub fn new(server: &SmtpServer, settings: &EmailSettings) -> Result<Smtp, DeliveryError> {
        let credentials = match (&settings.username, &settings.password) {
            (Some(user), Some(password)) => Some(Credentials::new(user.clone(), password.expose().to_owned())),
            (None, None) => None,
            (Some(_), None) => return Err(DeliveryError::Login("a user name without a password")),
            (None, Some(_)) => return Err(DeliveryError::Login("a password without a user name")),
        };
        let within = server.is_local() && credentials.is_none() && settings.ca_file.is_none();
        let tls = match server.security {
            SmtpSecurity::WhenOffered if within => None,
            _ => Some(tls(server, settings)?),
        };
        Ok(Smtp {
            server: server.clone(),
            hello: ClientId::default(),
            credentials,
            tls,
            timeout: settings.timeout.to_std(),
            idle: Mutex::new(Vec::new()),
        })
    }

    /// One attempt.
    pub async fn send(&self, message: &Composed, now: Timestamp) -> Outcome {
        let mut connection = match self.connection(now).await {
            Ok(connection) => connection,
            Err(failure) => return judge(&self.server.host, &failure),
        };
        let result = self.transact(&mut connection, message).await;
        if result.as_ref().err().is_none_or(Failure::leaves_the_session_intact) {
            self.keep(connection, now).await;
        }
        match result {
            Ok(answer) => accepted(&self.server.host, &answer),
            Err(failure) => judge(&self.server.host, &failure),
        }
    }

    /// Says goodbye on idle connections.
    pub async fn close(&self) {
        let idle = std::mem::take(&mut *self.idle.lock().await);
        for mut one in idle {
            // A server that does not answer a goodbye changes nothing.
            let _ = timeout(GOODBYE_TIMEOUT, one.connection.quit()).await;
        }
    }

    async fn transact(&self, connection: &mut AsyncSmtpConnection, message: &Composed) -> Result<String, Failure> {
        let mail = Mail::new(Some(message.from.clone()), Vec::new());
        self.step(Step::Sender, connection.command(mail)).await?;
        let rcpt = Rcpt::new(message.to.clone(), Vec::new());
        self.step(Step::Recipient, connection.command(rcpt)).await?;
        let answer = self.step(Step::Data, connection.command(Data)).await?;
        in_step(Step::Data, answer.has_code(354))?;
        let answer = self.step(Step::Content, connection.message(&message.bytes)).await?;
        in_step(Step::Content, answer.code().severity == Severity::PositiveCompletion)?;
        Ok(format!("{} {}", answer.code(), answer.message().collect::<Vec<_>>().join(" ")))
    }

    /// An idle connection that still answers, or a new one.
    async fn connection(&self, now: Timestamp) -> Result<AsyncSmtpConnection, Failure> {
        while let Some(mut idle) = self.take_idle().await {
            let fresh = now.since(idle.since) <= MAX_IDLE_TIME;
            // RSET also forgets a transaction that was refused half-way.
            if fresh && self.step(Step::Connection, idle.connection.command(Rset)).await.is_ok() {
                return Ok(idle.connection);
            }
            // The others are no fresher, and each might take a whole timeout to find out.
            self.idle.lock().await.clear();
        }
        self.connect().await
    }

    /// The one that was used last.
    async fn take_idle(&self) -> Option<Idle> {
        self.idle.lock().await.pop()
    }

    async fn keep(&self, connection: AsyncSmtpConnection, now: Timestamp) {
        let mut idle = self.idle.lock().await;
        if idle.len() < MAX_IDLE {
            idle.push(Idle { connection, since: now });
        }
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, Failure> {
        let place = (self.server.host.as_str(), self.server.port);
        let implicit = self.tls.clone().filter(|_| self.server.security == SmtpSecurity::Implicit);
        let mut connection = if implicit.is_some() {
            let connecting = AsyncSmtpConnection::connect_tokio1(place, Some(self.timeout), &self.hello, implicit, None);
            self.step(Step::Connection, connecting).await?
        } else {
            // A message is written in pieces, and without this the last may wait for an acknowledgement of the one before.
            let reached = timeout(self.timeout, TcpStream::connect(place)).await;
            let reached = reached.map_err(|_| Failure::new(Step::Connection, Cause::Stalled))?;
            let stream = reached.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
            let stream = stream.map_err(|fault| Failure::new(Step::Connection, Cause::Unreachable(fault)))?;
            let greeting = AsyncSmtpConnection::connect_with_transport(Box::new(stream), &self.hello);
            self.step(Step::Connection, greeting).await?
        };
        self.encrypt(&mut connection).await?;
        self.log_in(&mut connection).await?;
        Ok(connection)
    }

    async fn encrypt(&self, connection: &mut AsyncSmtpConnection) -> Result<(), Failure> {
        let Some(tls) = self.tls.clone() else { return Ok(()) };
        if connection.is_encrypted() {
            return Ok(());
        }
        if connection.can_starttls() {
            return self.step(Step::StartTls, connection.starttls(tls, &self.hello)).await;
        }
        match self.server.security {
            SmtpSecurity::WhenOffered => Ok(()),
            SmtpSecurity::StartTls | SmtpSecurity::Implicit => Err(Failure::new(
                Step::StartTls,
                Cause::Missing("the server does not offer STARTTLS, which smtp+starttls:// requires"),
            )),
        }
    }

    async fn log_in(&self, connection: &mut AsyncSmtpConnection) -> Result<(), Failure> {
        let Some(credentials) = &self.credentials else { return Ok(()) };
        if !connection.is_encrypted() && !self.server.is_local() {
            let missing = "the server does not offer STARTTLS, and the password is not sent unencrypted";
            return Err(Failure::new(Step::Login, Cause::Missing(missing)));
        }
        if connection.server_info().get_auth_mechanism(DEFAULT_MECHANISMS).is_none() {
            return Err(Failure::new(Step::Login, Cause::Missing("the server offers no login by PLAIN or LOGIN")));
        }
        self.step(Step::Login, connection.auth(DEFAULT_MECHANISMS, credentials)).await.map(|_| ())
    }

    async fn step<T>(&self, step: Step, work: impl Future<Output = Result<T, SmtpError>>) -> Result<T, Failure> {
        match timeout(self.timeout, work).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Failure::new(step, Cause::Smtp(error))),
            Err(_) => Err(Failure::new(step, Cause::Stalled)),
        }
    }
}

impl std::fmt::Debug for Smtp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Smtp").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Only DATA is answered by 354. Anything else means that answers belong to other commands, as when someone on the way
/// slipped one in before STARTTLS took hold, and what was accepted cannot be told.
fn in_step(step: Step, right_answer: bool) -> Result<(), Failure> {
    if right_answer { Ok(()) } else { Err(Failure::new(step, Cause::Missing("the answers do not match the commands"))) }
}

fn tls(server: &SmtpServer, settings: &EmailSettings) -> Result<TlsParameters, DeliveryError> {
    let mut builder = TlsParameters::builder(server.host.clone());
    if let Some(path) = &settings.ca_file {
        let wrong = |fault| DeliveryError::CaFile { path: path.clone(), fault };
        let readable = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_CA_FILE_BYTES);
        if !readable {
            return Err(wrong("expected a readable file of at most 4 MiB"));
        }
        let pem = std::fs::read(path).map_err(|_| wrong("expected a readable file of at most 4 MiB"))?;
        let found = pem.windows(b"-----BEGIN CERTIFICATE-----".len()).any(|part| part == b"-----BEGIN CERTIFICATE-----");
        let certificates = Certificate::from_pem(&pem).ok().filter(|_| found);
        builder = builder.add_root_certificate(certificates.ok_or_else(|| wrong("expected certificates in PEM"))?);
    }
    builder.build().map_err(DeliveryError::Tls)
}
