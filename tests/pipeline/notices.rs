//! Notices to the operator: what has changed is told once, whatever is restarted, as often as the limit allows, and beside the
//! alerts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use throttler::clock::Clock;
use throttler::daemon::prune::sweep;
use throttler::daemon::{Contact, Noticed, Operator, Watching, notify};
use throttler::delivery::{Outcome, WebhookSecret};
use throttler::limiter::{Algorithm, Limit};
use throttler::notice::{MAX_LISTED, Topic, Way};
use throttler::store::{Claim, DeliveryStatus, NoticeCounts, Settlement, Store};
use throttler::subscriber::{Destination, Mode, Preset, Standing, Subscriber};
use throttler::time::Span;
use throttler::withholding::sustained;

use crate::crashing::{Run, crashes};
use crate::receiver::{Receiver, Request};
use crate::rig::{HOUR, MINUTE, Quake, Rig, limit, magnitude, mailed, name, only_in_a_file, start};

const DAY: u64 = 24 * HOUR;
const STALE: u64 = 30 * MINUTE;

/// An operator with a webhook at `/operator` of the rig's receiver.
fn by_webhook(rig: &Rig) -> Operator {
    let url = format!("http://127.0.0.1:{}/operator", rig.receiver.port);
    let contact = Contact {
        way: Way::Webhook,
        destination: Destination::Webhook(url.parse().expect("a URL")),
        preset: Preset::Json,
        secrets: vec![WebhookSecret::generate().expect("a secret")],
    };
    Operator { contacts: vec![contact], topics: Topic::ALL.into(), limit: six_an_hour() }
}

fn six_an_hour() -> Limit {
    limit(Algorithm::SlidingLog, "6/h", None)
}

/// The rig with this operator, from its next start on, which is now.
async fn operated(mut rig: Rig, operator: Operator) -> Rig {
    rig.operator = Some(Arc::new(operator));
    rig.restart().await;
    rig
}

async fn with(subscribers: &[&str]) -> Rig {
    let rig = Rig::with(&[]).await;
    let generous = |who: &&str| {
        let mut subscriber = rig.hooked(who);
        subscriber.policy.limit = limit(Algorithm::TokenBucket, "100/h", Some(100));
        subscriber
    };
    rig.add(&subscribers.iter().map(generous).collect::<Vec<_>>());
    let operator = by_webhook(&rig);
    operated(rig, operator).await
}

fn watched(rig: &Rig) -> Watching {
    let feed = format!("file://{}", rig.path("feed.geojson").display());
    Watching { feed, since: start(), stale_after: Span::from_seconds(STALE) }
}

async fn step(rig: &mut Rig) -> Option<Noticed> {
    let (operator, watched) = (Arc::clone(rig.operator.as_ref().expect("an operator")), watched(rig));
    let (database, now) = (rig.parts().database.clone(), rig.clock.now());
    database.with(move |store| notify::step(store, &operator, &watched, now)).await.expect("a step of noticing")
}

/// All there is to notice now, but what was looked at and had not changed.
async fn notice(rig: &mut Rig) -> Vec<Noticed> {
    let mut steps = Vec::new();
    while let Some(noticed) = step(rig).await {
        steps.push(noticed);
    }
    steps.retain(|noticed| {
        *noticed != Noticed::Judged { began: 0, ended: 0 } && *noticed != Noticed::Recovered { destinations: 0 }
    });
    steps
}

/// What is noticed now is told, after the minute in which more might have come.
async fn tell(rig: &mut Rig) {
    notice(rig).await;
    rig.pass(MINUTE);
    notice(rig).await;
    rig.deliver().await;
}

/// What the operator's webhook got.
fn told(rig: &Rig) -> Vec<Request> {
    rig.receiver.requests().into_iter().filter(|request| request.path == "/operator").collect()
}

fn titles(rig: &Rig) -> Vec<String> {
    told(rig).iter().map(|request| request.body["title"].as_str().expect("a title").to_owned()).collect()
}

fn changes(request: &Request) -> &Vec<Value> {
    request.body["notice"]["changes"].as_array().expect("changes")
}

/// Another quake, of which all are to be told.
async fn quake(rig: &mut Rig, id: &str) {
    rig.pass(1);
    rig.see(&[Quake::new(rig, id, 6.0, MINUTE)]).await;
}

