//! Captures of a feed: files of `GeoJSON` or CSV, each as it was seen at one moment.
//!
//! When that was is said by the content (`metadata.generated` of `GeoJSON`), else by the file's name, in UTC: the last
//! `20250805T050359Z` in it, dashes, colons and underscores within it left aside.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error};

use crate::catalogue::{Events, Filter, Query};
use crate::cli::failure::{Blame, Blamed, Failure};
use crate::cli::output;
use crate::event::Event;
use crate::feed::{self, MAX_BODY_BYTES};
use crate::time::Timestamp;

/// The most captures that are replayed in one go: a year of one a minute, and as much again.
const MAX_CAPTURES: usize = 1 << 20;
/// How many of the captures and events that were left out are described; the others are only counted.
const MAX_REPORTED: usize = 5;

/// Files in the order in which they were seen.
pub(super) struct Captures {
    files: Vec<(Timestamp, PathBuf)>,
    filter: Filter,
}

/// What one capture showed.
pub(super) struct Capture {
    pub events: Vec<Event>,
    seen_at: Option<Timestamp>,
    /// Rows and features that are no events, each with its place.
    bad: Vec<String>,
}

/// What was left out, counted, and the first of it described.
#[derive(Default)]
struct LeftOut {
    count: u64,
    first: Vec<String>,
}

impl Captures {
    /// Finds the captures in the directories, and reads each once to know when it was seen and that it can be read. With
    /// `skip_bad_rows` those that cannot are left out, as the daemon goes on after a poll that failed.
    pub fn find(paths: &[PathBuf], query: &Query) -> Result<Captures, Failure> {
        let named = listed(paths)?;
        let filter = Filter { min_magnitude: None, ..query.filter.clone() };
        let (mut files, mut bad_files, mut bad_events) = (Vec::new(), LeftOut::default(), LeftOut::default());
        let progress = output::progress_bar(Some(named.len() as u64), "{wide_bar} {pos} of {len} captures, {eta} left");
        for path in named {
            let found = read(&path, &filter).and_then(|capture| Ok((when(&path, capture.seen_at)?, capture.bad)));
            match found {
                Ok((seen_at, bad)) => {
                    files.push((seen_at, path));
                    for bad in bad {
                        bad_events.add(bad);
                    }
                }
                Err(failure) if query.skip_bad_rows && failure.blame() == Blame::Data => bad_files.add(failure.to_string()),
                Err(failure) => return Err(failure),
            }
            progress.inc(1);
        }
        progress.finish_and_clear();
        if files.is_empty() {
            let places = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
            return Err(Error::msg(format!("{places}: there are no captures; expected files of GeoJSON or CSV")))
                .blame(Blame::Data);
        }
        if !files.is_sorted_by_key(|(seen_at, _)| *seen_at) {
            eprintln!("note: the captures are taken in the order in which they were seen, which is not that of their names");
            files.sort_by_key(|(seen_at, _)| *seen_at);
        }
        bad_files.report("capture is not readable", "captures are not readable");
        bad_events.report("row or feature is not well formed", "rows and features are not well formed");
        Ok(Captures { files, filter })
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// When the first and the last were seen.
    pub fn ends(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.files.first()?.0, self.files.last()?.0))
    }

    /// Each with when it was seen, in order; read when it is its turn.
    pub fn iter(&self) -> impl Iterator<Item = (Timestamp, Result<Capture, Failure>)> {
        self.files.iter().map(|(seen_at, path)| (*seen_at, read(path, &self.filter)))
    }
}

impl LeftOut {
    fn add(&mut self, what: String) {
        self.count += 1;
        if self.first.len() < MAX_REPORTED {
            self.first.push(what);
        }
    }

    fn report(&self, one: &str, several: &str) {
        if self.count > 0 {
            eprintln!(
                "note: {} {} and left out, the first:",
                output::count(self.count),
                if self.count == 1 { one } else { several }
            );
            for what in &self.first {
                eprintln!("  {what}");
            }
        }
    }
}

/// The files that are named and those in the directories that are, by name; what is hidden, and directories within, are not.
fn listed(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let within = (|| fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>())();
        let mut within = within.with_context(|| format!("cannot read the directory {}", path.display())).blame(Blame::Running)?;
        let hidden = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        within.retain(|path| !path.is_dir() && !hidden(path));
        within.sort();
        files.append(&mut within);
    }
    if files.len() > MAX_CAPTURES {
        return Err(Failure::usage(format!("{} captures are too many: expected at most {MAX_CAPTURES}", files.len())));
    }
    Ok(files)
}

