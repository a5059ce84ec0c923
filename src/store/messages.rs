//! Messages as they stand in the outbox. One about a single event is written in pieces, since it goes to very many in the same
//! words: what it says of the event and of the limit stands once for all of them, and only the rest in each row. Any other is
//! one piece of JSON. Either way it says what it said when it was decided, whatever changes afterwards.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::rows::{At, Json};
use super::sql::{self, Connection, NumberedBatch, OptionalExtension, Row, params};
use super::subscribers::SubscriberKey;
use super::{StoreError, step};
use crate::alert::{Alert, Content, Explanation};
use crate::channel::Lane;
use crate::event::Magnitude;
use crate::plan::Message;
use crate::rate::Rate;
use crate::subscriber::Subscriber;
use crate::time::Timestamp;

/// What [`alert_from_row`] reads, of the outbox `o`, its subscriber `s` and the tables that [`message_pieces`] joins.
macro_rules! message_columns {
    () => {
        "o.alert_id, o.alert, o.created_at, o.content_key, o.terms_key, o.reason, o.remaining, o.retry_at, o.reset_at, s.name, c.content, t.terms"
    };
}
pub(super) use message_columns;

/// The pieces that messages share.
macro_rules! message_pieces {
    () => {
        " LEFT JOIN contents AS c ON c.content_key = o.content_key LEFT JOIN terms AS t ON t.terms_key = o.terms_key "
    };
}
pub(super) use message_pieces;

/// To whom a message goes, and what its id is made of.
#[derive(Clone, Copy)]
pub(super) struct Addressed<'a> {
    pub key: SubscriberKey,
    pub subscriber: &'a Subscriber,
    /// The event that its id names.
    pub event_key: i64,
    /// What its id has after the event, if anything.
    pub ending: &'a str,
}

/// Writes the messages of one transaction, and remembers the pieces that they share. Whoever writes finishes it, or the transaction
/// is not committed.
pub(super) struct Writer<'t> {
    transaction: &'t Connection,
    installation: &'t str,
    content: Option<(i64, Content, i64)>,
    terms: HashMap<String, Vec<(Rate, u64, i64)>>,
    /// Those in pieces and the others, each prepared at the first.
    pieces: Option<NumberedBatch<'t>>,
    wholes: Option<NumberedBatch<'t>>,
}

/// Of an [`Explanation`] what is the limit's.
#[derive(Clone, Serialize, Deserialize)]
struct Terms {
    promise: String,
    rate: Rate,
    burst: u64,
}

/// An [`Alert`] in pieces, to be written without copying what it says.
#[derive(Serialize)]
struct Whole<'a> {
    id: &'a str,
    subscriber: &'a str,
    created_at: Timestamp,
    content: &'a Content,
    explanation: &'a Explanation,
}

