//! Splits a stream into rows by the rules of RFC 4180, exactly and in constant memory. What a row holds is not looked at.
//!
//! Outside quotes a byte is text, a separator or the end of a row; inside them it is text. An opening quote stands at the
//! start of a field, a closing one at its end, and a doubled one inside closes and opens again. So the parity of the
//! quotes before a byte tells whether it is inside, and 64 bytes can be judged at once. A row starts outside quotes, so
//! what is found from the start of a row on depends on nothing before it.

use std::io::{self, Read};

use fearless_simd::{Level, Simd, dispatch};

use super::error::Fault;
use super::masks::{CHUNK, parity, places};

/// The longest row that is read, in bytes without its end. Real ones have about two hundred.
pub const MAX_ROW_BYTES: usize = 1 << 20;
/// How much is read at a time, in bytes: fits the processor's second-level cache.
pub(super) const PIECE_BYTES: usize = 256 * 1024;
/// How many rows are found ahead of being taken.
const MAX_AHEAD: usize = 64;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One row, as a place in the buffer: good until the next one is asked for.
#[derive(Clone, Copy)]
pub(super) struct Row {
    start: usize,
    end: usize,
    /// How many fields it has: at least one.
    pub fields: usize,
    /// The physical line on which it starts, from the first line that was given.
    pub line: u64,
}

/// Why there is no next row.
pub(super) enum Stop {
    Read(io::Error),
    /// The row that starts on this line is not one. [`Rows::skip_line`] goes on behind its first physical line.
    Fault(Fault, u64),
}

/// A row's end that has been found, as a place in the buffer.
#[derive(Clone, Copy)]
struct Found {
    end: usize,
    separators: usize,
    /// Line feeds within its quotes.
    inner_lines: usize,
}

/// What the next chunk has to know of the bytes before it.
#[derive(Clone, Copy)]
struct Edge {
    /// All ones inside quotes, else zero.
    quoted: u64,
    /// One if the last byte lets a quote open: a separator, the end of a row, or a quote that closed.
    may_open: u64,
    /// One if the last byte is a quote that closed.
    closed: u64,
    /// One if the last byte is a carriage return outside quotes.
    returned: u64,
}

/// What has been counted of the row that has begun.
#[derive(Clone, Copy, Default)]
struct Begun {
    separators: usize,
    inner_lines: usize,
}

const ROW_START: Edge = Edge { quoted: 0, may_open: 1, closed: 0, returned: 0 };

/// The rows of a stream, one at a time. Empty lines are no rows.
pub(super) struct Rows<R> {
    input: R,
    /// What the processor can do.
    level: Level,
    buffer: Vec<u8>,
    /// How many bytes of the buffer are filled.
    length: usize,
    ended: bool,
    /// Whether a carriage return has been read; most files have none.
    returns: bool,
    /// The place of the buffer's first byte in the stream.
    offset: u64,
    /// Where the current row starts, in the buffer.
    row: usize,
    line: u64,
    /// Up to where the buffer is judged, and what the rest has to know.
    judged: usize,
    edge: Edge,
    begun: Begun,
    /// The ends found ahead, and how many of them are taken.
    ahead: Vec<Found>,
    taken: usize,
    /// The separators of the chunks that were judged last, and where in the buffer these begin.
    separators: Vec<u64>,
    judged_from: usize,
    /// The first fault, behind all that is found, and its place.
    fault: Option<(Fault, usize)>,
}

impl<R: Read> Rows<R> {
    /// The rows of `input`, which starts at a row's start: the byte `offset` of its file, on `line`. The buffer may be one
    /// that has served before, whatever it holds.
    pub(super) fn new(input: R, offset: u64, line: u64, buffer: Vec<u8>) -> Rows<R> {
        Rows {
            input,
            level: Level::new(),
            buffer,
            length: 0,
            ended: false,
            returns: false,
            offset,
            row: 0,
            line,
            judged: 0,
            edge: ROW_START,
            begun: Begun::default(),
            ahead: Vec::with_capacity(MAX_AHEAD + CHUNK),
            taken: 0,
            separators: Vec::with_capacity(PIECE_BYTES / CHUNK),
            judged_from: 0,
            fault: None,
        }
    }

