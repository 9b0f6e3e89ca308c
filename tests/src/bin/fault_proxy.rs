//! A proxy that injects faults into TCP connections: `fault_proxy --to HOST:PORT`.
//!
//! It prints its address, reads one command per line, and ends when its input does: `delay MS`, `bandwidth BYTES` (0:
//! unlimited), `stall`, `go`, `freeze`, `refuse`, `accept`, `close`, `reset`, `cut-after BYTES`, `cut-next-at BYTES`,
//! `calm`, `status`. With `--seed N` it injects random faults.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser;
use informer_tests::proxy::{Chaos, Cut, FaultProxy};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// Injects faults into TCP connections.
#[derive(Parser)]
struct Options {
    /// Where to listen; left out, a free port of this machine
    #[arg(long)]
    listen: Option<SocketAddr>,

    /// Where to connect to
    #[arg(long)]
    to: SocketAddr,

    /// Injects faults by itself, from this seed
    #[arg(long)]
    seed: Option<u64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is closed, there is no other place to report to.
            let _ = writeln!(io::stderr(), "fault_proxy: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), Box<dyn core::error::Error>> {
    let proxy = FaultProxy::start(options.listen, options.to).await?;
    say(&proxy.address().to_string())?;
    let chaos = async {
        let Some(seed) = options.seed else {
            return core::future::pending().await;
        };
        let mut chaos = Chaos::new(seed);
        loop {
            chaos.step(&proxy).await;
        }
    };
    let commands = async {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Some(line) = lines.next_line().await? {
            command(&proxy, &line)?;
        }
        Ok(())
    };
    tokio::select! {
        result = commands => result,
        () = chaos => Ok(()),
    }
}

fn command(proxy: &FaultProxy, line: &str) -> Result<(), Box<dyn core::error::Error>> {
    let line = line.trim();
    let (word, number) = line.split_once(' ').unwrap_or((line, "0"));
    let number: u32 = number.parse()?;
    match word {
        "delay" => proxy.delay(Duration::from_millis(number.into())),
        "bandwidth" => proxy.bandwidth((number > 0).then_some(number)),
        "stall" => proxy.stall(true),
        "go" => proxy.stall(false),
        "freeze" => proxy.freeze(),
        "refuse" => proxy.refuse(true),
        "accept" => proxy.refuse(false),
        "close" => proxy.cut(Cut::Close),
        "reset" => proxy.cut(Cut::Reset),
        "cut-after" => proxy.cut_after(number.into(), Cut::Close),
        "cut-next-at" => proxy.cut_next_at(number.into(), Cut::Close),
        "calm" => proxy.calm(),
        "status" => {}
        _ => return Err(format!("{line}: no such command").into()),
    }
    say(&format!(
        "{} accepted, {} there, {} bytes down",
        proxy.accepted(),
        proxy.connections(),
        proxy.bytes_down()
    ))?;
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
