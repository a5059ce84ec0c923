//! The command line: one file a command. What a command does beyond reading words and printing is the library's.

mod backup;
mod catalog;
mod completions;
mod config;
mod database;
mod demo;
mod exercise;
mod failure;
mod help;
mod input;
mod ledger;
mod limits;
mod log;
mod man;
mod min_bucket;
mod outbox;
mod output;
mod pictures;
mod recommend;
mod replay;
mod report;
mod run;
mod setup;
mod simulate;
mod status;
mod subscriber;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, FromArgMatches, Parser, Subcommand};

use crate::plain::without_url_secrets;
use failure::Failure;

/// Decides which earthquake alerts to send, delivers them, and can prove it decided well.
#[derive(Parser)]
#[command(name = "throttler", version, about, max_term_width = 120, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  throttler demo                                          the two days of the M8.8, end to end
  throttler min-bucket data/quakes_2015_2025.csv          the smallest bucket that loses nothing
  throttler subscriber add anna --email anna@example.org  M 5.0 or more, 5/h with a bucket of 74
  throttler run                                           the daemon

Exit status: 0 success, 1 it failed while running, 2 wrong usage or configuration, 3 the input data are bad.";

/// Options of every command.
#[derive(Args, Clone)]
struct Global {
    /// The configuration [default: throttler.toml here, else /etc/throttler/throttler.toml, where there is one]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Options of every command")]
    config: Option<PathBuf>,
    /// The database, a file or postgres://… [default: the configuration's, else throttler.db in the service's state directory or here]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Options of every command")]
    database: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the daemon: poll the feed, decide for every subscriber, deliver
    Run(run::RunArgs),
    /// Check the configuration, or print the commented default
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Configure who gets alerts; takes effect in a running daemon before the next event
    #[command(subcommand)]
    Subscriber(subscriber::SubscriberCommand),
    /// The smallest bucket with which a token bucket loses none of a catalogue's events
    MinBucket(min_bucket::MinBucketArgs),
    /// What history says about a good limit, with choices ready to be used
    Recommend(recommend::RecommendArgs),
    /// What each limiter would have done on historic days
    Replay(replay::ReplayArgs),
    /// Download a catalogue, or describe one
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    /// The laboratory: what limiters do with traffic made to order
    #[command(subcommand)]
    Simulate(simulate::SimulateCommand),
    /// Show how things stand: daemon, feed, events, subscribers, outbox
    Status(status::StatusArgs),
    /// Show what is due and dead; put dead letters back, or end deliveries
    #[command(subcommand)]
    Outbox(outbox::OutboxCommand),
    /// Show every decision with its reason and what became of it
    Ledger(ledger::LedgerArgs),
    /// Show who is being held back most, what became of all events, which destinations are dead
    Report(report::ReportArgs),
    /// Copy the database into a file while the daemon runs
    Backup(backup::BackupArgs),
    /// Move an installation from one database to another
    #[command(subcommand)]
    Database(database::DatabaseCommand),
    /// The two days of the M8.8 through the real pipeline, at many times real speed, without network or configuration
    Demo(demo::DemoArgs),
    /// Print what a shell needs to complete this command line
    Completions(completions::CompletionsArgs),
    /// Write the manual pages, one for each command
    Man(man::ManArgs),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let parsed = help::command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = parsed.unwrap_or_else(|error| without_secrets(error).exit());
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// A complaint about the command line that repeats no password or path of a URL on it.
fn without_secrets(mut error: clap::Error) -> clap::Error {
    // What was to be a webhook's URL may be one without a scheme; what may be shown of it stands in the reason.
    let of_webhook =
        matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(flag)) if flag.starts_with("--webhook "));
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand] {
        if let Some(ContextValue::String(text)) = error.get(kind) {
            let hidden = of_webhook && kind == ContextKind::InvalidValue;
            let shown = if hidden { "…".to_owned() } else { without_url_secrets(text) };
            error.insert(kind, ContextValue::String(shown));
        }
    }
    error
}

fn run(cli: Cli) -> Result<(), Failure> {
    let Cli { global, command } = cli;
    match command {
        Command::Run(args) => run::run(&global, &args),
        Command::Config(command) => config::run(&global, &command),
        Command::Subscriber(command) => subscriber::run(&global, command),
        Command::MinBucket(args) => min_bucket::run(&args),
        Command::Recommend(args) => recommend::run(&args),
        Command::Replay(args) => replay::run(&global, &args),
        Command::Catalog(command) => catalog::run(&global, &command),
        Command::Simulate(command) => simulate::run(&command),
        Command::Demo(args) => demo::run(&args),
        Command::Status(args) => status::run(&global, &args),
        Command::Report(args) => report::run(&global, &args),
        Command::Backup(args) => backup::run(&global, &args),
        Command::Database(command) => database::run(&global, &command),
        Command::Outbox(command) => outbox::run(&global, &command),
        Command::Ledger(args) => ledger::run(&global, &args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
