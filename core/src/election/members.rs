//! Which replica does which key, on given time.

#[cfg(test)]
mod tests;

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;

use crate::election::{ElectionConfig, ElectionError, rendezvous};
use crate::time::Instant;

/// What one replica knows of all of them, and so which keys are its own: a state machine without I/O.
///
/// Each replica holds a Lease of its own, by an [`Elector`](crate::election::Elector) that nobody contends with, and lists the
/// Leases of all as often as it renews. Keys are spread over the live ones by [`rendezvous()`], so that few move when one
/// comes or goes. That no key is done by two at once is the promise of the Lease, and it is kept so:
/// - A replica is taken for dead when a list that was asked for `lease_duration` after its Lease was first seen so
///   shows it unchanged. It has stopped before: without a renewal it has no keys after `renew_deadline`.
/// - A replica that is new has no keys until `lease_duration` after its Lease was written. By then every other has seen
///   it, or has stopped: without a list that was begun within `renew_deadline` it has no keys either.
/// - Who had no keys for a moment is new again.
///
/// So clocks need not agree, but they have to run alike, as for any Lease: none may run faster than another by the part
/// by which `lease_duration` is longer than `renew_deadline`. What a replica has begun with a key it has to end at once
/// when the key is its own no more. The lists have to be of the newest version.
///
/// Names are used once: a replica that starts again takes another one, or it might be taken for what it was.
#[derive(Clone, Debug)]
pub struct Members {
    identity: String,
    config: ElectionConfig,
    others: BTreeMap<String, Seen>,
    /// When the last list was begun that came to an end.
    listed: Option<Instant>,
    /// Until when the own Lease is held for sure.
    leads: Option<Instant>,
    /// Since when it has had a Lease and a list, without a gap.
    since: Option<Instant>,
    /// It gives its Lease up, and takes no part any more.
    resigned: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    renewed: String,
    /// When it was first seen like that.
    since: Instant,
    is_dead: bool,
}

impl Members {
    /// Creates a replica that knows of no other.
    ///
    /// # Errors
    /// Fails if the identity is empty or the config is [invalid](ElectionConfig::validate).
    ///
    /// ```
    /// use core::time::Duration;
    /// use informer_core::{Instant, election::{ElectionConfig, Members}};
    ///
    /// let mut members = Members::new("replica-1", ElectionConfig::default())?;
    /// let now = Instant::from_micros(0);
    /// members.handle_lease(now, Some(now + Duration::from_secs(10)));
    /// members.handle_list(now, now, []);
    /// assert!(!members.owns(now, "prod/web"), "another one may not have heard of it yet");
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
            listed: None,
            leads: None,
            since: None,
            resigned: false,
        })
    }

    /// Returns the own name.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Says until when the own Lease is held for sure; `None` where it is not.
    pub fn handle_lease(&mut self, now: Instant, until: Option<Instant>) {
        self.lapse(now);
        self.leads = until.filter(|until| *until > now);
        self.begin(now);
    }

    /// Takes a list of all Leases: who holds each, and the text of its last renewal. `began` is when the list was asked
    /// for. One whose holder is empty was given up. Answers may overtake each other: what an earlier question brings later
    /// is no news.
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
        for (holder, renewed) in leases {
            if holder.is_empty() || holder == self.identity {
                continue;
            }
            let seen = before.remove(holder);
            let seen = match seen.filter(|seen| seen.renewed == renewed) {
                Some(seen) => Seen {
                    // A holder may have renewed since the list was requested. So the request, not its answer, has to
                    // be late enough: a holder that renews after that has lost its keys and is new.
                    is_dead: began >= seen.since + self.config.lease_duration,
                    ..seen
                },
                None => Seen {
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

    /// Gives all keys up for good: before the own Lease is given up.
    ///
    /// ```
    /// # use informer_core::{Instant, election::{ElectionConfig, Members}};
    /// # let mut members = Members::new("replica-1", ElectionConfig::default())?;
    /// members.resign();
    /// assert!(!members.is_active(Instant::from_micros(0)));
    /// # Ok::<(), informer_core::election::ElectionError>(())
    /// ```
    pub const fn resign(&mut self) {
        self.resigned = true;
    }

    /// Tells whether this replica may have keys at all.
    #[must_use]
    pub fn is_active(&self, now: Instant) -> bool {
        let waited = |since: Instant| now >= since + self.config.lease_duration;
        !self.resigned && self.has_authority(now) && self.since.is_some_and(waited)
    }

    /// Tells whether a key is this replica's own. Where it is no replica's for a while it will be one's.
    #[must_use]
    pub fn owns(&self, now: Instant, key: &str) -> bool {
        self.is_active(now) && rendezvous(key, self.live()) == Some(self.identity())
    }

    /// Returns the names of the live replicas, with the own one.
    pub fn live(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter();
        others
            .filter(|(_, seen)| !seen.is_dead)
            .map(|(name, _)| name.as_str())
            .chain([self.identity()])
    }

    /// Returns when time alone changes whose a key is, if it will.
    #[must_use]
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let active = self.since.map(|since| since + self.config.lease_duration);
        let times = active.into_iter().chain(self.authority());
        times.filter(|time| *time > now).min()
    }

    /// Until when it has both a Lease and a list that is new enough.
    fn authority(&self) -> Option<Instant> {
        let listed = self.listed? + self.config.renew_deadline;
        Some(self.leads?.min(listed))
    }

    fn has_authority(&self, now: Instant) -> bool {
        self.authority().is_some_and(|until| now < until)
    }

    /// Who had no authority for a moment is new again.
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
