//! The cache that the informer's handles share: entries, indexes, listeners and health.

pub(crate) mod entry;
pub(crate) mod hashes;
mod health;
pub(crate) mod heap;
pub(crate) mod index;
pub(crate) mod listener;
pub(crate) mod moves;
pub(crate) mod panics;
pub(crate) mod reindex;
pub(crate) mod retired;
pub(crate) mod shared;
pub(crate) mod shown;
pub(crate) mod users;
