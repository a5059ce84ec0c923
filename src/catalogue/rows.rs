//! Splits a stream into rows by the rules of RFC 4180, exactly and in constant memory. What a row holds is not looked at.
//!
//! Outside quotes a byte is text, a separator or the end of a row; inside them it is text. An opening quote stands at the
//! start of a field, a closing one at its end, and a doubled one inside closes and opens again. So the parity of the
//! quotes before a byte tells whether it is inside, and 64 bytes can be judged at once. A row starts outside quotes, so
//! what is found from the start of a row on depends on nothing before it.

use std::io::{self, Read};

use super::error::Fault;
use super::masks::{CHUNK, Masks, parity};

/// The longest row that is read, in bytes without its end. Real ones have about two hundred.
pub const MAX_ROW_BYTES: usize = 1 << 20;
/// How much is read at a time, in bytes: fits the processor's second-level cache.
pub(super) const PIECE_BYTES: usize = 256 * 1024;

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

/// What the next chunk has to know of the bytes before it, as bits.
#[derive(Clone, Copy)]
struct Carry {
    /// All ones inside quotes, else zero.
    quoted: u64,
    /// One if the last byte lets a quote open: a separator, the end of a row, or a quote that closed.
    may_open: u64,
    /// One if the last byte is a quote that closed.
    closed: u64,
    /// One if the last byte is a carriage return outside quotes.
    returned: u64,
}

const ROW_START: Carry = Carry { quoted: 0, may_open: 1, closed: 0, returned: 0 };

/// The rows of a stream, one at a time. Empty lines are no rows.
pub(super) struct Rows<R> {
    input: R,
    buffer: Vec<u8>,
    /// How many bytes of the buffer are read.
    length: usize,
    ended: bool,
    /// The place of the buffer's first byte in the stream.
    offset: u64,
    /// Where the current row starts, in the buffer.
    row: usize,
    line: u64,
    /// Where the next chunk starts, in the buffer.
    next: usize,
    carry: Carry,
    /// Where the current chunk starts, and what of it is not yet taken.
    chunk: usize,
    ends: u64,
    commas: u64,
    inner: u64,
    /// Of the current row, in chunks before the current one.
    separators: u64,
    inner_lines: u64,
    /// The first fault in the current chunk; the rows before it come first.
    fault: Option<(Fault, usize)>,
}

impl<R: Read> Rows<R> {
    /// The rows of `input`, which starts at a row's start: the byte `offset` of its file, on `line`.
    pub(super) fn new(input: R, offset: u64, line: u64) -> Rows<R> {
        Rows {
            input,
            buffer: vec![0; PIECE_BYTES],
            length: 0,
            ended: false,
            offset,
            row: 0,
            line,
            next: 0,
            carry: ROW_START,
            chunk: 0,
            ends: 0,
            commas: 0,
            inner: 0,
            separators: 0,
            inner_lines: 0,
            fault: None,
        }
    }

    /// The place of the next row in the stream.
    pub(super) fn position(&self) -> u64 {
        self.offset + self.row as u64
    }

    /// A row's bytes, without its end.
    pub(super) fn bytes(&self, row: &Row) -> &[u8] {
        &self.buffer[row.start..row.end]
    }

    /// Reads the first piece, passes over a byte-order mark and shows what follows it.
    pub(super) fn begin(&mut self) -> io::Result<&[u8]> {
        while !self.ended && self.length < CHUNK {
            self.read_piece()?;
        }
        if self.buffer[..self.length].starts_with(BYTE_ORDER_MARK) {
            self.row = BYTE_ORDER_MARK.len();
            self.next = self.row;
        }
        Ok(&self.buffer[self.row..self.length])
    }

