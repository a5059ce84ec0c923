//! What a page needs that takes a while: computed and read on threads that may block, few at once, none for ever.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::shell::Refusal;
use crate::daemon::Database;
use crate::store::{Interrupt, Store, StoreError};
use crate::time::Span;

/// Computations at once; the daemon and its deliveries need the rest of the machine.
const AT_ONCE: usize = 2;
/// How long a question waits for its turn.
const PATIENCE: Span = Span::from_seconds(5);
/// The longest that a question may keep the database's reader.
const LONGEST_READ: Span = Span::from_seconds(8);
/// How often one that does not end is broken off again.
const AGAIN: Span = Span::from_millis(50);

/// The places for computations, and a connection of its own to read by, so that no question holds up the daemon.
pub struct Work {
    computations: Arc<Semaphore>,
    reader: Reader,
}

struct Reader {
    database: Database,
    interrupt: Interrupt,
    turn: Arc<Semaphore>,
}

impl Work {
    /// With a store that only reads, see [`Store::open_reader`].
    #[must_use]
    pub fn new(reader: Store) -> Work {
        let interrupt = reader.interrupt();
        let reader = Reader { database: Database::new(reader), interrupt, turn: Arc::new(Semaphore::new(1)) };
        Work { computations: Arc::new(Semaphore::new(AT_ONCE)), reader }
    }

    /// Computes off the asynchronous threads, when there is room.
    pub(super) async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
        let room = Arc::clone(&self.computations).acquire_owned();
        let permit = timeout(PATIENCE.to_std(), room).await.map_err(|_| Refusal::Busy)?.map_err(|_| Refusal::Busy)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            // Only now is there room again, also where nobody waits for the result any more.
            drop(permit);
            done
        });
        done.await.map_err(|fault| std::panic::resume_unwind(fault.into_panic()))
    }

    /// Reads from the database, one question after another; what takes too long is broken off.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let Reader { database, interrupt, turn } = &self.reader;
        let (database, interrupt) = (database.clone(), interrupt.clone());
        let turn = Arc::clone(turn).acquire_owned();
        let permit = timeout(PATIENCE.to_std(), turn).await.map_err(|_| Refusal::Busy)?.map_err(|_| Refusal::Busy)?;
        // A task of its own: it is broken off in time also when the connection is gone that it was for.
        let read = tokio::spawn(async move {
            let mut reading = std::pin::pin!(database.with(work));
            let mut span = LONGEST_READ;
            let mut broken_off = false;
            // It has ended when it says so: the next question's turn must not be broken off.
            let read = loop {
                match timeout(span.to_std(), reading.as_mut()).await {
                    Ok(read) => break read,
                    // Again and again, since it may be between two statements.
                    Err(_) => {
                        interrupt.now();
                        (span, broken_off) = (AGAIN, true);
                    }
                }
            };
            drop(permit);
            read.map_err(|fault| if broken_off { Refusal::TooLong } else { fault.into() })
        });
        read.await.unwrap_or_else(|fault| std::panic::resume_unwind(fault.into_panic()))
    }
}
