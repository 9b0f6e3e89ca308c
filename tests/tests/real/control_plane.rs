//! Built-in resources, on which the cluster's own controllers work.

use core::time::Duration;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use informer_tests::real::{Kubectl, Outcome, Subject, Table, ensure, until, versions};
use informer_tests::say;
use informer_tokio::{Handlers, Raw};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;

use crate::Context;

/// Long enough for a controller on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// An informer for every resource that discovery lists, while controllers make and delete objects. In the end each
/// cache and each history equal a fresh list and what kubectl prints.
pub(crate) async fn every_resource_at_once(context: Context) -> Outcome {
    let began = Instant::now();
    let kubectl = context.kubectl()?;
    let transport = context.direct()?;
    let mut subjects = Vec::new();
    for table in context.cluster.resources().await? {
        let subject = Subject::start(transport.clone(), &table, |builder| builder);
        subjects.push((table, subject));
    }
    ensure(
        subjects.len() > 50,
        format_args!("{} resources", subjects.len()),
    )?;
    for (_, subject) in &subjects {
        subject.synced().await?;
    }
    let synced = began.elapsed();

    // The test runs once for each protocol.
    let name = format!("every-{:?}", context.protocol).to_lowercase();
    work(&kubectl, &subjects, &name).await?;
    custom_resource_comes_and_goes(&context, &kubectl, &name).await?;
    kubectl
        .run(&["delete", "namespace", &name, "--wait", "--timeout=120s"])
        .await?;

    let mut counts = [0; 4];
    for (table, subject) in &subjects {
        settles(&kubectl, table, subject).await?;
        let of_one = subject.history.with(|book| book.counts);
        for (sum, count) in counts.iter_mut().zip(of_one) {
            *sum += count;
        }
    }
    let [adds, updates, deletes, unseen] = counts;
    ensure(deletes > 20, format_args!("{counts:?}"))?;
    ensure(
        unseen == 0,
        format_args!("{unseen} deletions came from lists"),
    )?;
    say(&format!(
        "{} resources: synced in {synced:?}; {adds} adds, {updates} updates, {deletes} deletions; all agree after {:?}",
        subjects.len(),
        began.elapsed()
    ));
    Ok(())
}

/// Lets the controllers of the cluster work in a namespace.
async fn work(kubectl: &Kubectl, subjects: &[(Table, Subject)], namespace: &str) -> Outcome {
    let of = |definition: &str| {
        let found = subjects
            .iter()
            .find(|(table, _)| table.definition() == definition);
        found
            .map(|(_, subject)| subject)
            .ok_or_else(|| format!("there are no {definition}"))
    };
    let pods = of("pods.v1.")?;
    let named = |prefix: &'static str| {
        let lister = pods.informer.lister();
        move || {
            let all = lister.list();
            let of_this = all.iter().filter(|pod| pod.namespace() == namespace);
            of_this.filter(|pod| pod.name().starts_with(prefix)).count()
        }
    };
    let (web, job) = (named("web-"), named("once-"));

    kubectl.run(&["create", "namespace", namespace]).await?;
    kubectl.apply(&manifests(namespace)).await?;
    until(
        PATIENCE,
        "three Pods of the Deployment, one of the Job",
        || web() == 3 && job() == 1,
    )
    .await?;
    for (replicas, count) in [("6", 6), ("1", 1)] {
        let scale = [
            "scale",
            "deployment/web",
            "-n",
            namespace,
            "--replicas",
            replicas,
        ];
        kubectl.run(&scale).await?;
        until(PATIENCE, format_args!("{count} Pods"), || web() == count).await?;
    }
    // A rollout: the Pods never become ready, so that old and new ones are there together.
    let image = [
        "set",
        "image",
        "deployment/web",
        "-n",
        namespace,
        "web=registry.example.com/web:2",
    ];
    kubectl.run(&image).await?;
    until(PATIENCE, "a Pod of the new version", || web() == 2).await?;
    for gone in [
        "deployment/web",
        "job/once",
        "serviceaccount/robot",
        "secret/key",
    ] {
        kubectl.run(&["delete", gone, "-n", namespace]).await?;
    }
    until(PATIENCE, "the Pods are collected", || web() + job() == 0).await
}

