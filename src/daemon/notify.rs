//! Notify: from the rows of the other stages to what has changed, and to messages for the operator. It reads what is there, so
//! that nothing is lost by a crash, and compares with what was noticed, so that nothing is told twice.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Database, Operator, Watching};
use crate::clock::Clock;
use crate::notice::{Notice, Topic};
use crate::store::{Judging, Store, StoreError};
use crate::time::Timestamp;

/// Notices what the operator wants to hear of, and makes messages of it.
pub struct Notifier {
    pub database: Database,
    pub clock: Arc<dyn Clock>,
    pub operator: Arc<Operator>,
    /// What is watched of the feed, as the configuration has it now.
    pub watching: watch::Receiver<Watching>,
}

/// What one step of noticing did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// The feed went stale, or recovered.
    Feed,
    /// Looked at dead letters, some of which made a destination dead.
    Dead { letters: usize, destinations: usize },
    /// Looked whether dead destinations take messages again, as so many do.
    Recovered { destinations: usize },
    /// Judged the withholding of some subscribers.
    Judged { began: usize, ended: usize },
    /// Made a message for each way.
    Made(Notice),
}

/// One step: what has changed first, then the message that tells it. `None` when nothing is left to do at `now`.
///
/// # Errors
/// [`StoreError`] if the database cannot be read or written; nothing was noticed then.
pub fn step(store: &mut Store, operator: &Operator, watched: &Watching, now: Timestamp) -> Result<Option<Noticed>, StoreError> {
    let wants = |topic| operator.topics.contains(&topic);
    if wants(Topic::StaleFeed) {
        let found = store.feed_state(&watched.feed)?.freshness(watched.since, watched.stale_after, now);
        if store.notice_feed(found, now)? {
            return Ok(Some(Noticed::Feed));
        }
    }
    if wants(Topic::DeadDestination) {
        let (letters, destinations) = store.notice_dead(now)?;
        if letters > 0 {
            return Ok(Some(Noticed::Dead { letters, destinations }));
        }
        if let Some(destinations) = store.notice_recovered(now)? {
            return Ok(Some(Noticed::Recovered { destinations }));
        }
    }
    if wants(Topic::SustainedWithholding)
        && let Judging::Going { began, ended } = store.judge_withholding(now)?
    {
        return Ok(Some(Noticed::Judged { began, ended }));
    }
    Ok(store.make_notice(&operator.ways(), operator.limit, now)?.map(Noticed::Made))
}

impl Notifier {
    /// Steps until nothing is left to do, with the database free for others in between: whether a message was made.
    ///
    /// # Errors
    /// As [`step`].
    pub async fn all(&self) -> Result<bool, StoreError> {
        let mut made = false;
        loop {
            let (operator, watched, now) = (Arc::clone(&self.operator), self.watching.borrow().clone(), self.clock.now());
            match self.database.with(move |store| step(store, &operator, &watched, now)).await? {
                Some(Noticed::Made(notice)) => {
                    tracing::info!("the operator is told: {}", notice.title());
                    made = true;
                }
                Some(_) => {}
                None => return Ok(made),
            }
        }
    }
}
