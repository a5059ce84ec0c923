//! A catalogue on its way into a file: the rows as served, oldest first, each event once. What has come is safe at every
//! moment: rows go into `FILE.part`, and how many of its bytes count, and up to when, into `FILE.part.json` after them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::client::{Fdsn, Now};
use super::rows::{self, Table};
use super::slices::Slices;
use super::{FdsnUrl, Question};
use crate::feed::error::FeedError;
use crate::time::{TICKS_PER_SECOND, Timestamp};

/// The most events of one catalogue. All that the USGS ever listed are about four million.
pub const MAX_CATALOGUE_EVENTS: u64 = 8_000_000;

/// The rows so far, in a file.
pub struct Download {
    file: File,
    /// Where they will lie; `None` if the caller reads them from here.
    place: Option<Place>,
    ids: HashSet<String>,
    header: Vec<u8>,
    state: State,
}

struct Place {
    output: PathBuf,
    part: PathBuf,
    state: PathBuf,
}

/// What was asked and how far it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    url: String,
    question: Question,
    /// The second from which nothing is known yet.
    next_s: i64,
    /// How much of the rows' file counts.
    bytes: u64,
    /// Events that share the last second of the span and are not in it.
    outside: u64,
}

/// How far a fetch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub events: u64,
    pub of: u64,
    pub until: Timestamp,
}

/// What a fetch brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// In the file.
    pub events: u64,
    /// Of these, those that an interrupted fetch had brought.
    pub resumed: u64,
    /// Got, with those that share the last second of the span: what the service counts.
    pub received: u64,
    /// What the service counted at the start.
    pub counted: u64,
    /// What it counted at the end, if that was asked: not if all came in one answer, and as many as counted.
    pub recounted: Option<u64>,
    pub requests: u64,
}

impl Fetched {
    /// Whether the service counts as many events as it gave.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.recounted.unwrap_or(self.counted) == self.received
    }
}

impl Download {
    /// A download that is read from here when it is complete; nothing remains of it otherwise.
    ///
    /// # Errors
    /// [`FeedError::Part`] if there is no room for temporary files.
    pub fn spooled(url: &FdsnUrl, question: &Question) -> Result<Download, FeedError> {
        let file = tempfile::tempfile().map_err(|source| part("make", &std::env::temp_dir(), source))?;
        let state = State::fresh(url, question);
        Ok(Download { file, place: None, ids: HashSet::new(), header: Vec::new(), state })
    }

    /// A download to `output`, which stays as it is until all is there. Goes on where one that asked the same was
    /// interrupted; what asked something else is dropped.
    ///
    /// # Errors
    /// [`FeedError::Part`] if the files beside `output` cannot be used, [`FeedError::PartLocked`] if another fetch does.
    pub fn open(output: &Path, url: &FdsnUrl, question: &Question) -> Result<Download, FeedError> {
        let beside = |suffix: &str| {
            let mut name = output.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let place = Place { output: output.to_owned(), part: beside(".part"), state: beside(".part.json") };
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&place.part);
        let file = opened.map_err(|source| part("open", &place.part, source))?;
        file.try_lock().map_err(|fault| match fault {
            fs::TryLockError::WouldBlock => FeedError::PartLocked { path: place.part.clone() },
            fs::TryLockError::Error(source) => part("lock", &place.part, source),
        })?;
        let fresh = State::fresh(url, question);
        let known = fs::read(&place.state).ok().and_then(|text| serde_json::from_slice::<State>(&text).ok());
        let known = known.filter(|known| known.url == fresh.url && known.question == fresh.question);
        let (ids, header) = (HashSet::new(), Vec::new());
        let mut download = Download { file, place: Some(place), ids, header, state: known.unwrap_or_else(|| fresh.clone()) };
        if download.take_up().is_err() {
            // What is there does not fit together: nothing of it is used.
            download.state = fresh;
            download.ids.clear();
            download.header.clear();
        }
        let bytes = download.state.bytes;
        let cut = |file: &mut File| file.set_len(bytes).and_then(|()| file.seek(SeekFrom::Start(bytes)));
        cut(&mut download.file).map_err(|source| part("write", download.path(), source))?;
        Ok(download)
    }

