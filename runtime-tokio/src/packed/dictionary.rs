//! Training of zstd dictionaries.
//!
//! zstd's own trainer needs 7 MB and 20 ms for 256 KiB of samples, and glibc's heaps stay larger after it: with 20,000
//! Pods the program has 29.5 MB after the first list instead of 28.1, and 31 to 33 MB after a relist instead of 28.7.
//! This trainer needs half a megabyte and a few milliseconds for a dictionary of the same quality. It selects the
//! segments of the samples that share most with all others ("COVER": Liao, Petri, Moffat and Wirth, "Effective
//! Construction of Relative Lempel-Ziv Dictionaries", 2016), and zstd adds its statistics.

use core::ffi::c_uint;

use zstd::zstd_safe::{self, CCtx, CDict, zstd_sys};

use super::training::Samples;

/// The size of a dictionary's content. Twice the size compresses no better, and more slowly.
const CONTENT_BYTES: usize = 16 << 10;
/// The most bytes of zstd's statistics.
const STATISTICS_BYTES: usize = 1 << 10;
/// The segment lengths that are tried. Long segments suit similar objects, and short ones those that share little.
const PIECES: [usize; 4] = [256, 512, 1024, 2048];
/// The number of consecutive bytes that are hashed together.
const GRAM: usize = 8;
/// One in this many samples is held out: it is not used for the content, and the candidates are compared on these
/// samples.
const TRIED: usize = 4;
/// The bits of a gram's hash.
const HASH_BITS: u32 = 15;

/// Trains a dictionary: the best of the candidates with segments of each length.
pub(crate) fn train(samples: &Samples, level: i32) -> Vec<u8> {
    let tried = samples.sizes().len() / TRIED;
    let tried: usize = samples.sizes().iter().rev().take(tried).sum();
    let looked_at = &samples.bytes()[..samples.bytes().len() - tried];
    let candidates = PIECES.map(|piece| {
        let content = cover(looked_at, piece);
        // zstd has no statistics for some samples, such as identical objects. The content is then used alone.
        with_statistics(&content, samples, level).unwrap_or(content)
    });
    let best = candidates
        .into_iter()
        .min_by_key(|dictionary| trial(dictionary, samples, level));
    best.unwrap_or_default()
}

/// Collects the segments that share most with the rest, one from each part of the samples in turn. The best segments
/// come last, where references to them are cheapest.
fn cover(samples: &[u8], piece: usize) -> Vec<u8> {
    if samples.len() <= CONTENT_BYTES {
        return samples.to_vec();
    }
    let mut grams = Grams::of(samples);
    let part = samples.len() / (CONTENT_BYTES / piece).max(1);
    let parts = samples.chunks(part);
    // The number of consecutive turns without a segment. After a full round without one, nothing is left.
    let (all, mut vain) = (parts.len(), 0);
    let mut pieces: Vec<&[u8]> = Vec::new();
    let mut left = CONTENT_BYTES;
    for part in parts.cycle() {
        match grams.best(part, piece.min(left)) {
            Some(piece) => {
                vain = 0;
                grams.spend(piece);
                left -= piece.len();
                pieces.push(piece);
            }
            None => vain += 1,
        }
        if left < GRAM || vain >= all {
            break;
        }
    }
    pieces.reverse();
    pieces.concat()
}

/// The number of occurrences of each sequence of [`GRAM`] bytes in the samples, by its hash. It is 0 if the sequence is
/// in the dictionary.
struct Grams {
    counts: Vec<u16>,
    /// The number of occurrences in the window.
    window: Vec<u16>,
}

impl Grams {
    fn of(samples: &[u8]) -> Self {
        let mut counts = vec![0u16; 1 << HASH_BITS];
        for slot in slots(samples) {
            counts[slot] = counts[slot].saturating_add(1);
        }
        let window = vec![0; counts.len()];
        Self { counts, window }
    }

    /// Finds the window of this size whose distinct grams are the most frequent. `None` if all grams are in the
    /// dictionary.
    fn best<'a>(&mut self, part: &'a [u8], bytes: usize) -> Option<&'a [u8]> {
        let width = (bytes + 1).saturating_sub(GRAM).max(1);
        let (mut score, mut best, mut end) = (0, 0, 0);
        let mut leaving = slots(part);
        for (at, slot) in slots(part).enumerate() {
            if at >= width
                && let Some(left) = leaving.next()
            {
                self.window[left] -= 1;
                if self.window[left] == 0 {
                    score -= u64::from(self.counts[left]);
                }
            }
            if self.window[slot] == 0 {
                score += u64::from(self.counts[slot]);
            }
            self.window[slot] += 1;
            if score > best {
                (best, end) = (score, at + GRAM);
            }
        }
        leaving.for_each(|left| self.window[left] = 0);
        (best > 0).then(|| &part[end.saturating_sub(bytes)..end])
    }

    /// Records that a segment is in the dictionary.
    fn spend(&mut self, piece: &[u8]) {
        slots(piece).for_each(|slot| self.counts[slot] = 0);
    }
}

/// The hashes of the grams.
fn slots(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    bytes.windows(GRAM).map(|gram| {
        let gram = u64::from_le_bytes(gram.try_into().unwrap_or_default());
        let hash = gram.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (u64::BITS - HASH_BITS)) as usize
    })
}

