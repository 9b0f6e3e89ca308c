//! The example `watch` as a program: its output and its end.

use core::time::Duration;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use informer_mock::{Mock, ScriptedServer, TokioClock, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

/// The text in the event that ends the initial state.
pub(crate) const SYNCED: &str = r#""event":"synced""#;

pub(crate) fn program() -> PathBuf {
    informer_tests::example("watch")
}

pub(crate) async fn run_with(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    run_until(arguments, environment, |_| false).await
}

/// Runs it until a line of its output is the one waited for, and then ends it as Ctrl-C does.
pub(crate) async fn run_until(
    arguments: &[&str],
    environment: &[(&str, &str)],
    mut is_enough: impl FnMut(&str) -> bool,
) -> Output {
    let mut child = Command::new(program())
        .args(arguments)
        .env_remove("RUST_LOG")
        // The environment of the tests may name a cluster.
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("HOME", "/nowhere")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it can be run");
    let id = child.id().expect("it runs").to_string();
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut errors = child.stderr.take().expect("it is piped");
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let reading = async {
        let (mut begin, mut is_over) = (0, false);
        while lines.read_until(b'\n', &mut stdout).await? > 0 {
            if !is_over && is_enough(text(&stdout[begin..])) {
                is_over = true;
                Command::new("kill").args(["-INT", &id]).status().await?;
            }
            begin = stdout.len();
        }
        Ok(())
    };
    let ended = async {
        tokio::try_join!(reading, errors.read_to_end(&mut stderr))?;
        child.wait().await
    };
    let status = tokio::time::timeout(Duration::from_secs(60), ended).await;
    Output {
        status: status
            .unwrap_or_else(|_| panic!("{arguments:?}: it does not end"))
            .expect("its output can be read"),
        stdout,
        stderr,
    }
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).expect("it is text")
}

/// Checks that it fails with a one-line message that contains all of `says`.
pub(crate) async fn fails(arguments: &[&str], says: &[&str]) {
    fails_with(arguments, &[], says).await;
}

async fn fails_with(arguments: &[&str], environment: &[(&str, &str)], says: &[&str]) {
    let output = run_with(arguments, environment).await;
    let errors = text(&output.stderr);
    assert!(
        !output.status.success(),
        "{arguments:?}: {}\n{errors}",
        output.status
    );
    assert!(
        output.status.code().is_some(),
        "{arguments:?}: it was killed"
    );
    let lines: Vec<&str> = errors
        .lines()
        .filter(|line| line.starts_with("error: "))
        .collect();
    let [line] = lines.as_slice() else {
        panic!("{arguments:?}: not one line says what is wrong:\n{errors}");
    };
    for part in says {
        assert!(
            line.contains(part),
            "{arguments:?}: {line:?} has no {part:?}"
        );
    }
    assert!(!errors.contains("panicked"), "{errors}");
}

#[tokio::test]
async fn invalid_arguments_are_reported_in_one_line() {
    fails(
        &["nosuchthing"],
        &[
            "'nosuchthing'",
            "no built-in resource",
            "plural.version.group",
        ],
    )
    .await;
    fails(&["pods/a/b"], &["'pods/a/b'"]).await;
    fails(&["pods/"], &["'pods/'"]).await;
    fails(&["--frobnicate"], &["'--frobnicate'"]).await;
    fails(&["pods", "services"], &["'services'"]).await;
    fails(&["--resync", "soon"], &["'soon'", "--resync"]).await;
    fails(&["--page-size", "0"], &["--page-size"]).await;
    fails(&["--initial", "guess"], &["'guess'", "--initial"]).await;
    fails(&["--keep", "half"], &["'half'", "--keep"]).await;
    fails(&["-l", ",,"], &["',,'", "label"]).await;
    let protobuf = ["--format", "protobuf", "-o", "json=full"];
    fails(&protobuf, &["--format protobuf"]).await;
    fails(
        &["--demo", "--server", "http://127.0.0.1:1"],
        &["--demo", "--server"],
    )
    .await;
    fails(&["--server", "127.0.0.1:1"], &["127.0.0.1:1"]).await;
    fails(&["--server", "ftp://127.0.0.1"], &["ftp://127.0.0.1"]).await;
    let typo = [("KUBECONFIG", "/nowhere/typo")];
    fails_with(&[], &typo, &["KUBECONFIG=/nowhere/typo", "no such file"]).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_at_once() {
    // This port was free a moment ago, so nothing listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!(
        "http://{}",
        listener.local_addr().expect("it has an address")
    );
    drop(listener);
    let says = [
        "cannot connect",
        "Connection refused",
        "whether the API server runs",
        url.as_str(),
    ];
    fails(&["--server", &url], &says).await;
    fails(&["--server", &url, "--output", "json"], &says).await;
    fails(
        &["--server", &url, "--client-go", "--initial", "stream"],
        &says,
    )
    .await;
}

