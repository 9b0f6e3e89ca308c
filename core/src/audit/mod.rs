//! Compares what a cache holds with what the server lists, and finds what differs for good.

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::time::Duration;

use crate::decode::RawObject;
use crate::object::{ResourceVersion, Uid};
use crate::report::DriftKind;
use crate::resource::Fnv;
use crate::storage::Text;
use crate::time::{Instant, Rng};

/// How often a cache is compared with the server, and how patiently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AuditConfig {
    /// How long drift lasts at most, but for the time that lists take: the next audit begins earlier than that, at a
    /// random time, so that many informers do not list at once.
    pub period: Duration,
    /// How long the watch may lag behind a list before what differs counts all the same. An idle watch hears of
    /// versions once in a minute. The default is 90 seconds.
    pub patience: Duration,
    /// How long a list may take before this audit is given up. The default is 10 minutes.
    pub list_limit: Duration,
}

impl AuditConfig {
    /// Makes a configuration with this period, and the rest as it is when left out.
    ///
    /// ```
    /// use core::time::Duration;
    /// let hourly = informer_core::audit::AuditConfig::new(Duration::from_secs(3600));
    /// ```
    #[must_use]
    pub const fn new(period: Duration) -> Self {
        Self {
            period,
            patience: Duration::from_secs(90),
            list_limit: Duration::from_secs(600),
        }
    }
}

/// An audit of one source of a cache: a state machine without I/O.
///
/// A watch is no proof: a server, a proxy or a bug of either can lose an event, and nothing in list-watch ever notices.
/// So now and then all objects are listed at the newest version, of which no more than key, uid and resourceVersion is
/// looked at, and compared with the cache. What differs has to differ in the same way in a second list, which begins
/// when the watch has reached the version of the first one: what merely lags is never taken for drift. A list counts
/// when it is complete, and only then.
///
/// The driver of it does the following: it [polls](Self::poll); for [`AuditStep::List`] it runs a reflector that
/// [lists once](crate::Reflector::list_once), says [`begin`](Self::begin), [`listed`](Self::listed) and
/// [`complete`](Self::complete) as that says it, and [`failed`](Self::failed) where it came to nothing; for
/// [`AuditStep::Compare`] it hands in the cache. A [`Verdict::Drift`] asks for a
/// [repair](crate::Reflector::repair) of the reflector that feeds the cache: a list of the newest version, from which
/// readers and handlers get what they missed.
///
/// It holds 8 bytes for each object while it lists, and the keys of the first 1000 that differ.
#[derive(Debug)]
pub struct Audit<X> {
    config: AuditConfig,
    rng: Rng,
    state: State<X>,
    /// Hashes of the keys that the list has. Of two keys with one hash, which nobody will see, one is not looked at.
    seen: Vec<u64>,
    /// What the list has and the cache had not when it came.
    suspects: Vec<Difference<X>>,
    /// What differed after the first list.
    doubts: Vec<Difference<X>>,
    /// What differed in both.
    drift: Vec<Difference<X>>,
    /// What a repair was asked for already, by hash. Another one would not help.
    asked: Vec<u64>,
}

#[derive(Debug)]
enum State<X> {
    /// Until then nothing is done; `None` before the first poll.
    Idle(Option<Instant>),
    /// A list is wanted, or under way.
    Listing { second: bool, begun: bool },
    /// The list is complete.
    Listed {
        second: bool,
        version: ResourceVersion<X>,
        /// Until when the watch may take to reach its version.
        until: Instant,
        /// The cache was looked at before the watch had reached it, and something differed.
        lags: bool,
    },
}

/// One key that is not the same on both sides.
#[derive(Debug)]
struct Difference<X> {
    key: String,
    listed: Option<Pair<X>>,
    cached: Option<Pair<X>>,
}

type Pair<X> = (Uid<X>, ResourceVersion<X>);

/// So many differences are kept.
const MOST: usize = 1000;

/// What an audit wants next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuditStep {
    /// Nothing before then.
    Wait(Instant),
    /// Nothing before then, or before the version that the watch has reached moves on.
    Behind(Instant),
    /// A list of all objects at the newest version.
    List,
    /// A look at the cache.
    Compare,
}

/// What came of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing differs.
    Clean,
    /// Something differs, which may be in flight: poll again.
    Doubt,
    /// So many objects differ for good. [`Audit::drift`] says which.
    Drift {
        /// How many.
        count: usize,
        /// Whether a repair is wanted: not where one was wanted for all of them before and has changed nothing, as it
        /// is with objects whose state of that version the decoder refuses.
        repair: bool,
    },
}

