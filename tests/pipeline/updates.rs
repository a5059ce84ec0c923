//! What those who were told of an event hear of it later: updates, and that it was withdrawn.

use std::fs;

use throttler::clock::Clock;
use throttler::daemon::{Dispatched, dispatch};
use throttler::event::EventId;
use throttler::limiter::{Algorithm, Policy};
use throttler::plan::{Outcome, UpdateOutcome};
use throttler::subscriber::{Excess, Mode, Standing, Subscriber, Updates};
use throttler::time::Span;

use crate::rig::{HOUR, MINUTE, Quake, Rig, limit, magnitude, mailed, name, quiet, subject};

/// A rig with anna, who gets webhooks and these updates, and what else is changed of her.
async fn with(updates: Updates, change: impl FnOnce(&mut Subscriber)) -> Rig {
    let mut rig = Rig::fresh().await;
    let mut anna = rig.hooked("anna");
    anna.updates = updates;
    change(&mut anna);
    rig.add(&[anna]);
    rig.poll().await;
    rig.pass(MINUTE);
    rig
}

/// Shows the next version a minute later.
async fn then(rig: &mut Rig, quake: &Quake) {
    rig.pass(MINUTE);
    rig.see(std::slice::from_ref(quake)).await;
}

/// `KIND OUTCOME` of anna's updates.
fn updates(rig: &Rig) -> Vec<String> {
    let rows = rig.store().updates(None, None).expect("the updates");
    rows.iter().map(|row| format!("{} {}", if row.withdrawal { "withdrawal" } else { "update" }, row.outcome)).collect()
}

fn bodies(rig: &Rig) -> Vec<serde_json::Value> {
    rig.receiver.requests().into_iter().map(|request| request.body).collect()
}

/// The message that anna's update of this place in the outbox refers to, as it is kept.
fn kept_first(rig: &Rig, at: u32) -> serde_json::Value {
    let alert = rig.text(&format!("SELECT alert FROM outbox ORDER BY delivery_key LIMIT 1 OFFSET {at}"));
    let alert: serde_json::Value = serde_json::from_str(&alert).expect("JSON");
    alert["content"]["update"]["of"].clone()
}

fn withdrawn(quake: &Quake) -> Quake {
    Quake { status: "deleted", ..quake.revised(quake.magnitude) }
}

#[tokio::test]
async fn a_major_change_is_told_once_to_who_was_told_and_counts_from_what_was_told_last() {
    let mut rig = with(Updates::Major, |_| {}).await;
    let mut quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    // Step by step: a change that is small each time is told when it has become half a magnitude.
    for (value, told) in [(5.4, 1), (5.6, 1), (5.7, 2), (5.7, 2), (5.9, 2), (6.1, 2), (6.2, 3), (4.9, 4)] {
        quake = quake.revised(value);
        then(&mut rig, &quake).await;
        assert_eq!(rig.hooks("anna").len(), told, "at {value}");
    }
    assert_eq!(
        rig.hooks("anna"),
        [
            "M 5.2 - near us1",
            "UPDATE: M 5.2 → 5.7 - near us1",
            "UPDATE: M 5.7 → 6.2 - near us1",
            "UPDATE: M 6.2 → 4.9 - near us1"
        ]
    );
    rig.restart().await;
    rig.settle().await;
    assert_eq!(rig.outcomes("anna"), ["us1 alerted"], "an update is no decision on an event");
    assert_eq!(updates(&rig), ["update sent"; 3]);
    let (first, second) = (&bodies(&rig)[0], &bodies(&rig)[1]);
    assert_eq!(second["type"], "earthquake.update");
    assert_eq!(second["update"]["of"], first["id"]);
    for update in [1, 3] {
        let of = serde_json::json!({ "id": first["id"], "sent_at": first["created_at"], "digest": false });
        assert_eq!(kept_first(&rig, update), of, "when the first was sent, not the one before");
    }
    assert_eq!((&second["update"]["changes"], &second["event"]["magnitude"]), (&serde_json::json!(["magnitude"]), &5.7.into()));
    assert_eq!(second["update"]["before"]["magnitude"], 5.2);
    rig.check_books();
}

