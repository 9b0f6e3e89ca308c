//! Leader election by a Lease, on given time.

use alloc::string::String;
use core::time::Duration;

use crate::time::Instant;

/// How one of several replicas becomes the leader, and for how long.
///
/// The values are client-go's. Each must be shorter than the one above it.
///
/// ```
/// use core::time::Duration;
/// use informer_core::ElectionConfig;
///
/// let config = ElectionConfig::default();
/// assert_eq!(config.lease_duration, Duration::from_secs(15));
/// assert_eq!(config.renew_deadline, Duration::from_secs(10));
/// assert_eq!(config.retry_period, Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ElectionConfig {
    /// How long others wait, after the last sign of life of a leader, until they take its place. It is written to the
    /// Lease in whole seconds, rounded up.
    pub lease_duration: Duration,
    /// How long a leader that cannot renew goes on: counted from when its last renewal was *sent*, so that it has
    /// stopped before another one starts.
    pub renew_deadline: Duration,
    /// The time between attempts, to acquire as to renew.
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

/// What stands in a Lease (`coordination.k8s.io/v1`), as far as elections go. Its times are not there: they are for
/// people, and are written by whoever sends it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LeaseRecord {
    /// `spec.holderIdentity`; empty where nobody holds it.
    pub holder: String,
    /// `spec.leaseDurationSeconds`.
    pub duration_seconds: u32,
    /// `spec.leaseTransitions`: how often the holder changed.
    pub transitions: u32,
    /// What tells one renewal from the next: `spec.renewTime` as it stands there. It is not read as a time.
    pub renewed: String,
}

/// What an [`Elector`] wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElectionStep {
    /// Read the Lease, and say what it is by [`Elector::handle_read`].
    Read,
    /// Create the Lease, and say how that went by [`Elector::handle_written`]. Its times are now.
    Create(LeaseRecord),
    /// Update the Lease where it still has this resourceVersion, and say how that went by
    /// [`Elector::handle_written`]. `spec.renewTime` is now, and so is `spec.acquireTime` where `acquire` says so.
    Update {
        /// What to write.
        record: LeaseRecord,
        /// The resourceVersion that it was read with.
        resource_version: String,
        /// Whether the holder changes by it.
        acquire: bool,
    },
    /// Nothing until then.
    Wait(Instant),
}

/// How a write of a Lease went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// It was written; the Lease has this resourceVersion now.
    Done(String),
    /// Somebody else was faster (409), or it is gone (404).
    Conflict,
    /// It is not known whether it was written.
    Failed,
}

/// Makes one replica of several the leader, as client-go's `leaderelection` does, without I/O and without a clock.
///
/// Only the local clock is believed: another's Lease has run out when it was seen unchanged for its whole duration.
/// That needs clocks that run about equally fast, and does not need clocks that agree. While the leader holds the
/// Lease, nobody else does, provided that its clock does not run slower than theirs by more than the part that
/// `renew_deadline` is shorter than `lease_duration`.
///
/// ```
/// use core::time::Duration;
/// use informer_core::{ElectionConfig, ElectionStep, Elector, Instant, Written};
///
/// let now = Instant::from_micros(0);
/// let mut elector = Elector::new("replica-1", ElectionConfig::default());
/// assert_eq!(elector.poll(now), ElectionStep::Read);
/// elector.handle_read(now, None);
/// let ElectionStep::Create(record) = elector.poll(now) else { panic!() };
/// assert_eq!(record.holder, "replica-1");
/// elector.handle_written(now, Written::Done("7".into()));
/// assert!(elector.is_leader(now));
/// assert_eq!(elector.poll(now), ElectionStep::Wait(now + Duration::from_secs(2)));
/// // It cannot renew for too long, and is the leader no more.
/// assert!(!elector.is_leader(now + Duration::from_secs(10)));
/// ```
#[derive(Clone, Debug)]
pub struct Elector {
    identity: String,
    config: ElectionConfig,
    /// What was seen last, with its version, and when it was first seen so.
    seen: Option<Seen>,
    step: Step,
    next: Instant,
    /// When the renewal was sent that holds.
    renewed: Option<Instant>,
    releasing: bool,
}

#[derive(Clone, Debug)]
struct Seen {
    record: LeaseRecord,
    resource_version: String,
    since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// It is time to try, or it will be at `next`.
    Idle,
    /// The Lease has been read, and can be written.
    Write {
        exists: bool,
    },
    /// Something was asked for at that time, and is on its way.
    Reading,
    Writing {
        sent: Instant,
        release: bool,
    },
    Released,
}

impl Elector {
    /// Makes a replica that takes part. Its identity must be its own: two with the same would both lead.
    #[must_use]
    pub fn new(identity: impl Into<String>, config: ElectionConfig) -> Self {
        Self {
            identity: identity.into(),
            config,
            seen: None,
            step: Step::Idle,
            next: Instant::from_micros(0),
            renewed: None,
            releasing: false,
        }
    }

    /// Says what to do next. While something that was asked for is on its way, it is to wait.
    pub fn poll(&mut self, now: Instant) -> ElectionStep {
        match self.step {
            Step::Idle if now < self.next && !self.releasing => ElectionStep::Wait(self.next),
            Step::Idle if self.releasing && !self.holds(now) => {
                self.step = Step::Released;
                ElectionStep::Wait(now + self.config.retry_period)
            }
            // After a write that failed the Lease has to be read first: nobody knows its version.
            Step::Idle if self.holds(now) && (self.seen.is_some() || planted!(BlindRenewal)) => {
                self.write(now, true)
            }
            Step::Idle => {
                self.step = Step::Reading;
                ElectionStep::Read
            }
            Step::Write { exists } => self.write(now, exists),
            Step::Reading | Step::Writing { .. } | Step::Released => {
                ElectionStep::Wait(now + self.config.retry_period)
            }
        }
    }

