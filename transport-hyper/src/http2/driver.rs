//! The work that moves an HTTP/2 connection on, done by whoever waits for something of it.

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
use crate::http2::health::{Health, Watched};
use crate::stream::Stream;

/// The I/O of one connection, shared by all who have a stream on it.
///
/// There is no task of its own that could drive the I/O, and any of those who share it may not be polled for long. So
/// everyone who is polled and finds nothing drives it for all, and what comes from the socket or the clock wakes all
/// who wait. The first of them does the work, and h2 wakes those for whom there is something; for the others it is a
/// look at a flag.
pub(super) struct Driver {
    io: Mutex<Option<Io>>,
    /// Whether there may be something to do. It is taken back before the work and looked at again after it, so nobody
    /// has to wait for the lock: who cannot have it leaves the work to its holder.
    woken: AtomicBool,
    /// How many are about to drive anyway, so that nobody else is to be woken.
    quiet: AtomicUsize,
    waiters: Mutex<Waiters>,
    death: OnceLock<HyperError>,
    server: Arc<Address>,
}

pub(super) struct Io {
    pub(super) connection: Connection<Watched<Stream>, Bytes>,
    pub(super) health: Option<Health>,
}

impl Driver {
    pub(super) fn new(server: Arc<Address>, io: Io) -> Self {
        Self {
            io: Mutex::new(Some(io)),
            woken: AtomicBool::new(true),
            quiet: AtomicUsize::new(0),
            waiters: Mutex::default(),
            death: OnceLock::new(),
            server,
        }
    }

    /// Moves the connection on as far as it goes, where there may be something to do.
    pub(super) fn drive(self: &Arc<Self>) {
        for _ in 0..MOST_IN_A_ROW {
            if !self.woken.load(Ordering::SeqCst) {
                return;
            }
            let Some(mut io) = self.try_lock() else {
                return; // Its holder looks at the flag after it has let go.
            };
            self.woken.store(false, Ordering::SeqCst);
            self.poll(&mut io);
        }
        // It goes on and on, so others are to run as well. Whoever comes first goes on with it.
        if self.woken.load(Ordering::SeqCst) {
            self.wake_all();
        }
    }

    /// Moves the connection on, also where nothing says that there is something to do.
    pub(super) fn drive_now(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.drive();
    }

    /// Does something that makes work for the connection, and the work.
    pub(super) fn and_drive<T>(self: &Arc<Self>, act: impl FnOnce() -> T) -> T {
        self.quiet.fetch_add(1, Ordering::SeqCst);
        let done = act();
        self.quiet.fetch_sub(1, Ordering::SeqCst);
        self.drive();
        done
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        let io = self
            .io
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(io);
    }

    pub(super) fn has_ended(&self) -> bool {
        // Who holds the lock is driving, and so it has not ended yet.
        self.try_lock().is_some_and(|io| io.is_none())
    }

    /// Why the connection has ended, where that is known better here than by its streams.
    pub(super) fn death(&self) -> Option<&HyperError> {
        self.death.get()
    }

    pub(super) fn register(&self, ticket: &mut Ticket, waker: &Waker) {
        let replaced = self.waiters().register(ticket, waker);
        drop(replaced); // Outside the lock: it may be the last thing that holds a task.
    }

    pub(super) fn leave(&self, ticket: &mut Ticket) {
        let removed = self.waiters().remove(ticket);
        drop(removed);
    }

    fn poll(self: &Arc<Self>, slot: &mut Option<Io>) {
        let Some(io) = slot else { return };
        let waker = Waker::from(Arc::clone(self));
        let cx = &mut Context::from_waker(&waker);
        // What has come is read before silence is judged.
        if Pin::new(&mut io.connection).poll(cx).is_ready() {
            *slot = None; // Each stream knows why.
            return;
        }
        if let Some(health) = &mut io.health
            && let Poll::Ready(silence) = health.poll_dead(cx)
        {
            let _ = self.death.set(HyperError::silent(&self.server, silence));
            *slot = None;
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Io>>> {
        use std::sync::TryLockError;
        match self.io.try_lock() {
            Ok(io) => Some(io),
            Err(TryLockError::Poisoned(poisoned)) => {
                // h2 has panicked in the middle of something.
                let mut io = poisoned.into_inner();
                *io = None;
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
            waiters.0.iter_mut().filter_map(Place::take).collect()
        };
        for waker in wakers {
            waker.wake();
        }
    }
}

/// What the socket, the clock and h2 wake.
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

/// A second round sends what the first brought about, a third what came meanwhile.
const MOST_IN_A_ROW: usize = 3;

/// Those who wait, each at its own place.
#[derive(Default)]
struct Waiters(Vec<Place>);

enum Place {
    Free,
    Taken(Option<Waker>),
}

/// A place among those who wait.
#[derive(Default)]
pub(super) struct Ticket(Option<usize>);

impl Waiters {
    fn register(&mut self, ticket: &mut Ticket, waker: &Waker) -> Option<Waker> {
        let index = *ticket.0.get_or_insert_with(|| self.free());
        let place = self.0.get_mut(index)?;
        if let Place::Taken(Some(known)) = place
            && known.will_wake(waker)
        {
            return None;
        }
        core::mem::replace(place, Place::Taken(Some(waker.clone()))).into_waker()
    }

    fn free(&mut self) -> usize {
        let free = self.0.iter().position(|place| matches!(place, Place::Free));
        free.unwrap_or_else(|| {
            self.0.push(Place::Free);
            self.0.len() - 1
        })
    }

    fn remove(&mut self, ticket: &mut Ticket) -> Option<Waker> {
        let place = self.0.get_mut(ticket.0.take()?)?;
        core::mem::replace(place, Place::Free).into_waker()
    }
}

impl Place {
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
