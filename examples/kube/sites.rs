//! The controller of `docs/FIRST-CONTROLLER.md`, which has this program from its first `use` on: a custom resource with
//! Deployments, a finalizer, a status, Events, an election, probes and metrics.

#![allow(
    clippy::print_stdout,
    clippy::std_instead_of_core,
    reason = "it is what a beginner would write"
)]

use std::sync::Arc;

use informer_kube::controller::{Controller, Task};
use informer_kube::election::Election;
use informer_kube::page::Page;
use informer_kube::rights::{Rights, RightsError};
use informer_kube::{Informers, KubeLease, Lister, resource, service};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::finalizer::{Error, Event as Finalizer, finalizer};
use kube::{Api, Client, CustomResource, CustomResourceExt, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus"
)]
struct SiteSpec {
    image: String,
    replicas: i32,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
struct SiteStatus {
    ready: i32,
}

struct Context {
    client: Client,
    deployments: Lister<Deployment>,
    recorder: Recorder,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().any(|argument| argument == "crd") {
        println!("{}", serde_json::to_string(&Site::crd())?);
        return Ok(());
    }
    tracing_subscriber::fmt::init();
    let pod = std::env::var("POD_NAME")
        .map_err(|_| "POD_NAME is not set: it names this process in the election")?;
    let informers = Informers::new(Client::try_default().await?);
    let client = informers.client();
    let namespace = client.default_namespace().to_owned();
    let made = || informers.all::<Deployment>().labels("made-by=sites"); // Equal requests share one cache.

    // One error names all rights that are missing.
    let (own, owned) = (resource::<Site>(), resource::<Deployment>());
    let rights = Rights::new()
        .verbs(own.as_ref(), &["list", "watch", "patch"])
        .subresource(own.as_ref(), "status", &["patch"])
        .verbs(owned.as_ref(), &["list", "watch", "create", "patch"])
        .election(&namespace)
        .events("");
    match rights.check(&mut service(client.clone())).await {
        // The server is away, or does not tell.
        Err(RightsError::Unknown(error)) => tracing::warn!("the rights are not known: {error}"),
        checked => checked?,
    }

    let lease = KubeLease::new(client.clone(), &namespace, "sites");
    let controller = Controller::new(informers.all::<Site>())
        .owns(made())
        .workers(4)
        .elected(Election::new(lease, pod, Default::default())?)
        .shutdown_on_signal();

    let page = Page::new("sites")
        .factory(informers.factory())
        .controller(&controller.handle());
    let listen = std::env::var("LISTEN").unwrap_or_else(|_| "0.0.0.0:8080".into());
    let listener = tokio::net::TcpListener::bind(listen).await?;
    tokio::spawn(async move { axum::serve(listener, page.router()).await });

    let recorder = Recorder::new(client.clone(), "sites".into());
    let context = Arc::new(Context {
        client,
        deployments: made().get().lister(),
        recorder,
    });
    let stopped = controller
        .run(move |task| reconcile(task, context.clone()))
        .await?;
    println!("stopped; {} keys were pending", stopped.waiting);
    Ok(())
}

async fn reconcile(task: Task<Site>, context: Arc<Context>) -> Result<(), Error<kube::Error>> {
    let Some(site) = task.object() else {
        return Ok(()); // It was cleaned up before, and the cluster deletes the Deployment, since the Site owned it.
    };
    let sites = Api::<Site>::namespaced(context.client.clone(), task.namespace());
    let site = Arc::new(site.get().clone());
    finalizer(&sites, "example.com/sites", site, async |event| {
        match event {
            Finalizer::Apply(site) => apply(&task, &site, &context).await?,
            // Here a controller removes what it made outside of the cluster, such as a record of DNS.
            Finalizer::Cleanup(site) => tell(&context, &site, "CleanedUp", "nothing is left").await,
        }
        Ok(Action::await_change())
    })
    .await?;
    Ok(())
}

async fn apply(task: &Task<Site>, site: &Site, context: &Context) -> Result<(), kube::Error> {
    let labels = json!({ "site": task.name(), "made-by": "sites" });
    let wanted = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": task.name(), "labels": labels, "ownerReferences": [site.controller_owner_ref(&())] },
        "spec": {
            "replicas": site.spec.replicas,
            "selector": { "matchLabels": { "site": task.name() } },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "site", "image": site.spec.image }] },
            },
        },
    });
    Api::<Deployment>::namespaced(context.client.clone(), task.namespace())
        .patch(
            task.name(),
            &PatchParams::apply("sites").force(),
            &Patch::Apply(wanted),
        )
        .await?;

    let deployment = context.deployments.get(task.namespace(), task.name());
    let ready = deployment.and_then(|deployment| deployment.status.as_ref()?.ready_replicas);
    let status = SiteStatus {
        ready: ready.unwrap_or(0),
    };
    if site.status.as_ref() != Some(&status) {
        let note = format!(
            "{} of {} replicas are ready",
            status.ready, site.spec.replicas
        );
        let patch = Patch::Merge(json!({ "status": status }));
        Api::<Site>::namespaced(context.client.clone(), task.namespace())
            .patch_status(task.name(), &PatchParams::default(), &patch)
            .await?;
        tell(context, site, "Scaled", &note).await;
    }
    Ok(())
}

/// Makes an Event, which `kubectl describe site` shows. It never fails a run: in a namespace that is being deleted, no Event
/// can be made, and a finalizer would stay for ever.
async fn tell(context: &Context, site: &Site, reason: &str, note: &str) {
    let event = Event {
        type_: EventType::Normal,
        reason: reason.into(),
        note: Some(note.into()),
        action: "Reconcile".into(),
        secondary: None,
    };
    if let Err(error) = context
        .recorder
        .publish(&event, &site.object_ref(&()))
        .await
    {
        tracing::warn!("no Event: {error}");
    }
}
