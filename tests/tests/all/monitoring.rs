//! The dashboard and the alerts of `examples/monitoring`, with the metrics of a running program.

use core::convert::Infallible;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use informer_mock::{Backend, Fault, Mock, MockTransport, TokioClock, Verb, json};
use informer_tests::say;
use informer_tests::support::{PATIENCE, PODS, pod, secs, server_of};
use informer_tokio::controller::{Controller, Task};
use informer_tokio::election::{Election, Leadership, LeaseClient, LeaseRecord, Written};
use informer_tokio::handler::{AsyncHandlers, HandlerOptions};
use informer_tokio::informer::{AuditConfig, Builder, Initial};
use informer_tokio::page::Page;
use informer_tokio::{Informer, Json, Raw};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::health::get;

/// A namespace without a server's right, a slow handler, failing runs and so on: each alert has a reason.
async fn troubled() -> (SocketAddr, Box<dyn core::any::Any>) {
    let mock = server_of(["a", "b"]);
    let relists = of(&mock, "relists").spawn();
    mock.with(|server| server.inject(Fault::expired().on(Verb::Watch).always()));

    let mock = server_of(["a", "b"]);
    let audited = of(&mock, "audited")
        .audit(AuditConfig::new(secs(1)))
        .spawn();
    let options = HandlerOptions::default().name("slow");
    let slow = AsyncHandlers::<Raw>::new().on_add(async |_, _| sleep(secs(600)).await);
    audited.add_async_handler_with(&options, slow);

    let typed = Informer::<Json<Numbered>>::builder_for(&mock.transport(), PODS)
        .name("typed")
        .initial(Initial::List)
        .spawn();
    typed.synced().await.unwrap();
    let mut bad = pod("b", 1);
    bad["spec"]["number"] = json!("five");
    mock.update("pods", bad).unwrap();

    let forbidden = server_of(["a"]);
    forbidden.with(|server| server.inject(Fault::refuse().always()));
    let broken = of(&forbidden, "broken").spawn();
    let (ended, driver) = of(&mock, "ended").build();
    drop(driver);

    // The only worker is busy for ever, and its queue grows.
    let busy = Controller::new(of(&mock, "of the busy one")).name("busy");
    let busy = busy.elected(election(true));
    let failing = Controller::new(of(&mock, "of the failing one")).name("failing");
    let idle = Controller::new(of(&mock, "of the idle one")).name("idle");
    let idle = idle.elected(election(false));
    let page = Page::new("trouble")
        .informer(&relists)
        .informer(&audited)
        .informer(&typed)
        .informer(&broken)
        .informer(&ended)
        .controller(&busy.handle())
        .controller(&failing.handle())
        .controller(&idle.handle());
    tokio::spawn(
        busy.run(async |_: Task<Raw>| core::future::pending::<Result<(), Infallible>>().await),
    );
    tokio::spawn(failing.run(async |_: Task<Raw>| Err::<(), _>("no")));
    tokio::spawn(idle.run(async |_: Task<Raw>| Ok::<_, Infallible>(())));
    let growing = mock.clone();
    tokio::spawn(async move {
        for number in 0.. {
            growing
                .create("pods", pod(&format!("p{number}"), 1))
                .unwrap();
            sleep(Duration::from_millis(200)).await;
            // It is gone, and no event tells.
            let lost = format!("p{}", number / 2);
            let _ = growing.with(|server| server.forget("pods", "prod", &lost));
        }
    });

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, page.router()).await });
    (address, Box::new((mock, forbidden)))
}

fn of<B: Backend + Send + 'static>(
    mock: &Mock<B, TokioClock>,
    name: &str,
) -> Builder<MockTransport<B, TokioClock>, Raw> {
    Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .name(name)
        .initial(Initial::List)
}

/// A Pod without a number has none.
#[derive(Deserialize)]
struct Numbered {
    #[expect(dead_code, reason = "it is only decoded")]
    spec: Number,
}

#[derive(Deserialize)]
struct Number {
    #[expect(dead_code, reason = "it is only decoded")]
    number: Option<u32>,
}

fn election(succeeds: bool) -> (Leadership, Election<Lease>) {
    let lease = Lease {
        succeeds,
        record: None,
    };
    Election::new(lease, "me", Default::default()).unwrap()
}

/// A Lease of one replica.
struct Lease {
    succeeds: bool,
    record: Option<LeaseRecord>,
}

