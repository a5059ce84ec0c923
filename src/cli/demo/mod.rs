//! `throttler demo`: the two days of the M8.8 through the real pipeline, without network, configuration or server.

mod course;
mod report;
mod server;

use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::{Blame, Blamed, Failure};
use super::output::{self, Format};
use super::setup::install_crypto;
use crate::catalogue::{Filter, Query, Source, read_events};
use crate::clock::{Clock, SystemClock};
use crate::event::Event;
use crate::interest::Interest;
use crate::time::Timestamp;

/// The local 30 and 31 July 2025 in Kamchatka.
const FROM: &str = "2025-07-29T12:00:00Z";
const TO: &str = "2025-07-31T12:00:00Z";

/// The two days of the M8.8 through the real pipeline, at many times real speed
#[derive(Args)]
#[command(after_help = "Examples:
  throttler demo
  throttler demo --directory /tmp/demo --format json

Feed, identity, interest, decision, ledger and outbox in SQLite, delivery: all of it is what `throttler run` does. Only the
clock is the demonstration's: it stands at each event's origin time in turn. The feed and the receiver of webhooks listen on
loopback and end with the command; email becomes .eml files.")]
pub(super) struct DemoArgs {
    /// The catalogue that holds the two days [default: `data/quakes_2015_2025.csv` here, else the installed one]
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
    /// Where database, email and webhooks are put: a directory that is empty or not there yet [default: a new one under the
    /// system's temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The shipped catalogue: in the project's directory, and where the package has it.
const CATALOGUES: [&str; 2] = ["data/quakes_2015_2025.csv", "/usr/share/throttler/quakes_2015_2025.csv"];

impl DemoArgs {
    /// The named catalogue, or the first of the shipped ones that is there.
    fn catalogue(&self) -> PathBuf {
        let [here, installed] = CATALOGUES.map(PathBuf::from);
        self.catalogue.clone().unwrap_or(if here.exists() || !installed.exists() { here } else { installed })
    }
}

pub(super) fn run(args: &DemoArgs) -> Result<(), Failure> {
    install_crypto();
    let (from, events) = two_days(&args.catalogue())?;
    let directory = directory(args.directory.as_deref())?;
    let started_at = SystemClock.now();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let quiet = args.format == Format::Json;
    let mut course = runtime.block_on(course::run(&directory, from, &events, quiet))?;
    course.took = SystemClock.now().since(started_at);
    match args.format {
        Format::Json => output::print_json(&report::as_json(&course)),
        Format::Text => output::print(&report::as_text(&course)),
    }
}

/// The start of the two days and their events, in order.
fn two_days(catalogue: &Path) -> Result<(Timestamp, Vec<Event>), Failure> {
    let (from, to): (Timestamp, Timestamp) = (FROM.parse().map_err(Failure::usage)?, TO.parse().map_err(Failure::usage)?);
    let min_magnitude = Some(Interest::default().min_magnitude);
    let filter = Filter { min_magnitude, from: Some(from), to: Some(to), ..Filter::default() };
    let query = Query { filter, ..Query::default() };
    if !catalogue.exists() {
        let missing = catalogue.display();
        let advice = "run the demonstration in the project's directory, or name the catalogue with --catalogue";
        return Err(anyhow::anyhow!("there is no {missing}: {advice}")).blame(Blame::Running);
    }
    let (events, _) = read_events(&mut [Source::File(catalogue.to_owned())], &query)?;
    if events.is_empty() {
        return Err(anyhow::anyhow!("{} has no events from {FROM} to {TO}", catalogue.display())).blame(Blame::Data);
    }
    Ok((from, events))
}

/// An empty directory for what the demonstration leaves.
fn directory(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(path) = named else {
        return Ok(tempfile::Builder::new().prefix("throttler-demo-").tempdir()?.keep());
    };
    let about = |fault| anyhow::anyhow!("cannot use the directory {}: {fault}", path.display());
    std::fs::create_dir_all(path).map_err(about).blame(Blame::Running)?;
    let mut entries = std::fs::read_dir(path).map_err(about).blame(Blame::Running)?;
    if entries.next().is_some() {
        return Err(Failure::usage(format!("{} is not empty: the demonstration needs a directory of its own", path.display())));
    }
    Ok(path.to_owned())
}
