//! `/what-if`: what each limiter would have done on past days, in the numbers of `throttler replay`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde::Serialize;

use super::Web;
use super::fields::{Choice, Faults, Field, Reading, form};
use super::history::Known;
use super::query::Query;
use super::shell::{Markup, Refusal, Tab, page};
use super::table::table_of;
use crate::analysis::needs;
use crate::event::{Event, Magnitude};
use crate::limiter::{Algorithm, CounterRule, Limit};
use crate::plot::{MAX_SINGLE_MARKS, Row, Scene, Stretch};
use crate::rate::Rate;
use crate::replay::{Comparison, Replayed, table};
use crate::time::{EmptySpan, Span, TICKS_PER_SECOND, Timestamp};
use crate::words::{count, counted, whole_number};

/// The two days of the M8.8: from 2025-07-29T12:00:00Z.
const GREAT_QUAKE: i64 = 1_753_790_400 * TICKS_PER_SECOND;
const DAY: Span = Span::from_seconds(86_400);
/// What is asked where nothing is.
const USUAL_RATE: &str = "5/h";

pub(super) async fn show(State(web): State<Arc<Web>>, address: Uri) -> Result<Response, Refusal> {
    let known = web.history.known(&web).await?;
    let query = Query::of(&address);
    let content = web.work.compute(move || answer(&known, &query)).await??;
    // Also where a field is wrong: while its reader types it nearly always is, and the page is the one that was asked for.
    page(StatusCode::OK, Some(Tab::WhatIf), "What if", &content)
}

fn answer(known: &Known, query: &Query) -> Result<Markup, Refusal> {
    #[derive(Serialize)]
    struct Page {
        known: String,
        form: Markup,
        result: Markup,
    }
    let mut reading = Reading::new(query);
    let asked = Asked::read(&mut reading, query, known);
    let limits = asked.comparison.limits().map_err(|fault| reading.fault("bucket", fault)).unwrap_or_default();
    let faults = reading.finish();
    let events = known.between(asked.from, asked.to, asked.least);
    let times: Vec<Timestamp> = events.iter().map(|event| event.origin_at).collect();
    let lossless = needs(&times, &[asked.comparison.rate]).results.first().map_or(0, |result| result.bucket);
    let fields = asked.fields(query, known, &faults, lossless)?;
    let result = if faults.is_empty() { asked.result(known, &events, limits, lossless)? } else { faults.result(&fields)? };
    Markup::filled("what_if.html", Page { known: known.told(), form: form(fields, &faults)?, result })
}

/// Which days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Days {
    GreatQuake,
    /// So many up to the last that is known.
    Last(u32),
    All,
    /// From and to as they are written.
    Chosen,
}

impl Days {
    const ALL: [Days; 6] = [Days::GreatQuake, Days::Last(2), Days::Last(7), Days::Last(30), Days::All, Days::Chosen];

    fn label(self) -> String {
        match self {
            Days::GreatQuake => "The M8.8 of Kamchatka".to_owned(),
            Days::Last(days) => format!("Last {days} days"),
            Days::All => "Everything".to_owned(),
            Days::Chosen => "From … to …".to_owned(),
        }
    }

    /// From when to when, of days that are not written.
    fn ends(self, known: &Known) -> (Option<Timestamp>, Option<Timestamp>) {
        match (self, known.ends()) {
            (Days::GreatQuake, _) => {
                let from = Timestamp::saturating_from_ticks(GREAT_QUAKE.into());
                (Some(from), Some(from.plus(DAY).plus(DAY)))
            }
            (Days::Last(days), Some((_, last))) => {
                let whole = i128::from(DAY.ticks());
                let end = (i128::from(last.ticks()).div_euclid(whole) + 1) * whole;
                let at = Timestamp::saturating_from_ticks;
                (Some(at(end - i128::from(days) * whole)), Some(at(end)))
            }
            _ => (None, None),
        }
    }

    fn has_events(self, known: &Known) -> bool {
        let (from, to) = self.ends(known);
        !known.between(from, to, None).is_empty()
    }
}

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Days::GreatQuake => f.write_str("m8.8"),
            Days::Last(days) => write!(f, "last-{days}"),
            Days::All => f.write_str("all"),
            Days::Chosen => f.write_str("chosen"),
        }
    }
}

impl FromStr for Days {
    type Err = String;

    fn from_str(text: &str) -> Result<Days, String> {
        let known = Days::ALL.into_iter().find(|days| days.to_string() == text);
        known.ok_or_else(|| {
            let names = Days::ALL.map(|days| days.to_string());
            format!("'{text}' is no choice of days: expected {} or chosen", names[..names.len() - 1].join(", "))
        })
    }
}

/// What is asked.
struct Asked {
    days: Days,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    least: Option<Magnitude>,
    comparison: Comparison,
}

impl Asked {
    fn read(reading: &mut Reading<'_>, query: &Query, known: &Known) -> Asked {
        let written = query.text("from").is_some() || query.text("to").is_some();
        let usual = match written {
            true => Days::Chosen,
            false if Days::GreatQuake.has_events(known) => Days::GreatQuake,
            false => Days::Last(7),
        };
        let days = reading.value("days").unwrap_or(usual);
        let (from, to) = match days {
            Days::Chosen => (reading.value("from"), reading.value("to")),
            days => days.ends(known),
        };
        if let Err(fault) = EmptySpan::check(from, to) {
            reading.fault("to", fault);
        }
        let rate = reading.value("rate").or_else(|| USUAL_RATE.parse().ok());
        let comparison = Comparison {
            // The usual rate is one; whatever stands here when it is wrong is not shown.
            rate: rate.unwrap_or(Rate::from_checked(1, DAY)),
            buckets: reading.with("bucket", whole_number).into_iter().collect(),
            algorithms: reading.values("limiter"),
            counter_rule: reading.value("counter-rule").unwrap_or_default(),
        };
        Asked { days, from, to, least: reading.value("min-magnitude"), comparison }
    }

