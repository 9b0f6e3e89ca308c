//! The result of one step of the source of a body.

use informer_core::Instant;

use crate::fault::Ending;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// It wrote bytes that are neither an event nor an item.
    Bytes,
    /// It wrote one event or item.
    Event,
    /// It has ended.
    End(Ending),
    /// It has no data yet.
    Pending(Option<Instant>),
}
