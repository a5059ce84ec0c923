//! `throttler simulate`: the laboratory, one file an experiment; here is what their output has in common.

mod attack;
mod clients;
mod lockout;
mod outage;
mod patterns;
mod split;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::Failure;
use super::input::whole_number;
use super::output::{self, Format};
use super::pictures::{PictureFlags, Pictures};
use crate::limiter::{Algorithm, Limit};
use crate::rate::Rate;
use crate::simulate::statistics::Estimate;
use crate::simulate::{SetupError, Work};

/// What limiters do with traffic made to order; without flags, the published set-up
#[derive(Subcommand)]
pub(super) enum SimulateCommand {
    /// Honest traffic of five shapes: what each limiter serves, its busiest window, its wrong answers
    Clients(clients::ClientsArgs),
    /// A client that waits quietly, then floods, at every phase of the window
    Attack(attack::AttackArgs),
    /// What happens to a retrying client when refused requests are counted too
    Lockout(lockout::LockoutArgs),
    /// One limit over several servers, each with its share, or all with one shared state
    Split(split::SplitArgs),
    /// The shared store goes away for a while: what passes under each policy
    Outage(outage::OutageArgs),
    /// Three small patterns of requests, all limiters side by side
    Patterns(patterns::PatternsArgs),
}

/// Flags of every experiment.
#[derive(Args)]
struct Common {
    /// The seed of all chance: the same seed gives the same output
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = whole_number, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pictures: PictureFlags,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Common {
    /// The files for pictures, before any work.
    fn pictures(&self) -> Result<Option<Pictures>, Failure> {
        self.pictures.open(&[])
    }
}

pub(super) fn run(command: &SimulateCommand) -> Result<(), Failure> {
    match command {
        SimulateCommand::Clients(args) => clients::run(args),
        SimulateCommand::Attack(args) => attack::run(args),
        SimulateCommand::Lockout(args) => lockout::run(args),
        SimulateCommand::Split(args) => split::run(args),
        SimulateCommand::Outage(args) => outage::run(args),
        SimulateCommand::Patterns(args) => patterns::run(args),
    }
}

/// Works on all cores, with a bar on standard error where that is a terminal.
fn with_progress<T>(experiment: impl FnOnce(&Work<'_>) -> Result<T, SetupError>) -> Result<T, Failure> {
    let bar = output::progress_bar(Some(0), "{bar:40} {pos} of {len} runs, {eta} left");
    let progress = |done: usize, of: usize| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let found = experiment(&Work { threads, progress: &progress });
    bar.finish_and_clear();
    found.map_err(Failure::from)
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Failure {
        Failure::wrong_usage(error)
    }
}

/// The document of the contract.
fn document(common: &Common, rate: Rate, results: &[Value]) -> Value {
    json!({ "seed": common.seed, "rate": rate, "results": results })
}

/// A row of the contract: which limiter, then what was found.
fn row(limit: Limit, found: Value) -> Value {
    let mut row = json!({ "limiter": limit.algorithm(), "rate": limit.rate(), "bucket": limit.bucket() });
    if limit.algorithm() == Algorithm::SlidingCounter {
        row["counter_rule"] = json!(limit.rule());
    }
    if let (Some(row), Value::Object(found)) = (row.as_object_mut(), found) {
        row.extend(found);
    }
    row
}

/// A share or a mean as JSON shows it: six decimals, which is finer than any run decides.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn bucket(limit: Limit) -> String {
    limit.bucket().map_or_else(|| "-".to_owned(), |bucket| super::output::count(bucket.into()))
}

/// A share in percent: `99.60`.
fn percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

/// A share in percent with its standard error: `71.19 ± 0.15`.
fn percent_estimate(share: Estimate) -> String {
    format!("{:.2} ± {:.2}", share.mean * 100.0, share.stderr * 100.0)
}