fn manifests(namespace: &str) -> String {
    let pod = |name: &str, more: &str| {
        format!(
            "{{ metadata: {{ labels: {{ app: {name} }} }}, spec: {{ {more} containers: \
             [{{ name: {name}, image: \"registry.example.com/{name}:1\" }}] }} }}"
        )
    };
    let head = |api_version: &str, kind: &str, name: &str| {
        format!(
            "---\napiVersion: {api_version}\nkind: {kind}\nmetadata: {{ namespace: {namespace}, name: {name} }}\n"
        )
    };
    let (web, once) = (pod("web", ""), pod("once", "restartPolicy: Never,"));
    [
        head("apps/v1", "Deployment", "web"),
        format!("spec: {{ replicas: 3, selector: {{ matchLabels: {{ app: web }} }}, template: {web} }}\n"),
        head("batch/v1", "Job", "once"),
        format!("spec: {{ template: {once} }}\n"),
        head("v1", "ServiceAccount", "robot"),
        head("v1", "Secret", "key"),
        "stringData: { key: value }\n".to_owned(),
        head("v1", "Service", "web"),
        "spec: { selector: { app: web }, ports: [{ port: 80 }] }\n".to_owned(),
        head("v1", "ConfigMap", "settings"),
        "data: { a: b }\n".to_owned(),
        head("coordination.k8s.io/v1", "Lease", "lock"),
        "spec: { holderIdentity: nobody }\n".to_owned(),
    ]
    .concat()
}

/// A definition is created, changed, deleted and created again under a running watch. The server may close the watch
/// before it has sent the deletions; then the objects stay in the cache until the resource can be listed again.
async fn custom_resource_comes_and_goes(
    context: &Context,
    kubectl: &Kubectl,
    namespace: &str,
) -> Outcome {
    let table = context.custom("reborn").await?;
    table.create_many("before", 20).await?;
    let subject = Subject::start(context.direct()?, &table, |builder| builder);
    subject.synced().await?;
    subject.agrees(&table).await?;

    let definition = ["get", "crd", table.definition(), "-o", "json"];
    let mut manifest: Value = serde_json::from_str(&kubectl.run(&definition).await?)?;
    let columns =
        serde_json::json!([{ "name": "Value", "type": "integer", "jsonPath": ".spec.value" }]);
    manifest["spec"]["versions"][0]["additionalPrinterColumns"] = columns;
    kubectl.apply(&manifest.to_string()).await?;
    table.create(&format!("{namespace}-changed"), 1).await?;
    subject.agrees(&table).await?;

    kubectl
        .run(&[
            "delete",
            "crd",
            table.definition(),
            "--wait",
            "--timeout=60s",
        ])
        .await?;

    let fresh = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "annotations",
    ];
    for member in fresh {
        manifest["metadata"][member].take();
    }
    manifest["status"].take();
    kubectl.apply(&manifest.to_string()).await?;
    context.cluster.serves(&table).await?;
    table.create_many("after", 20).await?;
    subject.agrees(&table).await
}

