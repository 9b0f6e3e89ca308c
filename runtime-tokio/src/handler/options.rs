//! Options of handlers and subscriptions.

use core::time::Duration;

/// Options of a handler or a subscription.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerOptions {
    /// The name in reports and in the informer's health.
    pub name: String,
    /// The resync period. `None` is the informer's period, and zero means never.
    pub resync: Option<Duration>,
    /// The number of pending notifications above which they are merged by key.
    pub backlog: usize,
    /// Whether to notify of objects that a relist returned unchanged.
    pub unchanged: bool,
    /// Whether the handler blocks its thread.
    pub blocking: bool,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        Self {
            name: "handler".to_owned(),
            resync: None,
            backlog: 4096,
            unchanged: false,
            blocking: false,
        }
    }
}

impl HandlerOptions {
    /// Sets the name in reports and in the informer's health.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the resync period, in which every object is replayed. Zero means never, and the minimum is one second.
    #[must_use]
    pub const fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Sets the number of pending notifications above which they are merged by key. The default is 4,096.
    #[must_use]
    pub const fn backlog(mut self, limit: usize) -> Self {
        self.backlog = limit;
        self
    }

    /// Sets whether to notify of objects that a relist returned unchanged, as client-go does. They are omitted by
    /// default.
    #[must_use]
    pub const fn unchanged(mut self, notify: bool) -> Self {
        self.unchanged = notify;
        self
    }

    /// Sets whether calls of the handler block their thread. If so, they run on tokio's blocking threads and do not
    /// occupy worker threads. It has no effect on asynchronous handlers and subscriptions.
    #[must_use]
    pub const fn blocking(mut self, blocks: bool) -> Self {
        self.blocking = blocks;
        self
    }
}
