//! Brings the times of a catalogue into order: as they stand if they are ordered in either direction, else sorted.
//!
//! The ordered case takes constant memory. A catalogue that turns out to be unordered is read again: files are opened a
//! second time, and what came from a stream was kept in an unlinked temporary file.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::ops::ControlFlow;

use super::error::{BadRows, CatalogueError};
use super::scan::{MAX_BATCH, Progress, Scanner, check, scan_source};
use super::{Query, Source};
use crate::time::Timestamp;

/// What receives the times of a catalogue in order, piece by piece.
pub trait InOrder {
    /// Takes the next piece: ascending, not empty, and entirely not before ([`Side::After`]) or not after
    /// ([`Side::Before`]) all pieces so far. The side stays the same until [`InOrder::restart`].
    fn piece(&mut self, times: &[Timestamp], side: Side);
    /// Forgets everything: the pieces were out of order and come again.
    fn restart(&mut self);
}

/// On which side of the earlier pieces a piece lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The catalogue is oldest first.
    After,
    /// The catalogue is newest first.
    Before,
}

/// What reading in order has to report besides the times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The rows that were skipped, if the query allows it.
    pub bad_rows: BadRows,
    /// Why the times were sorted first, if they were.
    pub disorder: Option<Disorder>,
    /// How many rows were left out because an earlier input has a row with the same id.
    pub duplicates: u64,
}

/// Why times had to be sorted. Says so in a sentence, for a note to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disorder {
    /// This input is neither oldest first nor newest first.
    Within(String),
    /// This input does not continue where the one before it ended: they overlap, touch, or are in another order.
    Between(String, String),
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Within(file) => write!(f, "{file} is neither oldest first nor newest first; its events were sorted"),
            Self::Between(earlier, later) => {
                write!(f, "{later} does not simply continue {earlier}; the events of all files were sorted together")
            }
        }
    }
}

