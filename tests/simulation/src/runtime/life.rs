//! A process with an informer and the features in use beside its watch.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use informer_core::{audit::AuditConfig, reflector::Initial};
use informer_tokio::journal::Journal;
use informer_tokio::{Entry, Informer, Lister, Raw};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::super::entropy::Entropy;
use super::decoder::Gated;
use super::listener::Listener;
use super::user::User;
use super::{PATIENCE, PODS, Server, Verdict, Wrong, holds};

/// The resync period of all listeners that have one.
pub(super) const RESYNC: Duration = Duration::from_secs(30);
/// An index by the parity of the step that wrote an object. The late index has the same values.
pub(super) const INDEXES: [&str; 2] = ["parity", "late"];

/// The features in use beside the watch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kit {
    /// It has one source for each of two namespaces.
    pub(super) namespaces: bool,
    pub(super) journal: bool,
    pub(super) audit: bool,
    /// Large objects are decoded on other threads while another thread reads the cache.
    pub(super) threads: bool,
    pub(super) streams: bool,
    pub(super) paged: bool,
    /// Each answer takes time.
    pub(super) slow: bool,
    pub(super) probe: bool,
}

/// A process.
pub(super) struct Life {
    pub(super) informer: Informer<Raw>,
    pub(super) driver: JoinHandle<()>,
    pub(super) listeners: Vec<Listener>,
    pub(super) reader: Option<Arc<AtomicBool>>,
    pub(super) has_late: bool,
}

impl Kit {
    pub(super) fn of_seed(seed: u64) -> Self {
        let dice = &mut Entropy::of(seed ^ 0x5eed);
        Self {
            namespaces: dice.one_in(3),
            journal: !dice.one_in(3),
            audit: dice.one_in(4),
            threads: dice.one_in(6),
            streams: dice.below(2) == 1,
            paged: dice.one_in(4),
            slow: dice.one_in(3),
            probe: dice.one_in(2),
        }
    }

    /// The number of a runtime's threads for blocking work. If there is only one, it can be made to hang.
    pub(super) const fn blocking_threads(self) -> usize {
        if self.threads { 4 } else { 1 }
    }
}

/// Computes the index value of an object.
pub(super) fn parity(object: &Raw, emit: &mut dyn FnMut(&str)) {
    let contains = |text: &[u8]| object.bytes().windows(text.len()).any(|part| part == text);
    emit(if contains(br#""parity":"odd""#) {
        "odd"
    } else {
        "even"
    });
}

/// Checks that an index finds exactly the objects with its value.
pub(super) fn indexed(lister: &Lister<Raw>, index: &str) -> Verdict {
    for value in ["odd", "even"] {
        let found = lister.by_index(index, value);
        let mut found: Vec<String> = found
            .map_err(|error| Wrong::new("index", &error))?
            .iter()
            .map(|entry| entry.key().to_string())
            .collect();
        let is_right = |entry: &&Entry<Raw>| {
            let mut is = false;
            parity(entry, &mut |other| is = other == value);
            is
        };
        let right = lister.list();
        let right = right.iter().filter(is_right);
        let mut right: Vec<String> = right.map(|entry| entry.key().to_string()).collect();
        found.sort();
        right.sort();
        holds("index", found == right, &|| {
            format!("{index}={value} finds {found:?}, and the cache has {right:?}")
        })?;
    }
    Ok(())
}

/// Starts a process.
pub(super) fn begin(
    kit: Kit,
    mock: &Server,
    user: &Arc<User>,
    folder: &TempDir,
    seed: u64,
) -> Life {
    let hook = Arc::clone(user);
    let decoder = Gated::new(user, kit.threads, seed);
    let mut builder = Informer::<Raw>::builder_with(mock.transport(), PODS, decoder)
        .seed(seed)
        .drain(PATIENCE)
        .initial(if kit.streams {
            Initial::Stream
        } else {
            Initial::List
        })
        .index_with(INDEXES[0], parity)
        .on_report(move |said| hook.on_report(said));
    builder = if kit.namespaces {
        builder.namespaces(["prod", "edge"])
    } else {
        builder.namespace("prod")
    };
    if kit.paged {
        builder = builder.page_size(2);
    }
    if kit.journal {
        let path = folder.path().join("journal/pods");
        builder = builder.journal(Journal::file(path).cluster("here"));
    }
    if kit.audit {
        let mut config = AuditConfig::new(Duration::from_secs(300));
        config.list_limit = Duration::from_secs(60);
        builder = builder.audit(config);
    }
    if kit.probe {
        builder = builder.probe(Duration::from_secs(20));
    }
    if kit.threads {
        builder = builder.decoders(2);
    }
    let (informer, driver) = builder.build();
    let reader = kit.threads.then(|| read(informer.lister()));
    Life {
        informer,
        driver: tokio::spawn(driver.run()),
        listeners: Vec::new(),
        reader,
        has_late: false,
    }
}

/// Reads the cache repeatedly on another thread, until the flag is set.
fn read(lister: Lister<Raw>) -> Arc<AtomicBool> {
    let ends = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ends);
    std::thread::spawn(move || {
        while !flag.load(Ordering::Relaxed) {
            drop(lister.list());
            drop(lister.by_index(INDEXES[0], "odd"));
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    ends
}
