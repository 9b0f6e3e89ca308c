//! Two replicas of a controller, one of which leads: a custom resource without a namespace, a finalizer and a status.
//!
//! Each Tenant gets a ConfigMap with its quota, which it owns, and an account in a cloud, which here is a file in a folder. The
//! account is closed before the Tenant is deleted.
//!
//! ```sh
//! cargo run -p informer-examples-kube --example tenants -- --crd | kubectl apply -f -
//! cargo run -p informer-examples-kube --example tenants -- --identity a               # in several terminals
//! ```

use core::time::Duration;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use informer_examples::terminal::say;
use informer_kube::controller::{Controller, IntoInformer as _, Predicate, Task};
use informer_kube::election::{Election, ElectionConfig};
use informer_kube::{Informers, KubeLease};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::{Api, Client, Config, CustomResource, CustomResourceExt as _, Resource as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

type Error = Box<dyn core::error::Error + Send + Sync>;

/// The name under which the controller writes, and the value of a label of its objects.
const NAME: &str = "tenants";
const FINALIZER: &str = "example.com/account";

/// The desired state of a Tenant.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Tenant",
    status = "TenantStatus"
)]
struct TenantSpec {
    quota: u32,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TenantStatus {
    observed_generation: Option<i64>,
}

/// Gives each Tenant a ConfigMap and an account.
#[derive(Parser)]
struct Arguments {
    /// Prints the definition of Tenants, and ends
    #[arg(long)]
    crd: bool,
    /// The kubeconfig file; by default the cluster that `kubectl` would use
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace of the Lease and of the ConfigMaps
    #[arg(long, default_value = "default")]
    namespace: String,
    /// The name of this replica, unlike that of any other
    #[arg(long, required_unless_present = "crd", default_value = "")]
    identity: String,
    /// How long the Lease lasts, in seconds
    #[arg(long, default_value_t = 15)]
    seconds: u32,
    /// The folder of the accounts
    #[arg(long, default_value = "accounts")]
    accounts: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    if arguments.crd {
        say(&serde_json::to_string(&Tenant::crd())?);
        return Ok(());
    }
    tokio::fs::create_dir_all(&arguments.accounts).await?;
    let informers = Informers::with(client(&arguments).await?, |builder| {
        builder.on_report(|informer, report| say(&format!("{informer}: {report}")))
    });
    let lease = KubeLease::new(informers.client(), &arguments.namespace, NAME);
    let mut times = ElectionConfig::default();
    times.lease_duration = Duration::from_secs(arguments.seconds.into());
    times.renew_deadline = times.lease_duration * 2 / 3;
    times.retry_period = times.lease_duration / 8;

    // The status changes no generation, so its writes cause no runs.
    let tenants = informers.all::<Tenant>();
    let tenants = tenants.when(Predicate::generation() | Predicate::finalizers());
    let controller = Controller::new(tenants)
        .owns(informers.all::<ConfigMap>().labels("made-by=tenants"))
        .workers(4)
        .elected(Election::new(lease, &arguments.identity, times)?)
        .on_failure(|key, failure| say(&format!("{key}: {failure}")))
        .shutdown_on_signal();
    let world = Arc::new(World {
        client: informers.client(),
        namespace: arguments.namespace,
        accounts: arguments.accounts,
    });
    say(&format!("{} runs", arguments.identity));
    controller
        .run(move |task| reconcile(task, Arc::clone(&world)))
        .await?;
    Ok(())
}

async fn client(arguments: &Arguments) -> Result<Client, Error> {
    let Some(file) = &arguments.kubeconfig else {
        return Ok(Client::try_default().await?);
    };
    let file = Kubeconfig::read_from(file)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(file, &options).await?;
    Ok(Client::try_from(config)?)
}

/// What the controller changes.
struct World {
    client: Client,
    namespace: String,
    accounts: PathBuf,
}

async fn reconcile(task: Task<Tenant>, world: Arc<World>) -> Result<(), Error> {
    let Some(tenant) = task.object() else {
        return Ok(()); // Its account is closed, and the cluster deletes its ConfigMap.
    };
    let tenants = Api::<Tenant>::all(world.client.clone());
    let tenant = Arc::new(tenant.get().clone());
    finalizer(&tenants, FINALIZER, tenant, async |event| {
        match event {
            Event::Apply(tenant) => world.apply(task.name(), &tenant).await?,
            Event::Cleanup(_) => world.close_account(task.name()).await?,
        }
        Ok::<_, io::Error>(Action::await_change())
    })
    .await?;
    Ok(())
}

impl World {
    async fn apply(&self, name: &str, tenant: &Tenant) -> io::Result<()> {
        let quota = tenant.spec.quota.to_string();
        tokio::fs::write(self.accounts.join(name), &quota).await?;

        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some([("made-by".to_owned(), NAME.to_owned())].into()),
                owner_references: tenant.controller_owner_ref(&()).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            data: Some([("quota".to_owned(), quota)].into()),
            ..ConfigMap::default()
        };
        let parameters = PatchParams::apply(NAME).force();
        Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace)
            .patch(name, &parameters, &Patch::Apply(map))
            .await
            .map_err(io::Error::other)?;

        let status = TenantStatus {
            observed_generation: tenant.metadata.generation,
        };
        let observed = tenant.status.as_ref();
        let observed = observed.and_then(|status| status.observed_generation);
        if observed != status.observed_generation {
            // With the version, a write that was delayed cannot replace that of the next leader.
            let version = &tenant.metadata.resource_version;
            let patch = json!({ "metadata": { "resourceVersion": version }, "status": status });
            Api::<Tenant>::all(self.client.clone())
                .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .map_err(io::Error::other)?;
        }
        Ok(())
    }

    async fn close_account(&self, name: &str) -> io::Result<()> {
        match tokio::fs::remove_file(self.accounts.join(name)).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            closed => closed,
        }
    }
}
