//! The invariants, one per file.

pub mod asked;
pub mod bookmarkable;
pub mod busy;
pub mod endless;
pub mod filter;
pub mod fold;
pub mod grammar;
pub mod handlers;
pub mod heartbeat;
pub mod index;
pub mod kept;
pub mod known;
pub mod monotone;
pub mod no_relist;
pub mod once;
pub mod rate;
pub mod reported;
pub mod resync;
pub mod room;
pub mod versions;
pub mod visibility;

use informer_mock::Instant;

use super::client::{Asked, Client, Seen};
use super::cluster::Cluster;
use super::engine::{Note, Snapshot};
use super::plan::World;

/// An error describes the violation.
pub type Verdict = Result<(), String>;

/// The state that an invariant may inspect.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The servers and the reference.
    pub cluster: &'a Cluster,
    /// The settings of the world.
    pub world: &'a World,
    /// The client.
    pub client: &'a Client,
    /// The cached objects.
    pub snapshot: &'a Snapshot,
    /// The current time.
    pub now: Instant,
}

/// A property that must hold.
pub trait Invariant {
    /// Checks an event.
    ///
    /// # Errors
    /// Returns a description of the violation.
    fn seen(&mut self, seen: &Seen, context: &Context<'_>) -> Verdict {
        match seen {
            Seen::Notified(note) => self.notified(note, context),
            Seen::Asked(asked) => self.asked(asked, context),
            _ => Ok(()),
        }
    }
    /// Checks a notification.
    ///
    /// # Errors
    /// Returns a description of the violation.
    fn notified(&mut self, _note: &Note, _context: &Context<'_>) -> Verdict {
        Ok(())
    }
    /// Checks a request.
    ///
    /// # Errors
    /// Returns a description of the violation.
    fn asked(&mut self, _asked: &Asked, _context: &Context<'_>) -> Verdict {
        Ok(())
    }
    /// Checks the state after a step.
    ///
    /// # Errors
    /// Returns a description of the violation.
    fn step(&mut self, _context: &Context<'_>) -> Verdict {
        Ok(())
    }
    /// Checks the state after convergence.
    ///
    /// # Errors
    /// Returns a description of the violation.
    fn settled(&mut self, _context: &Context<'_>) -> Verdict {
        Ok(())
    }
}

/// An invariant and its name, which is the name of its file.
pub type Named = (&'static str, Box<dyn Invariant>);

/// Makes all invariants for a new process.
#[must_use]
pub fn all(world: &World) -> Vec<Named> {
    vec![
        ("asked", Box::new(asked::Asked::new(world))),
        ("bookmarkable", Box::new(bookmarkable::Bookmarkable)),
        ("busy", Box::new(busy::Busy)),
        ("endless", Box::new(endless::Endless::new(world))),
        ("filter", Box::new(filter::Filter)),
        ("fold", Box::new(fold::Fold::default())),
        ("grammar", Box::new(grammar::Grammar::default())),
        ("handlers", Box::new(handlers::Handlers::default())),
        ("heartbeat", Box::new(heartbeat::Heartbeat::new(world))),
        ("index", Box::new(index::Index)),
        ("kept", Box::new(kept::Kept)),
        ("known", Box::new(known::Known)),
        ("monotone", Box::new(monotone::Monotone::new(world))),
        ("no_relist", Box::new(no_relist::NoRelist)),
        ("once", Box::new(once::Once::new(world))),
        ("rate", Box::new(rate::Rate::new(world))),
        ("reported", Box::new(reported::Reported::new(world))),
        ("resync", Box::new(resync::Resync::default())),
        ("room", Box::new(room::Room::default())),
        ("versions", Box::new(versions::Versions)),
        ("visibility", Box::new(visibility::Visibility::default())),
    ]
}

/// Returns the document that defines an invariant.
#[must_use]
pub fn source(name: &str) -> &'static str {
    let mut pairs = SOURCES.lines().filter_map(|line| line.split_once(": "));
    let source = pairs.find(|(of, _)| *of == name);
    source.map_or("nowhere", |(_, source)| source)
}

const SOURCES: &str = "\
asked: client-go: relistResourceVersion, rewatchResourceVersion
bookmarkable: etcd robustness: Bookmarkable, Reliable, Atomic
busy: docs/RUN-LOOP.md: Wait is the last output of a drain
endless: docs/DIFFERENCES.md D7
filter: etcd robustness: Filter
fold: docs/RUN-LOOP.md: a change is applied before a handler is notified of it
grammar: etcd robustness: PrevKV, IsCreate
handlers: client-go: SharedInformer, and docs/DIFFERENCES.md D11
heartbeat: docs/DIFFERENCES.md D6
index: client-go: ThreadSafeStore
kept: docs/DIFFERENCES.md S9
known: etcd robustness: nothing comes from nowhere
monotone: etcd robustness: Ordered
no_relist: client-go: Reflector.watch, etcd robustness: Resumable
once: etcd robustness: Unique
rate: client-go: wait.Backoff of the reflector, docs/DIFFERENCES.md D1 to D4
reported: core/src/report/mod.rs: nothing is lost in silence
resync: client-go: DeltaFIFO.Resync
room: core/src/cache/mod.rs: Cache::upsert
versions: client-go: Reflector.LastSyncResourceVersion
visibility: client-go: HasSynced, docs/DIFFERENCES.md S5";
