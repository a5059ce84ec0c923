//! Implausibly large events that one network alone gives automatically: they wait until somebody confirms them, not for ever.

use throttler::news::Confirmation;
use throttler::subscriber::{Excess, Updates};
use throttler::time::Span;

use crate::rig::{HOUR, MINUTE, Quake, Rig, limit, magnitude};

/// A rig with anna, where M 8 or more waits ten minutes for confirmation.
async fn with_anna() -> Rig {
    let mut rig = Rig::fresh().await;
    rig.rules.confirm = Some(Confirmation { from: magnitude(8.0), wait: Span::from_seconds(10 * MINUTE) });
    rig.restart().await;
    let mut anna = rig.hooked("anna");
    anna.updates = Updates::Major;
    rig.add(&[anna]);
    rig.poll().await;
    rig.pass(MINUTE);
    rig
}

/// Shows these a minute later, after a crash.
async fn then(rig: &mut Rig, quakes: &[Quake]) {
    rig.pass(MINUTE);
    rig.restart().await;
    rig.see(quakes).await;
}

fn history(rig: &Rig) -> Vec<String> {
    let rows = rig.store().history(&"us1".parse().expect("an id")).expect("the history");
    rows.into_iter().map(|row| row.changes).collect()
}

#[tokio::test]
async fn a_bulletin_of_9_for_0_9_that_is_corrected_alerts_nobody() {
    let mut rig = with_anna().await;
    let quake = Quake::new(&rig, "us1", 9.0, MINUTE);
    rig.show(std::slice::from_ref(&quake));
    let ingested = rig.poll().await;
    assert_eq!((ingested.new, ingested.to_dispatch), (1, 0));
    assert_eq!(ingested.notes, ["us1 (M 9.0 - near us1) awaits confirmation until 2025-08-05T09:11:00.000Z"]);
    rig.settle().await;
    then(&mut rig, &[quake.revised(9.1)]).await;
    then(&mut rig, &[quake.revised(9.1).revised(0.9)]).await;
    rig.pass(HOUR);
    rig.settle().await;
    assert_eq!(rig.hooks("anna"), [""; 0]);
    assert_eq!(rig.ledger().len(), 0);
    assert_eq!(
        history(&rig),
        ["new, awaits confirmation until 2025-08-05T09:11:00.000Z", "magnitude", "magnitude, awaits no confirmation any more"]
    );
    rig.check_books();
}

#[tokio::test]
async fn without_the_setting_nothing_waits_and_below_it_or_reviewed_neither() {
    let mut rig = with_anna().await;
    let quakes = [
        Quake::new(&rig, "us1", 7.9, MINUTE),
        Quake { status: "reviewed", latitude: 10.0, ..Quake::new(&rig, "us2", 8.4, MINUTE) },
        Quake { latitude: 20.0, ..Quake::new(&rig, "us3", 8.6, MINUTE).renamed("pt3") },
    ];
    rig.see(&quakes).await;
    assert_eq!(rig.hooks("anna").len(), 3);
    rig.rules.confirm = None;
    rig.restart().await;
    rig.pass(MINUTE);
    rig.see(&[Quake { latitude: 30.0, ..Quake::new(&rig, "us4", 9.2, MINUTE) }]).await;
    assert_eq!(rig.hooks("anna").len(), 4);
}

#[tokio::test]
async fn it_is_told_as_soon_as_it_is_confirmed_or_believable() {
    type Edit = fn(&Quake) -> Vec<Quake>;
    let edits: [(&str, Edit); 4] = [
        ("M 8.8 - near us1", |quake| vec![Quake { status: "reviewed", ..quake.revised(8.8) }]),
        ("M 8.8 - near pt1", |quake| vec![quake.revised(8.8).renamed("pt1")]),
        ("M 7.6 - near us1", |quake| vec![quake.revised(7.6)]),
        // Another network, not linked.
        ("M 8.8 - near us1", |quake| vec![quake.clone(), Quake { id: "at1".into(), ..quake.revised(8.5) }]),
    ];
    for (told, edit) in edits {
        let mut rig = with_anna().await;
        let quake = Quake::new(&rig, "us1", 8.8, MINUTE);
        rig.see(std::slice::from_ref(&quake)).await;
        assert_eq!(rig.hooks("anna"), [""; 0]);
        then(&mut rig, &edit(&quake)).await;
        assert_eq!(rig.hooks("anna"), [told]);
        assert_eq!(rig.receiver.requests()[0].body["unconfirmed"], false);
        rig.pass(HOUR);
        rig.settle().await;
        assert_eq!(rig.hooks("anna").len(), 1, "once: {told}");
        rig.check_books();
    }
}

