//! `throttler status`: how things stand, from the database, its lock, and what the daemon notes of itself beside them.

use clap::Args;
use serde_json::{Value, json};

use super::Global;
use super::failure::Failure;
use super::output::{self, Format};
use super::setup::{Loaded, now_by, open_existing};
use crate::feed::FeedUrl;
use crate::freshness::{FeedState, Freshness};
use crate::limits;
use crate::store::{Colleague, DaemonLock, DaemonNote, Location, NoticeCounts, Reload, Store, StoreStatus, Watched};
use crate::time::{Span, Timestamp};

/// Show how things stand: daemon, feed, events, subscribers, outbox
#[derive(Args)]
#[command(after_help = "Examples:
  throttler status
  throttler status --format json

It reads the database, its lock, and the note that the daemon writes beside them, whether the daemon
runs or not, and changes nothing. A feed is stale when its last successful poll, or the making of
its content, is longer ago than feed.stale_after. Where the configuration is bad it says so (exit
status 2) and tells what it knows all the same: the database is the one that it names, or that
--database does, the feed the one that the daemon noted.

Of several daemons on a PostgreSQL server it tells of each: its machine and process, whether it polls, and
how long ago it last told of itself. One that did not for 30 s is silent: killed, hanging, or cut off.")]
pub(super) struct StatusArgs {
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A daemon tells of itself every few seconds; after so long it does not any more.
const SILENT_AFTER: Span = Span::from_seconds(30);

/// Everything that is told.
struct Standing {
    /// The daemon's process, if one runs.
    daemon: Option<String>,
    /// What that daemon notes of itself, or the last one, if none runs.
    note: Option<DaemonNote>,
    /// All daemons, where the database is on a server.
    daemons: Option<Vec<Colleague>>,
    /// What is wrong with the configuration, if anything is.
    fault: Option<String>,
    database: String,
    bytes: Option<u64>,
    /// `None` where neither a good configuration nor the daemon says which.
    feed: Option<Feed>,
    counts: StoreStatus,
    notices: NoticeCounts,
    now: Timestamp,
}

/// The feed, as it was when it was last polled.
struct Feed {
    url: String,
    stale_after: Span,
    state: FeedState,
    freshness: Freshness,
}

pub(super) fn run(global: &Global, args: &StatusArgs) -> Result<(), Failure> {
    let (loaded, fault) = Loaded::read_anyhow(global);
    let at = loaded.database(global)?;
    let files = loaded.files(&at);
    if let (Some(fault), Location::File(path)) = (&fault, &at)
        && !path.exists()
    {
        return Err(Failure::usage(format!("{fault}; and there is no database {at}: --database names one")));
    }
    let store = open_existing(&at)?;
    let now = now_by(&store)?;
    let daemon = DaemonLock::holder(&files)?;
    // One that has just started has not noted anything yet.
    let note =
        DaemonNote::read(&files)?.filter(|note| daemon.as_ref().is_none_or(|process| *process == note.process.to_string()));
    let watched = match &fault {
        None => Some(configured(&loaded)),
        Some(_) => note.as_ref().and_then(|note| note.watching.clone()),
    };
    let standing = Standing {
        daemon,
        note,
        daemons: store.colleagues()?,
        fault: fault.as_ref().map(ToString::to_string),
        database: at.to_string(),
        bytes: store.bytes()?,
        feed: watched.map(|watched| about_feed(&store, watched, now)).transpose()?,
        counts: store.status()?,
        notices: store.notice_counts()?,
        now,
    };
    match args.format {
        Format::Json => output::print_json(&as_json(&standing))?,
        Format::Text => output::print(&as_text(&standing))?,
    }
    fault.map_or(Ok(()), Err)
}

/// The configuration's feed, as the daemon knows it.
fn configured(loaded: &Loaded) -> Watched {
    let feed = &loaded.config.feed;
    let url = feed.url.parse::<FeedUrl>().map_or_else(|_| feed.url.clone(), |url| url.to_string());
    Watched { feed: url, stale_after: feed.stale_after }
}

fn about_feed(store: &Store, Watched { feed, stale_after }: Watched, now: Timestamp) -> Result<Feed, Failure> {
    let state = store.feed_state(&feed)?;
    Ok(Feed { freshness: state.freshness(now, stale_after, now), url: feed, stale_after, state })
}

fn as_json(standing: &Standing) -> Value {
    let Standing { feed, counts, notices, .. } = standing;
    let feed = feed.as_ref();
    let stale_since = feed.and_then(|feed| match feed.freshness {
        Freshness::Fresh => None,
        Freshness::Stale { since, .. } => Some(since),
    });
    let state = feed.map(|feed| &feed.state);
    json!({
        "configuration": { "fault": standing.fault },
        "daemon": about_daemon(standing),
        "daemons": standing.daemons.as_ref().map(|all| all.iter().map(|one| about_colleague(one, standing.now)).collect::<Vec<_>>()),
        "database": { "path": standing.database, "bytes": standing.bytes },
        "feed": {
            "url": feed.map(|feed| &feed.url), "polled_at": state.map(|state| state.polled_at),
            "generated_at": state.map(|state| state.generated_at), "gap_since": state.map(|state| state.gap_since),
            "stale": feed.map(|_| stale_since.is_some()), "stale_since": stale_since,
            "stale_after_s": feed.map(|feed| output::seconds(feed.stale_after)),
        },
        "events": { "known": counts.events, "newest_at": counts.newest_origin_at, "undecided": counts.undecided_events },
        "subscribers": { "active": counts.active, "paused": counts.paused, "disabled": counts.disabled },
        "outbox": {
            "due": counts.due, "leased": counts.leased, "dead": counts.dead, "oldest_due_at": counts.oldest_due_at,
        },
        "notices": { "untold": notices.untold, "due": notices.due, "leased": notices.leased, "dead": notices.dead },
    })
}

fn about_daemon(standing: &Standing) -> Value {
    let mut about = json!({ "running": standing.daemon.is_some(), "process": standing.daemon });
    if let (Value::Object(about), Some(Value::Object(note))) =
        (&mut about, standing.note.as_ref().and_then(|note| serde_json::to_value(note).ok()))
    {
        // Which process runs is the lock's to say.
        about.extend(note.into_iter().filter(|(key, _)| key != "process"));
    }
    about
}

fn about_colleague(Colleague { host, files, note, polls }: &Colleague, now: Timestamp) -> Value {
    json!({
        "host": host, "process": note.process.to_string(), "files": files, "version": note.version,
        "state": Heard::of(note, now).word(), "polls": polls, "status": note.status,
        "started_at": note.started_at, "stopped_at": note.stopped_at, "noted_at": note.noted_at,
        "noted_ago_s": output::seconds(now.since(note.noted_at)),
    })
}

/// What is known of a daemon by what it last told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    Running,
    /// In order.
    Stopped(Timestamp),
    /// It was killed, hangs, or is cut off.
    Silent,
}

