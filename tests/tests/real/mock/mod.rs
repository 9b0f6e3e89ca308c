//! The same requests, sent to kube-apiserver and to `informer-mock`.
//!
//! `requests.txt` has the requests: a name, a method, a path and options, with the body in the line below. `[a|b]` in a
//! path stands for several requests, which are sent together. `${name.rv}` is the resourceVersion in the answer to the
//! request `name`; `.uid` and `.continue` follow the same rule. The options:
//!
//! | | |
//! |---|---|
//! | `@accept=…`, `@type=…` | the headers `Accept` and `Content-Type` |
//! | `@user=…` | the user who asks, if it is not the administrator |
//! | `@watch` | the body is read while further requests are sent |
//! | `@mock` | the mock gets the fault "overloaded" for it |
//!
//! `!compact` lets every version so far expire, and `!pause` waits until a definition is served. `differences.rs` has the expected differences and their reasons;
//! `docs/generated/MOCK-DIFFERENCES.md` shows them. `UPDATE=1` writes that file.

mod answer;
mod differences;
mod script;

use core::fmt::Write as _;
use core::time::Duration;
use std::collections::BTreeMap;
use std::path::Path;

use informer_mock::{Config, FakeServer, Fault, Mock, TokioClock, serve};
use informer_tests::real::{Outcome, Plane, ensure};
use informer_tests::say;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use self::answer::{Answer, Side, both, differences};
use self::differences::EXPECTED;
use self::script::{Ask, Line, parse};
use crate::Context;

/// A watch whose body is being read.
type Reading = (Ask, JoinHandle<Outcome<[Answer; 2]>>);

/// Both servers answer alike, except for the expected differences.
pub(crate) async fn answers_as_the_server_does(context: Context) -> Outcome {
    let plane = Plane::start(context.assets()?, &[]).await?;
    prepare(&plane, &context).await?;
    let mut settings = Config::default();
    // The control plane has no controllers, and no garbage collector.
    settings.collects_garbage = false;
    settings.requires_namespaces = true;
    settings.graceful_pods = true;
    let server = FakeServer::with_config(1, settings);
    let mock = Mock::with_clock(server, TokioClock::new());
    for definition in definitions() {
        mock.with(|server| server.add_definition(&definition))?;
    }
    let serving = serve(mock.clone(), "127.0.0.1:0").await?;
    let address = format!("http://{}", serving.local_addr());
    let server = tokio::spawn(serving.run());

    let config = plane.cluster().await?.config().clone();
    let mut trial = Trial {
        real: Side::new(config, Some(plane.variable("TOKEN")?))?,
        fake: Side::plain(address.parse()?)?,
        sections: Vec::new(),
        found: BTreeMap::new(),
    };
    let mut readings = Vec::new();
    for line in parse(include_str!("requests.txt"))? {
        match line {
            Line::Section(title) => {
                trial.finish(&mut readings).await?;
                trial.sections.push((title, 0, 0));
            }
            Line::Compact => {
                trial.finish(&mut readings).await?;
                plane
                    .compact(&trial.real.last_version().to_string())
                    .await?;
                plane.stop().await?;
                plane.restart(&[]).await?;
                mock.with(FakeServer::compact_all);
            }
            Line::Pause => tokio::time::sleep(Duration::from_secs(5)).await,
            Line::Ask(asks) => trial.ask(asks, &mock, &mut readings).await?,
        }
    }
    trial.finish(&mut readings).await?;
    server.abort();
    trial.judge()
}

/// Creates what is no part of the comparison: custom resources, and a user who gets no seat.
async fn prepare(plane: &Plane, context: &Context) -> Outcome {
    let kubectl = context.kubectl_at(plane.kubeconfig())?;
    for definition in definitions() {
        kubectl.apply(&definition.to_string()).await?;
    }
    kubectl.apply(NO_SEATS).await?;
    let established = [
        "wait",
        "--for=condition=established",
        "crd/widgets.example.com",
        "crd/gizmos.example.com",
    ];
    kubectl.run(&established).await?;
    let rights = [
        "create",
        "clusterrolebinding",
        "limited",
        "--clusterrole=cluster-admin",
        "--user=limited",
    ];
    kubectl.run(&rights).await?;
    for _ in 0..100 {
        if kubectl.run(&["get", "widgets,gizmos"]).await.is_ok() {
            return Ok(());
        }
    }
    Err("the custom resource is not served".into())
}

