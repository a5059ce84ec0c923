//! What was found, in words for the template.

use serde::Serialize;
use url::form_urlencoded;

use super::ask::{Ask, CHOICES};
use super::pictures;
use super::read::{Chosen, Found, MAX_DECISIONS, MAX_LISTED, MAX_QUAKES, ReportKind, Reports};
use crate::channel::Channel;
use crate::freshness::{FeedState, Freshness};
use crate::plain::{one_line, without_addresses};
use crate::plan::Outcome;
use crate::store::{DeliveryStatus, OutboxRow, StoreStatus, SubscriberReport};
use crate::subscriber::{Mode, Standing};
use crate::time::Timestamp;
use crate::web::shell::Markup;
use crate::withholding::RULE;
use crate::words::{count, counted, duration};

/// The longest answer of a destination that is shown, in characters.
const MAX_ANSWER_CHARS: usize = 100;

/// The whole page.
#[derive(Serialize)]
pub(super) struct View {
    ask: Asked,
    said: String,
    feed: Feed,
    standing: Vec<Tile>,
    subscribers: Subscribers,
    chosen: Option<Scene>,
    /// Why there is no scene.
    no_scene: Option<String>,
    map: Option<Markup>,
    map_note: String,
    deliveries: Vec<Delivery>,
}

/// The form as it was filled in.
#[derive(Serialize)]
struct Asked {
    days: Vec<Choice>,
    other_days: bool,
    from: String,
    to: String,
    subscriber: String,
    name: String,
    /// The stretch in words.
    stretch: String,
}

#[derive(Serialize)]
struct Choice {
    days: u64,
    label: String,
    checked: bool,
}

/// A number and what it counts.
#[derive(Serialize)]
struct Tile {
    value: String,
    label: &'static str,
    class: &'static str,
}

