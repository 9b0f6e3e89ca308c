//! The serial line of the board, a PL011. Received bytes wait in a ring, and sending waits for the line.

use core::cell::RefCell;
use core::convert::Infallible;
use core::future::poll_fn;
use core::task::Poll;

use critical_section::Mutex;
use embassy_sync::waitqueue::AtomicWaker;
use embedded_io_async::{ErrorType, Read, Write};
use heapless::Deque;

use super::{enable, read, write};

pub const INTERRUPT: i16 = 5;

const CLOCKS: usize = 0x400f_e104;
const BASE: usize = 0x4000_c000;
const DATA: usize = BASE;
const FLAGS: usize = BASE + 0x18;
const BAUD_WHOLE: usize = BASE + 0x24;
const BAUD_FRACTION: usize = BASE + 0x28;
const LINE_CONTROL: usize = BASE + 0x2c;
const CONTROL: usize = BASE + 0x30;
const FIFO_LEVELS: usize = BASE + 0x34;
const INTERRUPT_MASK: usize = BASE + 0x38;
const INTERRUPT_CLEAR: usize = BASE + 0x44;

const NOTHING_CAME: u32 = 1 << 4;
const NO_ROOM: u32 = 1 << 5;
/// Bytes have arrived, or have been waiting for a while.
const CAME: u32 = 1 << 4 | 1 << 6;

static RING: Mutex<RefCell<Deque<u8, 256>>> = Mutex::new(RefCell::new(Deque::new()));
static WAKER: AtomicWaker = AtomicWaker::new();

/// The receiving direction of the line.
pub struct Receiver(());

/// The sending direction of the line.
pub struct Sender(());

/// Starts the line: 115,200 bits per second, 8 bits, no parity.
pub fn start() -> (Receiver, Sender) {
    write(CLOCKS, read(CLOCKS) | 1);
    // 12.5 MHz / 16 / 115,200 = 6 + 50 / 64
    write(BAUD_WHOLE, 6);
    write(BAUD_FRACTION, 50);
    // 8 bits, and FIFOs of 16 bytes.
    write(LINE_CONTROL, 0x70);
    write(CONTROL, 0x301);
    write(FIFO_LEVELS, 0);
    write(INTERRUPT_MASK, CAME);
    enable(INTERRUPT);
    (Receiver(()), Sender(()))
}

pub fn handle() {
    // Cleared before the bytes are taken. Otherwise a byte that arrives in between would raise no interrupt.
    write(INTERRUPT_CLEAR, CAME);
    take();
    WAKER.wake();
}

/// Moves received bytes into the ring. If the ring is full, the rest stays in the FIFO, without an interrupt.
fn take() {
    critical_section::with(|token| {
        let mut ring = RING.borrow(token).borrow_mut();
        loop {
            if ring.is_full() {
                write(INTERRUPT_MASK, 0);
                return;
            }
            if read(FLAGS) & NOTHING_CAME != 0 {
                write(INTERRUPT_MASK, CAME);
                return;
            }
            // The upper bits report errors of the byte. The frame's checksum detects them too.
            let _ = ring.push_back(read(DATA) as u8);
        }
    });
}

impl ErrorType for Receiver {
    type Error = Infallible;
}

impl Read for Receiver {
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, Infallible> {
        poll_fn(|cx| {
            WAKER.register(cx.waker());
            take();
            let mut length = 0;
            critical_section::with(|token| {
                let mut ring = RING.borrow(token).borrow_mut();
                for (place, byte) in buf.iter_mut().zip(core::iter::from_fn(|| ring.pop_front())) {
                    *place = byte;
                    length += 1;
                }
            });
            if length == 0 {
                return Poll::Pending;
            }
            // Now there is room for the bytes that were left.
            take();
            Poll::Ready(Ok(length))
        })
        .await
    }
}

impl ErrorType for Sender {
    type Error = Infallible;
}

impl Write for Sender {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, Infallible> {
        for byte in buf {
            // Messages are short, so this wait is too.
            while read(FLAGS) & NO_ROOM != 0 {}
            write(DATA, (*byte).into());
        }
        Ok(buf.len())
    }

    async fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
