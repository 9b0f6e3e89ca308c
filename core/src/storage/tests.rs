//! Seeded hashes, and values that collide without a seed.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::*;
use crate::storage::table::Table;

/// A predictable hash: multiply-and-shift with a known seed.
fn predictable(seed: u64, words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325 ^ seed, |h, word| {
        let h = (h ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        h ^ (h >> 29)
    })
}

/// Texts that collide in the predictable hash. The second word of each pair compensates for the difference of the
/// first, and each pair doubles the number of texts.
fn colliding(seed: u64) -> Vec<String> {
    let word = |text: &[u8; 8]| u64::from_le_bytes(*text);
    let mut texts: Vec<Vec<u64>> = Vec::from([Vec::new()]);
    for _ in 0..8 {
        let h = predictable(seed, &texts[0]) ^ 0xcbf2_9ce4_8422_2325;
        let after = |first: u64| predictable(h, &[first]);
        let second = word(b"bbbbbbbb");
        let pairs = (b'0'..=b'z').flat_map(|one| (one + 1..=b'z').map(move |other| (one, other)));
        let found = pairs
            .map(|(one, other)| {
                let one = word(&[b'a', b'a', b'a', b'a', b'a', b'a', b'a', one]);
                let other = word(&[b'a', b'a', b'a', b'a', b'a', b'a', b'a', other]);
                ([one, second], [other, second ^ after(one) ^ after(other)])
            })
            .find(|(_, [_, second])| second.to_le_bytes().is_ascii());
        let (one, other) = found.unwrap();
        texts = texts
            .iter()
            .flat_map(|text| [[&text[..], &one].concat(), [&text[..], &other].concat()])
            .collect();
    }
    let hashes: BTreeSet<u64> = texts.iter().map(|text| predictable(seed, text)).collect();
    assert_eq!((texts.len(), hashes.len()), (256, 1));
    texts
        .iter()
        .map(|words| {
            let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            String::from_utf8(bytes).unwrap()
        })
        .collect()
}

#[test]
fn texts_made_to_collide_do_not_under_a_seed() {
    for known in [0, 1, 7] {
        let texts = colliding(known);
        for seed in [0, 1, 7, known] {
            let hashes: BTreeSet<u32> = texts.iter().map(|t| hash(seed, t.as_bytes())).collect();
            assert!(hashes.len() >= 255, "{} hashes", hashes.len());
        }
    }
}

/// Every bit of every byte, and the length, affect the hash.
#[test]
fn hashes_differ() {
    let bytes = [0x55; 40];
    let mut hashes = BTreeSet::new();
    let mut count = 0;
    for len in 0..=bytes.len() {
        hashes.insert(hash(3, &bytes[..len]));
        count += 1;
        for bit in 0..8 * len {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            hashes.insert(hash(3, &bytes[..len]));
            count += 1;
        }
    }
    // Among 6,601 of 2^32 hashes, fewer than one pair is equal by chance.
    assert!(count - hashes.len() <= 2, "{} of {count}", hashes.len());
    // Trailing zeros differ from the padding.
    assert_ne!(hash(3, b"a"), hash(3, b"a\0"));
}

/// Each table has its own seed.
#[test]
fn seeds_are_derived() {
    let seeds: BTreeSet<u64> = (0..10)
        .flat_map(|seed| (0..10).map(move |table| derive(seed, table)))
        .collect();
    assert_eq!(seeds.len(), 100);
}

/// Keys stay in place when the seed changes.
#[test]
fn a_table_may_get_another_seed() {
    fn check<S: Storage>() {
        let mut table = Table::<u32, S>::new(7);
        let keys = ["a", "b", "c", "d"];
        let ids = keys.map(|key| table.find_or_insert(key).unwrap());
        table.free_if_idle(ids[1]);
        table.set_seed(8);
        for (key, id) in keys.into_iter().zip(ids) {
            assert_eq!(table.find(key), (key != "b").then_some(id));
        }
    }
    #[cfg(feature = "alloc")]
    check::<Heap>();
    check::<Inline<4, 4, 4>>();
}
