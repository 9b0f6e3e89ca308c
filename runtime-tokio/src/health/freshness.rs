//! How old the state in a cache may be.

use core::cmp::Ordering;
use core::time::Duration;
use std::collections::VecDeque;

use informer_core::{Instant, ResourceVersion};

use crate::cache::entry::Key;

/// The most claims that are kept. An idle watch reaches a new version about once a minute.
const MOST: usize = 64;

/// The last moment at which the cache of a source provably had the newest version of the server.
#[derive(Debug, Default)]
pub(crate) struct Freshness {
    proven: Option<Instant>,
    /// Moments with the version that the server had then, or an older one.
    claims: VecDeque<(Instant, ResourceVersion<Key>)>,
    /// The time of the last request, or before.
    requested: Option<Instant>,
    /// That of the first request of the list in progress.
    listing: Option<Instant>,
    /// Only probes count.
    is_probed: bool,
    /// The version of a claim cannot be compared with that of the cache.
    is_incomparable: bool,
    is_reported: bool,
}

impl Freshness {
    /// A list or a watch is requested.
    pub(crate) const fn requested(&mut self, now: Instant) {
        self.requested = Some(now);
    }

    /// A list begins to arrive. Later requests of the list show the state of its begin.
    pub(crate) const fn list_begins(&mut self) {
        self.listing = self.requested;
    }

    /// A list is complete, with this version. If the cache had it before, the list may be one in pages, which shows the
    /// version that it requests.
    pub(crate) fn listed(&mut self, version: &ResourceVersion<Key>, is_newer: bool) {
        // The versions of a server that was restored may be lower than before.
        self.claims.clear();
        if let Some(began) = self.listing.take()
            && !self.is_probed
            && is_newer
        {
            self.claim(began, version);
        }
    }

    /// A bookmark has arrived.
    pub(crate) fn bookmark(&mut self, now: Instant, version: &ResourceVersion<Key>) {
        if !self.is_probed {
            self.claim(now, version);
        }
    }

    /// Probes begin, and are the only proofs from now on: watch cache and network may be slow.
    pub(crate) fn probes_begin(&mut self) {
        self.is_probed = true;
        self.claims.clear();
        self.proven = None;
    }

    /// A probe that began then has found this version.
    pub(crate) fn probed(
        &mut self,
        began: Instant,
        version: &ResourceVersion<Key>,
        reached: &ResourceVersion<Key>,
    ) {
        self.claim(began, version);
        self.reached(reached);
    }

    fn claim(&mut self, at: Instant, version: &ResourceVersion<Key>) {
        if self.claims.len() >= MOST {
            let mut keep = false;
            self.claims.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.claims.push_back((at, version.clone()));
    }

    /// The cache has reached this version.
    pub(crate) fn reached(&mut self, reached: &ResourceVersion<Key>) {
        while let Some((at, version)) = self.claims.front() {
            match reached.compare(version) {
                Some(Ordering::Equal | Ordering::Greater) => {
                    self.proven = self.proven.max(Some(*at));
                    self.is_incomparable = false;
                    self.is_reported = false;
                }
                Some(Ordering::Less) => return,
                None => {
                    self.proven = None;
                    self.is_incomparable = true;
                }
            }
            self.claims.pop_front();
        }
    }

    /// Returns the longest time for which the cache may have lacked a change, or why it is not known.
    pub(crate) fn staleness(&self, now: Instant) -> Result<Duration, &'static str> {
        match self.proven {
            Some(at) => Ok(now.saturating_duration_since(at)),
            None if self.is_incomparable => Err("the server's versions cannot be compared"),
            None if self.is_probed => Err("no probe has been confirmed by the watch"),
            None => Err("no list and no bookmark has arrived"),
        }
    }

    /// Returns for how long the watch has not reached a version that the server has, if that is longer than a watch takes
    /// and was not returned before.
    pub(crate) fn lags(&mut self, now: Instant, patience: Duration) -> Option<Duration> {
        let (at, _) = self.claims.front()?;
        let lag = now.saturating_duration_since(*at);
        if lag < patience || core::mem::replace(&mut self.is_reported, true) {
            return None;
        }
        Some(lag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    fn version(text: &str) -> ResourceVersion<Key> {
        ResourceVersion::new(text)
    }

    fn seconds(freshness: &Freshness, now: u64) -> Option<u64> {
        freshness.staleness(at(now)).ok().map(|time| time.as_secs())
    }

    #[test]
    fn a_list_proves_its_begin_and_a_bookmark_its_arrival() {
        let mut fresh = Freshness::default();
        fresh.requested(at(10));
        fresh.list_begins();
        fresh.requested(at(12));
        fresh.listed(&version("5"), true);
        assert_eq!(seconds(&fresh, 13), None, "it is not in the cache yet");
        fresh.reached(&version("5"));
        assert_eq!(seconds(&fresh, 13), Some(3));
        fresh.requested(at(20));
        fresh.list_begins();
        fresh.listed(&version("5"), false);
        fresh.reached(&version("5"));
        assert_eq!(seconds(&fresh, 23), Some(13), "it may be an old list");
        fresh.bookmark(at(70), &version("9"));
        assert_eq!(seconds(&fresh, 71), Some(61));
        fresh.reached(&version("9"));
        assert_eq!(seconds(&fresh, 71), Some(1));
    }

    #[test]
    fn only_what_the_watch_has_reached_confirms_a_probe() {
        let mut fresh = Freshness::default();
        fresh.probes_begin();
        fresh.bookmark(at(1), &version("5"));
        fresh.reached(&version("5"));
        assert_eq!(seconds(&fresh, 2), None);
        fresh.probed(at(2), &version("7"), &version("5"));
        fresh.probed(at(4), &version("8"), &version("6"));
        assert_eq!(seconds(&fresh, 5), None);
        fresh.reached(&version("7"));
        assert_eq!(seconds(&fresh, 5), Some(3));
        let patience = Duration::from_secs(90);
        assert_eq!(fresh.lags(at(5), patience), None);
        assert_eq!(fresh.lags(at(95), patience), Some(Duration::from_secs(91)));
        assert_eq!(fresh.lags(at(96), patience), None, "it was reported");
        fresh.reached(&version("9"));
        assert_eq!(seconds(&fresh, 100), Some(96));
        assert_eq!(fresh.lags(at(200), patience), None);
    }

    #[test]
    fn versions_that_cannot_be_compared_prove_nothing() {
        let mut fresh = Freshness::default();
        fresh.requested(at(1));
        fresh.list_begins();
        fresh.listed(&version("5"), true);
        fresh.reached(&version("5"));
        fresh.bookmark(at(2), &version("b"));
        fresh.reached(&version("a"));
        let why = fresh.staleness(at(3));
        assert_eq!(why, Err("the server's versions cannot be compared"));
    }

    #[test]
    fn many_probes_of_a_watch_that_lags_take_little_memory() {
        let mut fresh = Freshness::default();
        fresh.probes_begin();
        for number in 0..1000 {
            let newest = version(&number.to_string());
            fresh.probed(at(number), &newest, &version("0"));
            assert!(fresh.claims.len() <= MOST);
        }
        fresh.reached(&version("999"));
        assert!(seconds(&fresh, 1000) < Some(100));
    }
}
