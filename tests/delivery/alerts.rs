//! Alerts to deliver, written by hand in the shape of the captures.

use throttler::alert::{Alert, Content, Digest, Explanation, First, Update};
use throttler::event::{Coordinates, Event, Magnitude, PagerLevel, WITHDRAWN};
use throttler::notice::{Item, Notice, Section, What};
use throttler::revision::visible;
use throttler::time::Timestamp;

pub fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

/// The M 8.8 as the feed showed it.
pub fn great() -> Event {
    Event {
        id: "us6000qw60".parse().expect("id"),
        ids: vec!["at00t06y4o".parse().expect("id"), "us6000qw60".parse().expect("id")],
        origin_at: at("2025-07-29T23:24:52.483Z"),
        updated_at: Some(at("2025-07-29T23:40:00Z")),
        magnitude: Some(Magnitude::new(8.8).expect("8.8")),
        magnitude_type: Some("mww".into()),
        place: "2025 Kamchatka Peninsula, Russia Earthquake".into(),
        coordinates: Coordinates::new(52.498, 160.264).expect("coordinates"),
        depth_km: Some(35.0),
        kind: "earthquake".into(),
        status: "reviewed".into(),
        tsunami: true,
        pager: Some(PagerLevel::Red),
        url: Some("https://earthquake.usgs.gov/earthquakes/eventpage/us6000qw60".into()),
    }
}

/// An aftershock of which less is known.
pub fn small(id: &str, magnitude: f64, origin_at: &str, place: &str) -> Event {
    Event {
        id: id.parse().expect("id"),
        ids: vec![id.parse().expect("id")],
        origin_at: at(origin_at),
        updated_at: None,
        magnitude: Some(Magnitude::new(magnitude).expect("magnitude")),
        magnitude_type: None,
        place: place.into(),
        coordinates: Coordinates::new(-5.25, -101.5).expect("coordinates"),
        depth_km: None,
        kind: "earthquake".into(),
        status: "automatic".into(),
        tsunami: false,
        pager: None,
        url: None,
    }
}

pub fn explanation() -> Explanation {
    Explanation {
        reason: "You asked for earthquakes of M 5.0 and above".into(),
        promise: "At most 74 alerts at once and 5 per hour in the long run.".into(),
        rate: "5/h".parse().expect("rate"),
        burst: 74,
        remaining: 12,
        retry_at: at("2025-07-29T23:30:00Z"),
        reset_at: at("2025-07-30T11:54:00Z"),
    }
}

/// The alert about the M 8.8, five minutes after it.
pub fn event_alert() -> Alert {
    Alert {
        id: "alert-us6000qw60-anna".into(),
        subscriber: "anna".into(),
        created_at: at("2025-07-29T23:30:00Z"),
        content: Content::Event { event: std::sync::Arc::new(great()), late: false, unconfirmed: false },
        explanation: explanation(),
        unsubscribe_url: None,
    }
}

/// The same alert of an installation that has pages to unsubscribe on.
pub fn leavable_alert() -> Alert {
    let page = "https://alerts.example.org/unsubscribe/AAAAAAAAAAHs3kQ0Tt0Zb2pZ0a9vO3mC".to_owned();
    Alert { unsubscribe_url: Some(page), ..event_alert() }
}

/// The same alert, after an outage.
pub fn late_alert() -> Alert {
    let mut alert = event_alert();
    alert.created_at = at("2025-07-30T01:30:00Z");
    alert.content = Content::Event { event: std::sync::Arc::new(great()), late: true, unconfirmed: false };
    alert.explanation.remaining = 0;
    alert.explanation.retry_at = at("2025-07-30T01:42:00.250Z");
    alert
}

/// A digest of three, of which two are listed.
pub fn digest_alert() -> Alert {
    let mut alert = event_alert();
    alert.id = "digest-anna-7".into();
    alert.created_at = at("2025-07-30T02:00:00Z");
    alert.content = Content::Digest(Digest {
        since: at("2025-07-29T23:50:00Z"),
        count: 3,
        events: vec![
            great(),
            small("us6000qw6q", 5.2, "2025-07-30T00:09:55.1Z", "125 km SE of Petropavlovsk-Kamchatsky, Russia"),
        ],
    });
    alert.explanation.remaining = 1;
    alert.explanation.retry_at = alert.created_at;
    alert
}

/// What changed of the M 8.8 since it was first told of as M 8.0.
pub fn update_alert() -> Alert {
    let before = Event {
        id: "at00t06y4o".parse().expect("id"),
        ids: vec!["at00t06y4o".parse().expect("id")],
        origin_at: at("2025-07-29T23:24:50Z"),
        magnitude: Some(Magnitude::new(8.0).expect("8.0")),
        magnitude_type: Some("Mi".into()),
        place: "136 km ESE of Petropavlovsk-Kamchatsky, Russia".into(),
        depth_km: Some(74.0),
        pager: None,
        ..great()
    };
    let changes = visible(&before, &great());
    let mut alert = event_alert();
    alert.id = "alert-us6000qw60-anna-2".into();
    alert.created_at = at("2025-07-29T23:50:00Z");
    alert.content = Content::Update(Box::new(Update { event: great(), before, changes, of: first(&event_alert()) }));
    alert.explanation.reason = "you were told of this event before; within the limit, which has room for 12 more now".into();
    alert.explanation.retry_at = alert.created_at;
    alert
}

