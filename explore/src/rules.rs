//! What is explored, and how far.

use core::time::Duration;

use super::spec::Spec;

#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) spec: Spec,
    pub(super) seeds: u64,
    /// For how long seeds are begun, instead of their number.
    pub(super) time: Option<Duration>,
    pub(super) shrinks: usize,
    /// Whether each write is explored systematically.
    pub(super) each_write: bool,
}
