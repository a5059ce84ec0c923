//! Ending the statement that a session runs, from another thread.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_postgres::{CancelToken, Client, NoTls};

use super::traffic::{runtime, within};
use crate::store::server::ServerUrl;

/// Ends a session's statement from outside.
#[derive(Clone)]
pub(in crate::store) struct Cancel {
    /// Of the session as it was opened last.
    token: Arc<Mutex<CancelToken>>,
    url: Arc<ServerUrl>,
}

impl Cancel {
    pub fn of(client: &Client, url: Arc<ServerUrl>) -> Cancel {
        Cancel { token: Arc::new(Mutex::new(client.cancel_token())), url }
    }

    /// From now on it ends statements of this session.
    pub fn is_for(&self, client: &Client) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = client.cancel_token();
    }

    /// Asks for it, and does not wait for it.
    pub fn now(&self) {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (tls, patience) = (self.url.tls(), self.url.patience());
        runtime().spawn(async move {
            // The statement may be over, or its server gone.
            let _ = match tls {
                Ok(Some(tls)) => within(patience, token.cancel_query(tls)).await,
                _ => within(patience, token.cancel_query(NoTls)).await,
            };
        });
    }
}
