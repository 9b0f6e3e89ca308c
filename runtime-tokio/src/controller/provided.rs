//! Everything that a controller can be given as an informer.

use core::fmt;

use informer_core::transport::BoxFuture;
use informer_core::{Decode, Form, transport::SendTransport};

use super::owned::{Owned, Owner};
use super::predicate::Predicate;
use super::writes::WriteLog;
use crate::cache::entry::Entry;
use crate::factory::Request;
use crate::informer::{Builder, Informer};

/// Something that provides an informer for a [`Controller`](super::Controller): an [`Informer`], its [`Builder`], a
/// [`Request`] to a factory, or [`Provided`] for custom implementations.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not provide an informer",
    note = "pass an `Informer`, a reference to it, its `Builder`, or a request to a `Factory`"
)]
pub trait IntoInformer {
    /// The form in which objects are stored.
    type Form: Form<Stored: Send + Sync + 'static>;

    /// Returns the informer, and everything that the controller needs to run it.
    fn into_informer(self) -> Provided<Self::Form>;

    /// Restricts the controller to changes for which a predicate holds.
    fn when(self, predicate: Predicate<Self::Form>) -> When<Self>
    where
        Self: Sized,
    {
        When {
            informer: self,
            predicate,
        }
    }
}

/// Something that provides an informer of objects with owners, for [`Controller::owns`](super::Controller::owns).
#[diagnostic::on_unimplemented(
    message = "the owners of the objects of `{Self}` cannot be read",
    note = "cache the owned resource as `Raw`, `Meta` or `Packed`, or as a struct that implements `OwnedObject`"
)]
pub trait IntoOwned: IntoInformer {
    /// Returns the owner that manages an object; `None` if there is none.
    fn owner(entry: &Entry<Self::Form>) -> Option<Owner>;

    /// Returns all owners of an object. By default only the one that manages it is known.
    fn owners(entry: &Entry<Self::Form>) -> Vec<Owner> {
        Self::owner(entry).into_iter().collect()
    }
}

/// An informer for a controller, with the driver that the controller runs, and the log of writes to wait for.
pub struct Provided<F: Form> {
    pub(super) informer: Informer<F>,
    pub(super) driver: Option<BoxFuture<'static, ()>>,
    pub(super) writes: Option<WriteLog>,
    pub(super) when: Option<Predicate<F>>,
}

impl<F: Form<Stored: Send + Sync + 'static>> Provided<F> {
    /// Lets the controller run the informer's driver.
    fn with_driver(mut self, driver: impl Future<Output = ()> + Send + 'static) -> Self {
        self.driver = Some(Box::pin(driver));
        self
    }

    /// Attaches the informer to a log, and lets the controller wait for the writes in it.
    ///
    /// ```
    /// use informer_tokio::{Informer, Raw};
    /// use informer_tokio::controller::{Controller, Provided, WriteLog};
    /// # fn example(webs: Informer<Raw>) {
    /// let log = WriteLog::default(); // The client gets it as well: `RecordWrites::new(transport, &log)`.
    /// let controller = Controller::new(Provided::from(webs).with_writes(&log));
    /// # }
    /// ```
    #[must_use]
    pub fn with_writes(mut self, log: &WriteLog) -> Self {
        log.attach(&self.informer);
        self.writes = Some(log.clone());
        self
    }
}

/// Provides an informer whose driver runs elsewhere.
impl<F: Form> From<Informer<F>> for Provided<F> {
    fn from(informer: Informer<F>) -> Self {
        Self {
            informer,
            driver: None,
            writes: None,
            when: None,
        }
    }
}

impl<F: Form> fmt::Debug for Provided<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provided")
            .field("informer", &self.informer)
            .finish_non_exhaustive()
    }
}

impl<F: Form<Stored: Send + Sync + 'static>> IntoInformer for Provided<F> {
    type Form = F;

    fn into_informer(self) -> Self {
        self
    }
}

impl<F: Form<Stored: Send + Sync + 'static>> IntoInformer for Informer<F> {
    type Form = F;

    fn into_informer(self) -> Provided<F> {
        Provided::from(self)
    }
}

impl<F: Form<Stored: Send + Sync + 'static>> IntoInformer for &Informer<F> {
    type Form = F;

    fn into_informer(self) -> Provided<F> {
        Provided::from(self.clone())
    }
}

/// The controller runs the driver, and stops the informer when it ends.
impl<T, F, D> IntoInformer for Builder<T, F, D>
where
    T: SendTransport,
    F: Form<Stored: Send + Sync + 'static>,
    D: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    type Form = F;

    fn into_informer(self) -> Provided<F> {
        let (informer, driver) = self.boxed().build();
        Provided::from(informer).with_driver(driver.run())
    }
}

/// The driver of the factory runs the informer.
impl<F, D> IntoInformer for Request<'_, F, D>
where
    F: Form<Stored: Send + Sync + 'static>,
    D: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    type Form = F;

    fn into_informer(self) -> Provided<F> {
        Provided::from(self.get())
    }
}

/// An informer of whose changes only those are used for which a predicate holds; see [`IntoInformer::when`].
#[derive(Debug)]
pub struct When<I: IntoInformer> {
    pub(super) informer: I,
    pub(super) predicate: Predicate<I::Form>,
}

impl<I: IntoInformer> IntoInformer for When<I> {
    type Form = I::Form;

    fn into_informer(self) -> Provided<I::Form> {
        let mut provided = self.informer.into_informer();
        provided.when = Some(match provided.when {
            Some(other) => other & self.predicate,
            None => self.predicate,
        });
        provided
    }
}

impl<I: IntoOwned> IntoOwned for When<I> {
    fn owner(entry: &Entry<I::Form>) -> Option<Owner> {
        I::owner(entry)
    }

    fn owners(entry: &Entry<I::Form>) -> Vec<Owner> {
        I::owners(entry)
    }
}

/// Implements `IntoOwned` by the stored object.
macro_rules! owned {
    ($(impl($($generics:tt)*) for $type:ty;)*) => {$(
        impl<F, $($generics)*> IntoOwned for $type
        where
            Self: IntoInformer<Form = F>,
            F: Form<Stored: Owned + Send + Sync + 'static>,
        {
            fn owner(entry: &Entry<F>) -> Option<Owner> {
                entry.value().controller()
            }

            fn owners(entry: &Entry<F>) -> Vec<Owner> {
                entry.value().owners()
            }
        }
    )*};
}

owned! {
    impl() for Provided<F>;
    impl() for Informer<F>;
    impl() for &Informer<F>;
    impl(T, D) for Builder<T, F, D>;
    impl(D) for Request<'_, F, D>;
}
