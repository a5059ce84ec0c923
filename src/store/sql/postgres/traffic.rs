//! The thread of all sessions' traffic, and waiting for what it brings on a thread that knows nothing of it.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tokio_postgres::{Client, NoTls};

use super::{Fault, Result};
use crate::store::server::ServerUrl;

/// A session, and the task of its traffic.
pub fn connect(url: &ServerUrl) -> Result<(Client, AbortHandle)> {
    let (tls, config) = (url.tls().map_err(Fault::Roots)?, url.config().clone());
    // Looking for the server's name and connecting take tasks of the thread's own.
    let patience = url.patience();
    let connecting = runtime().spawn(within(patience, async move {
        Ok(if let Some(tls) = tls {
            let (client, connection) = config.connect(tls).await?;
            // Whoever asks next learns that it is closed.
            (client, tokio::spawn(async move { drop(connection.await) }).abort_handle())
        } else {
            let (client, connection) = config.connect(NoTls).await?;
            (client, tokio::spawn(async move { drop(connection.await) }).abort_handle())
        })
    }));
    match wait(connecting) {
        Ok(Err(Fault::Server(fault))) if has_timed_out(&fault) => Err(Fault::Silent(patience)),
        Ok(connected) => connected,
        Err(fault) => std::panic::resume_unwind(fault.into_panic()),
    }
}

/// Whether a host was not there in time, as the library says it.
fn has_timed_out(fault: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(fault).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == std::io::ErrorKind::TimedOut)
}

/// Whether a server that is busy with something lets anybody else in, or refuses to in words of its own.
pub fn lives(url: &ServerUrl) -> bool {
    match connect(url) {
        Ok(_) => true,
        Err(Fault::Server(fault)) => fault.as_db_error().is_some(),
        Err(_) => false,
    }
}

/// The library waits for a connection only, and not for what is said on it.
pub async fn within<T>(
    patience: Duration,
    opening: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
) -> Result<T> {
    Ok(tokio::time::timeout(patience, opening).await.map_err(|_| Fault::Silent(patience))??)
}

/// The thread of all sessions' traffic.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        // A process that cannot have one more thread cannot do anything else either.
        builder
            .worker_threads(1)
            .thread_name("postgres")
            .enable_all()
            .build()
            .expect("a thread for the traffic with the database")
    })
}

/// Runs a future that others drive, on this thread, as long as this.
pub fn answer<T>(patience: Duration, asked: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>) -> Result<T> {
    // The timer is that of the thread of the traffic.
    let _its_timers = runtime().enter();
    wait(within(patience, asked))
}

/// Runs a future that others drive, on this thread, which sleeps meanwhile.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Sleeper(Thread);

    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Sleeper(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}
