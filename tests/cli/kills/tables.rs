//! The tables of a run, in a file or on a server: what is asked of them while it goes on, and all that it leaves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use super::course::until;
use crate::server::{Asker, Server};

/// Everything that a decision left; what differs between installations is left out, and the numbers of rows, which are others where
/// a transaction failed.
const LEFT: [(&str, &str); 6] = [
    ("events", "SELECT preferred_id, first_seen_at, changed_at, fate, withdrawn_at, body FROM events"),
    ("revisions", "SELECT preferred_id, seen_at, changes, r.body FROM revisions AS r JOIN events USING (event_key)"),
    (
        "decisions",
        "SELECT name, preferred_id, d.decided_at, outcome, reason, refused, remaining, retry_at, created_at, alert_id, alert
         FROM decisions AS d JOIN events USING (event_key)
         JOIN (SELECT subscriber_key, name FROM subscribers) AS s USING (subscriber_key)
         LEFT JOIN (SELECT delivery_key, created_at, alert_id, alert FROM outbox) AS o USING (delivery_key)",
    ),
    (
        "updates",
        "SELECT name, preferred_id, revision, kind, decided_at, outcome, reason, refused, retry_at, created_at, alert_id, alert
         FROM updates JOIN events USING (event_key)
         JOIN (SELECT subscriber_key, name FROM subscribers) AS s USING (subscriber_key)
         LEFT JOIN (SELECT delivery_key, created_at, alert_id, alert FROM outbox) AS o USING (delivery_key)",
    ),
    (
        "limiters",
        "SELECT name, standing, state, wake_at, update_wake_at FROM subscribers LEFT JOIN limiters USING (subscriber_key)",
    ),
    (
        "messages",
        "SELECT name, alert_id, magnitude, o.created_at, status, alert, content, terms, o.reason, remaining, retry_at, reset_at
         FROM outbox AS o JOIN subscribers USING (subscriber_key)
         LEFT JOIN contents USING (content_key) LEFT JOIN terms USING (terms_key)",
    ),
];

pub enum Tables {
    /// In a file, opened after the daemon.
    File(PathBuf, Option<Connection>),
    Server(Box<Asker>, &'static Server),
}

impl Tables {
    pub fn file(path: PathBuf) -> Tables {
        Tables::File(path, None)
    }

    pub fn server(url: &str, server: &'static Server) -> Tables {
        Tables::Server(Box::new(Asker::new(url)), server)
    }

    pub fn is_closed(&self) -> bool {
        matches!(self, Tables::File(_, None))
    }

    pub fn close(&mut self) {
        if let Tables::File(_, connection) = self {
            *connection = None;
        }
    }

    /// The first row of an answer; of a file it stays open.
    pub fn numbers(&mut self, sql: &str) -> Vec<Option<i64>> {
        match self {
            Tables::File(path, connection) => numbers(connection.get_or_insert_with(|| open(path)), sql),
            Tables::Server(asker, _) => answer(asker, sql).swap_remove(0).iter().map(|text| text.parse().ok()).collect(),
        }
    }

    /// The rows of a query as text.
    pub fn lines(&mut self, sql: &str) -> Vec<String> {
        match self {
            Tables::File(path, _) => lines(&open(path), sql),
            Tables::Server(asker, _) => answer(asker, sql).iter().map(|row| row.join(" ")).collect(),
        }
    }

    /// Everything that a decision left, line by line and table by table.
    pub fn left(&mut self) -> BTreeMap<&'static str, Vec<String>> {
        let key = self.lines("SELECT key FROM installation").swap_remove(0);
        let sorted = LEFT.map(|(table, sql)| {
            let lines = self.lines(sql);
            let mut lines: Vec<_> = lines.iter().map(|line| without_keys(line, &key)).collect();
            lines.sort();
            (table, lines)
        });
        sorted.into()
    }
}

/// The database of a running daemon, or of none.
pub fn open(path: &Path) -> Connection {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).expect("the database");
    connection.busy_timeout(Duration::from_secs(30)).expect("a timeout");
    connection
}

fn numbers(connection: &Connection, sql: &str) -> Vec<Option<i64>> {
    let mut statement = connection.prepare_cached(sql).expect(sql);
    let columns = statement.column_count();
    statement.query_row([], |row| (0..columns).map(|at| row.get(at)).collect()).expect(sql)
}

/// What the server says, also after it was gone.
fn answer(asker: &mut Asker, sql: &str) -> Vec<Vec<String>> {
    let mut rows = None;
    until("the server answers", || {
        rows = asker.rows(sql);
        rows.is_some()
    });
    rows.expect("an answer")
}

/// Without what differs between installations: its key, and in the ids of alerts the number of the event.
fn without_keys(line: &str, key: &str) -> String {
    let mut parts = line.split(key);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // `-SUBSCRIBER-EVENT`, and perhaps a revision.
        let mut numbers = part.splitn(3, '-');
        let (_, subscriber, rest) = (numbers.next(), numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let event = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        text.extend(["KEY-", subscriber, "-EVENT", &rest[event..]]);
    }
    text
}

/// The rows of a query as text.
pub fn lines(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).expect(sql);
    let columns = statement.column_count();
    let text = |value| match value {
        Value::Null => String::new(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(value) => value,
        Value::Blob(value) => value.iter().fold("\\x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
    };
    let rows = statement.query_map([], |row| {
        let values = (0..columns).map(|at| row.get(at).map(text));
        Ok(values.collect::<Result<Vec<_>, _>>()?.join(" "))
    });
    rows.expect(sql).collect::<Result<_, _>>().expect(sql)
}