/// Reads the inputs as one catalogue and hands the times of the matching events to `target` in order.
///
/// Where the spans of several inputs meet, a row whose id an earlier input has is left out. `threads` is how many parse a
/// large file; the result is the same for any number.
///
/// # Errors
/// [`CatalogueError`] if an input cannot be read, is no catalogue, lacks a column that the query needs (known before any
/// file is read through), or has a bad row that is not to be skipped; and if a stream cannot be kept for a second reading.
pub fn read_in_order(
    sources: &mut [Source],
    query: &Query,
    threads: usize,
    progress: Progress<'_>,
    target: &mut dyn InOrder,
) -> Result<Reading, CatalogueError> {
    check(sources, query)?;
    let names: Vec<String> = sources.iter().map(Source::name).collect();
    let with_ids = sources.len() > 1;
    let mut order = Order::default();
    let mut disorder = None;
    let mut bad_rows = vec![BadRows::default(); sources.len()];
    let mut spools = Vec::new();
    let mut scratch = Vec::new();
    for (number, source) in sources.iter_mut().enumerate() {
        let wanted = disorder.is_none();
        let mut take = |times: &[Timestamp]| {
            if disorder.is_none() {
                match order.place(number, times) {
                    Ok(Side::After) => target.piece(times, Side::After),
                    Ok(Side::Before) => {
                        scratch.clear();
                        scratch.extend(times.iter().rev());
                        target.piece(&scratch, Side::Before);
                    }
                    Err(found) => disorder = Some(found.named(&names, number)),
                }
            }
            if disorder.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        if let Source::Stream { input, name } = source {
            let (spool, skipped) = spool_stream(input, name, query, with_ids, &mut take)?;
            spools.push(Some(spool));
            bad_rows[number] = skipped;
        } else {
            spools.push(None);
            if wanted {
                bad_rows[number] = scan_source(source, query, threads, progress, &mut take)?;
            }
        }
    }
    let mut reading = Reading { disorder, ..Reading::default() };
    if reading.disorder.is_some() {
        target.restart();
        let mut gathered = Gathered { first_source: with_ids.then(HashMap::new), ..Gathered::default() };
        for (number, source) in sources.iter_mut().enumerate() {
            match spools[number].take() {
                Some(spool) => spool.replay(&names[number], &mut |at, id| gathered.add(number, at, id))?,
                None => bad_rows[number] = gathered.add_file(number, source, query)?,
            }
        }
        gathered.times.sort_unstable();
        if !gathered.times.is_empty() {
            target.piece(&gathered.times, Side::After);
        }
        reading.duplicates = gathered.duplicates;
    }
    for skipped in bad_rows {
        reading.bad_rows.append(skipped);
    }
    Ok(reading)
}

/// Reads the times of all matching events, ascending, for questions that need them more than once: 8 bytes each.
///
/// # Errors
/// As [`read_in_order`].
pub fn read_times(
    sources: &mut [Source],
    query: &Query,
    threads: usize,
    progress: Progress<'_>,
) -> Result<(Vec<Timestamp>, Reading), CatalogueError> {
    let mut kept = Kept::default();
    let reading = read_in_order(sources, query, threads, progress, &mut kept)?;
    if kept.falling {
        kept.times.reverse();
    }
    Ok((kept.times, reading))
}

/// The times in the order in which they pass.
#[derive(Default)]
struct Kept {
    times: Vec<Timestamp>,
    falling: bool,
}

impl InOrder for Kept {
    fn piece(&mut self, times: &[Timestamp], side: Side) {
        self.falling = side == Side::Before;
        match side {
            Side::After => self.times.extend(times),
            Side::Before => self.times.extend(times.iter().rev()),
        }
    }

    fn restart(&mut self) {
        *self = Kept::default();
    }
}

/// The direction of what has been seen so far.
#[derive(Default)]
struct Order {
    side: Option<Side>,
    last: Option<Timestamp>,
    source: usize,
}

enum Broken {
    Within,
    Between,
}

impl Broken {
    fn named(&self, names: &[String], number: usize) -> Disorder {
        match self {
            Broken::Within => Disorder::Within(names[number].clone()),
            Broken::Between => Disorder::Between(names[number.saturating_sub(1)].clone(), names[number].clone()),
        }
    }
}

impl Order {
    /// On which side the next times lie, which are given as they were read.
    fn place(&mut self, source: usize, times: &[Timestamp]) -> Result<Side, Broken> {
        let (Some(first), Some(last)) = (times.first(), times.last()) else {
            return Ok(Side::After);
        };
        let new_source = source != self.source;
        if let Some(before) = self.last {
            let side = side_of(before, *first);
            // Where two inputs touch they may share events.
            if new_source && side.is_none() || self.side.is_some() && side.is_some() && side != self.side {
                return Err(if new_source { Broken::Between } else { Broken::Within });
            }
            self.side = self.side.or(side);
        }
        let side = self.side.or_else(|| side_of(*first, *last)).unwrap_or(Side::After);
        let ordered = match side {
            Side::After => times.is_sorted(),
            Side::Before => times.is_sorted_by(|earlier, later| earlier >= later),
        };
        if !ordered {
            return Err(if new_source { Broken::Between } else { Broken::Within });
        }
        self.side = self.side.or_else(|| side_of(*first, *last));
        (self.last, self.source) = (Some(*last), source);
        Ok(side)
    }
}

fn side_of(earlier: Timestamp, later: Timestamp) -> Option<Side> {
    match later.cmp(&earlier) {
        std::cmp::Ordering::Greater => Some(Side::After),
        std::cmp::Ordering::Less => Some(Side::Before),
        std::cmp::Ordering::Equal => None,
    }
}

/// The times of all inputs, each id once.
#[derive(Default)]
struct Gathered {
    times: Vec<Timestamp>,
    /// Which input had an id first; `None` where there is only one input.
    first_source: Option<HashMap<Box<[u8]>, usize>>,
    duplicates: u64,
}

impl Gathered {
    fn add(&mut self, source: usize, at: Timestamp, id: &[u8]) {
        if let Some(first_source) = &mut self.first_source
            && !id.is_empty()
        {
            if first_source.get(id).is_some_and(|first| *first != source) {
                self.duplicates += 1;
                return;
            }
            first_source.entry(id.into()).or_insert(source);
        }
        self.times.push(at);
    }

    fn add_file(&mut self, number: usize, source: &mut Source, query: &Query) -> Result<BadRows, CatalogueError> {
        let name = source.name();
        let mut scanner = Scanner::open(source.open()?, &name, query)?;
        while let Some((row, at)) = scanner.next_match()? {
            self.add(number, at, &scanner.id(&row));
        }
        Ok(scanner.skipped)
    }
}

/// The matching rows of a stream, kept for a second reading: ticks, length of the id, id.
struct Spool(BufWriter<File>);

impl Spool {
    fn push(&mut self, at: Timestamp, id: &[u8]) -> io::Result<()> {
        // A row is shorter than 4 GB, and so is the id in it.
        let length = u32::try_from(id.len()).unwrap_or(u32::MAX);
        self.0.write_all(&at.ticks().to_le_bytes())?;
        self.0.write_all(&length.to_le_bytes())?;
        self.0.write_all(id)
    }

    fn replay(self, file: &str, each: &mut dyn FnMut(Timestamp, &[u8])) -> Result<(), CatalogueError> {
        self.read_back(each).map_err(|source| CatalogueError::Spool { file: file.to_owned(), source })
    }

    fn read_back(self, each: &mut dyn FnMut(Timestamp, &[u8])) -> io::Result<()> {
        let mut file = self.0.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let mut input = BufReader::new(file);
        let (mut ticks, mut length, mut id) = ([0; 8], [0; 4], Vec::new());
        loop {
            match input.read_exact(&mut ticks) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                other => other?,
            }
            input.read_exact(&mut length)?;
            id.resize(usize::try_from(u32::from_le_bytes(length)).unwrap_or(0), 0);
            input.read_exact(&mut id)?;
            each(Timestamp::saturating_from_ticks(i64::from_le_bytes(ticks).into()), &id);
        }
    }
}

