//! Runs the examples of controllers against a server, each with its documented command, and the small controller of
//! `docs/same-controller`, which exists in three versions.

use std::path::Path;
use std::process::Stdio;

use informer_mock::{FakeServer, Mock, MutationError, TokioClock, serve};
use informer_tests::{example, support::PATIENCE};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

fn start(name: &str, folder: &Path) -> Child {
    let mut command = Command::new(example(name));
    command
        .current_dir(folder)
        .env_remove("RUST_LOG")
        // The environment of the tests may name a cluster.
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("POD_NAME", "a")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command.spawn().unwrap()
}

/// Starts an example and waits until it has printed lines with these beginnings, in any order.
async fn shows(name: &str, folder: &Path, wanted: &[&str]) {
    let mut child = start(name, folder);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut wanted = wanted.to_vec();
    let mut shown = Vec::new();
    let reading = async {
        while !wanted.is_empty() {
            let line = lines.next_line().await.unwrap();
            let line = line.unwrap_or_else(|| panic!("{name} ended: {shown:#?}"));
            wanted.retain(|wanted| !line.starts_with(wanted));
            shown.push(line);
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, reading).await;
    assert!(in_time.is_ok(), "{name} has not shown {wanted:?}");
    child.kill().await.unwrap();
}

#[tokio::test]
async fn each_runs_by_its_one_command() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tokio::join!(
        shows(
            "load_balancer",
            at,
            &["prod/web is configured", "prod/mail is configured"]
        ),
        shows("firewall", at, &["firewall.nft is written"]),
        shows("sample_controller", at, &["prod/shop has", "prod/blog has"]),
    );
    let text = std::fs::read_to_string(at.join("firewall.nft")).unwrap();
    assert!(text.contains("10.0.0.3"), "{text}");
    let text = std::fs::read_to_string(at.join("load-balancer.json")).unwrap();
    let balancer: Value = serde_json::from_str(&text).unwrap();
    assert!(balancer.to_string().contains("30080"), "{balancer}");
}

/// An example reports what the cluster lacks.
#[tokio::test]
async fn an_example_reports_a_resource_that_the_cluster_lacks() {
    let server = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    let serving = serve(server, "127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", serving.local_addr());
    tokio::spawn(serving.run());
    let mut child = Command::new(example("sample_controller"))
        .args(["--server", &url])
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let reading = async {
        loop {
            let line = lines.next_line().await.unwrap().expect("it goes on");
            if line.contains("webs") && line.contains("404") {
                return;
            }
        }
    };
    let reported = tokio::time::timeout(PATIENCE, reading).await;
    assert!(reported.is_ok(), "nothing is said of what is missing");
    child.kill().await.unwrap();
}

type Server = Mock<FakeServer, TokioClock>;

/// Waits until the ConfigMap of a namespace has this value.
async fn until_team(server: &Server, namespace: &str, team: &str) -> Value {
    let waiting = async {
        loop {
            let map = server.with(|server| server.get("configmaps", namespace, "team"));
            if let Some(map) = map.filter(|map| map["data"]["team"] == team) {
                return map;
            }
            tokio::time::sleep(core::time::Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, waiting).await;
    in_time.unwrap_or_else(|_| panic!("{namespace} does not become one of {team}"))
}

fn namespace(name: &str, labels: Value) -> Value {
    json!({ "metadata": { "name": name, "labels": labels } })
}

/// The work of the small controller, the same for all three versions.
async fn does_its_work(server: &Server) -> Result<(), MutationError> {
    let map = until_team(server, "prod", "blue").await;
    let owner = &map["metadata"]["ownerReferences"][0];
    let uid =
        server.with(|server| server.get("namespaces", "", "prod").unwrap())["metadata"]["uid"]
            .clone();
    assert_eq!((&owner["name"], &owner["uid"]), (&json!("prod"), &uid));
    assert_eq!(map["metadata"]["labels"]["made-by"], "teams");
    // Someone edits it, and someone deletes it.
    let mut by_hand = map.clone();
    by_hand["data"]["team"] = json!("red");
    server.update("configmaps", by_hand)?;
    until_team(server, "prod", "blue").await;
    server.delete("configmaps", "prod", "team")?;
    until_team(server, "prod", "blue").await;
    // Another namespace with another team.
    server.create("namespaces", namespace("test", json!({ "team": "green" })))?;
    until_team(server, "test", "green").await;
    server.put("namespaces", namespace("prod", json!({ "team": "grey" })))?;
    until_team(server, "prod", "grey").await;
    let others = server.with(|server| server.get("configmaps", "other", "team"));
    assert_eq!(others, None);
    Ok(())
}

/// Runs `docs/same-controller/ours.rs`, or the program named by `SAME_CONTROLLER`, which is how those in other libraries
/// are tested.
#[tokio::test]
async fn the_small_controller_does_its_work() {
    runs("same_controller").await;
}

#[tokio::test]
async fn the_small_controller_of_the_crate_alone_does_its_work() {
    runs("alone").await;
}

async fn runs(name: &str) {
    let server = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    server.with(|server| server.add_resource("coordination.k8s.io", "v1", "leases", "Lease", true));
    for (name, labels) in [("prod", json!({ "team": "blue" })), ("other", json!({}))] {
        server
            .create("namespaces", namespace(name, labels))
            .unwrap();
    }
    let serving = serve(server.clone(), "127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": format!("http://{}", serving.local_addr()) } }],
        "users": [{ "name": "test", "user": {} }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
    });
    std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    tokio::spawn(serving.run());
    let mut child = match std::env::var_os("SAME_CONTROLLER") {
        None => start(name, folder.path()),
        Some(program) => Command::new(program)
            .env("KUBECONFIG", folder.path().join("kubeconfig"))
            .kill_on_drop(true)
            .spawn()
            .unwrap(),
    };
    does_its_work(&server).await.unwrap();
    // The stop signal of a Pod ends it, on platforms with signals.
    #[cfg(unix)]
    {
        let id = child.id().unwrap().to_string();
        let interrupt = Command::new("kill").args(["-TERM", &id]).status().await;
        assert!(interrupt.unwrap().success());
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        assert!(ended.unwrap().unwrap().success());
    }
    #[cfg(not(unix))]
    child.kill().await.unwrap();
}
