//! What a program does with one informer: builds it, reads it, waits for it.

mod builder;
pub(crate) mod handle;
pub(crate) mod kind;
pub(crate) mod lister;
mod wait;

pub use informer_core::{
    AuditConfig, BackoffConfig, ExpectedState, IndexError, Initial, NAMESPACE_INDEX, OwnedResource,
    ResourceError,
};

pub use crate::driver::Driver;
pub use crate::health::error::{Ended, Missing, NotSynced, StillUnsynced};
pub use builder::Builder;
pub(crate) use builder::{Settings, settings_methods};
pub(crate) use handle::Informer;
pub(crate) use kind::Kind;
pub(crate) use lister::Lister;
pub(crate) use wait::wait_until;
pub use wait::{HasSynced, wait_for_sync};
