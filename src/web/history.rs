//! The past events that "what if" asks: of a catalogue that is read once, or those that the daemon itself has seen.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::Web;
use super::shell::Refusal;
use crate::catalogue::{CatalogueError, Query, Source, read_newest_events};
use crate::event::{Event, Magnitude};
use crate::replay::losses::date;
use crate::time::{Span, Timestamp};
use crate::words::{count, counted};

/// The most events that are kept and replayed: at some 300 bytes each. Of a larger catalogue they are the newest.
pub const MAX_EVENTS: u32 = 50_000;
/// How long what was read from the database is taken for what is known.
const FRESH: Span = Span::from_seconds(60);

/// Where the past events come from.
pub struct History(Origin);

enum Origin {
    Catalogue(Arc<Known>),
    /// What was read last, and when.
    Database(Mutex<Option<(Timestamp, Arc<Known>)>>),
}

/// Past events.
#[derive(Debug)]
pub(super) struct Known {
    /// In order of origin.
    events: Vec<Event>,
    /// Whether older ones were left out.
    left_out: bool,
    whence: &'static str,
}

impl History {
    /// Reads the newest events of a catalogue in several files.
    ///
    /// # Errors
    /// [`CatalogueError`] if one cannot be read, or at its first bad row.
    pub fn read(mut files: Vec<Source>) -> Result<History, CatalogueError> {
        let read = read_newest_events(&mut files, &Query::default(), MAX_EVENTS as usize)?;
        Ok(History(Origin::Catalogue(Arc::new(Known::new(read.events, read.left_out, "the catalogue")))))
    }

    /// The events that the daemon has seen.
    #[must_use]
    pub fn of_the_daemon() -> History {
        History(Origin::Database(Mutex::new(None)))
    }

    /// In words: `18,738 events, 2015-01-01 to 2025-12-31`.
    #[must_use]
    pub fn told(&self) -> String {
        match &self.0 {
            Origin::Catalogue(known) => known.told(),
            Origin::Database(_) => "the events that the daemon has seen".to_owned(),
        }
    }

    /// What is known now.
    pub(super) async fn known(&self, web: &Web) -> Result<Arc<Known>, Refusal> {
        let last = match &self.0 {
            Origin::Catalogue(known) => return Ok(Arc::clone(known)),
            Origin::Database(last) => last,
        };
        let now = web.clock.now();
        if let Some((read_at, known)) = last.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
            && now.since(*read_at) < FRESH
        {
            return Ok(Arc::clone(known));
        }
        let events = web.work.read(|store| store.newest_events(MAX_EVENTS)).await?;
        let left_out = events.len() >= MAX_EVENTS as usize;
        let known = Arc::new(Known::new(events, left_out, "what this daemon has seen"));
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&known)));
        Ok(known)
    }
}

impl Known {
    /// Keeps of the events what a replay shows of them.
    fn new(events: Vec<Event>, left_out: bool, whence: &'static str) -> Known {
        let shown = |event: Event| Event {
            ids: Vec::new(),
            magnitude_type: None,
            kind: String::new(),
            status: String::new(),
            url: None,
            ..event
        };
        Known { events: events.into_iter().map(shown).collect(), left_out, whence }
    }

    /// When the first and the last of them were.
    pub fn ends(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.events.first()?.origin_at, self.events.last()?.origin_at))
    }

    /// How many there are, from when to when.
    pub fn told(&self) -> String {
        let Some((first, last)) = self.ends() else { return format!("no event of {} yet", self.whence) };
        let newest = if self.left_out { "the newest " } else { "" };
        let events = counted(self.events.len() as u64, "event");
        format!("{newest}{events} of {}, {} to {}", self.whence, date(first), date(last))
    }

    /// Those from `from`, inclusive, to `to`, exclusive, of this magnitude or more; then one without a magnitude is not among them.
    pub fn between(&self, from: Option<Timestamp>, to: Option<Timestamp>, least: Option<Magnitude>) -> Cow<'_, [Event]> {
        let start = from.map_or(0, |from| self.events.partition_point(|event| event.origin_at < from));
        let end = to.map_or(self.events.len(), |to| self.events.partition_point(|event| event.origin_at < to));
        let within = self.events.get(start..end).unwrap_or_default();
        match least {
            None => Cow::Borrowed(within),
            Some(least) => {
                let large = |event: &&Event| event.magnitude.is_some_and(|magnitude| magnitude >= least);
                Cow::Owned(within.iter().filter(large).cloned().collect())
            }
        }
    }

    /// Of how many events this is a part, if it is one.
    pub fn part(&self, events: usize) -> String {
        if events == self.events.len() { String::new() } else { format!(" of {}", count(self.events.len() as u64)) }
    }
}
