//! A decoder whose calls on different threads wait for each other, so that the jobs of a pool end in any order.

use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::ThreadId;

use informer_core::{Decode, Decoder, Raw, RawObject};

use super::user::{Picky, User};

/// Decodes like [`Picky`].
pub(super) struct Gated {
    picky: Picky,
    is_costly: bool,
    driver: ThreadId,
    gate: Arc<Gate>,
}

/// Counts calls. Some calls wait until a few more calls on other threads have started.
struct Gate {
    seed: u64,
    calls: Mutex<u64>,
    changed: Condvar,
}

/// The maximum wait of a call, in real time. Only the order in which jobs end depends on it.
const WAIT: Duration = Duration::from_micros(500);

impl Gated {
    pub(super) fn new(user: &Arc<User>, is_costly: bool, seed: u64) -> Self {
        Self {
            picky: Picky(Arc::clone(user)),
            is_costly,
            driver: std::thread::current().id(),
            gate: Arc::new(Gate {
                seed,
                calls: Mutex::new(0),
                changed: Condvar::new(),
            }),
        }
    }
}

impl Gate {
    fn pass(&self, is_elsewhere: bool) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls += 1;
        self.changed.notify_all();
        let waits = (*calls ^ self.seed) % 3;
        if is_elsewhere && waits > 0 {
            let until = *calls + waits;
            // Without a further call, the wait times out.
            drop(
                self.changed
                    .wait_timeout_while(calls, WAIT, |calls| *calls < until),
            );
        }
    }
}

impl Decode for Gated {
    type Value = Raw;
    type Error = &'static str;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Raw, Self::Error> {
        self.gate
            .pass(self.is_costly && std::thread::current().id() != self.driver);
        self.picky.decode(raw)
    }

    fn restore(&self, raw: &RawObject<'_>) -> Result<Raw, Self::Error> {
        let is_refused = self.picky.0.refuses_restore();
        let is_odd = raw
            .json()
            .windows(14)
            .any(|part| part == br#""parity":"odd""#);
        if is_refused && is_odd {
            return Err("refused as planned");
        }
        let Ok(restored) = Decoder::<Raw>::new().restore(raw);
        Ok(restored)
    }

    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        Decoder::<Raw>::new().persist(raw, keep);
    }

    fn is_costly(&self) -> bool {
        self.is_costly
    }

    fn is_in_pieces(&self) -> bool {
        self.is_costly && self.gate.seed.is_multiple_of(2)
    }
}