pub(crate) fn events(output: &Output) -> Vec<Value> {
    let lines = text(&output.stdout).lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

#[tokio::test]
async fn the_demo_prints_json_line_by_line() {
    // Written as for `kubectl get`. Output that is no terminal gets no control sequences, and neither do logs.
    let arguments = ["-A", "-w", "-n", "prod", "--demo", "--output", "json"];
    let mut is_synced = false;
    let is_change = |line: &str| {
        let was_synced = is_synced;
        is_synced |= line.contains(SYNCED);
        was_synced
    };
    let environment = [("RUST_LOG", "debug"), ("TERM", "xterm")];
    let output = run_until(&arguments, &environment, is_change).await;
    let errors = text(&output.stderr);
    assert!(
        !errors.contains('\x1b') && !text(&output.stdout).contains('\x1b'),
        "{errors}"
    );
    // No full stop follows the URL, so that a double click selects the URL alone.
    let url = errors
        .split_whitespace()
        .find(|word| word.starts_with("http://127.0.0.1:"));
    assert!(
        url.is_some_and(|url| url.ends_with(|c: char| c.is_ascii_digit())),
        "{errors}"
    );
    assert!(
        output.status.success(),
        "{}\n{}",
        output.status,
        text(&output.stderr)
    );
    let events = events(&output);
    let synced = events
        .iter()
        .position(|event| event["event"] == "synced")
        .expect("it is synced");
    assert!(synced >= 100, "{synced} Pods");
    for (index, event) in events.iter().enumerate() {
        let kind = event["event"].as_str().expect("each line has an event");
        if index == synced {
            assert_eq!(event, &json!({ "event": "synced" }));
            continue;
        }
        assert!(
            event["key"].as_str().is_some_and(|key| key.contains('/')),
            "{event}"
        );
        assert!(
            event["rv"]
                .as_str()
                .is_some_and(|rv| rv.parse::<u64>().is_ok()),
            "{event}"
        );
        match kind {
            "add" => assert_eq!(event["initial"], index < synced, "{event}"),
            "update" => assert!(event["old_rv"].is_string() && index > synced, "{event}"),
            "delete" => assert!(
                event["final_state_unknown"].is_boolean() && index > synced,
                "{event}"
            ),
            _ => panic!("{event}"),
        }
    }
}

#[tokio::test]
async fn a_table_has_the_columns_of_kubectl() {
    let is_synced = |line: &str| line.starts_with("synced after");
    let output = run_until(&["--demo"], &[], is_synced).await;
    let shown = text(&output.stdout);
    let header = shown.lines().next().expect("a header");
    let columns: Vec<&str> = header.split_whitespace().collect();
    let expected = ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"];
    assert_eq!(columns, expected);
    let legend = "+ added, ~ updated, - deleted, = replayed";
    assert!(shown.lines().any(|line| line == legend), "{shown}");
    let rows = shown
        .lines()
        .filter(|line| line.starts_with("+ ") && *line != legend);
    let rows: Vec<&str> = rows.take(100).collect();
    assert_eq!(rows.len(), 100, "{shown}");
    // A row may widen the columns for those after it, so only the cells are compared.
    let is_table = |row: &&str| {
        let cells: Vec<&str> = row.split("  ").filter(|cell| !cell.is_empty()).collect();
        let status = cells.get(3).map(|status| status.trim_start());
        cells.len() == expected.len()
            && status.is_some_and(|status| status.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    assert!(rows.iter().all(is_table), "{shown}");
    assert!(shown.contains("\nsynced after "), "{shown}");
    assert!(shown.ends_with(" reported\n"), "{shown}");
}

/// One object by its name, and none in a namespace.
#[tokio::test]
async fn a_table_may_have_one_row_or_none() {
    let is_synced = |line: &str| line.starts_with("synced after");
    let output = run_until(
        &["--demo", "deployments.apps/web", "-n", "prod"],
        &[],
        is_synced,
    )
    .await;
    let shown = text(&output.stdout);
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(rows[1][..2], ["+", "web"], "{shown}");
    assert!(shown.contains(", 1 object, "), "{shown}");

    let output = run_until(&["--demo", "-n", "nowhere"], &[], is_synced).await;
    let shown = text(&output.stdout);
    assert!(
        shown.starts_with("no pods in the namespace nowhere\nsynced"),
        "{shown}"
    );
}

#[tokio::test]
async fn full_json_has_the_objects() {
    for keep in ["whole", "packed"] {
        let arguments = ["--demo", "-o", "json=full", "--keep", keep];
        let output = run_until(&arguments, &[], |line| line.contains(SYNCED)).await;
        let events = events(&output);
        assert!(!events.is_empty(), "{}", text(&output.stderr));
        for event in events {
            let key = event["key"]
                .as_str()
                .and_then(|key| key.split('/').next_back());
            assert_eq!(event["object"]["metadata"]["name"].as_str(), key, "{event}");
        }
    }
}

/// Runs it against a script until it has printed a number of events; returns its output and its requests.
async fn scripted(script: &Value, arguments: &[&str], count: usize) -> (Vec<Value>, Vec<Value>) {
    let server = ScriptedServer::from_json(&script.to_string()).expect("a script");
    let mock = Mock::with_clock(server, TokioClock::new());
    let serving = serve(mock.clone(), "127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", serving.local_addr());
    tokio::spawn(serving.run());
    let arguments: Vec<&str> = ["--server", &url, "--output", "json", "--initial", "list"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    let mut printed = 0;
    let is_last = |_: &str| {
        printed += 1;
        printed == count
    };
    let output = run_until(&arguments, &[], is_last).await;
    assert!(
        output.status.success(),
        "{}\n{}",
        output.status,
        text(&output.stderr)
    );
    let lines = mock.with(|server| server.log_lines());
    let requests = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"));
    (events(&output), requests.collect())
}

/// The output does not depend on whether objects are stored raw or compressed.
#[tokio::test]
async fn it_tells_the_same_whatever_it_keeps() {
    let pod = |name: &str, version: u32, phase: &str| {
        json!({ "kind": "Pod", "apiVersion": "v1",
            "metadata": { "name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string() },
            "spec": { "nodeName": "node-7" }, "status": { "phase": phase } })
    };
    // More than are needed to train a dictionary, so that most objects are packed with it.
    let items: Vec<Value> = (1..=1500)
        .map(|n| pod(&format!("p{n}"), n, "Pending"))
        .collect();
    let script = json!({
        "lists": [{ "body": { "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "2000" },
            "items": items } }],
        "watches": [{ "frames": [
            { "type": "MODIFIED", "object": pod("p1", 2001, "Running") },
            { "type": "DELETED", "object": pod("p1500", 2002, "Failed") },
        ], "end": "hold" }],
    });
    let (whole, packed) = (
        scripted(&script, &["--keep", "whole"], 1503),
        scripted(&script, &["--keep", "packed"], 1503),
    );
    let ((whole, _), (packed, _)) = tokio::join!(whole, packed);
    let added = |events: &[Value]| -> std::collections::BTreeSet<String> {
        let added = events.iter().filter(|event| event["event"] == "add");
        added
            .map(|event| format!("{} {}", event["key"], event["rv"]))
            .collect()
    };
    assert_eq!(added(&whole).len(), 1500);
    assert_eq!(added(&whole), added(&packed));
    let rest = [
        json!({ "event": "synced" }),
        json!({ "event": "update", "key": "default/p1", "rv": "2001", "old_rv": "1" }),
        json!({ "event": "delete", "key": "default/p1500", "rv": "2002", "final_state_unknown": false }),
    ];
    assert_eq!(whole[1500..], rest);
    assert_eq!(packed[1500..], rest);
}

/// The option for client-go's behaviour has a visible effect: an object recreated under another uid is an update.
#[tokio::test]
async fn it_does_as_client_go_where_that_is_wanted() {
    let pod = |uid: &str, version: &str| {
        json!({ "kind": "Pod", "apiVersion": "v1",
            "metadata": { "name": "a", "namespace": "default", "uid": uid, "resourceVersion": version } })
    };
    let script = json!({
        "lists": [{ "body": { "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "10" },
            "items": [pod("u1", "5")] } }],
        "watches": [{ "frames": [
            { "type": "MODIFIED", "object": pod("u2", "11") },
            { "type": "DELETED", "object": pod("u2", "12") },
        ], "end": "hold" }],
    });
    let ours = scripted(&script, &[], 5);
    let client_go = scripted(&script, &["--client-go"], 4);
    let ((ours, asked), (client_go, asked_too)) = tokio::join!(ours, client_go);
    let first = json!({ "event": "add", "key": "default/a", "rv": "5", "initial": true });
    let synced = json!({ "event": "synced" });
    let delete = |version: &str| json!({ "event": "delete", "key": "default/a", "rv": version, "final_state_unknown": false });
    let update = json!({ "event": "update", "key": "default/a", "rv": "11", "old_rv": "5" });
    assert_eq!(
        client_go,
        [first.clone(), synced.clone(), update, delete("12")]
    );
    assert_eq!(ours[..2], [first, synced]);
    let kinds: Vec<&Value> = ours[2..].iter().map(|event| &event["event"]).collect();
    assert_eq!(kinds, ["delete", "add", "delete"]);
    for asked in [asked, asked_too] {
        let asked: Vec<String> = asked
            .iter()
            .map(|request| format!("{} {}", request["verb"], request["query"]))
            .collect();
        assert_eq!(
            asked,
            [
                r#""LIST" {"limit":"500","resourceVersion":"0"}"#,
                r#""WATCH" {"allowWatchBookmarks":"true","resourceVersion":"10","watch":"true"}"#,
            ]
        );
    }
}

/// The proxy settings of the environment apply, with their exceptions.
#[tokio::test]
async fn a_proxy_of_the_environment_is_asked() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let arguments = |seconds| {
        let server = "https://kubernetes.invalid:6443";
        ["pods", "--server", server, "--seconds", seconds]
    };
    let asked = async {
        let (mut peer, _) = proxy.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(peer.read_u8().await.unwrap());
        }
        let refused = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
        peer.write_all(refused).await.unwrap();
        String::from_utf8(head).unwrap()
    };
    let environment = [("HTTPS_PROXY", url.as_str())];
    let for_long = arguments("300");
    // It would retry; one request is enough here.
    let head = tokio::select! {
        head = asked => head,
        output = run_with(&for_long, &environment) => panic!("{output:?}"),
    };
    assert!(
        head.starts_with("CONNECT kubernetes.invalid:6443 HTTP/1.1\r\n"),
        "{head}"
    );

    // A new listener, because the first program may have retried before it ended.
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let environment = [("HTTPS_PROXY", url.as_str()), ("NO_PROXY", ".invalid")];
    let shortly = arguments("2");
    let output = tokio::select! {
        _ = proxy.accept() => panic!("it asked the proxy"),
        output = run_with(&shortly, &environment) => output,
    };
    assert!(!output.status.success(), "{output:?}");
}
