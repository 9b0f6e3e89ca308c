//! The example `watch` with failures: when it ends, its exit code, and its messages.

use core::time::Duration;
use std::process::Stdio;

use informer_mock::{FakeServer, Fault, Mock, TokioClock, Verb, serve};
use informer_tests::support::PATIENCE;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::watch_cli::{SYNCED, events, fails, program, run_until, text};

type Server = Mock<FakeServer, TokioClock>;

/// Serves this many Pods; also returns the URL.
async fn serve_pods(count: usize) -> (Server, String) {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    for number in 0..count {
        let name = format!("web-{number}");
        mock.create("pods", json!({ "metadata": { "name": name } }))
            .unwrap();
    }
    let serving = serve(mock.clone(), "127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", serving.local_addr());
    tokio::spawn(serving.run());
    (mock, url)
}

fn forbid(server: &Server, verbs: &[Verb]) {
    for &verb in verbs {
        let fault = Fault::api_status(403, "Forbidden", "pods is forbidden")
            .on(verb)
            .always();
        server.with(|server| server.inject(fault));
    }
}

/// The list is shown although no watch is permitted. The informer continues, because the right may be granted later.
#[tokio::test]
async fn without_the_right_to_watch_the_list_is_shown() {
    let (server, url) = serve_pods(3).await;
    forbid(&server, &[Verb::Watch, Verb::Stream]);
    let shown = async |initial: &str| {
        let arguments = ["--server", &url, "--initial", initial, "-o", "json"];
        // The order of notifications and reports is not promised.
        let (mut is_synced, mut is_reported) = (false, false);
        let has_both = |line: &str| {
            is_synced |= line.contains(SYNCED);
            is_reported |= line.contains("\"forbidden\"") && line.contains("\"watch:");
            is_synced && is_reported
        };
        let output = run_until(&arguments, &[], has_both).await;
        assert!(output.status.success(), "{output:?}");
        let events = events(&output);
        let of_class = |event: &Value, class: &str| {
            event["class"] == class && event["message"].as_str().unwrap().starts_with("watch:")
        };
        let kinds: Vec<&str> = events
            .iter()
            .filter(|event| event["event"] != "report")
            .map(|event| event["event"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["add", "add", "add", "synced"], "{initial}");
        let report = events
            .iter()
            .find(|event| of_class(event, "forbidden"))
            .unwrap();
        let message = report["message"].as_str().unwrap();
        assert!(
            message.contains("The verb `watch` on `pods` in all namespaces is missing"),
            "{message}"
        );
    };
    tokio::join!(shown("list"), shown("stream"));
}

#[tokio::test]
async fn a_permanent_error_ends_the_program() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let (server, url) = serve_pods(1).await;
    forbid(&server, &[Verb::List, Verb::Stream]);
    let missing = "The verb `list` on `pods` in the namespace `prod` is missing";
    fails(&["--server", &url, "-n", "prod"], &[&url, "403", missing]).await;

    let (server, url) = serve_pods(1).await;
    for verb in [Verb::List, Verb::Stream] {
        let message = "unable to find \"garbage\" field selector";
        let fault = Fault::api_status(400, "BadRequest", message)
            .on(verb)
            .always();
        server.with(|server| server.inject(fault));
    }
    let garbage = ["--server", &url, "--field-selector", "garbage"];
    fails(&garbage, &[&url, "400", "unable to find"]).await;

    // Behaves like the TLS port of a server written in Go.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            let _ = peer.read(&mut [0; 1024]).await;
            let answer = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
            let _ = peer.write_all(answer).await;
        }
    });
    fails(&["--server", &url], &[&url, "400", "use an `https://` URL"]).await;

    // This source is never synced either, but it may be later.
    let (server, url) = serve_pods(1).await;
    server.with(|server| server.inject(Fault::overloaded(None).always()));
    fails(
        &["--server", &url, "--seconds", "1"],
        &[&url, "not synced", "overloaded"],
    )
    .await;
}

#[tokio::test]
async fn the_end_of_an_outage_is_reported() {
    let (server, url) = serve_pods(1).await;
    server.with(|server| server.inject(Fault::status(503, "no").on(Verb::Watch).times(1)));
    let mut child = Command::new(program())
        .args(["--server", &url, "--initial", "list", "-o", "json"])
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let reading = async {
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["class"] == "recovered" {
                return event["message"].as_str().unwrap().to_owned();
            }
        }
    };
    let message = tokio::time::timeout(PATIENCE, reading).await.unwrap();
    assert!(
        message.contains("the server answers again, after"),
        "{message}"
    );
    assert!(message.contains("1 failed attempt"), "{message}");
    child.kill().await.unwrap();
}

/// Only a closed pipe ends it silently.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_failed_write_to_standard_output_is_an_error() {
    let (reader, gone) = std::io::pipe().unwrap();
    drop(reader);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    for (name, out, code, says) in [
        ("a closed pipe", Stdio::from(gone), 0, ""),
        (
            "a full disk",
            Stdio::from(full),
            1,
            "error: cannot write to standard output: No space left",
        ),
    ] {
        let (_server, url) = serve_pods(1).await;
        let running = Command::new(program())
            .args(["--server", &url])
            .env_remove("RUST_LOG")
            .stdout(out)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
            .wait_with_output();
        let output = tokio::time::timeout(PATIENCE, running)
            .await
            .expect(name)
            .unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{name}: {errors}");
        assert!(errors.starts_with(says), "{name}: {errors}");
        assert_eq!(errors.lines().count(), code as usize, "{name}: {errors}");
    }
}

/// The stop signals of a terminal and of a Pod, while nothing reads the output.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_signal_ends_it_while_a_pipe_is_full() {
    use std::io::Write as _;

    for signal in ["-INT", "-TERM"] {
        let (server, url) = serve_pods(1).await;
        let (reader, mut writer) = std::io::pipe().unwrap();
        // Fills the pipe, so that the first line does not fit.
        writer.write_all(&[0; 65536]).unwrap();
        let mut child = Command::new(program())
            .args(["--server", &url, "--initial", "list"])
            .env_remove("RUST_LOG")
            .stdout(writer)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let watches = async {
            // The objects of the list are being written then.
            while server.log().watches().next().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, watches).await.unwrap();
        let id = child.id().unwrap().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().await;
        assert!(sent.unwrap().success());
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        let status = ended
            .unwrap_or_else(|_| panic!("{signal}: it does not end"))
            .unwrap();
        assert_eq!(status.code(), Some(0), "{signal}: {status}");
        drop(reader);
    }
}