impl LeaseClient for Lease {
    type Error = String;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, String> {
        let record = self.record.clone().map(|record| (record, "1".to_owned()));
        if self.succeeds {
            Ok(record)
        } else {
            Err("no right".to_owned())
        }
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, String> {
        self.record = Some(record.clone());
        Ok(Written::Done("1".to_owned()))
    }

    async fn update(&mut self, record: &LeaseRecord, _: &str, _: bool) -> Result<Written, String> {
        self.create(record).await
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/monitoring")
}

fn file(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// Returns the queries of the dashboard for all informers and controllers.
fn queries_of_the_dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&file("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let queries = targets.flatten().map(|target| {
        let query = target["expr"].as_str().unwrap();
        query
            .replace("$informer", ".*")
            .replace("$controller", ".*")
            .replace("$__rate_interval", "1m")
    });
    queries.collect()
}

/// Returns the rules as a file of Prometheus: the resource has the same below `spec`.
fn rules() -> String {
    let resource = file("rules.yaml");
    let (_, spec) = resource.split_once("\nspec:\n").unwrap();
    let lines = spec.lines().map(|line| line.strip_prefix("  ").unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// A query about a metric that does not exist finds nothing, for ever and without an error.
#[tokio::test]
async fn dashboard_and_alerts_name_metrics_that_exist() {
    let (address, _running) = troubled().await;
    let named = format!("{}\n{}", queries_of_the_dashboard().join("\n"), rules());
    let words = named.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_metric = |word: &&str| {
        let families = [
            "informer_",
            "workqueue_",
            "controller_runtime_",
            "leader_election_",
        ];
        families.iter().any(|family| word.starts_with(family))
    };
    let named: BTreeSet<&str> = words.filter(is_metric).collect();
    assert!(named.len() > 25, "{named:?}");
    let found = async {
        while !get(address, "/").await.1.contains("leads as me") {
            sleep(Duration::from_millis(50)).await;
        }
        loop {
            let (_, text) = get(address, "/metrics").await;
            let series = text.lines().filter(|line| !line.starts_with('#'));
            let names: BTreeSet<&str> = series.filter_map(|line| line.split('{').next()).collect();
            let missing: Vec<_> = named.difference(&names).collect();
            if missing.is_empty() {
                break;
            }
            say(&format!("missing so far: {missing:?}"));
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, found).await.unwrap();
}

/// Each query has a result. PROMETHEUS names the program, which `.ci/run prometheus` provides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs Prometheus: .ci/run prometheus"]
async fn prometheus_evaluates_dashboard_and_alerts() {
    let program = std::env::var("PROMETHEUS").expect("PROMETHEUS names the program");
    let (address, _running) = troubled().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let config = json!({
        "global": { "scrape_interval": "500ms", "evaluation_interval": "500ms" },
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{
            "job_name": "informer",
            "static_configs": [{ "targets": [address.to_string()] }],
        }],
    });
    // JSON is YAML.
    std::fs::write(path("config.yaml"), config.to_string()).unwrap();
    std::fs::write(path("rules.yaml"), rules()).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = free.local_addr().unwrap();
    drop(free);
    let mut prometheus = tokio::process::Command::new(program)
        .arg(format!("--config.file={}", path("config.yaml").display()))
        .arg(format!("--storage.tsdb.path={}", path("data").display()))
        .arg(format!("--web.listen-address={at}"))
        .arg("--log.level=warn")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let evaluated = async {
        // First it does not listen, and then it is not ready.
        while tokio::net::TcpStream::connect(at).await.is_err()
            || get(at, "/-/ready").await.0 != 200
        {
            sleep(Duration::from_millis(100)).await;
        }
        let rules = loop {
            let answer = ask(at, "/api/v1/rules").await;
            let rules = answer["data"]["groups"][0]["rules"].clone();
            let all = rules.as_array().unwrap();
            if all.iter().all(|rule| rule["health"] != "unknown") {
                break all.clone();
            }
            sleep(Duration::from_millis(200)).await;
        };
        let mut queries = queries_of_the_dashboard();
        for rule in &rules {
            assert_eq!(rule["health"], "ok", "{rule}");
            queries.push(at_once(rule["query"].as_str().unwrap()));
        }
        assert!(rules.len() >= 10 && queries.len() >= 40, "{queries:?}");
        for query in queries {
            let path = format!("/api/v1/query?query={}", encoded(&query));
            loop {
                let answer = ask(at, &path).await;
                assert_eq!(answer["status"], "success", "{query}: {answer}");
                let found = answer["data"]["result"].as_array().unwrap();
                if let Some(first) = found.first() {
                    let (count, value) = (found.len(), &first["value"][1]);
                    say(&format!("{query}: {count} results, {value}"));
                    break;
                }
                say(&format!("{query}: nothing yet"));
                sleep(Duration::from_millis(500)).await;
            }
        }
    };
    timeout(secs(90), evaluated).await.unwrap();
    prometheus.kill().await.unwrap();
}

/// Lowers the threshold of an alert: a test does not wait for ten minutes.
fn at_once(query: &str) -> String {
    match query.rsplit_once(" > ") {
        Some((of, threshold)) if threshold.parse::<f64>().is_ok() => format!("{of} > 0"),
        _ => query.to_owned(),
    }
}

async fn ask(at: SocketAddr, path: &str) -> Value {
    let (_, body) = get(at, path).await;
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
