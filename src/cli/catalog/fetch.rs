//! `throttler catalog fetch`: downloads a catalogue from an FDSN event service.

use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::cli::Global;
use crate::cli::failure::{Blame, Blamed, Failure};
use crate::cli::output;
use crate::cli::pictures::file_to_write;
use crate::cli::setup::{Loaded, install_crypto};
use crate::clock::{Clock, SystemClock};
use crate::event::Magnitude;
use crate::feed::Settings;
use crate::feed::fdsn::{Download, Fdsn, FdsnUrl, Fetched, Question};
use crate::time::{EmptySpan, TICKS_PER_SECOND, Timestamp};

/// Download a catalogue from an FDSN event service, oldest event first
#[derive(Args)]
#[command(after_help = "Examples:
  throttler catalog fetch --output quakes.csv
  throttler catalog fetch --from 2025-07-01 --to 2025-08-01 --min-magnitude 4.5 \\
    --type earthquake | throttler min-bucket -
  throttler catalog fetch --url https://fdsn.example.org/fdsnws/event/1/ --output quakes.csv

The service's CSV as it serves it. It is asked how many events match, then for them in slices of time, and again where that
can help. An interrupted fetch goes on where it was when the same is asked again: until all is there, it lies in FILE.part and
FILE.part.json, and FILE stays as it was.

Exit status 1 also if the service counts more or fewer events than it gave, because some came or changed meanwhile; what it
gave is written all the same.")]
pub(in crate::cli) struct FetchArgs {
    /// Only events at this time or later (RFC 3339 or a date; whole seconds)
    #[arg(long, value_name = "TIME", default_value = "2015-01-01")]
    from: Timestamp,
    /// Only events before this time
    #[arg(long, value_name = "TIME", default_value = "2026-01-01")]
    to: Timestamp,
    /// Only events of this magnitude or more
    #[arg(long, value_name = "M", default_value = "5", allow_negative_numbers = true)]
    min_magnitude: Magnitude,
    /// Only events of these types, with commas between [default: all]
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    r#type: Vec<String>,
    /// Where the catalogue is put [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The service [default: feed.fdsn of the configuration, else the USGS's]
    #[arg(long, value_name = "URL")]
    url: Option<FdsnUrl>,
}

pub(super) fn run(global: &Global, args: &FetchArgs) -> Result<(), Failure> {
    let question = question(args)?;
    let loaded = Loaded::read(global)?;
    install_crypto();
    let url = match &args.url {
        Some(url) => url.clone(),
        None => loaded.fdsn_url()?.unwrap_or_else(FdsnUrl::usgs),
    };
    let fdsn = Fdsn::new(url, &Settings { timeouts: Fdsn::TIMEOUTS, ..loaded.feed_settings() })?;
    let output = args.output.as_deref().map(file_to_write).transpose()?;
    let mut download = match &output {
        Some(output) => Download::open(output, fdsn.url(), &question)?,
        None => Download::spooled(fdsn.url(), &question)?,
    };
    let fetched = fetch(&fdsn, &mut download)?;
    download.finish(&mut io::stdout().lock())?;
    if let Some(output) = &args.output {
        output::print(&summary(&fetched, &output.display().to_string()))?;
    }
    judge(&fetched)
}

fn question(args: &FetchArgs) -> Result<Question, Failure> {
    let (from, to) = (args.from, args.to);
    EmptySpan::check(Some(from), Some(to)).map_err(Failure::usage)?;
    if let Some(odd) = [from, to].into_iter().find(|at| at.ticks() % TICKS_PER_SECOND != 0) {
        return Err(Failure::usage(format!("{odd} is within a second: the service knows whole seconds only")));
    }
    Ok(Question { from, to, min_magnitude: Some(args.min_magnitude), kinds: args.r#type.clone() })
}

fn fetch(fdsn: &Fdsn, download: &mut Download) -> Result<Fetched, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bar = output::progress_bar(None, "{wide_bar} {human_pos} of {human_len} events, up to {msg}");
    let fetched = runtime.block_on(fdsn.fetch(download, &|| SystemClock.now(), &|progress| {
        bar.set_length(progress.of);
        bar.set_position(progress.events);
        bar.set_message(progress.until.to_utc().format("%Y-%m-%d").to_string());
    }));
    bar.finish_and_clear();
    Ok(fetched?)
}

fn summary(fetched: &Fetched, output: &str) -> String {
    let earlier = match fetched.resumed {
        0 => String::new(),
        resumed => format!(", {} of them from an interrupted fetch", output::count(resumed)),
    };
    format!("{} events in {output}{earlier}, {} requests.\n", output::count(fetched.events), output::count(fetched.requests))
}

/// Says where the numbers differ.
fn judge(fetched: &Fetched) -> Result<(), Failure> {
    let (counted, received) = (output::count(fetched.counted), output::count(fetched.received));
    match fetched.recounted {
        Some(recounted) if fetched.is_complete() && recounted == fetched.counted => Ok(()),
        Some(_) if fetched.is_complete() => {
            eprintln!("note: the service counted {counted} events at the start and {received} at the end, which are all here");
            Ok(())
        }
        Some(recounted) => {
            let recounted = output::count(recounted);
            Err(anyhow::anyhow!(
                "the service counts {recounted} events and gave {received}: some came or changed meanwhile, or it does not \
                 count well; what it gave is written, fetch again for one state"
            ))
            .blame(Blame::Running)
        }
        None => Ok(()),
    }
}
