//! The I/O of an HTTP/2 connection, driven by the tasks that wait for its streams.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use h2::client::Connection;

use crate::address::Address;
use crate::error::HyperError;
use crate::http2::health::Health;
use crate::stream::Stream;

/// The I/O of one connection, shared by all its streams.
///
/// The connection has no task of its own, and any of its streams may not be polled for a long time. So each stream that
/// is polled and has nothing to return drives the I/O for all of them, and the socket and the timer wake all waiting
/// streams. The first one polled does the work, and h2 wakes the streams that have received something; the others only
/// read a flag.
pub(super) struct Driver {
    /// Locked only by `drive`, which checks `woken` after unlocking, and when the connection is closed. A task that
    /// fails to take the lock leaves the work to the lock's holder, so any other holder would lose a wake-up.
    io: Mutex<Option<Io>>,
    /// Whether there may be work to do. It is cleared before the work and checked again after it.
    woken: AtomicBool,
    /// Set once the I/O has been dropped.
    ended: AtomicBool,
    /// The number of tasks that are about to drive the connection, during which nobody else needs to be woken.
    quiet: AtomicUsize,
    waiters: Mutex<Waiters>,
    death: OnceLock<HyperError>,
    server: Arc<Address>,
}

pub(super) struct Io {
    pub(super) connection: Connection<Stream, Bytes>,
    pub(super) health: Option<Health>,
}

impl Driver {
    pub(super) fn new(server: Arc<Address>, io: Io) -> Self {
        Self {
            io: Mutex::new(Some(io)),
            woken: AtomicBool::new(true),
            ended: AtomicBool::new(false),
            quiet: AtomicUsize::new(0),
            waiters: Mutex::default(),
            death: OnceLock::new(),
            server,
        }
    }

    /// Drives the I/O as far as it goes, if there may be work to do.
    pub(super) fn drive(self: &Arc<Self>) {
        for _ in 0..MOST_IN_A_ROW {
            if !self.woken.load(Ordering::SeqCst) {
                return;
            }
            let Some(mut io) = self.try_lock() else {
                return; // The lock's holder checks the flag after unlocking.
            };
            self.woken.store(false, Ordering::SeqCst);
            self.poll(&mut io);
        }
        // There is more work than one task should do in a row. The first task to be polled continues with it.
        if self.woken.load(Ordering::SeqCst) {
            self.wake_all();
        }
    }

    /// Drives the I/O even if no event has announced work.
    pub(super) fn drive_now(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.drive();
    }

    /// Performs an action that creates work for the connection, and then drives the I/O.
    pub(super) fn and_drive<T>(self: &Arc<Self>, act: impl FnOnce() -> T) -> T {
        self.quiet.fetch_add(1, Ordering::SeqCst);
        let done = act();
        self.quiet.fetch_sub(1, Ordering::SeqCst);
        self.drive();
        done
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        let mut io = self.io.lock().unwrap_or_else(PoisonError::into_inner);
        self.end(&mut io);
    }

    /// Returns whether the connection has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    fn end(&self, io: &mut Option<Io>) {
        *io = None;
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Returns whether there is work that nobody has done yet.
    #[cfg(test)]
    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    /// The reason why the connection ended, if it is more precise than the error that its streams get.
    pub(super) fn death(&self) -> Option<&HyperError> {
        self.death.get()
    }

    pub(super) fn register(&self, ticket: &mut Ticket, waker: &Waker) {
        let replaced = self.waiters().register(ticket, waker);
        drop(replaced); // Outside of the lock: it may be the last reference to a task.
    }

    pub(super) fn leave(&self, ticket: &mut Ticket) {
        let removed = self.waiters().remove(ticket);
        drop(removed);
    }

    fn poll(self: &Arc<Self>, slot: &mut Option<Io>) {
        let Some(io) = slot else { return };
        let waker = Waker::from(Arc::clone(self));
        let cx = &mut Context::from_waker(&waker);
        // Received data is read before the connection may be declared dead.
        if Pin::new(&mut io.connection).poll(cx).is_ready() {
            self.end(slot); // h2 gives the reason to each stream.
            return;
        }
        if let Some(health) = &mut io.health
            && let Poll::Ready(silence) = health.poll_dead(cx)
        {
            let _ = self.death.set(HyperError::silent(&self.server, silence));
            self.end(slot);
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Io>>> {
        use std::sync::TryLockError;
        match self.io.try_lock() {
            Ok(io) => Some(io),
            Err(TryLockError::Poisoned(poisoned)) => {
                // h2 has panicked, so its state may be inconsistent.
                let mut io = poisoned.into_inner();
                self.end(&mut io);
                Some(io)
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        let wakers: Vec<_> = {
            let mut waiters = self.waiters();
            waiters.0.iter_mut().filter_map(WaiterSlot::take).collect()
        };
        for waker in wakers {
            waker.wake();
        }
    }
}

/// The waker given to the socket, the timer and h2.
impl Wake for Driver {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if self.quiet.load(Ordering::SeqCst) == 0 {
            self.wake_all();
        }
    }
}

/// The second round sends the results of the first, and the third handles events that arrived during the second.
const MOST_IN_A_ROW: usize = 3;

/// The wakers of all waiting tasks, each at a fixed place.
#[derive(Default)]
struct Waiters(Vec<WaiterSlot>);

enum WaiterSlot {
    Free,
    Taken(Option<Waker>),
}

/// A task's place among the waiters.
#[derive(Default)]
pub(super) struct Ticket(Option<usize>);

impl Waiters {
    fn register(&mut self, ticket: &mut Ticket, waker: &Waker) -> Option<Waker> {
        let index = *ticket.0.get_or_insert_with(|| self.free());
        let place = self.0.get_mut(index)?;
        if let WaiterSlot::Taken(Some(known)) = place
            && known.will_wake(waker)
        {
            return None;
        }
        core::mem::replace(place, WaiterSlot::Taken(Some(waker.clone()))).into_waker()
    }

    fn free(&mut self) -> usize {
        let free = self
            .0
            .iter()
            .position(|place| matches!(place, WaiterSlot::Free));
        free.unwrap_or_else(|| {
            self.0.push(WaiterSlot::Free);
            self.0.len() - 1
        })
    }

    fn remove(&mut self, ticket: &mut Ticket) -> Option<Waker> {
        let place = self.0.get_mut(ticket.0.take()?)?;
        core::mem::replace(place, WaiterSlot::Free).into_waker()
    }
}

impl WaiterSlot {
    fn take(&mut self) -> Option<Waker> {
        match self {
            Self::Free => None,
            Self::Taken(waker) => waker.take(),
        }
    }

    fn into_waker(self) -> Option<Waker> {
        match self {
            Self::Free => None,
            Self::Taken(waker) => waker,
        }
    }
}
