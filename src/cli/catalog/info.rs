//! `throttler catalog info`: what a catalogue holds.

use std::fmt::Write as _;
use std::io::{self, Read};

use clap::Args;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::analysis::{Describer, Description};
use crate::catalogue::{BadRows, Events, Query, Source};
use crate::cli::failure::Failure;
use crate::cli::input::{Input, report_skipped};
use crate::cli::output::{self, Format, Side};

/// Describe a catalogue: its span, magnitudes, types, order, duplicates and longest silences
#[derive(Args)]
#[command(after_help = "Examples:
  throttler catalog info data/quakes_2015_2025.csv
  throttler catalog info quakes.csv --min-magnitude 7 --format json

Each file is described by itself. Size and checksum are the file's, whichever of its events count.")]
pub(in crate::cli) struct InfoArgs {
    #[command(flatten)]
    input: Input,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One file.
struct Described {
    name: String,
    bytes: u64,
    sha256: String,
    description: Description,
}

pub(super) fn run(args: &InfoArgs) -> Result<(), Failure> {
    let (mut sources, query) = (args.input.sources()?, args.input.query()?);
    let bar = args.input.progress();
    let mut files = Vec::new();
    let mut bad_rows = Vec::new();
    for source in &mut sources {
        let (described, skipped) = read(source, &query, &|bytes| bar.inc(bytes))?;
        files.push(described);
        bad_rows.push(skipped);
    }
    bar.finish_and_clear();
    bad_rows.iter().for_each(report_skipped);
    match args.format {
        Format::Json => output::print_json(&json!({ "files": files.iter().map(as_json).collect::<Vec<_>>() })),
        Format::Text => output::print(&files.iter().map(as_text).collect::<Vec<_>>().join("\n")),
    }
}

fn read(source: &mut Source, query: &Query, progress: &dyn Fn(u64)) -> Result<(Described, BadRows), Failure> {
    let name = source.name();
    let mut input = Hashed { input: source.open()?, bytes: 0, digest: Sha256::new(), progress };
    let mut events = Events::open(&mut input, &name, query)?;
    let mut described = Describer::new(events.has_ids());
    for event in &mut events {
        described.add(&event?);
    }
    let skipped = events.bad_rows().clone();
    drop(events);
    let Hashed { bytes, digest, .. } = input;
    Ok((Described { name, bytes, sha256: hexadecimal(&digest.finalize()), description: described.finish() }, skipped))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What is read is counted and hashed on the way.
struct Hashed<'a> {
    input: Box<dyn Read + Send + 'a>,
    bytes: u64,
    digest: Sha256,
    progress: &'a dyn Fn(u64),
}

impl Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.digest.update(&buffer[..read]);
        self.bytes += read as u64;
        (self.progress)(read as u64);
        Ok(read)
    }
}

fn as_json(file: &Described) -> Value {
    let of = &file.description;
    let by_unit: Vec<Value> =
        of.by_unit.iter().map(|(unit, events)| json!({ "from": unit, "to": unit + 1, "events": events })).collect();
    let types: serde_json::Map<String, Value> = of.kinds.iter().map(|(kind, events)| (kind.clone(), (*events).into())).collect();
    let gaps: Vec<Value> = of
        .gaps
        .iter()
        .map(|gap| json!({ "from": gap.from, "to": gap.to, "duration_s": output::seconds(gap.lasting()) }))
        .collect();
    json!({
        "file": file.name, "bytes": file.bytes, "sha256": file.sha256,
        "events": of.events, "first": of.first, "last": of.last, "order": of.order.to_string(), "duplicates": of.duplicates,
        "magnitudes": {
            "least": of.least, "median": of.median, "greatest": of.greatest, "unknown": of.without_magnitude, "by_unit": by_unit,
        },
        "types": types, "gaps": gaps,
    })
}

fn as_text(file: &Described) -> String {
    let of = &file.description;
    let (Some(first), Some(last)) = (of.first, of.last) else {
        return format!("{}: no event.\n\n{}", file.name, output::pairs(&facts(file)));
    };
    let magnitudes = output::table(
        &[("magnitude", Side::Left), ("events", Side::Right)],
        of.by_unit
            .iter()
            .map(|(unit, events)| vec![format!("{unit} to {}", unit + 1), output::count(*events)])
            .chain((of.without_magnitude > 0).then(|| vec!["unknown".to_owned(), output::count(of.without_magnitude)])),
    );
    let types = output::table(
        &[("type", Side::Left), ("events", Side::Right)],
        of.kinds.iter().map(|(kind, events)| vec![kind.clone(), output::count(*events)]),
    );
    let gaps = output::table(
        &[("longest silences", Side::Left), ("to", Side::Left), ("lasting", Side::Left)],
        of.gaps.iter().map(|gap| vec![gap.from.to_string(), gap.to.to_string(), output::duration(gap.lasting())]),
    );
    format!(
        "{}: {} events from {first} to {last}.\n\n{}\n{magnitudes}\n{types}\n{gaps}",
        file.name,
        output::count(of.events),
        output::pairs(&facts(file)),
    )
}

fn facts(file: &Described) -> Vec<(&'static str, String)> {
    let of = &file.description;
    let magnitudes = match (of.least, of.greatest, of.median) {
        (Some(least), Some(greatest), Some(median)) => format!("{least} to {greatest}, median {median}"),
        _ => "none is known".to_owned(),
    };
    vec![
        ("order", of.order.to_string()),
        ("duplicates", of.duplicates.map_or("unknown, there are no ids".to_owned(), output::count)),
        ("magnitudes", magnitudes),
        ("size", format!("{} bytes", output::count(file.bytes))),
        ("sha256", file.sha256.clone()),
    ]
}