/// Reads one capture: `GeoJSON` if it begins like JSON, else CSV.
fn read(path: &Path, filter: &Filter) -> Result<Capture, Failure> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let limit = MAX_BODY_BYTES as u64 + 1;
    let done = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    done.with_context(|| format!("cannot read the capture {name}")).blame(Blame::Running)?;
    let wrong = |what: &str| Err(Error::msg(format!("{name}: {what}"))).blame(Blame::Data);
    if bytes.len() > MAX_BODY_BYTES {
        return wrong(&format!("a capture of more than {MAX_BODY_BYTES} bytes"));
    }
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes).trim_ascii_start();
    match text.first() {
        None => wrong("it is empty: expected GeoJSON or CSV"),
        Some(b'{' | b'[') => geojson(&bytes, &name, filter),
        Some(_) => csv(&bytes, &name, filter),
    }
}

fn geojson(bytes: &[u8], name: &str, filter: &Filter) -> Result<Capture, Failure> {
    let snapshot = feed::parse(bytes).with_context(|| name.to_owned()).blame(Blame::Data)?;
    let of_kind =
        |event: &Event| filter.kinds.is_empty() || filter.kinds.iter().any(|kind| kind.eq_ignore_ascii_case(&event.kind));
    let within = |at: Timestamp| filter.from.is_none_or(|from| at >= from) && filter.to.is_none_or(|to| at < to);
    let events = snapshot.events.into_iter().filter(|event| of_kind(event) && within(event.origin_at)).collect();
    let bad = snapshot.rejected.iter().map(|bad| format!("{name}, feature {}: {}", bad.index + 1, bad.reason)).collect();
    Ok(Capture { events, seen_at: snapshot.generated_at, bad })
}

fn csv(bytes: &[u8], name: &str, filter: &Filter) -> Result<Capture, Failure> {
    let query = Query { filter: filter.clone(), skip_bad_rows: true, ..Query::default() };
    let mut rows = Events::open(bytes, name, &query)?;
    if !rows.has_ids() {
        let message = format!("{name}, line 1: there is no column id; expected one, by which an event is known again");
        return Err(Error::msg(message)).blame(Blame::Data);
    }
    let events = rows.by_ref().collect::<Result<_, _>>()?;
    let skipped = rows.bad_rows();
    let more = usize::try_from(skipped.count).unwrap_or(usize::MAX).saturating_sub(skipped.first.len());
    let described = skipped.first.iter().map(ToString::to_string);
    let bad = described.chain(std::iter::repeat_n(format!("{name}: another row"), more)).collect();
    Ok(Capture { events, seen_at: None, bad })
}

/// When a capture was seen.
fn when(path: &Path, generated_at: Option<Timestamp>) -> Result<Timestamp, Failure> {
    let in_name = || time_in(&path.file_name()?.to_string_lossy());
    let unknown = || {
        let file = path.display();
        Error::msg(format!(
            "{file}: when was it seen? Expected GeoJSON with metadata.generated, or a time in the name like 20250805T050359Z"
        ))
    };
    generated_at.or_else(in_name).ok_or_else(unknown).blame(Blame::Data)
}

/// The last time in UTC in a file's name.
fn time_in(name: &str) -> Option<Timestamp> {
    let plain: String = name.chars().filter(|c| !matches!(c, '-' | ':' | '_')).collect();
    let instant = |stamp: &[u8]| {
        let (date, time) = (stamp.get(..8)?, stamp.get(9..15)?);
        let digits = date.iter().chain(time).all(u8::is_ascii_digit);
        let text = std::str::from_utf8(stamp).ok().filter(|_| digits && stamp[8] == b'T' && stamp[15] == b'Z')?;
        let (y, mo, d, h, mi, s) = (&text[..4], &text[4..6], &text[6..8], &text[9..11], &text[11..13], &text[13..15]);
        format!("{y}-{mo}-{d}T{h}:{mi}:{s}Z").parse().ok()
    };
    plain.as_bytes().windows(16).rev().find_map(instant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_time_in_a_name_counts() {
        for (name, time) in [
            ("poll_20250805T050359Z.geojson", Some("2025-08-05T05:03:59.000Z")),
            ("all_day_2025-10-09T12-53-55Z.csv", Some("2025-10-09T12:53:55.000Z")),
            ("2025-10-09T12:53:55Z.csv", Some("2025-10-09T12:53:55.000Z")),
            ("v2_20250101T000000Z_20250102T000000Z", Some("2025-01-02T00:00:00.000Z")),
            ("20251309T125355Z.csv", None),
            ("20251009T125355.csv", None),
            ("é20251009é125355Z.csv", None),
            ("all_day.csv", None),
        ] {
            assert_eq!(time_in(name).map(|at| at.to_string()).as_deref(), time, "{name}");
        }
    }
}
