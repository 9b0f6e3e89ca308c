//! Access to the server in frames over the serial line. The program `serial_proxy` at the other end uses HTTP.

use embassy_executor::Spawner;
use informer_embassy::EmbassyTimer;
use informer_serial::{SerialLine, SerialTransport};
use static_cell::StaticCell;

use crate::board::{self, Receiver, Sender};

/// Starts the serial line, and returns a transport to the server.
pub fn transport(
    _spawner: Spawner,
    seed: u64,
) -> Option<SerialTransport<'static, Receiver, Sender, EmbassyTimer>> {
    static LINE: StaticCell<SerialLine<Receiver, Sender, EmbassyTimer>> = StaticCell::new();
    let (receiver, sender) = board::start_uart();
    let line =
        LINE.init_with(|| SerialLine::new(receiver, sender, EmbassyTimer, (seed >> 4) as u32));
    Some(line.transport())
}
