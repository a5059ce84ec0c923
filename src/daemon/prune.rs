//! Prune: what was decided long ago leaves the ledger, in small steps beside the other stages.

use tokio::time::sleep;

use super::Database;
use super::service::{StopSignal, StoreTrouble};
use crate::clock::Clock;
use crate::store::{PruneCursor, Pruned, StoreError};
use crate::time::{Span, Timestamp};

/// Time between two sweeps through the ledger.
pub const PRUNE_EVERY: Span = Span::from_seconds(3_600);
/// The pause after each step, in which the other stages have the database to themselves.
const PAUSE: Span = Span::from_millis(10);

/// Goes through the ledger and the notices once and deletes what was decided, told and settled longer ago than `keep`: how much that
/// was.
///
/// # Errors
/// [`StoreError`] if the database cannot be read or written; what was deleted before stays deleted.
pub async fn sweep(database: &Database, keep: Span, now: Timestamp) -> Result<Pruned, StoreError> {
    let before = database.with(move |store| store.prunable_before(keep, now)).await?;
    let (mut total, mut next) = (Pruned::default(), Some(PruneCursor::default()));
    while let Some(from) = next {
        let pruned = database.with(move |store| store.prune(before, from)).await?;
        total = total.and(pruned);
        next = pruned.next;
        sleep(PAUSE.to_std()).await;
    }
    let mut next = Some(0);
    while let Some(from) = next {
        let (pruned, after) = database.with(move |store| store.prune_notices(before, from)).await?;
        (total, next) = (total.and(pruned), after);
        sleep(PAUSE.to_std()).await;
    }
    Ok(total)
}

/// Sweeps at the start and from time to time until it is time to stop; never if the ledger is kept for ever.
pub(super) async fn keep_pruning(database: &Database, clock: &dyn Clock, keep: Option<Span>, mut stop: StopSignal) {
    let Some(keep) = keep else { return };
    let mut trouble = StoreTrouble::new("pruned");
    loop {
        // A step under way at a stop ends by itself: it is one transaction on a thread of its own.
        let swept = tokio::select! {
            swept = sweep(database, keep, clock.now()) => swept,
            () = stop.stopped() => return,
        };
        match swept {
            Ok(Pruned { decisions: 0, updates: 0, changes: 0, notices: 0, .. }) => trouble.is_over(),
            Ok(Pruned { decisions, updates, messages, revisions, changes, notices, .. }) => {
                trouble.is_over();
                tracing::info!(
                    decisions,
                    updates,
                    messages,
                    revisions,
                    changes,
                    notices,
                    "pruned from the ledger, which is kept for {keep}"
                );
            }
            Err(fault) => trouble.is(&fault),
        }
        if !stop.sleep(PRUNE_EVERY).await {
            return;
        }
    }
}
