//! What is explored, and how far.

use core::time::Duration;
use std::path::PathBuf;

use super::spec::Spec;

#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) spec: Spec,
    pub(super) seeds: u64,
    /// For how long seeds are begun, instead of their number.
    pub(super) time: Option<Duration>,
    pub(super) shrinks: usize,
    /// The file with plans that have failed.
    pub(super) regressions: Option<PathBuf>,
    /// Whether each write is explored systematically.
    pub(super) each_write: bool,
}
