//! An operator's own form of a message, in the language of Jinja. Values are escaped for what the template makes, what is
//! not there is an error, and work and output are bounded. A template sees the message and nothing else: no files, no
//! environment, no other template.

use std::io;
use std::sync::Arc;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::Value as Json;

use super::PresetError;
use crate::alert::{Alert, Content, Digest, Explanation, First, Update};
use crate::delivery::render::{Facts, lines};
use crate::delivery::unsubscribe::from_webhook;
use crate::delivery::webhook::body;
use crate::event::{Event, PagerLevel};
use crate::identity::Change;
use crate::plain::one_line;
use crate::rate::Rate;
use crate::subscriber::{MAX_TEMPLATE_BYTES, Template, TemplateKind};
use crate::time::{Span, Timestamp};

/// The longest message that a template may make, in bytes.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;
/// The most steps that filling in may take; a digest of fifty events with all they hold takes about ten thousand.
const MAX_STEPS: u64 = 200_000;
/// The longest description of a fault, in characters.
const MAX_FAULT_CHARS: usize = 200;
/// Keys of the body that stand for one kind of message: `none` in the others, so that a template can ask for them.
const KEYS_OF_KINDS: [&str; 6] = ["event", "late", "unconfirmed", "digest", "update", "withdrawal"];

/// Whether the template can be read and filled in with messages of every kind.
pub(super) fn check(template: &Template) -> Result<(), PresetError> {
    if template.text.len() > MAX_TEMPLATE_BYTES {
        return Err(PresetError::TooLong(template.text.len()));
    }
    for (what, alert) in samples() {
        let facts = Facts::of(&alert, &from_webhook(&alert.subscriber));
        fill(template, &alert, &facts, what)?;
    }
    Ok(())
}

/// The template filled in with `alert`.
pub(super) fn fill_in(template: &Template, alert: &Alert, facts: &Facts) -> Result<Vec<u8>, PresetError> {
    fill(template, alert, facts, "this message")
}

fn fill(template: &Template, alert: &Alert, facts: &Facts, what: &'static str) -> Result<Vec<u8>, PresetError> {
    let environment = environment(template.kind);
    let read = environment.template_from_str(&template.text).map_err(|fault| PresetError::Syntax(told(&fault)))?;
    let wrong = |fault: String| PresetError::Filling { what, fault };
    let mut output = Bounded(Vec::new());
    read.render_captured_to(Serde(variables(alert, facts)), &mut output).map_err(|fault| wrong(told(&fault)))?;
    well_formed(template.kind, &output.0).map_err(wrong)?;
    Ok(output.0)
}

fn environment(kind: TemplateKind) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_auto_escape_callback(move |_| match kind {
        TemplateKind::Json => AutoEscape::Json,
        TemplateKind::Xml => AutoEscape::Html,
        TemplateKind::Text => AutoEscape::None,
    });
    environment
}

/// The keys of the standard body, all of them, and `text`: the message in words.
fn variables(alert: &Alert, facts: &Facts) -> Json {
    let mut variables = body::value(alert);
    for key in KEYS_OF_KINDS.into_iter().chain(["unsubscribe_url"]) {
        if variables.get(key).is_none() {
            variables[key] = Json::Null;
        }
    }
    if variables.get("exercise").is_none() {
        variables["exercise"] = Json::Bool(false);
    }
    variables["text"] = Json::String(lines(facts));
    variables
}

fn well_formed(kind: TemplateKind, output: &[u8]) -> Result<(), String> {
    match kind {
        TemplateKind::Text => Ok(()),
        TemplateKind::Json => serde_json::from_slice::<serde::de::IgnoredAny>(output)
            .map(|_| ())
            .map_err(|fault| format!("what comes out is not JSON ({fault}); values bring their quotation marks themselves")),
        TemplateKind::Xml => well_formed_xml(output).map_err(|fault| format!("what comes out is not XML ({fault})")),
    }
}

/// One element with what it holds, every other closed in its turn, every reference one that XML knows.
fn well_formed_xml(output: &[u8]) -> Result<(), String> {
    use quick_xml::events::Event as Xml;
    let text = std::str::from_utf8(output).map_err(|fault| fault.to_string())?;
    let mut reader = quick_xml::Reader::from_str(text);
    let (mut depth, mut elements) = (0_usize, 0_usize);
    loop {
        match reader.read_event().map_err(|fault| fault.to_string())? {
            Xml::Eof if depth > 0 => return Err("an element is not closed".to_owned()),
            Xml::Eof if elements != 1 => return Err(format!("expected one outermost element, found {elements}")),
            Xml::Eof => return Ok(()),
            Xml::Start(_) => {
                elements += usize::from(depth == 0);
                depth += 1;
            }
            Xml::Empty(_) => elements += usize::from(depth == 0),
            Xml::End(_) => depth = depth.saturating_sub(1),
            Xml::DocType(_) => return Err("a document type is not taken".to_owned()),
            _ => {}
        }
    }
}

/// A fault in one line, with its place.
fn told(fault: &Error) -> String {
    let detail = match fault.kind() {
        ErrorKind::OutOfFuel => format!("it takes more than {MAX_STEPS} steps"),
        ErrorKind::WriteFailure => format!("it makes more than {MAX_OUTPUT_BYTES} bytes"),
        kind => fault.detail().map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}")),
    };
    let place = fault.line().map_or_else(String::new, |line| format!("line {line}: "));
    one_line(&format!("{place}{detail}"), MAX_FAULT_CHARS)
}

/// Memory up to [`MAX_OUTPUT_BYTES`].
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Messages of every kind, with everything and with nothing that may be missing.
fn samples() -> Vec<(&'static str, Alert)> {
    // Any instant serves; it is the same for everybody.
    let now = Timestamp::MIN.plus(Span::from_seconds(86_400 * 365));
    let bare = Event { magnitude: None, depth_km: None, ..Event::exercise(now) };
    let full = Event {
        updated_at: Some(now),
        magnitude_type: Some("mww".to_owned()),
        place: "\"quoted\" & <marked> \\ Ōfunato".to_owned(),
        pager: Some(PagerLevel::Red),
        tsunami: true,
        url: Some("https://example.org/?a=1&b=2".to_owned()),
        ..Event::exercise(now)
    };
    let explanation = Explanation {
        reason: "a trial".to_owned(),
        promise: "a trial".to_owned(),
        rate: Rate::from_checked(5, Span::from_seconds(3_600)),
        burst: 1,
        remaining: 0,
        retry_at: now,
        reset_at: now,
    };
    let exercise = Alert::exercise("trial".to_owned(), explanation, now);
    let of = |content: Content| Alert { content, ..exercise.clone() };
    let digest = Digest { since: now, count: 2, events: vec![full.clone(), bare.clone()] };
    let first = First { id: "trial".to_owned(), sent_at: now, digest: false };
    let update = Update { event: full.clone(), before: bare.clone(), changes: vec![Change::Magnitude], of: first.clone() };
    let event = |event: &Event, late| Content::Event { event: Arc::new(event.clone()), late, unconfirmed: late };
    vec![
        ("an event", of(event(&full, false))),
        ("an event of which little is known", of(event(&bare, true))),
        ("a digest", of(Content::Digest(digest))),
        ("an update", of(Content::Update(Box::new(update)))),
        ("a withdrawal", of(Content::Withdrawal { event: Box::new(bare), of: first })),
        ("an exercise", exercise),
    ]
}
