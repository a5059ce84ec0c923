//! Splits a stream into rows by the rules of RFC 4180, exactly and in constant memory. What a row holds is not looked at.
//!
//! Outside quotes a byte is text, a separator or the end of a row; inside them it is text. An opening quote stands at the
//! start of a field, a closing one at its end, and a doubled one inside closes and opens again. So the parity of the
//! quotes before a byte tells whether it is inside, and 64 bytes can be judged at once. A row starts outside quotes, so
//! what is found from the start of a row on depends on nothing before it.

use std::io::{self, Read};

use fearless_simd::{Level, Simd, dispatch};

use super::error::Fault;
use super::masks::{CHUNK, Seen, parity, places};

/// The longest row that is read, in bytes without its end. Real ones have about two hundred.
pub const MAX_ROW_BYTES: usize = 1 << 20;
/// How much is read at a time, in bytes: stays in the processor's second-level cache until it is parsed.
pub(super) const PIECE_BYTES: usize = 128 * 1024;
/// How many bytes are judged ahead of the rows being taken: stays in the processor's first-level cache until then.
const STRIP_BYTES: usize = 8 * 1024;
/// From how many rows found ahead on no more are looked for.
const MAX_AHEAD: usize = 128;

/// What is looked at to tell what a stream is: always as much, in whatever pieces it comes.
const BEGINNING_BYTES: usize = 1_024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One row, as a place in the buffer: good until the next one is asked for.
#[derive(Clone, Copy)]
pub(super) struct Row {
    start: usize,
    end: usize,
    /// How many fields it has: at least one.
    pub fields: usize,
}

/// What [`Rows::take_while`] offers rows to. A trait and not a closure, because it must be compiled into its caller.
pub(super) trait TakeRow {
    /// Takes a row: its bytes, how many fields it has, and where separators stand in its first 64 bytes, as bits, perhaps
    /// with those of rows behind it. `None` leaves it as it is.
    fn take(&mut self, row: &[u8], fields: usize, separators: u64) -> Option<()>;
}

/// Why there is no next row.
pub(super) enum Stop {
    Read(io::Error),
    /// The row that starts on this line is not one. [`Rows::skip_line`] goes on behind its first physical line.
    Fault(Fault, u64),
}

/// What the next chunk has to know of the bytes before it.
#[derive(Clone, Copy)]
struct Edge {
    /// All ones inside quotes, else zero.
    quoted: u64,
    /// One if the last byte is text outside quotes.
    text: u64,
    /// One if the last byte is a quote.
    quote: u64,
    /// One if the last byte is a carriage return outside quotes.
    returned: u64,
}

const ROW_START: Edge = Edge { quoted: 0, text: 0, quote: 0, returned: 0 };

/// The rows of a stream, one at a time. Empty lines are no rows.
pub(super) struct Rows<R> {
    input: R,
    /// What the processor can do.
    level: Level,
    buffer: Vec<u8>,
    /// How many bytes of the buffer are filled.
    length: usize,
    ended: bool,
    /// Whether a carriage return has been seen; most files have none.
    returns: bool,
    /// The place of the buffer's first byte in the stream.
    offset: u64,
    /// Where the current row starts, in the buffer, and how many separators were found before it.
    row: usize,
    separators_before: usize,
    /// The ends found ahead, from the place `strip` of the buffer on: those from `taken` up to `found`.
    strip: usize,
    ahead: [usize; MAX_AHEAD + CHUNK],
    taken: usize,
    found: usize,
    judged: Judged,
    /// The first fault, behind all that is found, and its place.
    fault: Option<(Fault, usize)>,
}

/// What is known of the buffer up to some place.
struct Judged {
    /// The place, in the buffer.
    end: usize,
    edge: Edge,
    /// How many separators were found.
    separators: usize,
    /// The physical line that the place is in, from the first line that was given.
    line: u64,
    /// The separators of each chunk from the place `from` on.
    from: usize,
    chunks: Vec<Separators>,
}

