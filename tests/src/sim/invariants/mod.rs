//! What has to hold, each in a file of its own.

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

use super::client::{Client, Seen};
use super::cluster::Cluster;
use super::engine::Snapshot;
use super::plan::World;

/// What is wrong, where something is.
pub type Verdict = Result<(), String>;

/// What an invariant may look at.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The servers and the reference.
    pub cluster: &'a Cluster,
    /// How the world is.
    pub world: &'a World,
    /// The client.
    pub client: &'a Client,
    /// What its cache has.
    pub snapshot: &'a Snapshot,
    /// The time.
    pub now: Instant,
}

/// Something that has to hold.
pub trait Invariant {
    /// Its name, which is that of its file.
    fn name(&self) -> &'static str;
    /// Where it is written down.
    fn source(&self) -> &'static str;
    /// Looks at something that happened.
    ///
    /// # Errors
    /// Says what is wrong with it.
    fn seen(&mut self, _seen: &Seen, _context: &Context<'_>) -> Verdict {
        Ok(())
    }
    /// Looks at the state after a step.
    ///
    /// # Errors
    /// Says what is wrong with it.
    fn step(&mut self, _context: &Context<'_>) -> Verdict {
        Ok(())
    }
    /// Looks at the state when all has come right.
    ///
    /// # Errors
    /// Says what is wrong with it.
    fn settled(&mut self, _context: &Context<'_>) -> Verdict {
        Ok(())
    }
}

/// Makes all invariants, for a process that begins.
#[must_use]
pub fn all(world: &World) -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(asked::Asked::new(world)),
        Box::new(bookmarkable::Bookmarkable),
        Box::new(busy::Busy),
        Box::new(endless::Endless::new(world)),
        Box::new(filter::Filter),
        Box::new(fold::Fold::default()),
        Box::new(grammar::Grammar::default()),
        Box::new(handlers::Handlers::default()),
        Box::new(heartbeat::Heartbeat::new(world)),
        Box::new(index::Index),
        Box::new(kept::Kept),
        Box::new(known::Known),
        Box::new(monotone::Monotone::new(world)),
        Box::new(no_relist::NoRelist),
        Box::new(once::Once::new(world)),
        Box::new(rate::Rate::new(world)),
        Box::new(reported::Reported::new(world)),
        Box::new(resync::Resync::default()),
        Box::new(room::Room::default()),
        Box::new(versions::Versions),
        Box::new(visibility::Visibility::default()),
    ]
}