    /// Takes in what the Lease is and its resourceVersion, `None` where there is none. What could not be read is
    /// [`handle_read_failed`](Self::handle_read_failed).
    pub fn handle_read(&mut self, now: Instant, lease: Option<(LeaseRecord, String)>) {
        let Some((record, resource_version)) = lease else {
            self.seen = None;
            self.step = Step::Write { exists: false };
            return;
        };
        if record.holder != self.identity {
            self.renewed = None;
        }
        self.observe(now, record, resource_version);
        if self.is_taken(now) {
            self.rest(now);
        } else {
            self.step = Step::Write { exists: true };
        }
    }

    /// Takes note that the Lease could not be read.
    pub fn handle_read_failed(&mut self, now: Instant) {
        self.rest(now);
        if self.releasing {
            self.step = Step::Released;
        }
    }

    /// Takes in what a watch of the Lease brought, at any time.
    pub fn handle_seen(&mut self, now: Instant, record: LeaseRecord, resource_version: String) {
        let other = record.holder != self.identity;
        self.observe(now, record, resource_version);
        if other {
            self.renewed = None;
        }
    }

    /// Takes in how a write went.
    pub fn handle_written(&mut self, now: Instant, written: Written) {
        let Step::Writing { sent, release } = self.step else {
            return;
        };
        self.rest(now);
        match written {
            Written::Done(resource_version) => {
                if let Some(seen) = &mut self.seen {
                    seen.resource_version = resource_version;
                }
                if release {
                    self.renewed = None;
                    self.step = Step::Released;
                } else {
                    self.renewed = Some(if planted!(RenewedWhenAnswered) {
                        now
                    } else {
                        sent
                    });
                }
            }
            // Who holds it has to be read; that it was written all the same shows there.
            Written::Conflict | Written::Failed => {
                if release {
                    self.step = Step::Released;
                }
                self.seen = self
                    .seen
                    .take()
                    .filter(|seen| seen.record.holder != self.identity);
            }
        }
    }

    /// Tells whether this replica is the leader.
    #[must_use]
    pub fn is_leader(&self, now: Instant) -> bool {
        !self.releasing && self.step != Step::Released && self.holds(now)
    }

    /// Returns until when it is the leader if it cannot renew.
    #[must_use]
    pub fn leads_until(&self) -> Option<Instant> {
        self.renewed
            .map(|renewed| renewed + self.config.renew_deadline)
    }

    /// Returns who was seen to hold the Lease, if anyone.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        let holder = &self.seen.as_ref()?.record.holder;
        (!holder.is_empty()).then_some(holder)
    }

    /// Gives the Lease up, so that another one need not wait for it to run out: from now on this replica is not the
    /// leader, and [`poll`](Self::poll) says what to write. What it did as the leader has to be over.
    pub const fn release(&mut self) {
        self.releasing = true;
    }

    /// Tells whether it was given up, as far as that could be done.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.step == Step::Released
    }

    fn holds(&self, now: Instant) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    fn rest(&mut self, now: Instant) {
        self.step = Step::Idle;
        self.next = now + self.config.retry_period;
    }

    fn observe(&mut self, now: Instant, record: LeaseRecord, resource_version: String) {
        let since = match &self.seen {
            Some(seen) if seen.record == record && seen.resource_version == resource_version => {
                seen.since
            }
            Some(_) | None => now,
        };
        self.seen = Some(Seen {
            record,
            resource_version,
            since,
        });
    }

    /// Tells whether somebody else holds the Lease, as far as this clock can know.
    fn is_taken(&self, now: Instant) -> bool {
        self.seen.as_ref().is_some_and(|seen| {
            let duration = Duration::from_secs(seen.record.duration_seconds.into());
            !seen.record.holder.is_empty()
                && seen.record.holder != self.identity
                && now < seen.since + duration
        })
    }

    fn write(&mut self, now: Instant, exists: bool) -> ElectionStep {
        let release = self.releasing;
        self.step = Step::Writing { sent: now, release };
        let before = self.seen.as_ref().filter(|_| exists);
        let acquire = before.is_none_or(|seen| seen.record.holder != self.identity);
        let seconds = self.config.lease_duration.as_millis().div_ceil(1000);
        let record = LeaseRecord {
            holder: if release {
                String::new()
            } else {
                self.identity.clone()
            },
            duration_seconds: if release {
                1
            } else {
                u32::try_from(seconds).unwrap_or(u32::MAX)
            },
            transitions: before.map_or(0, |seen| {
                seen.record.transitions.saturating_add(acquire.into())
            }),
            renewed: String::new(),
        };
        let resource_version = before.map(|seen| seen.resource_version.clone());
        let since = now;
        match resource_version {
            Some(resource_version) => {
                self.seen = Some(Seen {
                    record: record.clone(),
                    resource_version: resource_version.clone(),
                    since,
                });
                ElectionStep::Update {
                    record,
                    resource_version,
                    acquire: acquire && !release,
                }
            }
            None => {
                self.seen = Some(Seen {
                    record: record.clone(),
                    resource_version: String::new(),
                    since,
                });
                ElectionStep::Create(record)
            }
        }
    }
}

#[cfg(test)]
mod tests;
