//! Events that were told and are gone from the feed: the service is asked, politely, and only its word counts.

use throttler::clock::Clock;
use throttler::subscriber::Updates;
use throttler::time::Span;

use crate::rig::{HOUR, MINUTE, Rig, start};
use crate::usgs::{Listed, Service, Usgs};

/// A rig that was alerted of these events, which happened just before.
async fn alerted(events: &[(&str, f64)]) -> (Rig, Usgs) {
    let usgs = Usgs::start(Service { now: Some(start()), limit: 20_000, ..Service::default() }).await;
    let mut rig = Rig::fresh().await;
    rig.feed_url = Some(usgs.feed("4.5_day"));
    rig.fdsn = Some(usgs.fdsn());
    let mut anna = rig.hooked("anna");
    anna.updates = Updates::Major;
    rig.add(&[anna]);
    rig.restart().await;
    poll(&mut rig, &usgs).await;
    rig.pass(MINUTE);
    usgs.service().events = events.iter().map(|(id, magnitude)| Listed::new(id, start(), *magnitude)).collect();
    poll(&mut rig, &usgs).await;
    (rig, usgs)
}

async fn poll(rig: &mut Rig, usgs: &Usgs) {
    usgs.service().now = Some(rig.clock.now());
    rig.poll().await;
    rig.settle().await;
}

/// The ids that the service was asked about since this was last looked at.
fn asked(usgs: &Usgs) -> Vec<String> {
    let asked = std::mem::take(&mut usgs.service().asked);
    asked.iter().filter_map(|url| url.split_once("eventid=")?.1.split('&').next().map(str::to_owned)).collect()
}

#[tokio::test]
async fn what_is_still_shown_or_was_never_told_is_not_asked_about() {
    let (mut rig, usgs) = alerted(&[("told", 5.5), ("small", 4.6)]).await;
    rig.pass(MINUTE);
    poll(&mut rig, &usgs).await;
    assert_eq!(asked(&usgs), [""; 0], "both are there");
    usgs.service().events.remove(1);
    rig.pass(MINUTE);
    poll(&mut rig, &usgs).await;
    assert_eq!(asked(&usgs), [""; 0], "nobody was told of the small one");
    usgs.service().events.clear();
    rig.pass(24 * HOUR);
    poll(&mut rig, &usgs).await;
    assert_eq!(asked(&usgs), [""; 0], "it is too old for the feed");
}

#[tokio::test]
async fn a_deletion_that_the_service_confirms_is_told_once_to_those_who_were_alerted() {
    let (mut rig, usgs) = alerted(&[("told", 5.5)]).await;
    usgs.service().events.clear();
    usgs.service().deleted.push("told".into());
    for _ in 0..40 {
        rig.pass(MINUTE);
        poll(&mut rig, &usgs).await;
    }
    assert_eq!(asked(&usgs), ["told"], "what is withdrawn is not asked about again");
    let kinds: Vec<_> = rig.receiver.requests().into_iter().map(|request| request.body["type"].clone()).collect();
    assert_eq!(kinds, ["earthquake.alert", "earthquake.withdrawal"]);
    rig.check_books();
}

#[tokio::test]
async fn one_that_fell_below_the_threshold_is_revised_and_not_asked_about_again() {
    let (mut rig, usgs) = alerted(&[("told", 5.5)]).await;
    {
        let mut service = usgs.service();
        service.events[0].magnitude = 4.3;
        service.events[0].updated_at = rig.clock.now().plus(Span::from_seconds(HOUR));
    }
    for _ in 0..40 {
        rig.pass(MINUTE);
        poll(&mut rig, &usgs).await;
    }
    assert_eq!(asked(&usgs), ["told"]);
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE preferred_id = 'told' AND magnitude = 4.3"), 1);
    assert_eq!(rig.outcomes("anna"), ["told alerted"]);
    rig.check_books();
}

#[tokio::test]
async fn one_that_nobody_knows_changes_nothing() {
    let (mut rig, usgs) = alerted(&[("told", 5.5)]).await;
    let before = rig.number("SELECT count(*) FROM revisions");
    usgs.service().events.clear();
    for _ in 0..31 {
        rig.pass(MINUTE);
        poll(&mut rig, &usgs).await;
    }
    assert_eq!(asked(&usgs), ["told"; 3], "every quarter of an hour");
    assert_eq!(rig.number("SELECT count(*) FROM revisions"), before);
    // Back again: no second alert.
    usgs.service().events = vec![Listed::new("told", start(), 5.5)];
    rig.pass(MINUTE);
    poll(&mut rig, &usgs).await;
    assert_eq!(rig.outcomes("anna"), ["told alerted"]);
}

#[tokio::test]
async fn a_few_are_asked_about_at_a_time() {
    let all = [("a", 5.0), ("b", 5.1), ("c", 5.2), ("d", 5.3), ("e", 5.4)];
    let (mut rig, usgs) = alerted(&all).await;
    usgs.service().events.clear();
    let mut seen = Vec::new();
    for expected in [3, 2, 0] {
        rig.pass(MINUTE);
        poll(&mut rig, &usgs).await;
        let asked = asked(&usgs);
        assert_eq!(asked.len(), expected);
        seen.extend(asked);
    }
    seen.sort();
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
}