/// Where separators stand in a chunk.
#[derive(Clone, Copy, Default)]
struct Separators {
    /// The places, as bits.
    places: u64,
    /// How many were found before the chunk.
    before: usize,
}

impl<R: Read> Rows<R> {
    /// The rows of `input`, which starts at a row's start: the byte `offset` of its file, on `line`. The buffer may be one
    /// that has served before, whatever it holds.
    pub(super) fn new(input: R, offset: u64, line: u64, buffer: Vec<u8>) -> Rows<R> {
        let chunks = Vec::with_capacity(PIECE_BYTES / CHUNK);
        Rows {
            input,
            level: Level::new(),
            buffer,
            length: 0,
            ended: false,
            returns: false,
            offset,
            row: 0,
            separators_before: 0,
            strip: 0,
            ahead: [0; MAX_AHEAD + CHUNK],
            taken: 0,
            found: 0,
            judged: Judged { end: 0, edge: ROW_START, separators: 0, line, from: 0, chunks },
            fault: None,
        }
    }

    /// Gives the buffer back, to serve again.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// What the processor can do.
    pub(super) fn level(&self) -> Level {
        self.level
    }

    /// How many ends of rows have been found ahead.
    pub(super) fn ready(&self) -> usize {
        self.found - self.taken
    }

    /// The place of the next row in the stream.
    pub(super) fn position(&self) -> u64 {
        self.offset + self.row as u64
    }

    /// The line of the next row.
    pub(super) fn line(&self) -> u64 {
        self.line_at(self.row)
    }

    /// The physical line on which a row starts.
    pub(super) fn line_of(&self, row: &Row) -> u64 {
        self.line_at(row.start)
    }

    /// The line of a place that has been judged. Lines are asked for seldom, so they are not counted row by row.
    fn line_at(&self, place: usize) -> u64 {
        self.judged.line - memchr::memchr_iter(b'\n', &self.buffer[place..self.judged.end]).count() as u64
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

    /// Reads the beginning, passes over a byte-order mark and shows what follows it, within the first [`BEGINNING_BYTES`].
    pub(super) fn begin(&mut self) -> io::Result<&[u8]> {
        while !self.ended && self.length < BEGINNING_BYTES {
            self.read_piece()?;
        }
        if self.buffer[..self.length].starts_with(BYTE_ORDER_MARK) {
            self.row = BYTE_ORDER_MARK.len();
            self.judged.restart(self.row, self.judged.line);
        }
        Ok(&self.buffer[self.row..self.length.min(BEGINNING_BYTES)])
    }

    /// Passes over the rows that have been found and start before the byte `stop` of the stream, as long as `usual` takes
    /// them. The first one that it does not take, or that was found in two pieces, is left to [`Rows::next_row`]. What
    /// changes from row to row is kept in registers: this is the innermost loop of all.
    #[expect(clippy::inline_always, reason = "the caller decides for which processor it is compiled")]
    #[inline(always)]
    pub(super) fn take_while(&mut self, stop: u64, usual: &mut impl TakeRow) {
        let stop = usize::try_from(stop.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let (buffer, judged, strip, returns) = (self.buffer.as_slice(), &self.judged, self.strip, self.returns);
        let ahead = self.ahead.get(self.taken..self.found).unwrap_or_default();
        // Those behind the first are shorter than a strip.
        if ahead.first().is_none_or(|first| self.strip + first - self.row > MAX_ROW_BYTES) {
            return;
        }
        let (mut row, mut separators, mut taken) = (self.row, self.separators_before, 0);
        for end in ahead {
            let end = strip + end;
            let (Some(bytes), Some(near)) = (buffer.get(row..end), judged.near_separators(row)) else { break };
            let Some(up_to_end) = judged.separators_before(end) else { break };
            let bytes = if returns { bytes.strip_suffix(b"\r").unwrap_or(bytes) } else { bytes };
            if row >= stop {
                break;
            }
            let Some(()) = usual.take(bytes, up_to_end - separators + 1, near) else { break };
            (row, separators) = (end + 1, up_to_end);
            taken += 1;
        }
        (self.row, self.separators_before) = (row, separators);
        self.taken += taken;
    }

    /// The next row that is not empty.
    #[inline]
    pub(super) fn next_row(&mut self) -> Result<Option<Row>, Stop> {
        loop {
            let Some(end) = self.ahead[..self.found].get(self.taken).map(|end| self.strip + end) else {
                if self.look_ahead()? {
                    continue;
                }
                return Ok(None);
            };
            let start = self.row;
            let separators = self.judged.separators_before(end).unwrap_or(self.judged.separators);
            let returned = self.returns && end > start && self.buffer[end - 1] == b'\r';
            let row = Row { start, end: end - usize::from(returned), fields: separators - self.separators_before + 1 };
            if row.end - row.start > MAX_ROW_BYTES {
                return Err(Stop::Fault(Fault::TooLong, self.line()));
            }
            self.taken += 1;
            self.row = end + 1;
            self.separators_before = separators;
            if row.end > row.start {
                return Ok(Some(row));
            }
        }
    }

    /// Goes on behind the first physical line of the row at fault.
    pub(super) fn skip_line(&mut self) -> io::Result<()> {
        let mut line = self.line();
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[self.row..self.length]) {
                self.row += end + 1;
                line += 1;
                break;
            }
            self.row = self.length;
            if self.ended {
                break;
            }
            self.judged.end = self.length;
            self.read_piece()?;
        }
        self.judged.restart(self.row, line);
        self.separators_before = self.judged.separators;
        (self.taken, self.found, self.fault) = (0, 0, None);
        Ok(())
    }

