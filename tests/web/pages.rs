//! Unsubscribing: who asks is asked back, who posts is gone at once, and nobody else notices.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use throttler::clock::Clock;
use throttler::delivery::{
    Delivery, EmailChannel, EmailSender, EmailSettings, MailTransport, UnsubscribeKey, UnsubscribeLinks, WebhookSender,
    WebhookSettings,
};
use throttler::plan::Outcome;
use throttler::store::{Claim, Settlement, StoreError};
use throttler::subscriber::{Enrolment, Standing};
use throttler::time::{Span, Timestamp};

use crate::rig::{Quake, Rig, name};
use crate::site::{ONE_CLICK, Site};

/// A daemon that has polled its empty feed, with a webhook subscriber of each of these names.
async fn rig(names: &[&str]) -> Rig {
    let mut rig = Rig::fresh().await;
    let subscribers: Vec<_> = names.iter().map(|who| rig.hooked(who)).collect();
    rig.add(&subscribers);
    rig.see(&[]).await;
    rig
}

fn standing(rig: &Rig, who: &str) -> (Standing, Option<String>) {
    let stored = rig.store().subscriber(&name(who)).expect(who);
    (stored.standing, stored.standing_reason)
}

#[tokio::test]
async fn the_page_asks_and_a_click_does_it_once() {
    let mut rig = rig(&["anna", "ben"]).await;
    let site = Site::start(&mut rig).await;
    let path = site.path(&rig, "anna");

    // Whatever looks at a link for its reader changes nothing.
    let page = site.get(&path).await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<form method=\"post\">") && page.body.contains("<b>anna</b>"), "{}", page.body);
    let head = site.raw(&format!("HEAD {path} HTTP/1.1\r\nHost: test\r\n\r\n")).await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(standing(&rig, "anna"), (Standing::Active, None));

    for (header, value) in [
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("content-type", "text/html; charset=utf-8"),
    ] {
        assert_eq!(page.header(header), Some(value), "{}", page.head);
    }
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");

    let done = site.one_click(&path).await;
    assert_eq!(done.status, 200);
    assert!(done.body.contains("<h1>Unsubscribed</h1>"), "{}", done.body);
    let left_at = rig.clock.now();
    let reason = Some(format!("unsubscribed by its recipient at {left_at}"));
    assert_eq!(standing(&rig, "anna"), (Standing::Disabled, reason.clone()));

    // A second time, later, changes nothing; the page says since when.
    rig.pass(3_600);
    assert_eq!(site.one_click(&path).await.body, done.body);
    assert_eq!(standing(&rig, "anna"), (Standing::Disabled, reason));
    assert_eq!(site.get(&path).await.body, done.body);
    assert_eq!(standing(&rig, "ben"), (Standing::Active, None));
    site.stop().await;
}

#[tokio::test]
async fn both_encodings_do_and_nothing_else_does() {
    let mut rig = rig(&["anna"]).await;
    let site = Site::start(&mut rig).await;
    let path = site.path(&rig, "anna");
    for (content_type, body) in
        [("application/x-www-form-urlencoded", ""), ("application/x-www-form-urlencoded", "x=y"), ("text/plain", ONE_CLICK)]
    {
        assert_eq!(site.post(&path, content_type, body).await.status, 400, "{content_type}: {body}");
    }
    assert_eq!(site.raw(&format!("PUT {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n")).await.status, 405);
    assert_eq!(standing(&rig, "anna").0, Standing::Active);
    let parts = "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--\r\n";
    assert_eq!(site.post(&path, "multipart/form-data; boundary=b", parts).await.status, 200);
    assert_eq!(standing(&rig, "anna").0, Standing::Disabled);
}

#[tokio::test]
async fn no_other_link_tells_or_does_anything() {
    let mut rig = rig(&["anna", "gone"]).await;
    let site = Site::start(&mut rig).await;
    let (path, gone) = (site.path(&rig, "anna"), site.path(&rig, "gone"));
    rig.store().remove_subscriber(&name("gone"), rig.clock.now()).expect("removed");
    let stored = rig.store().subscriber(&name("anna")).expect("anna").enrolment();
    let elsewhere = UnsubscribeKey::open(&rig.path("other-key")).expect("another key");
    let links = [
        "/unsubscribe/".to_owned() + &elsewhere.token(stored),
        "/unsubscribe/".to_owned() + &site.key.token(Enrolment { number: 999, at: stored.at }),
        // The subscriber of this number in another course of a restored database.
        "/unsubscribe/".to_owned() + &site.key.token(Enrolment { at: stored.at.plus(Span::from_millis(1)), ..stored }),
        gone,
        "/unsubscribe/anna".to_owned(),
        format!("{path}A"),
        path[..path.len() - 1].to_owned(),
    ];
    for link in &links {
        let (get, post) = (site.get(link).await, site.one_click(link).await);
        assert_eq!((get.status, post.status), (404, 404), "{link}");
        assert_eq!(get.body, post.body);
        assert!(get.body.contains("This link is not valid"), "{}", get.body);
    }
    assert_eq!(site.get("/nothing").await.status, 404);
    assert_eq!(standing(&rig, "anna").0, Standing::Active);
}

