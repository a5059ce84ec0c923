//! Dispatch: from the rows of events to decisions and the outbox.

use std::sync::Arc;

use super::Database;
use crate::clock::Clock;
use crate::event::Event;
use crate::plan::{self, Release, UpdatePlan};
use crate::store::{Candidate, Chunk, Listener, Store, StoreError, UpdateChunk};
use crate::time::Timestamp;

/// What one step of dispatch did.
#[derive(Debug)]
pub enum Dispatched {
    /// Gave up waiting for an event's confirmation: subscribers are asked now.
    Unconfirmed { event: Box<Event> },
    /// Decided an event for one chunk of subscribers.
    Decided { event: Arc<Event>, chunk: Chunk },
    /// Asked some subscribers' limiters again on behalf of what was withheld: their names with what came of it.
    Asked { asked: Vec<(String, Release)> },
    /// Told an event's newest version to one chunk of those who had been told of it.
    Updated { event: Box<Event>, chunk: UpdateChunk },
    /// Asked some subscribers' limiters again on behalf of updates that wait: their names with what was decided, if anything was.
    UpdatesAsked { asked: Vec<(String, Option<UpdatePlan>)> },
}

/// One step: an event whose time to be confirmed ran out, or else the largest undecided event for its next chunk of subscribers, or
/// else some subscribers of whom something is withheld and whose limiters may allow a message now, or else, since what is new comes
/// before what has changed, an update.
/// `None` when nothing is left to do at `now`.
///
/// # Errors
/// [`StoreError`] if the database cannot be read or written; nothing was decided then.
pub fn step(store: &mut Store, now: Timestamp) -> Result<Option<Dispatched>, StoreError> {
    if let Some(event) = store.give_up_confirmation(now)? {
        return Ok(Some(Dispatched::Unconfirmed { event: Box::new(event) }));
    }
    if let Some(task) = store.next_dispatch()? {
        let chunk = store.decide_chunk(&task, now, |candidate, event| {
            plan::decide(candidate.subscriber, candidate.limiter, event, task.unconfirmed, candidate.now)
        })?;
        return Ok(Some(Dispatched::Decided { event: task.event, chunk }));
    }
    let asked =
        store.release(now, |candidate, held| plan::release(candidate.subscriber, candidate.limiter, held, candidate.now))?;
    if asked.is_empty() { update(store, now) } else { Ok(Some(Dispatched::Asked { asked })) }
}

/// One step of telling what has changed: the largest updated event for its next chunk of those who were told of it, or else
/// some subscribers for whom updates wait.
fn update(store: &mut Store, now: Timestamp) -> Result<Option<Dispatched>, StoreError> {
    let decide = |Listener { candidate: Candidate { subscriber, limiter, now }, told, event, changes }: Listener<'_>| {
        if event.is_withdrawn() {
            plan::withdrawal(subscriber, limiter, told, event, now)
        } else {
            plan::update(subscriber, limiter, told, event, &changes, now)
        }
    };
    if let Some(task) = store.next_update()? {
        let chunk = store.update_chunk(&task, now, decide)?;
        return Ok(Some(Dispatched::Updated { event: Box::new(task.event), chunk }));
    }
    let asked = store.release_updates(now, decide)?;
    Ok((!asked.is_empty()).then_some(Dispatched::UpdatesAsked { asked }))
}

/// Steps until nothing is left to do, telling `observe` of each, with the database free for others in between.
///
/// # Errors
/// [`StoreError`] if the database cannot be read or written; what was decided before stands.
pub async fn all<C: Clock + ?Sized + 'static>(
    database: &Database,
    clock: &Arc<C>,
    mut observe: impl FnMut(&Dispatched),
) -> Result<(), StoreError> {
    loop {
        let clock = Arc::clone(clock);
        // The time is that at which it gets the database, not that at which it asked for it.
        match database.with(move |store| step(store, clock.now())).await? {
            Some(dispatched) => observe(&dispatched),
            None => return Ok(()),
        }
    }
}
