//! User code that is notified of changes: handlers, filters and subscriptions.

pub(crate) mod filter;
pub(crate) mod handlers;
pub(crate) mod options;
pub(crate) mod registered;
pub(crate) mod subscription;