/// What the cache has of one object.
#[derive(Clone, Copy, Debug)]
pub struct AuditEntry<'a, X> {
    /// The key.
    pub key: &'a str,
    /// The uid.
    pub uid: &'a Uid<X>,
    /// The resourceVersion.
    pub version: &'a ResourceVersion<X>,
    /// Whether a newer state of it could not be used. It is never the same as what the server has then, and it is gone
    /// where the server does not list it.
    pub is_stale: bool,
}

impl<X: Text + PartialEq> Audit<X> {
    /// Makes an audit that is due after its first period.
    ///
    /// ```
    /// use core::time::Duration;
    /// use informer_core::{Instant, ResourceVersion, audit::{Audit, AuditConfig, AuditStep}};
    ///
    /// let mut audit = Audit::<Box<str>>::new(AuditConfig::new(Duration::from_secs(3600)), 1);
    /// let now = Instant::from_micros(0);
    /// let AuditStep::Wait(due) = audit.poll(now, &ResourceVersion::default()) else { panic!() };
    /// assert!(due <= now + Duration::from_secs(3600));
    /// assert_eq!(audit.poll(due, &ResourceVersion::default()), AuditStep::List);
    /// ```
    #[must_use]
    pub const fn new(config: AuditConfig, seed: u64) -> Self {
        Self {
            config,
            rng: Rng::new(seed),
            state: State::Idle(None),
            seen: Vec::new(),
            suspects: Vec::new(),
            doubts: Vec::new(),
            drift: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> &AuditConfig {
        &self.config
    }

    /// Says what is wanted next. `reached` is the version up to which the cache shows everything.
    pub fn poll(&mut self, now: Instant, reached: &ResourceVersion<X>) -> AuditStep {
        match &self.state {
            State::Idle(None) => AuditStep::Wait(self.rest(now)),
            State::Idle(Some(due)) if now < *due => AuditStep::Wait(*due),
            State::Idle(Some(_)) => {
                self.state = State::Listing {
                    second: false,
                    begun: false,
                };
                AuditStep::List
            }
            State::Listing { .. } => AuditStep::List,
            State::Listed {
                version,
                until,
                lags: true,
                ..
            } if now < *until && !is_at(reached, version) => AuditStep::Behind(*until),
            State::Listed { .. } => AuditStep::Compare,
        }
    }

    /// A list begins, or begins again: what came before does not count.
    pub fn begin(&mut self) {
        self.seen.clear();
        self.suspects.clear();
        self.drift.clear();
        if let State::Listing { begun, .. } = &mut self.state {
            *begun = true;
        }
    }

    /// The list has an object. `cached` is what the cache has of its key now.
    pub fn listed(&mut self, key: &str, object: &RawObject<'_>, cached: Option<AuditEntry<'_, X>>) {
        let uid = Uid::from_json(object.uid());
        let version = ResourceVersion::from_json(object.resource_version());
        self.seen.push(hash(key));
        if cached.is_some_and(|cached| is_same(&uid, &version, &cached)) {
            return;
        }
        if self.suspects.len() < MOST {
            self.suspects.push(Difference {
                key: key.into(),
                listed: Some((uid, version)),
                cached: None,
            });
        }
    }

    /// The list is complete, all pages of it, as of a version.
    pub fn complete(&mut self, now: Instant, version: &ResourceVersion<X>)
    where
        X: Clone,
    {
        let State::Listing {
            second,
            begun: true,
        } = self.state
        else {
            return;
        };
        self.seen.sort_unstable();
        self.seen.dedup();
        self.suspects.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        self.state = State::Listed {
            second,
            version: version.clone(),
            until: now + self.config.patience,
            lags: false,
        };
    }

    /// The list came to nothing: this audit is over, and says nothing of the cache.
    pub fn failed(&mut self, now: Instant) {
        self.rest(now);
    }

    /// Compares the list with all that the cache has of the source. `reached` is the version up to which the cache showed
    /// everything before it was looked at.
    pub fn compare<'e>(
        &mut self,
        now: Instant,
        reached: &ResourceVersion<X>,
        entries: impl IntoIterator<Item = AuditEntry<'e, X>>,
    ) -> Verdict
    where
        X: Clone + 'e,
    {
        let State::Listed {
            second,
            version,
            until,
            lags,
        } = &mut self.state
        else {
            return Verdict::Clean;
        };
        let found = differences(&self.seen, &self.suspects, version, entries);
        if found.is_empty() {
            self.asked.clear();
            self.rest(now);
            return Verdict::Clean;
        }
        if *second {
            // The same, on both sides, as after the first list.
            let doubts = core::mem::take(&mut self.doubts);
            let mut drift = found;
            drift.retain(|found| doubts.iter().any(|doubt| doubt.is(found)));
            let count = drift.len();
            self.rest(now);
            if count == 0 {
                return Verdict::Clean;
            }
            let hashes: Vec<u64> = drift.iter().map(Difference::hash).collect();
            let repair = hashes.iter().any(|hash| !self.asked.contains(hash));
            self.drift = drift;
            self.asked = hashes;
            return Verdict::Drift { count, repair };
        }
        if now < *until && !is_at(reached, version) {
            *lags = true;
            return Verdict::Doubt;
        }
        self.doubts = found;
        self.state = State::Listing {
            second: true,
            begun: false,
        };
        Verdict::Doubt
    }

    /// Returns which keys differed at the last [`Verdict::Drift`], and how, until the next list begins.
    pub fn drift(&self) -> impl Iterator<Item = (&str, DriftKind)> {
        self.drift
            .iter()
            .map(|difference| (difference.key.as_str(), difference.kind()))
    }

    /// Does nothing until the next period is over, and keeps no memory.
    fn rest(&mut self, now: Instant) -> Instant {
        // What is found is to be mended within the period, too.
        let period = self.config.period;
        let most = period - self.config.patience.min(period / 4);
        let due = now + self.rng.between(most / 5 * 4, most);
        self.state = State::Idle(Some(due));
        self.seen = Vec::new();
        self.suspects = Vec::new();
        self.doubts = Vec::new();
        self.drift = Vec::new();
        due
    }
}

impl<X: Text + PartialEq> Difference<X> {
    fn is(&self, other: &Self) -> bool {
        self.key == other.key && self.listed == other.listed && self.cached == other.cached
    }

