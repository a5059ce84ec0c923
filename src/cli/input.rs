//! The flags of commands that read catalogues: which files, which of their events.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;

use super::failure::{Blame, Blamed, Failure};
use super::output;
use crate::catalogue::{self, BadRows, CatalogueError, Filter, Query, Reading, Source, TimeColumn, TimeFormat};
use crate::event::Magnitude;
use crate::time::{EmptySpan, Timestamp};

pub(super) use crate::words::{small_number, whole_number};

/// More threads than this read no faster.
const MAX_THREADS: u64 = 64;

#[derive(Args)]
pub(super) struct Input {
    /// Catalogues in CSV; several are one catalogue, - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only events of this magnitude or more
    #[arg(long, value_name = "M", allow_negative_numbers = true)]
    min_magnitude: Option<Magnitude>,
    /// Only events of these types, with commas between [default: all that the files hold]
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    r#type: Vec<String>,
    /// Only events at this time or later (RFC 3339 or a date)
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// Only events before this time
    #[arg(long, value_name = "TIME")]
    to: Option<Timestamp>,
    /// Count and report rows that are not well formed instead of stopping at the first
    #[arg(long)]
    skip_bad_rows: bool,
}

/// Where the times stand in files that are not the USGS's.
#[derive(Args)]
pub(super) struct TimeFlags {
    /// The column of the times: its name in the header, or its number from 1 (then a header is not needed)
    #[arg(long, value_name = "NAME|INDEX", default_value = "time")]
    time_column: TimeColumn,
    /// How times are written: rfc3339, epoch-s, epoch-ms or epoch-us
    #[arg(long, value_name = "FORMAT", default_value = "rfc3339")]
    time_format: TimeFormat,
    /// How many threads read a large file [default: the cores]
    #[arg(long, value_name = "N", value_parser = whole_number)]
    threads: Option<u64>,
}

impl TimeFlags {
    /// The query with these times.
    pub fn query(&self, input: &Input) -> Result<Query, Failure> {
        Ok(Query { time_column: self.time_column.clone(), time_format: self.time_format, ..input.query()? })
    }

    /// How many threads read.
    pub fn threads(&self) -> Result<usize, Failure> {
        match self.threads {
            None => Ok(std::thread::available_parallelism().map_or(1, std::num::NonZero::get)),
            Some(threads @ 1..=MAX_THREADS) => Ok(usize::try_from(threads).unwrap_or(1)),
            Some(other) => Err(Failure::usage(format!("--threads {other}: expected 1 to {MAX_THREADS}"))),
        }
    }
}

impl Input {
    /// A bar that shows how much of the files is read; on a terminal only.
    pub fn progress(&self) -> ProgressBar {
        let size = |file: &PathBuf| std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
        let total: Option<u64> = self.files.iter().map(size).sum();
        output::progress_bar(total, "{wide_bar} {bytes} of {total_bytes}, {eta} left")
    }

    /// The files that are read, without standard input.
    pub fn inputs(&self) -> Vec<&Path> {
        self.files.iter().map(PathBuf::as_path).filter(|file| !is_standard_input(file)).collect()
    }

    /// The files as they were named.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Where the events come from.
    pub fn sources(&self) -> Result<Vec<Source>, Failure> {
        if self.files.iter().filter(|file| is_standard_input(file)).count() > 1 {
            return Err(Failure::usage("standard input (-) can be read only once"));
        }
        let source = |file: &PathBuf| {
            if is_standard_input(file) {
                Source::Stream { name: "standard input".into(), input: Box::new(io::stdin()) }
            } else {
                Source::File(file.clone())
            }
        };
        Ok(self.files.iter().map(source).collect())
    }

    /// Which of them count.
    pub fn query(&self) -> Result<Query, Failure> {
        EmptySpan::check(self.from, self.to).map_err(Failure::usage)?;
        let filter = Filter { min_magnitude: self.min_magnitude, kinds: self.r#type.clone(), from: self.from, to: self.to };
        Ok(Query { filter, skip_bad_rows: self.skip_bad_rows, ..Query::default() })
    }
}

fn is_standard_input(file: &Path) -> bool {
    file == Path::new("-")
}

/// Says on standard error what was not as expected about the files.
pub(super) fn report(reading: &Reading) {
    report_skipped(&reading.bad_rows);
    if let Some(disorder) = &reading.disorder {
        eprintln!("note: {disorder}");
    }
    if reading.duplicates > 0 {
        eprintln!("note: {} rows stand in more than one file and count once", output::count(reading.duplicates));
    }
}

/// Says on standard error which rows were skipped.
pub(super) fn report_skipped(skipped: &BadRows) {
    if skipped.count > 0 {
        let rows = if skipped.count == 1 { "1 row is".to_owned() } else { format!("{} rows are", output::count(skipped.count)) };
        eprintln!("note: {rows} not well formed and left out, the first:");
        for row in &skipped.first {
            eprintln!("  {row}");
        }
    }
}

impl From<CatalogueError> for Failure {
    fn from(error: CatalogueError) -> Failure {
        let blame = match error.blame() {
            catalogue::Blame::Data => Blame::Data,
            catalogue::Blame::Reading => Blame::Running,
            catalogue::Blame::Usage => Blame::Usage,
        };
        // The match above decides; the detour gives the error its blame in one place.
        match Err::<(), _>(error).blame(blame) {
            Err(failure) => failure,
            Ok(()) => Failure::usage("no error"),
        }
    }
}
