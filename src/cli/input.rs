//! The flags of commands that read catalogues: which files, which of their events.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::{Blame, Blamed, Failure};
use super::output;
use crate::catalogue::{self, BadRows, CatalogueError, Filter, Query, Source};
use crate::event::Magnitude;
use crate::time::Timestamp;

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

impl Input {
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
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            return Err(Failure::usage(format!("the span from {from} to {to} is empty: --from is inclusive, --to exclusive")));
        }
        let filter = Filter { min_magnitude: self.min_magnitude, kinds: self.r#type.clone(), from: self.from, to: self.to };
        Ok(Query { filter, skip_bad_rows: self.skip_bad_rows, ..Query::default() })
    }
}

fn is_standard_input(file: &Path) -> bool {
    file == Path::new("-")
}

/// Reads a count, with a message that says what was expected.
pub(super) fn whole_number(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // More than 64 bits hold is more than anything here may be.
    if digits { Ok(text.parse().unwrap_or(u64::MAX)) } else { Err(format!("'{text}' is not a count: expected a whole number")) }
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