impl<'t> Writer<'t> {
    pub fn new(transaction: &'t Connection, installation: &'t str) -> Writer<'t> {
        Writer { transaction, installation, content: None, terms: HashMap::new(), pieces: None, wholes: None }
    }

    /// Puts a message into the outbox: its key.
    pub fn write(&mut self, to: Addressed<'_>, message: &Message, now: Timestamp) -> Result<i64, StoreError> {
        let id = format!("{}-{}-{}{}", self.installation, to.key.0, to.event_key, to.ending);
        if matches!(message.content, Content::Event { .. }) {
            let content = self.content_key(to.event_key, &message.content).map_err(step("write what a message says"))?;
            let terms = self.terms_key(&message.explanation).map_err(step("write what a message says of a limit"))?;
            self.insert(to, &id, message, Said::Pieces(content, terms), now)
        } else {
            let (content, explanation) = (&message.content, &message.explanation);
            let whole = Whole { id: &id, subscriber: to.subscriber.name.as_str(), created_at: now, content, explanation };
            self.insert(to, &id, message, Said::Whole(whole), now)
        }
        .map_err(step("write an alert to the outbox"))
    }

    fn insert(&mut self, to: Addressed<'_>, id: &str, message: &Message, said: Said<'_>, now: Timestamp) -> sql::Result<i64> {
        let magnitude = message.content.largest().and_then(|event| event.magnitude).map(Magnitude::value);
        let lane = Lane::of(to.subscriber);
        let (at, due_at) = (At(now), At(message.due_at));
        match said {
            Said::Pieces(content, terms) => {
                let Explanation { reason, remaining, retry_at, reset_at, .. } = &message.explanation;
                let remaining = i64::try_from(*remaining).unwrap_or(i64::MAX);
                let sql =
                    "INSERT INTO outbox (event_key, subscriber_key, alert_id, channel, magnitude, content_key, terms_key, reason,
                                               remaining, retry_at, reset_at, created_at, due_at, status)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 'due')";
                prepared(&mut self.pieces, self.transaction, sql)?.add(params![
                    to.event_key,
                    to.key.0,
                    id,
                    lane.as_str(),
                    magnitude,
                    content,
                    terms,
                    reason,
                    remaining,
                    At(*retry_at),
                    At(*reset_at),
                    at,
                    due_at
                ])
            }
            Said::Whole(whole) => {
                let sql = "INSERT INTO outbox (event_key, subscriber_key, alert_id, channel, magnitude, alert, created_at, due_at, status)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'due')";
                let alert = Json(&whole);
                let row = params![to.event_key, to.key.0, id, lane.as_str(), magnitude, alert, at, due_at];
                prepared(&mut self.wholes, self.transaction, sql)?.add(row)
            }
        }
    }

    /// All that was put into the outbox is there, if the transaction is committed.
    pub fn finish(self) -> Result<(), StoreError> {
        let batches = [self.pieces, self.wholes];
        batches.into_iter().flatten().try_for_each(NumberedBatch::finish).map_err(step("write alerts to the outbox"))
    }

    /// The row of this content, which is mostly that of the message before.
    fn content_key(&mut self, event_key: i64, content: &Content) -> sql::Result<i64> {
        if let Some((event, last, key)) = &self.content
            && *event == event_key
            && last == content
        {
            return Ok(*key);
        }
        let find = "SELECT content_key FROM contents WHERE event_key = ?1 AND content = ?2";
        let found =
            self.transaction.prepare_cached(find)?.query_row(params![event_key, Json(content)], |row| row.get(0)).optional()?;
        let key = if let Some(key) = found {
            key
        } else {
            let insert = "INSERT INTO contents (event_key, content) VALUES (?1, ?2)";
            self.transaction.insert(insert, params![event_key, Json(content)], "content_key")?
        };
        self.content = Some((event_key, content.clone(), key));
        Ok(key)
    }

    /// The row of these terms.
    fn terms_key(&mut self, explanation: &Explanation) -> sql::Result<i64> {
        let Explanation { promise, rate, burst, .. } = explanation;
        let known = self.terms.get(promise.as_str()).into_iter().flatten();
        if let Some((.., key)) = known.clone().find(|(of_rate, of_burst, _)| (of_rate, of_burst) == (rate, burst)) {
            return Ok(*key);
        }
        let terms = Terms { promise: promise.clone(), rate: *rate, burst: *burst };
        let insert = "INSERT INTO terms (terms) VALUES (?1) ON CONFLICT (terms) DO NOTHING";
        let find = "SELECT terms_key FROM terms WHERE terms = ?1";
        let mut find = self.transaction.prepare_cached(find)?;
        let found = find.query_row([Json(&terms)], |row| row.get(0)).optional()?;
        let key = if let Some(key) = found {
            key
        } else {
            // Another daemon may write the same at this moment, and in another order, so that each would wait for what the other wrote.
            if let Some(session) = self.transaction.server() {
                session.lock_wording()?;
            }
            self.transaction.prepare_cached(insert)?.execute([Json(&terms)])?;
            find.query_row([Json(&terms)], |row| row.get(0))?
        };
        self.terms.entry(terms.promise).or_default().push((*rate, *burst, key));
        Ok(key)
    }
}

/// Rows of the outbox, from the first on.
fn prepared<'b, 't>(
    batch: &'b mut Option<NumberedBatch<'t>>,
    transaction: &'t Connection,
    sql: &str,
) -> sql::Result<&'b mut NumberedBatch<'t>> {
    match batch {
        Some(batch) => Ok(batch),
        none => Ok(none.insert(transaction.numbered_batch(sql, "outbox", "delivery_key")?)),
    }
}

/// How a message is written.
enum Said<'a> {
    /// The rows of the pieces that it shares.
    Pieces(i64, i64),
    Whole(Whole<'a>),
}

/// The message of a row that has `message_columns`.
pub(super) fn alert_from_row(row: &Row<'_>) -> sql::Result<Alert> {
    Reader::default().read(row)
}

/// Reads messages, and the pieces that they share once.
#[derive(Default)]
pub(super) struct Reader {
    contents: HashMap<i64, Content>,
    terms: HashMap<i64, Terms>,
}

impl Reader {
    /// The message of a row that has `message_columns`.
    pub fn read(&mut self, row: &Row<'_>) -> sql::Result<Alert> {
        if let Some(Json(alert)) = row.get::<_, Option<Json<Alert>>>("alert")? {
            return Ok(alert);
        }
        let Terms { promise, rate, burst } = read_once(&mut self.terms, row, "terms_key", "terms")?;
        let explanation = Explanation {
            reason: row.get("reason")?,
            promise,
            rate,
            burst,
            remaining: row.get::<_, i64>("remaining")?.unsigned_abs(),
            retry_at: row.get::<_, At>("retry_at")?.0,
            reset_at: row.get::<_, At>("reset_at")?.0,
        };
        Ok(Alert {
            id: row.get("alert_id")?,
            subscriber: row.get("name")?,
            created_at: row.get::<_, At>("created_at")?.0,
            content: read_once(&mut self.contents, row, "content_key", "content")?,
            explanation,
            unsubscribe_url: None,
        })
    }
}

fn read_once<T: DeserializeOwned + Clone>(known: &mut HashMap<i64, T>, row: &Row<'_>, key: &str, column: &str) -> sql::Result<T> {
    let key = row.get(key)?;
    if let Some(value) = known.get(&key) {
        return Ok(value.clone());
    }
    let value = row.get::<_, Json<T>>(column)?.0;
    known.insert(key, value.clone());
    Ok(value)
}

/// The subscriber and the event that a message's id names; of what is no such id those that nobody and nothing has.
pub(super) fn named_by(id: &str) -> (i64, i64) {
    let mut parts = id.split('-').skip(1).map_while(|part| part.parse().ok());
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}
