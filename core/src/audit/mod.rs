//! Audits: compares a cache with the server's lists, and finds permanent differences.

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt::{self, Write as _};
use core::time::Duration;

use crate::decode::RawObject;
use crate::hash::Fnv;
use crate::object::{ResourceVersion, Uid};
use crate::report::DriftKind;
use crate::storage::Text;
use crate::time::{Instant, Rng};

/// The configuration of audits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AuditConfig {
    /// The longest time that drift may last, apart from the time that lists take. The next audit begins earlier than
    /// that, at a random time, so that many informers do not list at once. The minimum is one second.
    pub period: Duration,
    /// How long the watch may lag behind a list before differences count anyway. An idle watch receives a version about
    /// once a minute. The default is 90 seconds.
    pub patience: Duration,
    /// The longest time that a list may take before the audit is abandoned. The default is 10 minutes.
    pub list_limit: Duration,
}

impl AuditConfig {
    /// Creates a configuration with this period and the defaults of the other fields.
    #[must_use]
    pub const fn new(period: Duration) -> Self {
        Self {
            period,
            patience: Duration::from_secs(90),
            list_limit: Duration::from_secs(600),
        }
    }
}

/// An audit of one source of a cache, as a state machine without I/O.
///
/// A watch can miss events: a server or a proxy may lose one because of a bug, and list-watch never notices. An audit
/// therefore lists all objects at the newest version and compares key, uid and resourceVersion with the cache.
/// Differences count only if a second list has the same ones. It begins after the watch has reached the version of the
/// first list, so that a lag is never taken for drift. Incomplete lists do not count.
///
/// The driver of an audit [polls](Self::poll) it. For [`AuditStep::List`] it runs a reflector that [lists
/// once](crate::Reflector::list_once), and calls [`begin`](Self::begin), [`listed`](Self::listed) and
/// [`complete`](Self::complete), or [`failed`](Self::failed) if the list fails. For [`AuditStep::Compare`] it passes
/// the content of the cache. After [`AuditVerdict::Drift`] it requests a [repair](crate::Reflector::repair) from the
/// reflector that feeds the cache: a relist at the newest version, which updates readers and handlers.
///
/// An audit takes 8 bytes per object while it lists, and stores the keys of the first 1000 differences.
#[derive(Debug)]
pub struct Audit<X> {
    config: AuditConfig,
    rng: Rng,
    state: Progress<X>,
    /// Hashes of the keys in the list. If two keys have the same hash, which is very unlikely, one of them is not
    /// checked.
    seen: Vec<u64>,
    /// Objects that were in the list but not in the cache when they were listed.
    suspects: Vec<Difference<X>>,
    /// The differences after the first list.
    doubts: Vec<Difference<X>>,
    /// The differences after both lists.
    drift: Vec<Difference<X>>,
    /// Hashes of the differences for which a repair was requested already. Another repair would not help.
    asked: Vec<u64>,
}

#[derive(Debug)]
enum Progress<X> {
    /// The time of the next audit; `None` before the first poll.
    Idle(Option<Instant>),
    /// A list is wanted or in progress.
    Listing { second: bool, begun: bool },
    /// The list is complete.
    Listed {
        second: bool,
        version: ResourceVersion<X>,
        /// The latest time for the watch to reach the list's version.
        until: Instant,
        /// Whether a comparison before the watch had reached that version found differences.
        lags: bool,
    },
}

/// A key that differs.
#[derive(Debug)]
struct Difference<X> {
    key: String,
    listed: Option<Pair<X>>,
    cached: Option<Pair<X>>,
}

type Pair<X> = (Uid<X>, ResourceVersion<X>);

/// The most differences that are stored.
const MOST: usize = 1000;

/// The next step of an audit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuditStep {
    /// Wait until this time.
    Wait(Instant),
    /// Wait until this time, or until the watch has reached a newer version.
    Behind(Instant),
    /// List all objects at the newest version.
    List,
    /// Compare the list with the cache.
    Compare,
}

/// The result of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuditVerdict {
    /// There are no differences.
    Clean,
    /// There are differences that may be due to a lag. Poll again.
    Doubt,
    /// There are permanent differences. [`Audit::drift`] returns them.
    Drift {
        /// The number of objects that differ.
        count: usize,
        /// Whether to repair the cache. It is `false` if a repair of all of them was already requested without an effect, as
        /// with objects that the decoder rejects.
        repair: bool,
    },
}

/// The cache's state of one object.
#[derive(Clone, Copy, Debug)]
pub struct AuditEntry<'a, X> {
    /// The key.
    pub key: &'a str,
    /// The uid.
    pub uid: &'a Uid<X>,
    /// The resourceVersion.
    pub version: &'a ResourceVersion<X>,
    /// Whether a newer state of the object could not be used. It then counts as different from the server's object, and
    /// as deleted if the server does not list it.
    pub is_stale: bool,
}

