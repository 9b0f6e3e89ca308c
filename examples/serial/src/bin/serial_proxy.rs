//! The program at the host's end of a serial line: it sends the device's requests to an API server over HTTP.
//!
//! `serial_proxy --help` describes its arguments.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::std_instead_of_core,
    reason = "it is a program for a terminal"
)]

use std::error::Error;
use std::process::ExitCode;

use informer_hyper::HyperTransport;
use informer_serial::host::{SILENCE, serve};
use tokio::fs::OpenOptions;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

const HELP: &str = "\
serial_proxy (--line FILE | --listen ADDRESS) [--server URL] [--token-file FILE] [--ca FILE]

Receives requests in frames from a device on a serial line, sends them to an API server, and returns the responses.

  --line FILE        the line, such as /dev/ttyUSB0; set its speed first, for example with `stty -F FILE raw 115200`
  --listen ADDRESS   accepts lines as TCP connections, for example from an emulator; the address is printed
  --server URL       the API server; by default, that of the program's Pod
  --token-file FILE  the bearer token, read again every minute
  --ca FILE          the certificate authority of the server
  --help             prints this text
";

struct Options {
    line: Option<String>,
    listen: Option<String>,
    server: Option<String>,
    token_file: Option<String>,
    ca: Option<String>,
}

fn options() -> Option<Options> {
    let mut options = Options {
        line: None,
        listen: None,
        server: None,
        token_file: None,
        ca: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let place = match argument.as_str() {
            "--line" => &mut options.line,
            "--listen" => &mut options.listen,
            "--server" => &mut options.server,
            "--token-file" => &mut options.token_file,
            "--ca" => &mut options.ca,
            _ => return None,
        };
        *place = Some(arguments.next()?);
    }
    (options.line.is_some() != options.listen.is_some()).then_some(options)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if std::env::args()
        .skip(1)
        .any(|argument| argument == "--help" || argument == "-h")
    {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let Some(options) = options() else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    match LocalSet::new().run_until(run(options)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("serial_proxy: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), Box<dyn Error>> {
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
        serve(reader, writer, transport, SILENCE).await?;
        return Err(format!("{path} has ended").into());
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
            if let Err(error) = serve(reader, writer, transport, SILENCE).await {
                eprintln!("serial_proxy: the line of {device}: {error}");
            }
        });
    }
}
