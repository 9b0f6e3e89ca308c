//! The users of an informer that a factory shares.

/// Stops a shared informer when the last reference to this is dropped.
pub(crate) struct Users(Box<dyn Fn() + Send + Sync>);

impl Users {
    pub(crate) fn new(end: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Box::new(end))
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        (self.0)();
    }
}
