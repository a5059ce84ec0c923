//! `/laboratory`: sixty seconds of traffic before a limit whose store goes away, in the numbers of `throttler simulate outage`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde::Serialize;

use super::Web;
use super::fields::{Choice, Field, Reading, form};
use super::query::Query;
use super::shell::{Markup, Refusal, Tab, page};
use super::table::table_of;
use crate::daemon::with_causes;
use crate::limiter::{Algorithm, CounterRule};
use crate::limits::FallbackPolicy;
use crate::plot::{Arrivals, laboratory};
use crate::rate::{Rate, RateError};
use crate::simulate::SetupError;
use crate::simulate::outage::{Outage, OutageRow, Preset, table};
use crate::time::Span;
use crate::words::{count, small_number, whole_number};

/// How long every run is: what one question costs is bounded by it, and by the requests of the presets.
const LENGTH: Span = Span::from_seconds(60);
/// What is asked where nothing is.
const USUAL_LIMIT: u64 = 10;
const USUAL_WINDOW: Span = Span::from_seconds(1);

pub(super) async fn show(State(web): State<Arc<Web>>, address: Uri) -> Result<Response, Refusal> {
    let query = Query::of(&address);
    let content = web.work.compute(move || answer(&query)).await??;
    // Also where a field is wrong: while its reader types it nearly always is, and the page is the one that was asked for.
    page(StatusCode::OK, Some(Tab::Laboratory), "Laboratory", &content)
}

/// What is asked.
struct Asked {
    /// One preset and one policy, all algorithms.
    setup: Outage,
    preset: Preset,
    policy: FallbackPolicy,
    /// The one that is drawn.
    algorithm: Algorithm,
}

fn answer(query: &Query) -> Result<Markup, Refusal> {
    #[derive(Serialize)]
    struct Page {
        form: Markup,
        result: Markup,
    }
    let mut reading = Reading::new(query);
    let asked = Asked::read(&mut reading);
    let found = asked.as_ref().map(Asked::run).transpose();
    let found = found.map_err(|(field, fault)| reading.fault(field, fault)).ok().flatten();
    let faults = reading.finish();
    let fields = fields(query, asked.as_ref());
    let result = match (asked, found) {
        (Some(asked), Some((rows, drawn))) if faults.is_empty() => asked.result(&rows, &drawn)?,
        _ => faults.result(&fields)?,
    };
    Markup::filled("laboratory.html", Page { form: form(fields, &faults)?, result })
}

impl Asked {
    /// `None` if the limit makes no sense, which is told.
    fn read(reading: &mut Reading<'_>) -> Option<Asked> {
        let limit = reading.with("limit", whole_number).unwrap_or(USUAL_LIMIT);
        let window = reading.value("window").unwrap_or(USUAL_WINDOW);
        let (preset, policy) = (reading.value("preset"), reading.value("policy"));
        let (preset, policy) = (preset.unwrap_or(Preset::SteadyOverload), policy.unwrap_or(FallbackPolicy::FailOpen));
        let algorithm = reading.value("limiter").unwrap_or(Algorithm::TokenBucket);
        let bucket = reading.with("bucket", whole_number);
        let rule = reading.value("counter-rule");
        let instances = reading.with("instances", small_number);
        let (down_from, down_to) = (reading.value("down-from"), reading.value("down-to"));
        let published = match Rate::new(limit, window) {
            Ok(rate) => Outage::published(rate),
            Err(fault) => {
                reading.fault(if matches!(fault, RateError::Window(_)) { "window" } else { "limit" }, fault);
                return None;
            }
        };
        let setup = Outage {
            bucket: bucket.unwrap_or(published.bucket),
            rule: rule.unwrap_or(published.rule),
            algorithms: Algorithm::ALL.to_vec(),
            presets: vec![preset],
            policies: vec![policy],
            instances: instances.unwrap_or(published.instances),
            length: LENGTH,
            down_from: down_from.unwrap_or(published.down_from),
            down_to: down_to.unwrap_or(published.down_to),
            ..published
        };
        Some(Asked { setup, preset, policy, algorithm })
    }

    /// All limiters in numbers, and the chosen one drawn; or what is wrong with which field.
    fn run(&self) -> Result<(Vec<OutageRow>, Arrivals), (&'static str, String)> {
        let drawn = Outage { algorithms: vec![self.algorithm], ..self.setup.clone() };
        let run = || Ok((self.setup.run()?, laboratory::outage(&drawn)?));
        run().map_err(|fault: SetupError| match fault {
            SetupError::Limit(fault) => ("bucket", fault.to_string()),
            SetupError::Outage { .. } => ("down-to", fault.to_string()),
            SetupError::Instances(_) | SetupError::Fallback(_) => ("instances", with_causes(&fault)),
            fault => ("limit", with_causes(&fault)),
        })
    }

