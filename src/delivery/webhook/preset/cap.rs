//! A message in the Common Alerting Protocol, version 1.2 (OASIS, docs.oasis-open.org/emergency/cap/v1.2), in XML.
//!
//! The rules by which its words are chosen; `docs/delivery.md` tells them to those who receive it:
//!
//! | element | |
//! |---|---|
//! | `status` | `Exercise` for a test of the subscription, else `Actual` |
//! | `msgType`, `references` | `Update` and `Cancel` refer to the alert that first told of the event; else, and where that was a digest, whose other events stand, `Alert` |
//! | `scope` | `Public`: what is told is public |
//! | `urgency` | `Immediate` within an hour of the origin, else, for a digest and for a withdrawal `Past` |
//! | `severity` | by PAGER, else by magnitude, see `severity` |
//! | `certainty` | `Observed` when reviewed, `Likely` while automatic, `Possible` when it was not confirmed in time, `Unlikely` when withdrawn, else `Unknown` |
//! | `expires` | a day after `sent` |
//! | `circle` | the epicentre, radius 0: no claim is made about where it was felt |

use std::io;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event as Xml};

use super::severity::Severity;
use super::{detail_lines, ending_lines, row_lines};
use crate::alert::{Alert, Content, First, LATE_AFTER};
use crate::delivery::render::Facts;
use crate::event::Event;
use crate::plain::one_line;
use crate::time::{Span, Timestamp};

const NAMESPACE: &str = "urn:oasis:names:tc:emergency:cap:1.2";
/// How long a message is of interest to those who show it.
const EXPIRES_AFTER: Span = Span::from_seconds(86_400);
/// What the standard recommends for a headline, in characters.
const MAX_HEADLINE_CHARS: usize = 160;
/// The longest text from outside in an element of its own, in characters.
const MAX_TEXT_CHARS: usize = 300;
/// `identifier` and `sender` hold no spaces, commas, `<` or `&`.
const ESCAPED_IN_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'@').remove(b'+');

/// What differs between the kinds of message.
struct Kind<'a> {
    status: &'static str,
    message: &'static str,
    /// The message that this one takes the place of.
    first: Option<&'a First>,
    /// For its `info`.
    urgency: &'static str,
    certainty: &'static str,
}

/// The document.
pub(super) fn of(alert: &Alert, facts: &Facts, sender: &str) -> Vec<u8> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    // Writing to memory never fails.
    let _ = write(&mut writer, alert, facts, sender);
    writer.into_inner()
}

fn kind_of(alert: &Alert) -> Kind<'_> {
    let plain = Kind {
        status: "Actual",
        message: "Alert",
        first: None,
        urgency: urgency(alert),
        certainty: alert.largest().map_or("Unknown", certainty),
    };
    // Of a digest the other events stand, so nothing may take its place.
    let alone = |first: &'_ First| !first.digest;
    match &alert.content {
        Content::Exercise(_) => Kind { status: "Exercise", ..plain },
        // Told of no earthquake; no configuration lets one be sent in this form.
        Content::Notice(_) => Kind { status: "System", ..plain },
        Content::Event { unconfirmed: true, .. } => Kind { certainty: "Possible", ..plain },
        Content::Update(update) if alone(&update.of) => Kind { message: "Update", first: Some(&update.of), ..plain },
        Content::Event { unconfirmed: false, .. } | Content::Digest(_) | Content::Update(_) => plain,
        Content::Withdrawal { of, .. } if alone(of) => {
            Kind { message: "Cancel", first: Some(of), certainty: "Unlikely", ..plain }
        }
        Content::Withdrawal { .. } => Kind { certainty: "Unlikely", ..plain },
    }
}

fn urgency(alert: &Alert) -> &'static str {
    match &alert.content {
        Content::Digest(_) | Content::Withdrawal { .. } | Content::Notice(_) => "Past",
        Content::Event { event, .. } => urgency_of(event, alert.created_at),
        Content::Exercise(event) => urgency_of(event, alert.created_at),
        Content::Update(update) => urgency_of(&update.event, alert.created_at),
    }
}

fn urgency_of(event: &Event, created_at: Timestamp) -> &'static str {
    if created_at.since(event.origin_at) > LATE_AFTER { "Past" } else { "Immediate" }
}