/// Adds zstd's statistics of the sample data that is not in the dictionary.
#[expect(unsafe_code, reason = "the safe bindings do not have this function")]
fn with_statistics(content: &[u8], samples: &Samples, level: i32) -> Option<Vec<u8>> {
    let mut dictionary = vec![0; content.len() + STATISTICS_BYTES];
    let parameters = zstd_sys::ZDICT_params_t {
        compressionLevel: level,
        notificationLevel: 0,
        // zstd chooses the id.
        dictID: 0,
    };
    let sizes = samples.sizes();
    if sizes.iter().sum::<usize>() != samples.bytes().len() {
        return None;
    }
    let count = c_uint::try_from(sizes.len()).ok()?;
    // SAFETY: Each pointer is valid for the length that is passed with it, until the call returns. The sizes add up to
    // the length of the samples.
    let written = unsafe {
        zstd_sys::ZDICT_finalizeDictionary(
            dictionary.as_mut_ptr().cast(),
            dictionary.len(),
            content.as_ptr().cast(),
            content.len(),
            samples.bytes().as_ptr().cast(),
            sizes.as_ptr(),
            count,
            parameters,
        )
    };
    // Errors are encoded as values near the maximum.
    (written <= dictionary.len()).then(|| {
        dictionary.truncate(written);
        dictionary
    })
}

/// Returns the compressed size of the held-out samples with a dictionary.
fn trial(dictionary: &[u8], samples: &Samples, level: i32) -> usize {
    let dictionary = CDict::create(dictionary, level);
    let mut context = CCtx::create();
    let mut packed = Vec::new();
    let mut rest = samples.bytes();
    let tried = samples.sizes().len() / TRIED;
    let sizes = samples.sizes().iter().rev().take(tried).map(|size| {
        let (before, sample) = rest.split_at(rest.len() - size);
        rest = before;
        packed.clear();
        packed.reserve(zstd_safe::compress_bound(sample.len()));
        let size = context.compress_using_cdict(&mut packed, sample, &dictionary);
        size.unwrap_or(sample.len())
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::super::training::Training;
    use super::*;

    fn samples_of(object: impl Fn(usize) -> String) -> Samples {
        let mut training = Training::new();
        let mut objects = (0..).map(object);
        objects
            .find_map(|object| training.observe(object.as_bytes(), object.len()))
            .expect("there is no end of them")
    }

    fn packed(dictionary: &[u8], object: &str) -> usize {
        let dictionary = CDict::create(dictionary, 1);
        let mut packed = Vec::with_capacity(zstd_safe::compress_bound(object.len()));
        let packed =
            CCtx::create().compress_using_cdict(&mut packed, object.as_bytes(), &dictionary);
        packed.expect("there is room")
    }

    /// A text of words that a number determines.
    fn words(number: usize, count: usize) -> String {
        let next = |state: usize| state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let states = core::iter::successors(Some(next(number + 1)), |state| Some(next(*state)));
        states
            .take(count)
            .map(|state| format!("{:x},", state >> 40))
            .collect()
    }

    #[test]
    fn a_dictionary_contains_shared_text_and_statistics() {
        let shared = words(7, 300);
        let object = |number| format!("{{{shared}{}}}", words(1000 + number, 30));
        let samples = samples_of(object);
        let dictionary = train(&samples, 1);
        assert!(dictionary.len() <= CONTENT_BYTES + STATISTICS_BYTES);
        assert_eq!(&dictionary[..4], &0xec30_a437_u32.to_le_bytes());
        let (alone, with) = (
            packed(&[], &object(5000)),
            packed(&dictionary, &object(5000)),
        );
        assert!(with * 5 < alone, "{alone} became {with}");
    }

    #[test]
    fn pieces_of_several_kinds_of_objects_are_in_it() {
        let object =
            |number: usize| format!("{{{}{}}}", words(number % 8, 150), words(1000 + number, 10));
        let dictionary = train(&samples_of(object), 1);
        for number in 9000..9008 {
            let (alone, with) = (
                packed(&[], &object(number)),
                packed(&dictionary, &object(number)),
            );
            assert!(with * 3 < alone, "{number}: {alone} became {with}");
        }
    }

    #[test]
    fn objects_that_are_all_the_same_and_small_ones_make_one_too() {
        let same = |_| words(3, 500);
        let small = |number: usize| format!("{{\"n\":{number}}}");
        for samples in [samples_of(same), samples_of(small)] {
            let dictionary = train(&samples, 1);
            assert!(!dictionary.is_empty());
            let first = core::str::from_utf8(&samples.bytes()[..samples.sizes()[0]]).expect("text");
            // The id of the dictionary takes four bytes.
            assert!(packed(&dictionary, first) <= packed(&[], first) + 4);
        }
    }

    #[test]
    fn the_best_window_is_the_one_with_the_most_frequent_grams() {
        let mut bytes = words(1, 100).into_bytes();
        let (often, once) = (b"often often!", b"only once here");
        bytes.extend_from_slice(once);
        let at = bytes.len();
        (0..5).for_each(|_| bytes.extend_from_slice(often));
        let mut grams = Grams::of(&bytes);
        let best = grams
            .best(&bytes, often.len())
            .expect("something is shared");
        let start = best.as_ptr() as usize - bytes.as_ptr() as usize;
        assert!(start >= at, "it is at {start}, before {at}");
        grams.spend(&bytes);
        assert_eq!(grams.best(&bytes, often.len()), None);
        assert!(grams.window.iter().all(|count| *count == 0));
    }
}
