//! The state of an informer: what its sources report, and what users read of it.

mod advice;
pub(crate) mod error;
pub(crate) mod snapshot;
pub(crate) mod source;