#[tokio::test]
async fn when_the_time_has_run_out_it_is_told_as_unconfirmed() {
    let mut rig = with_anna().await;
    let quake = Quake::new(&rig, "us1", 8.8, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    assert_eq!(rig.store().next_wake().expect("read"), Some(rig.clock_plus(10 * MINUTE)));
    rig.pass(10 * MINUTE - 1);
    rig.settle().await;
    assert_eq!(rig.hooks("anna"), [""; 0], "not a second too early");
    rig.restart().await;
    rig.pass(1);
    rig.settle().await;
    assert_eq!(rig.hooks("anna"), ["M 8.8 - near us1 (unconfirmed)"]);
    assert_eq!(rig.receiver.requests()[0].body["unconfirmed"], true);
    let reason = rig.ledger()[0].reason.clone();
    assert!(
        reason.ends_with("unconfirmed: only one network's automatic solution says so, and the time to confirm it ran out"),
        "{reason}"
    );
    assert_eq!(history(&rig)[1], "not confirmed in time, so told unconfirmed");
    // It does not wait again, and what was a mistake is told as any change.
    then(&mut rig, &[quake.revised(8.9)]).await;
    assert_eq!(rig.store().next_wake().expect("read"), None);
    then(&mut rig, &[quake.revised(8.9).revised(5.9)]).await;
    assert_eq!(rig.hooks("anna")[1..], ["UPDATE: M 8.8 → 5.9 - near us1"]);
    rig.check_books();
}

#[tokio::test]
async fn what_was_seen_in_time_is_told_however_long_the_daemon_was_down() {
    let mut rig = with_anna().await;
    rig.see(&[Quake::new(&rig, "us1", 8.8, MINUTE)]).await;
    rig.pass(30 * HOUR);
    rig.restart().await;
    rig.settle().await;
    assert_eq!(rig.hooks("anna"), ["M 8.8 - near us1 (unconfirmed) (late)"]);
}

#[tokio::test]
async fn one_that_grows_to_the_bound_waits_with_its_update() {
    let mut rig = with_anna().await;
    let quake = Quake::new(&rig, "us1", 7.5, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    then(&mut rig, &[quake.revised(9.5)]).await;
    assert_eq!(rig.hooks("anna"), ["M 7.5 - near us1"]);
    then(&mut rig, &[quake.revised(9.5).revised(7.6)]).await;
    assert_eq!(rig.hooks("anna").len(), 1, "a mistake that was mended");
    let grown = quake.revised(9.5).revised(7.6).revised(8.2);
    then(&mut rig, std::slice::from_ref(&grown)).await;
    assert_eq!(rig.hooks("anna").len(), 1);
    then(&mut rig, &[Quake { status: "reviewed", ..grown.revised(8.2) }]).await;
    assert_eq!(rig.hooks("anna")[1..], ["UPDATE: M 7.5 → 8.2 - near us1"]);
    rig.check_books();
}

#[tokio::test]
async fn one_that_is_withdrawn_while_it_waits_is_never_told() {
    let mut rig = with_anna().await;
    let quake = Quake::new(&rig, "us1", 9.0, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    then(&mut rig, &[Quake { status: "deleted", ..quake.revised(9.0) }]).await;
    rig.pass(HOUR);
    rig.settle().await;
    assert_eq!(rig.hooks("anna"), [""; 0]);
    assert_eq!(rig.store().next_wake().expect("read"), None);
    rig.check_books();
}

#[tokio::test]
async fn a_delayed_alert_says_that_it_is_unconfirmed_too() {
    let mut rig = with_anna().await;
    rig.set("anna", |anna| {
        anna.excess = Excess::Delay;
        anna.policy.limit = limit(throttler::limiter::Algorithm::SlidingLog, "1/h", None);
    });
    rig.pass(1);
    let other = Quake { latitude: -10.0, ..Quake::new(&rig, "us2", 6.0, MINUTE) };
    let quake = Quake::new(&rig, "us1", 8.8, MINUTE);
    rig.see(&[other, quake]).await;
    rig.pass(10 * MINUTE);
    rig.settle().await;
    rig.pass(HOUR);
    rig.settle().await;
    assert_eq!(rig.hooks("anna"), ["M 6.0 - near us2", "M 8.8 - near us1 (unconfirmed) (late)"]);
    rig.check_books();
}
