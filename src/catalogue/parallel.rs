//! Scans a large file with several threads, with exactly the result of one.
//!
//! The file is cut into blocks. A worker cannot know where in a block a row starts, because a line feed may stand within
//! quotes: it guesses that the first one does not, and parses to the end of the row that straddles the block's end. The
//! blocks are put together in order; where the block before really ended elsewhere than guessed, the block is parsed
//! again from there. What is found from the true start of a row on depends on nothing before it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use super::Query;
use super::error::{BadRows, CatalogueError};
use super::header::{self, Columns, Opened};
use super::rows::Rows;
use super::scan::{Counted, MAX_BATCH, Progress, Scanner};
use crate::time::Timestamp;

/// How much of the file a worker takes at a time, in bytes.
const BLOCK_BYTES: u64 = 512 * 1024;
/// How many parsed blocks of one worker may wait to be put together.
const MAX_WAITING: usize = 4;
/// How much is read at a time beyond a block's end, to finish its last row.
const BEYOND_BYTES: usize = 4_096;
/// The most threads that are of use.
pub const MAX_THREADS: usize = 16;

/// What all workers know.
struct Job<'a> {
    path: &'a Path,
    name: &'a str,
    query: &'a Query,
    columns: Arc<Columns>,
    progress: Progress<'a>,
    /// The first row's place.
    start: u64,
    /// How many blocks there are; the last one ends with the file.
    blocks: u64,
}

/// What was found from one row's start on to the first row that starts behind the block.
struct Block {
    /// Where parsing began: the true start of a row, if the guess was right.
    from: u64,
    /// Where the next row starts.
    end: u64,
    /// How many lines there are between the two.
    lines: u64,
    times: Vec<Timestamp>,
    bad_rows: BadRows,
    /// Why parsing ended early; its line is relative to the start.
    failure: Option<CatalogueError>,
}

/// Reads a file and gives `each` the times of the matching events, in reading order; when it breaks, reading ends.
pub(super) fn scan_file(
    path: &Path,
    name: &str,
    query: &Query,
    threads: usize,
    progress: Progress<'_>,
    each: &mut dyn FnMut(&[Timestamp]) -> ControlFlow<()>,
) -> Result<BadRows, CatalogueError> {
    let file = File::open(path).map_err(|error| CatalogueError::reading(name, error))?;
    let length = file.metadata().map_err(|error| CatalogueError::reading(name, error))?.len();
    let Opened { rows, columns, first } = header::open(file, name, query)?;
    let (start, mut line) = match &first {
        Some(row) => (rows.place(row), rows.line_of(row)),
        None => (rows.position(), rows.line()),
    };
    drop(rows);
    let blocks = length.saturating_sub(start).div_ceil(BLOCK_BYTES).max(1);
    let job = Job { path, name, query, columns: Arc::new(columns), progress, start, blocks };
    let threads = threads.min(MAX_THREADS);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..threads as u64)
            .map(|worker| {
                let (sender, receiver) = sync_channel(MAX_WAITING);
                let job = &job;
                scope.spawn(move || work(job, worker, threads, &sender));
                receiver
            })
            .collect();
        let mut bad_rows = BadRows::default();
        let mut from = start;
        let mut buffer = Vec::new();
        for (number, receiver) in (0..blocks).zip(waiting.iter().cycle()) {
            // A worker ends early only when nobody listens, so this one has sent its block.
            let ended = |_| Err(CatalogueError::reading(name, io::Error::other("a worker ended early")));
            let guessed = receiver.recv().unwrap_or_else(ended)?;
            if job.end_of(number) <= from {
                continue;
            }
            let block = match guessed {
                Some(block) if block.from == from => block,
                _ => job.parse(&mut job.open()?, from, job.end_of(number), &mut buffer)?,
            };
            for batch in block.times.chunks(MAX_BATCH) {
                if each(batch).is_break() {
                    return Ok(bad_rows);
                }
            }
            bad_rows.append(block.bad_rows.moved(line));
            if let Some(failure) = block.failure {
                return Err(failure.moved(line));
            }
            (from, line) = (block.end, line + block.lines);
        }
        Ok(bad_rows)
    })
}

/// Parses every `threads`-th block, until nobody wants them any more.
fn work(job: &Job, worker: u64, threads: usize, sender: &SyncSender<Result<Option<Block>, CatalogueError>>) {
    let mut file = match job.open() {
        Ok(file) => file,
        Err(error) => {
            // If nobody listens any more, nobody needs to know.
            let _ = sender.send(Err(error));
            return;
        }
    };
    let mut buffer = Vec::new();
    for number in (worker..job.blocks).step_by(threads) {
        let block = job.guess(&mut file, number, &mut buffer);
        if sender.send(block).is_err() {
            return;
        }
    }
}

impl Job<'_> {
    fn open(&self) -> Result<File, CatalogueError> {
        File::open(self.path).map_err(|error| CatalogueError::reading(self.name, error))
    }

    fn start_of(&self, number: u64) -> u64 {
        self.start + number * BLOCK_BYTES
    }

    /// Rows that start here or later are not of this block.
    fn end_of(&self, number: u64) -> u64 {
        if number + 1 == self.blocks { u64::MAX } else { self.start_of(number + 1) }
    }

    /// Parses a block from where a row seems to start; `None` if none does.
    fn guess(&self, file: &mut File, number: u64, buffer: &mut Vec<u8>) -> Result<Option<Block>, CatalogueError> {
        let end = self.end_of(number);
        let from = if number == 0 {
            Some(self.start)
        } else {
            // A line feed just before the block counts too.
            line_start(file, self.start_of(number) - 1, end).map_err(|error| CatalogueError::reading(self.name, error))?
        };
        from.map(|from| self.parse(file, from, end, buffer)).transpose()
    }

    /// Parses the rows that start at `from` or later, and before `end`. The buffer serves one block after another.
    fn parse(&self, file: &mut File, from: u64, end: u64, buffer: &mut Vec<u8>) -> Result<Block, CatalogueError> {
        file.seek(SeekFrom::Start(from)).map_err(|error| CatalogueError::reading(self.name, error))?;
        let input = Counted { input: Bounded { file, left: end - from }, progress: self.progress };
        let rows = Rows::new(input, from, 0, std::mem::take(buffer));
        let mut scanner = Scanner::of_rows(rows, Arc::clone(&self.columns), self.name, self.query, end);
        let mut times = Vec::new();
        let failure = scanner.fill(&mut times, usize::MAX).err();
        let (end, lines) = scanner.position();
        let bad_rows;
        (*buffer, bad_rows) = scanner.into_parts();
        Ok(Block { from, end, lines, times, bad_rows, failure })
    }
}

/// The first byte behind the first line feed from `from` on, if it is before `end`.
fn line_start(file: &mut File, from: u64, end: u64) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(from))?;
    let mut buffer = [0; BEYOND_BYTES];
    let mut place = from;
    while place < end {
        let read = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if let Some(feed) = memchr::memchr(b'\n', &buffer[..read]) {
            return Ok(Some(place + feed as u64 + 1).filter(|start| *start < end));
        }
        place += read as u64;
    }
    Ok(None)
}

/// Reads no more than needed beyond a block's end.
struct Bounded<'f> {
    file: &'f mut File,
    left: u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bound = usize::try_from(self.left).unwrap_or(usize::MAX).max(BEYOND_BYTES).min(buffer.len());
        let read = self.file.read(&mut buffer[..bound])?;
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}
