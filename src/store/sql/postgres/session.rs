//! One session: what is asked on it, its transactions and locks, and how it comes back.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::Value;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_postgres::types::{ToSql as ToServer, Type};
use tokio_postgres::{Client, Row, Statement};

use super::traffic::{answer, connect, lives, runtime};
use super::values::{Column, Sent, value_of};
use super::{Cancel, Fault, Result};
use crate::store::server::ServerUrl;
use crate::store::sql::Beside;
use crate::store::sql::dialect::{Parameter, Translated, for_all, translate};
use crate::store::sql::params::Bound;

/// Statements that a session keeps prepared; they are known texts, so that there are never many more.
const MAX_PREPARED: usize = 256;
/// Where sessions tell each other what there is to do.
pub const CHANNEL: &str = "throttler";
/// Of the two numbers that name a lock the first says what is locked, the second in which schema.
const WRITING: i32 = 0x7468_7201;
const POLLING: i32 = 0x7468_7202;
const WORDING: i32 = 0x7468_7203;
/// The longest that a server which did not answer is left alone, so that of all who want something of it only one waits at a time.
const REST: Duration = Duration::from_secs(5);

/// One session, opened anew when it was lost. What was prepared is prepared again.
pub(in crate::store) struct Session {
    url: Arc<ServerUrl>,
    opened: RefCell<Opened>,
    /// The task that reads and writes for it.
    traffic: RefCell<AbortHandle>,
    canceller: Cancel,
    /// It went unanswered: what may still be answered is nobody's, so that it is never asked again.
    is_lost: Cell<bool>,
    /// Until this ends the server is left alone, since it did not answer for so long.
    rest: RefCell<Option<(JoinHandle<()>, Duration)>>,
    /// A statement that takes long is given up, instead of waiting as long as the server lives.
    is_bound: Cell<bool>,
    /// A transaction ends with its session: within one a new one would go on with half of it.
    in_transaction: Cell<bool>,
    only_reads: Cell<bool>,
    /// How many rows of this transaction were gathered and not sent yet.
    gathered: Cell<usize>,
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
        let (client, traffic) = connect(&url)?;
        let schema = "SELECT coalesce(current_schema()::regnamespace::oid::int4, 0)";
        let schema = answer(url.patience(), client.query_one(schema, &[]))?.get(0);
        let canceller = Cancel::of(&client, Arc::clone(&url));
        let opened = RefCell::new(Opened { client, prepared: HashMap::new(), polls: false });
        Ok(Session {
            url,
            opened,
            traffic: RefCell::new(traffic),
            canceller,
            is_lost: Cell::new(false),
            rest: RefCell::default(),
            is_bound: Cell::new(false),
            in_transaction: Cell::new(false),
            only_reads: Cell::new(false),
            gathered: Cell::new(0),
            schema,
        })
    }

    /// Nothing is written by this session from now on.
    pub fn only_read(&self) -> Result<()> {
        self.only_reads.set(true);
        self.batch(&self.settings())
    }

    /// No statement of this session takes long from now on: the server breaks it off, or it is given up.
    pub fn bound(&self) -> Result<()> {
        self.is_bound.set(true);
        self.batch(&self.settings())
    }

    /// What a session is told when it is opened.
    fn settings(&self) -> String {
        let reads = if self.only_reads.get() { "SET default_transaction_read_only = on;" } else { "" };
        let bound = self.is_bound.get().then(|| format!("SET statement_timeout = {};", self.url.statement_timeout().as_millis()));
        format!("{reads}{}", bound.unwrap_or_default())
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
        if self.gathered.get() > 0 {
            self.rollback();
            return Err(Fault::NotSent);
        }
        self.in_transaction.set(false);
        self.batch_as_it_is("COMMIT").map_err(|fault| match fault {
            Fault::Server(fault) if fault.as_db_error().is_some() => Fault::Server(fault),
            fault => Fault::Unknown(Box::new(fault)),
        })
    }

    pub fn rollback(&self) {
        self.in_transaction.set(false);
        self.gathered.set(0);
        // A session that is lost has rolled back by itself.
        let _ = self.batch_as_it_is("ROLLBACK");
    }

    /// Statements without parameters and answers.
    pub fn batch(&self, sql: &str) -> Result<()> {
        self.revive()?;
        self.batch_as_it_is(sql)
    }

    fn batch_as_it_is(&self, sql: &str) -> Result<()> {
        self.answer(self.opened.borrow().client.batch_execute(sql))
    }

    pub fn execute(&self, sql: &str, parameters: &[Bound<'_>]) -> Result<usize> {
        let changed = self.run(sql, parameters, |client, statement, values| self.answer(client.execute(statement, values)))?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    pub fn query(&self, sql: &str, parameters: &[Bound<'_>]) -> Result<Vec<Row>> {
        self.run(sql, parameters, |client, statement, values| self.answer(client.query(statement, values)))
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
            let statement = self.answer(client.prepare_typed(&translated.sql, &types))?;
            statements.push((types, statement));
            statements.len() - 1
        };
        let values: Vec<&(dyn ToServer + Sync)> = values.iter().map(|value| value as &(dyn ToServer + Sync)).collect();
        run(client, &statements[at].1, &values)
    }

    /// One row more is to be sent before the transaction is committed.
    pub fn gather(&self) {
        self.gathered.set(self.gathered.get() + 1);
    }

    /// Runs a text for one row for all of these, which were gathered: each has a value for every parameter from `?1` on.
    pub fn execute_for_all(&self, sql: &str, rows: &[Vec<Value>]) -> crate::store::sql::Result<()> {
        self.gathered.set(self.gathered.get().saturating_sub(rows.len()));
        if rows.is_empty() {
            return Ok(());
        }
        self.revive()?;
        let Opened { client, prepared, .. } = &mut *self.opened.borrow_mut();
        // Known texts too, each in its own words for all.
        let name = format!("{sql} -- for all");
        let known = prepared.get(&name).and_then(|known| known.statements.first()).cloned();
        let (types, statement) = if let Some(known) = known {
            known
        } else {
            let made = self.prepare_for_all(client, sql)?;
            prepared.insert(name, Prepared { translated: translate(sql), statements: vec![made.clone()] });
            made
        };
        let columns = (0..types.len()).map(|at| Column::of(rows, at, &types[at])).collect::<Result<Vec<_>>>()?;
        let columns: Vec<&(dyn ToServer + Sync)> = columns.iter().map(|column| column as &(dyn ToServer + Sync)).collect();
        self.answer(client.execute(&statement, &columns))?;
        Ok(())
    }

    /// The first row of an answer to a question without parameters.
    pub fn first(&self, sql: &str) -> Result<Row> {
        self.revive()?;
        self.answer(self.opened.borrow().client.query_one(sql, &[]))
    }

    /// Waits for what the server answers, as long as it may take. A server that does not answer in time is still asked whether it
    /// lets anybody in where what takes long is no fault; otherwise the session is given up.
    fn answer<T>(&self, asked: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>) -> Result<T> {
        let patience = self.url.answer_timeout();
        if self.is_lost.get() {
            return Err(Fault::Silent(patience));
        }
        let mut asked = pin!(asked);
        loop {
            match answer(patience, asked.as_mut()) {
                Err(Fault::Silent(_)) if !self.is_bound.get() && lives(&self.url) => {}
                Err(Fault::Silent(patience)) => {
                    self.is_lost.set(true);
                    self.traffic.borrow().abort();
                    self.leave_alone(patience);
                    return Err(Fault::Silent(patience));
                }
                answered => return answered,
            }
        }
    }

    fn leave_alone(&self, patience: Duration) {
        *self.rest.borrow_mut() = Some((runtime().spawn(tokio::time::sleep(REST.min(patience))), patience));
    }

    /// Opens a session anew in place of one that was lost, unless that was within a transaction.
    fn revive(&self) -> Result<()> {
        if self.in_transaction.get() || !(self.is_lost.get() || self.opened.borrow().client.is_closed()) {
            return Ok(());
        }
        if let Some((_, patience)) = self.rest.borrow().as_ref().filter(|(rest, _)| !rest.is_finished()) {
            return Err(Fault::Silent(*patience));
        }
        let opened = connect(&self.url).and_then(|(client, traffic)| {
            answer(self.url.patience(), client.batch_execute(&self.settings()))?;
            Ok((client, traffic))
        });
        let (client, traffic) = opened.inspect_err(|fault| {
            if let Fault::Silent(patience) = fault {
                self.leave_alone(*patience);
            }
        })?;
        self.canceller.is_for(&client);
        *self.opened.borrow_mut() = Opened { client, prepared: HashMap::new(), polls: false };
        *self.traffic.borrow_mut() = traffic;
        self.is_lost.set(false);
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
        let polls = self.answer(self.opened.borrow().client.query_one(&sql, &[]))?.get(0);
        self.opened.borrow_mut().polls = polls;
        Ok(polls)
    }

    /// The condition on a row `l` of `pg_locks` under which it is the lock of whoever polls in this schema.
    pub fn lock_of_polling(&self) -> String {
        // The view has no sign in its numbers.
        let schema = self.schema.cast_unsigned();
        format!(
            "l.locktype = 'advisory' AND l.granted AND l.classid = {POLLING} AND l.objid = {schema} AND l.objsubid = 2
             AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
    }

    /// The same without asking the server: within a transaction a session that was lost has failed.
    pub fn still_polls(&self) -> bool {
        self.opened.borrow().polls
    }

    /// Until this transaction ends nobody else of this schema who asks for the same goes on.
    pub fn lock_wording(&self) -> Result<()> {
        self.batch_as_it_is(&format!("SELECT pg_advisory_xact_lock({WORDING}, {})", self.schema))
    }

    /// Tells the other sessions of this schema.
    pub fn notify(&self, word: &str) -> Result<()> {
        self.batch_as_it_is(&format!("SELECT pg_notify('{CHANNEL}', current_schema() || ' {word}')"))
    }

    /// What ends the statement that runs, from another thread.
    pub fn canceller(&self) -> Cancel {
        self.canceller.clone()
    }

    pub fn url(&self) -> &Arc<ServerUrl> {
        &self.url
    }

    /// Of which type the values for each parameter of a text for one row are, and the statement for all rows.
    fn prepare_for_all(&self, client: &Client, sql: &str) -> Result<(Vec<Type>, Statement)> {
        let one = translate(sql);
        let described = self.answer(client.prepare(&one.sql))?;
        let mut types = vec![Type::TEXT; one.parameters.len()];
        for (parameter, of) in one.parameters.iter().zip(described.params()) {
            if let Parameter::Number(number) = parameter
                && let Some(kind) = types.get_mut(*number)
            {
                *kind = match *of {
                    Type::INT2 | Type::INT4 | Type::INT8 => Type::INT8,
                    Type::FLOAT4 | Type::FLOAT8 => Type::FLOAT8,
                    Type::BYTEA => Type::BYTEA,
                    _ => Type::TEXT,
                };
            }
        }
        let names: Vec<&str> = types.iter().map(Type::name).collect();
        let statement = self.answer(client.prepare(&for_all(sql, &names)))?;
        Ok((types, statement))
    }
}
