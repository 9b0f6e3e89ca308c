//! The controller: a database in a cloud and a Pod for each Shop.

use core::future::Future;
use core::time::Duration;

use informer_kube::controller::{Controller, Task};
use informer_kube::election::Election;
use informer_kube::{Informers, KubeLease, Lister};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResource, Error, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const FINALIZER: &str = "example.com/database";

/// The desired state of a Shop.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Shop",
    namespaced,
    status = "ShopStatus"
)]
pub(crate) struct ShopSpec {
    size: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct ShopStatus {
    database: Option<u64>,
}

/// The databases of a cloud. Each has the uid of its owner as a tag.
pub(crate) trait Databases: Clone + Send + Sync + 'static {
    /// Returns the database of an owner.
    fn find(&self, owner: &str) -> impl Future<Output = Option<u64>> + Send;
    /// Creates another database.
    fn create(&self, owner: &str) -> impl Future<Output = u64> + Send;
    /// Deletes a database, if it exists.
    fn delete(&self, id: u64) -> impl Future<Output = ()> + Send;
}

/// A planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Bug {
    /// It creates a Pod under a new name if its cache shows none.
    ActsOnStaleRead,
    /// It has no finalizer, and deletes the database when it sees the deletion.
    LeaksMissedDeletion,
    /// It remembers the database in the status only, which it writes after the creation.
    CreatesTwiceAfterCrash,
}

/// The context of each run of the reconcile function.
#[derive(Clone)]
struct Context<D> {
    client: Client,
    databases: D,
    pods: Lister<Pod>,
    bug: Option<Bug>,
}

/// Runs the controller until its future is dropped. With a Lease and the name of the Pod, it reconciles while it leads.
pub(crate) async fn run(
    client: Client,
    databases: impl Databases,
    seed: u64,
    bug: Option<Bug>,
    lease: Option<(KubeLease, String)>,
) {
    // A Pod that was created and deleted while the watch was silent brings no event, but the resync does.
    let resync = Duration::from_secs(300);
    let informers = Informers::with(client, |builder| builder.seed(seed).resync(resync));
    let pods = informers.all::<Pod>().labels("made-by=shops").get();
    let context = Context {
        client: informers.client(),
        databases,
        pods: pods.lister(),
        bug,
    };
    let controller = Controller::new(informers.all::<Shop>())
        .owns(informers.all::<Pod>().labels("made-by=shops"))
        .workers(2);
    let controller = match lease.map(|(lease, pod)| Election::new(lease, pod, Default::default())) {
        Some(Ok(election)) => controller.elected(election),
        // The name of a Pod is not empty.
        Some(Err(_)) => return,
        None => controller,
    };
    let reconcile = move |task| reconcile(task, context.clone());
    // It ends with an error if its informers are stopped, which nobody does.
    let _ = controller.run(reconcile).await;
}

