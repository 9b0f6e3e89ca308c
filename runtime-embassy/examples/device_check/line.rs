//! The serial line between a device and the server: the proxy program, and a wire that can be faulty.

use std::error::Error;
use std::io::{self, BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A wire from a device to the program `serial_proxy`.
pub(crate) struct Line {
    program: String,
    server: u16,
    proxy: Proxy,
    address: watch::Sender<SocketAddr>,
    noise: Arc<AtomicU32>,
    port: u16,
}

impl Line {
    /// Starts the program, and waits for a device.
    pub(crate) async fn start(program: &str, server: u16) -> Result<Self, Box<dyn Error>> {
        let proxy = Proxy::start(program, server)?;
        let (address, present) = watch::channel(proxy.address);
        let noise = Arc::new(AtomicU32::new(0));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        tokio::spawn(carry(listener, present, Arc::clone(&noise)));
        Ok(Self {
            program: program.to_owned(),
            server,
            proxy,
            address,
            noise,
            port,
        })
    }

    /// The address of the device's end.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Loses, changes or inserts this many of ten thousand bytes, in both directions.
    pub(crate) fn set_noise(&self, level: u32) {
        self.noise.store(level, Ordering::Relaxed);
    }

    /// Kills the program, and starts it again.
    pub(crate) fn restart_proxy(&mut self) -> Result<(), Box<dyn Error>> {
        self.proxy.kill();
        self.proxy = Proxy::start(&self.program, self.server)?;
        self.address.send(self.proxy.address)?;
        Ok(())
    }
}

struct Proxy {
    process: Child,
    address: SocketAddr,
}

impl Proxy {
    fn start(program: &str, server: u16) -> Result<Self, Box<dyn Error>> {
        let mut process = Command::new(program)
            .args(["--listen", "127.0.0.1:0", "--server"])
            .arg(format!("http://127.0.0.1:{server}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let output = process.stdout.take().ok_or("it has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ");
        let address = address.ok_or_else(|| format!("{program} said `{line}`"))?;
        Ok(Self {
            process,
            address: address.parse()?,
        })
    }

    fn kill(&mut self) {
        // If it has already ended, this fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Carries bytes between the device and the current program, until the device ends.
async fn carry(
    listener: TcpListener,
    mut address: watch::Receiver<SocketAddr>,
    noise: Arc<AtomicU32>,
) -> io::Result<()> {
    let (device, _) = listener.accept().await?;
    device.set_nodelay(true)?;
    let (mut from_device, mut to_device) = device.into_split();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    loop {
        let present = *address.borrow_and_update();
        let Ok(proxy) = TcpStream::connect(present).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        proxy.set_nodelay(true)?;
        let (mut from_proxy, mut to_proxy) = proxy.into_split();
        let (mut one, mut other) = (random.fork(), random.fork());
        let device_is_there = tokio::select! {
            copied = copy(&mut from_device, &mut to_proxy, &noise, &mut one) => copied.is_err(),
            _ = copy(&mut from_proxy, &mut to_device, &noise, &mut other) => true,
        };
        if !device_is_there {
            return Ok(());
        }
    }
}

/// Copies until there is no more to read. An error is a failed write.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    noise: &AtomicU32,
    random: &mut Random,
) -> io::Result<()> {
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let bytes = random.spoil(&buffer[..length], noise.load(Ordering::Relaxed));
        to.write_all(&bytes).await?;
    }
    Ok(())
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    fn fork(&mut self) -> Self {
        Self(u64::from(self.next()) << 32 | u64::from(self.next()) | 1)
    }

    fn spoil(&mut self, bytes: &[u8], level: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for byte in bytes {
            match (self.next() % 10_000 < level).then(|| self.next() % 3) {
                None => out.push(*byte),
                Some(0) => {}
                Some(1) => out.push(self.next() as u8),
                Some(_) => out.extend([self.next() as u8, *byte]),
            }
        }
        out
    }
}
