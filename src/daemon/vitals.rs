//! The daemon's vital signs as others see them: signs of life and a line for systemd, and a note beside the database.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::pulse::{Pulse, Stage};
use super::settings::Watching;
use super::{Database, Metrics, systemd, with_causes};
use crate::clock::{Clock, Stopwatch};
use crate::freshness::{FeedState, Freshness};
use crate::plain::one_line;
use crate::store::{Backlog, DaemonNote, Reload, Turns, Watched};
use crate::time::{Span, Timestamp};

/// How often it is told how things stand, at most.
const TELL_EVERY: Span = Span::from_seconds(5);
/// What is still to be done is counted so seldom that counting takes at most this part of the time: a server takes a second for a
/// million messages, in which nothing is decided.
const COUNTING: u64 = 20;
/// A count is told no longer than this.
const MAX_COUNT_AGE: Span = Span::from_seconds(60);
/// The longest line that is told.
const MAX_LINE_CHARS: usize = 500;

/// What a daemon is known by.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The machine's name for itself.
    pub host: String,
    /// The database's file, beside which its note lies, or what stands for one where the database is on a server.
    pub database: PathBuf,
    /// The configuration file; `None`: only defaults.
    pub configuration: Option<PathBuf>,
}

pub(super) struct Vitals {
    identity: Identity,
    database: Database,
    clock: Arc<dyn Clock>,
    watching: watch::Receiver<Watching>,
    metrics: Arc<Metrics>,
    started_at: Timestamp,
    signs: Mutex<Signs>,
    /// Held while a note is written: the last one written is the newest.
    noting: tokio::sync::Mutex<()>,
}

struct Signs {
    pulse: Pulse,
    told: Option<Span>,
    /// What was counted last, and until when it is told, by the clock that nobody sets.
    counted: Option<(Backlog, Span)>,
    line: String,
    reload: Option<Reload>,
    /// What does not happen, and why.
    troubles: BTreeMap<&'static str, String>,
}

impl Vitals {
    pub fn new(
        identity: Identity,
        stages: &'static [Stage],
        database: Database,
        clock: Arc<dyn Clock>,
        watching: watch::Receiver<Watching>,
        metrics: Arc<Metrics>,
    ) -> Vitals {
        let (started_at, pulse) = (clock.now(), Pulse::new(stages, systemd::watchdog()));
        let signs = Signs { pulse, told: None, counted: None, line: String::new(), reload: None, troubles: BTreeMap::new() };
        Vitals {
            identity,
            database,
            clock,
            watching,
            metrics,
            started_at,
            signs: Mutex::new(signs),
            noting: tokio::sync::Mutex::default(),
        }
    }

    /// A stage is at a turn.
    pub fn mark(&self, stage: Stage) {
        let beats = self.signs().pulse.mark(stage, self.clock.uptime());
        if beats {
            systemd::alive();
        }
    }

    /// The same, where there is time to tell how things stand.
    pub async fn turn(&self, stage: Stage) {
        let is_first = self.signs().pulse.last(stage).is_none();
        self.mark(stage);
        let now = self.clock.uptime();
        let is_time = {
            let mut signs = self.signs();
            let is_time = signs.told.is_none_or(|told| now.ticks().saturating_sub(told.ticks()) >= TELL_EVERY.ticks());
            if is_time {
                signs.told = Some(now);
            }
            is_time
        };
        if is_time && let Some(line) = self.changed(self.line().await) {
            systemd::status(&line);
        }
        // That it has begun is noted at once.
        if is_time || is_first {
            self.note(None).await;
        }
    }