    const fn kind(&self) -> DriftKind {
        match (&self.listed, &self.cached) {
            (Some(_), None) => DriftKind::Missing,
            (None, _) => DriftKind::Gone,
            (Some(_), Some(_)) => DriftKind::Other,
        }
    }

    fn hash(&self) -> u64 {
        use core::fmt::Write as _;
        let mut hash = Fnv::new();
        hash.add(&self.key);
        for side in [&self.listed, &self.cached] {
            hash.add("\0");
            if let Some((uid, version)) = side {
                // It cannot fail: the hash takes everything.
                let _ = write!(hash, "{uid}\0{version}");
            }
        }
        hash.value()
    }
}

/// What is not the same in a list and in the cache.
fn differences<'e, X: Text + PartialEq + Clone + 'e>(
    seen: &[u64],
    suspects: &[Difference<X>],
    version: &ResourceVersion<X>,
    entries: impl IntoIterator<Item = AuditEntry<'e, X>>,
) -> Vec<Difference<X>> {
    let mut found = Vec::new();
    let mut solved = alloc::vec![false; suspects.len()];
    for entry in entries {
        let suspect = suspects.binary_search_by(|suspect| suspect.key.as_str().cmp(entry.key));
        let listed = match suspect {
            Ok(number) => {
                solved[number] = true;
                let Some((uid, version)) = &suspects[number].listed else {
                    continue;
                };
                if is_same(uid, version, &entry) {
                    continue;
                }
                Some((uid.clone(), version.clone()))
            }
            // It was the same when it was listed, or is one of those that are too many.
            Err(_) if seen.binary_search(&hash(entry.key)).is_ok() => continue,
            Err(_) => None,
        };
        // What is newer than the list the list cannot judge.
        if entry.version.compare(version) != Some(Ordering::Greater) && found.len() < MOST {
            found.push(Difference {
                key: entry.key.into(),
                listed,
                cached: Some((entry.uid.clone(), entry.version.clone())),
            });
        }
    }
    for (suspect, _) in suspects.iter().zip(&solved).filter(|(_, solved)| !**solved) {
        if found.len() < MOST {
            found.push(Difference {
                key: suspect.key.clone(),
                listed: suspect.listed.clone(),
                cached: None,
            });
        }
    }
    found
}

fn is_same<X: Text + PartialEq>(
    uid: &Uid<X>,
    version: &ResourceVersion<X>,
    cached: &AuditEntry<'_, X>,
) -> bool {
    let another = uid.is_known() && cached.uid.is_known() && uid != cached.uid;
    !cached.is_stale && !another && version == cached.version
}

fn is_at<X: Text>(reached: &ResourceVersion<X>, version: &ResourceVersion<X>) -> bool {
    reached.compare(version).is_some_and(Ordering::is_ge)
}

fn hash(key: &str) -> u64 {
    let mut hash = Fnv::new();
    hash.add(key);
    hash.value()
}