#[tokio::test]
async fn a_stale_feed_and_its_recovery_are_told_once_each_whatever_is_restarted() {
    let mut rig = with(&[]).await;
    rig.pass(STALE);
    assert_eq!(notice(&mut rig).await, [], "it is not stale yet");
    rig.pass(1);
    assert_eq!(notice(&mut rig).await, [Noticed::Feed]);
    rig.restart().await;
    assert_eq!(notice(&mut rig).await, [], "it was noticed, and waits for what belongs to it");
    tell(&mut rig).await;
    rig.restart().await;
    tell(&mut rig).await;
    let requests = told(&rig);
    let since = start();
    let stale = format!("the feed is stale: no poll has succeeded since {since}");
    assert_eq!(titles(&rig), ["throttler: the feed is stale"]);
    assert_eq!(changes(&requests[0])[0]["listed"][0]["detail"], stale);
    assert_eq!(changes(&requests[0])[0]["listed"][0]["since"], since.to_string());
    assert!(requests[0].id.ends_with("-notice-1-webhook"), "{}", requests[0].id);
    assert_eq!((&requests[0].body["type"], &requests[0].body["subscriber"]), (&"notice".into(), &"operator".into()));
    assert_eq!(requests[0].body["limit"]["remaining"], 5);

    rig.show(&[]);
    rig.poll().await;
    rig.restart().await;
    tell(&mut rig).await;
    rig.restart().await;
    tell(&mut rig).await;
    assert_eq!(titles(&rig)[1..], ["throttler: the feed is fresh again"]);
    let fresh = format!("the feed is fresh again, for the first time since {since}");
    assert_eq!(changes(&told(&rig)[1])[0]["listed"][0]["detail"], fresh);
}

#[tokio::test]
async fn what_comes_and_goes_before_it_is_told_is_told_in_one_message() {
    let mut rig = with(&[]).await;
    rig.pass(STALE + 1);
    notice(&mut rig).await;
    rig.show(&[]);
    rig.poll().await;
    tell(&mut rig).await;
    assert_eq!(titles(&rig), ["throttler: the feed is fresh again"], "what holds now");
    let whats: Vec<Value> = changes(&told(&rig)[0]).iter().map(|change| change["what"].clone()).collect();
    assert_eq!(whats, ["feed-stale", "feed-fresh"]);
}

#[tokio::test]
async fn a_dead_destination_is_told_once_until_it_was_well_again() {
    let mut rig = with(&["anna", "ben"]).await;
    rig.receiver.answer("/anna", 410);
    rig.pass(1);
    // Two messages are under way when the first 410 comes.
    rig.see(&[Quake::new(&rig, "us1", 6.0, MINUTE), Quake::new(&rig, "us2", 6.1, MINUTE)]).await;
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'dead'"), 2);
    assert_eq!(notice(&mut rig).await, [Noticed::Dead { letters: 2, destinations: 1 }]);
    rig.restart().await;
    tell(&mut rig).await;
    assert_eq!(titles(&rig), ["throttler: 1 destination is dead (anna)"]);
    let detail = changes(&told(&rig)[0])[0]["listed"][0]["detail"].as_str().expect("text").to_owned();
    let expected = format!(
        "http://127.0.0.1:{}: answered 410 Gone (the receiver wants no more); the subscriber is disabled",
        rig.receiver.port
    );
    assert_eq!(detail, expected);

    // Put back by hand it is the same death; resumed, or after a delivery, it is another.
    rig.store().retry_all_dead(None, rig.clock.now()).expect("put back");
    rig.run("UPDATE subscribers SET standing = 'active', standing_reason = NULL");
    rig.settle().await;
    tell(&mut rig).await;
    assert_eq!(told(&rig).len(), 1, "told already");
    rig.pass(1);
    rig.stand("anna", Standing::Active);
    quake(&mut rig, "us3").await;
    tell(&mut rig).await;
    assert_eq!(told(&rig).len(), 2, "it was resumed and died again");
    rig.pass(1);
    rig.stand("anna", Standing::Active);
    rig.receiver.answer("/anna", 204);
    quake(&mut rig, "us4").await;
    rig.receiver.answer("/anna", 422);
    quake(&mut rig, "us5").await;
    tell(&mut rig).await;
    assert_eq!(told(&rig).len(), 3, "a message was given up after others had gone");
    quake(&mut rig, "us6").await;
    tell(&mut rig).await;
    assert_eq!(told(&rig).len(), 3);
    // Another destination that is as dead.
    let other = format!("http://127.0.0.1:{}/other", rig.receiver.port);
    rig.receiver.answer("/other", 422);
    rig.set("anna", |anna| anna.destination = Destination::Webhook(other.parse().expect("a URL")));
    quake(&mut rig, "us7").await;
    tell(&mut rig).await;
    assert_eq!(told(&rig).len(), 4);
    rig.check_books();
}

