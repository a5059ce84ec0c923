//! The JSON body of a webhook, schema `throttler.alert.v1`. Keys may be added; none is renamed or removed without a new
//! version. Times are RFC 3339 in UTC, numbers are in the unit of their suffix.

use serde::Serialize;

use crate::alert::{Alert, Content, Digest};
use crate::event::{Event, EventId, Magnitude, PagerLevel};
use crate::identity::Change;
use crate::notice::{Item, Notice, Section, What};
use crate::rate::Rate;
use crate::time::Timestamp;

/// The name and version of the body's schema.
pub const SCHEMA: &str = "throttler.alert.v1";

#[derive(Serialize)]
struct Body<'a> {
    schema: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    /// The same at every attempt, and equal to the header `webhook-id`.
    id: &'a str,
    created_at: Timestamp,
    subscriber: &'a str,
    /// One line for people.
    title: String,
    /// Only in a test of the subscription.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    exercise: bool,
    #[serde(flatten)]
    content: BodyContent<'a>,
    limit: Limit<'a>,
    /// Where the operator has such pages: a POST of `List-Unsubscribe=One-Click` to it ends the subscription (RFC 8058).
    #[serde(skip_serializing_if = "Option::is_none")]
    unsubscribe_url: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum BodyContent<'a> {
    Event { event: BodyEvent<'a>, late: bool, unconfirmed: bool },
    Digest { digest: BodyDigest<'a> },
    Update { event: BodyEvent<'a>, update: BodyUpdate<'a> },
    Withdrawal { event: BodyEvent<'a>, withdrawal: BodyWithdrawal<'a> },
    Notice { notice: BodyNotice<'a> },
}

#[derive(Serialize)]
struct BodyNotice<'a> {
    changes: Vec<BodyChange<'a>>,
}

#[derive(Serialize)]
struct BodyChange<'a> {
    what: What,
    count: u64,
    text: String,
    to_do: &'static str,
    /// Those noticed first; `count` may be more.
    listed: Vec<BodyItem<'a>>,
}

#[derive(Serialize)]
struct BodyItem<'a> {
    /// Null where it is the feed.
    subscriber: Option<&'a str>,
    noticed_at: Timestamp,
    since: Timestamp,
    detail: &'a str,
}

#[derive(Serialize)]
struct BodyUpdate<'a> {
    /// The id of the message that first told of the event.
    of: &'a str,
    changes: &'a [Change],
    /// The event as the subscriber was last told.
    before: BodyEvent<'a>,
}

#[derive(Serialize)]
struct BodyWithdrawal<'a> {
    of: &'a str,
}

#[derive(Serialize)]
struct BodyDigest<'a> {
    since: Timestamp,
    count: u64,
    /// The largest first; `count` may be more.
    events: Vec<BodyEvent<'a>>,
}

#[derive(Serialize)]
struct BodyEvent<'a> {
    id: &'a EventId,
    ids: &'a [EventId],
    origin_at: Timestamp,
    updated_at: Option<Timestamp>,
    magnitude: Option<Magnitude>,
    magnitude_type: Option<&'a str>,
    place: &'a str,
    latitude: f64,
    longitude: f64,
    depth_km: Option<f64>,
    #[serde(rename = "type")]
    kind: &'a str,
    status: &'a str,
    tsunami: bool,
    pager: Option<PagerLevel>,
    url: Option<&'a str>,
}

#[derive(Serialize)]
struct Limit<'a> {
    reason: &'a str,
    promise: &'a str,
    rate: Rate,
    burst: u64,
    remaining: u64,
    retry_at: Timestamp,
    reset_at: Timestamp,
}

/// The body, byte for byte the same for the same alert.
pub(super) fn of(alert: &Alert) -> Vec<u8> {
    // Strings, numbers and named fields only, written to memory: nothing in it can fail.
    serde_json::to_vec(&body(alert)).unwrap_or_default()
}

/// The body's keys and values, for those who write another.
pub(super) fn value(alert: &Alert) -> serde_json::Value {
    // As above.
    serde_json::to_value(body(alert)).unwrap_or_default()
}

fn body(alert: &Alert) -> Body<'_> {
    let explanation = &alert.explanation;
    let (kind, content) = match &alert.content {
        Content::Event { event, late, unconfirmed } => {
            let content = BodyContent::Event { event: event.as_ref().into(), late: *late, unconfirmed: *unconfirmed };
            ("earthquake.alert", content)
        }
        Content::Digest(digest) => ("earthquake.digest", BodyContent::Digest { digest: digest.into() }),
        Content::Update(update) => {
            let told = BodyUpdate { of: &update.of.id, changes: &update.changes, before: (&update.before).into() };
            ("earthquake.update", BodyContent::Update { event: (&update.event).into(), update: told })
        }
        Content::Withdrawal { event, of } => {
            let withdrawal = BodyWithdrawal { of: &of.id };
            ("earthquake.withdrawal", BodyContent::Withdrawal { event: event.as_ref().into(), withdrawal })
        }
        Content::Notice(notice) => ("notice", BodyContent::Notice { notice: notice.into() }),
        Content::Exercise(event) => {
            ("earthquake.alert", BodyContent::Event { event: event.as_ref().into(), late: false, unconfirmed: false })
        }
    };
    Body {
        schema: SCHEMA,
        kind,
        id: &alert.id,
        created_at: alert.created_at,
        subscriber: &alert.subscriber,
        title: alert.title(),
        exercise: matches!(alert.content, Content::Exercise(_) | Content::Notice(Notice { exercise: true, .. })),
        content,
        limit: Limit {
            reason: &explanation.reason,
            promise: &explanation.promise,
            rate: explanation.rate,
            burst: explanation.burst,
            remaining: explanation.remaining,
            retry_at: explanation.retry_at,
            reset_at: explanation.reset_at,
        },
        unsubscribe_url: alert.unsubscribe_url.as_deref(),
    }
}

impl<'a> From<&'a Notice> for BodyNotice<'a> {
    fn from(notice: &'a Notice) -> BodyNotice<'a> {
        BodyNotice { changes: notice.sections.iter().map(BodyChange::from).collect() }
    }
}

impl<'a> From<&'a Section> for BodyChange<'a> {
    fn from(section: &'a Section) -> BodyChange<'a> {
        let item = |item: &'a Item| BodyItem {
            subscriber: item.subscriber.as_deref(),
            noticed_at: item.noticed_at,
            since: item.since,
            detail: &item.detail,
        };
        BodyChange {
            what: section.what,
            count: section.count,
            text: section.in_words(),
            to_do: section.what.advice(),
            listed: section.listed.iter().map(item).collect(),
        }
    }
}

impl<'a> From<&'a Digest> for BodyDigest<'a> {
    fn from(digest: &'a Digest) -> BodyDigest<'a> {
        BodyDigest { since: digest.since, count: digest.count, events: digest.events.iter().map(BodyEvent::from).collect() }
    }
}

impl<'a> From<&'a Event> for BodyEvent<'a> {
    fn from(event: &'a Event) -> BodyEvent<'a> {
        BodyEvent {
            id: &event.id,
            ids: &event.ids,
            origin_at: event.origin_at,
            updated_at: event.updated_at,
            magnitude: event.magnitude,
            magnitude_type: event.magnitude_type.as_deref(),
            place: &event.place,
            latitude: event.coordinates.latitude(),
            longitude: event.coordinates.longitude(),
            depth_km: event.depth_km,
            kind: &event.kind,
            status: &event.status,
            tsunami: event.tsunami,
            pager: event.pager,
            url: event.url.as_deref(),
        }
    }
}
