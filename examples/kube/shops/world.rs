//! The world of Shops, and what must hold in it.

use core::pin::Pin;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use informer_explore::{Actor, Explore, Objects, Process, World};
use informer_kube::KubeLease;
use informer_mock::json;
use kube::Client;
use serde_json::Value;

use super::controller::{self, Bug, Databases};

/// The databases of a cloud, with the tags of their owners.
#[derive(Default)]
struct Cloud {
    databases: Mutex<BTreeMap<u64, String>>,
}

impl Cloud {
    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<u64, String>) -> T) -> T {
        change(
            &mut self
                .databases
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

/// The cloud, as a process reaches it.
#[derive(Clone)]
struct CloudClient(Process);

impl CloudClient {
    fn cloud(&self) -> Arc<Cloud> {
        self.0.world().outside()
    }
}

impl Databases for CloudClient {
    async fn find(&self, owner: &str) -> Option<u64> {
        let what = format!("find the database of {owner}");
        let found = || {
            self.cloud().with(|databases| {
                let found = databases.iter().find(|(_, own)| *own == owner);
                found.map(|(id, _)| *id)
            })
        };
        self.0.call(&what, found).await
    }

    async fn create(&self, owner: &str) -> u64 {
        let what = format!("create a database for {owner}");
        let create = || {
            self.cloud().with(|databases| {
                let id = databases.last_key_value().map_or(1, |(last, _)| last + 1);
                databases.insert(id, owner.to_owned());
                id
            })
        };
        self.0.call(&what, create).await
    }

    async fn delete(&self, id: u64) {
        let what = format!("delete the database {id}");
        let delete = || drop(self.cloud().with(|databases| databases.remove(&id)));
        self.0.call(&what, delete).await;
    }
}

/// Returns the program under test, with or without an election.
pub(crate) fn program(
    bug: Option<Bug>,
    is_elected: bool,
) -> impl Fn(Process) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync + 'static {
    move |process| {
        let client = Client::new(process.service(), "default");
        let seed = process.seed();
        let lease = is_elected.then(|| {
            let own = process.clone();
            let lease = KubeLease::new(client.clone(), "prod", "shops").clock(move || own.now());
            (lease, process.pod())
        });
        Box::pin(controller::run(
            client,
            CloudClient(process),
            seed,
            bug,
            lease,
        ))
    }
}

/// Returns the rules: users who write and delete Shops, a person who edits Pods, and what must hold.
pub(crate) fn rules() -> Explore {
    let shop = json!({ "apiVersion": "example.com/v1", "kind": "Shop", "metadata": { "namespace": "prod" }, "spec": { "size": "small" } });
    Explore::new()
        .setup(|server| server.add_resource("example.com", "v1", "shops", "Shop", true))
        .objects(
            Objects::new("shops.example.com", shop).changed(json!({ "spec": { "size": "large" } })),
        )
        .edited("pods")
        .actor(Actor::new("garbage collector", |cluster| {
            let shops = cluster.objects("shops.example.com");
            for pod in cluster.objects("pods") {
                if !shops
                    .iter()
                    .any(|shop| shop["metadata"]["uid"] == owner_of(&pod))
                {
                    cluster.delete("pods", &pod);
                }
            }
        }))
        .always("no Shop has two databases", |world| {
            let mut owners = owners(world);
            owners.sort();
            match owners.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => Err(format!("{} has two", pair[0])),
                None => Ok(()),
            }
        })
        .always("no Shop has two Pods", |world| {
            let pods = world.objects("pods");
            let mut owners: Vec<_> = pods.iter().map(owner_of).collect();
            owners.sort_unstable();
            match owners.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => Err(format!("{} has two", pair[0])),
                None => Ok(()),
            }
        })
        .check("each Shop has a database and a Pod", |world| {
            let owners = owners(world);
            for shop in world.objects("shops.example.com") {
                let uid = shop["metadata"]["uid"].as_str().unwrap_or_default();
                let key = format!(
                    "prod/{}",
                    shop["metadata"]["name"].as_str().unwrap_or_default()
                );
                if !owners.iter().any(|owner| owner == uid || *owner == key) {
                    return Err(format!("{key} has no database"));
                }
                if !world.objects("pods").iter().any(|pod| owner_of(pod) == uid) {
                    return Err(format!("{key} has no Pod"));
                }
            }
            Ok(())
        })
        .check("no database is left over", |world| {
            let shops = world.objects("shops.example.com");
            let is_used = |owner: &String| {
                shops.iter().any(|shop| {
                    let name = shop["metadata"]["name"].as_str().unwrap_or_default();
                    shop["metadata"]["uid"] == **owner || *owner == format!("prod/{name}")
                })
            };
            match owners(world).iter().find(|owner| !is_used(owner)) {
                Some(owner) => Err(format!("the database of {owner} is left over")),
                None => Ok(()),
            }
        })
}

/// Returns the tags of all databases.
fn owners(world: &World) -> Vec<String> {
    let cloud: Arc<Cloud> = world.outside();
    cloud.with(|databases| databases.values().cloned().collect())
}

/// Returns the uid of the Shop that a Pod belongs to.
fn owner_of(pod: &Value) -> &str {
    pod["metadata"]["ownerReferences"][0]["uid"]
        .as_str()
        .unwrap_or_default()
}