#[tokio::test]
async fn a_destination_that_takes_messages_again_is_told_of_once() {
    let mut rig = with(&["anna", "ben"]).await;
    rig.receiver.answer("/anna", 422);
    quake(&mut rig, "us1").await;
    tell(&mut rig).await;
    rig.receiver.answer("/anna", 204);
    quake(&mut rig, "us2").await;
    let arrived = rig.clock.now();
    for _ in 0..2 {
        rig.pass(MINUTE);
        rig.restart().await;
        tell(&mut rig).await;
    }
    assert_eq!(titles(&rig), ["throttler: 1 destination is dead (anna)", "throttler: 1 destination takes messages again (anna)"]);
    let item = changes(&told(&rig)[1])[0]["listed"][0].clone();
    let dead_since = changes(&told(&rig)[0])[0]["listed"][0]["since"].as_str().expect("a time").to_owned();
    assert_eq!((&item["subscriber"], &item["since"]), (&"anna".into(), &arrived.to_string().into()));
    assert_eq!(item["detail"], format!("a message arrived, for the first time since {dead_since}"));

    // It dies again, and what was given up is put back and arrives.
    rig.receiver.answer("/anna", 422);
    quake(&mut rig, "us3").await;
    tell(&mut rig).await;
    rig.receiver.answer("/anna", 204);
    rig.store().retry_all_dead(None, rig.clock.now()).expect("put back");
    rig.settle().await;
    rig.pass(MINUTE);
    tell(&mut rig).await;
    assert_eq!(
        titles(&rig)[2..],
        ["throttler: 1 destination is dead (anna)", "throttler: 1 destination takes messages again (anna)"]
    );
    rig.check_books();
}