    /// Gives the buffer back, to serve again.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// The place of the next row in the stream.
    pub(super) fn position(&self) -> u64 {
        self.offset + self.row as u64
    }

    /// The line of the next row.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The place of a row in the stream.
    pub(super) fn place(&self, row: &Row) -> u64 {
        self.offset + row.start as u64
    }

    /// A row's bytes, without its end.
    #[inline]
    pub(super) fn bytes(&self, row: &Row) -> &[u8] {
        &self.buffer[row.start..row.end]
    }

    /// Where a row's separators stand within its first 64 bytes, as bits, and perhaps those of rows behind it; not known
    /// for a row that was found in two steps.
    #[inline]
    pub(super) fn near_separators(&self, row: &Row) -> Option<u64> {
        let place = row.start.checked_sub(self.judged_from)?;
        let (chunk, bit) = (place / CHUNK, place % CHUNK);
        if place + 2 * CHUNK > self.judged - self.judged_from {
            return None;
        }
        let here = self.separators.get(chunk)? >> bit;
        let next = self.separators.get(chunk + 1)?;
        // In two steps, because a shift by 64 is none.
        Some(here | (next << 1) << (CHUNK - 1 - bit))
    }

    /// Reads the first piece, passes over a byte-order mark and shows what follows it.
    pub(super) fn begin(&mut self) -> io::Result<&[u8]> {
        while !self.ended && self.length < CHUNK {
            self.read_piece()?;
        }
        if self.buffer[..self.length].starts_with(BYTE_ORDER_MARK) {
            self.row = BYTE_ORDER_MARK.len();
            self.judged = self.row;
        }
        Ok(&self.buffer[self.row..self.length])
    }

    /// The next row that is not empty.
    #[inline]
    pub(super) fn next_row(&mut self) -> Result<Option<Row>, Stop> {
        loop {
            if let Some(found) = self.ahead.get(self.taken) {
                let (start, end) = (self.row, found.end);
                let returned = end > start && self.buffer[end - 1] == b'\r';
                let row = Row { start, end: end - usize::from(returned), fields: found.separators + 1, line: self.line };
                if row.end - row.start > MAX_ROW_BYTES {
                    return Err(Stop::Fault(Fault::TooLong, self.line));
                }
                self.taken += 1;
                self.row = end + 1;
                self.line += 1 + found.inner_lines as u64;
                if row.end > row.start {
                    return Ok(Some(row));
                }
            } else if !self.look_ahead()? {
                return Ok(None);
            }
        }
    }