impl Heard {
    fn of(note: &DaemonNote, now: Timestamp) -> Heard {
        match note.stopped_at {
            Some(at) => Heard::Stopped(at),
            None if now.since(note.noted_at) <= SILENT_AFTER => Heard::Running,
            None => Heard::Silent,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Heard::Running => "running",
            Heard::Stopped(_) => "stopped",
            Heard::Silent => "silent",
        }
    }
}

/// One of several daemons, in a row.
fn colleague_row(Colleague { host, note, polls, .. }: &Colleague, now: Timestamp) -> String {
    let ago = |at: Timestamp| format!("{} ago", output::duration(now.since(at)));
    let told = match Heard::of(note, now) {
        Heard::Running => {
            let work = if *polls { "polls, decides and delivers" } else { "decides and delivers" };
            format!("{work}, told {}: {}", ago(note.noted_at), note.status)
        }
        Heard::Stopped(at) => format!("stopped {at}, {}", ago(at)),
        Heard::Silent => format!("silent since {}, {}", note.noted_at, ago(note.noted_at)),
    };
    format!("{host}, process {}: {told}", note.process)
}

/// What the daemon notes of itself, in rows; none if it never ran.
fn noted(note: Option<&DaemonNote>, or_none: impl Fn(Option<Timestamp>) -> String) -> Vec<(&'static str, String)> {
    let Some(note) = note else { return Vec::new() };
    let configuration =
        note.configuration.as_ref().map_or("no file, only defaults".to_owned(), |path| path.display().to_string());
    let mut rows = vec![
        ("version", note.version.clone()),
        ("configuration", configuration),
        ("started", or_none(Some(note.started_at))),
        ("stopped", or_none(note.stopped_at)),
        ("last turns", format!("ingest {}", or_none(note.turns.ingest))),
        ("", format!("dispatch {}", or_none(note.turns.dispatch))),
        ("", format!("deliver {}", or_none(note.turns.deliver))),
    ];
    if let Some(at) = note.turns.notify {
        rows.push(("", format!("notify {}", or_none(Some(at)))));
    }
    rows.extend(note.limits.iter().enumerate().map(|(at, limit)| (if at == 0 { "limits" } else { "" }, limit_row(limit))));
    if let Some(Reload { at, applied, detail }) = &note.reload {
        let outcome = if *applied { "applied" } else { "refused" };
        let detail = detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}"));
        rows.push(("last reload", format!("{outcome} {}{detail}", or_none(Some(*at)))));
    }
    rows
}

