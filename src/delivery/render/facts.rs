//! What a message tells, in cleaned words, before any layout.

use url::Url;

use crate::alert::{Alert, Content, Digest, Explanation, Update};
use crate::event::{Event, PagerLevel};
use crate::identity::Change;
use crate::notice::{Item, Notice, Section, What};
use crate::plain::one_line;
use crate::revision::before_and_after;
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// The longest place, title or sentence taken over from outside, in characters.
const MAX_TEXT_CHARS: usize = 300;
/// The longest link, in bytes.
const MAX_LINK_BYTES: usize = 1_000;

/// What an exercise says of itself, after its title.
const EXERCISE_NOTE: &str = "This is an exercise: the operator tests whether messages arrive. Nothing has happened.";

/// How the operator gets no more notices.
const NO_MORE_NOTICES: &str =
    "To get no more of these, take the operator's address or the kind of notice out of the configuration.";

/// Everything that a message tells. No text holds a line break or a control character; nothing is escaped yet.
pub(in crate::delivery) struct Facts {
    pub title: String,
    /// Told before the details: late, or what a digest is.
    pub note: Option<String>,
    /// Label and value of each detail.
    pub details: Vec<(&'static str, String)>,
    /// The event's page: `http` or `https` and nothing else.
    pub link: Option<String>,
    /// The events of a digest; empty for a single event.
    pub rows: Vec<Row>,
    /// Why it came, the limit, what may come next, how to leave.
    pub ending: [(&'static str, String); 4],
}

/// One line of a digest.
pub(in crate::delivery) struct Row {
    pub magnitude: String,
    pub origin: String,
    pub place: String,
    pub link: Option<String>,
}

impl Facts {
    /// `leave` is the sentence on how to unsubscribe.
    pub fn of(alert: &Alert, leave: &str) -> Facts {
        let title = one_line(&alert.title(), MAX_TEXT_CHARS);
        let ending = ending(alert, leave);
        match &alert.content {
            Content::Event { event, late, unconfirmed } => Facts {
                title,
                note: event_note(event, *late, *unconfirmed, alert.created_at),
                details: event_details(event, alert.created_at),
                link: link(event),
                rows: Vec::new(),
                ending,
            },
            Content::Update(update) => Facts {
                title,
                note: Some("This event has changed since you were last told of it.".to_owned()),
                details: [changed(update), event_details(&update.event, alert.created_at)].concat(),
                link: link(&update.event),
                rows: Vec::new(),
                ending,
            },
            Content::Withdrawal { event, .. } => Facts {
                title,
                note: Some("Withdrawn: the service that published this event has deleted it.".to_owned()),
                details: withdrawn_details(event, alert.created_at),
                link: link(event),
                rows: Vec::new(),
                ending,
            },
            Content::Digest(digest) => Facts {
                title,
                note: Some(digest_note(digest)),
                details: digest_details(digest),
                link: None,
                rows: digest.events.iter().map(Row::of).collect(),
                ending,
            },
            Content::Exercise(event) => Facts {
                title,
                note: Some(EXERCISE_NOTE.to_owned()),
                details: event_details(event, alert.created_at),
                link: link(event),
                rows: Vec::new(),
                ending,
            },
            Content::Notice(notice) => {
                let note = notice.exercise.then(|| EXERCISE_NOTE.to_owned());
                Facts { title, note, details: notice_details(notice), link: None, rows: Vec::new(), ending }
            }
        }
    }
}

impl Row {
    fn of(event: &Event) -> Row {
        Row {
            magnitude: event.magnitude.map_or_else(|| "?".to_owned(), |m| m.to_string()),
            origin: utc(event.origin_at),
            place: place(event),
            link: link(event),
        }
    }
}

fn event_details(event: &Event, created_at: Timestamp) -> Vec<(&'static str, String)> {
    let mut details = vec![("Magnitude", magnitude(event)), ("Place", place(event))];
    if event.kind != "earthquake" {
        details.push(("Type", one_line(&event.kind, MAX_TEXT_CHARS)));
    }
    let ago = ago(event.origin_at, created_at);
    details.push(("Time", format!("{} ({ago})", utc(event.origin_at))));
    let depth = event.depth_km.map_or_else(|| "unknown".to_owned(), |km| format!("{km:.1} km"));
    details.push(("Depth", depth));
    details.push(("Coordinates", coordinates(event)));
    if event.tsunami {
        // The feed's flag says no more than this; it is not a warning.
        details.push(("Tsunami", "possible, large event in an oceanic region; heed the warnings of your authorities".to_owned()));
    }
    if let Some(level) = event.pager {
        details.push(("PAGER", format!("{level} ({})", pager_meaning(level))));
    }
    if !event.status.is_empty() {
        details.push(("Status", one_line(&event.status, MAX_TEXT_CHARS)));
    }
    details
}

/// Which event it was, without what was feared of it.
fn withdrawn_details(event: &Event, created_at: Timestamp) -> Vec<(&'static str, String)> {
    let mut details = event_details(event, created_at);
    details.retain(|(label, _)| !["Tsunami", "PAGER", "Status"].contains(label));
    details
}

/// What changed, before and after.
fn changed(update: &Update) -> Vec<(&'static str, String)> {
    let line = |change: Change| {
        let (was, is) = before_and_after(change, &update.before, &update.event);
        format!("{change}: {} → {}", one_line(&was, MAX_TEXT_CHARS), one_line(&is, MAX_TEXT_CHARS))
    };
    let labels = std::iter::once("Changed").chain(std::iter::repeat(""));
    labels.zip(update.changes.iter().map(|change| line(*change))).collect()
}

/// What has changed, and what to do about it, kind by kind.
fn notice_details(notice: &Notice) -> Vec<(&'static str, String)> {
    notice.sections.iter().flat_map(section_details).collect()
}

fn section_details(section: &Section) -> Vec<(&'static str, String)> {
    let mut details = match section.what {
        What::FeedStale | What::FeedFresh => Vec::new(),
        What::DestinationDead | What::DestinationRecovered => vec![("Destinations", section.in_words())],
        What::WithholdingBegan | What::WithholdingEnded => vec![("Withholding", section.in_words())],
    };
    let labels = std::iter::once(if details.is_empty() { "Feed" } else { "" }).chain(std::iter::repeat(""));
    details.extend(labels.zip(section.listed.iter().map(item)));
    if section.left_out() > 0 {
        details.push(("", format!("… and {} more", section.left_out())));
    }
    details.push(("To do", section.what.advice().to_owned()));
    details
}

fn item(item: &Item) -> String {
    let detail = one_line(&item.detail, MAX_TEXT_CHARS);
    match &item.subscriber {
        Some(name) => format!("{}, since {}: {detail}", one_line(name, MAX_TEXT_CHARS), utc(item.since)),
        None => detail,
    }
}

fn digest_details(digest: &Digest) -> Vec<(&'static str, String)> {
    let mut details = vec![("Withheld", digest.count.to_string()), ("Since", utc(digest.since))];
    if let Some(largest) = digest.events.first() {
        details.push(("Largest", one_line(&largest.title(), MAX_TEXT_CHARS)));
        details.push(("", format!("{}, {}", utc(largest.origin_at), coordinates(largest))));
    }
    if u64::try_from(digest.events.len()).is_ok_and(|listed| listed < digest.count) {
        details.push(("Listed", format!("the {} largest", digest.events.len())));
    }
    details
}

fn digest_note(digest: &Digest) -> String {
    let (events, were) = if digest.count == 1 { ("event", "was") } else { ("events", "were") };
    format!("{} {events} that you asked for {were} not sent one by one, because your limit was reached.", digest.count)
}

fn event_note(event: &Event, late: bool, unconfirmed: bool, created_at: Timestamp) -> Option<String> {
    let unconfirmed = unconfirmed.then(|| {
        "Unconfirmed: only one network's automatic solution says so, and nobody has confirmed it in time. It may be a mistake.".to_owned()
    });
    let notes: Vec<String> = unconfirmed.into_iter().chain(late.then(|| late_note(event, created_at))).collect();
    (!notes.is_empty()).then(|| notes.join(" "))
}

fn late_note(event: &Event, created_at: Timestamp) -> String {
    format!("This alert is late: it comes {} after the event.", length(created_at.since(event.origin_at)))
}

fn magnitude(event: &Event) -> String {
    match (event.magnitude, event.magnitude_type.as_deref()) {
        (None, _) => "not yet known".to_owned(),
        (Some(value), None | Some("")) => value.to_string(),
        (Some(value), Some(scale)) => format!("{value} ({})", one_line(scale, 20)),
    }
}

fn place(event: &Event) -> String {
    let place = one_line(&event.place, MAX_TEXT_CHARS);
    if place.is_empty() { "unnamed place".to_owned() } else { place }
}

fn coordinates(event: &Event) -> String {
    let (latitude, longitude) = (event.coordinates.latitude(), event.coordinates.longitude());
    let north = if latitude < 0.0 { 'S' } else { 'N' };
    let east = if longitude < 0.0 { 'W' } else { 'E' };
    format!("{:.3}° {north}, {:.3}° {east}", latitude.abs(), longitude.abs())
}

/// What the USGS means by the colour.
fn pager_meaning(level: PagerLevel) -> &'static str {
    match level {
        PagerLevel::Green => "little harm expected",
        PagerLevel::Yellow => "local harm likely",
        PagerLevel::Orange => "regional harm likely",
        PagerLevel::Red => "great harm likely",
    }
}

fn link(event: &Event) -> Option<String> {
    let url = Url::parse(event.url.as_deref()?).ok()?;
    // Written by the parser, so without spaces, quotes and control characters.
    let text = String::from(url);
    let web = text.starts_with("https://") || text.starts_with("http://");
    (web && text.len() <= MAX_LINK_BYTES).then_some(text)
}

fn ending(alert: &Alert, leave: &str) -> [(&'static str, String); 4] {
    let explanation = &alert.explanation;
    let (what, leave) = if alert.is_notice() { ("notice", NO_MORE_NOTICES) } else { ("alert", leave) };
    [
        ("Why", sentence(&explanation.reason)),
        ("Limit", sentence(&explanation.promise)),
        ("Next", next(what, explanation, alert.created_at)),
        ("Leave", one_line(leave, MAX_TEXT_CHARS)),
    ]
}

/// How many more may come now, and when the next is possible.
fn next(what: &str, explanation: &Explanation, created_at: Timestamp) -> String {
    let more = match explanation.remaining {
        0 => format!("No more {what}s may come"),
        1 => format!("1 more {what} may come"),
        many => format!("{many} more {what}s may come"),
    };
    if explanation.retry_at <= created_at {
        return format!("{more} now; the next is possible at once.");
    }
    let wait = length(explanation.retry_at.since(created_at));
    // The limit has room for them, and quiet hours have not.
    let when = if explanation.remaining > 0 { "after quiet hours" } else { "now" };
    format!("{more} {when}; the next is possible at {} (in {wait}).", utc_rounded_up(explanation.retry_at))
}

fn sentence(text: &str) -> String {
    let line = one_line(text, MAX_TEXT_CHARS);
    if line.is_empty() || line.ends_with(['.', '!', '?', '…']) { line } else { format!("{line}.") }
}

fn ago(origin_at: Timestamp, created_at: Timestamp) -> String {
    if origin_at > created_at {
        return "just now".to_owned();
    }
    format!("{} before this message", length(created_at.since(origin_at)))
}

/// To the second, rounded down.
fn utc(at: Timestamp) -> String {
    at.to_utc().format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// To the second, never earlier than `at`: what is possible then is possible.
fn utc_rounded_up(at: Timestamp) -> String {
    utc(at.plus(Span::from_ticks(TICKS_PER_SECOND.unsigned_abs() - 1)))
}

/// A length of time in its two largest units, rounded down; under a second, "less than 1 s".
fn length(span: Span) -> String {
    let seconds = span.ticks() / TICKS_PER_SECOND.unsigned_abs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0 => "less than 1 s".to_owned(),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min"),
        3_600..172_800 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}