#[tokio::test]
async fn what_is_major_and_what_only_all_hear_of() {
    type Edit = fn(&mut Quake);
    let edits: [(&str, bool, bool, Edit); 10] = [
        ("updated", false, false, |_| {}),
        ("status", false, false, |q| q.status = "reviewed"),
        ("ids", false, false, |q| q.other_ids.push("us9".into())),
        ("0.4 magnitudes", false, true, |q| q.magnitude = Some(6.1)),
        ("0.5 magnitudes", true, true, |q| q.magnitude = Some(6.2)),
        ("0.4 degrees", false, true, |q| q.latitude += 0.4),
        ("0.5 degrees", true, true, |q| q.latitude += 0.5),
        ("green", false, true, |q| q.pager = Some("green")),
        ("orange", true, true, |q| q.pager = Some("orange")),
        ("tsunami", true, true, |q| q.tsunami = true),
    ];
    let mut rig = with(Updates::None, |anna| anna.policy.limit = limit(Algorithm::TokenBucket, "5/h", Some(70))).await;
    for (who, wanted) in [("bruno", Updates::Major), ("clara", Updates::All)] {
        let mut subscriber = rig.hooked(who);
        (subscriber.updates, subscriber.policy.limit) = (wanted, limit(Algorithm::TokenBucket, "5/h", Some(70)));
        rig.add(&[subscriber]);
    }
    rig.pass(1);
    for (at, (what, major, all, edit)) in edits.into_iter().enumerate() {
        let quake = Quake::new(&rig, &format!("ak{at}"), 5.7, MINUTE + 30 * at as u64);
        rig.see(std::slice::from_ref(&quake)).await;
        let before = ["anna", "bruno", "clara"].map(|who| rig.hooks(who).len());
        let mut next = quake.revised(5.7);
        edit(&mut next);
        then(&mut rig, &next).await;
        let after = ["anna", "bruno", "clara"].map(|who| rig.hooks(who).len());
        let told: Vec<bool> = after.iter().zip(before).map(|(after, before)| *after > before).collect();
        assert_eq!(told, [false, major, all], "{what}");
    }
    let titles = rig.hooks("bruno");
    for title in [
        "UPDATE: M 5.7 - near ak6 (place 52.500, 160.300 → 53.000, 160.300)",
        "UPDATE: M 5.7 - near ak8 (alert level none → orange)",
        "UPDATE: M 5.7 - near ak9 (tsunami not flagged → flagged)",
    ] {
        assert!(titles.iter().any(|found| found == title), "{title}: {titles:#?}");
    }
    rig.check_books();
}

#[tokio::test]
async fn an_update_costs_one_and_one_that_is_refused_waits_and_tells_the_newest() {
    let mut rig = with(Updates::Major, |anna| {
        anna.excess = Excess::Digest;
        anna.policy.limit = limit(Algorithm::SlidingLog, "2/h", None);
    })
    .await;
    let mut quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    for value in [5.8, 6.5, 7.2] {
        quake = quake.revised(value);
        then(&mut rig, &quake).await;
    }
    assert_eq!(rig.hooks("anna"), ["M 5.2 - near us1", "UPDATE: M 5.2 → 5.8 - near us1"]);
    assert_eq!(updates(&rig), ["update sent", "update superseded", "update waiting"]);
    rig.restart().await;
    assert_eq!(rig.store().next_wake().expect("read"), Some(rig.clock_plus(HOUR - 3 * MINUTE)));
    rig.pass(HOUR - 3 * MINUTE);
    rig.settle().await;
    assert_eq!(rig.hooks("anna")[2..], ["UPDATE: M 5.8 → 7.2 - near us1"]);
    assert_eq!(updates(&rig), ["update sent", "update superseded", "update sent"]);
    rig.pass(5 * HOUR);
    rig.settle().await;
    assert_eq!(rig.hooks("anna").len(), 3, "nothing twice");
    rig.check_books();
}

