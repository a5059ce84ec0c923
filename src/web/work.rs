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
const LONGEST_READ: Span = Span::from_seconds(5);
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
    longest: Span,
}

impl Work {
    /// With a store that only reads, see [`Store::open_reader`].
    #[must_use]
    pub fn new(reader: Store) -> Work {
        let interrupt = reader.interrupt();
        let turn = Arc::new(Semaphore::new(1));
        let reader = Reader { database: Database::new(reader), interrupt, turn, longest: LONGEST_READ };
        Work { computations: Arc::new(Semaphore::new(AT_ONCE)), reader }
    }

    /// The same, whose questions may keep the reader for so long, where the machine is slow.
    #[must_use]
    pub fn patient(mut self, longest: Span) -> Work {
        self.reader.longest = longest;
        self
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
        let Reader { database, interrupt, turn, longest } = &self.reader;
        let (database, interrupt, longest) = (database.clone(), interrupt.clone(), *longest);
        let turn = Arc::clone(turn).acquire_owned();
        let permit = timeout(PATIENCE.to_std(), turn).await.map_err(|_| Refusal::Busy)?.map_err(|_| Refusal::Busy)?;
        // A task of its own: it is broken off in time also when the connection is gone that it was for.
        let read = tokio::spawn(async move {
            let mut reading = std::pin::pin!(database.with(work));
            let mut span = longest;
            let mut broken_off = false;
            // It has ended when it says so: the next question's turn must not be broken off.
            let read = loop {
                if let Ok(read) = timeout(span.to_std(), reading.as_mut()).await {
                    break read;
                }
                // Again and again, since it may be between two statements.
                interrupt.now();
                (span, broken_off) = (AGAIN, true);
            };
            drop(permit);
            read.map_err(|fault| if broken_off { Refusal::TooLong } else { fault.into() })
        });
        read.await.unwrap_or_else(|fault| std::panic::resume_unwind(fault.into_panic()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_takes_too_long_is_broken_off_and_the_next_question_is_answered() {
        let mut work = Work::new(Store::in_memory().expect("a store"));
        work.reader.longest = Span::from_millis(1);
        let endless = |store: &mut Store| -> Result<(), StoreError> {
            loop {
                store.status()?;
            }
        };
        assert!(matches!(work.read(endless).await, Err(Refusal::TooLong)));
        // Also where nobody waits for it any more.
        let gone = timeout(Span::from_millis(1).to_std(), work.read(endless)).await;
        assert!(!matches!(gone, Ok(Ok(()))));
        work.reader.longest = LONGEST_READ;
        assert_eq!(work.read(|store| store.status()).await.expect("counts").events, 0);
        assert_eq!(work.compute(|| 6 * 7).await.expect("room"), 42);
    }

    #[tokio::test]
    async fn a_fault_is_a_fault_and_not_a_lack_of_time() {
        let work = Work::new(Store::in_memory().expect("a store"));
        let name = "anna".parse().expect("a name");
        let refused = work.read(move |store| store.subscriber(&name)).await;
        assert!(matches!(refused, Err(Refusal::Store(StoreError::NoSubscriber(_)))));
    }
}
