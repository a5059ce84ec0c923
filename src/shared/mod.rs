//! Limits whose state lies in a Redis server that several instances share. Each decision is one atomic script on the server, by its
//! time; what holds while it is away is not decided here.

mod address;
mod cluster;
mod script;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::Mutex;

use crate::limiter::Algorithm;
use crate::plain::one_line;
use crate::time::{Span, Timestamp};

use cluster::{Known, Node};

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

/// How often a question is sent on from node to node of a cluster.
const MAX_REDIRECTIONS: usize = 3;
/// Before the names of limits: all of one installation lie in one slot of a cluster, so that they are decided on together.
pub const PREFIX: &str = "throttler:{limits}:";

/// A server that holds limits' states, or that node of a cluster which holds them.
pub struct SharedStore {
    address: StoreAddress,
    /// How to connect to the address.
    configured: ConnectionInfo,
    state: Mutex<State>,
    /// Whether decisions are by the time that the caller gives: for tests.
    time_is_given: bool,
    /// How long an answer may take.
    patience: Span,
}

#[derive(Default)]
struct State {
    /// The one connection, once there is one that works.
    held: Option<Held>,
    known: Known,
}

struct Held {
    connection: MultiplexedConnection,
    /// The script's name on the server.
    script: String,
    version: String,
    is_cluster: bool,
    /// `None`: the server that is configured.
    node: Option<Node>,
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
    #[error("the nodes of the cluster of {server} send to each other, and none has the limits")]
    Astray { server: String },
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
        let configured = address.connection_info()?;
        let client = Client::open(configured.clone());
        client
            .map_err(|fault| SharedError::Address { shown: address.to_string(), fault: one_line(fault.category(), MAX_CHARS) })?;
        Ok(SharedStore { address, configured, state: Mutex::default(), time_is_given: false, patience: ANSWER_TIMEOUT })
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
        let state = &mut *self.state.lock().await;
        state.held = None;
        let held = self.connect(&mut state.known, PREFIX).await?;
        let version = held.version.clone();
        state.held = Some(held);
        Ok(version)
    }

    /// Decides on all requests of the question in one step, in their order. `now` counts only for tests.
    ///
    /// Whatever fails is not asked again: it may have been decided, and the answer lost.
    ///
    /// # Errors
    /// [`SharedError`] if no answer came in time. Whether anything was charged is not known then.
    pub async fn decide(&self, question: &Question, now: Timestamp) -> Result<Vec<Answer>, SharedError> {
        let state = &mut *self.state.lock().await;
        // Whatever ends badly ends the connection: a late answer must not be taken for another question's.
        let key = question.first_key().unwrap_or(PREFIX);
        let mut held = match state.held.take() {
            Some(there_is) => there_is,
            None => self.connect(&mut state.known, key).await?,
        };
        let now = self.time_is_given.then_some(now);
        let mut answer = self.ask(&mut held.connection, &question.command(&held.script, now)?).await;
        // A question that was not run can be sent again.
        if answer.as_ref().is_err_and(|fault| is(fault, ServerErrorKind::NoScript)) {
            // A server that was started anew, or flushed, has forgotten it.
            held.script = self.load(&mut held.connection, held.node.as_ref()).await?;
            answer = self.ask(&mut held.connection, &question.command(&held.script, now)?).await;
        }
        if let Some(node) = self.redirected(&answer, ServerErrorKind::Moved, held.node.as_ref()) {
            state.known.redirected(node);
            held = self.connect(&mut state.known, key).await?;
            answer = self.ask(&mut held.connection, &question.command(&held.script, now)?).await;
        }
        if let Some(node) = self.redirected(&answer, ServerErrorKind::Ask, held.node.as_ref()) {
            answer = self.ask_another(&node, question, now).await?;
        }
        let value = answer.map_err(|fault| self.fault(&fault, self.patience, held.node.as_ref()))?;
        let answers = question.answers(&value).ok_or_else(|| SharedError::Answer { server: self.named(held.node.as_ref()) })?;
        state.held = Some(held);
        Ok(answers)
    }

    async fn ask(&self, connection: &mut MultiplexedConnection, command: &redis::Cmd) -> Result<Value, RedisError> {
        command.query_async(connection).await
    }

    /// Asks the node to which the states are being moved, which answers only whoever says that it was sent.
    async fn ask_another(
        &self,
        node: &Node,
        question: &Question,
        now: Option<Timestamp>,
    ) -> Result<Result<Value, RedisError>, SharedError> {
        let mut held = self.in_time(self.connect_to(Some(node.clone()))).await?;
        let mut both = redis::pipe();
        both.cmd("ASKING").ignore().add_command(question.command(&held.script, now)?);
        let answered: Result<(Value,), RedisError> = both.query_async(&mut held.connection).await;
        Ok(answered.map(|(value,)| value))
    }

    /// Where a node says that the question belongs, if it does.
    fn redirected(&self, answer: &Result<Value, RedisError>, how: ServerErrorKind, from: Option<&Node>) -> Option<Node> {
        let fault = answer.as_ref().err().filter(|fault| is(fault, how))?;
        let from = from.map_or_else(|| self.configured.clone(), |node| node.connection_info(&self.configured));
        Node::told_by(fault, &from)
    }

    /// A connection to a server that can be used: of a cluster to the node that has the state under this key.
    async fn connect(&self, known: &mut Known, key: &str) -> Result<Held, SharedError> {
        let connected = self.in_time(self.find(known, key)).await;
        if connected.is_err() {
            known.failed();
        }
        connected
    }

    async fn find(&self, known: &mut Known, key: &str) -> Result<Held, SharedError> {
        for _ in 0..=MAX_REDIRECTIONS {
            let mut held = self.connect_to(known.first()).await?;
            if !held.is_cluster {
                return Ok(held);
            }
            let looked = self.ask(&mut held.connection, redis::cmd("EXISTS").arg(key)).await;
            if let Some(node) = self.redirected(&looked, ServerErrorKind::Moved, held.node.as_ref()) {
                known.redirected(node);
                continue;
            }
            let wrong = |fault: RedisError| self.fault(&fault, self.patience, held.node.as_ref());
            // Sent on by whoever still has the others of the slot.
            if let Err(fault) = looked
                && !is(&fault, ServerErrorKind::Ask)
            {
                return Err(wrong(fault));
            }
            let told = self.ask(&mut held.connection, redis::cmd("CLUSTER").arg("NODES")).await.map_err(wrong)?;
            known.found(held.node.as_ref(), &redis::from_redis_value_ref::<String>(&told).unwrap_or_default());
            return Ok(held);
        }
        Err(SharedError::Astray { server: self.address.to_string() })
    }

    /// Connects to this node, or to whom is configured.
    async fn connect_to(&self, node: Option<Node>) -> Result<Held, SharedError> {
        let within = self.within();
        let info = node.as_ref().map_or_else(|| self.configured.clone(), |node| node.connection_info(&self.configured));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(within.to_std()))
            .set_response_timeout(Some(self.patience.to_std()));
        let of = node.as_ref();
        let wrong = |within| move |fault: RedisError| self.fault(&fault, within, of);
        let client = Client::open(info).map_err(wrong(within))?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.map_err(wrong(within))?;
        let told = self.ask(&mut connection, redis::cmd("INFO").arg("server")).await.map_err(wrong(self.patience))?;
        let text: String = redis::from_redis_value_ref(&told).unwrap_or_default();
        let version = self.version(&text, of)?;
        let is_cluster = text.lines().any(|line| line.trim() == "redis_mode:cluster");
        let script = self.load(&mut connection, of).await?;
        Ok(Held { connection, script, version, is_cluster, node })
    }

    fn within(&self) -> Span {
        CONNECT_TIMEOUT.max(self.patience)
    }

    async fn in_time<T>(&self, connecting: impl Future<Output = Result<T, SharedError>>) -> Result<T, SharedError> {
        let within = self.within();
        let slow = |_| SharedError::Slow { server: self.address.to_string(), within };
        tokio::time::timeout(within.to_std(), connecting).await.map_err(slow)?
    }

    /// What `INFO server` says of the version.
    fn version(&self, told: &str, node: Option<&Node>) -> Result<String, SharedError> {
        let version = told.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or_default().trim();
        let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
        let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next()) else {
            return Err(SharedError::Answer { server: self.named(node) });
        };
        if (major, minor) < OLDEST {
            return Err(SharedError::TooOld { server: self.named(node), found: one_line(version, 20) });
        }
        Ok(version.to_owned())
    }

    /// Sends the script: its name on the server.
    async fn load(&self, connection: &mut MultiplexedConnection, node: Option<&Node>) -> Result<String, SharedError> {
        let name = self.ask(connection, redis::cmd("SCRIPT").arg("LOAD").arg(script::SCRIPT)).await;
        let name = name.map_err(|fault| self.fault(&fault, self.patience, node))?;
        redis::from_redis_value_ref(&name).map_err(|_| SharedError::Answer { server: self.named(node) })
    }

    /// The server in words.
    fn named(&self, node: Option<&Node>) -> String {
        node.map_or_else(|| self.address.to_string(), |node| format!("{}, node {node}", self.address))
    }

    fn fault(&self, fault: &RedisError, within: Span, node: Option<&Node>) -> SharedError {
        let server = self.named(node);
        if fault.is_timeout() {
            return SharedError::Slow { server, within };
        }
        let is_theirs = match fault.kind() {
            // It is about to be there, or another one to take its place.
            ErrorKind::Server(kind) => !PASSING.contains(&kind),
            kind => matches!(kind, ErrorKind::AuthenticationFailed | ErrorKind::Extension),
        };
        let fault = one_line(&fault.to_string(), MAX_CHARS);
        if is_theirs { SharedError::Refused { server, fault } } else { SharedError::Unreachable { server, fault } }
    }
}

impl std::fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedStore").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What a server refuses for a while only.
const PASSING: [ServerErrorKind; 4] =
    [ServerErrorKind::BusyLoading, ServerErrorKind::ClusterDown, ServerErrorKind::MasterDown, ServerErrorKind::TryAgain];

fn is(fault: &RedisError, kind: ServerErrorKind) -> bool {
    fault.kind() == ErrorKind::Server(kind)
}
