//! Subscribers that change while the daemon runs: another connection writes what the daemon's reads.

use throttler::limiter::Algorithm;
use throttler::plan::Outcome;
use throttler::subscriber::Standing;

use crate::rig::{HOUR, MINUTE, Quake, Rig, limit, magnitude, mailed, name};

#[tokio::test]
async fn a_new_subscriber_hears_of_the_next_event_and_of_none_before() {
    let mut rig = Rig::with(&[mailed("anna")]).await;
    let before = Quake::new(&rig, "us1", 5.1, MINUTE);
    let growing = Quake::new(&rig, "us2", 4.8, MINUTE);
    rig.see(&[before.clone(), growing.clone()]).await;
    rig.pass(1);
    rig.add(&[rig.hooked("bruno")]);
    rig.pass(1);
    let after = Quake::new(&rig, "us3", 5.0, MINUTE);
    rig.see(&[before.revised(5.6), growing.revised(5.5), after]).await;
    assert_eq!(rig.hooks("bruno"), ["M 5.5 - near us2", "M 5.0 - near us3"], "what grew into the interest since then is news");
    assert_eq!(rig.mails(), ["M 5.0 - near us3", "M 5.1 - near us1", "M 5.5 - near us2"]);
}

#[tokio::test]
async fn a_new_subscriber_does_not_hear_of_what_merges_with_an_event_it_would_have_heard_of() {
    let mut rig = Rig::with(&[]).await;
    let small = Quake::new(&rig, "at1", 4.6, MINUTE);
    let large = Quake::new(&rig, "us2", 5.1, MINUTE);
    rig.see(&[small, large.clone()]).await;
    rig.pass(1);
    rig.add(&[rig.hooked("bruno")]);
    rig.pass(1);
    rig.see(&[Quake { other_ids: vec!["at1".into()], ..large.revised(5.2) }]).await;
    assert_eq!(rig.hooks("bruno"), [""; 0]);
}

#[tokio::test]
async fn a_new_subscriber_in_the_middle_of_dispatch_is_not_told_of_that_event() {
    let mut rig = Rig::with(&[mailed("anna")]).await;
    rig.show(&[Quake::new(&rig, "us1", 5.1, MINUTE)]);
    rig.poll().await;
    rig.pass(1);
    rig.add(&[rig.hooked("bruno")]);
    rig.settle().await;
    assert_eq!((rig.hooks("bruno").len(), rig.mails().len()), (0, 1));
}

#[tokio::test]
async fn what_comes_during_a_pause_is_no_news_later_and_what_waited_in_the_outbox_goes() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    rig.show(&[Quake::new(&rig, "us1", 5.1, MINUTE)]);
    rig.poll().await;
    rig.dispatch().await;
    rig.stand("anna", Standing::Paused);
    rig.deliver().await;
    assert_eq!(rig.hooks("anna"), [""; 0], "decided before the pause, but not sent during it");
    rig.pass(MINUTE);
    let during = Quake::new(&rig, "us2", 5.2, MINUTE);
    let growing = Quake::new(&rig, "us3", 4.8, MINUTE);
    rig.see(&[during.clone(), growing.clone()]).await;
    rig.pass(MINUTE);
    rig.stand("anna", Standing::Active);
    rig.deliver().await;
    assert_eq!(rig.hooks("anna"), ["M 5.1 - near us1"]);
    rig.pass(MINUTE);
    rig.see(&[during.revised(5.4), growing.revised(5.3)]).await;
    assert_eq!(rig.hooks("anna"), ["M 5.1 - near us1", "M 5.3 - near us3"]);
}

#[tokio::test]
async fn another_interest_counts_from_the_next_event_on() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    let small = Quake::new(&rig, "us1", 4.7, MINUTE);
    rig.see(std::slice::from_ref(&small)).await;
    rig.pass(1);
    rig.set("anna", |anna| anna.interest.min_magnitude = magnitude(4.5));
    rig.pass(1);
    rig.see(&[small.revised(4.8), Quake::new(&rig, "us2", 4.6, MINUTE)]).await;
    assert_eq!(rig.hooks("anna"), ["M 4.6 - near us2"], "what matches only by the new interest and was there before is no news");
}

#[tokio::test]
async fn another_interest_loses_nothing_that_was_recorded_and_not_decided_yet() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    rig.show(&[Quake::new(&rig, "us1", 5.7, MINUTE)]);
    rig.poll().await;
    // The daemon stops before it decides; the operator widens the interest meanwhile.
    rig.pass(MINUTE);
    rig.set("anna", |anna| anna.interest.min_magnitude = magnitude(4.5));
    rig.pass(MINUTE);
    rig.restart().await;
    rig.settle().await;
    assert_eq!(rig.hooks("anna"), ["M 5.7 - near us1"]);
}

#[tokio::test]
async fn another_limit_keeps_what_was_spent() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    let mut quakes = Vec::new();
    for at in 0..6 {
        quakes.push(Quake::new(&rig, &format!("us{at}"), 5.0, MINUTE));
        rig.see(&quakes).await;
        rig.pass(1);
    }
    assert_eq!(rig.hooks("anna").len(), 5);
    rig.set("anna", |anna| anna.policy.limit = limit(Algorithm::TokenBucket, "5/h", Some(7)));
    for at in 6..10 {
        quakes.push(Quake::new(&rig, &format!("us{at}"), 5.0, MINUTE));
        rig.see(&quakes).await;
        rig.pass(1);
    }
    assert_eq!(rig.hooks("anna").len(), 7, "two more fit, not seven");
    rig.set("anna", |anna| anna.policy.limit = limit(Algorithm::SlidingLog, "6/h", None));
    quakes.push(Quake::new(&rig, "us10", 5.0, MINUTE));
    rig.see(&quakes).await;
    assert_eq!(rig.hooks("anna").len(), 7, "nor does another limiter forget");
    rig.check_books();
}

