//! The informers of a factory.

use core::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use informer_core::{Form, OwnedResource, Report};
use tokio::sync::{mpsc, watch};

use crate::cache::users::Users;
use crate::driver::{Member, Scope};
use crate::erased::BoxTransport;
use crate::health::Health;
use crate::informer::{HasSynced, Informer, Settings};

/// Called with the reports of all informers of a factory.
pub(super) type OnReport = Arc<dyn Fn(&str, &Report<'_>) + Send + Sync>;

pub(super) struct Inner {
    /// The clusters by name. The only one of a factory without clusters has no name.
    pub(super) clusters: Mutex<Clusters>,
    /// Whether clusters join and leave.
    pub(super) of_clusters: bool,
    pub(super) settings: Settings,
    pub(super) on_report: Option<OnReport>,
    pub(super) shared: Mutex<Table>,
    pub(super) status: watch::Sender<Status>,
}

#[derive(Default)]
pub(super) struct Clusters {
    /// The transport of each, and the number of its join.
    pub(super) all: BTreeMap<String, (BoxTransport, u64)>,
    pub(super) joins: u64,
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

/// The number of an informer that no other request shares.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Alone(pub(super) u64);

/// The identity of an informer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct SlotKey {
    pub(super) decoder: TypeId,
    /// [`Decode::distinction`](informer_core::Decode::distinction), or a number of its own.
    pub(super) distinction: Result<u64, Alone>,
    /// Includes its selectors.
    pub(super) resource: OwnedResource,
    pub(super) namespaces: Vec<String>,
    /// The labels of the namespaces that join and leave.
    pub(super) namespaces_where: Option<String>,
    /// The namespaces with selectors of their own.
    pub(super) parts: Vec<OwnedResource>,
}

impl SlotKey {
    /// Returns the sources that the informer has of a cluster, if its namespaces are fixed.
    pub(super) fn scopes(&self, cluster: &str) -> Vec<Scope> {
        let scope = |namespace: &str| (cluster.to_owned(), namespace.to_owned());
        if self.namespaces.is_empty() {
            return vec![scope("")];
        }
        self.namespaces
            .iter()
            .map(|namespace| scope(namespace))
            .collect()
    }
}

pub(super) struct Slot {
    pub(super) number: u64,
    pub(super) informer: Box<dyn AnyInformer>,
    pub(super) in_use: Weak<Users>,
    /// Lets sources join and leave.
    pub(super) members: Option<Members>,
}

pub(super) type Members = mpsc::UnboundedSender<Member<BoxTransport>>;

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

    pub(super) fn clusters(&self) -> MutexGuard<'_, Clusters> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn alone(&self) -> Alone {
        let mut table = self.table();
        table.next += 1;
        Alone(table.next)
    }

    /// Lets a cluster join or leave all informers whose namespaces are fixed. The others follow their namespaces.
    pub(super) fn tell_members(
        &self,
        member: impl Fn(Scope) -> Member<BoxTransport>,
        cluster: &str,
    ) {
        for (key, slot) in &self.table().slots {
            let (None, Some(members)) = (&key.namespaces_where, &slot.members) else {
                continue;
            };
            for scope in key.scopes(cluster) {
                // An error means that the informer has ended.
                let _ = members.send(member(scope));
            }
        }
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
