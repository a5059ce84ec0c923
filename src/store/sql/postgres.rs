//! A session with a `PostgreSQL` server. Its calls wait for their answers on the caller's thread, as `SQLite`'s do, be it one that
//! may block or not; the traffic itself is a thread's of its own.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use rusqlite::types::{ToSqlOutput, ValueRef};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::{IsNull, ToSql as ToServer, Type, private::BytesMut, to_sql_checked};
use tokio_postgres::{CancelToken, Client, NoTls, Row, Statement};

use super::Beside;
use super::dialect::{Parameter, Translated, translate};
use super::params::Bound;
use crate::store::server::ServerUrl;

/// Statements that a session keeps prepared; they are known texts, so that there are never many more.
const MAX_PREPARED: usize = 256;
/// Where sessions tell each other what there is to do.
pub(super) const CHANNEL: &str = "throttler";
/// Of the two numbers that name a lock the first says what is locked, the second in which schema.
const WRITING: i32 = 0x7468_7201;
const POLLING: i32 = 0x7468_7202;

/// What a server, or the way to it, says.
#[derive(Debug)]
pub enum Fault {
    Server(tokio_postgres::Error),
    /// Its certificate cannot be verified at all.
    Roots(String),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(fault: tokio_postgres::Error) -> Fault {
        Fault::Server(fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The library says only that it was the server's; what it was stands below.
            Fault::Server(fault) => match fault.as_db_error() {
                Some(fault) => f.write_str(fault.message()),
                None => write!(f, "{fault}"),
            },
            Fault::Roots(fault) => f.write_str(fault),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Fault::Server(fault) if fault.as_db_error().is_none() => std::error::Error::source(fault),
            Fault::Server(_) | Fault::Roots(_) => None,
        }
    }
}

type Result<T> = std::result::Result<T, Fault>;

/// One session, opened anew when it was lost. What was prepared is prepared again.
pub(in crate::store) struct Session {
    url: Arc<ServerUrl>,
    opened: RefCell<Opened>,
    /// A transaction ends with its session: within one a new one would go on with half of it.
    in_transaction: Cell<bool>,
    only_reads: Cell<bool>,
    /// The number of the schema, which distinguishes installations in one database.
    schema: i32,
}

struct Opened {
    client: Client,
    prepared: HashMap<String, Prepared>,
    /// Whether this session holds the lock of whoever polls.
    polls: bool,
}

/// One text, and its statements by the types of their parameters.
struct Prepared {
    translated: Translated,
    statements: Vec<(Vec<Type>, Statement)>,
}

impl Session {
    pub fn open(url: Arc<ServerUrl>) -> Result<Session> {
        let client = connect(&url)?;
        let row = wait(client.query_one("SELECT coalesce(current_schema()::regnamespace::oid::int4, 0)", &[]))?;
        let schema = row.get(0);
        let opened = RefCell::new(Opened { client, prepared: HashMap::new(), polls: false });
        Ok(Session { url, opened, in_transaction: Cell::new(false), only_reads: Cell::new(false), schema })
    }

    /// Nothing is written by this session from now on.
    pub fn only_read(&self) -> Result<()> {
        self.only_reads.set(true);
        self.batch(ONLY_READS)
    }

    pub fn begin(&self, beside: Beside) -> Result<()> {
        let lock = match beside {
            Beside::Nobody => "pg_advisory_xact_lock",
            Beside::Others => "pg_advisory_xact_lock_shared",
        };
        self.enter(&format!("BEGIN; SELECT {lock}({WRITING}, {})", self.schema))
    }

