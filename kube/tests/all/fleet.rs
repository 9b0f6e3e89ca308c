//! Informers of several clusters, each a mock with a client of its own.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_kube::Informers;
use informer_mock::{Fault, json};
use informer_tokio::controller::{Controller, Task};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};
use tokio::time::{sleep, timeout};

use crate::server::{Server, client, server};
use crate::support::keys;

const A_WHILE: Duration = Duration::from_secs(5);

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn namespace(mock: &Server, name: &str, team: &str) {
    let metadata = json!({ "name": name, "labels": { "team": team } });
    mock.put("namespaces", json!({ "metadata": metadata }))
        .unwrap();
}

/// Informers of two clusters, `eu` and `us`, and the servers of these.
fn fleet() -> (Informers, Server, Server) {
    let (eu, us) = (server(), server());
    let informers = Informers::of_clusters(|builder| builder);
    informers.join("eu", client(&eu));
    informers.join("us", client(&us));
    (informers, eu, us)
}

#[tokio::test(start_paused = true)]
async fn clusters_and_namespaces_join_and_leave() {
    let (informers, eu, us) = fleet();
    for mock in [&eu, &us] {
        namespace(mock, "prod", "web");
        for namespace in ["prod", "test"] {
            let metadata = json!({ "name": "a", "namespace": namespace });
            mock.create("configmaps", json!({ "metadata": metadata }))
                .unwrap();
        }
    }
    let maps = informers.all::<ConfigMap>().get();
    let of_web = informers
        .namespaced::<ConfigMap>("test")
        .namespaces_where("team=web")
        .raw()
        .get();
    let of_test = informers
        .all::<ConfigMap>()
        .namespaces_where("team=web")
        .namespaces(["test"])
        .get();
    informers.factory().synced().await.unwrap();
    sleep(A_WHILE).await;
    let all = ["eu:prod/a", "eu:test/a", "us:prod/a", "us:test/a"];
    assert_eq!(keys(&maps), all);
    assert_eq!(keys(&of_web), ["eu:prod/a", "us:prod/a"]);
    assert_eq!(keys(&of_test), ["eu:test/a", "us:test/a"]);

    namespace(&eu, "prod", "other");
    namespace(&us, "test", "web");
    informers.leave("eu");
    sleep(A_WHILE).await;
    assert_eq!(keys(&maps), ["us:prod/a", "us:test/a"]);
    assert_eq!(keys(&of_web), ["us:prod/a", "us:test/a"]);
    assert!(informers.client_of("eu").is_none() && informers.client_of("us").is_some());

    // The cluster is restored at another address, and joins under its old name.
    let restored = server();
    namespace(&restored, "prod", "web");
    informers.join("us", client(&restored));
    let writer = Api::<ConfigMap>::namespaced(informers.client_of("us").unwrap(), "prod");
    let created = writer.create(&PostParams::default(), &map("b")).await;
    created.unwrap();
    sleep(A_WHILE).await;
    assert_eq!(keys(&maps), ["us:prod/b"]);
    assert_eq!(keys(&of_web), ["us:prod/b"]);
}

/// The events of `us` take longer than a run of the test, so a write that was awaited there would never be seen.
#[tokio::test(start_paused = true)]
async fn a_write_is_awaited_in_the_caches_of_its_cluster() {
    let (informers, eu, us) = fleet();
    let maps = informers.all::<ConfigMap>().get();
    maps.synced().await.unwrap();
    sleep(A_WHILE).await;
    us.with(|server| server.stall_watches());
    // The versions of `eu` are beyond those of `us`.
    for number in 0..10 {
        namespace(&eu, &format!("n{number}"), "web");
    }
    let api = |cluster: &str| {
        let client = informers.client_of(cluster).unwrap();
        Api::<ConfigMap>::namespaced(client, "prod")
    };
    let version = |namespace: &str, name: &str| {
        let entry = maps.lister().get(namespace, name);
        entry.and_then(|entry| entry.get().resource_version())
    };

    let created = api("eu").create(&PostParams::default(), &map("a")).await;
    assert_eq!(version("eu:prod", "a"), None, "the next line waits");
    timeout(A_WHILE, informers.sees_own_writes())
        .await
        .expect("it is awaited in one cluster")
        .unwrap();
    assert_eq!(version("eu:prod", "a"), created.unwrap().resource_version());

    api("us")
        .create(&PostParams::default(), &map("a"))
        .await
        .unwrap();
    let waiting = timeout(A_WHILE, informers.sees_own_writes()).await;
    assert!(
        waiting.is_err(),
        "the write to the other cluster is awaited"
    );
    // A cluster that leaves never shows it.
    informers.leave("us");
    timeout(A_WHILE, informers.sees_own_writes())
        .await
        .expect("it is not awaited any more")
        .unwrap();
}

/// The reconcile function counts on its cache: it would create the ConfigMap twice if the cache were stale.
#[tokio::test(start_paused = true)]
async fn one_controller_writes_to_the_cluster_of_its_key() {
    let (informers, eu, us) = fleet();
    let slow = Fault::nothing().bandwidth(2000);
    for mock in [&eu, &us] {
        mock.with(|server| server.inject(slow.clone().on_path("/api/v1/configmaps").always()));
        namespace(mock, "prod", "web");
    }
    namespace(&us, "test", "web");
    let maps = informers.all::<ConfigMap>().get();
    let written: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let controller = Controller::new(informers.all::<Namespace>().labels("team"))
        .owns(informers.all::<ConfigMap>());
    let (lister, noted, clients) = (maps.lister(), Arc::clone(&written), informers.clone());
    tokio::spawn(controller.run(move |task: Task<Namespace>| {
        let (lister, noted, clients) = (lister.clone(), Arc::clone(&noted), clients.clone());
        async move {
            let cluster = task.key().cluster();
            let (Some(namespace), Some(client)) = (task.object(), clients.client_of(cluster))
            else {
                return Ok(());
            };
            let place = format!("{cluster}:{}", task.name());
            if lister.get(&place, "team").is_some() {
                return Ok(());
            }
            *noted.lock().unwrap().entry(place).or_default() += 1;
            let mut wanted = map("team");
            wanted.metadata.owner_references =
                kube::Resource::controller_owner_ref(&**namespace.value(), &())
                    .map(|owner| vec![owner]);
            let api = Api::<ConfigMap>::namespaced(client, task.name());
            let created = api.create(&PostParams::default(), &wanted).await;
            created.map(|_| ())
        }
    }));
    for team in ["db", "web", "db"] {
        sleep(Duration::from_millis(100)).await;
        namespace(&eu, "prod", team);
        namespace(&us, "prod", team);
    }
    sleep(A_WHILE).await;
    let once = ["eu:prod", "us:prod", "us:test"].map(|place| (place.to_owned(), 1));
    assert_eq!(*written.lock().unwrap(), once.into());
    let all = ["eu:prod/team", "us:prod/team", "us:test/team"];
    assert_eq!(keys(&maps), all);
}