#[tokio::test]
async fn a_removed_subscriber_gets_nothing_more_and_its_name_is_free() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    rig.show(&[Quake::new(&rig, "us1", 5.1, MINUTE)]);
    rig.poll().await;
    rig.dispatch().await;
    rig.pass(1);
    rig.store().remove_subscriber(&name("anna"), throttler::clock::Clock::now(&*rig.clock)).expect("removed");
    rig.deliver().await;
    assert_eq!(rig.hooks("anna"), [""; 0]);
    assert_eq!(rig.outcomes("anna"), ["us1 alerted"], "the ledger keeps what was decided");
    assert_eq!(rig.ledger()[0].delivery.as_deref(), Some("dropped"));
    rig.add(&[rig.hooked("anna")]);
    rig.pass(1);
    rig.see(&[Quake::new(&rig, "us2", 5.2, MINUTE)]).await;
    assert_eq!(rig.hooks("anna"), ["M 5.2 - near us2"]);
    assert_eq!(rig.number("SELECT count(DISTINCT alert_id) FROM outbox"), 2, "the ids of the two annas differ");
}

#[tokio::test]
async fn a_receiver_that_wants_no_more_disables_its_subscriber_and_a_new_address_enables_it() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna"), rig.hooked("bruno")]);
    rig.receiver.answer("/anna", 410);
    rig.see(&[Quake::new(&rig, "us1", 5.1, MINUTE)]).await;
    let anna = rig.store().subscriber(&name("anna")).expect("anna");
    assert_eq!(anna.standing, Standing::Disabled);
    assert!(anna.standing_reason.is_some_and(|reason| reason.contains("410")));
    rig.pass(MINUTE);
    rig.see(&[Quake::new(&rig, "us2", 5.2, MINUTE)]).await;
    assert_eq!((rig.hooks("anna").len(), rig.hooks("bruno").len()), (1, 2));
    rig.pass(MINUTE);
    let port = rig.receiver.port;
    rig.set("anna", |anna| {
        anna.destination =
            throttler::subscriber::Destination::Webhook(format!("http://127.0.0.1:{port}/new").parse().expect("a URL"));
    });
    rig.pass(MINUTE);
    rig.see(&[Quake::new(&rig, "us3", 5.3, MINUTE)]).await;
    assert_eq!(rig.hooks("new"), ["M 5.3 - near us3"]);
    rig.check_books();
}

#[tokio::test]
async fn a_receiver_that_fails_is_asked_again_later_with_the_same_id() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna"), rig.hooked("bruno")]);
    rig.receiver.answer("/anna", 503);
    rig.see(&[Quake::new(&rig, "us1", 5.1, MINUTE)]).await;
    assert_eq!(rig.hooks("bruno").len(), 1, "one that fails holds up nobody else");
    for _ in 0..5 {
        rig.pass(2 * HOUR);
        rig.deliver().await;
    }
    rig.receiver.answer("/anna", 204);
    rig.pass(2 * HOUR);
    rig.deliver().await;
    rig.pass(2 * HOUR);
    rig.deliver().await;
    let ids: Vec<_> = rig.receiver.requests().into_iter().filter(|request| request.path == "/anna").map(|r| r.id).collect();
    assert!(ids.len() >= 7 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'delivered'"), 2);
}

#[tokio::test]
async fn a_dead_receiver_is_given_up_after_a_day_and_the_ledger_says_so() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    rig.receiver.answer("/anna", 500);
    rig.see(&[Quake::new(&rig, "us1", 5.1, MINUTE)]).await;
    for _ in 0..30 {
        rig.pass(HOUR);
        rig.deliver().await;
    }
    assert_eq!(rig.ledger()[0].delivery.as_deref(), Some("dead"));
    assert_eq!(rig.ledger()[0].outcome, Outcome::Alerted);
    let attempts = rig.hooks("anna").len();
    rig.pass(HOUR);
    rig.deliver().await;
    assert_eq!(rig.hooks("anna").len(), attempts, "nothing is sent any more");
}

#[tokio::test]
async fn the_command_line_writes_while_the_daemon_decides() {
    let mut rig = Rig::fresh().await;
    rig.add(&(0..40).map(|at| mailed(&format!("s{at}"))).collect::<Vec<_>>());
    rig.poll().await;
    let path = rig.database.clone();
    let now = throttler::clock::Clock::now(&*rig.clock);
    let writer = std::thread::spawn(move || {
        for at in 0..60 {
            // Each command is a process of its own, with its own connection.
            let mut store = throttler::store::Store::open_existing(&path).expect("the database opens");
            let added = mailed(&format!("new{at}"));
            store.add_subscribers(&[(added.clone(), None)], now).expect("added");
            store.set_standing(&added.name, Standing::Paused, false, now).expect("paused");
            store.set_subscriber(&added, None, now).expect("set");
            store.remove_subscriber(&added.name, now).expect("removed");
        }
    });
    let mut quakes = Vec::new();
    while !writer.is_finished() || quakes.len() < 5 {
        quakes.push(Quake::new(&rig, &format!("us{}", quakes.len()), 5.0, MINUTE));
        rig.see(&quakes).await;
    }
    writer.join().expect("the writer finished");
    // The others may have been asked while they were active for a moment.
    let delivered =
        "SELECT count(*) FROM outbox JOIN subscribers USING (subscriber_key) WHERE name LIKE 's%' AND status = 'delivered'";
    assert_eq!(rig.number(delivered), 40 * 5, "five each, the bucket's");
    rig.check_books();
}