    /// Goes on behind the first physical line of the row at fault.
    pub(super) fn skip_line(&mut self) -> io::Result<()> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[self.row..self.length]) {
                self.row += end + 1;
                self.line += 1;
                break;
            }
            self.row = self.length;
            if self.ended {
                break;
            }
            self.judged = self.length;
            self.read_piece()?;
        }
        (self.judged, self.edge, self.begun, self.fault) = (self.row, ROW_START, Begun::default(), None);
        self.ahead.clear();
        self.taken = 0;
        Ok(())
    }

    /// Finds more ends of rows; `false` at the end of the stream. The ends found before must all be taken.
    fn look_ahead(&mut self) -> Result<bool, Stop> {
        self.ahead.clear();
        self.taken = 0;
        if let Some((fault, place)) = &self.fault {
            let too_long = place - self.row > MAX_ROW_BYTES;
            return Err(Stop::Fault(if too_long { Fault::TooLong } else { fault.clone() }, self.line));
        }
        while self.length - self.judged < CHUNK && !self.ended {
            // One more for a carriage return, which is not part of the row.
            if self.judged - self.row > MAX_ROW_BYTES + 1 {
                return Err(Stop::Fault(Fault::TooLong, self.line));
            }
            self.read_piece().map_err(Stop::Read)?;
        }
        let (chunks, _) = self.buffer[self.judged..self.length].as_chunks::<CHUNK>();
        if chunks.is_empty() {
            return self.at_end();
        }
        self.separators.resize(chunks.len().max(self.separators.len()), 0);
        self.judged_from = self.judged;
        let found = FoundAhead { start: self.judged, ahead: &mut self.ahead, separators: &mut self.separators };
        let (edge, begun) = (&mut self.edge, &mut self.begun);
        let done = if self.returns {
            dispatch!(self.level, simd => judge_chunks::<_, true>(simd, chunks, edge, begun, found))
        } else {
            dispatch!(self.level, simd => judge_chunks::<_, false>(simd, chunks, edge, begun, found))
        };
        self.judged += done * CHUNK;
        if let Some(chunk) = chunks.get(done)
            && self.ahead.len() < MAX_AHEAD
        {
            // The chunk that was not done has a fault.
            let mut judged = dispatch!(self.level, simd => judge::<_, true>(simd, chunk, self.edge));
            let (kind, place) = judged.stop_at_fault();
            take_ends(&mut self.ahead, &mut self.begun, &judged, self.judged);
            self.fault = Some((kind, self.judged + place));
        }
        Ok(true)
    }

    /// The end is the end of a row, unless it is within quotes.
    #[cold]
    fn at_end(&self) -> Result<bool, Stop> {
        if self.edge.quoted == 0 {
            return Ok(false);
        }
        let too_long = self.length - CHUNK - self.row > MAX_ROW_BYTES;
        Err(Stop::Fault(if too_long { Fault::TooLong } else { Fault::Unterminated }, self.line))
    }

    /// Moves the current row to the front of the buffer and reads behind it. At the end of the stream a chunk of line
    /// feeds is put there, which ends the last row and then gives only empty ones.
    fn read_piece(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.row..self.length, 0);
        self.offset += self.row as u64;
        self.length -= self.row;
        self.judged -= self.row;
        self.row = 0;
        if self.buffer.len() < self.length + PIECE_BYTES {
            self.buffer.resize(self.length + PIECE_BYTES, 0);
        }
        loop {
            let free = &mut self.buffer[self.length..];
            match self.input.read(free) {
                Ok(0) => {
                    self.ended = true;
                    free[..CHUNK].fill(b'\n');
                    self.length += CHUNK;
                }
                Ok(read) => {
                    self.returns = self.returns || memchr::memchr(b'\r', &free[..read]).is_some();
                    self.length += read;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

/// What the bytes of a chunk are, as bits.
struct Judged {
    /// Ends of rows, separators, and line feeds within quotes.
    ends: u64,
    commas: u64,
    inner: u64,
    /// The bytes that must not stand where they stand, and those of them for the carriage return before.
    faults: u64,
    behind_return: u64,
    /// What the next chunk has to know.
    edge: Edge,
}

/// Where findings go: the first chunk's place in the buffer, the ends of rows, and the separators of each chunk.
struct FoundAhead<'a> {
    start: usize,
    ahead: &'a mut Vec<Found>,
    separators: &'a mut [u64],
}

/// Finds the ends of rows, until there are enough or a chunk has a fault. Tells how many chunks are done.
#[expect(clippy::inline_always, reason = "compiled once for each kind of processor")]
#[inline(always)]
fn judge_chunks<S: Simd, const RETURNS: bool>(
    simd: S,
    chunks: &[[u8; CHUNK]],
    last_edge: &mut Edge,
    last_begun: &mut Begun,
    found: FoundAhead<'_>,
) -> usize {
    // Copies that stay in registers.
    let mut edge = *last_edge;
    let Begun { mut separators, mut inner_lines } = *last_begun;
    let mut done = 0;
    for (chunk, all_commas) in chunks.iter().zip(found.separators) {
        let judged = judge::<S, RETURNS>(simd, chunk, edge);
        if judged.faults != 0 {
            break;
        }
        edge = judged.edge;
        *all_commas = judged.commas;
        let start = found.start + done * CHUNK;
        if judged.inner != 0 || inner_lines != 0 {
            let mut begun = Begun { separators, inner_lines };
            take_ends(found.ahead, &mut begun, &judged, start);
            (separators, inner_lines) = (begun.separators, begun.inner_lines);
        } else {
            let (mut ends, mut commas) = (judged.ends, judged.commas);
            while ends != 0 {
                let bit = ends.trailing_zeros();
                let below = (1_u64 << bit) - 1;
                let separators_of_row = separators + (commas & below).count_ones() as usize;
                found.ahead.push(Found { end: start + bit as usize, separators: separators_of_row, inner_lines: 0 });
                separators = 0;
                commas &= !below;
                ends &= ends - 1;
            }
            separators += commas.count_ones() as usize;
        }
        done += 1;
        if found.ahead.len() >= MAX_AHEAD {
            break;
        }
    }
    (*last_edge, *last_begun) = (edge, Begun { separators, inner_lines });
    done
}

/// Tells separators and ends of rows from text, and finds what must not be.
#[expect(clippy::inline_always, reason = "compiled once for each kind of processor")]
#[inline(always)]
fn judge<S: Simd, const RETURNS: bool>(simd: S, chunk: &[u8; CHUNK], before: Edge) -> Judged {
    let [quotes, commas, newlines] = places(simd, chunk, [b'"', b',', b'\n']);
    let [returns] = if RETURNS { places(simd, chunk, [b'\r']) } else { [0] };
    let inside = parity(quotes) ^ before.quoted;
    let (ends, commas, returns) = (newlines & !inside, commas & !inside, returns & !inside);
    let (opens, closes) = (quotes & inside, quotes & !inside);
    let may_open = ends | commas | closes;

    let stray_open = opens & !((may_open << 1) | before.may_open);
    let behind_close = ((closes << 1) | before.closed) & !(ends | commas | opens | returns);
    let behind_return = if RETURNS { ((returns << 1) | before.returned) & !ends } else { 0 };
    let edge = Edge {
        quoted: 0_u64.wrapping_sub(inside >> 63),
        may_open: may_open >> 63,
        closed: closes >> 63,
        returned: returns >> 63,
    };
    Judged { ends, commas, inner: newlines & inside, faults: stray_open | behind_close | behind_return, behind_return, edge }
}

/// Notes the ends of rows in a chunk that begins at `start`, and counts what belongs to the row that follows.
#[cold]
fn take_ends(ahead: &mut Vec<Found>, begun: &mut Begun, judged: &Judged, start: usize) {
    let (mut ends, mut commas, mut inner) = (judged.ends, judged.commas, judged.inner);
    while ends != 0 {
        let bit = ends.trailing_zeros();
        let below = (1_u64 << bit) - 1;
        let separators = begun.separators + (commas & below).count_ones() as usize;
        let inner_lines = begun.inner_lines + (inner & below).count_ones() as usize;
        ahead.push(Found { end: start + bit as usize, separators, inner_lines });
        *begun = Begun::default();
        commas &= !below;
        inner &= !below;
        ends &= ends - 1;
    }
    begun.separators += commas.count_ones() as usize;
    begun.inner_lines += inner.count_ones() as usize;
}

impl Judged {
    /// The first fault and its place in the chunk, of which then only what stands before it counts.
    #[cold]
    fn stop_at_fault(&mut self) -> (Fault, usize) {
        let bit = self.faults.trailing_zeros();
        self.ends &= (1 << bit) - 1;
        let kind = if self.behind_return >> bit & 1 == 1 { Fault::StrayReturn } else { Fault::StrayQuote };
        (kind, bit as usize)
    }
}