/// Waits until the cache, the history, a fresh list and kubectl agree. Controllers may still write a little.
async fn settles(kubectl: &Kubectl, table: &Table, subject: &Subject) -> Outcome {
    let mut differences = Vec::new();
    for _ in 0..60 {
        let arguments = ["get", table.definition(), "-A", "-o", "json"];
        let shown = versions(&serde_json::from_str(&kubectl.run(&arguments).await?)?)?;
        let (listed, _) = table.list().await?;
        differences = subject.differences(&listed);
        if differences.is_empty() && shown == listed {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    differences.truncate(10);
    Err(format!(
        "{}:\n{}\n{subject}",
        table.definition(),
        differences.join("\n")
    )
    .into())
}

/// What happened to one object: type of event and resourceVersion.
type Events = BTreeMap<String, Vec<(String, String)>>;

/// `kubectl get --watch` and an informer see the same events of every object.
pub(crate) async fn kubectl_sees_the_same_events(context: Context) -> Outcome {
    let kubectl = context.kubectl()?;
    let namespace = "peers";
    kubectl.run(&["create", "namespace", namespace]).await?;
    let tables = context.cluster.resources().await?;
    let mut watches = Vec::new();
    for definition in [
        "pods.v1.",
        "configmaps.v1.",
        "replicasets.v1.apps",
        "events.v1.",
    ] {
        let table = tables.iter().find(|table| table.definition() == definition);
        let table = table.ok_or_else(|| format!("there are no {definition}"))?;
        let mut child = kubectl
            .command(&[
                "get",
                definition,
                "-n",
                namespace,
                "-o",
                "json",
                "--watch",
                "--output-watch-events",
            ])
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("kubectl has no output")?;
        let subject = Subject::start(context.direct()?, table, |builder| {
            builder.namespace(namespace)
        });
        let ours = record(&subject);
        subject.synced().await?;
        watches.push((definition, child, output, subject, ours));
    }

    kubectl.apply(&manifests(namespace)).await?;
    let pods = watches[0].3.informer.lister();
    until(PATIENCE, "four Pods", || pods.len() == 4).await?;
    for change in 0..20 {
        let data = format!("{{\"data\":{{\"a\":\"{change}\"}}}}");
        let patch = [
            "patch",
            "configmap",
            "settings",
            "-n",
            namespace,
            "--type=merge",
            "-p",
            &data,
        ];
        kubectl.run(&patch).await?;
    }
    for gone in ["deployment/web", "job/once", "configmap/settings"] {
        kubectl.run(&["delete", gone, "-n", namespace]).await?;
    }
    until(PATIENCE, "no Pods", || pods.is_empty()).await?;

    for (definition, mut child, mut output, subject, ours) in watches {
        let mut text = Vec::new();
        let mut theirs = Events::new();
        let mut differ = String::new();
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let more = tokio::time::timeout(Duration::from_millis(500), output.read_buf(&mut text));
            let is_quiet = more.await.is_err();
            theirs = printed(&text);
            let ours = ours.lock().unwrap_or_else(PoisonError::into_inner);
            if is_quiet && *ours == theirs {
                break;
            }
            differ = format!("{definition}: ours {ours:#?}, kubectl {theirs:#?}");
        }
        let same = *ours.lock().unwrap_or_else(PoisonError::into_inner) == theirs;
        ensure(same, format_args!("{differ}\n{subject}"))?;
        let events: usize = theirs.values().map(Vec::len).sum();
        ensure(events > 0, definition)?;
        say(&format!(
            "{definition}: {} objects, {events} events, as kubectl prints them",
            theirs.len()
        ));
        child.kill().await?;
    }
    kubectl
        .run(&["delete", "namespace", namespace, "--wait=false"])
        .await?;
    Ok(())
}

/// Records the events of each object.
fn record(subject: &Subject) -> Arc<Mutex<Events>> {
    let events: Arc<Mutex<Events>> = Arc::default();
    let note = |name: &'static str| {
        let events = Arc::clone(&events);
        move |pod: &informer_tokio::Entry<Raw>| {
            let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
            let of_one = events.entry(pod.key().as_str().to_owned()).or_default();
            of_one.push((name.to_owned(), pod.resource_version().to_string()));
        }
    };
    let (added, modified, deleted) = (note("ADDED"), note("MODIFIED"), note("DELETED"));
    subject.informer.add_handler(
        Handlers::<Raw>::new()
            .on_add(move |object, _| added(object))
            .on_update(move |_, object| modified(object))
            .on_delete(move |object, _| deleted(object)),
    );
    events
}

/// Returns the complete events in the output of kubectl.
fn printed(text: &[u8]) -> Events {
    let mut events = Events::new();
    for event in serde_json::Deserializer::from_slice(text).into_iter::<Value>() {
        // The last one may be incomplete.
        let Ok(event) = event else { break };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &event["object"]["metadata"];
        let key = format!("{}/{}", text(&meta["namespace"]), text(&meta["name"]));
        let of_one = events.entry(key).or_default();
        of_one.push((text(&event["type"]), text(&meta["resourceVersion"])));
    }
    events
}