    /// The events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.ids.len() as u64
    }

    /// Gives the file its name, or the rows to `out`.
    ///
    /// # Errors
    /// [`FeedError::Part`] if that does not succeed; what was there before stands.
    pub fn finish(mut self, out: &mut dyn io::Write) -> Result<(), FeedError> {
        let path = self.path().to_owned();
        let Some(place) = &self.place else {
            let mut copy = || {
                self.file.seek(SeekFrom::Start(0))?;
                io::copy(&mut self.file, out)?;
                out.flush()
            };
            return copy().map_err(|source| part("print", Path::new("the catalogue"), source));
        };
        let done = self.file.sync_all().and_then(|()| fs::rename(&place.part, &place.output));
        done.map_err(|source| part("write", &path, source))?;
        // What describes no part is ignored by the next fetch.
        let _ = fs::remove_file(&place.state);
        Ok(())
    }

    /// Reads again what an earlier fetch brought.
    fn take_up(&mut self) -> Result<(), FeedError> {
        let (bytes, path) = (self.state.bytes, self.path().to_owned());
        let length = self.file.metadata().map_err(|source| part("read", &path, source))?.len();
        if length < bytes {
            return Err(part("read", &path, io::ErrorKind::UnexpectedEof.into()));
        }
        let known = io::BufReader::new((&mut self.file).take(bytes));
        (self.header, self.ids) = rows::read_ids(&path.display().to_string(), known)?;
        Ok(())
    }

    /// Adds what is new of a slice; everything before the second `next_s` is known then.
    fn append(&mut self, url: &str, table: Option<&Table<'_>>, next_s: i64) -> Result<(), FeedError> {
        let mut text = Vec::new();
        if let Some(table) = table {
            if self.header.is_empty() {
                self.header = table.header.to_vec();
                text.extend_from_slice(&[&self.header[..], b"\n"].concat());
            } else if self.header != table.header {
                let found = format!("another header than before: '{}'", String::from_utf8_lossy(table.header));
                return Err(FeedError::NotCatalogue { url: url.to_owned(), found });
            }
            let span = self.state.question.from..self.state.question.to;
            for row in &table.rows {
                if !span.contains(&row.at) {
                    self.state.outside += 1;
                } else if self.ids.insert(row.id.clone()) {
                    text.extend_from_slice(row.bytes);
                    text.push(b'\n');
                }
            }
        }
        self.state.next_s = next_s;
        self.state.bytes += text.len() as u64;
        self.file.write_all(&text).and_then(|()| self.keep()).map_err(|source| part("write", self.path(), source))
    }

    /// Makes what has come safe: first the rows, then how many of them count.
    fn keep(&mut self) -> io::Result<()> {
        let Some(place) = &self.place else { return Ok(()) };
        self.file.sync_data()?;
        let directory = place.state.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut draft = NamedTempFile::new_in(directory)?;
        draft.write_all(&serde_json::to_vec(&self.state)?)?;
        draft.as_file().sync_data()?;
        draft.persist(&place.state)?;
        Ok(())
    }

    fn path(&self) -> &Path {
        self.place.as_ref().map_or(Path::new("a temporary file"), |place| &place.part)
    }
}

impl State {
    fn fresh(url: &FdsnUrl, question: &Question) -> State {
        let next_s = question.seconds().0;
        State { url: url.to_string(), question: question.clone(), next_s, bytes: 0, outside: 0 }
    }
}

fn part(step: &'static str, path: &Path, source: io::Error) -> FeedError {
    FeedError::Part { step, path: path.to_owned(), source }
}

impl Fdsn {
    /// Fetches what `download` still lacks, telling `progress` after each slice.
    ///
    /// # Errors
    /// [`FeedError`] when the service does not answer well in spite of all patience; what has come is kept.
    pub async fn fetch(
        &self,
        download: &mut Download,
        now: Now<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Fetched, FeedError> {
        let question = download.state.question.clone();
        let counted = self.count(&question, now).await?;
        if counted.events > MAX_CATALOGUE_EVENTS {
            let (url, limit) = (self.url().to_string(), MAX_CATALOGUE_EVENTS);
            return Err(FeedError::TooManyEvents { url, counted: counted.events, limit });
        }
        let resumed = download.events();
        let left = counted.events.saturating_sub(resumed);
        let mut slices = Slices::new(download.state.next_s, question.seconds().1, left, counted.limit);
        let mut fetched = Fetched { events: 0, resumed, received: 0, counted: counted.events, recounted: None, requests: 1 };
        let limit = counted.limit;
        fetched.requests += self
            .walk(&mut slices, u64::MAX, async |slices| {
                let events = self.slice(download, &question, slices, limit, now()).await?;
                let until = Timestamp::saturating_from_ticks(i128::from(slices.1) * i128::from(TICKS_PER_SECOND));
                progress(Progress { events: download.events(), of: counted.events, until });
                Ok(events)
            })
            .await?;
        fetched.events = download.events();
        fetched.received = fetched.events + download.state.outside;
        // Within one answer nothing changes; between several an event may come into what was asked for already.
        if fetched.received != fetched.counted || fetched.requests > 2 || resumed > 0 {
            fetched.recounted = Some(self.count(&question, now).await?.events);
            fetched.requests += 1;
        }
        Ok(fetched)
    }

    /// Fetches one slice: how many events it holds.
    async fn slice(
        &self,
        download: &mut Download,
        question: &Question,
        (first, last): (i64, i64),
        limit: u64,
        now: Timestamp,
    ) -> Result<u64, FeedError> {
        let mut parameters = question.parameters(first, last);
        parameters.extend([("format", "csv".to_owned()), ("orderby", "time-asc".to_owned())]);
        let url = self.url().ask("query", &parameters);
        let body = self.get(&url, now).await?;
        let table = rows::read(&url, &body)?;
        let events = table.as_ref().map_or(0, |table| table.rows.len() as u64);
        // A service that cuts off in silence gives just as many as it may; a second cannot be cut any further.
        if events == limit && last.abs_diff(first) > 1 {
            return Err(FeedError::SearchLimit { url: url.into() });
        }
        download.append(url.as_str(), table.as_ref(), last)?;
        Ok(events)
    }
}
