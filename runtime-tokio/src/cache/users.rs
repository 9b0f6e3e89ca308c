//! Who uses an informer that a factory shares.

/// Counts the users of a shared informer, by the references to it; ends the informer with the last of them.
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