    fn is_compared(&self, algorithm: Algorithm) -> bool {
        self.comparison.algorithms.is_empty() || self.comparison.algorithms.contains(&algorithm)
    }

    fn fields(&self, query: &Query, known: &Known, faults: &Faults, lossless: u64) -> Result<Vec<Field>, Refusal> {
        #[derive(Serialize)]
        struct Lossless {
            rate: Rate,
            bucket: u64,
            href: String,
        }
        let days = Days::ALL.into_iter().filter(|days| *days == self.days || *days != Days::GreatQuake || days.has_events(known));
        let days = days.map(|days| Choice { label: days.label(), ..Choice::plain(days, days == self.days) }).collect();
        let limiters = Algorithm::ALL.map(|algorithm| Choice::plain(algorithm, self.is_compared(algorithm)));
        let rules = [CounterRule::Below, CounterRule::Fits].map(|rule| Choice::plain(rule, rule == self.comparison.counter_rule));
        let rate = self.comparison.rate;
        let hint = if lossless > 0 && faults.is_empty() {
            let href = query.but("bucket", &lossless.to_string());
            Markup::filled("lossless.html", Lossless { rate, bucket: lossless, href })?
        } else {
            Markup::default()
        };
        Ok(vec![
            Field::one("days", "Days", days),
            Field::line("from", "From", query, "").or("2025-07-29T12:00:00Z").only_with("days-chosen"),
            Field::line("to", "To (exclusive)", query, "").or("2025-07-31").only_with("days-chosen"),
            Field::any("limiter", "Limiters (none: all)", limiters.to_vec()),
            Field::line("rate", "Rate", query, USUAL_RATE),
            Field::number("bucket", "Bucket", query, "").or(rate.limit()).hint(hint),
            Field::line("min-magnitude", "Magnitude from", query, "").or("all"),
            Field::one("counter-rule", "Rule of sliding-counter", rules.to_vec()),
        ])
    }

    fn result(&self, known: &Known, events: &[Event], limits: Vec<Limit>, lossless: u64) -> Result<Markup, Refusal> {
        #[derive(Serialize)]
        struct Promise {
            limiter: String,
            promise: String,
        }
        #[derive(Serialize)]
        struct Found {
            said: String,
            command: String,
            table: Markup,
            promises: Vec<Promise>,
            drawn: String,
            figures: Markup,
            narrow: Markup,
        }
        let Some(stretch) = Stretch::of(events, self.from, self.to) else {
            return Markup::filled("nothing.html", ());
        };
        let few = events.len() <= MAX_SINGLE_MARKS;
        let replay = if few { Row::replay } else { Row::replay_without_words };
        let (rows, results): (Vec<Row>, Vec<Replayed<'_>>) = limits.into_iter().map(|limit| replay(limit, &stretch)).unzip();
        let scene = Scene::of_catalogue("what passed", &stretch, rows);
        let promise =
            |result: &Replayed<'_>| Promise { limiter: result.limit.name(), promise: result.limit.promise().to_string() };
        let caption = format!("{}{}, {}", counted(events.len() as u64, "event"), known.part(events.len()), scene.subtitle);
        let drawn = if few {
            "Each mark is an event: point at one, or go to a picture and use the arrow keys.".to_owned()
        } else {
            format!(
                "{} events are more than there is room for: each column shows the largest that passed and was refused.",
                count(events.len() as u64)
            )
        };
        Markup::filled(
            "what_if_result.html",
            Found {
                said: self.said(events.len(), &results, lossless),
                command: self.command(),
                table: table_of(&caption, &table(self.comparison.rate, &results), |_| false)?,
                promises: results.iter().map(promise).collect(),
                drawn,
                narrow: Markup::drawn(scene.to_narrow_figures()),
                figures: Markup::drawn(if few { scene.to_figures() } else { scene.to_plain_figures() }),
            },
        )
    }

    /// The result in a sentence or two.
    fn said(&self, events: usize, results: &[Replayed<'_>], lossless: u64) -> String {
        let admits = |(number, result): (usize, &Replayed<'_>)| {
            let bucket = result.limit.bucket().map_or_else(String::new, |bucket| format!(" (bucket {})", count(bucket.into())));
            let verb = if number == 0 { " admits" } else { "" };
            format!("{}{bucket}{verb} {}", result.limit.name(), count(result.admitted))
        };
        let admitted = results.iter().enumerate().map(admits).collect::<Vec<_>>().join(", ");
        let (events, rate) = (counted(events as u64, "event"), self.comparison.rate);
        format!("Of {events} at {rate}, {admitted}. A bucket of {} loses none.", count(lossless))
    }

    /// The same question on the command line.
    fn command(&self) -> String {
        let Comparison { rate, buckets, algorithms, counter_rule } = &self.comparison;
        let option = |name: &str, value: Option<String>| value.map(|value| format!("--{name} {value}"));
        let words = [
            Some("throttler replay FILE".to_owned()),
            option("from", self.from.map(|at| at.to_string())),
            option("to", self.to.map(|at| at.to_string())),
            option("min-magnitude", self.least.map(|least| least.to_string())),
            option("rate", Some(rate.to_string())),
            option("bucket", buckets.first().map(u64::to_string)),
            option("counter-rule", (*counter_rule != CounterRule::default()).then(|| counter_rule.to_string())),
        ];
        let limiters = algorithms.iter().map(|algorithm| format!("--limiter {algorithm}"));
        words.into_iter().flatten().chain(limiters).collect::<Vec<_>>().join(" ")
    }
}
