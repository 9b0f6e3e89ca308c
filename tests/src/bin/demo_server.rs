//! A demo API server for tests, in a separate process: `demo_server PODS`.
//!
//! It prints its address when it is ready, reads one command per line, and ends when its input does. After each
//! command it prints `VERSION COUNT`: the server's resourceVersion and the number of Pods. The only command is
//! `relist CHANGE`: it cuts all watches, changes one Pod in CHANGE, deletes and recreates a tenth of that number, and
//! discards all history, so that every client must relist. With 0 nothing changes.

use core::net::Ipv4Addr;
use std::io::{self, Write as _};
use std::process::ExitCode;

use informer_mock::demo::Demo;
use informer_mock::{FakeServer, Mock, MutationError, TokioClock, serve};
use tokio::io::{AsyncBufReadExt as _, BufReader};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is closed, there is no other place to report to.
            let _ = writeln!(io::stderr(), "demo_server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn core::error::Error>> {
    let pods = std::env::args().nth(1).ok_or("how many Pods?")?.parse()?;
    let mut server = FakeServer::new(1);
    Demo::new(1).pods(pods).fill(&mut server);
    let mock = Mock::with_clock(server, TokioClock::new());
    let serving = serve(mock.clone(), (Ipv4Addr::LOCALHOST, 0)).await?;
    say(&format!("http://{}", serving.local_addr()))?;
    tokio::spawn(serving.run());

    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = commands.next_line().await? {
        match line.split_once(' ') {
            Some(("relist", every)) => {
                let every = every.parse()?;
                mock.with(|server| relist(server, every))?;
            }
            _ => return Err(format!("{line}: no such command").into()),
        }
        let (version, count) =
            mock.with(|server| (server.version(), server.objects("pods").count()));
        say(&format!("{version} {count}"))?;
    }
    Ok(())
}

fn relist(server: &mut FakeServer, every: usize) -> Result<(), MutationError> {
    server.cut_watches();
    if every > 0 {
        let pods: Vec<(String, String)> = server
            .objects("pods")
            .step_by(every)
            .map(|pod| (pod.namespace().to_owned(), pod.name().to_owned()))
            .collect();
        for (index, (namespace, name)) in pods.iter().enumerate() {
            let Some(mut pod) = server.get("pods", namespace, name) else {
                continue;
            };
            if index % 10 == 0 {
                // Makes deleted and added objects.
                server.delete("pods", namespace, name)?;
                pod["metadata"]["name"] = format!("{name}-again").into();
                pod["metadata"]["uid"] = "".into();
                pod["metadata"]["resourceVersion"] = "".into();
                server.create("pods", pod)?;
            } else {
                pod["status"]["message"] = format!("changed at {}", server.version()).into();
                server.update("pods", pod)?;
            }
        }
    }
    server.compact_all();
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