#[tokio::test]
async fn an_update_that_waits_for_a_row_that_cannot_be_read_stops_nobody_elses() {
    let mut rig = Rig::fresh().await;
    let told_of_all = |who: &str| {
        let mut subscriber = rig.hooked(who);
        subscriber.updates = Updates::All;
        subscriber.excess = Excess::Digest;
        subscriber.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
        subscriber
    };
    rig.add(&[told_of_all("anna"), told_of_all("bruno")]);
    rig.poll().await;
    rig.pass(MINUTE);
    let quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    then(&mut rig, &quake.revised(5.9)).await;
    assert_eq!(updates(&rig), ["update waiting"; 2]);
    rig.run("UPDATE subscribers SET settings = '{}' WHERE name = 'anna'");
    rig.pass(HOUR);
    rig.settle().await;
    assert_eq!((rig.hooks("anna").len(), rig.hooks("bruno").len()), (1, 2));
}

#[tokio::test]
async fn updates_that_wait_go_some_hundreds_at_once_and_a_new_event_in_between() {
    let mut rig = Rig::fresh().await;
    let bucket = limit(Algorithm::TokenBucket, "1/h", Some(1));
    let of = |who: String| Subscriber {
        policy: Policy::plain(bucket),
        excess: Excess::Digest,
        updates: Updates::Major,
        ..mailed(&who)
    };
    rig.add(&(0..1_100).map(|at| of(format!("s{at}"))).collect::<Vec<_>>());
    rig.poll().await;
    rig.pass(MINUTE);
    let quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    for version in [&quake, &quake.revised(5.8)] {
        rig.show(std::slice::from_ref(version));
        rig.poll().await;
        rig.dispatch().await;
        rig.pass(MINUTE);
    }
    let count = |rig: &Rig, outcome| rig.number(&format!("SELECT count(*) FROM updates WHERE outcome = '{outcome}'"));
    assert_eq!(count(&rig, "waiting"), 1_100);
    rig.pass(HOUR);
    let first = rig.step().await.expect("a step");
    let Dispatched::UpdatesAsked { asked } = first else { panic!("{first:?}") };
    assert_eq!((asked.len(), count(&rig, "sent"), count(&rig, "waiting")), (500, 500, 600));
    assert!(asked.iter().all(|(_, plan)| plan.as_ref().is_some_and(|plan| plan.outcome == UpdateOutcome::Sent)), "{asked:?}");
    rig.show(&[Quake::new(&rig, "us2", 5.2, 1), quake.revised(5.8)]);
    rig.poll().await;
    let next = rig.step().await.expect("a step");
    assert!(matches!(next, Dispatched::Decided { .. }), "{next:?}");
    rig.dispatch().await;
    // Of the others the new event took what there was, and the first 500 hear of it later.
    assert_eq!((count(&rig, "sent"), count(&rig, "waiting")), (500, 600));
    assert_eq!(rig.number("SELECT count(*) FROM decisions WHERE outcome = 'alerted'"), 1_100 + 600);
    for _ in 0..3 {
        rig.pass(HOUR);
        rig.dispatch().await;
    }
    assert_eq!((count(&rig, "sent"), count(&rig, "waiting")), (1_100, 0));
    assert_eq!(rig.number("SELECT count(*) FROM outbox"), 2 * 1_100 + 1_100);
    rig.check_books();
}

