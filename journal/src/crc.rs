//! CRC-32 as in zip and Ethernet (ISO 3309). It detects torn writes.

/// The polynomial, with reversed bits.
#[cfg(any(not(feature = "alloc"), test))]
const POLYNOMIAL: u32 = 0xedb8_8320;

/// Continues a CRC over more bytes: `crc(crc(seed, a), b)` is the CRC of `a` followed by `b`.
#[cfg(not(feature = "alloc"))]
pub(super) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    !update_small(!seed, bytes)
}

/// Uses the CRC instructions of the processor, since a journal file may have some hundred megabytes.
#[cfg(feature = "alloc")]
pub(super) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(any(not(feature = "alloc"), test))]
const fn step(mut value: u32, bits: u32) -> u32 {
    let mut bit = 0;
    while bit < bits {
        value = (value >> 1) ^ (POLYNOMIAL & (value & 1).wrapping_neg());
        bit += 1;
    }
    value
}

/// Processes half a byte at a time, with a table of 64 bytes.
#[cfg(any(not(feature = "alloc"), test))]
fn update_small(mut state: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 16] = {
        let mut table = [0; 16];
        let mut i = 0;
        while i < 16 {
            table[i] = step(i as u32, 4);
            i += 1;
        }
        table
    };
    for &byte in bytes {
        state ^= u32::from(byte);
        state = (state >> 4) ^ TABLE[(state & 15) as usize];
        state = (state >> 4) ^ TABLE[(state & 15) as usize];
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_crc_of_the_catalogue() {
        assert_eq!(crc(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc(crc(0, b"1234"), b"56789"), 0xcbf4_3926);
    }

    #[test]
    fn both_ways_agree() {
        let bytes: [u8; 300] = core::array::from_fn(|i| (i * 37 % 251) as u8);
        for len in 0..bytes.len() {
            assert_eq!(crc(7, &bytes[..len]), !update_small(!7, &bytes[..len]));
        }
    }
}
