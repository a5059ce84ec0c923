//! Limits whose state lies in a Redis server that several instances share. Each decision is one atomic script on the server, by its
//! time; what holds while it is away is not decided here.

mod address;
mod script;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::Mutex;

use crate::limiter::Algorithm;
use crate::plain::one_line;
use crate::time::{Span, Timestamp};

pub use address::StoreAddress;
pub use script::{Answer, Question, exact};

/// How long a connection may take, with login and the look at the server's version.
pub const CONNECT_TIMEOUT: Span = Span::from_millis(1_000);
/// How long an answer may take: as long as whatever asks is held up.
pub const ANSWER_TIMEOUT: Span = Span::from_millis(250);
/// The oldest server that is used: scripts of older ones may not ask for the time and then write.
pub const OLDEST: (u32, u32) = (6, 0);
/// The most requests in one question.
pub const MAX_REQUESTS: usize = 10_000;
/// What products in a script stay below, and times until the year 2112, so that their sums are exact there.
const EXACT: u128 = 1 << 52;
/// The longest that the server's words are told.
const MAX_CHARS: usize = 200;

/// A server that holds limits' states.
pub struct SharedStore {
    address: StoreAddress,
    client: Client,
    /// The one connection, once there is one that works, with the script's name on the server.
    connection: Mutex<Option<(MultiplexedConnection, String)>>,
    /// Whether decisions are by the time that the caller gives: for tests.
    time_is_given: bool,
    /// How long an answer may take.
    patience: Span,
}

/// Why the store did not decide. Nothing of it holds a password.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    #[error("'{shown}' is no address of a Redis server: {fault}")]
    Address { shown: String, fault: String },
    #[error("cannot reach {server}: {fault}")]
    Unreachable { server: String, fault: String },
    #[error("{server} did not answer within {within}")]
    Slow { server: String, within: Span },
    #[error("{server} is Redis {found}, too old: expected {major}.{minor} or later", major = OLDEST.0, minor = OLDEST.1)]
    TooOld { server: String, found: String },
    #[error("{server} refuses: {fault}")]
    Refused { server: String, fault: String },
    #[error("{server} answers what is no decision")]
    Answer { server: String },
    #[error(
        "a {algorithm} of {rate} is beyond what Redis computes exactly: expected a smaller rate or bucket, or a shorter window"
    )]
    Beyond { rate: String, algorithm: Algorithm },
    #[error("a leaky-bucket is not kept in a shared store: expected a token-bucket")]
    Leaky,
    #[error("{0} requests are too many for one question: expected at most {MAX_REQUESTS}")]
    TooMany(usize),
}

impl SharedStore {
    /// The store at this address, not connected yet.
    ///
    /// # Errors
    /// [`SharedError::Address`] if there can be no connection to it.
    pub fn new(address: StoreAddress) -> Result<SharedStore, SharedError> {
        let client = Client::open(address.connection_info()?);
        let client = client
            .map_err(|fault| SharedError::Address { shown: address.to_string(), fault: one_line(fault.category(), MAX_CHARS) })?;
        Ok(SharedStore { address, client, connection: Mutex::default(), time_is_given: false, patience: ANSWER_TIMEOUT })
    }

    /// The same, which decides by the time that it is given instead of the server's: for tests that move the time.
    #[must_use]
    pub fn by_given_time(self) -> SharedStore {
        SharedStore { time_is_given: true, ..self }
    }

