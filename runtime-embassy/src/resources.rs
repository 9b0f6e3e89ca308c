//! The memory of an informer.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::task::Waker;

use informer_core::{Cache, Object, Storage, cache::CacheConfig};

use crate::waiters::Waiters;

/// The objects of an informer.
pub(crate) type Objects<V, S> = Cache<Object<V, <S as Storage>::Text>, S>;

/// The memory of one informer: its cache, and the state that its parts share. On a device it is in a static.
///
/// ```
/// use informer_embassy::{Inline, Resources};
///
/// type Memory = Inline<32, 80, 2048>;
/// let resources = Resources::<bool, Memory>::new(1);
/// // With 64-bit pointers. It is smaller on a microcontroller.
/// assert!(core::mem::size_of_val(&resources) < 32 * 1024);
/// ```
pub struct Resources<V, S: Storage> {
    pub(crate) cache: RefCell<Objects<V, S>>,
    pub(crate) orders: Cell<Orders>,
    /// The waker of the runner.
    pub(crate) runner: Cell<Option<Waker>>,
    pub(crate) waiters: Waiters,
    /// The number of changes, so that no waiter misses one.
    pub(crate) changes: Cell<u32>,
}

/// The pending commands for the runner.
#[derive(Clone, Copy, Default)]
pub(crate) struct Orders {
    pub(crate) stop: bool,
    pub(crate) relist: bool,
    pub(crate) refill: bool,
    pub(crate) resync: bool,
}

impl<V, S: Storage> Resources<V, S>
where
    S::Text: PartialEq,
{
    /// Creates empty memory. The seed is used for the hashes of the cache.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            cache: RefCell::new(Cache::new(CacheConfig::default(), 1, seed)),
            orders: Cell::new(Orders::default()),
            runner: Cell::new(None),
            waiters: Waiters::new(),
            changes: Cell::new(0),
        }
    }

    /// Changes the commands for the runner, and wakes it.
    pub(crate) fn order(&self, change: impl FnOnce(&mut Orders)) {
        let mut orders = self.orders.get();
        change(&mut orders);
        self.orders.set(orders);
        if let Some(waker) = self.runner.take() {
            waker.wake();
        }
    }

    /// Wakes all waiters after a change.
    pub(crate) fn changed(&self) {
        self.changes.set(self.changes.get().wrapping_add(1));
        self.waiters.wake();
    }
}

impl<V, S: Storage> fmt::Debug for Resources<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources").finish_non_exhaustive()
    }
}
