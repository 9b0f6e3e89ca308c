//! The settings that the builder of an informer and a factory share.

use core::time::Duration;

use informer_core::ReflectorConfig;

/// See the methods of a builder.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) config: ReflectorConfig,
    pub(crate) resync: Option<Duration>,
    pub(crate) drain: Duration,
    pub(crate) seed: Option<u64>,
    /// The period of probes.
    pub(crate) probe: Option<Duration>,
    pub(crate) speaks: bool,
}

impl Settings {
    pub(crate) fn probe(&mut self, period: Duration) {
        self.probe = Some(period.max(Duration::from_secs(1)));
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            config: ReflectorConfig::default(),
            resync: None,
            drain: Duration::from_secs(10),
            seed: None,
            probe: None,
            speaks: true,
        }
    }
}

/// The methods of a builder that has [`Settings`].
macro_rules! settings_methods {
    () => {
        /// Sets the seed of the random values: jitter and the timeouts of watches. The default is random. Each informer of a
        /// factory derives its own from it.
        pub const fn seed(mut self, seed: u64) -> Self {
            self.settings.seed = Some(seed);
            self
        }

        /// Sets whether problems are written to stderr if nobody hears of them otherwise: without `on_report` and without
        /// a subscriber of `tracing`. Then each class of problem that the user must solve is written once until a request
        /// succeeds, and before the first list each class of failed requests; at most one line a second. The default is
        /// `true`.
        pub const fn stderr(mut self, writes: bool) -> Self {
            self.settings.speaks = writes;
            self
        }

        /// Sets how the initial state is fetched. The default is a streaming list if the server supports it, and
        /// otherwise a LIST.
        pub const fn initial(mut self, initial: ::informer_core::reflector::Initial) -> Self {
            self.settings.config.initial = initial;
            self
        }

        /// Sets the number of objects per page of a list.
        pub const fn page_size(mut self, size: u32) -> Self {
            self.settings.config.page_size = Some(size);
            self
        }

        /// Sets the default resync period of handlers, in which every object is replayed. A resync sends no request.
        pub const fn resync(mut self, period: ::core::time::Duration) -> Self {
            self.settings.resync = Some(period);
            self
        }

        /// Sets the most bytes that an object may have. A larger object is reported and skipped. The default is 16 MiB.
        pub const fn frame_limit(mut self, bytes: usize) -> Self {
            self.settings.config.frame_limit = bytes;
            self
        }

        /// Sets the delays between attempts.
        pub const fn backoff(mut self, backoff: ::informer_core::time::BackoffConfig) -> Self {
            self.settings.config.backoff = backoff;
            self
        }

        /// Matches client-go wherever a difference is visible from outside; see `docs/DIFFERENCES.md`.
        pub const fn client_go(mut self) -> Self {
            self.settings.config.client_go = true;
            self
        }

        /// Sets how long handlers may take to deliver pending notifications when the informer stops. The default is 10
        /// seconds.
        pub const fn drain(mut self, time: ::core::time::Duration) -> Self {
            self.settings.drain = time;
            self
        }
    };
}
pub(crate) use settings_methods;

/// The methods of a builder that has a `resource` with selectors.
macro_rules! selector_methods {
    () => {
        /// Restricts the informer to objects with these labels. The server selects them.
        pub fn labels(mut self, selector: &str) -> Self {
            self.resource = self.resource.as_ref().labels(selector).into();
            self
        }

        /// Restricts the informer to objects with these fields, given as text or as a
        /// [`FieldSelector`](crate::selector::FieldSelector). The server selects them.
        pub fn fields(mut self, selector: impl AsRef<str>) -> Self {
            self.resource = self.resource.as_ref().fields(selector.as_ref()).into();
            self
        }
    };
}
pub(crate) use selector_methods;
