//! Audits by hand: a lag is not drift, and a repeated difference is.
#![allow(clippy::unwrap_used, reason = "a test may")]

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;

type X = Box<str>;
type Side = BTreeMap<String, (Uid<X>, ResourceVersion<X>)>;

/// Both sides, and an audit of them.
struct Both {
    server: Side,
    cache: Side,
    /// The version of the server, and the one up to which the cache shows everything.
    newest: u64,
    reached: u64,
    now: Instant,
    audit: Audit<X>,
}

fn version(number: u64) -> ResourceVersion<X> {
    ResourceVersion::new(&number.to_string())
}

const PERIOD: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

impl Both {
    fn new(keys: &[&str]) -> Self {
        let mut both = Self {
            server: Side::new(),
            cache: Side::new(),
            newest: 0,
            reached: 0,
            now: Instant::from_micros(0),
            audit: Audit::new(AuditConfig::new(PERIOD), 1),
        };
        for key in keys {
            both.put(key);
        }
        both.catch_up();
        both
    }

    /// Makes a change that the cache receives when it catches up, or never.
    fn put(&mut self, key: &str) -> (Uid<X>, ResourceVersion<X>) {
        self.newest += 1;
        let uid = self.server.get(key).map(|(uid, _)| uid.clone());
        let uid = uid.unwrap_or_else(|| Uid::new(&format!("u{}", self.newest)));
        let state = (uid, version(self.newest));
        self.server.insert(key.to_string(), state.clone());
        state
    }

    fn delete(&mut self, key: &str) {
        self.newest += 1;
        self.server.remove(key).unwrap();
    }

    fn catch_up(&mut self) {
        self.cache = self.server.clone();
        self.reached = self.newest;
    }

    fn due(&mut self) {
        let AuditStep::Wait(due) = self.audit.poll(self.now, &version(self.reached)) else {
            panic!("it is due already");
        };
        self.now = due;
    }

    fn step(&mut self) -> AuditStep {
        self.audit.poll(self.now, &version(self.reached))
    }

    /// Lists the objects that the server has now.
    fn list(&mut self) {
        assert_eq!(self.step(), AuditStep::List);
        self.begin();
        self.audit.complete(self.now, &version(self.newest));
    }

    fn begin(&mut self) {
        self.audit.begin();
        for (key, (uid, version)) in &self.server {
            let json = format!(
                r#"{{"metadata":{{"name":"{key}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
            );
            let cached = self.cache.get_key_value(key).map(entry);
            self.audit
                .listed(key, &RawObject::parse(json.as_bytes()), cached);
        }
    }

    fn compare(&mut self) -> AuditVerdict {
        assert_eq!(self.step(), AuditStep::Compare);
        let reached = version(self.reached);
        self.audit
            .compare(self.now, &reached, self.cache.iter().map(entry))
    }

    /// Runs one audit while nothing changes, and returns its verdict.
    fn audit(&mut self) -> AuditVerdict {
        self.due();
        self.list();
        match self.compare() {
            AuditVerdict::Doubt => {}
            verdict @ (AuditVerdict::Clean | AuditVerdict::Drift { .. }) => return verdict,
        }
        if let AuditStep::Behind(until) = self.step() {
            self.now = until;
            assert_eq!(self.compare(), AuditVerdict::Doubt);
        }
        self.list();
        self.compare()
    }

    fn drift(&self) -> Vec<(String, DriftKind)> {
        let drift = self.audit.drift();
        drift.map(|(key, kind)| (key.to_string(), kind)).collect()
    }
}

fn entry<'a>(
    (key, (uid, version)): (&'a String, &'a (Uid<X>, ResourceVersion<X>)),
) -> AuditEntry<'a, X> {
    AuditEntry {
        key,
        uid,
        version,
        is_stale: key.starts_with("stale"),
    }
}

const fn drift(count: usize, repair: bool) -> AuditVerdict {
    AuditVerdict::Drift { count, repair }
}

#[test]
fn an_equal_cache_is_clean() {
    let mut both = Both::new(&["a", "b", "c"]);
    let start = both.now;
    for _ in 0..10 {
        let before = both.now;
        assert_eq!(both.audit(), AuditVerdict::Clean);
        assert!(both.now - before <= PERIOD);
        both.put("a");
        both.delete("b");
        both.put("b");
        both.catch_up();
    }
    assert!(both.now - start > PERIOD * 7);
}

#[test]
fn each_kind_of_drift_is_found_and_repaired_once() {
    let mut both = Both::new(&["a", "b", "c", "d"]);
    let kept = both.cache["a"].clone();
    both.delete("a"); // Without an event.
    both.put("b"); // The same.
    both.delete("d");
    both.put("d"); // Another object with the same name.
    both.put("new");
    let cache = both.cache.clone();
    both.catch_up();
    both.cache = cache;
    assert_eq!(both.audit(), drift(4, true));
    let mut found = both.drift();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("a", DriftKind::Gone),
        ("b", DriftKind::Other),
        ("d", DriftKind::Other),
        ("new", DriftKind::Missing),
    ];
    assert_eq!(found, expected.map(|(key, kind)| (key.to_string(), kind)));
    // The repair has fixed all but one, which the decoder rejects.
    let cache = both.cache.clone();
    both.catch_up();
    both.cache.remove("new");
    assert_eq!(both.audit(), drift(1, false));
    assert_eq!(both.audit(), drift(1, false));
    // Another state of it, or another key, is worth another attempt.
    both.put("new");
    both.reached = both.newest;
    assert_eq!(both.audit(), drift(1, true));
    assert_eq!(both.audit(), drift(1, false));
    both.cache.insert("a".into(), kept);
    assert_eq!(both.audit(), drift(2, true));
    both.catch_up();
    assert_eq!(both.audit(), AuditVerdict::Clean);
    both.cache = cache;
    assert!(matches!(
        both.audit(),
        AuditVerdict::Drift { repair: true, .. }
    ));
}

