//! Attempts under way when the daemon stops, and when its settings change: none is lost, and none is made twice that ended.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use throttler::clock::{Clock, ManualClock};
use throttler::daemon::{Deliverer, Egress, Sending};
use throttler::delivery::{Delivery, EmailChannel, UnsubscribeKey, UnsubscribeLinks, WebhookSender, WebhookSettings};
use throttler::store::{Claim, Settlement};
use throttler::subscriber::Destination;
use throttler::time::Span;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::rig::{Quake, Rig, subscriber};

/// A receiver that answers when it is let.
struct Gate {
    port: u16,
    open: watch::Sender<bool>,
    came: watch::Receiver<usize>,
    /// The ids of requests, and whether they say where to leave.
    requests: Arc<Mutex<Vec<(String, bool)>>>,
}

impl Gate {
    async fn start() -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (open, is_open) = watch::channel(false);
        let (comes, came) = watch::channel(0);
        let requests: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
        let kept = Arc::clone(&requests);
        let app = Router::new().fallback(move |headers: HeaderMap, body: String| {
            let (mut is_open, comes, kept) = (is_open.clone(), comes.clone(), Arc::clone(&kept));
            async move {
                let id = headers["webhook-id"].to_str().expect("an id").to_owned();
                kept.lock().expect("lock").push((id, body.contains("https://alerts.example.org/unsubscribe/")));
                comes.send_modify(|came| *came += 1);
                is_open.wait_for(|open| *open).await.expect("somebody opens");
                StatusCode::NO_CONTENT
            }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        Gate { port, open, came, requests }
    }

    async fn wait_for(&self, requests: usize) {
        self.came.clone().wait_for(|came| *came >= requests).await.expect("it listens");
    }

    fn requests(&self) -> Vec<(String, bool)> {
        self.requests.lock().expect("lock").clone()
    }
}

/// Three subscribers who get webhooks at the gate, with an event decided for them.
async fn decided(gate: &Gate) -> Rig {
    let url = format!("http://127.0.0.1:{}/hook", gate.port);
    let of = |who| subscriber(who, Destination::Webhook(url.parse().expect("a URL")));
    let mut rig = Rig::with(&[]).await;
    rig.add(&["anna", "ben", "clara"].map(of));
    rig.show(&[Quake::new(&rig, "us1", 6.0, 60)]);
    rig.poll().await;
    rig.dispatch().await;
    rig
}

#[tokio::test]
async fn what_is_under_way_at_the_end_of_a_stop_is_handed_back_and_repeated_at_once_under_its_id() {
    let gate = Gate::start().await;
    let mut rig = decided(&gate).await;
    rig.parts().deliverer.turn().await.expect("claimed");
    gate.wait_for(3).await;
    assert_eq!(rig.parts().deliverer.finish(Span::from_millis(1)).await.expect("handed back"), 3);
    let back = "SELECT count(*) FROM outbox WHERE status = 'due' AND lease_owner IS NULL AND lease_until IS NULL
                AND attempts = 1 AND due_at <= created_at AND detail LIKE 'cut off by a stop%may arrive twice'";
    assert_eq!(rig.number(back), 3);

    // Whoever comes next need not know that anything was leased: nothing waits for the end of a lease.
    gate.open.send(true).expect("it listens");
    let (database, delivery) = (rig.parts().database.clone(), Arc::clone(&rig.delivery));
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&rig.clock);
    rig.parts().deliverer = Deliverer::new(database, delivery, clock);
    rig.deliver().await;
    let requests = gate.requests();
    let (mut first, mut second) = (requests[..3].to_vec(), requests[3..].to_vec());
    first.sort();
    second.sort();
    assert_eq!(first, second, "each a second time, by its id");
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'delivered' AND attempts = 2"), 3);
    rig.check_books();
}

#[tokio::test]
async fn what_ends_in_time_is_recorded_and_what_another_owner_holds_is_left_to_it() {
    let gate = Gate::start().await;
    let mut rig = decided(&gate).await;
    let claim = Claim { owner: "another", most: 1, lease: Span::from_seconds(300), now: rig.clock.now() };
    let theirs = rig.store().claim(claim, |_| 1).expect("claimed");
    rig.parts().deliverer.turn().await.expect("claimed");
    gate.wait_for(2).await;
    gate.open.send(true).expect("it listens");
    assert_eq!(rig.parts().deliverer.finish(Span::from_seconds(60)).await.expect("nothing to hand back"), 0);
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'delivered'"), 2);
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'leased' AND lease_owner = 'another'"), 1);
    let settled = [(theirs[0].delivery_key, Settlement::Delivered { detail: "theirs".into() })];
    rig.store().settle("another", &settled, rig.clock.now()).expect("settled");
    rig.check_books();
}

#[tokio::test]
async fn attempts_under_way_end_as_they_began_when_the_settings_change() {
    let gate = Gate::start().await;
    let mut rig = decided(&gate).await;
    rig.parts().deliverer.turn().await.expect("claimed");
    gate.wait_for(3).await;
    let links = UnsubscribeLinks {
        base: "https://alerts.example.org".parse().expect("a place"),
        key: UnsubscribeKey::open(&rig.path("key")).expect("a key"),
    };
    let webhook = WebhookSettings { allow_private: true, ..WebhookSettings::default() };
    let webhook = WebhookSender::new(webhook).expect("an HTTP client");
    let delivery = Arc::new(Delivery { email: EmailChannel::Log, webhook, links: Some(links) });
    rig.parts().deliverer.take_over(Sending { delivery, egress: Egress::default() });
    assert_eq!(rig.parts().deliverer.under_way(), 3);
    gate.open.send(true).expect("it listens");
    rig.deliver().await;
    rig.see(&[Quake::new(&rig, "us2", 6.5, 60), Quake::new(&rig, "us1", 6.0, 60)]).await;
    let with_link: Vec<bool> = gate.requests().iter().map(|(_, link)| *link).collect();
    assert_eq!(with_link, [false, false, false, true, true, true], "three as they began, three under the new settings");
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'delivered' AND attempts = 1"), 6);
    rig.check_books();
}
