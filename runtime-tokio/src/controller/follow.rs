//! What a controller needs of an informer that it follows.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::predicate::Predicate;
use super::provided::{IntoInformer, Provided};
use super::skip::SkipOf;
use super::sources::{Intake, Watched};
use super::start::Registered;
use super::writes::WriteLog;
use crate::cache::entry::{Entry, Key};
use crate::cache::hashes::Kept;
use crate::cache::shared::MAP;
use crate::handler::HandlerOptions;
use crate::health::Health;

/// Registers with an informer when the controller runs.
pub(super) type Source = Box<dyn FnOnce(&Intake, &HandlerOptions) -> Box<dyn Registered> + Send>;
/// Stops an informer.
pub(super) type StopInformer = Box<dyn Fn() + Send>;
/// Stops an informer, and the future that runs it.
pub(super) type Driven = (StopInformer, BoxFuture<'static, ()>);
/// Passes on the keys that follow from all objects of an informer.
pub(super) type AllKeys = Arc<dyn Fn(&mut dyn FnMut(Key)) + Send + Sync>;
/// Returns the health of an informer.
pub(super) type HealthOf = Arc<dyn Fn() -> Health + Send + Sync>;

/// An informer that a controller follows.
pub(super) struct Followed {
    pub(super) register: Source,
    /// The driver, if the controller runs it.
    pub(super) driver: Option<Driven>,
    /// Its health, if the controller runs it.
    pub(super) health: Option<HealthOf>,
    pub(super) log: Option<WriteLog>,
    pub(super) all: AllKeys,
}

impl Followed {
    /// Takes an informer, and the function that returns the keys of a changed object.
    pub(super) fn new<I, K>(
        informer: I,
        map: impl Fn(&Entry<I::Form>) -> K + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoInformer,
        K: IntoIterator<Item = Key>,
    {
        let Provided {
            informer,
            driver,
            writes: log,
            when,
        } = informer.into_informer();
        if when.as_ref().is_some_and(Predicate::reads_metadata) {
            informer.keep(Kept::Metadata);
        }
        let (mut driven, mut health) = (None::<Driven>, None::<HealthOf>);
        if let Some(driver) = driver {
            let (stopped, shown) = (informer.clone(), informer.clone());
            driven = Some((Box::new(move || stopped.stop()), driver));
            health = Some(Arc::new(move || shown.health()));
        }
        let map = Arc::new(map);
        let (all, mapped) = (informer.lister().uncounted(), Arc::clone(&map));
        let own = log.clone();
        Self {
            driver: driven,
            health,
            log,
            all: Arc::new(move |add| {
                for entry in all.list() {
                    all.hook(MAP, || {
                        mapped(&entry).into_iter().for_each(&mut *add);
                    });
                }
            }),
            register: Box::new(move |intake, options| {
                let map = move |entry: &Entry<I::Form>| map(entry);
                let own = intake.skip.as_ref().zip(own);
                let own = own.map(|(skip, log)| SkipOf::new(skip, &log, &informer.resource()));
                if own.is_some() {
                    informer.keep(Kept::BesideStatus);
                }
                let (handler, lost) = intake.handler(map, when, own);
                let handle = informer.add_intake(options, handler, lost);
                Box::new(Watched { informer, handle })
            }),
        }
    }
}
