//! An in-memory line with optional noise between a device and a host.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use embedded_io_async::{ErrorKind, ErrorType, Read, Write};
use informer_core::Transport;
use informer_mock::TokioClock;
use informer_serial::host::serve;
use informer_serial::{SerialLine, SerialTransport};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf,
    WriteHalf, duplex, split,
};
use tokio::task::{JoinHandle, spawn_local};

/// One direction of a line, as on a device.
pub(crate) struct Half<T>(T);

pub(crate) type Device<const B: usize> = SerialTransport<
    'static,
    Half<ReadHalf<DuplexStream>>,
    Half<WriteHalf<DuplexStream>>,
    TokioClock,
    B,
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

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// The noise of a line: this many of ten thousand bytes are lost, changed, or preceded by an inserted one.
#[derive(Clone, Default)]
pub(crate) struct Noise {
    level: Rc<Cell<u64>>,
    hits: Rc<Cell<u64>>,
}

impl Noise {
    pub(crate) fn set(&self, level: u64) {
        self.level.set(level);
    }

    /// Returns the number of damaged bytes.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.get()
    }

    fn spoil(&self, bytes: &[u8], random: &mut Random) -> Vec<u8> {
        let mut out = Vec::new();
        for byte in bytes {
            let is_hit = random.below(10_000) < self.level.get();
            self.hits.set(self.hits.get() + u64::from(is_hit));
            match is_hit.then(|| random.below(4)) {
                None => out.push(*byte),
                Some(0) => {}
                Some(1) => out.push(random.next() as u8),
                Some(2) => out.extend([random.next() as u8, *byte]),
                // Bytes with a special meaning in frames do the most harm.
                Some(_) => out.extend([[0xc0, 0xdb][random.below(2) as usize], *byte]),
            }
        }
        out
    }
}

/// A device, a host, and the line between them.
pub(crate) struct Bench<const B: usize> {
    pub(crate) device: Device<B>,
    pub(crate) noise: Noise,
    host: Rc<RefCell<Option<JoinHandle<()>>>>,
    ends: Rc<RefCell<Option<DuplexStream>>>,
}

impl<const B: usize> Bench<B> {
    /// Starts a host with `transport`, and a task that carries bytes between it and a device, `step` at a time.
    pub(crate) fn start<T: Transport + Clone + 'static>(
        transport: T,
        step: usize,
        seed: u64,
        silence: Duration,
    ) -> Self {
        let (device, near) = duplex(4096);
        let (far, host) = duplex(4096);
        let noise = Noise::default();
        let (near_reader, near_writer) = split(near);
        let (far_reader, far_writer) = split(far);
        for (index, (reader, writer)) in [(near_reader, far_writer), (far_reader, near_writer)]
            .into_iter()
            .enumerate()
        {
            let random = Random::new(seed * 2 + index as u64);
            spawn_local(carry(reader, writer, noise.clone(), random, step));
        }
        let (reader, writer) = split(device);
        let line = SerialLine::new(Half(reader), Half(writer), TokioClock::new(), seed as u32)
            .ask_again_after(Duration::from_millis(50));
        // On a device it is in a static.
        let line: &'static SerialLine<_, _, _, B> = Box::leak(Box::new(line));
        let bench = Self {
            device: line.transport(),
            noise,
            host: Rc::default(),
            ends: Rc::new(RefCell::new(Some(host))),
        };
        bench.run_host(transport, silence);
        bench
    }

    fn run_host<T: Transport + Clone + 'static>(&self, transport: T, silence: Duration) {
        let end = self.ends.borrow_mut().take().unwrap();
        let ends = Rc::clone(&self.ends);
        let host = spawn_local(async move {
            // Returned when the task is aborted.
            let mut end = Returned(Some(end), ends);
            let (reader, writer) = split(end.0.as_mut().unwrap());
            serve(reader, writer, transport, silence).await.unwrap();
        });
        *self.host.borrow_mut() = Some(host);
    }

    /// Ends the host, which loses its state, and starts another one on the same line.
    pub(crate) async fn restart_host<T: Transport + Clone + 'static>(&self, transport: T) {
        let host = self.host.borrow_mut().take().unwrap();
        host.abort();
        assert!(host.await.unwrap_err().is_cancelled());
        self.run_host(transport, Duration::from_secs(60));
    }
}

struct Returned(Option<DuplexStream>, Rc<RefCell<Option<DuplexStream>>>);

impl Drop for Returned {
    fn drop(&mut self) {
        *self.1.borrow_mut() = self.0.take();
    }
}

async fn carry(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    noise: Noise,
    mut random: Random,
    step: usize,
) {
    let mut buffer = vec![0; step];
    while let Ok(length @ 1..) = reader.read(&mut buffer).await {
        let bytes = noise.spoil(&buffer[..length], &mut random);
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