/// Reads a stream to its end, whatever `take` says: it cannot be read again.
fn spool_stream(
    input: &mut dyn Read,
    name: &str,
    query: &Query,
    with_ids: bool,
    take: &mut dyn FnMut(&[Timestamp]) -> ControlFlow<()>,
) -> Result<(Spool, BadRows), CatalogueError> {
    let failed = |source| CatalogueError::Spool { file: name.to_owned(), source };
    let mut spool = Spool(BufWriter::new(tempfile::tempfile().map_err(failed)?));
    let mut scanner = Scanner::open(input, name, query)?;
    let mut batch = Vec::with_capacity(MAX_BATCH);
    loop {
        if with_ids {
            while batch.len() < MAX_BATCH
                && let Some((row, at)) = scanner.next_match()?
            {
                spool.push(at, &scanner.id(&row)).map_err(failed)?;
                batch.push(at);
            }
        } else {
            scanner.fill(&mut batch, MAX_BATCH)?;
            batch.iter().try_for_each(|at| spool.push(*at, b"")).map_err(failed)?;
        }
        if batch.is_empty() {
            return Ok((spool, scanner.skipped));
        }
        // The stream goes on even if nobody looks at it any more.
        let _ = take(&batch);
        batch.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(order: &mut Order, source: usize, ticks: &[i64]) -> Option<Side> {
        let times: Vec<_> = ticks.iter().map(|ticks| Timestamp::saturating_from_ticks((*ticks).into())).collect();
        order.place(source, &times).ok()
    }

    #[test]
    fn a_direction_is_kept_once_it_is_known() {
        let mut rising = Order::default();
        assert_eq!(place(&mut rising, 0, &[5, 5]), Some(Side::After));
        assert_eq!(place(&mut rising, 0, &[5, 6]), Some(Side::After));
        assert_eq!(place(&mut rising, 0, &[6]), Some(Side::After));
        assert_eq!(place(&mut rising, 0, &[5]), None);

        let mut falling = Order::default();
        assert_eq!(place(&mut falling, 0, &[9, 7]), Some(Side::Before));
        assert_eq!(place(&mut falling, 0, &[7, 7]), Some(Side::Before));
        assert_eq!(place(&mut falling, 0, &[3, 4]), None);
    }

    #[test]
    fn inputs_that_touch_may_share_events() {
        let mut order = Order::default();
        assert_eq!(place(&mut order, 0, &[1, 2]), Some(Side::After));
        assert_eq!(place(&mut order, 1, &[3, 4]), Some(Side::After));
        assert_eq!(place(&mut order, 2, &[4, 5]), None);
    }
}