    /// The next row that is not empty.
    #[inline]
    pub(super) fn next_row(&mut self) -> Result<Option<Row>, Stop> {
        loop {
            if self.ends != 0 {
                let bit = self.ends.trailing_zeros();
                let below = (1_u64 << bit) - 1;
                self.ends &= self.ends - 1;
                let separators = self.separators + u64::from((self.commas & below).count_ones());
                self.commas &= !below;
                self.separators = 0;
                if self.inner & below != 0 {
                    self.inner_lines += u64::from((self.inner & below).count_ones());
                    self.inner &= !below;
                }
                let end = self.chunk + bit as usize;
                let row = self.take_row(end, separators);
                self.row = end + 1;
                self.line += 1 + std::mem::take(&mut self.inner_lines);
                if row.end - row.start > MAX_ROW_BYTES {
                    return Err(self.too_long(row));
                }
                if row.end > row.start {
                    return Ok(Some(row));
                }
            } else if !self.next_chunk()? {
                return self.last_row();
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
            self.next = self.length;
            self.read_piece()?;
        }
        self.next = self.row;
        (self.chunk, self.ends, self.commas, self.inner) = (self.row, 0, 0, 0);
        (self.separators, self.inner_lines, self.fault, self.carry) = (0, 0, None, ROW_START);
        Ok(())
    }

    /// The row from the current start to `end`, without a carriage return before it.
    #[inline]
    fn take_row(&self, end: usize, separators: u64) -> Row {
        let returned = end > self.row && self.buffer[end - 1] == b'\r';
        // Separators are counted within a buffer, so they fit.
        let fields = usize::try_from(separators).unwrap_or(usize::MAX).saturating_add(1);
        Row { start: self.row, end: end - usize::from(returned), fields, line: self.line }
    }

    /// Goes back to the row's start, so that its first line can be skipped.
    #[cold]
    fn too_long(&mut self, row: Row) -> Stop {
        (self.row, self.line) = (row.start, row.line);
        Stop::Fault(Fault::TooLong, row.line)
    }

    /// What stands behind the last line feed.
    #[cold]
    fn last_row(&mut self) -> Result<Option<Row>, Stop> {
        if self.carry.quoted != 0 {
            let fault = if self.length - self.row > MAX_ROW_BYTES { Fault::TooLong } else { Fault::Unterminated };
            return Err(Stop::Fault(fault, self.line));
        }
        let separators = std::mem::take(&mut self.separators);
        let row = self.take_row(self.length, separators);
        if row.end - row.start > MAX_ROW_BYTES {
            return Err(Stop::Fault(Fault::TooLong, self.line));
        }
        self.row = self.length;
        Ok(Some(row).filter(|row| row.end > row.start))
    }

    /// Judges the next 64 bytes, or what is left; `false` at the end of the stream.
    #[inline]
    fn next_chunk(&mut self) -> Result<bool, Stop> {
        if let Some((fault, place)) = &self.fault {
            let too_long = place - self.row > MAX_ROW_BYTES;
            return Err(Stop::Fault(if too_long { Fault::TooLong } else { fault.clone() }, self.line));
        }
        self.separators += u64::from(self.commas.count_ones());
        self.commas = 0;
        if self.inner != 0 {
            self.inner_lines += u64::from(self.inner.count_ones());
            self.inner = 0;
        }
        if self.length - self.next < CHUNK && !self.ended {
            self.refill()?;
        }
        if let Some(chunk) = self.buffer[self.next..self.length].first_chunk::<CHUNK>() {
            let masks = Masks::of(chunk);
            self.judge(&masks, u64::MAX);
            self.next += CHUNK;
            return Ok(true);
        }
        let rest = &self.buffer[self.next..self.length];
        if rest.is_empty() {
            return Ok(false);
        }
        let mut chunk = [0; CHUNK];
        chunk[..rest.len()].copy_from_slice(rest);
        let valid = (1_u64 << rest.len()) - 1;
        let masks = Masks::of(&chunk);
        self.judge(&masks, valid);
        self.next = self.length;
        Ok(true)
    }

    /// Tells separators and ends of rows from text, and finds the first fault. Only `valid` bits are of the stream.
    #[inline]
    fn judge(&mut self, masks: &Masks, valid: u64) {
        let carry = self.carry;
        let inside = parity(masks.quotes) ^ carry.quoted;
        let ends = masks.newlines & !inside;
        let commas = masks.commas & !inside;
        let opens = masks.quotes & inside;
        let closes = masks.quotes & !inside;
        let returns = masks.returns & !inside;
        let may_open = ends | commas | closes;

        let stray_open = opens & !((may_open << 1) | carry.may_open);
        let behind_close = ((closes << 1) | carry.closed) & !(ends | commas | opens | returns) & valid;
        let behind_return = ((returns << 1) | carry.returned) & !ends & valid;

        self.chunk = self.next;
        (self.ends, self.commas, self.inner) = (ends, commas, masks.newlines & inside);
        self.carry = Carry {
            quoted: 0_u64.wrapping_sub(inside >> 63),
            may_open: may_open >> 63,
            closed: closes >> 63,
            returned: returns >> 63,
        };
        let faults = stray_open | behind_close | behind_return;
        if faults != 0 {
            self.stop_at(faults.trailing_zeros(), behind_return);
        }
    }

    /// Keeps of the current chunk only what stands before its first fault.
    #[cold]
    fn stop_at(&mut self, bit: u32, behind_return: u64) {
        let below = (1_u64 << bit) - 1;
        self.ends &= below;
        self.commas &= below;
        self.inner &= below;
        let fault = if behind_return >> bit & 1 == 1 { Fault::StrayReturn } else { Fault::StrayQuote };
        self.fault = Some((fault, self.chunk + bit as usize));
    }

    /// Moves the current row to the front and reads until there is a whole chunk, or the end.
    #[cold]
    fn refill(&mut self) -> Result<(), Stop> {
        while self.length - self.next < CHUNK && !self.ended {
            // One more for a carriage return, which is not part of the row.
            if self.next - self.row > MAX_ROW_BYTES + 1 {
                return Err(Stop::Fault(Fault::TooLong, self.line));
            }
            self.read_piece().map_err(Stop::Read)?;
        }
        Ok(())
    }

    fn read_piece(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.row..self.length, 0);
        self.offset += self.row as u64;
        self.length -= self.row;
        self.next -= self.row;
        self.row = 0;
        if self.buffer.len() < self.length + PIECE_BYTES {
            self.buffer.resize(self.length + PIECE_BYTES, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.length..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}
