//! When to build a compression dictionary, and when to replace it: samples are collected, and how well the dictionary
//! compresses is measured.

/// A dictionary is built once there are this many bytes of samples.
const SAMPLE_BYTES: usize = 256 << 10;
/// For small objects, this many samples are enough.
const MOST_SAMPLES: usize = 1024;
/// Fewer samples never make a dictionary, however large they are.
const LEAST_SAMPLES: usize = 8;
/// The number of objects that are measured before a dictionary may be replaced.
const WINDOW: u32 = 512;

/// Sample objects for building a dictionary.
#[derive(Default)]
pub(crate) struct Samples {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

impl Samples {
    /// Returns the objects, concatenated.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the size of each object in bytes.
    pub(crate) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    fn push(&mut self, json: &[u8]) {
        self.bytes.extend_from_slice(json);
        self.sizes.push(json.len());
    }

    const fn is_enough(&self) -> bool {
        self.sizes.len() >= MOST_SAMPLES
            || self.bytes.len() >= SAMPLE_BYTES && self.sizes.len() >= LEAST_SAMPLES
    }
}

/// Decides when to build a dictionary: from the first objects, and again when compressed objects become half as large
/// again as with the new dictionary.
pub(crate) struct Training {
    state: TrainingStage,
    window: Ratio,
}

enum TrainingStage {
    Sampling(Samples),
    /// The dictionary is being built.
    Making,
    /// The dictionary is new, and its ratio is being measured.
    Measuring,
    /// The dictionary is in use, with the ratio that it had when it was new.
    Using(Ratio),
}

/// The size of objects before and after compression.
#[derive(Clone, Copy, Default)]
struct Ratio {
    objects: u32,
    whole: u64,
    packed: u64,
}

impl Ratio {
    fn add(&mut self, whole: usize, packed: usize) {
        self.objects += 1;
        self.whole += whole as u64;
        self.packed += packed as u64;
    }

    /// Returns whether this ratio is at least half as much again as `other`, and objects compress to more than 5 %.
    const fn is_worse_than(self, other: Self) -> bool {
        let now = self.packed as u128 * other.whole as u128 * 2;
        let then = other.packed as u128 * self.whole as u128 * 3;
        now > then && self.packed * 20 > self.whole
    }
}

impl Training {
    /// Starts to collect samples, up to 256 KiB.
    pub(crate) fn new() -> Self {
        Self {
            state: TrainingStage::Sampling(Samples::default()),
            window: Ratio::default(),
        }
    }

    /// Records an object and its compressed size. Returns samples when it is time to build a dictionary; the caller
    /// then calls [`Training::made`].
    pub(crate) fn observe(&mut self, json: &[u8], packed: usize) -> Option<Samples> {
        match &mut self.state {
            TrainingStage::Sampling(samples) => {
                samples.push(json);
                if !samples.is_enough() {
                    return None;
                }
                let samples = core::mem::take(samples);
                self.state = TrainingStage::Making;
                Some(samples)
            }
            TrainingStage::Making => None,
            TrainingStage::Measuring => {
                self.window.add(json.len(), packed);
                if self.window.objects >= WINDOW {
                    self.state = TrainingStage::Using(core::mem::take(&mut self.window));
                }
                None
            }
            TrainingStage::Using(new) => {
                self.window.add(json.len(), packed);
                if self.window.objects >= WINDOW
                    && core::mem::take(&mut self.window).is_worse_than(*new)
                {
                    self.state = TrainingStage::Sampling(Samples::default());
                }
                None
            }
        }
    }

    /// Records that the dictionary is in use, or that it could not be built.
    pub(crate) fn made(&mut self) {
        self.window = Ratio::default();
        self.state = TrainingStage::Measuring;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained() -> Training {
        let mut training = Training::new();
        while training.observe(&[0; 1000], 500).is_none() {}
        training.made();
        (0..WINDOW).for_each(|_| assert!(training.observe(&[0; 1000], 100).is_none()));
        training
    }

    #[test]
    fn a_dictionary_that_fits_stays() {
        let mut training = trained();
        for _ in 0..10 * WINDOW {
            assert!(training.observe(&[0; 1000], 140).is_none());
        }
    }

    #[test]
    fn a_dictionary_that_no_longer_fits_is_made_again_from_later_objects() {
        let mut training = trained();
        let samples = (0..10_000).find_map(|_| training.observe(&[1; 1000], 300));
        let samples = samples.expect("a new dictionary is due");
        assert!(samples.bytes().iter().all(|byte| *byte == 1));
        assert_eq!(samples.bytes().len(), samples.sizes().iter().sum::<usize>());
        // Only one dictionary is built at a time.
        assert!((0..10_000).all(|_| training.observe(&[1; 1000], 300).is_none()));
    }

    #[test]
    fn memory_for_samples_is_bounded() {
        let mut training = Training::new();
        let samples = (0..10_000)
            .find_map(|_| training.observe(b"{}", 2))
            .expect("there are enough samples");
        assert_eq!(samples.sizes().len(), MOST_SAMPLES);
    }
}
