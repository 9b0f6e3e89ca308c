//! Leader election with a Lease, as a state machine.

use alloc::boxed::Box;
use alloc::string::String;
use core::cmp::Ordering;
use core::time::Duration;

use super::{ElectionConfig, ElectionError};
use crate::object::ResourceVersion;
use crate::reflector::RequestId;
use crate::time::Instant;

/// The fields of a Lease (`coordination.k8s.io/v1`) that an election uses. Its times are not included: they are for
/// people, and the client sets them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct LeaseRecord {
    /// `spec.holderIdentity`; empty if the Lease has no holder.
    pub holder: String,
    /// `spec.leaseDurationSeconds`.
    pub duration_seconds: u32,
    /// `spec.leaseTransitions`: how often the holder has changed.
    pub transitions: u32,
    /// The text of `spec.renewTime`, which distinguishes one renewal from the next. It is not parsed as a time. If it is
    /// empty, an [`Elector`] takes every change of the resourceVersion for a renewal.
    pub renewed: String,
}

/// The next step of an [`Elector`]. The id of a request must be passed with its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElectionStep {
    /// Read the Lease and call [`Elector::handle_read`].
    Read(RequestId),
    /// Create the Lease, with the current time as `spec.acquireTime` and `spec.renewTime`, and call
    /// [`Elector::handle_written`].
    Create {
        /// The id of the request.
        id: RequestId,
        /// The content to write.
        record: LeaseRecord,
    },
    /// Update the Lease if it still has this resourceVersion, and call [`Elector::handle_written`]. `spec.renewTime` is
    /// the current time, and so is `spec.acquireTime` if `acquire` is set.
    Update {
        /// The id of the request.
        id: RequestId,
        /// The content to write.
        record: LeaseRecord,
        /// The resourceVersion of the last read.
        resource_version: String,
        /// Whether the write changes the holder.
        acquire: bool,
    },
    /// Wait until this time.
    Wait(Instant),
}

/// The result of a write of a Lease.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Written {
    /// It was written, and the Lease now has this resourceVersion.
    Done(String),
    /// The Lease has changed (409), or it was deleted (404). A leader stops leading until a read shows that it still
    /// holds the Lease.
    Conflict,
    /// It is not known whether it was written.
    Failed,
}

/// Elects one of several replicas as the leader, as client-go's `leaderelection` does, without I/O and without a clock.
///
/// Only the local clock is used: another replica's Lease has expired when its record was observed unchanged for its
/// whole duration. The clocks need not agree. Only one replica leads at a time, provided that clock rates do not differ by
/// more than `lease_duration / renew_deadline`.
///
/// Each request has an id. Results of earlier requests are ignored: an abandoned write may still arrive, and must not
/// count as the next one.
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
    /// The last observed Lease with its version, and the time since which it has been unchanged.
    seen: Option<SeenLease>,
    step: Step,
    next: Instant,
    /// The time at which the last successful write was sent; `None` if this replica does not hold the Lease.
    renewed: Option<Instant>,
    /// The version of a rejected renewal, until the next successful write. It is empty if there was none.
    refused: Option<String>,
    /// Whether a read after the rejection has shown that this replica still holds the Lease.
    is_confirmed: bool,
    releasing: bool,
    /// The last request.
    id: u32,
}

#[derive(Clone, Debug)]
struct SeenLease {
    record: LeaseRecord,
    resource_version: String,
    since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// An attempt is due now or at `next`.
    Idle,
    /// The Lease has been read, and can be written.
    Write {
        exists: bool,
    },
    /// A request is in progress since this time.
    Reading,
    Writing {
        sent: Instant,
        release: bool,
    },
    Released,
}

impl Elector {
    /// Creates the elector of a replica. Its identity must be unique: two replicas with the same identity would both
    /// lead.
    ///
    /// # Errors
    /// Fails if the identity is empty or the config is [invalid](ElectionConfig).
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

