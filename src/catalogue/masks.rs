//! Where the quotes, commas and line ends stand in 64 bytes, as bits. What they mean is `rows`' business.

use fearless_simd::prelude::*;
use fearless_simd::{mask8x64, u8x64};

/// How many bytes are looked at together: as many as a word has bits.
pub(super) const CHUNK: usize = 64;

/// The places of some bytes in a chunk: bit `i` tells of byte `i`.
#[expect(clippy::inline_always, reason = "the caller decides for which processor it is compiled")]
#[inline(always)]
pub(super) fn places<S: Simd, const N: usize>(simd: S, chunk: &[u8; CHUNK], wanted: [u8; N]) -> [u64; N] {
    let bytes = u8x64::from_slice(simd, chunk);
    let mut found = [0; N];
    // A loop, because a closure might not be compiled into the caller.
    for (bits, byte) in found.iter_mut().zip(wanted) {
        *bits = bytes.simd_eq(u8x64::splat(simd, byte)).to_bitmask();
    }
    found
}

/// Whether a byte was in any of the chunks shown, without telling where: cheaper than its places.
#[derive(Clone, Copy)]
pub(super) struct Seen<S: Simd> {
    byte: u8x64<S>,
    seen: mask8x64<S>,
}

impl<S: Simd> Seen<S> {
    #[expect(clippy::inline_always, reason = "the caller decides for which processor it is compiled")]
    #[inline(always)]
    pub(super) fn new(simd: S, byte: u8) -> Seen<S> {
        Seen { byte: u8x64::splat(simd, byte), seen: mask8x64::splat(simd, false) }
    }

    #[expect(clippy::inline_always, reason = "the caller decides for which processor it is compiled")]
    #[inline(always)]
    pub(super) fn show(&mut self, simd: S, chunk: &[u8; CHUNK]) {
        self.seen |= u8x64::from_slice(simd, chunk).simd_eq(self.byte);
    }

    #[expect(clippy::inline_always, reason = "the caller decides for which processor it is compiled")]
    #[inline(always)]
    pub(super) fn any(self) -> bool {
        self.seen.any_true()
    }
}

/// Bit `i` of the answer is the parity of bits `0..=i`: set from each opening quote up to before its closing one.
#[expect(clippy::inline_always, reason = "the caller decides for which processor it is compiled")]
#[inline(always)]
pub(super) fn parity(bits: u64) -> u64 {
    let lowest = bits & bits.wrapping_neg();
    let rest = bits ^ lowest;
    if rest & rest.wrapping_sub(1) == 0 {
        // At most two, as mostly: ones from the lower up to before the higher, or to the top.
        return rest.wrapping_sub(lowest);
    }
    parity_of_many(bits)
}

/// The same of any bits.
#[cold]
const fn parity_of_many(bits: u64) -> u64 {
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
    use fearless_simd::{Level, dispatch};

    use super::*;

    #[test]
    fn every_place_and_every_byte_is_told_apart() {
        for place in 0..CHUNK {
            for byte in 0..=u8::MAX {
                let mut chunk = [b'x'; CHUNK];
                chunk[place] = byte;
                let wanted = [b'"', b',', b'\n', b'\r'];
                let expected = wanted.map(|wanted| if byte == wanted { 1 << place } else { 0 });
                for level in [Level::new(), Level::baseline()] {
                    let found = dispatch!(level, simd => places(simd, &chunk, wanted));
                    assert_eq!(found, expected, "byte {byte} at {place}");
                }
            }
        }
    }

    #[test]
    fn parity_runs_from_each_opening_quote_to_before_its_closing_one() {
        let bit_by_bit = |bits: u64| (0..CHUNK).fold(0, |found, i| found | u64::from((bits << (63 - i)).count_ones() % 2) << i);
        for low in 0..CHUNK {
            for high in 0..CHUNK {
                for third in [0, 1 << 7, 1 << 63, 0x5555 << 20] {
                    let bits = 1 << low | 1 << high | third;
                    assert_eq!(parity(bits), bit_by_bit(bits), "{bits:b}");
                }
            }
        }
        assert_eq!(parity(0), 0);
    }
}
