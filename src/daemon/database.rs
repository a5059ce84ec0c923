//! The store for the asynchronous host: one connection, used on the threads that may block.

use std::sync::{Arc, Mutex, PoisonError};

use crate::store::{Store, StoreError};

/// A handle on the daemon's one connection.
#[derive(Clone)]
pub struct Database(Arc<Mutex<Store>>);

impl Database {
    /// Shares a store.
    #[must_use]
    pub fn new(store: Store) -> Database {
        Database(Arc::new(Mutex::new(store)))
    }

    /// Runs `work` on the store, off the asynchronous threads.
    ///
    /// # Errors
    /// Whatever `work` answers.
    ///
    /// # Panics
    /// If `work` does.
    pub async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || {
            // A panic in between rolled its transaction back, so the store is as it was before.
            let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut store)
        });
        match done.await {
            Ok(result) => result,
            Err(fault) => std::panic::resume_unwind(fault.into_panic()),
        }
    }
}