    /// The same, with this patience for answers instead of [`ANSWER_TIMEOUT`]; for a connection at least as much.
    #[must_use]
    pub fn patient(self, patience: Span) -> SharedStore {
        SharedStore { patience, ..self }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &StoreAddress {
        &self.address
    }

    /// Connects anew and looks whether the server can be used: its version.
    ///
    /// # Errors
    /// [`SharedError`] that says why it cannot.
    pub async fn check(&self) -> Result<String, SharedError> {
        let mut connection = self.connection.lock().await;
        *connection = None;
        let (fresh, script, version) = self.connect().await?;
        *connection = Some((fresh, script));
        Ok(version)
    }

    /// Decides on all requests of the question in one step, in their order. `now` counts only for tests.
    ///
    /// Whatever fails is not asked again: it may have been decided, and the answer lost.
    ///
    /// # Errors
    /// [`SharedError`] if no answer came in time. Whether anything was charged is not known then.
    pub async fn decide(&self, question: &Question, now: Timestamp) -> Result<Vec<Answer>, SharedError> {
        let mut held = self.connection.lock().await;
        // Whatever ends badly ends the connection: a late answer must not be taken for another question's.
        let (mut connection, mut script) = match held.take() {
            Some(there_is) => there_is,
            None => self.connect().await.map(|(connection, script, _)| (connection, script))?,
        };
        let now = self.time_is_given.then_some(now);
        let mut answer = self.ask(&mut connection, &question.command(&script, now)?).await;
        if answer.as_ref().is_err_and(is_unknown_script) {
            // It was not run, so it can be sent again; a server that was started anew, or flushed, has forgotten it.
            script = self.load(&mut connection).await?;
            answer = self.ask(&mut connection, &question.command(&script, now)?).await;
        }
        let value = answer.map_err(|fault| self.fault(&fault, self.patience))?;
        let answers = question.answers(&value).ok_or_else(|| SharedError::Answer { server: self.address.to_string() })?;
        *held = Some((connection, script));
        Ok(answers)
    }

    async fn ask(&self, connection: &mut MultiplexedConnection, command: &redis::Cmd) -> Result<Value, RedisError> {
        command.query_async(connection).await
    }

    /// A connection to a server that can be used, the script's name there, and the server's version.
    async fn connect(&self) -> Result<(MultiplexedConnection, String, String), SharedError> {
        let within = CONNECT_TIMEOUT.max(self.patience);
        let connecting = async {
            let wait = Some(within.to_std());
            let config =
                AsyncConnectionConfig::new().set_connection_timeout(wait).set_response_timeout(Some(self.patience.to_std()));
            let connected = self.client.get_multiplexed_async_connection_with_config(&config).await;
            let mut connection = connected.map_err(|fault| self.fault(&fault, within))?;
            let mut info = redis::cmd("INFO");
            info.arg("server");
            let told = self.ask(&mut connection, &info).await.map_err(|fault| self.fault(&fault, self.patience))?;
            let version = self.version(&told)?;
            let script = self.load(&mut connection).await?;
            Ok((connection, script, version))
        };
        let slow = |_| SharedError::Slow { server: self.address.to_string(), within };
        tokio::time::timeout(within.to_std(), connecting).await.map_err(slow)?
    }

    /// What `INFO server` says of the version.
    fn version(&self, told: &Value) -> Result<String, SharedError> {
        let server = || self.address.to_string();
        let text: String = redis::from_redis_value_ref(told).map_err(|_| SharedError::Answer { server: server() })?;
        let version = text.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or_default().trim();
        let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
        let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next()) else {
            return Err(SharedError::Answer { server: server() });
        };
        if (major, minor) < OLDEST {
            return Err(SharedError::TooOld { server: server(), found: one_line(version, 20) });
        }
        Ok(version.to_owned())
    }

    /// Sends the script: its name on the server.
    async fn load(&self, connection: &mut MultiplexedConnection) -> Result<String, SharedError> {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(script::SCRIPT);
        let name = self.ask(connection, &load).await.map_err(|fault| self.fault(&fault, self.patience))?;
        redis::from_redis_value_ref(&name).map_err(|_| SharedError::Answer { server: self.address.to_string() })
    }

    fn fault(&self, fault: &RedisError, within: Span) -> SharedError {
        let server = self.address.to_string();
        if fault.is_timeout() {
            return SharedError::Slow { server, within };
        }
        let is_theirs = matches!(fault.kind(), ErrorKind::Server(_) | ErrorKind::AuthenticationFailed | ErrorKind::Extension);
        let fault = one_line(&fault.to_string(), MAX_CHARS);
        if is_theirs { SharedError::Refused { server, fault } } else { SharedError::Unreachable { server, fault } }
    }
}

impl std::fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedStore").field("address", &self.address).finish_non_exhaustive()
    }
}

fn is_unknown_script(fault: &RedisError) -> bool {
    fault.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
