//! Assignment of keys to replicas, as a state machine.

#[cfg(test)]
mod tests;

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use crate::election::{ElectionConfig, ElectionError, rendezvous};
use crate::time::Instant;

/// How long a Lease has been unchanged when it is removed, in lease durations.
const GONE_AFTER: u32 = 4;

/// The state of one of several replicas that share keys, which determines its own keys. It is a state machine without
/// I/O.
///
/// Each replica holds a Lease through an [`Elector`](crate::election::Elector) without competitors, and lists the
/// Leases of all replicas as often as it renews. [`rendezvous()`] distributes the keys among the live replicas, so that
/// few keys move when a replica comes or goes. The following rules guarantee that no key belongs to two replicas at
/// once:
/// - A replica counts as dead if a list shows its Lease unchanged, and the list was requested at least `lease_duration`
///   after the Lease was first observed in that state. The replica has stopped before that: without a renewal it has no
///   keys after `renew_deadline`.
/// - A new replica has no keys until `lease_duration` after its Lease was written. By then every other replica has
///   observed it or has stopped, since a replica without a list requested within `renew_deadline` has no keys either.
/// - A replica that had no keys for a moment counts as new again.
///
/// The clocks need not agree, but clock rates must not differ by more than `lease_duration / renew_deadline`, as for
/// any Lease. A replica must stop its work on a key as soon as the key no longer belongs to it. The lists must be read
/// at the newest version.
///
/// A name must be used only once: a replica that restarts takes a new name. Otherwise it could be mistaken for its
/// predecessor.
#[derive(Clone, Debug)]
pub struct Members {
    identity: String,
    config: ElectionConfig,
    others: BTreeMap<String, SeenMember>,
    /// The released Leases by the text of their last write, and the time since which they have been observed.
    released: BTreeMap<String, Instant>,
    /// The time at which the last completed list was requested.
    listed: Option<Instant>,
    /// The time until which this replica certainly holds its Lease.
    leads: Option<Instant>,
    /// The time since which it has continuously had a Lease and a list.
    since: Option<Instant>,
    /// Whether it has resigned.
    resigned: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct SeenMember {
    renewed: String,
    /// The time since which it has been unchanged.
    since: Instant,
    is_dead: bool,
}

impl Members {
    /// Creates a replica that knows no others.
    ///
    /// # Errors
    /// Fails if the identity is empty or the config is [invalid](ElectionConfig).
    ///
    /// ```
    /// use core::time::Duration;
    /// use informer_core::{Instant, election::{ElectionConfig, Members}};
    ///
    /// let mut members = Members::new("replica-1", ElectionConfig::default())?;
    /// let now = Instant::from_micros(0);
    /// members.handle_lease(now, Some(now + Duration::from_secs(10)));
    /// members.handle_list(now, now, []);
    /// assert!(!members.owns(now, "prod/web"), "another one may not know of it yet");
    ///
    /// let later = now + Duration::from_secs(15);
    /// members.handle_lease(later, Some(later + Duration::from_secs(10)));
    /// # Ok::<(), informer_core::election::ElectionError>(())
    /// ```
    pub fn new(identity: impl Into<String>, config: ElectionConfig) -> Result<Self, ElectionError> {
        let identity = identity.into();
        config.validate_for(&identity)?;
        Ok(Self {
            identity,
            config,
            others: BTreeMap::new(),
            released: BTreeMap::new(),
            listed: None,
            leads: None,
            since: None,
            resigned: false,
        })
    }

    /// Sets the time until which this replica certainly holds its Lease; `None` if it does not hold it.
    pub fn handle_lease(&mut self, now: Instant, until: Option<Instant>) {
        self.lapse(now);
        self.leads = until.filter(|until| *until > now);
        self.begin(now);
    }

