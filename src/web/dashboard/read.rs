//! What the database says: the same sums as `throttler report` and `throttler status`, and rows with a bound. What takes too long to add up
//! is left out and said to be.

use super::ask::Ask;
use crate::freshness::FeedState;
use crate::store::{
    LedgerRow, MessageMoment, OutboxRow, Quake, Store, StoreError, StoreStatus, StoredSubscriber, SubscriberReport,
};
use crate::subscriber::SubscriberName;
use crate::time::Timestamp;
use crate::web::Web;
use crate::web::shell::Refusal;

/// With more subscribers than these nobody is ranked: the table goes by names.
const MAX_RANKED: u32 = 10_000;
/// Rows of the table.
pub(super) const MAX_LISTED: usize = 100;
/// Decisions and messages of a scene, and earthquakes of a map; further ones are left out.
pub(super) const MAX_DECISIONS: usize = 5_000;
pub(super) const MAX_QUAKES: usize = 3_000;
/// Messages in the last table.
const MAX_MESSAGES: usize = 50;

/// Everything that was found.
pub(super) struct Found {
    pub feed: FeedState,
    /// `None` where counting took too long.
    pub counts: Option<StoreStatus>,
    pub reports: Reports,
    /// The subscriber of the scene, if there is one.
    pub chosen: Option<Chosen>,
    pub quakes: Vec<Quake>,
    pub messages: Vec<OutboxRow>,
    /// The feed as the database has it, and since when this daemon watches it.
    pub watched: crate::freshness::Freshness,
}

/// Of the subscribers.
pub(super) struct Reports {
    /// No more than [`MAX_LISTED`].
    pub listed: Vec<SubscriberReport>,
    pub kind: ReportKind,
}

/// Which they are.
pub(super) enum ReportKind {
    /// Those of whom the largest share was refused, of all; with the sums over all of them.
    Ranked(Sums),
    /// The first ones whose names begin as was asked.
    Named,
    /// The first ones by name, since there are too many to rank.
    TooMany,
}

/// Over all subscribers.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub subscribers: usize,
    pub matched: u64,
    pub refused: u64,
    pub sustained: usize,
    pub dead: usize,
}

/// One subscriber and what happened to it.
pub(super) struct Chosen {
    pub stored: StoredSubscriber,
    pub report: SubscriberReport,
    pub decisions: Vec<LedgerRow>,
    pub messages: Vec<MessageMoment>,
    /// The last of each before the stretch.
    pub decision_before: Option<LedgerRow>,
    pub message_before: Option<MessageMoment>,
}

pub(super) async fn all(web: &Web, ask: &Ask) -> Result<Found, Refusal> {
    let watching = web.watching.borrow().clone();
    let name = watching.feed.clone();
    let feed = web.work.read(move |store| store.feed_state(&name)).await?;
    let counts = in_time(web.work.read(|store| store.status()).await)?;
    let reports = reports(web, ask).await?;
    let asked = ask.subscriber.clone().or_else(|| reports.listed.first().map(|report| report.name.clone()));
    let (from, to) = (ask.from, ask.to);
    let (chosen, quakes) = web
        .work
        .read(move |store| {
            let chosen = asked.and_then(|name| name.parse().ok()).map(|name| chosen(store, &name, from, to));
            let chosen = chosen.transpose()?.flatten();
            let quakes = store.quakes_between(from, to, chosen.as_ref().map(|chosen| chosen.stored.key), MAX_QUAKES)?;
            Ok((chosen, quakes))
        })
        .await?;
    let messages = web.work.read(|store| store.last_messages(MAX_MESSAGES)).await?;
    let watched = feed.freshness(watching.since, watching.stale_after, web.clock.now());
    Ok(Found { feed, counts, reports, chosen, quakes, messages, watched })
}

/// What took too long is missing; every other fault is one.
fn in_time<T>(read: Result<T, Refusal>) -> Result<Option<T>, Refusal> {
    match read {
        Err(Refusal::TooLong) => Ok(None),
        other => other.map(Some),
    }
}

async fn reports(web: &Web, ask: &Ask) -> Result<Reports, Refusal> {
    let (from, to, prefix) = (ask.from, ask.to, ask.prefix.clone());
    if !prefix.is_empty() {
        let listed = web.work.read(move |store| store.report_named(&prefix, MAX_LISTED, from, to)).await?;
        return Ok(Reports { listed, kind: ReportKind::Named });
    }
    let few = !web.work.read(|store| store.has_more_subscribers_than(MAX_RANKED)).await?;
    let all = if few { in_time(web.work.read(move |store| store.report(from, to)).await)? } else { None };
    let Some(mut all) = all else {
        let listed = web.work.read(move |store| store.report_named("", MAX_LISTED, from, to)).await?;
        return Ok(Reports { listed, kind: ReportKind::TooMany });
    };
    SubscriberReport::sort_by_share(&mut all);
    let sums = Sums {
        subscribers: all.len(),
        matched: all.iter().map(SubscriberReport::matched).sum(),
        refused: all.iter().map(|report| report.refused).sum(),
        sustained: all.iter().filter(|report| report.sustained_days().is_some()).count(),
        dead: all.iter().filter(|report| report.is_dead()).count(),
    };
    all.truncate(MAX_LISTED);
    Ok(Reports { listed: all, kind: ReportKind::Ranked(sums) })
}

/// `None` if there is nobody of this name.
fn chosen(store: &Store, name: &SubscriberName, from: Timestamp, to: Timestamp) -> Result<Option<Chosen>, StoreError> {
    let stored = match store.subscriber(name) {
        Err(StoreError::NoSubscriber(_)) => return Ok(None),
        found => found?,
    };
    // Of the names that begin so the whole name is the first.
    let Some(report) = store.report_named(name.as_str(), 1, from, to)?.pop() else { return Ok(None) };
    let key = stored.key;
    Ok(Some(Chosen {
        stored,
        report,
        decisions: store.ledger_between(key, from, to, MAX_DECISIONS)?,
        messages: store.messages_between(key, from, to, MAX_DECISIONS)?,
        decision_before: store.ledger_between(key, Timestamp::MIN, from, 1)?.pop(),
        message_before: store.messages_between(key, Timestamp::MIN, from, 1)?.pop(),
    }))
}