/// The M 8.8, if it had been a mistake.
pub fn withdrawal_alert() -> Alert {
    let mut alert = update_alert();
    alert.id = "alert-us6000qw60-anna-3".into();
    let event = Event { status: WITHDRAWN.into(), ..great() };
    alert.content = Content::Withdrawal { event: Box::new(event), of: first(&event_alert()) };
    alert.explanation.reason = "you were told of this event before; the service withdrew the event, which costs nothing".into();
    alert
}

/// The message as a later one refers to it.
pub fn first(alert: &Alert) -> First {
    First { id: alert.id.clone(), sent_at: alert.created_at, digest: matches!(alert.content, Content::Digest(_)) }
}

/// A test of the subscription.
pub fn exercise_alert() -> Alert {
    Alert::exercise("anna".into(), explanation(), at("2025-07-29T23:30:00Z"))
}

/// What the operator is told when much has changed at once.
pub fn notice_alert() -> Alert {
    let item = |subscriber: Option<&str>, since: &str, detail: &str| Item {
        subscriber: subscriber.map(str::to_owned),
        noticed_at: at("2025-07-30T02:00:00Z"),
        since: at(since),
        detail: detail.to_owned(),
    };
    let section = |what, count, listed| Section { what, count, listed };
    let feed = "the feed is stale: no poll has succeeded since 2025-07-30T01:29:00.000Z";
    let gone = "https://hooks.example.org: answered 410 Gone (the receiver wants no more); the subscriber is disabled";
    let full = "email: given up after 31 attempts in 1d: mail.example.org refused the recipient: 452 4.2.2 mailbox full";
    let withheld = throttler::withholding::RULE;
    let sections = vec![
        section(What::FeedStale, 1, vec![item(None, "2025-07-30T01:29:00Z", feed)]),
        section(
            What::DestinationDead,
            1_214,
            vec![item(Some("anna"), "2025-07-30T01:58:12.5Z", gone), item(Some("ben"), "2025-07-30T01:59:00Z", full)],
        ),
        section(What::WithholdingBegan, 1, vec![item(Some("clara"), "2025-07-27T02:00:00Z", withheld)]),
    ];
    let explanation = Explanation {
        reason: "you are the operator, and the configuration asks for notices of this kind".into(),
        promise: "at most 6 in any hour".into(),
        rate: "6/h".parse().expect("rate"),
        burst: 6,
        remaining: 0,
        retry_at: at("2025-07-30T02:41:00Z"),
        reset_at: at("2025-07-30T03:01:00Z"),
    };
    Alert::notice(
        "k3v9x1-notice-1216-webhook".into(),
        Notice { sections, exercise: false },
        explanation,
        at("2025-07-30T02:01:00Z"),
    )
}

/// A message of every kind that subscribers get, each with a name.
pub fn every_kind() -> Vec<(&'static str, Alert)> {
    let all = vec![event_alert(), late_alert(), digest_alert(), update_alert(), withdrawal_alert(), exercise_alert()];
    // A kind that is not among them yet fails to compile here.
    let name = |alert: &Alert| match alert.content {
        Content::Event { late: false, .. } => "event",
        Content::Event { late: true, .. } => "late",
        Content::Digest(_) => "digest",
        Content::Update(_) => "update",
        Content::Withdrawal { .. } => "withdrawal",
        Content::Exercise(_) => "exercise",
        Content::Notice(_) => "notice",
    };
    all.into_iter().map(|alert| (name(&alert), alert)).collect()
}

/// A digest that lists as many events as there can be, of ninety, with places as long as they come.
pub fn longest_digest() -> Alert {
    let mut alert = digest_alert();
    let place = "Ōfunato & <Kamchatka> ".repeat(9);
    let event = |n: usize| small(&format!("us{n:04}"), 6.0, "2025-07-30T00:09:55.1Z", &place[..place.len().min(205)]);
    alert.content =
        Content::Digest(Digest { since: at("2025-07-29T23:50:00Z"), count: 90, events: (0..50).map(event).collect() });
    alert
}

/// Texts that try to become markup, headers, lines, links or other directions.
pub fn hostile_alert() -> Alert {
    let mut event = great();
    event.place = "</td><script>alert('x')</script>\r\nBcc: eve@example.org\r\n\r\n.\r\nQUIT \u{202e}\"Ōfunato\" & Пётр".into();
    event.magnitude_type = Some("<b>mww</b>".into());
    event.kind = "quarry\nblast<img src=x>".into();
    event.status = "\u{1b}[31mreviewed".into();
    event.url = Some("javascript:alert(1)//https://example.org".into());
    let mut alert = event_alert();
    alert.id = "../../etc/passwd\r\nX-Evil: 1 <a@b>".into();
    alert.subscriber = "anna\"><script>\r\nBcc: eve@example.org".into();
    alert.content = Content::Event { event: std::sync::Arc::new(event), late: false, unconfirmed: false };
    alert.explanation.reason = "because <you>\nasked".into();
    alert.explanation.promise = "5 & more".into();
    alert
}
