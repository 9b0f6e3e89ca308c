//! Exponential backoff with jitter.

use core::time::Duration;

use crate::time::{Instant, Rng};

/// The growth of delays.
///
/// All values are valid: delays saturate, never shrink, and are at least a millisecond. A negative `jitter` counts as
/// zero.
///
/// ```
/// use core::time::Duration;
/// use informer_core::time::BackoffConfig;
///
/// let config = BackoffConfig::default();
/// assert_eq!(config.initial, Duration::from_millis(800));
/// assert_eq!(config.cap, Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BackoffConfig {
    /// The first delay before jitter.
    pub initial: Duration,
    /// The factor between consecutive delays.
    pub factor: f64,
    /// The longest delay before jitter.
    pub cap: Duration,
    /// The random part, relative to the delay: 1.0 gives a delay in [d, 2d).
    pub jitter: f64,
    /// Resets the sequence at the first delay that is later than this after the last reset, whatever happened since.
    /// That is client-go's rule. With `None`, the default, only a success does.
    pub reset_interval: Option<Duration>,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(800),
            factor: 2.0,
            cap: Duration::from_secs(30),
            jitter: 1.0,
            reset_interval: None,
        }
    }
}

/// One sequence of growing delays.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    config: BackoffConfig,
    next: Duration,
    began: Option<Instant>,
}

impl Backoff {
    /// Creates a sequence that starts with the configured first delay.
    #[must_use]
    pub(crate) const fn new(config: BackoffConfig) -> Self {
        Self {
            config,
            next: config.initial,
            began: None,
        }
    }

    /// Resets the sequence: the next delay is the first one again.
    pub(crate) const fn reset(&mut self) {
        self.next = self.config.initial;
    }

    /// Returns the next delay including jitter. The following one may grow up to `cap` or the configured cap, whichever
    /// is longer.
    pub(crate) fn step(&mut self, now: Instant, rng: &mut Rng, cap: Duration) -> Duration {
        if let Some(interval) = self.config.reset_interval {
            let began = *self.began.get_or_insert(now);
            if now - began > interval {
                self.began = Some(now);
                self.reset();
            }
        }
        let cap = cap.max(self.config.cap);
        let delay = self.next.min(cap).max(SHORTEST);
        self.next = scale(delay, self.config.factor).max(delay).min(cap);
        delay.saturating_add(rng_part(rng, scale(delay, self.config.jitter)))
    }
}

/// A random part of `whole`.
fn rng_part(rng: &mut Rng, whole: Duration) -> Duration {
    Duration::from_micros(rng.below(u64::try_from(whole.as_micros()).unwrap_or(u64::MAX)))
}

/// The shortest delay. Without it, a server that rejects immediately would get requests in a hot loop.
const SHORTEST: Duration = Duration::from_millis(1);

/// Returns zero if the factor is not positive, and the longest duration if there are too many microseconds.
///
/// It uses integers, since on a processor without floating point the routines for this would take 4 kB of flash.
fn scale(duration: Duration, factor: f64) -> Duration {
    const MANTISSA: u32 = 52;
    const INFINITE: u64 = 0x7ff << MANTISSA;

    let bits = factor.to_bits();
    // Negative numbers and NaN have greater bits.
    if bits == 0 || bits > INFINITE {
        return Duration::ZERO;
    }
    let mantissa = bits & ((1 << MANTISSA) - 1) | 1 << MANTISSA;
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let product = u128::from(micros) * u128::from(mantissa);
    // A factor is its mantissa times two to the power of its exponent less 1075; from there on it is too large.
    let Some(shift) = 1075_u64.checked_sub(bits >> MANTISSA) else {
        return Duration::MAX;
    };
    let shift = u32::try_from(shift).unwrap_or(u32::MAX);
    let scaled = u64::try_from(product.checked_shr(shift).unwrap_or(0));
    scaled.map_or(Duration::MAX, Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn delays_double_up_to_the_cap_and_jitter_adds_at_most_as_much() {
        let mut backoff = Backoff::new(BackoffConfig::default());
        let mut rng = Rng::new(3);
        for base in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let base = Duration::from_millis(base);
            let delay = backoff.step(at(0), &mut rng, Duration::ZERO);
            assert!(delay >= base && delay < base * 2, "{delay:?} for {base:?}");
        }
        backoff.reset();
        assert!(backoff.step(at(0), &mut rng, Duration::ZERO) < Duration::from_millis(1600));
    }

    #[test]
    fn the_sawtooth_of_client_go_restarts_after_two_minutes() {
        let config = BackoffConfig {
            reset_interval: Some(Duration::from_secs(120)),
            jitter: 0.0,
            ..Default::default()
        };
        let mut backoff = Backoff::new(config);
        let mut rng = Rng::new(3);
        for _ in 0..10 {
            backoff.step(at(1), &mut rng, Duration::ZERO);
        }
        assert_eq!(
            backoff.step(at(121), &mut rng, Duration::ZERO),
            Duration::from_secs(30)
        );
        assert_eq!(
            backoff.step(at(122), &mut rng, Duration::ZERO),
            Duration::from_millis(800)
        );
    }

    #[test]
    fn durations_scale_as_floating_point_does() {
        for factor in [0.001, 0.1, 0.5, 1.0, 1.5, 2.0, 3.7, 1e3] {
            for micros in [1, 999, 800_000, 30_000_000, 86_400_000_000] {
                let duration = Duration::from_micros(micros);
                let difference = duration.mul_f64(factor).abs_diff(scale(duration, factor));
                assert!(
                    difference <= Duration::from_micros(1),
                    "{duration:?} * {factor}"
                );
            }
        }
    }

    #[test]
    fn extreme_configurations_saturate() {
        let times = [0, 1, 800_000_000, u64::MAX].map(Duration::from_nanos);
        let times = || times.into_iter().chain([Duration::MAX]);
        let factors = [
            f64::NAN,
            f64::NEG_INFINITY,
            -1.0,
            0.0,
            0.5,
            f64::MAX,
            f64::INFINITY,
        ];
        let mut rng = Rng::new(3);
        for (initial, cap) in times().flat_map(|a| times().map(move |b| (a, b))) {
            for (factor, jitter) in factors
                .iter()
                .flat_map(|a| factors.iter().map(move |b| (*a, *b)))
            {
                for reset_interval in times().map(Some).chain([None]) {
                    let config = BackoffConfig {
                        initial,
                        factor,
                        cap,
                        jitter,
                        reset_interval,
                    };
                    let mut backoff = Backoff::new(config);
                    for step in 0..5 {
                        let now = Instant::from_micros(step * (u64::MAX / 4));
                        let delay = backoff.step(now, &mut rng, Duration::ZERO);
                        assert!(delay >= SHORTEST && now + delay >= now, "{config:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_higher_cap_can_be_asked_for() {
        let mut backoff = Backoff::new(BackoffConfig {
            jitter: 0.0,
            ..Default::default()
        });
        let mut rng = Rng::new(3);
        let last = (0..20)
            .map(|_| backoff.step(at(0), &mut rng, Duration::from_secs(300)))
            .last();
        assert_eq!(last, Some(Duration::from_secs(300)));
        assert_eq!(
            backoff.step(at(0), &mut rng, Duration::ZERO),
            Duration::from_secs(30)
        );
    }
}
