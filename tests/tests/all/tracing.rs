//! Spans and events of `tracing`, by a subscriber that collects them.

use core::fmt::Debug;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_mock::{Fault, Verb, json};
use informer_tests::support::{PODS, is_alone, secs, server, server_of};
use informer_tokio::controller::{Controller, Next, Retry};
use informer_tokio::election::{Election, HttpLease};
use informer_tokio::factory::Factory;
use informer_tokio::informer::{AuditConfig, Initial};
use informer_tokio::requests::HttpService as _;
use informer_tokio::requests::{bytes::Bytes, http::Request};
use informer_tokio::{Informer, Raw, boxed};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// A span or an event.
#[derive(Clone, Default, Debug)]
struct Seen {
    /// `event` for an event.
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
    /// The name of the span that it is in.
    within: &'static str,
    /// The number of the span that it is in.
    parent: Option<u64>,
    id: Option<u64>,
    has_ended: bool,
}

impl Seen {
    fn get(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }

    fn all<const N: usize>(&self, fields: [&str; N]) -> [&str; N] {
        fields.map(|field| self.get(field))
    }
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<Seen>>>);

impl Collected {
    /// Collects what this thread does.
    fn begin() -> (Self, DefaultGuard) {
        let all = Self::default();
        let collecting = Registry::default().with(all.clone());
        (all, tracing::subscriber::set_default(collecting))
    }

    fn named(&self, name: &str) -> Vec<Seen> {
        let all = self.0.lock().unwrap();
        all.iter()
            .filter(|seen| seen.name == name)
            .cloned()
            .collect()
    }

    /// What is directly in a span.
    fn within(&self, span: &Seen, name: &str) -> Vec<Seen> {
        let all = self.named(name);
        all.into_iter()
            .filter(|seen| seen.parent == span.id)
            .collect()
    }

