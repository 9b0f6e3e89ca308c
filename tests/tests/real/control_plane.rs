//! Built-in resources, on which the cluster's own controllers work.

use core::time::Duration;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use informer_tests::real::{Kubectl, Outcome, Subject, Table, ensure, until, versions};
use informer_tests::say;
use informer_tokio::decode::{Decoder, RawObject};
use informer_tokio::health::Health;
use informer_tokio::{Handlers, Informer, Meta, Raw};
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
    let in_protobuf = every_resource_in_protobuf(&context, &subjects).await?;
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
        "{} resources, {in_protobuf} of them in protobuf: synced in {synced:?}; {adds} adds, {updates} updates, {deletes} \
         deletions; all agree after {:?}",
        subjects.len(),
        began.elapsed()
    ));
    Ok(())
}

/// Reads every resource in protobuf, and compares metadata and labels with those in JSON. Returns how many resources
/// were served in protobuf; the others are custom ones.
async fn every_resource_in_protobuf(
    context: &Context,
    subjects: &[(Table, Subject)],
) -> Outcome<usize> {
    let (mut in_protobuf, mut compared) = (0, 0);
    for (table, subject) in subjects {
        let transport = context.direct()?;
        let (resource, patience) = (table.resource().as_ref(), Duration::from_secs(30));
        let metadata = Informer::<Meta>::builder_for(&transport, resource).spawn();
        let decoder = Decoder::<Raw>::new().protobuf();
        let whole = Informer::<Raw>::builder_with(transport, resource, decoder).spawn();
        for synced in [
            metadata.synced_within(patience).await,
            whole.synced_within(patience).await,
        ] {
            synced.map_err(|error| format!("{}: {error}", table.definition()))?;
        }
        // Metadata is served in protobuf for custom resources, too.
        let format = |health: Health| health.sources.iter().find_map(|source| source.format);
        ensure(
            format(metadata.health()) == Some("protobuf"),
            format_args!("the metadata of {}", table.definition()),
        )?;
        in_protobuf += usize::from(format(whole.health()) == Some("protobuf"));
        for entry in subject.informer.lister().list() {
            let version = entry.resource_version().to_string();
            let mut expected: Value =
                serde_json::from_slice(entry.value().at(&["metadata"]).unwrap_or_default())
                    .map_err(|error| error.to_string())?;
            if let Some(members) = expected.as_object_mut() {
                members.remove("managedFields");
                members.retain(|_, value| !value.is_null());
            }
            let key = entry.key().as_str();
            if let Some(meta) = metadata.lister().get_by_key(key)
                && meta.resource_version().to_string() == version
            {
                let found: Value = serde_json::from_slice(meta.value().json())
                    .map_err(|error| format!("{key}: {error}"))?;
                ensure(
                    found == expected,
                    format_args!(
                        "{} {key}: {found} in protobuf, {expected} in JSON",
                        table.definition()
                    ),
                )?;
                compared += 1;
            }
            if let Some(raw) = whole.lister().get_by_key(key)
                && raw.resource_version().to_string() == version
            {
                let (raw, json) = (raw.value(), entry.value());
                let (raw, json) = (
                    RawObject::parse(raw.bytes()),
                    RawObject::parse(json.bytes()),
                );
                let mut labels: [Vec<_>; 2] = [raw.labels().collect(), json.labels().collect()];
                labels
                    .iter_mut()
                    .for_each(|labels| labels.sort_by_key(|(key, _)| key.to_string()));
                let [raw_labels, json_labels] = labels;
                ensure(
                    raw_labels == json_labels && raw.owner_references().eq(json.owner_references()),
                    format_args!("labels or owners of {} {key}", table.definition()),
                )?;
            }
        }
        metadata.stop();
        whole.stop();
    }
    ensure(in_protobuf > 40, format_args!("{in_protobuf} in protobuf"))?;
    ensure(compared > 100, format_args!("{compared} objects compared"))?;
    Ok(in_protobuf)
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