    /// Whether the database keeps a stage from its work, and how.
    pub fn trouble(&self, (stage, fault): (&'static str, Option<String>)) {
        let troubles = &mut self.signs().troubles;
        match fault {
            Some(fault) => drop(troubles.insert(stage, fault)),
            None => drop(troubles.remove(stage)),
        }
    }

    /// The stages are about to run.
    pub async fn ready(&self, line: String) {
        systemd::ready(&line);
        self.changed(line);
        self.note(None).await;
    }

    /// The configuration was read again.
    pub async fn reloaded(&self, reload: Reload) {
        self.signs().reload = Some(reload);
        let line = self.line().await;
        systemd::ready(&line);
        self.changed(line);
        self.note(None).await;
    }

    /// No further attempts begin; so many are under way.
    pub fn stopping(&self, under_way: usize) {
        let line = format!("stopping, {under_way} deliveries under way");
        systemd::stopping(&line);
        self.changed(line);
    }

    /// Everything has ended.
    pub async fn stopped(&self) {
        self.changed("stopped".to_owned());
        self.note(Some(self.clock.now())).await;
    }

    /// Remembers a line: itself if it is another one than before.
    fn changed(&self, line: String) -> Option<String> {
        let mut signs = self.signs();
        if signs.line == line {
            return None;
        }
        signs.line.clone_from(&line);
        Some(line)
    }

    async fn line(&self) -> String {
        let watching = self.watching.borrow().clone();
        let (feed, now) = (watching.feed.clone(), self.clock.uptime());
        let known = self.signs().counted.filter(|(_, until)| now < *until).map(|(backlog, _)| backlog);
        let read = self.database.with(move |store| {
            let state = store.feed_state(&feed)?;
            let since = Stopwatch::start();
            let counted = if known.is_none() { Some((store.backlog()?, since.elapsed())) } else { None };
            Ok((state, counted))
        });
        let read = read.await.map(|(state, counted)| {
            if let Some((backlog, took)) = counted {
                self.signs().counted = Some((backlog, Span::from_ticks(now.ticks().saturating_add(told_for(took).ticks()))));
            }
            (state, counted.map(|(backlog, _)| backlog).or(known).unwrap_or_default())
        });
        let standing = match read {
            Ok((state, backlog)) => {
                let freshness = state.freshness(watching.since, watching.stale_after, self.clock.now());
                standing(&state, freshness, backlog)
            }
            Err(fault) => format!("the database does not answer: {}", with_causes(&fault)),
        };
        let (refused, trouble) = {
            let signs = self.signs();
            let trouble = signs.troubles.iter().next().map(|(stage, fault)| format!("; nothing is {stage}: {fault}"));
            (signs.reload.clone().filter(|reload| !reload.applied), trouble.unwrap_or_default())
        };
        let refused = refused.map_or_else(String::new, |Reload { at, detail, .. }| {
            format!("; the configuration as it was at {at} is refused: {}", detail.unwrap_or_default())
        });
        let away = if self.metrics.store_away() == Some(true) { "; the store of the shared limits is away" } else { "" };
        one_line(&format!("{standing}{away}{trouble}{refused}"), MAX_LINE_CHARS)
    }

    async fn note(&self, stopped_at: Option<Timestamp>) {
        let _alone = self.noting.lock().await;
        let noted_at = self.clock.now();
        let Watching { feed, stale_after, .. } = self.watching.borrow().clone();
        let note = {
            let (signs, now) = (self.signs(), self.clock.uptime());
            let at = |stage| {
                let ago = now.ticks().saturating_sub(signs.pulse.last(stage)?.ticks());
                Some(noted_at.minus(Span::from_ticks(ago)))
            };
            DaemonNote {
                process: std::process::id(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                configuration: self.identity.configuration.clone(),
                watching: Some(Watched { feed, stale_after }),
                started_at: self.started_at,
                noted_at,
                stopped_at,
                turns: Turns {
                    ingest: at(Stage::Ingest),
                    dispatch: at(Stage::Dispatch),
                    deliver: at(Stage::Deliver),
                    notify: at(Stage::Notify),
                },
                reload: signs.reload.clone(),
                status: signs.line.clone(),
                limits: self.metrics.limits(),
            }
        };
        let Identity { host, database, .. } = self.identity.clone();
        let (row, files) = (note.clone(), database.clone());
        // On a thread that may wait; what cannot be written is no reason to stop, the next one may be.
        if let Ok(Err(fault)) = tokio::task::spawn_blocking(move || note.write(&database)).await {
            tracing::debug!("{}", with_causes(&fault));
        }
        if let Err(fault) = self.database.with(move |store| store.note_for_others(&host, &files, &row)).await {
            tracing::debug!("{}", with_causes(&fault));
        }
    }

    fn signs(&self) -> MutexGuard<'_, Signs> {
        // Nothing that holds it panics halfway.
        self.signs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a count is told that took so long.
fn told_for(took: Span) -> Span {
    Span::from_ticks(took.ticks().saturating_mul(COUNTING)).min(MAX_COUNT_AGE)
}

/// How things stand, in words.
fn standing(state: &FeedState, freshness: Freshness, backlog: Backlog) -> String {
    let feed = match (freshness, state.polled_at) {
        (Freshness::Fresh, Some(at)) => format!("feed fresh (polled {at})"),
        (Freshness::Fresh, None) => "feed not polled yet".to_owned(),
        (Freshness::Stale { since, .. }, _) => format!("feed stale since {since}"),
    };
    let Backlog { to_decide, waiting, subscribers } = backlog;
    let people = if subscribers == 1 { "subscriber" } else { "subscribers" };
    format!("{feed}, {to_decide} to decide, {waiting} waiting, {subscribers} {people}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::store::Store;

    #[test]
    fn counting_takes_a_small_part_of_the_time() {
        let ms = |ms: u64| Span::from_ticks(ms * 1_000);
        for (took, told) in [(ms(0), ms(0)), (ms(10), ms(200)), (ms(1_000), ms(20_000)), (ms(5_000), ms(60_000))] {
            assert_eq!(told_for(took), told, "{took}");
        }
        assert_eq!(told_for(Span::from_ticks(u64::MAX)), MAX_COUNT_AGE);
    }

    #[tokio::test]
    async fn a_stage_that_has_begun_is_noted_at_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("throttler.db");
        let database = Database::new(Store::open(&path).expect("a database"));
        let clock = ManualClock::at("2025-07-29T23:24:52Z".parse().expect("a time"));
        let now = clock.now();
        let watching =
            watch::Sender::new(Watching { feed: "file:///feed".into(), since: now, stale_after: Span::from_seconds(1_800) });
        let identity = Identity { host: "here".to_owned(), database: path.clone(), configuration: None };
        let vitals =
            Vitals::new(identity, &Stage::ALL, database, Arc::new(clock), watching.subscribe(), Arc::new(Metrics::new()));
        let noted = || DaemonNote::read(&path).expect("it is read").expect("a note");
        vitals.ready("about to run".to_owned()).await;
        assert_eq!(noted().turns, Turns::default());
        assert_eq!(noted().watching.expect("a feed").feed, "file:///feed");
        for stage in Stage::ALL {
            vitals.turn(stage).await;
        }
        let begun = Some(now);
        assert_eq!(noted().turns, Turns { ingest: begun, dispatch: begun, deliver: begun, notify: begun });
    }
}