    fn change(&self, id: &Id, change: impl FnOnce(&mut Seen)) {
        let mut all = self.0.lock().unwrap();
        // Ids of spans that have ended are used again.
        let mut latest = all.iter_mut().rev();
        if let Some(seen) = latest.find(|seen| seen.id == Some(id.into_u64())) {
            change(seen);
        }
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collected {
    fn on_new_span(&self, new: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let parent = ctx.span(id).and_then(|span| span.parent());
        let mut seen = Seen {
            name: new.metadata().name(),
            within: parent.as_ref().map_or("", |parent| parent.name()),
            parent: parent.map(|parent| parent.id().into_u64()),
            id: Some(id.into_u64()),
            ..Seen::default()
        };
        new.record(&mut seen);
        self.0.lock().unwrap().push(seen);
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, _: Context<'_, S>) {
        self.change(id, |seen| record.record(seen));
    }

    fn on_event(&self, event: &tracing::Event<'_>, ctx: Context<'_, S>) {
        let parent = ctx.event_span(event);
        let mut seen = Seen {
            name: "event",
            within: parent.as_ref().map_or("", |parent| parent.name()),
            parent: parent.map(|parent| parent.id().into_u64()),
            ..Seen::default()
        };
        event.record(&mut seen);
        self.0.lock().unwrap().push(seen);
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.change(&id, |seen| seen.has_ended = true);
    }
}

#[tokio::test(start_paused = true)]
async fn lists_watches_and_requests_have_spans() {
    if !is_alone("tracing::lists_watches_and_requests_have_spans") {
        return;
    }
    let (seen, _guard) = Collected::begin();
    let mock = server_of(["a", "b", "c"]);
    mock.with(|server| {
        server.inject(Fault::overloaded(Some(7)).on(Verb::List));
        let forbidden = Fault::api_status(403, "Forbidden", "no list");
        server.inject(forbidden.on(Verb::List).skip(1));
        server.config_mut().cache_ignores_limit = false;
    });
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .namespace("prod")
        .initial(Initial::List)
        .page_size(2)
        .spawn();
    pods.synced().await.unwrap();
    sleep(secs(1)).await;
    let of_prod = |span: &Seen| {
        let place = span.all(["informer", "resource", "namespace", "cluster"]);
        assert_eq!(place, ["pods.v1", "pods.v1", "prod", ""], "{span:?}");
    };

    let lists = seen.named("list");
    let results = lists.iter().map(|list| list.get("error"));
    assert_eq!(results.collect::<Vec<_>>(), ["", "forbidden", ""]);
    assert_eq!(lists[1].get("otel.status_code"), "ERROR");
    assert!(lists.iter().all(|list| list.has_ended));
    lists.iter().for_each(of_prod);
    let requests = |span: &Seen, field: &str| {
        let requests = seen.within(span, "request");
        let fields = requests.iter().map(|request| request.get(field).to_owned());
        fields.collect::<Vec<_>>()
    };
    assert_eq!(requests(&lists[0], "status"), ["429"]);
    assert_eq!(requests(&lists[1], "status"), ["403"]);
    assert_eq!(requests(&lists[2], "status"), ["200", "200"], "two pages");
    let request = &seen.within(&lists[2], "request")[0];
    assert_eq!(
        request.all(["method", "path", "otel.kind"]),
        [
            "GET",
            "/api/v1/namespaces/prod/pods?limit=2&resourceVersion=0",
            "client"
        ]
    );
    assert!(request.has_ended);
    let reports = seen.within(&lists[0], "event");
    let fields = ["class", "status", "delay", "namespace", "key"];
    assert_eq!(
        reports[0].all(fields),
        ["too-many-requests", "429", "7.0", "prod", ""]
    );
    let refusal = &seen.within(&lists[1], "event")[0];
    assert!(
        refusal
            .get("advice")
            .starts_with("The verb `list` on `pods`")
    );
    // The end of the outage.
    let end = &seen.within(&lists[2], "event")[0];
    let message = end.get("message");
    assert!(
        message.starts_with("requests succeed again, after "),
        "{message}"
    );

    let [watch] = &seen.named("watch")[..] else {
        panic!("{:?}", seen.named("watch"));
    };
    of_prod(watch);
    assert!(!watch.has_ended);
    assert_eq!(requests(watch, "status"), ["200"]);
    mock.with(|server| server.cut_watches());
    sleep(secs(20)).await;
    let watches = seen.named("watch");
    assert!(watches.len() == 2 && watches[0].has_ended);
    pods.stop();
    pods.ended().await;
    assert!(seen.named("watch")[1].has_ended, "the informer is there");
}

#[tokio::test(start_paused = true)]
async fn audits_probes_and_streaming_lists_have_spans() {
    if !is_alone("tracing::audits_probes_and_streaming_lists_have_spans") {
        return;
    }
    let (seen, _guard) = Collected::begin();
    let pods = Informer::<Raw>::builder_for(&server_of(["a"]).transport(), PODS)
        .initial(Initial::Stream)
        .probe(secs(100))
        .audit(AuditConfig::new(secs(150)))
        .spawn();
    pods.synced().await.unwrap();
    sleep(secs(160)).await;
    assert_eq!(seen.named("watch")[0].get("initial_events"), "true");
    for (name, count) in [("probe", 2), ("audit", 1), ("list", 0)] {
        let spans = seen.named(name);
        assert_eq!(spans.len(), count, "{name}");
        for span in spans {
            assert!(span.has_ended && span.get("informer") == "pods.v1");
            let requests = seen.within(&span, "request");
            assert_eq!(requests[0].get("status"), "200");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_has_an_id_and_a_result() {
    if !is_alone("tracing::a_run_has_an_id_and_a_result") {
        return;
    }
    let (seen, _guard) = Collected::begin();
    let mock = server_of(["a"]);
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS).spawn();
    let controller = Controller::new(&pods).name("web");
    let mut service = mock.service();
    let target = "/api/v1/namespaces/prod/pods/a";
    let runs = Arc::new(AtomicU32::new(0));
    tokio::spawn(controller.run_with(
        move |_| {
            let (mut service, runs) = (mock.service(), Arc::clone(&runs));
            async move {
                tracing::info!("at work");
                let read = Request::get(target).body(Bytes::new()).unwrap();
                service.accepted(read).await.unwrap();
                match runs.fetch_add(1, Ordering::SeqCst) {
                    0 => Err("no"),
                    _ => Ok(Next::after(secs(3600))),
                }
            }
        },
        |_| Retry::After(secs(4)),
    ));
    sleep(secs(60)).await;
    let runs = seen.named("reconcile");
    let fields = ["controller", "resource", "namespace", "cluster", "key"];
    for run in &runs {
        let place = run.all(fields);
        assert_eq!(place, ["web", "pods.v1", "prod", "", "prod/a"]);
        assert_eq!(run.get("run").len(), 16);
        assert!(run.has_ended);
        // What user code logs and requests belongs to the run.
        let logged = seen.within(run, "event");
        assert_eq!(logged[0].get("message"), "at work");
        let requests = seen.within(run, "request");
        assert_eq!(
            requests[0].all(["method", "path", "status"]),
            ["GET", target, "200"]
        );
    }
    let ends = ["result", "delay", "otel.status_code"];
    assert_eq!(runs[0].all(ends), ["error", "4.0", "ERROR"]);
    assert_eq!(
        runs.last().unwrap().all(ends),
        ["requeue_after", "3600.0", ""]
    );
    assert!(runs[0].get("run") != runs[1].get("run"));
    let failure = &seen.within(&runs[0], "event")[1];
    assert!(failure.get("message").contains("no"), "{failure:?}");

    // A request outside of a run has a span as well.
    let missing = Request::get("/api/v1/namespaces/prod/pods/b").body(Bytes::new());
    service.accepted(missing.unwrap()).await.unwrap_err();
    let request = seen.named("request").pop().unwrap();
    let ends = ["status", "otel.status_code"];
    assert_eq!((request.within, request.all(ends)), ("", ["404", "ERROR"]));
}

#[tokio::test(start_paused = true)]
async fn spans_and_events_name_the_cluster() {
    if !is_alone("tracing::spans_and_events_name_the_cluster") {
        return;
    }
    let (seen, _guard) = Collected::begin();
    let mock = server();
    let pod = json!({ "metadata": { "namespace": "prod", "name": "web" } });
    mock.put("pods", pod).unwrap();
    let (factory, driver) = Factory::of_clusters().build();
    tokio::spawn(driver.run());
    let pods = factory.raw("pods").unwrap().get();
    let controller = Controller::new(&pods);
    tokio::spawn(controller.run(async |_| Ok::<_, &str>(())));
    mock.with(|server| server.inject(Fault::refuse()));
    factory.join("eu", boxed!(mock.transport()));
    sleep(Duration::from_secs(60)).await;
    let run = &seen.named("reconcile")[0];
    assert_eq!(
        run.all(["cluster", "namespace", "key"]),
        ["eu", "prod", "eu:prod/web"]
    );
    let reports = seen.named("event");
    let refused = |seen: &&Seen| seen.get("class") == "connection-refused";
    let report = reports.iter().find(refused).unwrap();
    assert_eq!(report.all(["cluster", "resource"]), ["eu", "pods.v1"]);
    assert!(["list", "watch"].contains(&report.within), "{report:?}");
}

/// The log shows who leads.
#[tokio::test(start_paused = true)]
async fn each_change_of_the_leader_is_logged() {
    if !is_alone("tracing::each_change_of_the_leader_is_logged") {
        return;
    }
    let (seen, _guard) = Collected::begin();
    let mock = server();
    mock.with(|server| server.add_resource("coordination.k8s.io", "v1", "leases", "Lease", true));
    let candidate = |identity: &str| {
        let lease = HttpLease::new(mock.service(), "prod", "web");
        Election::new(lease, identity, Default::default()).unwrap()
    };
    let (first, election) = candidate("a");
    tokio::spawn(election.run());
    assert!(first.acquired().await);
    let (_second, election) = candidate("b");
    tokio::spawn(election.run());
    sleep(secs(30)).await;
    first.resign().await;
    sleep(secs(30)).await;
    let logged = seen.named("event");
    let logged: Vec<[&str; 2]> = logged
        .iter()
        .map(|it| it.all(["identity", "message"]))
        .collect();
    assert_eq!(
        logged,
        [
            ["a", "leads"],
            ["b", "a leads"],
            ["a", "no longer leads"],
            ["b", "leads"]
        ]
    );
}
