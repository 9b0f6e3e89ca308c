//! The demo API server in a separate process.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::support::PATIENCE;

/// The process of the server, which ends when this is dropped.
pub struct DemoServer {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl DemoServer {
    /// Starts `program`, the binary `demo_server`, with this many Pods.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(program: &str, pods: usize) -> Self {
        let mut process = Command::new(program)
            .arg(pods.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the demo server's binary is there");
        let input = process.stdin.take().expect("it is piped");
        let output = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let mut server = Self {
            process,
            input,
            output,
            url: String::new(),
        };
        server.url = server.line().await;
        server
    }

    /// Returns the URL of the server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Changes one Pod in `changed` (none for 0) and makes all clients relist. Returns the server's version and the
    /// number of Pods.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn relist(&mut self, changed: usize) -> (String, usize) {
        let command = format!("relist {changed}\n");
        self.input
            .write_all(command.as_bytes())
            .await
            .expect("the server reads");
        let line = self.line().await;
        let (version, count) = line.split_once(' ').expect("two numbers");
        (version.to_owned(), count.parse().expect("a number"))
    }

    /// Ends the server and waits for its end.
    ///
    /// # Panics
    /// If it cannot be ended.
    pub async fn stop(mut self) {
        self.process.kill().await.expect("it is ours");
    }

    async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.output.next_line()).await;
        line.expect("the server answers")
            .expect("the pipe is open")
            .expect("the server runs")
    }
}