/// Returns the definitions of the custom resources: Widgets, which may have any fields, and Gizmos with a strict schema.
fn definitions() -> [Value; 2] {
    let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let mut spec = free.clone();
    spec["properties"] = json!({ "color": { "type": "string" } });
    let mut schema = free.clone();
    schema["properties"] = json!({ "spec": spec, "status": free });
    let widgets = json!({
        "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
        "selectableFields": [{ "jsonPath": ".spec.color" }], "schema": { "openAPIV3Schema": schema },
    });
    let text = json!({ "type": "string" });
    let number = json!({ "type": "integer" });
    let keyed = |key: &str, properties: Value| {
        json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key],
            "items": { "type": "object", "required": [key], "properties": properties },
        })
    };
    let spec = json!({
        "type": "object", "required": ["color"], "properties": {
            "color": { "type": "string", "enum": ["red", "blue"] },
            "size": { "type": "integer", "minimum": 1, "maximum": 10 },
            "short": { "type": "integer", "format": "int32" },
            "share": { "type": "number", "minimum": 0, "exclusiveMinimum": true, "multipleOf": 2 },
            "title": { "type": "string", "minLength": 2, "maxLength": 4 },
            "mode": { "type": "string", "default": "auto" },
            "many": { "type": "array", "minItems": 1, "maxItems": 2, "items": text },
            "set": { "type": "array", "x-kubernetes-list-type": "set", "items": text },
            "ports": keyed("port", json!({ "port": number, "name": text })),
            "map": { "type": "object", "maxProperties": 1, "additionalProperties": number },
            "whole": { "type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text },
            "any": { "x-kubernetes-int-or-string": true },
            "one": { "type": "object", "properties": { "a": text, "b": text },
                "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] },
            "free": free, "maybe": { "type": "string", "nullable": true },
            "date": { "type": "string", "format": "date-time" }, "replicas": number,
        },
    });
    let status = json!({
        "type": "object", "properties": {
            "replicas": number, "selector": text, "conditions": keyed("type", json!({ "type": text, "status": text })),
        },
    });
    let gizmos = json!({
        "name": "v1", "served": true, "storage": true,
        "subresources": { "status": {}, "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        } },
        "schema": { "openAPIV3Schema": {
            "type": "object", "required": ["spec"], "properties": { "spec": spec, "status": status },
        } },
    });
    [("widgets", "Widget", widgets), ("gizmos", "Gizmo", gizmos)].map(|(plural, kind, version)| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.example.com") },
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
                "versions": [version],
            },
        })
    })
}

const NO_SEATS: &str = "
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: { name: no-seats }
spec: { type: Limited, limited: { nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: { type: Reject } } }
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: { name: no-seats }
spec:
  priorityLevelConfiguration: { name: no-seats }
  matchingPrecedence: 2
  rules:
  - subjects: [{ kind: User, user: { name: limited } }]
    resourceRules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'], clusterScope: true, namespaces: ['*'] }]
";

struct Trial {
    real: Side,
    fake: Side,
    /// The title of each section, its requests, and those answered alike.
    sections: Vec<(String, usize, usize)>,
    /// The request and the two values of each difference, by the place in the list of expected ones.
    found: BTreeMap<Option<usize>, Vec<[String; 4]>>,
}

impl Trial {
    async fn ask(
        &mut self,
        asks: Vec<Ask>,
        mock: &Mock<FakeServer, TokioClock>,
        readings: &mut Vec<Reading>,
    ) -> Outcome {
        let mut sent = Vec::new();
        for ask in asks {
            if ask.is_overloaded {
                mock.with(|server| server.inject(Fault::overloaded(Some(1))));
                self.real
                    .hold(ask.user.as_deref().unwrap_or_default())
                    .await?;
            }
            let (real, fake) = (self.real.open(&ask)?, self.fake.open(&ask)?);
            if ask.is_watch {
                // The head has to be there before anything is written.
                let [real, fake] = both(real, fake).await?;
                readings.push((ask, tokio::spawn(both(real, fake))));
            } else {
                let whole = both(async { real.await?.await }, async { fake.await?.await });
                sent.push((ask, tokio::spawn(whole)));
            }
        }
        self.finish(&mut sent).await
    }

    /// Reads answers to their ends.
    async fn finish(&mut self, readings: &mut Vec<Reading>) -> Outcome {
        for (ask, reading) in readings.drain(..) {
            let answers = reading.await??;
            self.compare(&ask, &answers);
        }
        Ok(())
    }

