//! User code that is notified of changes: handlers, filters and subscriptions.

pub(crate) mod event;
mod event_handler;
mod filter;
pub(crate) mod handlers;
mod options;
mod registered;
pub(crate) mod subscription;

pub use event_handler::{AsyncEventHandler, EventHandler};
pub use filter::Filter;
pub(crate) use filter::Gate;
pub use handlers::AsyncHandlers;
pub(crate) use handlers::Handlers;
pub use options::HandlerOptions;
pub use registered::HandlerHandle;
pub(crate) use registered::{register, register_async};
pub(crate) use subscription::Subscription;