    /// Handles a list of all Leases: the holder of each, and the text of its last renewal. `began` is the time at which
    /// the list was requested. A Lease with an empty holder was released. Lists that arrive out of order are ignored.
    pub fn handle_list<'a>(
        &mut self,
        began: Instant,
        now: Instant,
        leases: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        self.lapse(now);
        if self.listed.is_some_and(|listed| began < listed) {
            return;
        }
        let mut before = core::mem::take(&mut self.others);
        let released = core::mem::take(&mut self.released);
        for (holder, renewed) in leases {
            if holder.is_empty() {
                let since = released.get(renewed).copied().unwrap_or(now);
                self.released.insert(renewed.to_owned(), since);
                continue;
            }
            if holder == self.identity {
                continue;
            }
            let seen = before.remove(holder);
            let seen = match seen.filter(|seen| seen.renewed == renewed) {
                Some(seen) => SeenMember {
                    // A holder may have renewed after the list was requested. So the request, not its response, must be
                    // late enough: a holder that renews after the request has lost its keys and counts as new.
                    is_dead: began >= seen.since + self.config.lease_duration,
                    ..seen
                },
                None => SeenMember {
                    renewed: renewed.to_owned(),
                    since: now,
                    is_dead: false,
                },
            };
            self.others.insert(holder.to_owned(), seen);
        }
        self.listed = Some(began);
        self.begin(now);
    }

    /// Returns the Leases of other replicas that this one should delete: the holder of each, and the text of its last
    /// renewal. The last list shows them unchanged for four lease durations, or released for as long. Each Lease
    /// is returned by one of the active replicas.
    ///
    /// The deletion must be conditional on the uid and the resourceVersion in the list. Then it is safe: if the holder
    /// has been frozen and continues, it either renewed before, or finds that it holds no Lease and counts as new.
    pub fn gone(&self, now: Instant) -> impl Iterator<Item = (&str, &str)> {
        let dead = self
            .others
            .iter()
            .map(|(holder, seen)| (holder.as_str(), seen.renewed.as_str(), seen.since));
        let released = self.released.iter();
        let released = released.map(|(renewed, since)| ("", renewed.as_str(), *since));
        let listed = self.listed.filter(|_| self.is_active(now));
        dead.chain(released)
            .filter(move |(_, _, since)| {
                listed.is_some_and(|began| began >= *since + self.remains())
            })
            .filter(|(_, renewed, _)| rendezvous(renewed, self.live()) == Some(&self.identity))
            .map(|(holder, renewed, _)| (holder, renewed))
    }

    /// How long a Lease remains without a renewal.
    const fn remains(&self) -> Duration {
        self.config.lease_duration.saturating_mul(GONE_AFTER)
    }

    /// Gives up all keys permanently. Call it before the Lease is released.
    pub const fn resign(&mut self) {
        self.resigned = true;
    }

    /// Returns whether this replica can own keys at all.
    #[must_use]
    pub fn is_active(&self, now: Instant) -> bool {
        let waited = |since: Instant| now >= since + self.config.lease_duration;
        !self.resigned && self.has_authority(now) && self.since.is_some_and(waited)
    }

    /// Returns whether a key belongs to this replica. A key may belong to no replica for a while.
    #[must_use]
    pub fn owns(&self, now: Instant, key: &str) -> bool {
        self.is_active(now) && rendezvous(key, self.live()) == Some(self.identity.as_str())
    }

    /// Returns the names of the live replicas, including this one.
    pub fn live(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter();
        others
            .filter(|(_, seen)| !seen.is_dead)
            .map(|(name, _)| name.as_str())
            .chain([self.identity.as_str()])
    }

    /// Returns the time at which the owners of keys change without further input, if they do.
    #[must_use]
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let active = self.since.map(|since| since + self.config.lease_duration);
        let times = active.into_iter().chain(self.authority());
        times.filter(|time| *time > now).min()
    }

    /// The time until which it has both a Lease and a recent list.
    fn authority(&self) -> Option<Instant> {
        let listed = self.listed? + self.config.renew_deadline;
        Some(self.leads?.min(listed))
    }

    fn has_authority(&self, now: Instant) -> bool {
        self.authority().is_some_and(|until| now < until)
    }

    /// A replica that had no authority for a moment counts as new again.
    fn lapse(&mut self, now: Instant) {
        if !self.has_authority(now) {
            self.since = None;
        }
    }

    fn begin(&mut self, now: Instant) {
        if self.has_authority(now) {
            self.since.get_or_insert(now);
        } else {
            self.since = None;
        }
    }
}