    fn compare(&mut self, ask: &Ask, [real, fake]: &[Answer; 2]) {
        Side::learn(&mut self.real, &mut self.fake, ask, [real, fake]);
        let (real, fake) = (
            self.real.comparable(real, fake),
            self.fake.comparable(fake, real),
        );
        let mut is_alike = true;
        for [place, real, fake] in differences(&real, &fake) {
            let expected = EXPECTED
                .iter()
                .position(|row| row.covers(&ask.name, &place));
            is_alike &= expected.is_some_and(|index| EXPECTED[index].is_everywhere());
            let found = self.found.entry(expected).or_default();
            found.push([ask.name.clone(), place, real, fake]);
        }
        if let Some((_, requests, alike)) = self.sections.last_mut() {
            *requests += 1;
            *alike += usize::from(is_alike);
        }
    }

    /// Fails if a difference is not expected, or does not occur any more. Compares the document.
    fn judge(&self) -> Outcome {
        let requests: usize = self.sections.iter().map(|(_, requests, _)| requests).sum();
        let alike: usize = self.sections.iter().map(|(_, _, alike)| alike).sum();
        say(&format!("{requests} requests, {alike} answered alike"));
        let mut wrong = String::new();
        for [request, place, real, fake] in self.found.get(&None).into_iter().flatten() {
            let _ = writeln!(
                wrong,
                "{request}\t{place}\n\t{}\n\t{}",
                short(real),
                short(fake)
            );
        }
        for (index, row) in EXPECTED.iter().enumerate() {
            if !self.found.contains_key(&Some(index)) {
                let _ = writeln!(
                    wrong,
                    "no longer a difference: {} {}",
                    row.requests, row.place
                );
            }
        }
        ensure(
            wrong.is_empty(),
            format_args!("the mock answers differently:\n{wrong}"),
        )?;

        let text = self.document(requests, alike);
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/generated/MOCK-DIFFERENCES.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &text)?;
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        ensure(
            text == written,
            format_args!(
                "docs/generated/MOCK-DIFFERENCES.md is to be written again, by UPDATE=1:\n{text}"
            ),
        )
    }

    fn document(&self, requests: usize, alike: usize) -> String {
        let mut text = format!(
            "# The mock beside kube-apiserver\n\n\
             For users of `informer-mock` who ask whether a test holds on a cluster. After this page you know each difference\n\
             between the mock and kube-apiserver 1.36 that a comparison of {requests} requests shows.\n\n\
             The test `mock::answers_as_the_server_does` of [the tests on a real API server](../REAL-SERVER.md) sends the\n\
             same requests to both and compares status, headers, Content-Type, body and the order of its members. It writes\n\
             this page, and fails if a difference is missing here or does not occur. uids, times and tokens are not\n\
             compared, and versions are compared by the write that made them. Protobuf is decoded, and both servers encode\n\
             the result as the same bytes.\n\n\
             | requests about | sent | answered alike |\n|---|---|---|\n"
        );
        for (title, requests, alike) in &self.sections {
            let _ = writeln!(text, "| {} | {requests} | {alike} |", lower(title));
        }
        let _ = writeln!(text, "| all | {requests} | {alike} |\n");
        text += "An answer counts as alike if it differs only in rows that begin with \"every answer\". The values are those of one \
                 request.\n\n\
                 | where | kube-apiserver | informer-mock | answers | reason |\n|---|---|---|---|---|\n";
        for (index, row) in EXPECTED.iter().enumerate() {
            let found = self
                .found
                .get(&Some(index))
                .map(Vec::as_slice)
                .unwrap_or_default();
            let Some([_, _, real, fake]) = found.first() else {
                continue;
            };
            let asked: std::collections::BTreeSet<&String> =
                found.iter().map(|[request, ..]| request).collect();
            let (real, fake) = (cell(real), cell(fake));
            let _ = writeln!(
                text,
                "| {} | {real} | {fake} | {} | {} |",
                row.what,
                asked.len(),
                row.reason
            );
        }
        text
    }
}

fn lower(title: &str) -> String {
    let mut chars = title.chars();
    let first = chars.next().map(|first| first.to_lowercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(300).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// A value in a cell of a table.
fn cell(text: &str) -> String {
    if text == "–" {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(90).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    format!(
        "`{}`",
        cut.replace('\n', " ").replace('|', "\\|").replace('`', "'")
    )
}
