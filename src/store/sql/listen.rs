//! Hearing what other sessions say, on a connection of its own.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls};

use super::postgres::{CHANNEL, runtime};
use crate::store::server::ServerUrl;

/// The pause before a lost connection is opened anew.
const PAUSE: Duration = Duration::from_secs(5);

/// Hears until it is dropped.
pub(in crate::store) struct Ear(JoinHandle<()>);

impl Ear {
    /// Calls `heard` with each word that is said in this schema.
    pub fn open(url: Arc<ServerUrl>, heard: impl Fn(&str) + Send + Sync + 'static) -> Ear {
        Ear(runtime().spawn(async move {
            loop {
                // Whoever works with the database tells of its faults; here nothing is lost but time.
                let _ = hear(&url, &heard).await;
                tokio::time::sleep(PAUSE).await;
            }
        }))
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn hear(url: &ServerUrl, heard: &(impl Fn(&str) + Sync)) -> Result<(), tokio_postgres::Error> {
    if let Some(tls) = url.tls().ok().flatten() {
        let (client, connection) = url.config().connect(tls).await?;
        follow(client, connection, heard).await
    } else {
        let (client, connection) = url.config().connect(NoTls).await?;
        follow(client, connection, heard).await
    }
}

async fn follow<S, T>(
    client: Client,
    mut connection: Connection<S, T>,
    heard: &(impl Fn(&str) + Sync),
) -> Result<(), tokio_postgres::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut asked = std::pin::pin!(async {
        let schema: Option<String> = client.query_one("SELECT current_schema()::text", &[]).await?.get(0);
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        Ok::<_, tokio_postgres::Error>(schema.unwrap_or_default())
    });
    let mut schema: Option<String> = None;
    loop {
        let message = poll_fn(|context| {
            if schema.is_none()
                && let std::task::Poll::Ready(told) = asked.as_mut().poll(context)
            {
                schema = Some(told?);
            }
            connection.poll_message(context)
        });
        match message.await {
            Some(Ok(AsyncMessage::Notification(told))) => {
                // All schemas of a database hear each other.
                if let (Some(schema), Some((of, word))) = (&schema, told.payload().rsplit_once(' '))
                    && of == schema
                {
                    heard(word);
                }
            }
            Some(Ok(_)) => {}
            Some(Err(fault)) => return Err(fault),
            None => return Ok(()),
        }
    }
}
