//! The bytes of the objects that were packed last. Index functions and handlers read them without decompressing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes in a program: the objects of a few batches, which handlers take soon.
const MOST_BYTES: usize = 512 << 10;
/// The most bytes of one object.
const MOST_OF_ONE: usize = MOST_BYTES / 8;

/// Those of all packers in the program.
pub(super) static LATEST: Latest = Latest::new();

pub(super) struct Latest(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    /// The oldest first.
    objects: VecDeque<(u64, Arc<Vec<u8>>)>,
    bytes: usize,
}

impl Latest {
    const fn new() -> Self {
        Self(Mutex::new(Queue {
            objects: VecDeque::new(),
            bytes: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Code under this lock cannot panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees all of them.
    pub(super) fn clear(&self) {
        drop(core::mem::take(&mut *self.lock()));
    }

    /// Keeps the bytes of a new object, in place of the oldest ones.
    pub(super) fn put(&self, number: u64, bytes: &[u8]) {
        if bytes.len() > MOST_OF_ONE {
            return;
        }
        // A buffer that nobody reads is used again. It is filled outside of the lock.
        let oldest = self.lock().make_room(bytes.len());
        let mut buffer = oldest
            .and_then(Arc::into_inner)
            // A large buffer would take the place of several small objects.
            .filter(|buffer| buffer.capacity() <= 2 * bytes.len())
            .unwrap_or_default();
        buffer.clear();
        buffer.reserve_exact(bytes.len());
        buffer.extend_from_slice(bytes);
        let mut queue = self.lock();
        // Meanwhile another thread may have taken the room.
        let _ = queue.make_room(buffer.capacity());
        queue.bytes += buffer.capacity();
        queue.objects.push_back((number, Arc::new(buffer)));
    }

    /// Returns the bytes of an object, if it is one of the latest.
    pub(super) fn get(&self, number: u64) -> Option<Arc<Vec<u8>>> {
        let queue = self.lock();
        // Most readers want one of the last.
        let (_, bytes) = queue.objects.iter().rev().find(|(it, _)| *it == number)?;
        Some(Arc::clone(bytes))
    }
}

impl Queue {
    /// Removes the oldest objects until there is room, and returns the last one removed.
    fn make_room(&mut self, bytes: usize) -> Option<Arc<Vec<u8>>> {
        let mut oldest = None;
        while self.bytes + bytes > MOST_BYTES
            && let Some((_, object)) = self.objects.pop_front()
        {
            self.bytes -= object.capacity();
            oldest = Some(object);
        }
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_objects_are_there_and_the_bytes_are_bounded() {
        let latest = Latest::new();
        for number in 0..1000 {
            latest.put(number, &[b'a'; 9_000]);
            assert!(latest.lock().bytes <= MOST_BYTES);
        }
        assert_eq!(latest.get(999).map(|it| it.len()), Some(9_000));
        assert!(latest.get(999 - 50).is_some());
        for number in 1000..2000 {
            latest.put(number, &[b'a'; 100]);
            assert!(latest.lock().bytes <= MOST_BYTES);
        }
        assert!(
            latest.get(1001).is_some(),
            "small buffers for small objects"
        );
        assert!(latest.get(0).is_none());
        latest.put(2000, &vec![b'a'; MOST_OF_ONE + 1]);
        assert!(latest.get(2000).is_none());
    }

    #[test]
    fn a_buffer_that_is_read_stays_as_it_is() {
        let latest = Latest::new();
        latest.put(0, b"first");
        let first = latest.get(0).expect("just put");
        (1..1000).for_each(|number| latest.put(number, &[b'a'; 9_000]));
        assert_eq!(**first, *b"first");
    }
}
