//! Leader election by a Lease, on given time.

use alloc::boxed::Box;
use alloc::string::String;
use core::cmp::Ordering;
use core::time::Duration;

use super::{ElectionConfig, ElectionError};
use crate::object::ResourceVersion;
use crate::reflector::RequestId;
use crate::time::Instant;

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

/// What an [`Elector`] wants done. A request has an id, which comes back with its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElectionStep {
    /// Read the Lease and call [`Elector::handle_read`].
    Read(RequestId),
    /// Create the Lease, with the current time as `spec.acquireTime` and `spec.renewTime`, and call
    /// [`Elector::handle_written`].
    Create {
        /// The request.
        id: RequestId,
        /// What to write.
        record: LeaseRecord,
    },
    /// Update the Lease if it still has this resourceVersion, and call [`Elector::handle_written`]. `spec.renewTime` is
    /// the current time, and so is `spec.acquireTime` if `acquire` is set.
    Update {
        /// The request.
        id: RequestId,
        /// What to write.
        record: LeaseRecord,
        /// The resourceVersion that it was read with.
        resource_version: String,
        /// Whether the holder changes by it.
        acquire: bool,
    },
    /// Do nothing until then.
    Wait(Instant),
}

/// How a write of a Lease went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// It was written; the Lease has this resourceVersion now.
    Done(String),
    /// The Lease has changed (409), or it was deleted (404). A leader stops leading until a read shows that it still
    /// holds the Lease.
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
/// Each request has an id. An answer to any other request than the current one changes nothing: a write that was given up
/// may still arrive, and must not count as the next one.
///
/// ```
/// use core::time::Duration;
/// use informer_core::{Instant, election::{ElectionConfig, ElectionStep, Elector, Written}};
///
/// let now = Instant::from_micros(0);
/// let mut elector = Elector::new("replica-1", ElectionConfig::default())?;
/// let ElectionStep::Read(id) = elector.poll(now) else { panic!() };
/// elector.handle_read(now, id, None);
/// let ElectionStep::Create { id, record } = elector.poll(now) else { panic!() };
/// assert_eq!(record.holder, "replica-1");
/// elector.handle_written(now, id, Written::Done("7".into()));
/// assert!(elector.is_leader(now));
/// assert_eq!(elector.poll(now), ElectionStep::Wait(now + Duration::from_secs(2)));
/// // Without a renewal it stops leading at its deadline.
/// assert!(!elector.is_leader(now + Duration::from_secs(10)));
/// # Ok::<(), informer_core::election::ElectionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Elector {
    identity: String,
    config: ElectionConfig,
    /// What was seen last, with its version, and when it was first seen so.
    seen: Option<Seen>,
    step: Step,
    next: Instant,
    /// When the last successful write was sent; `None` if this replica does not hold the Lease.
    renewed: Option<Instant>,
    /// The version that a renewal was refused at, until the next successful write. Empty if there was none.
    refused: Option<String>,
    /// A read has shown since the refusal that this replica still holds the Lease.
    is_confirmed: bool,
    releasing: bool,
    /// The last request.
    id: u32,
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
    /// Creates a replica that takes part. Its identity must be unique: two replicas with the same one would both lead.
    ///
    /// # Errors
    /// Fails if the identity is empty or the config is [invalid](ElectionConfig::validate).
    ///
    /// ```
    /// use core::time::Duration;
    /// use informer_core::election::{ElectionConfig, Elector};
    ///
    /// let mut config = ElectionConfig::default();
    /// config.lease_duration = Duration::from_secs(5);
    /// let error = Elector::new("replica-1", config).unwrap_err();
    /// assert!(error.to_string().contains("renew_deadline (10s) must be shorter than lease_duration (5s)"));
    /// ```
    pub fn new(identity: impl Into<String>, config: ElectionConfig) -> Result<Self, ElectionError> {
        let identity = identity.into();
        config.validate_for(&identity)?;
        Ok(Self {
            identity,
            config,
            seen: None,
            step: Step::Idle,
            next: Instant::from_micros(0),
            renewed: None,
            refused: None,
            is_confirmed: true,
            releasing: false,
            id: 0,
        })
    }

    /// Returns what to do next: to wait, while a request is under way.
    pub fn poll(&mut self, now: Instant) -> ElectionStep {
        match self.step {
            Step::Idle | Step::Write { .. } if self.releasing && !self.holds(now) => {
                self.step = Step::Released;
                ElectionStep::Wait(now + self.config.retry_period)
            }
            Step::Idle if now < self.next && !self.releasing => ElectionStep::Wait(self.next),
            // After a failed write the version is unknown, so the Lease has to be read first.
            Step::Idle if self.holds(now) && self.seen.is_some() => self.write(now, true),
            Step::Idle => {
                self.step = Step::Reading;
                ElectionStep::Read(self.next_id())
            }
            Step::Write { exists } => self.write(now, exists),
            Step::Reading | Step::Writing { .. } | Step::Released => {
                ElectionStep::Wait(now + self.config.retry_period)
            }
        }
    }

    /// Takes the answer to a read: the Lease and its resourceVersion, `None` if it does not exist. A failed read is
    /// [`handle_read_failed`](Self::handle_read_failed).
    pub fn handle_read(
        &mut self,
        now: Instant,
        id: RequestId,
        lease: Option<(LeaseRecord, String)>,
    ) {
        if self.step != Step::Reading || !self.is_current(id) {
            return;
        }
        let Some((record, resource_version)) = lease else {
            // Anyone may create it at once.
            self.renewed = None;
            self.seen = None;
            self.step = Step::Write { exists: false };
            return;
        };
        if record.holder != self.identity {
            self.renewed = None;
        } else if self.is_outdated(now, &resource_version) && !self.releasing {
            return self.rest(now);
        }
        self.is_confirmed = true;
        self.observe(now, record, resource_version);
        if self.is_taken(now) {
            self.rest(now);
        } else {
            self.step = Step::Write { exists: true };
        }
    }

    /// Records that a read failed or timed out.
    pub fn handle_read_failed(&mut self, now: Instant, id: RequestId) {
        if self.step != Step::Reading || !self.is_current(id) {
            return;
        }
        self.rest(now);
        if self.releasing {
            self.step = Step::Released;
        }
    }

    /// Takes the outcome of a write; one that timed out is [`Written::Failed`].
    pub fn handle_written(&mut self, now: Instant, id: RequestId, written: Written) {
        let Step::Writing { sent, release } = self.step else {
            return;
        };
        if !self.is_current(id) {
            return;
        }
        self.rest(now);
        if release {
            self.step = Step::Released;
        }
        match written {
            Written::Done(resource_version) => {
                if let Some(seen) = &mut self.seen {
                    seen.resource_version = resource_version;
                }
                self.refused = None;
                self.is_confirmed = true;
                self.renewed = Some(sent).filter(|_| !release);
            }
            // A read shows who holds it, also if the write arrived and its answer was lost.
            Written::Conflict | Written::Failed => {
                let seen = self.seen.take();
                if written == Written::Conflict && !release {
                    let version = seen.as_ref().map(|seen| seen.resource_version.clone());
                    let is_first = self.refused.replace(version.unwrap_or_default()).is_none();
                    self.is_confirmed = false;
                    // A leader reads at once, but only once: a server that refuses every write must not be flooded.
                    if is_first && self.holds(now) {
                        self.next = now;
                    }
                }
                self.seen = seen.filter(|seen| seen.record.holder != self.identity);
            }
        }
    }

    /// Returns whether this replica is the leader.
    #[must_use]
    pub fn is_leader(&self, now: Instant) -> bool {
        let leads = !self.releasing && self.step != Step::Released;
        leads && self.leads_until().is_some_and(|until| now < until)
    }

    /// Returns until when it is the leader if it cannot renew; `None` if it does not lead, or after a conflict until a read
    /// has shown that it holds the Lease.
    #[must_use]
    pub fn leads_until(&self) -> Option<Instant> {
        self.deadline().filter(|_| self.is_confirmed)
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

    fn deadline(&self) -> Option<Instant> {
        self.renewed
            .map(|renewed| renewed + self.config.renew_deadline)
    }

    /// Returns whether the Lease is this replica's as far as it knows, though a conflict may wait for its read.
    fn holds(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|until| now < until)
    }

    /// Returns whether a read shows a state from before the refusal, as a read from a cache may: it confirms nothing. This
    /// counts only until the deadline, since a restored backup lowers all versions.
    fn is_outdated(&self, now: Instant, resource_version: &str) -> bool {
        let Some(refused) = self.refused.as_ref().filter(|_| self.holds(now)) else {
            return false;
        };
        let version = ResourceVersion::<Box<str>>::new(resource_version);
        let order = version.compare(&ResourceVersion::new(refused));
        order.is_some_and(Ordering::is_le)
    }

    /// Returns whether this is the request that an answer is awaited for.
    fn is_current(&self, id: RequestId) -> bool {
        id.0 == self.id
    }

    const fn next_id(&mut self) -> RequestId {
        self.id = self.id.wrapping_add(1);
        RequestId(self.id)
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
        let (id, release) = (self.next_id(), self.releasing);
        self.step = Step::Writing { sent: now, release };
        let before = self.seen.as_ref().filter(|_| exists);
        let acquire = before.is_none_or(|seen| seen.record.holder != self.identity);
        let record = LeaseRecord {
            holder: if release {
                String::new()
            } else {
                self.identity.clone()
            },
            duration_seconds: if release {
                1
            } else {
                // Whole seconds: the config is validated.
                u32::try_from(self.config.lease_duration.as_secs()).unwrap_or(u32::MAX)
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
                    id,
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
                ElectionStep::Create { id, record }
            }
        }
    }
}

#[cfg(test)]
mod tests;