#[tokio::test]
async fn new_events_come_before_updates_that_wait_and_what_reverts_is_not_told() {
    let mut rig = with(Updates::Major, |anna| {
        anna.excess = Excess::Digest;
        anna.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
    })
    .await;
    let quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    let larger = quake.revised(6.0);
    then(&mut rig, &larger).await;
    rig.pass(MINUTE);
    let second = Quake { latitude: -10.0, ..Quake::new(&rig, "us2", 5.5, MINUTE) };
    rig.see(&[larger.clone(), second.clone()]).await;
    rig.pass(HOUR);
    rig.settle().await;
    assert_eq!(rig.hooks("anna")[1..], ["1 event withheld, the largest M 5.5 - near us2"]);
    assert_eq!(updates(&rig), ["update waiting"]);
    rig.pass(MINUTE);
    rig.see(&[larger.revised(5.3), second]).await;
    rig.pass(2 * HOUR);
    rig.settle().await;
    assert_eq!(rig.hooks("anna").len(), 2);
    assert_eq!(updates(&rig), ["update superseded"]);
    let row = &rig.store().updates(None, None).expect("the updates")[0];
    assert!(row.reason.ends_with("nothing of it is left to tell"), "{}", row.reason);
    assert_eq!(rig.store().next_wake().expect("read"), None);
    rig.check_books();
}

#[tokio::test]
async fn with_drop_the_ledger_alone_tells_and_shadow_withholds_nothing() {
    let mut rig = with(Updates::All, |anna| anna.policy.limit = limit(Algorithm::SlidingLog, "1/h", None)).await;
    let mut bruno = rig.hooked("bruno");
    bruno.updates = Updates::All;
    bruno.mode = Mode::Shadow;
    bruno.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
    rig.add(&[bruno]);
    rig.pass(1);
    let quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    then(&mut rig, &quake.revised(5.3)).await;
    rig.pass(2 * HOUR);
    rig.settle().await;
    assert_eq!((rig.hooks("anna").len(), rig.hooks("bruno").len()), (1, 2));
    let rows = rig.store().updates(None, None).expect("the updates");
    assert_eq!((rows[0].outcome, rows[0].refused), (UpdateOutcome::Withheld, true));
    assert_eq!((rows[1].outcome, rows[1].refused), (UpdateOutcome::Sent, true));
    rig.check_books();
}

#[tokio::test]
async fn a_large_update_passes_always_and_quiet_hours_hold_a_small_one() {
    let mut rig = with(Updates::Major, |anna| {
        anna.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
        anna.policy.always_from = Some(magnitude(7.0));
    })
    .await;
    let mut bruno = rig.hooked("bruno");
    bruno.updates = Updates::Major;
    rig.add(&[bruno]);
    rig.pass(1);
    let quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    // It is nine o'clock.
    rig.set("bruno", |bruno| bruno.quiet = Some(quiet("08:00-10:00", "UTC", None)));
    then(&mut rig, &quake.revised(7.4)).await;
    assert_eq!(rig.hooks("anna")[1..], ["UPDATE: M 5.2 → 7.4 - near us1"]);
    assert_eq!(rig.hooks("bruno").len(), 1);
    rig.pass(HOUR);
    rig.settle().await;
    assert_eq!(rig.hooks("bruno")[1..], ["UPDATE: M 5.2 → 7.4 - near us1"]);
    rig.check_books();
}

#[tokio::test]
async fn of_what_a_digest_told_the_update_follows_the_digest_and_what_still_waits_is_told_as_it_is() {
    let mut rig = with(Updates::Major, |anna| {
        anna.excess = Excess::Digest;
        anna.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
    })
    .await;
    let first = Quake::new(&rig, "us1", 5.2, 30 * MINUTE);
    let second = Quake::new(&rig, "us2", 5.1, 10 * MINUTE);
    rig.see(&[first.clone(), second.clone()]).await;
    rig.pass(MINUTE);
    // Not told yet: no update, the digest tells the newest.
    let grown = second.revised(6.0);
    rig.see(&[first.clone(), grown.clone()]).await;
    assert_eq!(updates(&rig), [""; 0]);
    rig.pass(HOUR);
    rig.see(&[first.clone(), grown.clone()]).await;
    assert_eq!(rig.hooks("anna")[1..], ["1 event withheld, the largest M 6.0 - near us2"]);
    rig.pass(HOUR);
    rig.see(&[first, grown.revised(6.6)]).await;
    assert_eq!(rig.hooks("anna")[2..], ["UPDATE: M 6.0 → 6.6 - near us2"]);
    assert_eq!(bodies(&rig)[2]["update"]["of"], bodies(&rig)[1]["id"]);
    assert_eq!(kept_first(&rig, 2)["digest"], true);
    assert_eq!(kept_first(&rig, 2)["sent_at"], bodies(&rig)[1]["created_at"]);
    rig.check_books();
}

