//! Where the quotes, commas and line ends stand in 64 bytes, as bits. What they mean is `rows`' business.

use wide::u8x16;

/// How many bytes are looked at together: as many as a word has bits.
pub(super) const CHUNK: usize = 64;

/// Bit `i` tells of byte `i`.
pub(super) struct Masks {
    pub quotes: u64,
    pub commas: u64,
    pub newlines: u64,
    pub returns: u64,
}

impl Masks {
    /// The four kinds of byte in a chunk.
    #[inline]
    pub(super) fn of(chunk: &[u8; CHUNK]) -> Masks {
        let mut masks = Masks { quotes: 0, commas: 0, newlines: 0, returns: 0 };
        let mut any_return = u8x16::splat(0);
        let (parts, _) = chunk.as_chunks::<16>();
        for (part, shift) in parts.iter().zip([0, 16, 32, 48]) {
            let bytes = u8x16::from(*part);
            let bits = |byte: u8| u64::from(bytes.simd_eq(u8x16::splat(byte)).to_bitmask()) << shift;
            masks.quotes |= bits(b'"');
            masks.commas |= bits(b',');
            masks.newlines |= bits(b'\n');
            any_return |= bytes.simd_eq(u8x16::splat(b'\r'));
        }
        // Most files have none, so their places are asked for only where there is one.
        if any_return.any() {
            masks.returns = chunk.iter().rev().fold(0, |bits, byte| (bits << 1) | u64::from(*byte == b'\r'));
        }
        masks
    }
}

/// Bit `i` of the answer is the parity of bits `0..=i`: set from each opening quote up to before its closing one.
#[inline]
pub(super) const fn parity(bits: u64) -> u64 {
    let mut parity = bits;
    parity ^= parity << 1;
    parity ^= parity << 2;
    parity ^= parity << 4;
    parity ^= parity << 8;
    parity ^= parity << 16;
    parity ^= parity << 32;
    parity
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_and_every_byte_is_told_apart() {
        for place in 0..CHUNK {
            for byte in 0..=u8::MAX {
                let mut chunk = [b'x'; CHUNK];
                chunk[place] = byte;
                let masks = Masks::of(&chunk);
                let expected = |wanted| if byte == wanted { 1 << place } else { 0 };
                let found = [masks.quotes, masks.commas, masks.newlines, masks.returns];
                assert_eq!(found, [b'"', b',', b'\n', b'\r'].map(expected), "byte {byte} at {place}");
            }
        }
    }

    #[test]
    fn parity_runs_from_the_opening_quote_to_before_the_closing_one() {
        assert_eq!(parity(0b1000_0100), 0b0111_1100);
        assert_eq!(parity(1), u64::MAX);
        assert_eq!(parity(0), 0);
    }
}
