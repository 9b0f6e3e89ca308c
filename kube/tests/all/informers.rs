//! Shared informers, and a client whose writes they know.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use informer_kube::Informers;
use informer_mock::{Config, DeleteAnswer, FakeServer, Fault, Mock, TokioClock, json};
use informer_tokio::controller::{Controller, Task};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{
    DeleteParams, EvictParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
};
use kube::client::Body;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::server::{Server, client, server, settle};

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("app".to_owned(), "web".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn team(name: &str, team: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "team": team } } })
}

/// A client that answers a DELETE of a collection and dry runs as an API server does, and passes on the rest.
fn client_of_whole_server(mock: &Server) -> Client {
    let inner = client(mock);
    let mock = mock.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, mock) = (inner.clone(), mock.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let answer =
                |value: &Value| Ok(Response::new(Body::from(value.to_string().into_bytes())));
            let is_dry = parts.uri.query().unwrap_or_default().contains("dryRun=All")
                || body.windows(8).any(|part| part == b"\"dryRun\"");
            if is_dry {
                let metadata = json!({ "name": "dry", "namespace": "prod", "uid": "u", "resourceVersion": "9999" });
                return answer(&json!({ "kind": "ConfigMap", "metadata": metadata }));
            }
            if parts.method == "DELETE" && parts.uri.path().ends_with("/configmaps") {
                let objects = mock.with(|server| {
                    let names: Vec<_> = server
                        .objects("configmaps")
                        .map(|object| object.name().to_owned())
                        .collect();
                    let objects: Vec<_> = names
                        .iter()
                        .filter_map(|name| server.get("configmaps", "prod", name))
                        .collect();
                    for name in names {
                        server.delete("configmaps", "prod", &name).unwrap();
                    }
                    objects
                });
                return answer(
                    &json!({ "kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": objects }),
                );
            }
            inner
                .send(Request::from_parts(parts, Body::from(body)))
                .await
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn informers_are_shared_and_end_with_their_last_user() {
    let mock = server();
    for namespace in ["prod", "test", "other"] {
        let metadata = json!({ "name": "a", "namespace": namespace });
        mock.create("configmaps", json!({ "metadata": metadata }))
            .unwrap();
    }
    let informers = Informers::new(client(&mock));
    let of_two = informers.all::<ConfigMap>().namespaces(["prod", "test"]);
    let of_two = of_two.get();
    let first = informers
        .namespaced::<ConfigMap>("prod")
        .labels("app!=x")
        .get();
    let second = informers
        .all::<ConfigMap>()
        .namespaces(["prod"])
        .labels("app!=x")
        .get();
    let raw = informers.all::<ConfigMap>().raw().get();
    let metadata = informers.all::<ConfigMap>().metadata().get();
    let found = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let dynamic = informers.of_resource(&found).get();
    let parts = || {
        let maps = informers.all::<ConfigMap>();
        maps.parts(|maps| {
            vec![
                maps.namespace("prod").labels("app=x"),
                maps.labels("app!=x"),
            ]
        })
        .get()
    };
    let (of_parts, same) = (parts(), parts());
    informers.factory().synced().await.unwrap();
    assert_eq!(of_parts.lister().len(), 2, "all but that of prod");
    assert_eq!(
        first.lister().get("prod", "a").unwrap().get().name_any(),
        "a"
    );
    assert_eq!(raw.lister().len(), 3);
    assert_eq!(metadata.lister().len(), 3);
    assert_eq!((first.lister().len(), of_two.lister().len()), (1, 2));
    assert_eq!(
        dynamic.lister().get("prod", "a").unwrap().get().name_any(),
        "a"
    );
    let opened = mock.log().iter().count();
    assert_eq!(opened, 8, "equal requests share a watch");
    drop((
        of_two, first, second, raw, metadata, dynamic, of_parts, same,
    ));
    settle().await;
    assert!(informers.factory().health().is_empty());
}

#[cfg(feature = "zstd")]
#[tokio::test(start_paused = true)]
async fn packed_objects_are_stored_whole() {
    let mock = server();
    let metadata = json!({ "name": "a", "namespace": "prod" });
    let map = json!({ "metadata": metadata, "data": { "text": "compressible ".repeat(100) } });
    mock.create("configmaps", map.clone()).unwrap();
    let informers = Informers::new(client(&mock));
    let packed = informers.all::<ConfigMap>().packed().get();
    packed.synced().await.unwrap();
    let stored = packed.lister().get("prod", "a").unwrap();
    let unpacked: Value = serde_json::from_slice(stored.unpack().unwrap().bytes()).unwrap();
    assert_eq!(unpacked["data"], map["data"]);
    let typed: Arc<ConfigMap> = stored.get().unwrap();
    assert_eq!(typed.data.as_ref().unwrap().len(), 1);
}

/// Each kind of write, on servers that answer a DELETE in each of the three ways.
#[tokio::test(start_paused = true)]
async fn the_caches_show_the_writes_of_the_client() {
    for deletes in [
        DeleteAnswer::Status,
        DeleteAnswer::OldVersion,
        DeleteAnswer::NewVersion,
    ] {
        let mut config = Config::default();
        config.deletes = deletes;
        let mock = Mock::with_clock(FakeServer::with_config(1, config), TokioClock::new());
        let informers = Informers::new(client(&mock));
        let maps = informers.all::<ConfigMap>().labels("app=web").get();
        maps.synced().await.unwrap();
        let lister = maps.lister();
        let api = Api::<ConfigMap>::namespaced(informers.client(), "prod");
        let version = |name: &str| Some(lister.get("prod", name)?.resource_version().to_string());

        let mut generated = map("");
        generated.metadata.name = None;
        generated.metadata.generate_name = Some("gen-".to_owned());
        let generated = api
            .create(&PostParams::default(), &generated)
            .await
            .unwrap();
        let name = generated.name_any();
        assert_eq!(
            version(&name),
            None,
            "the event cannot have arrived, so the next line waits"
        );
        informers.sees_own_writes().await.unwrap();
        assert_eq!(version(&name), generated.resource_version());

        let apply = PatchParams::apply("test").force();
        let patch = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": map("a").metadata, "data": { "n": "1" } });
        let applied = api.patch("a", &apply, &Patch::Apply(&patch)).await.unwrap();
        informers.sees_own_writes().await.unwrap();
        assert_eq!(version("a"), applied.resource_version());

        let merge = Patch::Merge(json!({ "data": { "n": "2" } }));
        api.patch("a", &PatchParams::default(), &merge)
            .await
            .unwrap();
        let mut changed = api.get("a").await.unwrap();
        changed
            .data
            .get_or_insert_default()
            .insert("n".to_owned(), "3".to_owned());
        let replaced = api
            .replace("a", &PostParams::default(), &changed)
            .await
            .unwrap();
        informers.sees_own_writes().await.unwrap();
        assert_eq!(version("a"), replaced.resource_version());
        let strategic = Patch::Strategic(json!({ "data": { "n": "4" } }));
        let patched = api
            .patch("a", &PatchParams::default(), &strategic)
            .await
            .unwrap();
        informers.sees_own_writes().await.unwrap();
        assert_eq!(version("a"), patched.resource_version());

        // The object ceases to match, so the cache shows its absence.
        let other = Patch::Merge(json!({ "metadata": { "labels": { "app": "other" } } }));
        api.patch("a", &PatchParams::default(), &other)
            .await
            .unwrap();
        assert!(version("a").is_some());
        informers.sees_own_writes().await.unwrap();
        assert_eq!(version("a"), None);

        api.delete(&name, &DeleteParams::default()).await.unwrap();
        assert!(version(&name).is_some());
        informers.sees_own_writes().await.unwrap();
        assert_eq!(version(&name), None, "{deletes:?}");
        // A new object of the same name is not taken for the deleted one.
        api.create(&PostParams::default(), &map(&name))
            .await
            .unwrap();
        api.delete(&name, &DeleteParams::default()).await.unwrap();
        informers.sees_own_writes().await.unwrap();
        assert_eq!(version(&name), None, "{deletes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_collections_are_seen_and_dry_runs_are_not_awaited() {
    let mock = server();
    let kept = json!({ "metadata": { "name": "a", "namespace": "prod", "finalizers": ["example.com/x"] } });
    mock.create("configmaps", kept).unwrap();
    for name in ["b", "c"] {
        mock.create(
            "configmaps",
            json!({ "metadata": { "name": name, "namespace": "prod" } }),
        )
        .unwrap();
    }
    let informers = Informers::new(client_of_whole_server(&mock));
    let maps = informers.all::<ConfigMap>().get();
    maps.synced().await.unwrap();
    let api = Api::<ConfigMap>::namespaced(informers.client(), "prod");
    api.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
    assert_eq!(maps.lister().len(), 3);
    informers.sees_own_writes().await.unwrap();
    assert!(maps.lister().len() <= 1);

    settle().await;
    api.create(
        &PostParams {
            dry_run: true,
            ..PostParams::default()
        },
        &map("dry"),
    )
    .await
    .unwrap();
    api.delete(
        "dry",
        &DeleteParams {
            dry_run: true,
            ..DeleteParams::default()
        },
    )
    .await
    .unwrap();
    let patch = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    api.patch("dry", &patch, &Patch::Merge(json!({})))
        .await
        .unwrap();
    timeout(Duration::from_millis(1), informers.sees_own_writes())
        .await
        .expect("nothing was written")
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn errors_pass_unchanged_and_are_not_awaited() {
    let mock = server();
    let expiry = Some(Timestamp::UNIX_EPOCH);
    let informers = Informers::new(client(&mock).with_valid_until(expiry));
    let maps = informers.all::<ConfigMap>().get();
    maps.synced().await.unwrap();
    assert_eq!(informers.client().default_namespace(), "default");
    assert_eq!(*informers.client().valid_until(), expiry);
    let api = Api::<ConfigMap>::namespaced(informers.client(), "prod");
    api.create(&PostParams::default(), &map("a")).await.unwrap();
    match api.create(&PostParams::default(), &map("a")).await {
        Err(kube::Error::Api(status)) => assert!(status.is_already_exists(), "{status:?}"),
        other => panic!("{other:?}"),
    }
    mock.with(|server| server.inject(Fault::refuse()));
    let error = api.get("a").await.unwrap_err();
    assert!(matches!(error, kube::Error::Service(_)), "{error:?}");
    assert_eq!(
        api.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
}

/// The reconcile function counts on its cache: it would create the ConfigMap twice if the cache were stale.
#[tokio::test(start_paused = true)]
async fn a_controller_sees_its_own_writes_without_a_call() {
    let mock = server();
    for name in ["prod", "test"] {
        mock.create("namespaces", team(name, "a")).unwrap();
    }
    mock.create("namespaces", json!({ "metadata": { "name": "other" } }))
        .unwrap();
    let other = mock.with(|server| server.get("namespaces", "", "other"));
    let uid = other.unwrap()["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    // The event of a ConfigMap takes longer than the next change of its Namespace.
    let slow = Fault::nothing().bandwidth(2000);
    mock.with(|server| server.inject(slow.on_path("/api/v1/configmaps").always()));
    let informers = Informers::new(client(&mock));
    let maps = informers.all::<ConfigMap>().labels("app=web").get();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let controller = Controller::new(informers.all::<Namespace>().labels("team"))
        .owns(informers.all::<ConfigMap>().labels("app=web"))
        .workers(4);
    let handle = controller.handle();
    let (client, noted, lister) = (informers.client(), Arc::clone(&runs), maps.lister());
    let running = tokio::spawn(controller.run(move |task: Task<Namespace>| {
        let (client, noted, lister) = (client.clone(), Arc::clone(&noted), lister.clone());
        let uid = uid.clone();
        async move {
            let Some(namespace) = task.object() else {
                return Ok(());
            };
            let present = lister.get(task.name(), "team").is_some();
            noted
                .lock()
                .unwrap()
                .push((task.name().to_owned(), present));
            if present {
                return Ok(());
            }
            let mut wanted = map("team");
            // It also refers to a Namespace that does not manage it.
            wanted.metadata.owner_references =
                kube::Resource::controller_owner_ref(&**namespace.value(), &()).map(|owner| {
                    let mut other = owner.clone();
                    (other.controller, other.name) = (None, "other".to_owned());
                    other.uid.clone_from(&uid);
                    vec![other, owner]
                });
            let api = Api::<ConfigMap>::namespaced(client, task.name());
            api.create(&PostParams::default(), &wanted)
                .await
                .map(|_| ())
        }
    }));
    for round in 0..20 {
        for name in ["prod", "test"] {
            mock.update("namespaces", team(name, &format!("round-{round}")))
                .unwrap();
        }
        sleep(Duration::from_millis(20)).await;
    }
    sleep(Duration::from_secs(1)).await;
    let first = core::mem::take(&mut *runs.lock().unwrap());
    assert_eq!(
        first.iter().filter(|(_, present)| !present).count(),
        2,
        "{first:?}"
    );
    assert!(first.len() > 2);

    // The deletion of an owned object leads to a run of its owner.
    mock.delete("configmaps", "prod", "team").unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(
        mock.with(|server| server.get("configmaps", "prod", "team"))
            .is_some()
    );
    let runs = core::mem::take(&mut *runs.lock().unwrap());
    assert!(runs.contains(&("prod".to_owned(), false)), "{runs:?}");
    assert!(runs.iter().all(|(name, _)| name == "prod"), "{runs:?}");
    handle.stop();
    running.await.unwrap().unwrap();
}

/// A client whose server evicts Pods: it deletes them, or only marks them for deletion.
fn client_that_evicts(mock: &Server, marks: bool) -> Client {
    let inner = client(mock);
    let mock = mock.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, mock) = (inner.clone(), mock.clone());
        async move {
            let path = request.uri().path().to_owned();
            let Some(pod) = path.strip_suffix("/eviction") else {
                return inner.send(request).await;
            };
            let name = pod.rsplit('/').next().unwrap();
            if marks {
                let mut pod = mock
                    .with(|server| server.get("pods", "prod", name))
                    .unwrap();
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
                mock.update("pods", pod).unwrap();
            } else {
                mock.delete("pods", "prod", name).unwrap();
            }
            let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
            let answer = Response::builder().status(201);
            Ok(answer
                .body(Body::from(status.to_string().into_bytes()))
                .unwrap())
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn evictions_are_writes() {
    for marks in [true, false] {
        let mock = server();
        let pod = json!({ "metadata": { "name": "web", "namespace": "prod" } });
        mock.create("pods", pod.clone()).unwrap();
        // An event takes longer than a read.
        let slow = Fault::nothing().bandwidth(2000).on_path("/api/v1/pods");
        mock.with(|server| server.inject(slow.always()));
        let informers = Informers::new(client_that_evicts(&mock, marks));
        let pods = informers.all::<Pod>().get();
        pods.synced().await.unwrap();
        let lister = pods.lister();
        // As seen by the cache: whether the Pod is to be deleted.
        let ends = || {
            let pod = lister.get("prod", "web")?;
            Some(pod.get().metadata.deletion_timestamp.is_some())
        };
        let api = Api::<Pod>::namespaced(informers.client(), "prod");
        api.evict("web", &EvictParams::default()).await.unwrap();
        assert_eq!(ends(), Some(false), "the event has not arrived");
        informers.sees_own_writes().await.unwrap();
        assert_eq!(ends(), marks.then_some(true));

        // The cache has not seen the Pod when it is evicted.
        if marks {
            mock.delete("pods", "prod", "web").unwrap();
            sleep(Duration::from_secs(1)).await;
        }
        api.create(
            &PostParams::default(),
            &serde_json::from_value(pod).unwrap(),
        )
        .await
        .unwrap();
        api.evict("web", &EvictParams::default()).await.unwrap();
        assert_eq!(ends(), None);
        informers.sees_own_writes().await.unwrap();
        assert_eq!(ends(), marks.then_some(true));
        let version = pods.resource_version().parse::<u64>().unwrap();
        assert_eq!(version, mock.with(|server| server.version()));
    }
}

/// A client whose server binds Pods, scales by a subresource of its own, breaks off the answers to `resize`, and answers
/// requests through its proxy by streams without an end.
fn client_with_subresources(mock: &Server) -> Client {
    let inner = client(mock);
    let mock = mock.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, mock) = (inner.clone(), mock.clone());
        async move {
            let path = request.uri().path().to_owned();
            let whole = |body: Value| Reply::Whole(Body::from(body.to_string().into_bytes()));
            let answer = |body| Ok(Response::builder().status(201).body(body).unwrap());
            let change = |field: &str| {
                let mut pod = mock
                    .with(|server| server.get("pods", "prod", "web"))
                    .unwrap();
                pod["spec"][field] = "n1".into();
                mock.update("pods", pod).unwrap();
                mock.with(|server| server.get("pods", "prod", "web"))
                    .unwrap()
            };
            if path.ends_with("/binding") {
                change("nodeName");
                answer(whole(
                    json!({ "kind": "Status", "metadata": {}, "status": "Success" }),
                ))
            } else if path.ends_with("/restart") {
                answer(whole(change("hostname")))
            } else if path.contains("/proxy/") {
                answer(Reply::Endless)
            } else if path.ends_with("/resize") {
                answer(Reply::Cut)
            } else {
                let response = inner.send(request).await?;
                Ok::<_, kube::Error>(response.map(Reply::Whole))
            }
        }
    });
    Client::new(service, "default")
}

/// The body of an answer. That of a stream begins and never ends.
enum Reply {
    Whole(Body),
    Endless,
    Cut,
}

impl http_body::Body for Reply {
    type Data = <Body as http_body::Body>::Data;
    type Error = kube::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, kube::Error>>> {
        match &mut *self {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Endless => Poll::Pending,
            Self::Cut => Poll::Ready(Some(Err(kube::Error::Service("cut".into())))),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn subresources_write_their_object_or_pass() {
    let mock = server();
    let pod = json!({ "metadata": { "name": "web", "namespace": "prod" } });
    mock.create("pods", pod).unwrap();
    let slow = Fault::nothing().bandwidth(2000).on_path("/api/v1/pods");
    mock.with(|server| server.inject(slow.always()));
    let informers = Informers::new(client_with_subresources(&mock)).writes_by("restart");
    let pods = informers.all::<Pod>().get();
    pods.synced().await.unwrap();
    let (lister, client) = (pods.lister(), informers.client());
    let shown = || {
        let spec = lister.get("prod", "web").unwrap().get().spec.clone();
        let spec = spec.unwrap_or_default();
        (spec.node_name.is_some(), spec.hostname.is_some())
    };
    let post = |path: &str| {
        let target = format!("/api/v1/namespaces/prod/{path}");
        client.send(Request::post(target).body(Body::empty()).unwrap())
    };
    post("pods/web/binding").await.unwrap();
    assert_eq!(shown(), (false, false), "the event has not arrived");
    informers.sees_own_writes().await.unwrap();
    assert_eq!(shown(), (true, false));
    post("pods/web/restart").await.unwrap();
    assert_eq!(shown(), (true, false));
    informers.sees_own_writes().await.unwrap();
    assert_eq!(shown(), (true, true));

    let cut = post("pods/web/resize").await.unwrap().into_body();
    assert!(cut.collect_bytes().await.is_err(), "as without informers");
    for path in ["services/x/proxy/events", "pods/web/proxy/a/status"] {
        let answer = timeout(Duration::from_secs(5), post(path)).await;
        assert_eq!(answer.unwrap().unwrap().status(), 201, "{path}");
    }
    let seen = timeout(Duration::from_secs(5), informers.sees_own_writes()).await;
    seen.unwrap().unwrap();
}
