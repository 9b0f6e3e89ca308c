//! Informers: builders, handles, listers, and waiting for several of them.

mod builder;
pub(crate) mod handle;
pub(crate) mod kind;
pub(crate) mod lister;
pub(crate) mod parts;
mod settings;
mod wait;

pub use {
    crate::driver::Driver,
    crate::health::error::{Ended, Missing, NotSynced, ReadError, StillUnsynced},
    builder::Builder,
    informer_core::{
        OwnedResource,
        audit::AuditConfig,
        cache::{IndexError, NAMESPACE_INDEX},
        object::ExpectedState,
        reflector::Initial,
        resource::ResourceError,
        time::BackoffConfig,
    },
    wait::{HasSynced, wait_for_sync},
};
pub(crate) use {
    handle::Informer,
    kind::Kind,
    lister::Lister,
    settings::{Settings, selector_methods, settings_methods},
    wait::wait_until,
};
