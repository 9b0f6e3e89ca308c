//! An in-memory line with optional noise between a device and a host.

use std::cell::Cell;
use std::rc::Rc;

use embedded_io_async::{ErrorKind, ErrorType, Read, Write};
use informer_core::Transport;
use informer_mock::TokioClock;
use informer_serial::host::serve;
use informer_serial::{SerialLine, SerialTransport};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf,
    WriteHalf, duplex, split,
};
use tokio::task::spawn_local;

/// One direction of a line, as on a device.
pub(crate) struct Half<T>(T);

pub(crate) type Device = SerialTransport<
    'static,
    Half<ReadHalf<DuplexStream>>,
    Half<WriteHalf<DuplexStream>>,
    TokioClock,
>;

impl<T> ErrorType for Half<T> {
    type Error = ErrorKind;
}

impl<T: AsyncRead + Unpin> Read for Half<T> {
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, ErrorKind> {
        self.0.read(buf).await.map_err(|_| ErrorKind::Other)
    }
}

impl<T: AsyncWrite + Unpin> Write for Half<T> {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, ErrorKind> {
        self.0.write(buf).await.map_err(|_| ErrorKind::Other)
    }

    async fn flush(&mut self) -> Result<(), ErrorKind> {
        self.0.flush().await.map_err(|_| ErrorKind::Other)
    }
}

/// Random choices from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % bound.max(1)
    }
}

/// The noise of a line: this many of ten thousand bytes are lost, changed, or preceded by an inserted one.
pub(crate) type Noise = Rc<Cell<u64>>;

/// Starts a host with `transport`, and tasks that carry bytes between it and a device. The line has `room` for this many bytes each way.
pub(crate) fn connect<T: Transport + 'static>(
    transport: T,
    room: usize,
    seed: u64,
) -> (Device, Noise) {
    let (device, near) = duplex(room);
    let (far, host) = duplex(room);
    let noise = Noise::default();
    let (near_reader, near_writer) = split(near);
    let (far_reader, far_writer) = split(far);
    let random = |index| Random::new(seed * 2 + index);
    spawn_local(carry(near_reader, far_writer, noise.clone(), random(0)));
    spawn_local(carry(far_reader, near_writer, noise.clone(), random(1)));
    let (reader, writer) = split(host);
    spawn_local(serve(reader, writer, transport));
    let (reader, writer) = split(device);
    let line = SerialLine::new(Half(reader), Half(writer), TokioClock::new(), seed as u32);
    // On a device it is in a static.
    (Box::leak(Box::new(line)).transport(), noise)
}

async fn carry(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    noise: Noise,
    mut random: Random,
) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = reader.read(&mut buffer).await {
        let mut bytes = Vec::new();
        for byte in &buffer[..length] {
            let is_hit = random.below(10_000) < noise.get();
            // Bytes with a special meaning in frames do the most harm.
            let other = [random.below(256) as u8, 0xc0, 0xdb][random.below(3) as usize];
            match is_hit.then(|| random.below(3)) {
                None => bytes.push(*byte),
                Some(0) => {}
                Some(1) => bytes.push(other),
                Some(_) => bytes.extend([other, *byte]),
            }
        }
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
