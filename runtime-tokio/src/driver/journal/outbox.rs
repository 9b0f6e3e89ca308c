//! The driver's end: it gathers operations for the writer, and never waits for a disk.

use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use std::sync::Arc;

use informer_journal::{Identity, Loaded, LostRecords, Record, RecordLog};
use tokio::sync::{mpsc, watch};

/// The most bytes that may be pending. Above this, nothing is read from the server until they are written.
pub(super) const WAITING: usize = 8 << 20;

/// The state that the driver and the writer share.
pub(super) struct SharedState {
    /// The number of pending bytes.
    pub(super) waiting: watch::Sender<usize>,
    /// Whether nothing is written until the next list, which restarts the journal. Set and cleared by the writer.
    pub(super) broken: AtomicBool,
}

/// A pending operation. Its texts are in the buffers of its step.
pub(super) enum Op {
    /// Restarts the journal.
    Restart,
    /// Stores an object, given by the ranges of its key and its data.
    Put(Range, Range),
    Delete(Range),
    /// Deletes an object that a list did not contain.
    Gone(Box<str>),
    Stale(Range),
    Version {
        version: String,
        at: Option<u64>,
        complete: bool,
    },
    #[cfg(test)]
    Panic,
}

/// Several operations, with their texts.
pub(super) struct Operations {
    pub(super) ops: Vec<Op>,
    pub(super) keys: String,
    pub(super) objects: Vec<u8>,
}

impl Operations {
    pub(super) fn bytes(&self) -> usize {
        self.keys.len() + self.objects.len() + self.ops.len() * size_of::<Op>()
    }
}

/// A future that resolves when there is room.
type Room = core::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Gathers the operations for the writer. Nothing here waits for a disk.
pub(crate) struct Outbox {
    pub(super) steps: mpsc::UnboundedSender<Operations>,
    pub(super) state: Arc<SharedState>,
    pub(super) room: Option<Room>,
    /// Requests of the writer for a list.
    pub(super) lists: mpsc::Receiver<()>,
    pub(super) ops: Vec<Op>,
    /// The ranges of the next record's key and data.
    pub(super) place: Option<(Range, Range)>,
}

/// Start and end.
pub(crate) type Range = (usize, usize);

impl Outbox {
    /// Sets the ranges of the next object's texts, which are passed on without a copy. `None` if no object is next.
    pub(crate) const fn at(&mut self, place: Option<(Range, Range)>) {
        self.place = place;
    }

    /// Passes on the gathered operations with their texts.
    pub(crate) fn send(&mut self, keys: &mut String, objects: &mut Vec<u8>) {
        if self.ops.is_empty() {
            objects.clear();
            return;
        }
        let has_objects = self.ops.iter().any(|op| matches!(op, Op::Put(..)));
        let step = Operations {
            ops: core::mem::take(&mut self.ops),
            keys: core::mem::take(keys),
            objects: if has_objects {
                core::mem::take(objects)
            } else {
                Vec::new()
            },
        };
        objects.clear();
        let bytes = step.bytes();
        self.state.waiting.send_modify(|waiting| *waiting += bytes);
        // Without a writer, nothing waits for room any more.
        let _ = self.steps.send(step);
    }

    /// Waits until there is room for more, or until the writer has ended.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (state, steps) = (&self.state, &self.steps);
        let room = match &mut self.room {
            Some(room) => room,
            None if *state.waiting.borrow() < WAITING => return Poll::Ready(()),
            None => {
                let (mut waiting, steps) = (state.waiting.subscribe(), steps.clone());
                self.room.insert(Box::pin(async move {
                    tokio::select! {
                        biased;
                        _ = waiting.wait_for(|waiting| *waiting < WAITING) => {}
                        () = steps.closed() => {}
                    }
                }))
            }
        };
        let waited = room.as_mut().poll(cx);
        if waited.is_ready() {
            self.room = None;
        }
        waited
    }

    /// Waits until a journal that had failed requests a list.
    pub(crate) fn poll_list(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.lists.poll_recv(cx) {
            Poll::Ready(Some(())) => Poll::Ready(()),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

/// The other end does the work: it loads the journal, syncs it and reports failures.
impl RecordLog for Outbox {
    type Error = core::convert::Infallible;

    fn load(
        &mut self,
        _identity: &Identity,
        _take: &mut dyn FnMut(Record<'_>),
        _lost: &mut dyn FnMut(LostRecords),
    ) -> Result<Loaded, Self::Error> {
        Ok(Loaded::Empty)
    }

    fn append(&mut self, record: Record<'_>) -> Result<(), Self::Error> {
        let op = match (record, self.place.take()) {
            (Record::Put { .. }, Some((key, object))) => Op::Put(key, object),
            (Record::Delete { .. }, Some((key, _))) => Op::Delete(key),
            (Record::Delete { key }, None) => Op::Gone(key.into()),
            (Record::Stale { .. }, Some((key, _))) => Op::Stale(key),
            (Record::Version(reached), _) => Op::Version {
                version: reached.version.to_owned(),
                at: reached.at,
                complete: reached.complete,
            },
            // Every object has its ranges set.
            _ => return Ok(()),
        };
        self.ops.push(op);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn compact(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn has_failed(&self) -> bool {
        self.state.broken.load(Ordering::Acquire)
    }

    fn restart(&mut self) -> Result<(), Self::Error> {
        self.ops.push(Op::Restart);
        Ok(())
    }
}