async fn reconcile<D: Databases>(task: Task<Shop>, context: Context<D>) -> Result<(), Error> {
    let Some(shop) = task.object() else {
        if context.bug == Some(Bug::LeaksMissedDeletion) {
            delete_database(&context, task.as_str()).await;
        }
        return Ok(()); // The finalizer was removed, so nothing is left.
    };
    let shops = Api::<Shop>::namespaced(context.client.clone(), task.namespace());
    // Tags are uids, but this bug knows no more than the key when a Shop is gone.
    let owner = match context.bug {
        Some(Bug::LeaksMissedDeletion) => task.as_str(),
        _ => shop.metadata.uid.as_deref().unwrap_or_default(),
    };
    if shop.metadata.deletion_timestamp.is_some() {
        if shop.finalizers().iter().any(|own| own == FINALIZER) {
            delete_pods(&context, &task).await?;
            delete_database(&context, owner).await;
            set_finalizers(&shops, shop, &[]).await?;
        }
        return Ok(());
    }
    let finalizes = context.bug != Some(Bug::LeaksMissedDeletion);
    if finalizes && !shop.finalizers().iter().any(|own| own == FINALIZER) {
        // The change of the Shop brings the next run.
        return set_finalizers(&shops, shop, &[FINALIZER]).await;
    }
    let pod = match context.bug {
        Some(Bug::ActsOnStaleRead) => context.pods.list().into_iter().any(|pod| is_of(&pod, shop)),
        _ => context.pods.get(task.namespace(), task.name()).is_some(),
    };
    let database = shop.status.as_ref().and_then(|status| status.database);
    if pod && database.is_some() {
        return Ok(());
    }
    // The cache may be stale: the Shop may be gone, or another one of the same name. The server knows.
    let current = shops.get_opt(task.name()).await?;
    let current = current.filter(|current| {
        current.metadata.uid == shop.metadata.uid && current.metadata.deletion_timestamp.is_none()
    });
    let Some(current) = current else {
        return Ok(()); // The cache will show it, which brings another run.
    };
    if !pod {
        create_pod(&context, shop).await?;
    }
    let database = current.status.and_then(|status| status.database);
    if database.is_none() {
        let found = match context.bug {
            Some(Bug::CreatesTwiceAfterCrash) => None,
            _ => context.databases.find(owner).await,
        };
        let id = match found {
            Some(id) => id,
            None => context.databases.create(owner).await,
        };
        let patch = Patch::Merge(json!({ "status": { "database": id } }));
        let parameters = PatchParams::default();
        shops.patch_status(task.name(), &parameters, &patch).await?;
    }
    Ok(())
}

/// Sets the finalizers, unless the Shop has changed.
async fn set_finalizers(shops: &Api<Shop>, shop: &Shop, finalizers: &[&str]) -> Result<(), Error> {
    let patch = json!({
        "metadata": {
            "resourceVersion": shop.metadata.resource_version,
            "uid": shop.metadata.uid,
            "finalizers": finalizers,
        },
    });
    let parameters = PatchParams::default();
    shops
        .patch(&shop.name_any(), &parameters, &Patch::Merge(patch))
        .await?;
    Ok(())
}

async fn create_pod<D>(context: &Context<D>, shop: &Shop) -> Result<(), Error> {
    let mut pod = Pod::default();
    pod.metadata.labels = Some([("made-by".to_owned(), "shops".to_owned())].into());
    pod.metadata.owner_references = shop.controller_owner_ref(&()).map(|owner| vec![owner]);
    if context.bug == Some(Bug::ActsOnStaleRead) {
        pod.metadata.generate_name = Some(shop.name_any() + "-");
    } else {
        pod.metadata.name = Some(shop.name_any());
    }
    let namespace = shop.namespace().unwrap_or_default();
    let pods = Api::<Pod>::namespaced(context.client.clone(), &namespace);
    match pods.create(&PostParams::default(), &pod).await {
        // A crash or a stale cache: it exists already.
        Err(Error::Api(status)) if status.code == 409 => Ok(()),
        created => created.map(drop),
    }
}

async fn delete_pods<D>(context: &Context<D>, task: &Task<Shop>) -> Result<(), Error> {
    let pods = Api::<Pod>::namespaced(context.client.clone(), task.namespace());
    let names = if context.bug == Some(Bug::ActsOnStaleRead) {
        let all = context.pods.list().into_iter();
        let own = all.filter(|pod| task.object().is_some_and(|shop| is_of(pod, shop)));
        own.map(|pod| pod.name().to_owned()).collect()
    } else {
        vec![task.name().to_owned()]
    };
    for name in names {
        match pods.delete(&name, &DeleteParams::default()).await {
            Err(Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted?),
        }
    }
    Ok(())
}

async fn delete_database<D: Databases>(context: &Context<D>, owner: &str) {
    if let Some(id) = context.databases.find(owner).await {
        context.databases.delete(id).await;
    }
}

/// Returns whether a Pod belongs to a Shop.
fn is_of(pod: &Pod, shop: &Shop) -> bool {
    pod.owner_references()
        .iter()
        .any(|owner| Some(&owner.uid) == shop.metadata.uid.as_ref())
}