    /// Finds more ends of rows; `false` at the end of the stream. The ends found before must all be taken.
    fn look_ahead(&mut self) -> Result<bool, Stop> {
        (self.taken, self.found) = (0, 0);
        if let Some((fault, place)) = &self.fault {
            let too_long = place - self.row > MAX_ROW_BYTES;
            return Err(Stop::Fault(if too_long { Fault::TooLong } else { fault.clone() }, self.line()));
        }
        while self.length - self.judged.end < CHUNK && !self.ended {
            // One more for a carriage return, which is not part of the row.
            if self.judged.end - self.row > MAX_ROW_BYTES + 1 {
                return Err(Stop::Fault(Fault::TooLong, self.line()));
            }
            self.read_piece().map_err(Stop::Read)?;
        }
        let strip_end = self.length.min(self.judged.end + STRIP_BYTES);
        let (chunks, _) = self.buffer[self.judged.end..strip_end].as_chunks::<CHUNK>();
        if chunks.is_empty() {
            return self.at_end();
        }
        let (judged, ahead) = (&mut self.judged, &mut self.ahead);
        self.strip = judged.end;
        let without = if self.returns {
            None
        } else {
            dispatch!(self.level, simd => judge_chunks::<_, false>(simd, chunks, judged, ahead))
        };
        let done;
        (done, self.found) = if let Some(judged) = without {
            judged
        } else {
            self.returns = true;
            dispatch!(self.level, simd => judge_chunks::<_, true>(simd, chunks, judged, ahead)).unwrap_or_default()
        };
        if let Some(chunk) = chunks.get(done)
            && self.found < MAX_AHEAD
        {
            // The chunk that was not done has a fault.
            let verdict = dispatch!(self.level, simd => judge::<_, true>(simd, chunk, judged.edge));
            let (kind, verdict, place) = verdict.up_to_fault();
            judged.chunks.push(Separators { places: verdict.commas, before: judged.separators });
            self.found = take_ends(verdict.ends, judged.end - self.strip, ahead, self.found);
            judged.end += place;
            judged.line += u64::from(verdict.feeds.count_ones());
            self.fault = Some((kind, judged.end));
        }
        Ok(true)
    }

