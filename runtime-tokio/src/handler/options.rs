//! What a handler or a subscription wants.

use core::time::Duration;

/// What a handler or a subscription wants.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerOptions {
    /// Its name in reports and in the informer's health.
    pub name: String,
    /// How often every object is replayed to it; `None` is the informer's period, zero is never.
    pub resync: Option<Option<Duration>>,
    /// How many notifications may wait before they are coalesced by key.
    pub backlog: usize,
    /// Whether it is told of objects that a relist brought again unchanged.
    pub unchanged: bool,
    /// Whether it blocks its thread.
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
    /// Sets its name in reports and in the informer's health.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how often every object is replayed to it; zero is never. Less than a second is raised to a second.
    #[must_use]
    pub const fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(Some(period));
        self
    }

    /// Sets how many notifications may wait before they are coalesced by key. The default is 4,096.
    #[must_use]
    pub const fn backlog(mut self, limit: usize) -> Self {
        self.backlog = limit;
        self
    }

    /// Sets whether objects that a relist brought again unchanged are told.
    ///
    /// ```
    /// let as_client_go = informer_tokio::handler::HandlerOptions::default().unchanged(true);
    /// ```
    #[must_use]
    pub const fn unchanged(mut self, tell: bool) -> Self {
        self.unchanged = tell;
        self
    }

    /// Says that its calls block their thread: they are made on tokio's threads for blocking work, and hold up none of
    /// those that run everything else. It has no meaning for a handler that awaits, nor for a subscription.
    #[must_use]
    pub const fn blocking(mut self, blocks: bool) -> Self {
        self.blocking = blocks;
        self
    }
}
