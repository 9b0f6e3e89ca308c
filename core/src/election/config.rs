//! The timing of elections.

use core::fmt;
use core::time::Duration;

/// client-go's `JitterFactor`, in tenths: the longest retry period relative to the configured one.
const JITTER_TENTHS: u32 = 12;

/// The timing of an election among replicas.
///
/// The defaults are client-go's. As in client-go, `lease_duration` > `renew_deadline` > 1.2 * `retry_period`; otherwise two
/// replicas could lead at the same time. `lease_duration` must also be a whole number of seconds that fits the Lease, and
/// `retry_period` at least a millisecond. Every constructor that takes a config checks this.
///
/// ```
/// use core::time::Duration;
/// use informer_core::election::ElectionConfig;
///
/// let config = ElectionConfig::default();
/// assert_eq!(config.lease_duration, Duration::from_secs(15));
/// assert_eq!(config.renew_deadline, Duration::from_secs(10));
/// assert_eq!(config.retry_period, Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ElectionConfig {
    /// How long other replicas wait after the leader's last renewal before they take over. The Lease stores it in
    /// `leaseDurationSeconds`, so it must be a whole number of seconds.
    pub lease_duration: Duration,
    /// How long a leader that cannot renew remains the leader. It counts from the time at which the last renewal was
    /// *sent*, so that this leader stops before another one starts.
    pub renew_deadline: Duration,
    /// The time between attempts to acquire or renew the Lease.
    pub retry_period: Duration,
}

impl Default for ElectionConfig {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl ElectionConfig {
    /// # Errors
    /// Names the invalid value and the allowed range.
    pub(crate) fn validate(&self) -> Result<(), ElectionError> {
        let Self {
            lease_duration,
            renew_deadline,
            retry_period,
        } = *self;
        let seconds = lease_duration.as_secs();
        let is_whole = lease_duration == Duration::from_secs(seconds);
        if !is_whole || seconds == 0 || i32::try_from(seconds).is_err() {
            return Err(ElectionError::LeaseDuration(lease_duration));
        }
        if lease_duration <= renew_deadline {
            return Err(ElectionError::RenewDeadline {
                renew_deadline,
                lease_duration,
            });
        }
        if retry_period < Duration::from_millis(1) {
            return Err(ElectionError::RetryPeriod(retry_period));
        }
        if renew_deadline * 10 <= retry_period.saturating_mul(JITTER_TENTHS) {
            return Err(ElectionError::Retries {
                renew_deadline,
                retry_period,
            });
        }
        Ok(())
    }

    pub(crate) fn validate_for(&self, identity: &str) -> Result<(), ElectionError> {
        if identity.trim().is_empty() {
            return Err(ElectionError::EmptyIdentity);
        }
        self.validate()
    }
}

/// The reason why a config or an identity is invalid. With it, two replicas could lead, or none.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElectionError {
    /// The identity is empty, which in a Lease means that it has no holder.
    EmptyIdentity,
    /// `lease_duration` is not a whole number of seconds from 1 to 2,147,483,647.
    LeaseDuration(Duration),
    /// `renew_deadline` is not shorter than `lease_duration`.
    RenewDeadline {
        /// The configured `renew_deadline`.
        renew_deadline: Duration,
        /// The configured `lease_duration`.
        lease_duration: Duration,
    },
    /// `retry_period` is shorter than a millisecond.
    RetryPeriod(Duration),
    /// `renew_deadline` is too short for a second attempt.
    Retries {
        /// The configured `renew_deadline`.
        renew_deadline: Duration,
        /// The configured `retry_period`.
        retry_period: Duration,
    },
}

impl fmt::Display for ElectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("election: ")?;
        match self {
            Self::EmptyIdentity => f.write_str(
                "the identity is empty; give each replica a unique one, such as the name of its Pod",
            ),
            Self::LeaseDuration(lease_duration) => write!(
                f,
                "lease_duration ({lease_duration:?}) must be a whole number of seconds from 1 to {}, since the Lease \
                 carries it as leaseDurationSeconds",
                i32::MAX
            ),
            Self::RenewDeadline {
                renew_deadline,
                lease_duration,
            } => write!(
                f,
                "renew_deadline ({renew_deadline:?}) must be shorter than lease_duration ({lease_duration:?}), or two \
                 replicas could lead"
            ),
            Self::RetryPeriod(retry_period) => write!(
                f,
                "retry_period ({retry_period:?}) must be at least 1ms, or requests would be sent without a pause"
            ),
            Self::Retries {
                renew_deadline,
                retry_period,
            } => write!(
                f,
                "renew_deadline ({renew_deadline:?}) must be longer than 1.2 times retry_period ({retry_period:?}), or \
                 one failed renewal ends the leadership"
            ),
        }
    }
}

impl core::error::Error for ElectionError {}

crate::readable_errors!(ElectionError);
