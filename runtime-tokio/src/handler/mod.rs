//! Handlers, filters and subscriptions.

pub(crate) mod event;
mod event_handler;
mod filter;
pub(crate) mod handlers;
mod options;
mod registered;
pub(crate) mod subscription;

pub use {
    event_handler::{AsyncEventHandler, EventHandler},
    filter::Filter,
    handlers::AsyncHandlers,
    options::HandlerOptions,
    registered::HandlerHandle,
};
pub(crate) use {
    filter::Gate,
    handlers::Handlers,
    registered::{register, register_async},
    subscription::Subscription,
};
