//! The network card of the board: a FIFO of words for each direction.

use core::task::Context;

use embassy_net_driver::{Capabilities, Driver, HardwareAddress, LinkState, RxToken, TxToken};
use embassy_sync::waitqueue::AtomicWaker;

use super::{enable, read, write};

pub const INTERRUPT: i16 = 42;

const BASE: usize = 0x4004_8000;
const ACKNOWLEDGE: usize = BASE;
const INTERRUPT_MASK: usize = BASE + 0x04;
const RECEIVE_CONTROL: usize = BASE + 0x08;
const TRANSMIT_CONTROL: usize = BASE + 0x0c;
const DATA: usize = BASE + 0x10;
/// The number of received frames that wait.
const FRAMES: usize = BASE + 0x34;
const TRANSMIT_REQUEST: usize = BASE + 0x38;
/// The longest frame, without its checksum.
const MAX_FRAME: usize = 1514;

static WAKER: AtomicWaker = AtomicWaker::new();

/// The network card.
pub struct Ethernet(());

impl Ethernet {
    pub fn start() -> Self {
        // Emptied, then on.
        write(RECEIVE_CONTROL, 0x10);
        write(RECEIVE_CONTROL, 1);
        write(TRANSMIT_CONTROL, 0xf);
        write(INTERRUPT_MASK, 1);
        enable(INTERRUPT);
        Self(())
    }
}

pub fn handle() {
    write(ACKNOWLEDGE, 0x7f);
    WAKER.wake();
}

pub struct Received;
pub struct Transmit;

impl Driver for Ethernet {
    type RxToken<'a> = Received;
    type TxToken<'a> = Transmit;

    fn receive(&mut self, cx: &mut Context<'_>) -> Option<(Received, Transmit)> {
        // The interrupt is acknowledged while frames still wait, so it does not tell their number.
        WAKER.register(cx.waker());
        (read(FRAMES) > 0).then_some((Received, Transmit))
    }

    fn transmit(&mut self, _cx: &mut Context<'_>) -> Option<Transmit> {
        Some(Transmit)
    }

    fn link_state(&mut self, _cx: &mut Context<'_>) -> LinkState {
        LinkState::Up
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.max_transmission_unit = MAX_FRAME;
        capabilities.max_burst_size = Some(1);
        capabilities
    }

    fn hardware_address(&self) -> HardwareAddress {
        HardwareAddress::Ethernet([0x52, 0x54, 0x00, 0x12, 0x34, 0x56])
    }
}

impl RxToken for Received {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, f: F) -> R {
        let mut frame = [0; MAX_FRAME];
        // The first word has the length, with itself and the checksum, and the first two bytes.
        let first = read(DATA);
        let total = first as usize & 0xffff;
        let mut put = |at: usize, bytes: &[u8]| {
            for (to, from) in frame.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        };
        put(0, &first.to_le_bytes()[2..]);
        for word in 1..total.div_ceil(4) {
            put(4 * word - 2, &read(DATA).to_le_bytes());
        }
        f(&mut frame[..total.saturating_sub(6).min(MAX_FRAME)])
    }
}

impl TxToken for Transmit {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut buffer = [0; MAX_FRAME];
        let frame = &mut buffer[..len.min(MAX_FRAME)];
        let result = f(frame);
        let (first, rest) = frame.split_at(2.min(frame.len()));
        // The length is without the header's 14 bytes.
        let mut word = [0; 4];
        word[..2].copy_from_slice(&(len.saturating_sub(14) as u16).to_le_bytes());
        word[2..2 + first.len()].copy_from_slice(first);
        write(DATA, u32::from_le_bytes(word));
        for four in rest.chunks(4) {
            let mut word = [0; 4];
            word[..four.len()].copy_from_slice(four);
            write(DATA, u32::from_le_bytes(word));
        }
        write(TRANSMIT_REQUEST, 1);
        result
    }
}
