//! The informers of a factory.

use core::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use informer_core::{Form, OwnedResource, Report};
use tokio::sync::watch;

use crate::cache::users::Users;
use crate::erased::BoxTransport;
use crate::health::Health;
use crate::informer::{HasSynced, Informer, Settings};

/// Called with the reports of all informers of a factory.
pub(super) type OnReport = Arc<dyn Fn(&str, &Report<'_>) + Send + Sync>;

pub(super) struct Inner {
    /// A `Mutex`, because a transport is `Send` but need not be `Sync`.
    pub(super) transport: Mutex<BoxTransport>,
    pub(super) settings: Settings,
    pub(super) on_report: Option<OnReport>,
    pub(super) shared: Mutex<Table>,
    pub(super) status: watch::Sender<Status>,
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Status {
    pub(super) stopping: bool,
    pub(super) ended: bool,
}

#[derive(Default)]
pub(super) struct Table {
    pub(super) slots: HashMap<SlotKey, Slot>,
    pub(super) next: u64,
}

impl Table {
    /// Removes an informer, unless it has been replaced.
    pub(super) fn remove(&mut self, key: &SlotKey, number: u64) {
        if self.slots.get(key).map(|slot| slot.number) == Some(number) {
            self.slots.remove(key);
        }
    }
}

/// The identity of an informer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct SlotKey {
    pub(super) decoder: TypeId,
    pub(super) fingerprint: u64,
    /// Includes its selectors.
    pub(super) resource: OwnedResource,
    pub(super) namespaces: Vec<String>,
}

pub(super) struct Slot {
    pub(super) number: u64,
    pub(super) informer: Box<dyn AnyInformer>,
    pub(super) in_use: Weak<Users>,
}

/// The operations of a factory on informers of any type.
pub(super) trait AnyInformer: HasSynced {
    fn as_any(&self) -> &dyn Any;
    fn boxed(&self) -> Box<dyn AnyInformer>;
    fn stop(&self);
    fn health(&self) -> Health;
}

impl<F: Form<Stored: Send + Sync + 'static>> AnyInformer for Informer<F> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn boxed(&self) -> Box<dyn AnyInformer> {
        Box::new(self.clone())
    }

    fn stop(&self) {
        Self::stop(self);
    }

    fn health(&self) -> Health {
        Self::health(self)
    }
}

impl Inner {
    // No user code runs under these locks, so the data behind a poisoned lock is consistent.
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn transport(&self) -> BoxTransport {
        self.transport
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn informers(&self) -> Vec<Box<dyn AnyInformer>> {
        let table = self.table();
        table
            .slots
            .values()
            .map(|slot| slot.informer.boxed())
            .collect()
    }

    pub(super) fn status(&self) -> Status {
        *self.status.borrow()
    }
}