/// The cache shows an older state, since a newer one could not be used. One repair is requested for it, as for any
/// other difference. If the server has lost it, it is swept.
#[test]
fn stale_objects_are_audited() {
    let mut both = Both::new(&["a", "stale"]);
    assert_eq!(both.audit(), drift(1, true), "it may be usable again");
    assert_eq!(both.audit(), drift(1, false));
    both.put("stale");
    both.reached = both.newest;
    assert_eq!(both.audit(), drift(1, true));
    assert_eq!(both.drift(), [("stale".to_string(), DriftKind::Other)]);
    both.delete("stale"); // Without an event.
    both.reached = both.newest;
    assert_eq!(both.audit(), drift(1, true));
    assert_eq!(both.drift(), [("stale".to_string(), DriftKind::Gone)]);
    both.catch_up();
    assert_eq!(both.audit(), AuditVerdict::Clean);
}

/// The same version with another uid: a server that was restored from a backup can produce that.
#[test]
fn another_object_with_the_same_version_is_drift() {
    let mut both = Both::new(&["a"]);
    let before = both.cache["a"].1.clone();
    both.cache
        .insert("a".into(), (Uid::new("another"), before.clone()));
    assert_eq!(both.audit(), drift(1, true));
    // Without a uid only the version is compared.
    both.cache.insert("a".into(), (Uid::default(), before));
    assert_eq!(both.audit(), AuditVerdict::Clean);
}

#[test]
fn the_audit_waits_for_a_lagging_watch() {
    let mut both = Both::new(&["a", "b", "c"]);
    both.due();
    both.put("a");
    both.delete("b");
    both.put("d");
    both.list();
    // Nothing is wrong: the watch lags. The cache is compared once, and then not before the watch has caught up.
    assert_eq!(both.compare(), AuditVerdict::Doubt);
    assert!(matches!(both.step(), AuditStep::Behind(_)));
    both.now = both.now + SECOND;
    both.catch_up();
    assert_eq!(both.compare(), AuditVerdict::Clean);
    assert!(matches!(both.step(), AuditStep::Wait(_)));
}

#[test]
fn changes_after_the_list_are_not_drift() {
    let mut both = Both::new(&["a", "b", "c"]);
    both.due();
    both.list();
    both.put("a"); // Newer than the list.
    both.put("new");
    both.delete("c"); // It is in the list, but no longer in the cache.
    both.catch_up();
    assert_eq!(
        both.compare(),
        AuditVerdict::Clean,
        "what was the same when it was listed"
    );

    // The list is read while the cache changes.
    both.due();
    assert_eq!(both.step(), AuditStep::List);
    let server = both.server.clone();
    both.put("a");
    both.delete("b");
    both.catch_up();
    let ahead = core::mem::replace(&mut both.server, server);
    both.begin();
    both.audit.complete(both.now, &version(both.reached - 2));
    both.server = ahead;
    assert_eq!(
        both.compare(),
        AuditVerdict::Doubt,
        "it cannot know of the deletion"
    );
    both.list();
    assert_eq!(both.compare(), AuditVerdict::Clean);
}

/// If the watch never catches up, differences count after a while.
#[test]
fn a_watch_that_is_stuck_is_found_out() {
    let mut both = Both::new(&["a", "b"]);
    both.put("a");
    let before = both.now;
    assert_eq!(both.audit(), drift(1, true));
    assert!(both.now - before <= PERIOD);

    // In the second list it has another state, so the watch may be working.
    both.due();
    both.list();
    assert_eq!(both.compare(), AuditVerdict::Doubt);
    let AuditStep::Behind(until) = both.step() else {
        panic!("it waits");
    };
    both.now = until;
    assert_eq!(both.compare(), AuditVerdict::Doubt);
    both.put("a");
    both.list();
    assert_eq!(both.compare(), AuditVerdict::Clean);
}

#[test]
fn a_list_that_is_not_complete_never_counts() {
    let mut both = Both::new(&["a", "b", "c"]);
    both.due();
    // It is cut without data, and begun again.
    assert_eq!(both.step(), AuditStep::List);
    both.audit.begin();
    assert_eq!(both.step(), AuditStep::List);
    both.list();
    assert_eq!(both.compare(), AuditVerdict::Clean);
    // It fails completely.
    both.due();
    assert_eq!(both.step(), AuditStep::List);
    both.audit.begin();
    both.audit.failed(both.now);
    both.audit.complete(both.now, &version(both.newest));
    assert!(matches!(both.step(), AuditStep::Wait(_)));
    assert_eq!(both.drift(), []);
    // A completion without a begin belongs to another request.
    both.due();
    assert_eq!(both.step(), AuditStep::List);
    both.audit.complete(both.now, &version(both.newest));
    assert_eq!(both.step(), AuditStep::List);
    // An unrequested comparison has no effect.
    let reached = version(both.reached);
    let verdict = both
        .audit
        .compare(both.now, &reached, both.cache.iter().map(entry));
    assert_eq!(verdict, AuditVerdict::Clean);
    assert_eq!(both.step(), AuditStep::List);
}

#[test]
fn of_very_many_differences_some_are_kept() {
    let keys: Vec<String> = (0..MOST + 500)
        .map(|number| format!("k{number:05}"))
        .collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut both = Both::new(&keys);
    both.cache.clear();
    assert_eq!(both.audit(), drift(MOST, true));
    both.catch_up();
    both.server.clear();
    assert_eq!(both.audit(), drift(MOST, true));
    both.cache.clear();
    assert_eq!(both.audit(), AuditVerdict::Clean);
}