#[tokio::test]
async fn many_recoveries_are_found_some_at_once() {
    let all: Vec<String> = (0..510).map(|at| format!("s{at}")).collect();
    let mut rig = with(&all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for who in &all {
        rig.receiver.answer(&format!("/{who}"), 422);
    }
    quake(&mut rig, "us1").await;
    notice(&mut rig).await;
    // As if they had arrived.
    rig.run("UPDATE outbox SET status = 'delivered'");
    rig.pass(MINUTE);
    let recovered = |destinations| Noticed::Recovered { destinations };
    assert_eq!(notice(&mut rig).await[..2], [recovered(500), recovered(10)]);
    rig.pass(MINUTE);
    assert_eq!(notice(&mut rig).await.len(), 0, "once");
}

#[tokio::test]
async fn what_was_told_is_pruned_and_how_things_stand_is_not_forgotten() {
    const KEEP: Span = Span::from_seconds(90 * DAY);
    let mut rig = with(&["anna", "ben"]).await;
    rig.pass(STALE + 1);
    tell(&mut rig).await;
    rig.show(&[]);
    rig.poll().await;
    tell(&mut rig).await;
    for path in ["/anna", "/ben"] {
        rig.receiver.answer(path, 422);
    }
    quake(&mut rig, "us1").await;
    tell(&mut rig).await;
    rig.receiver.answer("/anna", 204);
    quake(&mut rig, "us2").await;
    rig.pass(MINUTE);
    tell(&mut rig).await;
    assert_eq!(titles(&rig).len(), 4, "{:?}", titles(&rig));
    rig.pass(91 * DAY);
    rig.see(&[]).await;
    let pruned = async |rig: &mut Rig| {
        let (database, now) = (rig.parts().database.clone(), rig.clock.now());
        let pruned = sweep(&database, KEEP, now).await.expect("pruned");
        (pruned.changes, pruned.notices)
    };
    // What is not told yet, and what is still to be delivered, is not old.
    let told_to = rig.number("SELECT told_to FROM noticing");
    rig.run("UPDATE notices SET status = 'due', settled_at = NULL WHERE delivery_key = 1");
    rig.run("UPDATE noticing SET told_to = 0");
    assert_eq!(pruned(&mut rig).await, (0, 3));
    rig.run(&format!("UPDATE noticing SET told_to = {told_to}"));
    rig.deliver().await;
    assert_eq!(pruned(&mut rig).await, (2, 0), "the feed's staleness and the death that is over");
    assert_eq!(pruned(&mut rig).await, (2, 0), "then their ends");
    assert_eq!(pruned(&mut rig).await, (0, 0));
    assert_eq!(rig.number("SELECT count(*) FROM changes WHERE what = 'destination-dead' AND subscriber = 'ben'"), 1);

    // Ben is as dead as before, anna is not.
    rig.receiver.answer("/anna", 422);
    quake(&mut rig, "us3").await;
    let before = titles(&rig).len();
    tell(&mut rig).await;
    assert_eq!(titles(&rig)[before..], ["throttler: 1 destination is dead (anna)"]);
}

#[tokio::test]
async fn who_is_gone_is_no_dead_destination() {
    let mut rig = with(&["anna", "ben"]).await;
    for path in ["/anna", "/ben"] {
        rig.receiver.answer(path, 422);
    }
    quake(&mut rig, "us1").await;
    rig.store().remove_subscriber(&name("anna"), rig.clock.now()).expect("removed");
    let who = rig.number("SELECT subscriber_key FROM subscribers WHERE name = 'ben'");
    let mut store = rig.store();
    let ben = store.enrolment(who).expect("read").expect("ben");
    store.unsubscribe(ben, rig.clock.now()).expect("unsubscribed");
    assert_eq!(notice(&mut rig).await, [Noticed::Dead { letters: 2, destinations: 0 }]);
    tell(&mut rig).await;
    assert_eq!(titles(&rig), [""; 0]);
}

#[tokio::test]
async fn many_dead_destinations_make_one_message_that_lists_some_and_counts_all() {
    let all: Vec<String> = (0..620).map(|at| format!("s{at}")).collect();
    let mut rig = with(&all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for who in &all {
        rig.receiver.answer(&format!("/{who}"), 410);
    }
    quake(&mut rig, "us1").await;
    let dead = |letters| Noticed::Dead { letters, destinations: letters };
    assert_eq!(notice(&mut rig).await, [dead(500), dead(120)]);
    tell(&mut rig).await;
    assert_eq!(titles(&rig), ["throttler: 620 destinations are dead"]);
    let requests = told(&rig);
    let change = &changes(&requests[0])[0];
    assert_eq!((&change["count"], change["listed"].as_array().expect("a list").len()), (&620.into(), MAX_LISTED));
}

#[tokio::test]
async fn no_more_than_the_limit_allows_and_the_rest_is_told_by_the_next() {
    let all: Vec<String> = (0..12).map(|at| format!("s{at}")).collect();
    let mut rig = with(&all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let first = rig.clock.now();
    for (at, who) in all.iter().enumerate() {
        rig.receiver.answer(&format!("/{who}"), 410);
        quake(&mut rig, &format!("us{at}")).await;
        tell(&mut rig).await;
        rig.restart().await;
    }
    assert_eq!(told(&rig).len(), 6, "{:?}", titles(&rig));
    assert_eq!(rig.store().notice_counts().expect("counts"), NoticeCounts { untold: 6, ..NoticeCounts::default() });
    rig.clock.set(first.plus(Span::from_seconds(HOUR + 61)));
    rig.show(&[]);
    rig.poll().await;
    tell(&mut rig).await;
    assert_eq!(titles(&rig)[6..], ["throttler: 6 destinations are dead"]);
    assert_eq!(told(&rig)[6].body["limit"]["promise"], "at most 6 in any hour");
}

/// A subscriber of one alert a day.
fn strict(rig: &Rig, who: &str, mode: Mode) -> Subscriber {
    let mut subscriber = rig.hooked(who);
    subscriber.policy.limit = limit(Algorithm::SlidingLog, "1/d", None);
    subscriber.mode = mode;
    subscriber
}

/// So many quakes on one day, seen at once; another day begins.
async fn day(rig: &mut Rig, number: usize, quakes: usize) {
    let quakes: Vec<_> = (0..quakes).map(|at| Quake::new(rig, &format!("us{number}x{at}"), 6.0, MINUTE)).collect();
    rig.see(&quakes).await;
    rig.pass(DAY);
}

/// Who the report says is held back day after day, up to now.
fn reported(rig: &Rig) -> Vec<String> {
    let now = rig.clock.now();
    let reports = rig.store().report(now.minus(Span::from_seconds(7 * DAY)), now).expect("a report");
    let withheld = reports.into_iter().filter(|report| sustained(&report.days).is_some() && report.mode == Mode::Enforce);
    withheld.map(|report| report.name).collect()
}

#[tokio::test]
async fn sustained_withholding_is_told_when_it_begins_and_when_it_ends_as_the_report_has_it() {
    let rig = Rig::with(&[]).await;
    let many: Vec<Subscriber> = ["shadow", "anna"].iter().map(|who| strict(&rig, who, Mode::Enforce)).collect();
    rig.add(&many);
    rig.set("shadow", |subscriber| subscriber.mode = Mode::Shadow);
    // A number far away: as many ranges lie between.
    rig.leave_a_gap(1700);
    rig.add(&[strict(&rig, "zoe", Mode::Enforce), rig.hooked("lucky")]);
    let mut operator = by_webhook(&rig);
    operator.topics = [Topic::SustainedWithholding].into();
    let mut rig = operated(rig, operator).await;
    assert_eq!(notice(&mut rig).await, []);
    for (number, quakes, expected) in [(0, 4, &[][..]), (1, 5, &[]), (2, 4, &["anna", "zoe"]), (3, 9, &["anna", "zoe"])] {
        day(&mut rig, number, quakes).await;
        assert_eq!(reported(&rig), expected, "after day {number}");
        let steps = notice(&mut rig).await;
        let began: usize = steps.iter().map(|step| if let Noticed::Judged { began, .. } = step { *began } else { 0 }).sum();
        assert_eq!(began, if number == 2 { 2 } else { 0 }, "{steps:?}");
        rig.restart().await;
        assert_eq!(step(&mut rig).await, None, "no second judgement on the same day");
        rig.pass(MINUTE);
        notice(&mut rig).await;
        rig.deliver().await;
        rig.clock.set(rig.clock.now().minus(Span::from_seconds(MINUTE)));
    }
    assert_eq!(titles(&rig), ["throttler: withholding is sustained for 2 subscribers"]);
    let requests = told(&rig);
    let listed = &changes(&requests[0])[0]["listed"];
    assert_eq!((&listed[0]["subscriber"], &listed[1]["subscriber"]), (&"anna".into(), &"zoe".into()));
    assert_eq!(listed[0]["since"], start().to_string(), "the first of the three days");

    // Anna gets another limit, Zoe is removed, and a quiet day ends it for both.
    rig.store().remove_subscriber(&name("zoe"), rig.clock.now()).expect("removed");
    day(&mut rig, 4, 1).await;
    assert_eq!(reported(&rig), [""; 0]);
    tell(&mut rig).await;
    assert_eq!(titles(&rig)[1..], ["throttler: withholding is no longer sustained for 1 subscriber (anna)"]);
    for number in 5..8 {
        day(&mut rig, number, 4).await;
    }
    tell(&mut rig).await;
    assert_eq!(titles(&rig)[2..], ["throttler: withholding is sustained for 1 subscriber (anna)"], "it begins again");
}

#[tokio::test]
async fn a_judgement_that_was_interrupted_goes_on_as_of_when_it_began() {
    let rig = Rig::with(&[]).await;
    rig.add(&[strict(&rig, "anna", Mode::Enforce)]);
    rig.leave_a_gap(900);
    rig.add(&[strict(&rig, "zoe", Mode::Enforce)]);
    let mut operator = by_webhook(&rig);
    operator.topics = [Topic::SustainedWithholding].into();
    let mut rig = rig;
    for number in 0..3 {
        day(&mut rig, number, 4).await;
    }
    let mut rig = operated(rig, operator).await;
    assert_eq!(step(&mut rig).await, Some(Noticed::Judged { began: 1, ended: 0 }), "anna");
    // By now the last day has too few events, and no message goes out half-way.
    rig.restart().await;
    rig.pass(2 * HOUR);
    assert_eq!(step(&mut rig).await, Some(Noticed::Judged { began: 1, ended: 0 }), "zoe");
    tell(&mut rig).await;
    assert_eq!(titles(&rig), ["throttler: withholding is sustained for 2 subscribers"]);
}

#[tokio::test]
async fn both_ways_get_every_notice_and_one_that_fails_holds_up_neither_the_other_nor_the_alerts() {
    let rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    let mut operator = by_webhook(&rig);
    let destination = Destination::Email("ops@example.org".parse().expect("an address"));
    operator.contacts.insert(0, Contact { way: Way::Email, destination, preset: Preset::Json, secrets: Vec::new() });
    let mut rig = operated(rig, operator).await;
    rig.receiver.answer("/operator", 429);
    rig.pass(STALE + 1);
    tell(&mut rig).await;
    assert_eq!(rig.mails(), ["throttler: the feed is stale"]);
    let mail = &rig.mail_texts()[0];
    assert!(mail.contains("\r\nTo: ops@example.org\r\n") && mail.contains("-notice-1-email@example.org>\r\n"), "{mail}");
    assert!(mail.contains("\r\nAuto-Submitted: auto-generated\r\n") && !mail.contains("List-Unsubscribe"), "{mail}");
    let counts = rig.store().notice_counts().expect("counts");
    assert_eq!((counts.due, counts.dead, counts.untold), (1, 0, 0));
    let row = &rig.store().notices(DeliveryStatus::Due, 10).expect("rows")[0];
    assert_eq!((row.way, row.message.attempts), (Way::Webhook, 1));
    assert!(row.message.detail.as_deref().is_some_and(|detail| detail.starts_with("answered 429")), "{row:?}");
    quake(&mut rig, "us1").await;
    assert_eq!(rig.hooks("anna").len(), 1);
    let overdue = rig.store().overdue_since(rig.clock.now()).expect("read");
    assert_eq!(overdue, None, "what waits for the operator is no backlog of alerts");
    // As alerts it is tried again, under its id, and given up after a day.
    rig.receiver.answer("/operator", 204);
    rig.pass(HOUR);
    rig.deliver().await;
    let ids: Vec<String> = told(&rig).into_iter().map(|request| request.id).collect();
    // The first wait is by chance, and may have been over when the alert left.
    assert!(ids.len() >= 2 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn a_notice_probes_a_host_that_failed_and_is_given_up_after_a_day() {
    for back in [true, false] {
        let mut rig = with(&[]).await;
        let host = Receiver::start().await;
        host.answer("/operator", 503);
        let mut operator = by_webhook(&rig);
        let url = format!("http://127.0.0.1:{}/operator", host.port);
        operator.contacts[0].destination = Destination::Webhook(url.parse().expect("a URL"));
        rig = operated(rig, operator).await;
        rig.pass(STALE + 1);
        tell(&mut rig).await;
        // Failures in a row open the breaker; the only message by this channel is its probe.
        for _ in 0..8 {
            rig.pass(HOUR);
            rig.deliver().await;
        }
        assert!(host.requests().len() > 6, "{}", host.requests().len());
        host.answer("/operator", if back { 204 } else { 503 });
        for _ in 0..18 {
            rig.pass(HOUR);
            rig.deliver().await;
        }
        let status = if back { DeliveryStatus::Delivered } else { DeliveryStatus::Dead };
        let rows = rig.store().notices(status, 10).expect("rows");
        assert_eq!(rows.len(), 1, "{status}");
        if !back {
            assert!(rows[0].message.detail.as_deref().is_some_and(|detail| detail.starts_with("given up after ")), "{rows:?}");
        }
    }
}

#[tokio::test]
async fn a_notice_that_dies_makes_no_notice_and_can_be_put_back_and_dropped() {
    let mut rig = with(&["anna"]).await;
    for path in ["/operator", "/anna"] {
        rig.receiver.answer(path, 410);
    }
    quake(&mut rig, "us1").await;
    tell(&mut rig).await;
    tell(&mut rig).await;
    assert_eq!(told(&rig).len(), 1, "it told of anna, and nothing tells of it");
    let dead = rig.store().notices(DeliveryStatus::Dead, 10).expect("rows");
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].message.title.as_deref(), Ok("throttler: 1 destination is dead (anna)"));
    let id = dead[0].message.id.clone();
    let mut store = rig.store();
    assert_eq!(store.retry_dead(std::slice::from_ref(&id), rig.clock.now()).expect("put back").count, 1);
    assert!(store.retry_dead(std::slice::from_ref(&id), rig.clock.now()).is_err(), "it is due");
    rig.deliver().await;
    assert_eq!(told(&rig).len(), 2);
    assert_eq!(store.retry_all_dead(None, rig.clock.now()).expect("put back").count, 2, "with anna's");
    store.drop_deliveries(std::slice::from_ref(&id), "known", rig.clock.now()).expect("dropped");
    rig.deliver().await;
    assert_eq!(told(&rig).len(), 2);
    assert_eq!(store.count_notices(DeliveryStatus::Dropped).expect("count"), 1);
}

#[tokio::test]
async fn what_waits_for_a_way_that_is_configured_no_more_is_dropped_at_the_start() {
    let mut rig = with(&[]).await;
    rig.receiver.answer("/operator", 429);
    rig.pass(STALE + 1);
    tell(&mut rig).await;
    let operator = rig.operator.take();
    rig.restart().await;
    let dropped = &rig.store().notices(DeliveryStatus::Dropped, 10).expect("rows")[0];
    assert_eq!(dropped.message.detail.as_deref(), Some("the configuration names no such address of the operator's any more"));
    // Noticing goes on where it was: the recovery is told, and the staleness no second time.
    rig.operator = operator;
    rig.restart().await;
    rig.receiver.answer("/operator", 204);
    rig.show(&[]);
    rig.poll().await;
    tell(&mut rig).await;
    assert_eq!(titles(&rig), ["throttler: the feed is stale", "throttler: the feed is fresh again"]);
}

#[tokio::test]
async fn only_what_is_asked_for_is_noticed() {
    let rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    let mut operator = by_webhook(&rig);
    operator.topics = [Topic::DeadDestination].into();
    let mut rig = operated(rig, operator).await;
    rig.receiver.answer("/anna", 410);
    quake(&mut rig, "us1").await;
    rig.pass(STALE + 1);
    tell(&mut rig).await;
    assert_eq!(titles(&rig), ["throttler: 1 destination is dead (anna)"]);
}

#[tokio::test]
async fn a_limiter_that_cannot_be_read_makes_no_message_and_loses_nothing() {
    let mut rig = with(&[]).await;
    rig.run("UPDATE noticing SET limiter = x'00'");
    rig.pass(STALE + 1);
    notice(&mut rig).await;
    rig.pass(MINUTE);
    let (operator, watched, now) = (Arc::clone(rig.operator.as_ref().expect("one")), watched(&rig), rig.clock.now());
    let fault = rig.store().make_notice(&operator.ways(), operator.limit, now).expect_err("a damaged limiter");
    assert!(fault.to_string().starts_with("cannot read the limiter of notices in the database: "), "{fault}");
    assert!(notify::step(&mut rig.store(), &operator, &watched, now).is_err());
    rig.run("UPDATE noticing SET limiter = NULL");
    tell(&mut rig).await;
    assert_eq!(titles(&rig), ["throttler: the feed is stale"]);
}

#[tokio::test]
async fn a_backup_knows_what_was_due_to_the_operator() {
    if only_in_a_file() {
        return;
    }
    let mut rig = with(&[]).await;
    rig.receiver.answer("/operator", 429);
    rig.pass(STALE + 1);
    tell(&mut rig).await;
    rig.store().backup(&rig.path("backup.db"), rig.clock.now(), |_| {}).expect("copied");
    rig.open = None;
    for file in ["throttler.db", "throttler.db-wal", "throttler.db-shm"] {
        let _ = std::fs::remove_file(rig.path(file));
    }
    std::fs::rename(rig.path("backup.db"), rig.path("throttler.db")).expect("restored");
    let begun = rig.store().begin_from_backup().expect("begun").expect("a backup");
    assert_eq!(begun.may_repeat, 1);
    let row = &rig.store().notices(DeliveryStatus::Due, 10).expect("rows")[0];
    assert!(row.message.detail.as_deref().is_some_and(|detail| detail.starts_with("it may have been sent already")), "{row:?}");
}

/// Notices, tells and delivers in single steps until nothing is left to do.
async fn settle(run: &mut Run) {
    'again: loop {
        loop {
            let more = step(&mut run.rig).await.is_some();
            if run.crashed().await {
                continue 'again;
            }
            if !more {
                break;
            }
        }
        loop {
            let operator = Arc::clone(run.rig.operator.as_ref().expect("an operator"));
            let (path, now) = (run.rig.database.clone(), run.rig.clock.now());
            let claim = |settled: &[(i64, Settlement)], ways: &[Way]| {
                let claim = Claim { owner: "run", most: 2, lease: Span::from_seconds(HOUR), now };
                let mut store = Store::open_existing(&path).expect("the database opens");
                store.settle_and_claim_notices(settled, claim, ways).expect("settled and claimed")
            };
            let claimed = claim(&[], &operator.ways());
            if run.crashed().await {
                continue 'again;
            }
            if claimed.is_empty() {
                return;
            }
            for notice in claimed {
                let contact = operator.contacts.iter().find(|contact| contact.way == notice.way).expect("a contact");
                let delivery = Arc::clone(&run.rig.delivery);
                let outcome = delivery.deliver(&contact.destination, &contact.preset, &contact.secrets, &notice.alert, now).await;
                let Outcome::Delivered { detail } = outcome else { panic!("{outcome:?}") };
                if run.crashed().await {
                    continue 'again;
                }
                claim(&[(notice.delivery_key, Settlement::Delivered { detail })], &[]);
                if run.crashed().await {
                    continue 'again;
                }
            }
        }
    }
}

/// What a run left: what was noticed, the messages, the limiter, and how often each message came by webhook and as a file.
#[derive(Debug, PartialEq)]
struct Left {
    changes: Vec<Vec<String>>,
    notices: Vec<Vec<String>>,
    noticing: Vec<Vec<String>>,
    subjects: Vec<String>,
}

fn left(rig: &Rig) -> (Left, BTreeMap<String, usize>) {
    let local = |id: &str| id.split_once('-').expect("an installation's key").1.to_owned();
    let mut notices = rig.rows("SELECT alert_id, way, status FROM notices ORDER BY delivery_key");
    for row in &mut notices {
        row[0] = local(&row[0]);
    }
    let mut times = BTreeMap::new();
    for request in told(rig) {
        *times.entry(local(&request.id)).or_default() += 1;
    }
    let left = Left {
        changes: rig.rows("SELECT what, subscriber, since, noticed_at FROM changes ORDER BY change_key"),
        notices,
        noticing: rig.rows("SELECT told_to, limiter, judged_at FROM noticing"),
        subjects: rig.mails(),
    };
    (left, times)
}

/// The feed goes stale and recovers, destinations die, withholding begins; with a crash after one step or without.
async fn run(crash_after: Option<usize>) -> (Left, BTreeMap<String, usize>, usize) {
    let rig = Rig::with(&[]).await;
    let mut operator = by_webhook(&rig);
    let destination = Destination::Email("ops@example.org".parse().expect("an address"));
    operator.contacts.insert(0, Contact { way: Way::Email, destination, preset: Preset::Json, secrets: Vec::new() });
    operator.limit = limit(Algorithm::SlidingLog, "2/h", None);
    rig.add(&[strict(&rig, "anna", Mode::Enforce), rig.hooked("ben"), mailed("clara")]);
    rig.set("clara", |clara| clara.interest.min_magnitude = magnitude(9.0));
    let rig = operated(rig, operator).await;
    let mut run = Run::new(rig, crash_after);
    run.rig.receiver.answer("/ben", 410);
    for number in 0..3 {
        day(&mut run.rig, number, 4).await;
    }
    // All at once; the feed's recovery; it goes stale and recovers again before the limit allows a message.
    settle(&mut run).await;
    run.rig.pass(MINUTE);
    settle(&mut run).await;
    run.rig.show(&[]);
    run.rig.poll().await;
    settle(&mut run).await;
    run.rig.pass(MINUTE);
    settle(&mut run).await;
    run.rig.pass(STALE);
    settle(&mut run).await;
    run.rig.show(&[]);
    run.rig.poll().await;
    settle(&mut run).await;
    run.rig.pass(STALE - MINUTE);
    settle(&mut run).await;
    let (left, times) = left(&run.rig);
    (left, times, run.steps)
}

#[tokio::test]
async fn a_crash_after_any_step_loses_no_notice_and_repeats_at_most_what_was_under_way() {
    let (expected, times, steps) = Box::pin(run(None)).await;
    let whats: Vec<&str> = expected.changes.iter().map(|row| row[0].as_str()).collect();
    for what in ["feed-stale", "feed-fresh", "destination-dead", "withholding-began"] {
        assert!(whats.contains(&what), "{what}: {whats:?}");
    }
    assert!(expected.notices.iter().all(|row| row[2] == "delivered"), "{expected:#?}");
    assert_eq!((expected.changes.len(), expected.notices.len()), (6, 6), "three messages by both ways: {expected:#?}");
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    let mut repeats = 0;
    let (crashes, are_all) = crashes(steps);
    for crash_after in crashes {
        let (left, times, _) = Box::pin(run(Some(crash_after))).await;
        assert_eq!(left, expected, "after step {crash_after} of {steps}");
        let repeated: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(repeated.len() <= 1 && repeated.iter().all(|(_, times)| **times == 2), "after step {crash_after}: {repeated:?}");
        repeats += repeated.len();
    }
    assert!(repeats == times.len() || !are_all, "each is repeated exactly by the crash between its sending and its receipt");
}