#[derive(Serialize)]
struct Feed {
    state: String,
    class: &'static str,
    rows: Vec<(&'static str, String)>,
}

#[derive(Serialize)]
struct Subscribers {
    summary: String,
    rows: Vec<Row>,
    rule: &'static str,
}

#[derive(Serialize)]
struct Row {
    name: String,
    /// To its scene, on the same days.
    link: String,
    chosen: bool,
    standing: String,
    standing_class: &'static str,
    /// Why it is disabled.
    reason: Option<String>,
    channel: String,
    promise: String,
    most: String,
    matched: String,
    told: String,
    refused: String,
    share: String,
    sustained: String,
    dead: String,
}

#[derive(Serialize)]
struct Scene {
    name: String,
    tiles: Vec<Tile>,
    picture: Markup,
    note: Option<String>,
}

#[derive(Serialize)]
struct Delivery {
    when: Moment,
    subscriber: String,
    title: String,
    status: &'static str,
    class: &'static str,
    attempts: u32,
    detail: String,
}

/// An instant, for people and for programs.
#[derive(Serialize)]
struct Moment {
    text: String,
    exact: String,
}

impl Moment {
    fn of(at: Timestamp) -> Moment {
        Moment { text: at.to_utc().format("%Y-%m-%d %H:%M:%SZ").to_string(), exact: at.to_string() }
    }
}

fn to_the_minute(at: Timestamp) -> String {
    at.to_utc().format("%Y-%m-%d %H:%MZ").to_string()
}

pub(super) fn of(ask: Ask, found: &Found, now: Timestamp) -> View {
    let chosen = found.chosen.as_ref().map(|chosen| scene(&ask, chosen));
    let no_scene = chosen.is_none().then(|| why_no_scene(&ask));
    let name = found.chosen.as_ref().map(|chosen| chosen.report.name.clone());
    let whose = name.as_ref().map_or_else(|| "nobody is chosen".to_owned(), |name| format!("what became of them for {name}"));
    let stretch = ask.days.map_or_else(
        || format!("from {} to {}", to_the_minute(ask.from), to_the_minute(ask.to)),
        |days| format!("the last {}", if days == 1 { "day".to_owned() } else { format!("{days} days") }),
    );
    let quakes = counted(found.quakes.len() as u64, "earthquake");
    let map = (!found.quakes.is_empty()).then(|| pictures::map(&found.quakes, format!("{quakes}, {stretch}, {whose}")));
    let cut = if found.quakes.len() < MAX_QUAKES { "" } else { ", the last of more" };
    View {
        said: format!("{stretch}: {quakes}; {whose}"),
        map_note: format!("{quakes} with origins in these days{cut}; {whose}."),
        feed: feed(&found.feed, found.watched, now),
        standing: found.counts.as_ref().map(standing).unwrap_or_default(),
        subscribers: subscribers(&ask, &found.reports, name.as_deref()),
        deliveries: found.messages.iter().map(delivery).collect(),
        ask: asked(ask, name, stretch),
        chosen,
        no_scene,
        map,
    }
}

fn asked(ask: Ask, chosen: Option<String>, stretch: String) -> Asked {
    let choice = |days| Choice {
        days,
        label: if days == 1 { "1 day".to_owned() } else { format!("{days} days") },
        checked: ask.days == Some(days),
    };
    Asked {
        days: CHOICES.map(choice).into(),
        other_days: ask.days.is_none(),
        from: ask.from_field,
        to: ask.to_field,
        subscriber: ask.subscriber.or(chosen).unwrap_or_default(),
        name: ask.prefix,
        stretch,
    }
}

fn feed(state: &FeedState, freshness: Freshness, now: Timestamp) -> Feed {
    let ago = |at: Option<Timestamp>| {
        at.map_or_else(|| "-".to_owned(), |at| format!("{}, {} ago", Moment::of(at).text, duration(now.since(at))))
    };
    let not_polled = state.polled_at.is_none() && freshness == Freshness::Fresh;
    Feed {
        state: if not_polled { "the feed was not polled yet".to_owned() } else { freshness.to_string() },
        class: if freshness == Freshness::Fresh { "good" } else { "bad" },
        rows: vec![
            ("last poll", ago(state.polled_at)),
            ("content made", ago(state.generated_at)),
            ("unknown since", ago(state.gap_since)),
        ],
    }
}

fn standing(counts: &StoreStatus) -> Vec<Tile> {
    let tile = |value, label| Tile { value: count(value), label, class: "" };
    let alarming = |value, label, class| Tile { value: count(value), label, class: if value > 0 { class } else { "" } };
    vec![
        tile(counts.events, "events known"),
        tile(counts.undecided_events, "events to decide"),
        tile(counts.active, "active subscribers"),
        tile(counts.paused, "paused"),
        alarming(counts.disabled, "disabled", "warn"),
        tile(counts.due, "messages due"),
        tile(counts.leased, "under way"),
        alarming(counts.dead, "dead", "bad"),
    ]
}

fn subscribers(ask: &Ask, reports: &Reports, chosen: Option<&str>) -> Subscribers {
    let listed = reports.listed.len();
    let summary = match &reports.kind {
        ReportKind::Ranked(sums) => {
            let part = if listed < sums.subscribers { format!("; the first {listed} are shown") } else { String::new() };
            format!(
                "{} for {}, {} refused by a limiter; sustained withholding: {}; dead destinations: {}{part}.",
                counted(sums.matched, "decision"),
                counted(sums.subscribers as u64, "subscriber"),
                count(sums.refused),
                sums.sustained,
                sums.dead
            )
        }
        ReportKind::Named if listed == 0 => "No name begins so.".to_owned(),
        ReportKind::Named => format!("The first {MAX_LISTED} at most whose names begin so: {listed}, in order of name."),
        ReportKind::TooMany => format!(
            "There are too many to add up while you wait: the first {listed} by name. throttler report adds up all of them."
        ),
    };
    let rows = reports.listed.iter().map(|report| row(ask, report, chosen)).collect();
    Subscribers { summary, rows, rule: RULE }
}

fn row(ask: &Ask, report: &SubscriberReport, chosen: Option<&str>) -> Row {
    let promise = report.policy.promise();
    let window = report.policy.limit.rate().window();
    let shadow = report.mode == Mode::Shadow;
    let bounded = report.policy.always_from.is_none() && !shadow;
    let reason = report.standing_reason.as_ref();
    Row {
        name: report.name.clone(),
        link: link(ask, &report.name),
        chosen: chosen == Some(report.name.as_str()),
        standing: if shadow { format!("{}, shadow mode", report.standing) } else { report.standing.to_string() },
        reason: reason.map(|reason| without_addresses(&one_line(reason, MAX_ANSWER_CHARS))),
        standing_class: match report.standing {
            Standing::Active => "",
            Standing::Paused => "quiet",
            Standing::Disabled => "bad",
        },
        channel: Channel::of(&report.destination).to_string(),
        promise: promise.to_string(),
        most: if bounded { format!("{} in {window}", count(promise.most_in_any_window)) } else { "-".to_owned() },
        matched: count(report.matched()),
        told: count(told(report)),
        refused: count(report.refused),
        share: share(report),
        sustained: report.sustained_days().map_or_else(|| "-".into(), |days| format!("for {days} days")),
        dead: if report.is_dead() { counted(report.dead, "dead letter") } else { "-".to_owned() },
    }
}

fn link(ask: &Ask, name: &str) -> String {
    let mut fields = form_urlencoded::Serializer::for_suffix("?".to_owned(), 1);
    let days = ask.days.map(|days| days.to_string()).unwrap_or_default();
    let all = [("days", &*days), ("from", &*ask.from_field), ("to", &*ask.to_field), ("subscriber", name)];
    fields.extend_pairs(all.into_iter().filter(|(_, value)| !value.is_empty()));
    fields.finish() + "#scene"
}

/// Of how many events it was told, alone or in a digest.
fn told(report: &SubscriberReport) -> u64 {
    report.count(Outcome::Alerted) + report.count(Outcome::Digested)
}

/// As `throttler report` has it.
fn share(report: &SubscriberReport) -> String {
    format!("{:.0} %", 100.0 * report.share_refused())
}

fn scene(ask: &Ask, chosen: &Chosen) -> Scene {
    let report = &chosen.report;
    let tile = |value, label| Tile { value: count(value), label, class: "" };
    let tiles = vec![
        tile(report.matched(), "matched"),
        tile(report.count(Outcome::Alerted), "alerted"),
        tile(report.count(Outcome::Digested), "in digests"),
        tile(report.matched() - told(report), "not told"),
        tile(report.refused, "refused by the limiter"),
        Tile { value: share(report), label: "share refused", class: "" },
    ];
    let full = chosen.decisions.len() == MAX_DECISIONS || chosen.messages.len() == MAX_DECISIONS;
    let note = full.then(|| format!("More than {} decisions: the picture shows the last of them.", count(MAX_DECISIONS as u64)));
    Scene { name: report.name.clone(), tiles, picture: pictures::scene(ask, chosen), note }
}

fn why_no_scene(ask: &Ask) -> String {
    match &ask.subscriber {
        Some(name) => format!("There is no subscriber '{}'.", one_line(name, MAX_ANSWER_CHARS)),
        None => "There are no subscribers yet: throttler subscriber add makes one.".to_owned(),
    }
}

fn delivery(row: &OutboxRow) -> Delivery {
    let message = &row.message;
    let when = message.settled_at.unwrap_or(message.created_at);
    let title = message.title.as_deref().unwrap_or("a message that cannot be read");
    Delivery {
        when: Moment::of(when),
        subscriber: row.subscriber.clone(),
        title: title.to_owned(),
        status: message.status.name(),
        class: match message.status {
            DeliveryStatus::Delivered => "good",
            DeliveryStatus::Dead => "bad",
            DeliveryStatus::Due | DeliveryStatus::Leased if message.attempts > 0 => "warn",
            _ => "",
        },
        attempts: message.attempts,
        detail: without_addresses(&one_line(message.detail.as_deref().unwrap_or("-"), MAX_ANSWER_CHARS)),
    }
}
