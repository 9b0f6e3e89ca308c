//! The program at the host's end of a serial line: it sends the device's requests to an API server over HTTP.
//!
//! `serial_proxy --help` describes its arguments.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::std_instead_of_core,
    reason = "it is a program for a terminal"
)]

use core::convert::Infallible;
use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use informer_hyper::HyperTransport;
use informer_serial::host::serve;
use tokio::fs::OpenOptions;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

/// Receives requests in frames from a device on a serial line, sends them to an API server, and returns the responses.
#[derive(Parser)]
struct Options {
    /// The line, such as /dev/ttyUSB0; set its speed first, for example with `stty -F FILE raw 115200`.
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    line: Option<String>,
    /// Accepts lines as TCP connections, for example from an emulator; the address is printed.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The API server; by default, that of the program's Pod.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The bearer token, read again every minute.
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
    /// The certificate authority of the server.
    #[arg(long, value_name = "FILE")]
    ca: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Err(error) = LocalSet::new().run_until(run(Options::parse())).await;
    eprintln!("serial_proxy: {error}");
    ExitCode::FAILURE
}

async fn run(options: Options) -> Result<Infallible, Box<dyn Error>> {
    let mut builder = match options.server {
        Some(url) => HyperTransport::builder(url),
        None => HyperTransport::in_cluster()?,
    };
    if let Some(file) = options.token_file {
        builder = builder.bearer_token_file(file);
    }
    if let Some(file) = options.ca {
        builder = builder.root_certificates_file(file);
    }
    let transport = builder.build()?;

    if let Some(path) = options.line {
        let open = async |read: bool| {
            let mut how = OpenOptions::new();
            let opened = how.read(read).write(!read).open(&path).await;
            opened.map_err(|error| format!("{path}: {error}"))
        };
        let (reader, writer) = (open(true).await?, open(false).await?);
        println!("serving the line {path}");
        let Err(error) = serve(reader, writer, transport).await;
        return Err(format!("{path}: {error}").into());
    }
    let address = options.listen.unwrap_or_default();
    let listener = TcpListener::bind(&address)
        .await
        .map_err(|error| format!("{address}: {error}"))?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, device) = listener.accept().await?;
        // Frames are small, and the other end waits for each.
        stream.set_nodelay(true)?;
        let transport = transport.clone();
        tokio::task::spawn_local(async move {
            let (reader, writer) = stream.into_split();
            let Err(error) = serve(reader, writer, transport).await;
            eprintln!("serial_proxy: the line of {device}: {error}");
        });
    }
}