#[tokio::test]
async fn nothing_comes_after_unsubscribing_and_the_books_are_right() {
    let mut rig = rig(&["anna", "ben"]).await;
    let site = Site::start(&mut rig).await;
    let quake = Quake::new(&rig, "first", 6.0, 60);
    rig.show(std::slice::from_ref(&quake));
    rig.poll().await;
    rig.dispatch().await;
    assert_eq!(site.one_click(&site.path(&rig, "anna")).await.status, 200);
    rig.deliver().await;
    // What was decided before stands in the ledger, what became of the message with it.
    assert_eq!(rig.receiver.requests().iter().map(|request| request.path.as_str()).collect::<Vec<_>>(), ["/ben"]);
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'dropped' AND detail = 'its recipient unsubscribed'"), 1);
    // In the running daemon, from the next event on, nothing is decided.
    let second = Quake::new(&rig, "second", 7.0, 60);
    rig.see(&[quake, second]).await;
    let alerted = |who: &str| rig.ledger().iter().filter(|row| row.subscriber == who && row.outcome == Outcome::Alerted).count();
    assert_eq!((alerted("anna"), alerted("ben")), (1, 2));
    assert_eq!(rig.receiver.requests().len(), 2);
}

#[tokio::test]
async fn what_is_under_way_is_recorded_as_it_ends_and_not_repeated() {
    for (settlement, expected) in [
        (Settlement::Retry { at: Timestamp::saturating_from_ticks(0), reason: "busy".into(), age_from: None }, "dropped"),
        (Settlement::Delivered { detail: "taken".into() }, "delivered"),
    ] {
        let mut rig = rig(&["anna"]).await;
        let quake = Quake::new(&rig, "first", 6.0, 60);
        rig.show(&[quake]);
        rig.poll().await;
        rig.dispatch().await;
        let (mut store, now) = (rig.store(), rig.clock.now());
        let claim = Claim { owner: "me", most: 9, lease: Span::from_seconds(60), now };
        let claimed = store.claim(claim, |_| 9).expect("claimed");
        let who = claimed[0].enrolment;
        assert!(!store.is_unsubscribed(who).expect("read"));
        assert!(store.unsubscribe(who, now).expect("unsubscribed").expect("there").now);
        assert!(store.is_unsubscribed(who).expect("read"));
        store.settle("me", &[(claimed[0].delivery_key, settlement)], now).expect("settled");
        assert_eq!(rig.number(&format!("SELECT count(*) FROM outbox WHERE status = '{expected}'")), 1, "{expected}");
    }
    // A daemon that died with a lease in its hands does not send it after the next start.
    let mut rig = rig(&["anna"]).await;
    let quake = Quake::new(&rig, "first", 6.0, 60);
    rig.show(&[quake]);
    rig.poll().await;
    rig.dispatch().await;
    let (mut store, now) = (rig.store(), rig.clock.now());
    let claim = Claim { owner: "me", most: 9, lease: Span::from_seconds(60), now };
    let claimed = store.claim(claim, |_| 9).expect("claimed");
    store.unsubscribe(claimed[0].enrolment, now).expect("unsubscribed");
    rig.restart().await;
    rig.settle().await;
    assert!(rig.receiver.requests().is_empty());
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'dropped'"), 1);
}

#[tokio::test]
async fn only_an_explicit_resume_brings_anybody_back() {
    let mut rig = rig(&["anna"]).await;
    let site = Site::start(&mut rig).await;
    let path = site.path(&rig, "anna");
    site.one_click(&path).await;
    let now = rig.clock.now();
    for standing in [Standing::Active, Standing::Paused] {
        let refused = rig.store().set_standing(&name("anna"), standing, false, now);
        assert!(matches!(refused, Err(StoreError::Unsubscribed { at, .. }) if at == now), "{refused:?}");
    }
    // Nor does another destination, as it would bring back one that was disabled for an address that is gone.
    let elsewhere = rig.hooked("elsewhere").destination;
    rig.set("anna", |subscriber| subscriber.destination = elsewhere);
    assert_eq!(standing(&rig, "anna").0, Standing::Disabled);
    rig.store().set_standing(&name("anna"), Standing::Active, true, now).expect("resumed");
    assert_eq!(standing(&rig, "anna"), (Standing::Active, None));
    // The link is the same as before, and works again.
    assert_eq!(site.path(&rig, "anna"), path);
    site.one_click(&path).await;
    assert_eq!(standing(&rig, "anna").0, Standing::Disabled);
}

#[tokio::test]
async fn messages_carry_the_link_and_a_restart_keeps_it() {
    let mut rig = rig(&["hook"]).await;
    let mail = rig.path("letters");
    let email = EmailSettings::new("alerts@example.org".parse().expect("a sender"), MailTransport::Directory(mail.clone()));
    let webhook = WebhookSettings { allow_private: true, ..WebhookSettings::default() };
    let key = UnsubscribeKey::open(&rig.path("key")).expect("a key");
    rig.delivery = Arc::new(Delivery {
        email: EmailChannel::Sender(Box::new(EmailSender::new(&email).expect("a directory"))),
        webhook: WebhookSender::new(webhook).expect("a client"),
        links: Some(UnsubscribeLinks { base: "https://alerts.example.org/quakes/".parse().expect("a URL"), key }),
    });
    rig.restart().await;
    let site = Site::start(&mut rig).await;
    let path = site.path(&rig, "hook");
    let quake = Quake::new(&rig, "first", 6.0, 60);
    rig.see(&[quake]).await;
    assert_eq!(rig.receiver.requests()[0].body["unsubscribe_url"], format!("https://alerts.example.org/quakes{path}"));
    rig.restart().await;
    assert_eq!(Site::start(&mut rig).await.path(&rig, "hook"), path);
    let mode = fs::metadata(rig.path("key")).expect("the key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::set_permissions(rig.path("key"), fs::Permissions::from_mode(0o644)).expect("readable by others");
    let refused = UnsubscribeKey::open(&rig.path("key")).expect_err("others may read it");
    assert!(refused.to_string().contains("cannot use the key"), "{refused}");
}