/// How a limit on deliveries stands, as far as the daemon noted it.
fn limit_row(limit: &limits::Standing) -> String {
    let limits::Standing { name, covers, limit, left, retry_at, outage } = limit;
    let left = match (left, retry_at) {
        (None, _) => "all pass".to_owned(),
        (Some(0), Some(at)) => format!("none left, the next may pass at {at}"),
        (Some(left), _) => format!("{} left", output::count(*left)),
    };
    let outage = outage.map_or_else(String::new, |policy| format!("; its store is away: {policy}"));
    format!("{name}: {left}; {limit} for {covers}{outage}")
}

fn as_text(standing: &Standing) -> String {
    let Standing { counts, notices, now, .. } = standing;
    let count = output::count;
    let ago = |at: Timestamp| format!("{at}, {} ago", output::duration(now.since(at)));
    let or_none = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), ago);
    let daemon = match (&standing.daemon, &standing.note) {
        _ if let Some([]) = standing.daemons.as_deref() => "No daemon runs".to_owned(),
        _ if let Some(all) = &standing.daemons => {
            let running = all.iter().filter(|one| Heard::of(&one.note, *now) == Heard::Running).count();
            format!("{running} of {} daemons run", all.len())
        }
        (Some(process), _) => format!("The daemon runs (process {process})"),
        (None, Some(DaemonNote { stopped_at: None, .. })) => "The daemon does not run, and did not stop in order".to_owned(),
        (None, _) => "The daemon does not run".to_owned(),
    };
    let feed = match &standing.feed {
        None => "which feed it polls is not known".to_owned(),
        Some(Feed { state: FeedState { polled_at: None, .. }, .. }) => "its feed was not polled yet".to_owned(),
        Some(feed) => feed.freshness.to_string(),
    };
    let mut rows = noted(standing.note.as_ref(), or_none);
    let daemons = standing.daemons.iter().flatten().enumerate();
    rows.extend(daemons.map(|(at, one)| (if at == 0 { "daemons" } else { "" }, colleague_row(one, *now))));
    rows.push(("database", format!("{}, {} bytes", standing.database, standing.bytes.map_or_else(|| "?".to_owned(), count))));
    if let Some(Feed { url, stale_after, state, .. }) = &standing.feed {
        rows.extend([
            ("feed", url.clone()),
            ("last poll", or_none(state.polled_at)),
            ("content made", or_none(state.generated_at)),
            ("stale after", output::duration(*stale_after)),
            ("unknown since", or_none(state.gap_since)),
        ]);
    }
    rows.extend([
        ("events", format!("{} known, {} to decide", count(counts.events), count(counts.undecided_events))),
        ("newest event", or_none(counts.newest_origin_at)),
        (
            "subscribers",
            format!("{} active, {} paused, {} disabled", count(counts.active), count(counts.paused), count(counts.disabled)),
        ),
        ("outbox", format!("{} due, {} under way, {} dead", count(counts.due), count(counts.leased), count(counts.dead))),
        ("oldest due", or_none(counts.oldest_due_at)),
        (
            "notices",
            format!(
                "{} due, {} under way, {} dead; {} to tell",
                count(notices.due),
                count(notices.leased),
                count(notices.dead),
                output::counted(notices.untold, "change"),
            ),
        ),
    ]);
    format!("{daemon}; {feed}.\n\n{}", output::pairs(&rows))
}
