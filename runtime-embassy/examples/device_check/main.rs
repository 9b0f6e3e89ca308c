//! Checks the image of `examples/device` in an emulator: `device_check IMAGE`, or `device_check IMAGE PROXY` if the
//! device has a serial line. PROXY is the program at the other end of the line. `examples/device/run` runs this check.
//!
//! It starts an API server on loopback and QEMU with the image. Then it changes objects, cuts, resets and refuses
//! connections, expires the version, and creates more objects than fit, and waits for the device to print each change.
//! A serial line is disturbed and cut, and its program is killed. At the end it compares the cache that the device
//! prints with the server.
#![allow(
    clippy::print_stdout,
    clippy::std_instead_of_core,
    reason = "it is a program for a terminal"
)]

mod line;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use informer_mock::{FakeServer, Fault, Mock, TokioClock, Verb, serve};
use line::Line;
use serde_json::json;
use tokio::sync::mpsc;

/// How long the device may take to print something. It is ample: nothing here measures speed.
const PATIENCE: Duration = Duration::from_secs(120);
const KIND: &str = "configmaps";
const HELP: &str = "\
device_check IMAGE [PROXY]

Runs an image of examples/device in an emulator, against a server with faults, and compares the device's cache with it.

  IMAGE   the image, which `examples/device/run` builds
  PROXY   the program at the other end of the serial line, if the device has one
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(image) = std::env::args().nth(1) else {
        print!("{HELP}");
        return ExitCode::from(2);
    };
    if image == "--help" || image == "-h" {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let proxy = std::env::args().nth(2);
    match check(&image, proxy.as_deref()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn check(image: &str, proxy: Option<&str>) -> Result<(), Box<dyn Error>> {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    let serving = serve(mock.clone(), "127.0.0.1:0").await?;
    let port = serving.local_addr().port();
    tokio::spawn(serving.run());

    let mut server = Server { mock, written: 0 };
    for n in 0..10 {
        server.put(&format!("m{n}"))?;
    }
    let mut line = match proxy {
        Some(program) => Some(Line::start(program, port).await?),
        None => None,
    };
    let mut device = Device::start(image, port, line.as_ref())?;
    device.until("synced").await?;
    device.all_of(&server.notified("+", 0..10)).await?;

    disturb(&mut server, &mut device).await?;
    if let Some(line) = &mut line {
        spoil(line, &mut server, &mut device).await?;
    }
    fill(&mut server, &mut device).await?;

    println!("-- the end");
    server.put_in("device", "end")?;
    let cache = device.end().await?;
    let expected = server.all();
    if cache != expected {
        return Err(format!("the device has {cache:#?}\nthe server has {expected:#?}").into());
    }
    println!(
        "the device and the server have the same {} objects",
        cache.len()
    );
    Ok(())
}

/// Changes, and faults of the server and of connections.
async fn disturb(server: &mut Server, device: &mut Device) -> Result<(), Box<dyn Error>> {
    println!("-- changes");
    server.put("m1")?;
    server.put("m10")?;
    server.delete("m2")?;
    let expected = [
        server.notified("~", [1]),
        server.notified("+", [10]),
        vec!["- prod/m2".to_owned()],
    ];
    device.all_of(&expected.concat()).await?;

    println!("-- a watch is cut, and something changes meanwhile");
    server.mock.with(FakeServer::cut_watches);
    server.put("m3")?;
    device.all_of(&server.notified("~", [3])).await?;

    println!("-- connections are reset before and within answers");
    server.mock.with(|server| {
        server.inject(Fault::reset().times(2));
        server.inject(Fault::nothing().cut_inside_event(1).on(Verb::Watch));
        server.cut_watches();
    });
    server.put("m4")?;
    server.put("m5")?;
    device.all_of(&server.notified("~", [4, 5])).await?;
    server.put("m4")?;
    device.all_of(&server.notified("~", [4])).await?;

    println!("-- the version expires: 410");
    server.mock.with(FakeServer::cut_watches);
    server.put("m6")?;
    server.delete("m7")?;
    server.put("m11")?;
    server.mock.with(FakeServer::compact_all);
    let expected = [
        server.notified("~", [6]),
        server.notified("+", [11]),
        vec!["- prod/m7".to_owned()],
    ];
    device.until("410").await?;
    device.all_of(&expected.concat()).await?;

    println!("-- the server is overloaded, then has a bad answer");
    server.mock.with(|server| {
        server.inject(Fault::overloaded(Some(1)).times(2));
        server.inject(Fault::html());
        server.cut_watches();
    });
    server.put("m8")?;
    device.all_of(&server.notified("~", [8])).await
}

/// More objects than the device has room for.
async fn fill(server: &mut Server, device: &mut Device) -> Result<(), Box<dyn Error>> {
    println!("-- more than the memory holds, and room again");
    // If events arrive one by one, each deletion causes a relist while an object has no room, with growing delays. So
    // two objects have no room.
    let last = 43;
    for n in 20..=last {
        server.put(&format!("m{n}"))?;
    }
    device.until("no room").await?;
    for n in 20..40 {
        server.delete(&format!("m{n}"))?;
    }
    // The last ones had no room, and arrive with the relist when there is room.
    device.until(&server.notified("+", [last])[0]).await
}

/// Faults of a serial line and of its program.
async fn spoil(
    line: &mut Line,
    server: &mut Server,
    device: &mut Device,
) -> Result<(), Box<dyn Error>> {
    // Each damaged frame ends a watch, so most of them have to arrive.
    println!("-- of two thousand bytes one is lost, changed or invented");
    line.set_noise(5);
    for _ in 0..5 {
        server.put("m1")?;
        device.all_of(&server.notified("~", [1])).await?;
    }

    println!("-- nothing comes through, and then all does");
    device.forget();
    line.set_noise(10_000);
    device.until("timed out").await?;
    server.put("m3")?;
    line.set_noise(0);
    device.all_of(&server.notified("~", [3])).await?;

    println!("-- the program at the other end is killed, and started again");
    // The new program does not know the device's watch, so the device opens another one silently.
    line.restart_proxy()?;
    server.put("m4")?;
    device.all_of(&server.notified("~", [4])).await
}

struct Server {
    mock: Mock<FakeServer, TokioClock>,
    written: u32,
}

impl Server {
    fn put(&mut self, name: &str) -> Result<(), Box<dyn Error>> {
        self.put_in("prod", name)
    }

    fn put_in(&mut self, namespace: &str, name: &str) -> Result<(), Box<dyn Error>> {
        self.written += 1;
        let object = json!({
            "metadata": { "namespace": namespace, "name": name },
            "data": { "value": format!("v{} \u{e9}\"", self.written), "other": "x".repeat(300) }
        });
        self.mock.put(KIND, object)?;
        Ok(())
    }

    fn delete(&self, name: &str) -> Result<(), Box<dyn Error>> {
        self.mock.delete(KIND, "prod", name)?;
        Ok(())
    }

    /// The device's lines for objects in their current state.
    fn notified(&self, sign: &str, numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
        let all = self.all();
        let line = |n: u32| {
            let key = format!("prod/m{n}");
            format!("{sign} {key} {}", all.get(&key).map_or("?", String::as_str))
        };
        numbers.into_iter().map(line).collect()
    }

    /// The version and value of each object, by its key.
    fn all(&self) -> BTreeMap<String, String> {
        self.mock.with(|server| {
            let objects = server.objects(KIND);
            let shown = objects.filter_map(|object| {
                let value = server.get(KIND, object.namespace(), object.name())?;
                let version = value["metadata"]["resourceVersion"].as_str()?;
                let text = format!("{version} {}", value["data"]["value"].as_str()?);
                Some((format!("{}/{}", object.namespace(), object.name()), text))
            });
            shown.collect()
        })
    }
}

struct Device {
    process: Child,
    lines: mpsc::UnboundedReceiver<String>,
    /// The printed lines that nobody has waited for.
    unread: Vec<String>,
}

impl Device {
    /// Starts it with a network card, or with a serial line if there is one.
    fn start(image: &str, port: u16, line: Option<&Line>) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new("qemu-system-arm");
        command.args(["-M", "lm3s6965evb", "-display", "none", "-monitor", "none"]);
        match line {
            Some(line) => command
                .args(["-nic", "none", "-serial", "chardev:line", "-chardev"])
                .arg(format!(
                    "socket,id=line,host=127.0.0.1,port={},nodelay=on",
                    line.port()
                )),
            None => command.args(["-nic", "user,ipv6=off", "-serial", "null"]),
        };
        let mut process = command
            .arg("-semihosting-config")
            .arg(format!("enable=on,target=native,arg=device,arg={port}"))
            .args(["-kernel", image])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("qemu-system-arm: {error}"))?;
        let output = process.stdout.take().ok_or("it has no output")?;
        let (send, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                println!("   {line}");
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            process,
            lines,
            unread: Vec::new(),
        })
    }

    /// Forgets all lines that were printed so far.
    fn forget(&mut self) {
        while self.lines.try_recv().is_ok() {}
        self.unread.clear();
    }

    /// Waits for a line with this text. Earlier lines can still be awaited.
    async fn until(&mut self, text: &str) -> Result<(), Box<dyn Error>> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.unread.iter().position(|line| line.contains(text)) {
                self.unread.remove(at);
                return Ok(());
            }
            match tokio::time::timeout_at(end.into(), self.lines.recv()).await {
                Ok(Some(line)) => self.unread.push(line),
                Ok(None) => return Err(format!("the device ended before `{text}`").into()),
                Err(_) => return Err(format!("the device did not say `{text}`").into()),
            }
        }
    }

    async fn all_of(&mut self, lines: &[String]) -> Result<(), Box<dyn Error>> {
        for line in lines {
            self.until(line).await?;
        }
        Ok(())
    }

    /// Waits for its end, and returns the cache that it printed.
    async fn end(&mut self) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
        let mut cache = BTreeMap::new();
        let end = Instant::now() + PATIENCE;
        while let Some(line) = tokio::time::timeout_at(end.into(), self.lines.recv()).await? {
            let mut words = line.splitn(3, ' ');
            if let (Some("cache"), Some(key), Some(rest)) =
                (words.next(), words.next(), words.next())
            {
                cache.insert(key.to_owned(), rest.to_owned());
            }
        }
        let status = self.process.wait()?;
        if !status.success() {
            return Err(format!("the device ended with {status}").into());
        }
        Ok(cache)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // If it has already ended, this fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