impl<X: Text + PartialEq> Audit<X> {
    /// Creates an audit that is due after its first period.
    #[must_use]
    pub const fn new(config: AuditConfig, seed: u64) -> Self {
        Self {
            config,
            rng: Rng::new(seed),
            state: Progress::Idle(None),
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

    /// Returns the next step. `reached` is the version up to which the cache is complete.
    pub fn poll(&mut self, now: Instant, reached: &ResourceVersion<X>) -> AuditStep {
        match &self.state {
            Progress::Idle(None) => AuditStep::Wait(self.rest(now)),
            Progress::Idle(Some(due)) if now < *due => AuditStep::Wait(*due),
            Progress::Idle(Some(_)) => {
                self.state = Progress::Listing {
                    second: false,
                    begun: false,
                };
                AuditStep::List
            }
            Progress::Listing { .. } => AuditStep::List,
            Progress::Listed {
                version,
                until,
                lags: true,
                ..
            } if now < *until && !is_at(reached, version) => AuditStep::Behind(*until),
            Progress::Listed { .. } => AuditStep::Compare,
        }
    }

    /// Begins a list, or begins it again. Data of the previous list is discarded.
    pub fn begin(&mut self) {
        self.seen.clear();
        self.suspects.clear();
        self.drift.clear();
        if let Progress::Listing { begun, .. } = &mut self.state {
            *begun = true;
        }
    }

    /// Adds an object of the list. `cached` is the cache's current state of its key.
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

    /// Ends a complete list, with all its pages, at its version.
    pub fn complete(&mut self, now: Instant, version: &ResourceVersion<X>)
    where
        X: Clone,
    {
        let Progress::Listing {
            second,
            begun: true,
        } = self.state
        else {
            return;
        };
        self.seen.sort_unstable();
        self.seen.dedup();
        self.suspects.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        self.state = Progress::Listed {
            second,
            version: version.clone(),
            until: now + self.config.patience,
            lags: false,
        };
    }

    /// Ends this audit without a result, because the list failed.
    pub fn failed(&mut self, now: Instant) {
        self.rest(now);
    }

    /// Compares the list with all objects that the cache has of the source. `reached` is the version up to which the
    /// cache was complete before it was read.
    pub fn compare<'e>(
        &mut self,
        now: Instant,
        reached: &ResourceVersion<X>,
        entries: impl IntoIterator<Item = AuditEntry<'e, X>>,
    ) -> AuditVerdict
    where
        X: Clone + 'e,
    {
        let Progress::Listed {
            second,
            version,
            until,
            lags,
        } = &mut self.state
        else {
            return AuditVerdict::Clean;
        };
        let found = differences(&self.seen, &self.suspects, version, entries);
        if found.is_empty() {
            self.asked.clear();
            self.rest(now);
            return AuditVerdict::Clean;
        }
        if *second {
            // The differences that are the same on both sides as after the first list.
            let doubts = core::mem::take(&mut self.doubts);
            let mut drift = found;
            drift.retain(|found| doubts.iter().any(|doubt| doubt.is(found)));
            let count = drift.len();
            self.rest(now);
            if count == 0 {
                return AuditVerdict::Clean;
            }
            let hashes: Vec<u64> = drift.iter().map(Difference::hash).collect();
            let repair = hashes.iter().any(|hash| !self.asked.contains(hash));
            self.drift = drift;
            self.asked = hashes;
            return AuditVerdict::Drift { count, repair };
        }
        if now < *until && !is_at(reached, version) {
            *lags = true;
            return AuditVerdict::Doubt;
        }
        self.doubts = found;
        self.state = Progress::Listing {
            second: true,
            begun: false,
        };
        AuditVerdict::Doubt
    }

    /// Returns the keys that differed at the last [`AuditVerdict::Drift`], and how, until the next list begins.
    pub fn drift(&self) -> impl Iterator<Item = (&str, DriftKind)> {
        self.drift
            .iter()
            .map(|difference| (difference.key.as_str(), difference.kind()))
    }

    /// Waits until the next period, and frees the memory.
    fn rest(&mut self, now: Instant) -> Instant {
        // Drift must also be repaired within the period.
        let period = self.config.period.max(Duration::from_secs(1));
        let most = period - self.config.patience.min(period / 4);
        let due = now + self.rng.between(most / 5 * 4, most);
        self.state = Progress::Idle(Some(due));
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
        Fnv::of(|hash| {
            hash.add(&self.key);
            for side in [&self.listed, &self.cached] {
                hash.add("\0");
                if let Some((uid, version)) = side {
                    write!(hash, "{uid}\0{version}")?;
                }
            }
            fmt::Result::Ok(())
        })
    }
}

/// Returns the differences between a list and the cache.
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
            // It was equal when it was listed, or there are too many differences to store it.
            Err(_) if seen.binary_search(&hash(entry.key)).is_ok() => continue,
            Err(_) => None,
        };
        // The list cannot judge an object that is newer than the list.
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
    Fnv::of(|hash| hash.write_str(key))
}