    fn result(&self, rows: &[OutageRow], drawn: &Arrivals) -> Result<Markup, Refusal> {
        #[derive(Serialize)]
        struct Found {
            said: String,
            about: &'static str,
            command: String,
            table: Markup,
            figures: Markup,
            narrow: Markup,
        }
        let Outage { rate, instances, down_from, down_to, .. } = self.setup;
        let caption = format!(
            "{}: {} requests in {LENGTH}. {instances} instances share {rate}; their store is away from {down_from} to {down_to}. Of the \
             leaky bucket the busiest stretch counts departures.",
            self.preset,
            count(rows.first().map_or(0, |row| row.offered)),
        );
        let is_drawn = |number: usize| rows.get(number).is_some_and(|row| row.limit.algorithm() == self.algorithm);
        let found = Found {
            said: self.said(rows),
            about: self.preset.description(),
            command: self.command(),
            table: table_of(&caption, &table(rate, &rows.iter().collect::<Vec<_>>()), is_drawn)?,
            figures: Markup::drawn(drawn.to_figures()),
            narrow: Markup::drawn(drawn.to_narrow_figures()),
        };
        Markup::filled("laboratory_result.html", found)
    }

    /// The result in a sentence.
    fn said(&self, rows: &[OutageRow]) -> String {
        let of = |policy| rows.iter().find(|row| row.policy == policy && row.limit.algorithm() == self.algorithm);
        let (Some(without), Some(row)) = (of(None), of(Some(self.policy))) else { return String::new() };
        format!(
            "{} under {}: {} of {} passed, {} of {} in the outage, at most {} in any {}; without the outage {} passed, at most {}.",
            self.algorithm,
            self.policy,
            count(row.admitted),
            count(row.offered),
            count(row.admitted_in_outage),
            count(row.offered_in_outage),
            count(row.busiest_window),
            self.setup.rate.window().in_words(),
            count(without.admitted),
            count(without.busiest_window),
        )
    }

    /// The same question on the command line.
    fn command(&self) -> String {
        let Outage { rate, bucket, rule, instances, down_from, down_to, .. } = &self.setup;
        format!(
            "throttler simulate outage --rate {rate} --bucket {bucket} --counter-rule {rule} --preset {} --policy {} --instances {instances} \
             --down-from {down_from} --down-to {down_to}",
            self.preset, self.policy,
        )
    }
}

/// The form; what was not asked shows what is usual.
fn fields(query: &Query, asked: Option<&Asked>) -> Vec<Field> {
    let choices = |name: &str, usual: &str, all: Vec<(String, &str)>| -> Vec<Choice> {
        let chosen = query.text(name).filter(|text| all.iter().any(|(value, _)| value == text)).unwrap_or(usual);
        let choice =
            |(value, about): &(String, &str)| Choice { about: (*about).to_owned(), ..Choice::plain(value, value == chosen) };
        all.iter().map(choice).collect()
    };
    let presets = Preset::ALL.map(|preset| (preset.to_string(), preset.description()));
    let policies = FallbackPolicy::ALL.map(|policy| (policy.to_string(), ""));
    let limiters = Algorithm::ALL.map(|algorithm| (algorithm.to_string(), ""));
    let rules = [CounterRule::Fits, CounterRule::Below].map(|rule| (rule.to_string(), ""));
    let bucket = asked.map_or(2 * USUAL_LIMIT, |asked| Outage::published(asked.setup.rate).bucket);
    vec![
        Field::one("preset", "Traffic", choices("preset", Preset::SteadyOverload.name(), presets.to_vec())),
        Field::one("policy", "While the store is away", choices("policy", FallbackPolicy::FailOpen.name(), policies.to_vec())),
        Field::one("limiter", "Limiter drawn", choices("limiter", Algorithm::TokenBucket.name(), limiters.to_vec())),
        Field::number("limit", "Limit", query, &USUAL_LIMIT.to_string()),
        Field::line("window", "in each", query, &USUAL_WINDOW.to_string()),
        Field::number("bucket", "Bucket", query, "").or(bucket),
        Field::number("instances", "Instances", query, "4"),
        Field::line("down-from", "Away from", query, "20s"),
        Field::line("down-to", "to", query, "30s"),
        Field::one("counter-rule", "Rule of sliding-counter", choices("counter-rule", "fits", rules.to_vec())),
    ]
}