fn write(writer: &mut Writer<Vec<u8>>, alert: &Alert, facts: &Facts, sender: &str) -> io::Result<()> {
    let kind = kind_of(alert);
    writer.write_event(Xml::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    writer.create_element("alert").with_attribute(("xmlns", NAMESPACE)).write_inner_content(|alert_element| {
        let mut put = |name, text: &str| element(alert_element, name, text);
        put("identifier", &name(&alert.id))?;
        put("sender", &name(sender))?;
        put("sent", &time(alert.created_at))?;
        put("status", kind.status)?;
        put("msgType", kind.message)?;
        put("scope", "Public")?;
        put("note", &ending_lines(facts).join("\n"))?;
        if let Some(first) = kind.first {
            put("references", &format!("{},{},{}", name(sender), name(&first.id), time(first.sent_at)))?;
        }
        match alert.largest() {
            Some(event) => info(alert_element, alert, facts, event, &kind),
            None => Ok(()),
        }
    })?;
    Ok(())
}

fn info(writer: &mut Writer<Vec<u8>>, alert: &Alert, facts: &Facts, event: &Event, kind: &Kind<'_>) -> io::Result<()> {
    writer.create_element("info").write_inner_content(|info| {
        let mut put = |name, text: &str| element(info, name, text);
        put("language", "en")?;
        put("category", "Geo")?;
        put("event", &event_name(event))?;
        put("urgency", kind.urgency)?;
        put("severity", Severity::of_alert(alert).word())?;
        put("certainty", kind.certainty)?;
        put("onset", &time(event.origin_at))?;
        put("expires", &time(alert.created_at.plus(EXPIRES_AFTER)))?;
        put("headline", &one_line(&facts.title, MAX_HEADLINE_CHARS))?;
        put("description", &detail_lines(facts).into_iter().chain(row_lines(facts)).collect::<Vec<_>>().join("\n"))?;
        if let Some(link) = &facts.link {
            put("web", link)?;
        }
        let magnitude = event.magnitude.map(|magnitude| magnitude.to_string());
        let depth_km = event.depth_km.map(|depth| depth.to_string());
        for (name, value) in [("EventId", Some(event.id.to_string())), ("Magnitude", magnitude), ("DepthKm", depth_km)] {
            if let Some(value) = value {
                parameter(info, name, &value)?;
            }
        }
        match &alert.content {
            Content::Digest(digest) => digest.events.iter().try_for_each(|event| area(info, event)),
            Content::Event { event, .. } => area(info, event),
            Content::Withdrawal { event, .. } | Content::Exercise(event) => area(info, event),
            Content::Update(update) => area(info, &update.event),
            Content::Notice(_) => Ok(()),
        }
    })?;
    Ok(())
}

fn parameter(writer: &mut Writer<Vec<u8>>, name: &str, value: &str) -> io::Result<()> {
    writer.create_element("parameter").write_inner_content(|parameter| {
        element(parameter, "valueName", name)?;
        element(parameter, "value", value)
    })?;
    Ok(())
}

fn area(writer: &mut Writer<Vec<u8>>, event: &Event) -> io::Result<()> {
    let place = one_line(&event.place, MAX_TEXT_CHARS);
    writer.create_element("area").write_inner_content(|area| {
        element(area, "areaDesc", if place.is_empty() { "unnamed place" } else { &place })?;
        element(area, "circle", &format!("{},{} 0", event.coordinates.latitude(), event.coordinates.longitude()))
    })?;
    Ok(())
}

fn element(writer: &mut Writer<Vec<u8>>, name: &str, text: &str) -> io::Result<()> {
    writer.create_element(name).write_text_content(BytesText::new(text))?;
    Ok(())
}

/// `Earthquake`, or the service's word for what else shook the ground, with a capital.
fn event_name(event: &Event) -> String {
    let kind = one_line(&event.kind, MAX_TEXT_CHARS);
    let mut letters = kind.chars();
    letters.next().map_or_else(|| "Event".to_owned(), |first| first.to_uppercase().chain(letters).collect())
}

fn certainty(event: &Event) -> &'static str {
    match event.status.as_str() {
        "reviewed" => "Observed",
        "automatic" => "Likely",
        _ => "Unknown",
    }
}

fn name(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED_IN_NAME).to_string()
}

/// In whole seconds; the standard knows no `Z`, and writes UTC as minus zero.
fn time(at: Timestamp) -> String {
    at.to_utc().format("%Y-%m-%dT%H:%M:%S-00:00").to_string()
}