#[tokio::test]
async fn a_merger_updates_who_was_told_of_either_once() {
    let mut rig = with(Updates::Major, |_| {}).await;
    let first = Quake::new(&rig, "at1", 5.2, 12 * MINUTE);
    let second = Quake::new(&rig, "us2", 5.8, 10 * MINUTE);
    rig.see(std::slice::from_ref(&first)).await;
    rig.pass(MINUTE);
    rig.see(&[first.clone(), second.clone()]).await;
    assert_eq!(rig.hooks("anna").len(), 2);
    then(&mut rig, &Quake { other_ids: vec!["at1".into()], ..second.revised(6.4) }).await;
    assert_eq!(rig.hooks("anna")[2..], ["UPDATE: M 5.8 → 6.4 - near us2"], "from what was told last, once");
    assert_eq!(bodies(&rig)[2]["update"]["of"], bodies(&rig)[0]["id"], "under the first message");
    rig.check_books();
}

#[tokio::test]
async fn emails_thread_under_the_first_alert() {
    let mut rig = Rig::fresh().await;
    rig.add(&[Subscriber { updates: Updates::Major, ..mailed("anna") }]);
    rig.poll().await;
    rig.pass(1);
    let quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    let larger = quake.revised(5.8);
    then(&mut rig, &larger).await;
    then(&mut rig, &withdrawn(&larger)).await;
    let header = |text: &str, name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        found.map(str::to_owned)
    };
    let texts = rig.mail_texts();
    let first = texts.iter().find(|text| subject(text) == "M 5.2 - near us1").expect("the alert");
    let id = header(first, "Message-ID").expect("an id");
    let later: Vec<&String> = texts.iter().filter(|text| *text != first).collect();
    assert_eq!(later.len(), 2);
    for text in later {
        assert_eq!((header(text, "In-Reply-To"), header(text, "References")), (Some(id.clone()), Some(id.clone())), "{text}");
        assert_ne!(header(text, "Message-ID"), Some(id.clone()));
    }
    assert!(texts.iter().any(|text| subject(text) == "WITHDRAWN: M 5.8 - near us1"));
}

#[tokio::test]
async fn a_withdrawal_costs_nothing_goes_to_all_who_were_told_and_ends_what_waits() {
    let mut rig = Rig::with(&[]).await;
    let with_limit = |rig: &Rig, who: &str, updates, excess| {
        let mut subscriber = rig.hooked(who);
        (subscriber.updates, subscriber.excess) = (updates, excess);
        subscriber.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
        subscriber
    };
    // Dora's only admission goes to another event, so that she is not told of this one yet.
    rig.add(&[with_limit(&rig, "dora", Updates::All, Excess::Digest)]);
    rig.pass(1);
    let other = Quake { latitude: -10.0, ..Quake::new(&rig, "us2", 6.0, MINUTE) };
    rig.see(std::slice::from_ref(&other)).await;
    rig.pass(1);
    let others = [
        with_limit(&rig, "anna", Updates::Major, Excess::Drop),
        with_limit(&rig, "bruno", Updates::None, Excess::Drop),
        with_limit(&rig, "clara", Updates::All, Excess::Digest),
    ];
    rig.add(&others);
    rig.pass(1);
    let quake = Quake::new(&rig, "us1", 5.7, MINUTE);
    rig.see(&[other.clone(), quake.clone()]).await;
    rig.pass(MINUTE);
    let larger = quake.revised(6.4);
    rig.see(&[other.clone(), larger.clone()]).await;
    assert_eq!(rig.outcomes("dora"), ["us2 alerted", "us1 pending"]);
    rig.pass(MINUTE);
    rig.see(&[other.clone(), withdrawn(&larger)]).await;
    assert_eq!(rig.hooks("anna"), ["M 5.7 - near us1", "WITHDRAWN: M 6.4 - near us1"]);
    assert_eq!(rig.hooks("clara"), ["M 5.7 - near us1", "WITHDRAWN: M 6.4 - near us1"]);
    assert_eq!(rig.hooks("bruno").len(), 1, "who wants no updates gets none");
    let body = bodies(&rig).into_iter().find(|body| body["type"] == "earthquake.withdrawal").expect("a withdrawal");
    assert_eq!(body["limit"]["remaining"], 0, "the limit is reached, and it came all the same");
    rig.pass(3 * HOUR);
    rig.see(&[other, withdrawn(&larger)]).await;
    assert_eq!(rig.hooks("dora"), ["M 6.0 - near us2"], "what was not told yet is not told");
    assert_eq!(rig.outcomes("dora")[1], "us1 withheld");
    assert_eq!(rig.hooks("anna").len(), 2, "once");
    let clara: Vec<UpdateOutcome> = {
        let key = rig.store().subscriber(&name("clara")).expect("clara").key;
        rig.store().updates(Some(key), None).expect("the updates").iter().map(|row| row.outcome).collect()
    };
    assert_eq!(clara, [UpdateOutcome::Superseded, UpdateOutcome::Sent]);
    rig.check_books();
}

