//! The listener on a free port, around the parts of a daemon, and requests as bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use throttler::clock::{Clock, ManualClock};
use throttler::daemon::{Metrics, StopSignal, Watching};
use throttler::delivery::UnsubscribeKey;
use throttler::store::Store;
use throttler::time::Span;
use throttler::web::{Access, History, Limits, Server, Web, Work};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::rig::{Rig, name};

/// The body of a one-click request.
pub const ONE_CLICK: &str = "List-Unsubscribe=One-Click";
/// The feed that health asks for.
pub const FEED: &str = "file:///feed.geojson";

pub struct Site {
    pub address: SocketAddr,
    pub key: UnsubscribeKey,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.split_once(": ").filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|pair| pair.1))
    }
}

impl Site {
    pub async fn start(rig: &mut Rig) -> Site {
        Site::with_limits(rig, Limits::default()).await
    }

    pub async fn with_limits(rig: &mut Rig, limits: Limits) -> Site {
        let local = Access::new("127.0.0.1:80".parse().expect("an address"), None);
        Site::with(rig, limits, local).await
    }

    pub async fn with(rig: &mut Rig, limits: Limits, access: Access) -> Site {
        Site::on(rig, limits, access, History::of_the_daemon()).await
    }

    /// With past events of its own.
    pub async fn with_history(rig: &mut Rig, history: History) -> Site {
        let local = Access::new("127.0.0.1:80".parse().expect("an address"), None);
        Site::on(rig, Limits::default(), local, history).await
    }

    async fn on(rig: &mut Rig, limits: Limits, access: Access, history: History) -> Site {
        let key = UnsubscribeKey::open(&rig.path("key")).expect("a key");
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&rig.clock);
        let watching = Watching { feed: FEED.to_owned(), since: clock.now(), stale_after: Span::from_seconds(1_800) };
        let (watching, metrics) = (watch::channel(watching).1, Arc::new(Metrics::new()));
        // What takes an optimized program a moment takes this one seconds, beside other tests.
        let work = Work::new(Store::open_reader(&rig.path("throttler.db")).expect("the database opens"));
        let work = work.patient(Span::from_seconds(60));
        let (database, key_of_site) = (rig.parts().database.clone(), key.clone());
        let web = Web { database, clock, key: key_of_site, watching, metrics, access, work, history };
        let server = Server::bind("127.0.0.1:0".parse().expect("an address"), limits).await.expect("a free port");
        let address = server.address().expect("its address");
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(server.serve(web.routes(), StopSignal::from_channel(stopped)));
        Site { address, key, stop, serving }
    }

    /// The path of a subscriber's page.
    pub fn path(&self, rig: &Rig, who: &str) -> String {
        let stored = rig.store().subscriber(&name(who)).expect(who);
        format!("/unsubscribe/{}", self.key.token(stored.enrolment()))
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.raw(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await
    }

    pub async fn post(&self, path: &str, content_type: &str, body: &str) -> Answer {
        let length = body.len();
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    /// The request that a mail program makes.
    pub async fn one_click(&self, path: &str) -> Answer {
        self.post(path, "application/x-www-form-urlencoded", ONE_CLICK).await
    }

    pub async fn raw(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Stops in order.
    pub async fn stop(self) {
        self.stop.send(true).expect("it listens for it");
        self.serving.await.expect("it ends");
    }
}