    /// The end is the end of a row, unless it is within quotes.
    #[cold]
    fn at_end(&self) -> Result<bool, Stop> {
        if self.judged.edge.quoted == 0 {
            return Ok(false);
        }
        let too_long = self.length - CHUNK - self.row > MAX_ROW_BYTES;
        Err(Stop::Fault(if too_long { Fault::TooLong } else { Fault::Unterminated }, self.line()))
    }

    /// Moves the current row to the front of the buffer and reads behind it. At the end of the stream a chunk of line
    /// feeds is put there, which ends the last row and then gives only empty ones.
    fn read_piece(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.row..self.length, 0);
        self.offset += self.row as u64;
        self.length -= self.row;
        self.judged.move_to(self.judged.end - self.row);
        self.row = 0;
        if self.buffer.len() < self.length + PIECE_BYTES {
            self.buffer.resize(self.length + PIECE_BYTES, 0);
        }
        loop {
            let free = &mut self.buffer[self.length..self.length + PIECE_BYTES];
            match self.input.read(free) {
                Ok(0) => {
                    self.ended = true;
                    free[..CHUNK].fill(b'\n');
                    self.length += CHUNK;
                }
                Ok(read) => self.length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

impl Judged {
    /// Where separators stand in the 64 bytes from a place on, as bits; not known for a place in an earlier piece.
    #[expect(clippy::inline_always, reason = "the caller decides for which processor it is compiled")]
    #[inline(always)]
    fn near_separators(&self, place: usize) -> Option<u64> {
        let place = place.checked_sub(self.from)?;
        let (chunk, bit) = (place / CHUNK, place % CHUNK);
        let [here, next] = self.chunks.get(chunk..)?.first_chunk()?;
        // In two steps, because a shift by 64 is none.
        Some(here.places >> bit | (next.places << 1) << (CHUNK - 1 - bit))
    }

    /// How many separators were found before a place; not known for a place in an earlier piece.
    #[expect(clippy::inline_always, reason = "the caller decides for which processor it is compiled")]
    #[inline(always)]
    fn separators_before(&self, place: usize) -> Option<usize> {
        let place = place.checked_sub(self.from)?;
        let chunk = self.chunks.get(place / CHUNK)?;
        Some(chunk.before + (chunk.places & ((1 << (place % CHUNK)) - 1)).count_ones() as usize)
    }

    /// The same knowledge of bytes that end elsewhere in the buffer now.
    fn move_to(&mut self, end: usize) {
        (self.end, self.from) = (end, end);
        self.chunks.clear();
    }

    /// Begins anew at the start of a row.
    fn restart(&mut self, row: usize, line: u64) {
        self.move_to(row);
        (self.edge, self.line) = (ROW_START, line);
    }
}

/// What the bytes of a chunk are, as bits.
struct Verdict {
    /// Ends of rows, separators, and all line feeds.
    ends: u64,
    commas: u64,
    feeds: u64,
    /// The bytes that must not stand where they stand, and those of them for the carriage return before.
    faults: u64,
    behind_return: u64,
    /// What the next chunk has to know.
    edge: Edge,
}

/// Finds the ends of rows, until there are enough or a chunk has a fault. Tells how many chunks are done, and how many
/// ends are found; without `RETURNS` nothing, and nothing is changed, if there is a carriage return.
#[expect(clippy::inline_always, reason = "compiled once for each kind of processor")]
#[inline(always)]
fn judge_chunks<S: Simd, const RETURNS: bool>(
    simd: S,
    chunks: &[[u8; CHUNK]],
    judged: &mut Judged,
    ahead: &mut [usize; MAX_AHEAD + CHUNK],
) -> Option<(usize, usize)> {
    let known = judged.chunks.len();
    judged.chunks.resize(known + chunks.len(), Separators::default());
    // Copies that stay in registers.
    let (mut edge, mut separators, mut quoted_feeds) = (judged.edge, judged.separators, 0);
    let (mut done, mut found) = (0, 0);
    let mut returns = Seen::new(simd, b'\r');
    for (chunk, noted) in chunks.iter().zip(&mut judged.chunks[known..]) {
        if !RETURNS {
            returns.show(simd, chunk);
        }
        let verdict = judge::<S, RETURNS>(simd, chunk, edge);
        let start = done * CHUNK;
        if verdict.faults != 0 || found >= MAX_AHEAD {
            break;
        }
        *noted = Separators { places: verdict.commas, before: separators };
        // Whether a row ends here is hard to foretell, so the first end is written down in any case, and counts if it is one.
        ahead[found] = start + verdict.ends.trailing_zeros() as usize;
        if verdict.ends & verdict.ends.wrapping_sub(1) | verdict.ends ^ verdict.feeds == 0 {
            found += usize::from(verdict.ends != 0);
        } else {
            found = take_ends(verdict.ends, start, ahead, found);
            quoted_feeds += u64::from((verdict.ends ^ verdict.feeds).count_ones());
        }
        separators += verdict.commas.count_ones() as usize;
        edge = verdict.edge;
        done += 1;
    }
    if returns.any() {
        judged.chunks.truncate(known);
        return None;
    }
    judged.chunks.truncate(known + done);
    (judged.end, judged.edge, judged.separators) = (judged.end + done * CHUNK, edge, separators);
    judged.line += found as u64 + quoted_feeds;
    Some((done, found))
}

/// Notes the ends of rows in a chunk that begins at `start`, behind so many ends found before.
#[cold]
fn take_ends(mut ends: u64, start: usize, ahead: &mut [usize; MAX_AHEAD + CHUNK], mut found: usize) -> usize {
    while ends != 0 {
        ahead[found] = start + ends.trailing_zeros() as usize;
        found += 1;
        ends &= ends - 1;
    }
    found
}

/// Tells separators and ends of rows from text, and finds what must not be.
#[expect(clippy::inline_always, reason = "compiled once for each kind of processor")]
#[inline(always)]
fn judge<S: Simd, const RETURNS: bool>(simd: S, chunk: &[u8; CHUNK], before: Edge) -> Verdict {
    let [quotes, commas, feeds] = places(simd, chunk, [b'"', b',', b'\n']);
    let [returns] = if RETURNS { places(simd, chunk, [b'\r']) } else { [0] };
    let inside = parity(quotes) ^ before.quoted;
    let text = !(inside | quotes | commas | feeds | returns);
    // A quote opens behind text, or text follows a quote that closed: within quotes there is no such text.
    let stray_quote = quotes & (text << 1).wrapping_add(before.text) | text & (quotes << 1).wrapping_add(before.quote);
    let (ends, commas, returns) = (feeds & !inside, commas & !inside, returns & !inside);
    let behind_return = if RETURNS { ((returns << 1) | before.returned) & !ends } else { 0 };
    let edge = Edge {
        quoted: 0_u64.wrapping_sub(inside >> 63),
        text: text >> 63,
        quote: quotes >> 63,
        returned: if RETURNS { returns >> 63 } else { before.returned },
    };
    Verdict { ends, commas, feeds, faults: stray_quote | behind_return, behind_return, edge }
}

impl Verdict {
    /// The first fault, what stands before it, and its place in the chunk.
    #[cold]
    fn up_to_fault(self) -> (Fault, Verdict, usize) {
        let bit = self.faults.trailing_zeros();
        let before = (1 << bit) - 1;
        let kind = if self.behind_return >> bit & 1 == 1 { Fault::StrayReturn } else { Fault::StrayQuote };
        (kind, Verdict { ends: self.ends & before, feeds: self.feeds & before, ..self }, bit as usize)
    }
}
