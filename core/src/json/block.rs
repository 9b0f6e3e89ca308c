//! Finds special bytes in a block of bytes at once.
//!
//! On x86-64, safe intrinsics use SSE2. Elsewhere eight bytes at a time are processed in a word. Both implementations
//! return the same results.

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
use portable as imp;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use sse2 as imp;

/// The number of bytes that [`plain_in_block`] processes.
pub(crate) const BLOCK: usize = 16;

/// One bit for each byte of a block; the first byte has the lowest bit.
pub(crate) struct Bits {
    pub(crate) quotes: u64,
    pub(crate) backslashes: u64,
    pub(crate) opening: u64,
    pub(crate) closing: u64,
}

impl Bits {
    #[inline(always)]
    pub(crate) fn new(block: &[u8; 64]) -> Self {
        imp::bits(block)
    }
}

/// Returns the number of bytes before the first quote, backslash or control character in a block. Sets `wide` if there
/// are bytes outside of ASCII.
///
/// A block is as long as most strings. A mispredicted number of blocks costs more than processing a few extra bytes.
#[inline(always)]
pub(crate) fn plain_in_block(block: &[u8; BLOCK], wide: &mut bool) -> usize {
    imp::plain_in_block(block, wide)
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod sse2 {
    use safe_arch::{
        bitor_m128i, cmp_eq_mask_i8_m128i, m128i, min_u8_m128i, move_mask_i8_m128i, set_i64_m128i,
        set_splat_i8_m128i,
    };

    use super::{BLOCK, Bits};

    #[inline(always)]
    pub(super) fn bits(block: &[u8; 64]) -> Bits {
        let mut bits = Bits {
            quotes: 0,
            backslashes: 0,
            opening: 0,
            closing: 0,
        };
        let (lanes, _) = block.as_chunks::<16>();
        for (at, lane) in lanes.iter().enumerate() {
            let lane = load(lane);
            // Brackets and braces differ only in this bit, and setting it makes no other valid byte equal to them.
            let folded = bitor_m128i(lane, all(0x20));
            bits.quotes |= equal(lane, b'"') << (16 * at);
            bits.backslashes |= equal(lane, b'\\') << (16 * at);
            bits.opening |= equal(folded, b'{') << (16 * at);
            bits.closing |= equal(folded, b'}') << (16 * at);
        }
        bits
    }

    #[inline(always)]
    pub(super) fn plain_in_block(block: &[u8; BLOCK], wide: &mut bool) -> usize {
        let lane = load(block);
        *wide |= move_mask_i8_m128i(lane) != 0;
        let control = cmp_eq_mask_i8_m128i(min_u8_m128i(lane, all(0x1f)), lane);
        let quote = cmp_eq_mask_i8_m128i(lane, all(b'"'));
        let backslash = cmp_eq_mask_i8_m128i(lane, all(b'\\'));
        let special = bitor_m128i(control, bitor_m128i(quote, backslash));
        // The mask has sixteen bits. If none is set, the result is 16.
        (move_mask_i8_m128i(special).cast_unsigned() | 1 << BLOCK).trailing_zeros() as usize
    }

    #[inline(always)]
    fn load(lane: &[u8; 16]) -> m128i {
        let word = u128::from_le_bytes(*lane);
        set_i64_m128i(
            ((word >> 64) as u64).cast_signed(),
            (word as u64).cast_signed(),
        )
    }

    #[inline(always)]
    fn all(byte: u8) -> m128i {
        set_splat_i8_m128i(byte.cast_signed())
    }

    /// Returns a bit for each byte that equals `byte`.
    #[inline(always)]
    fn equal(lane: m128i, byte: u8) -> u64 {
        u64::from(move_mask_i8_m128i(cmp_eq_mask_i8_m128i(lane, all(byte))).cast_unsigned())
    }
}

#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2"))))]
mod portable {
    use super::{BLOCK, Bits};

    #[inline(always)]
    pub(super) fn bits(block: &[u8; 64]) -> Bits {
        let mut bits = Bits {
            quotes: 0,
            backslashes: 0,
            opening: 0,
            closing: 0,
        };
        let (words, _) = block.as_chunks::<8>();
        for (at, word) in words.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            // Brackets and braces differ only in this bit, and setting it makes no other valid byte equal to them.
            let folded = word | (ONES * 0x20);
            bits.quotes |= other_bytes(word, b'"') >> (7 - at);
            bits.backslashes |= other_bytes(word, b'\\') >> (7 - at);
            bits.opening |= other_bytes(folded, b'{') >> (7 - at);
            bits.closing |= other_bytes(folded, b'}') >> (7 - at);
        }
        Bits {
            quotes: transposed(!bits.quotes),
            backslashes: if !bits.backslashes == 0 {
                0
            } else {
                transposed(!bits.backslashes)
            },
            opening: transposed(!bits.opening),
            closing: transposed(!bits.closing),
        }
    }

    #[inline(always)]
    pub(super) fn plain_in_block(block: &[u8; BLOCK], wide: &mut bool) -> usize {
        let bytes = u128::from_le_bytes(*block);
        let (low, high) = (bytes as u64, (bytes >> 64) as u64);
        *wide |= (low | high) & HIGHS != 0;
        let (in_low, in_high) = (special_bytes(low), special_bytes(high));
        let (before, special) = if in_low == 0 {
            (8, in_high)
        } else {
            (0, in_low)
        };
        before + (special.trailing_zeros() / 8) as usize
    }

    /// Finds quotes, backslashes and control characters: sets the highest bit of the first such byte.
    ///
    /// Borrows can also set that bit in later bytes.
    #[inline(always)]
    fn special_bytes(bytes: u64) -> u64 {
        let quote = bytes ^ (ONES * b'"' as u64);
        let backslash = bytes ^ (ONES * b'\\' as u64);
        let control = bytes.wrapping_sub(ONES * b' ' as u64);
        (quote.wrapping_sub(ONES) & !quote
            | backslash.wrapping_sub(ONES) & !backslash
            | control & !bytes)
            & HIGHS
    }

    const HIGHS: u64 = 0x8080_8080_8080_8080;

    /// Returns the highest bit of each byte that does not equal `byte`.
    #[inline(always)]
    fn other_bytes(word: u64, byte: u8) -> u64 {
        const HIGHS: u64 = ONES << 7;
        const LOWS: u64 = !HIGHS;

        let differ = word ^ (ONES * byte as u64);
        (((differ & LOWS) + LOWS) | differ) & HIGHS
    }

    /// Moves bit n of byte m to bit m of byte n.
    #[inline(always)]
    fn transposed(mut bits: u64) -> u64 {
        for (shift, mask) in [
            (7, 0x00aa_00aa_00aa_00aa),
            (14, 0x0000_cccc_0000_cccc),
            (28, 0x0000_0000_f0f0_f0f0),
        ] {
            let swapped = (bits ^ (bits >> shift)) & mask;
            bits ^= swapped ^ (swapped << shift);
        }
        bits
    }

    const ONES: u64 = 0x0101_0101_0101_0101;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For any block, both implementations agree up to the first special byte.
    #[test]
    fn both_ways_find_the_same() {
        let alphabet = b"{}[]\"\\ az09:,\x1f\x20\x7f\x80\xff\xc3\xfb\xdb\x02\x0c";
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..crate::rounds(50_000) {
            let block: [u8; 64] = core::array::from_fn(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                if random & 3 == 0 {
                    alphabet[(random >> 33) as usize % alphabet.len()]
                } else {
                    b'a' + (random >> 40) as u8 % 26
                }
            });
            let (a, b) = (imp::bits(&block), portable::bits(&block));
            assert_eq!(
                (a.quotes, a.backslashes, a.opening, a.closing),
                (b.quotes, b.backslashes, b.opening, b.closing)
            );
            let start = block.first_chunk().unwrap();
            let (mut wide_a, mut wide_b) = (false, false);
            assert_eq!(
                imp::plain_in_block(start, &mut wide_a),
                portable::plain_in_block(start, &mut wide_b)
            );
            assert_eq!(wide_a, wide_b);
        }
    }
}