    pub fn begin_reading(&self) -> Result<()> {
        self.enter("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    }

    fn enter(&self, begin: &str) -> Result<()> {
        self.revive()?;
        self.in_transaction.set(true);
        let done = self.batch(begin);
        if done.is_err() {
            self.rollback();
        }
        done
    }

    pub fn commit(&self) -> Result<()> {
        self.in_transaction.set(false);
        self.batch_as_it_is("COMMIT")
    }

    pub fn rollback(&self) {
        self.in_transaction.set(false);
        // A session that is lost has rolled back by itself.
        let _ = self.batch_as_it_is("ROLLBACK");
    }

    /// Statements without parameters and answers.
    pub fn batch(&self, sql: &str) -> Result<()> {
        self.revive()?;
        self.batch_as_it_is(sql)
    }

    fn batch_as_it_is(&self, sql: &str) -> Result<()> {
        Ok(wait(self.opened.borrow().client.batch_execute(sql))?)
    }

    pub fn execute(&self, sql: &str, parameters: &[Bound<'_>]) -> Result<usize> {
        let changed = self.run(sql, parameters, |client, statement, values| Ok(wait(client.execute(statement, values))?))?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    pub fn query(&self, sql: &str, parameters: &[Bound<'_>]) -> Result<Vec<Row>> {
        self.run(sql, parameters, |client, statement, values| Ok(wait(client.query(statement, values))?))
    }

    fn run<T>(
        &self,
        sql: &str,
        parameters: &[Bound<'_>],
        run: impl FnOnce(&Client, &Statement, &[&(dyn ToServer + Sync)]) -> Result<T>,
    ) -> Result<T> {
        self.revive()?;
        let Opened { client, prepared, .. } = &mut *self.opened.borrow_mut();
        if !prepared.contains_key(sql) {
            if prepared.len() >= MAX_PREPARED {
                prepared.clear();
            }
            prepared.insert(sql.to_owned(), Prepared { translated: translate(sql), statements: Vec::new() });
        }
        // It was just put there.
        let Some(Prepared { translated, statements }) = prepared.get_mut(sql) else { unreachable!("a text that was inserted") };
        let values: Vec<Sent<'_>> = translated.parameters.iter().map(|of| Sent(value_of(of, parameters))).collect();
        let types: Vec<Type> = values.iter().map(Sent::kind).collect();
        let at = if let Some(at) = statements.iter().position(|(known, _)| *known == types) {
            at
        } else {
            let statement = wait(client.prepare_typed(&translated.sql, &types))?;
            statements.push((types, statement));
            statements.len() - 1
        };
        let values: Vec<&(dyn ToServer + Sync)> = values.iter().map(|value| value as &(dyn ToServer + Sync)).collect();
        run(client, &statements[at].1, &values)
    }

    /// The first row of an answer to a question without parameters.
    pub fn first(&self, sql: &str) -> Result<Row> {
        self.revive()?;
        Ok(wait(self.opened.borrow().client.query_one(sql, &[]))?)
    }

    /// Opens a session anew in place of one that was lost, unless that was within a transaction.
    fn revive(&self) -> Result<()> {
        if self.in_transaction.get() || !self.opened.borrow().client.is_closed() {
            return Ok(());
        }
        let client = connect(&self.url)?;
        if self.only_reads.get() {
            wait(client.batch_execute(ONLY_READS))?;
        }
        *self.opened.borrow_mut() = Opened { client, prepared: HashMap::new(), polls: false };
        Ok(())
    }

    /// Whether this session is the one that polls: it is if no other is, and stays it as long as it lasts.
    pub fn polls(&self) -> Result<bool> {
        self.revive()?;
        if self.opened.borrow().polls {
            // An answer shows that it still is.
            self.batch("SELECT 1")?;
            if self.opened.borrow().polls {
                return Ok(true);
            }
        }
        let sql = format!("SELECT pg_try_advisory_lock({POLLING}, {})", self.schema);
        let polls = wait(self.opened.borrow().client.query_one(&sql, &[]))?.get(0);
        self.opened.borrow_mut().polls = polls;
        Ok(polls)
    }

    /// The same without asking the server: within a transaction a session that was lost has failed.
    pub fn still_polls(&self) -> bool {
        self.opened.borrow().polls
    }

    /// Tells the other sessions of this schema.
    pub fn notify(&self, word: &str) -> Result<()> {
        self.batch_as_it_is(&format!("SELECT pg_notify('{CHANNEL}', current_schema() || ' {word}')"))
    }

    /// What ends the statement that runs, from another thread.
    pub fn canceller(&self) -> Cancel {
        Cancel { token: self.opened.borrow().client.cancel_token(), url: Arc::clone(&self.url) }
    }

    pub fn url(&self) -> &Arc<ServerUrl> {
        &self.url
    }
}

const ONLY_READS: &str = "SET default_transaction_read_only = on";

/// Ends a session's statement from outside.
#[derive(Clone)]
pub(in crate::store) struct Cancel {
    token: CancelToken,
    url: Arc<ServerUrl>,
}

impl Cancel {
    /// Asks for it, and does not wait for it.
    pub fn now(&self) {
        let (token, tls) = (self.token.clone(), self.url.tls());
        runtime().spawn(async move {
            // The statement may be over, or its server gone.
            let _ = match tls {
                Ok(Some(tls)) => token.cancel_query(tls).await,
                _ => token.cancel_query(NoTls).await,
            };
        });
    }
}

fn connect(url: &ServerUrl) -> Result<Client> {
    let (tls, config) = (url.tls().map_err(Fault::Roots)?, url.config().clone());
    // Connecting takes timers, and those a task of the thread's own.
    let connecting = runtime().spawn(async move {
        Ok::<_, tokio_postgres::Error>(if let Some(tls) = tls {
            let (client, connection) = config.connect(tls).await?;
            // Whoever asks next learns that it is closed.
            tokio::spawn(async move { drop(connection.await) });
            client
        } else {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(async move { drop(connection.await) });
            client
        })
    });
    match wait(connecting) {
        Ok(connected) => Ok(connected?),
        Err(fault) => std::panic::resume_unwind(fault.into_panic()),
    }
}

/// The thread of all sessions' traffic.
pub(super) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        // A process that cannot have one more thread cannot do anything else either.
        builder
            .worker_threads(1)
            .thread_name("postgres")
            .enable_all()
            .build()
            .expect("a thread for the traffic with the database")
    })
}

/// Runs a future that others drive, on this thread, which sleeps meanwhile.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Sleeper(Thread);

    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Sleeper(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn value_of<'p>(parameter: &Parameter, bound: &'p [Bound<'_>]) -> ValueRef<'p> {
    let found = match parameter {
        Parameter::Number(number) => bound.get(*number),
        Parameter::Name(name) => bound.iter().find(|(known, _)| known == &Some(name.as_str())),
    };
    match found.map(|(_, value)| value) {
        Some(ToSqlOutput::Borrowed(value)) => *value,
        Some(ToSqlOutput::Owned(value)) => value.into(),
        // As for SQLite, what is not bound is nothing.
        _ => ValueRef::Null,
    }
}

/// A value on its way to the server.
#[derive(Debug)]
struct Sent<'v>(ValueRef<'v>);

impl Sent<'_> {
    /// Nothing is of any type: the server finds out which.
    fn kind(&self) -> Type {
        match self.0 {
            ValueRef::Null => Type::UNKNOWN,
            ValueRef::Integer(_) => Type::INT8,
            ValueRef::Real(_) => Type::FLOAT8,
            ValueRef::Text(_) => Type::TEXT,
            ValueRef::Blob(_) => Type::BYTEA,
        }
    }
}

impl ToServer for Sent<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self.0 {
            ValueRef::Null => Ok(IsNull::Yes),
            ValueRef::Integer(value) => value.to_sql(kind, out),
            ValueRef::Real(value) => value.to_sql(kind, out),
            ValueRef::Text(value) | ValueRef::Blob(value) => value.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