    /// Returns the next step. It is to wait while a request is in progress.
    pub fn poll(&mut self, now: Instant) -> ElectionStep {
        match self.step {
            Step::Idle | Step::Write { .. } if self.releasing && !self.holds(now) => {
                self.step = Step::Released;
                ElectionStep::Wait(now + self.config.retry_period)
            }
            Step::Idle if now < self.next && !self.releasing => ElectionStep::Wait(self.next),
            // After a failed write the version is unknown, so the Lease must be read first.
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

    /// Handles the result of a read: the Lease and its resourceVersion, or `None` if it does not exist. For a failed
    /// read call [`handle_read_failed`](Self::handle_read_failed).
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
            // Any replica may create it now.
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

    /// Handles a read that failed or timed out.
    pub fn handle_read_failed(&mut self, now: Instant, id: RequestId) {
        if self.step != Step::Reading || !self.is_current(id) {
            return;
        }
        self.rest(now);
        if self.releasing {
            self.step = Step::Released;
        }
    }

    /// Handles the result of a write. A write that timed out is [`Written::Failed`].
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
            // A read shows the holder, even if the write arrived and its response was lost.
            Written::Conflict | Written::Failed => {
                let seen = self.seen.take();
                if written == Written::Conflict && !release {
                    let version = seen.as_ref().map(|seen| seen.resource_version.clone());
                    let is_first = self.refused.replace(version.unwrap_or_default()).is_none();
                    self.is_confirmed = false;
                    // A leader reads at once, but only once: a server that rejects every write must not be flooded.
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

    /// Returns the time until which it is the leader without a renewal. `None` if it does not lead, or after a conflict
    /// until a read has shown that it holds the Lease.
    #[must_use]
    pub fn leads_until(&self) -> Option<Instant> {
        self.deadline().filter(|_| self.is_confirmed)
    }

    /// Returns the identity of this replica.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the last observed holder of the Lease, if any.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        let holder = &self.seen.as_ref()?.record.holder;
        (!holder.is_empty()).then_some(holder)
    }

    /// Releases the Lease, so that another replica need not wait for it to expire. This replica stops leading
    /// immediately, and [`poll`](Self::poll) returns the write. The work of the leader must have ended before.
    pub const fn release(&mut self) {
        self.releasing = true;
    }

    /// Returns whether the Lease was released, as far as possible.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.step == Step::Released
    }

    fn deadline(&self) -> Option<Instant> {
        self.renewed
            .map(|renewed| renewed + self.config.renew_deadline)
    }

    /// Returns whether this replica holds the Lease as far as it knows, although a conflict may still wait for its
    /// read.
    fn holds(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|until| now < until)
    }

    /// Returns whether a read shows a state from before the rejection, for example a read from a cache. It confirms
    /// nothing. This applies only until the deadline, since a restored backup lowers all versions.
    fn is_outdated(&self, now: Instant, resource_version: &str) -> bool {
        let Some(refused) = self.refused.as_ref().filter(|_| self.holds(now)) else {
            return false;
        };
        let version = ResourceVersion::<Box<str>>::new(resource_version);
        let order = version.compare(&ResourceVersion::new(refused));
        order.is_some_and(Ordering::is_le)
    }

    /// Returns whether this is the id of the request in progress.
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

    /// Records a Lease that was read. Only its holder counts as alive if it changes: other clients may write labels and
    /// annotations of the Lease of a dead one.
    fn observe(&mut self, now: Instant, record: LeaseRecord, resource_version: String) {
        let is_unchanged = |seen: &SeenLease| {
            seen.record == record
                // A client that does not pass on the time of the renewal leaves only the version.
                && (!record.renewed.is_empty() || seen.resource_version == resource_version)
        };
        let since = match &self.seen {
            Some(seen) if is_unchanged(seen) => seen.since,
            Some(_) | None => now,
        };
        self.seen = Some(SeenLease {
            record,
            resource_version,
            since,
        });
    }

    /// Returns whether another replica holds the Lease, judged by this replica's clock.
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
                // The config is validated, so this is a whole number.
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
                self.seen = Some(SeenLease {
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
                self.seen = Some(SeenLease {
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