#[tokio::test]
async fn leaving_the_feed_is_no_deletion_and_a_dropped_contribution_neither() {
    let mut rig = with(Updates::All, |_| {}).await;
    let quake = Quake::new(&rig, "pt1", 5.7, MINUTE).renamed("us1");
    rig.see(std::slice::from_ref(&quake)).await;
    rig.pass(MINUTE);
    rig.see(&[]).await;
    rig.pass(MINUTE);
    rig.see(&[Quake { id: "pt1".into(), status: "deleted", other_ids: vec![], ..quake.revised(None) }]).await;
    rig.pass(MINUTE);
    rig.see(&[quake.clone(), Quake { status: "deleted", ..quake.clone() }]).await;
    assert_eq!(rig.hooks("anna").len(), 1);
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE withdrawn_at IS NOT NULL"), 0);
}

#[tokio::test]
async fn a_deletion_that_the_daemon_is_told_of_withdraws_and_a_newer_version_brings_it_back() {
    let mut rig = with(Updates::Major, |_| {}).await;
    let quake = Quake::new(&rig, "us1", 5.7, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    rig.pass(MINUTE);
    let now = throttler::clock::Clock::now(&*rig.clock);
    let id = "us1".parse().expect("an id");
    let database = rig.parts().database.clone();
    let withdraw = async |id: &EventId| {
        let id = id.clone();
        database.with(move |store| store.withdraw(&id, now)).await
    };
    assert!(withdraw(&id).await.expect("withdrawn"));
    assert!(!withdraw(&id).await.expect("read"), "once");
    assert!(!withdraw(&"us9".parse().expect("an id")).await.expect("read"), "nothing is known of it");
    rig.settle().await;
    assert_eq!(rig.hooks("anna")[1..], ["WITHDRAWN: M 5.7 - near us1"]);
    // A cache still shows it as it was.
    then(&mut rig, &quake).await;
    then(&mut rig, &Quake { other_ids: vec!["ak1".into()], ..quake.clone() }).await;
    assert_eq!(rig.hooks("anna").len(), 2);
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE withdrawn_at IS NOT NULL"), 1);
    then(&mut rig, &quake.revised(5.7)).await;
    assert_eq!(rig.hooks("anna")[2..], ["UPDATE: M 5.7 - near us1 (status withdrawn → automatic)"]);
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE withdrawn_at IS NOT NULL"), 0);
    assert_eq!(updates(&rig), ["withdrawal sent", "update sent"]);
    rig.check_books();
}

#[tokio::test]
async fn a_deleted_feature_without_anything_but_its_id_withdraws() {
    let mut rig = with(Updates::Major, |_| {}).await;
    rig.see(&[Quake::new(&rig, "us1", 5.7, MINUTE)]).await;
    rig.pass(MINUTE);
    let generated = throttler::clock::Clock::now(&*rig.clock).millis();
    let body = serde_json::json!({
        "type": "FeatureCollection", "metadata": { "generated": generated, "status": 200 },
        "features": [
            { "type": "Feature", "id": "us1", "properties": { "status": "DELETED", "mag": null, "time": null }, "geometry": null },
            { "type": "Feature", "id": null, "properties": { "status": "deleted" }, "geometry": null },
        ],
    });
    fs::write(rig.path("feed.geojson"), body.to_string()).expect("written");
    assert_eq!(rig.poll().await.withdrawn, 1);
    rig.settle().await;
    assert_eq!(rig.hooks("anna")[1..], ["WITHDRAWN: M 5.7 - near us1"]);
}

#[tokio::test]
async fn a_withdrawn_solution_of_a_quake_that_another_network_knows_is_no_withdrawal() {
    let mut rig = with(Updates::Major, |_| {}).await;
    let first = Quake::new(&rig, "at1", 5.9, 10 * MINUTE);
    let second = Quake { id: "us1".into(), ..first.revised(5.3) };
    rig.see(std::slice::from_ref(&first)).await;
    rig.pass(MINUTE);
    rig.see(&[first.clone(), second.clone()]).await;
    assert_eq!(rig.hooks("anna").len(), 1);
    rig.pass(MINUTE);
    rig.see(&[withdrawn(&first), second.clone()]).await;
    assert_eq!(rig.hooks("anna")[1..], ["UPDATE: M 5.9 → 5.3 - near us1"]);
    then(&mut rig, &second.revised(5.9)).await;
    assert_eq!(rig.hooks("anna")[2..], ["UPDATE: M 5.3 → 5.9 - near us1"]);
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE withdrawn_at IS NOT NULL"), 0);
    rig.check_books();
}

#[tokio::test]
async fn a_pause_a_spoilt_limiter_and_old_age_are_respected() {
    let mut rig = with(Updates::Major, |_| {}).await;
    let mut bruno = rig.hooked("bruno");
    bruno.updates = Updates::Major;
    rig.add(&[bruno]);
    rig.pass(1);
    let quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    rig.stand("anna", Standing::Paused);
    rig.run(
        "UPDATE limiters SET state = x'FF' WHERE subscriber_key = (SELECT subscriber_key FROM subscribers WHERE name = 'bruno')",
    );
    let larger = quake.revised(5.8);
    then(&mut rig, &larger).await;
    assert_eq!(updates(&rig), ["update undecided"], "bruno's");
    rig.stand("anna", Standing::Active);
    let larger = larger.revised(6.4);
    then(&mut rig, &larger).await;
    assert_eq!(rig.hooks("anna")[1..], ["UPDATE: M 5.2 → 6.4 - near us1"]);
    rig.pass(25 * HOUR);
    then(&mut rig, &larger.revised(7.4)).await;
    assert_eq!(rig.hooks("anna").len(), 2, "as late as this nobody is alerted any more, nor told of changes");
    then(&mut rig, &withdrawn(&larger.revised(7.4).revised(7.4))).await;
    assert_eq!(rig.hooks("anna").len(), 3, "but that it was withdrawn, always");
    assert_eq!(rig.ledger()[0].outcome, Outcome::Alerted);
    rig.check_books();
}

/// Shows this version at the clock's time, and decides by what a daemon's clock said `late` seconds before, which waited meanwhile.
async fn decided_late(rig: &mut Rig, quake: &Quake, late: u64) {
    rig.show(std::slice::from_ref(quake));
    rig.poll().await;
    let (database, now) = (rig.parts().database.clone(), rig.clock.now().minus(Span::from_seconds(late)));
    while database.with(move |store| dispatch::step(store, now)).await.expect("a step").is_some() {}
    rig.deliver().await;
}

#[tokio::test]
async fn nothing_is_dated_before_what_it_tells_though_its_clock_was_read_earlier() {
    let mut rig = with(Updates::All, |_| {}).await;
    let mut digesting = rig.hooked("bruno");
    (digesting.excess, digesting.updates) = (Excess::Digest, Updates::All);
    digesting.policy.limit = limit(Algorithm::TokenBucket, "1/h", Some(1));
    rig.add(&[digesting]);
    rig.pass(MINUTE);
    let (first, mut second) = (Quake::new(&rig, "us1", 5.2, MINUTE), Quake::new(&rig, "us2", 5.4, MINUTE));
    decided_late(&mut rig, &first, 6).await;
    decided_late(&mut rig, &second, 6).await;
    let early = "SELECT count(*) FROM decisions JOIN events USING (event_key) WHERE decided_at < first_seen_at";
    assert_eq!(rig.number(early), 0);
    assert_eq!(rig.outcomes("bruno"), ["us1 alerted", "us2 pending"]);
    // What comes while bruno's digest waits is in it, and is not told again.
    rig.pass(HOUR);
    second = second.revised(6.1);
    decided_late(&mut rig, &second, 6).await;
    rig.pass(10);
    rig.settle().await;
    assert_eq!(rig.hooks("anna"), ["M 5.2 - near us1", "M 5.4 - near us2", "UPDATE: M 5.4 → 6.1 - near us2"]);
    assert_eq!(rig.hooks("bruno").len(), 2, "{:?}", rig.hooks("bruno"));
    let early = "SELECT count(*) FROM updates WHERE decided_at < revision";
    assert_eq!((rig.number(early), updates(&rig)), (0, vec!["update sent".to_owned()]));
    rig.check_books();
}

#[tokio::test]
async fn nobody_waits_until_a_clock_that_was_far_ahead_is_right() {
    let mut rig = with(Updates::All, |_| {}).await;
    let mut quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    for (value, told) in [(5.2, 1), (5.8, 2)] {
        quake = quake.revised(value);
        rig.pass(MINUTE);
        rig.show(std::slice::from_ref(&quake));
        rig.clock.set(rig.clock_plus(2 * HOUR));
        rig.poll().await;
        rig.clock.set(rig.clock.now().minus(Span::from_seconds(2 * HOUR)));
        rig.dispatch().await;
        rig.deliver().await;
        assert_eq!(rig.hooks("anna").len(), told, "at {value}");
    }
    assert_eq!(rig.hooks("anna"), ["M 5.2 - near us1", "UPDATE: M 5.2 → 5.8 - near us1"]);
}

#[tokio::test]
async fn of_an_alert_that_is_dated_before_its_event_the_update_is_told_all_the_same() {
    let mut rig = with(Updates::All, |_| {}).await;
    let quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    rig.run("UPDATE outbox SET created_at = created_at - 6000000");
    then(&mut rig, &quake.revised(5.8)).await;
    assert_eq!(rig.hooks("anna"), ["M 5.2 - near us1", "UPDATE: M 5.2 → 5.8 - near us1"]);
}

#[tokio::test]
async fn a_version_that_is_seen_when_the_clock_was_set_back_is_the_newest() {
    let mut rig = with(Updates::All, |_| {}).await;
    let mut quake = Quake::new(&rig, "us1", 5.2, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    for value in [5.8, 6.4] {
        quake = quake.revised(value);
        rig.pass(1);
        rig.show(std::slice::from_ref(&quake));
        rig.clock.set(rig.clock.now().minus(Span::from_seconds(20)));
        rig.poll().await;
        rig.clock.set(rig.clock.now().plus(Span::from_seconds(20)));
        rig.dispatch().await;
        rig.deliver().await;
    }
    assert_eq!(rig.hooks("anna"), ["M 5.2 - near us1", "UPDATE: M 5.2 → 5.8 - near us1", "UPDATE: M 5.8 → 6.4 - near us1"]);
    let newest = "SELECT r.body FROM revisions AS r ORDER BY seen_at DESC LIMIT 1";
    assert!(rig.text(newest).contains("6.4"), "{}", rig.text(newest));
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE changed_at = (SELECT max(seen_at) FROM revisions)"), 1);
    rig.check_books();
}
