//! Elections whose Leases are read and written by a `kube::Client`.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use http::{Request, Response};
use informer_kube::KubeLease;
use informer_mock::json;
use informer_tokio::election::{
    Election, Leadership, LeaseClient as _, LeaseRecord, MembersClient as _, Replica, Written,
};
use kube::Client;
use kube::client::Body;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::server::{Server, client, server};

fn with_leases() -> Server {
    let mock = server();
    mock.with(|server| server.add_resource("coordination.k8s.io", "v1", "leases", "Lease", true));
    mock
}

fn join(mock: &Server, name: &str) -> (Leadership, JoinHandle<()>) {
    join_with(client(mock), name)
}

fn join_with(client: Client, name: &str) -> (Leadership, JoinHandle<()>) {
    let lease = KubeLease::new(client, "prod", "web");
    let lease = lease.label("app", "web").label("tier", "front");
    let (leadership, election) = Election::new(lease, name, Default::default()).unwrap();
    (leadership, tokio::spawn(election.run()))
}

#[tokio::test(start_paused = true)]
async fn a_replica_leads_until_it_is_gone_and_then_the_next_does() {
    let mock = with_leases();
    let (a, a_runs) = join(&mock, "a");
    assert!(a.acquired().await);
    let lease = || {
        mock.with(|server| {
            server
                .get("leases.coordination.k8s.io", "prod", "web")
                .unwrap()
        })
    };
    let acquired = lease();
    let (b, _b_runs) = join(&mock, "b");
    sleep(Duration::from_secs(60)).await;
    assert!(a.is_leader() && !b.is_leader());
    let first = lease();
    assert_eq!(first["spec"]["holderIdentity"], "a");
    assert_eq!(
        first["spec"]["acquireTime"],
        acquired["spec"]["acquireTime"]
    );
    assert_ne!(first["spec"]["renewTime"], acquired["spec"]["renewTime"]);
    let labels = json!({ "app": "web", "tier": "front" });
    assert_eq!(first["metadata"]["labels"], labels);

    a_runs.abort();
    assert!(b.acquired().await);
    let second = lease();
    assert_eq!(second["spec"]["holderIdentity"], "b");
    assert_eq!(second["spec"]["leaseTransitions"], 1);
    assert_ne!(second["spec"]["acquireTime"], first["spec"]["acquireTime"]);
    assert_eq!(second["metadata"]["uid"], first["metadata"]["uid"]);
}

/// As in a namespace that does not exist, a read finds nothing, and writes are answered with 404. An update has to read the
/// Lease again, as if it were deleted, and then create it.
#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_created_is_an_error() {
    let service = tower::service_fn(|_: Request<Body>| {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": "NotFound", "message": "namespaces \"typo\" not found", "code": 404,
        });
        let answer = Response::builder().status(404);
        let body = Body::from(status.to_string().into_bytes());
        core::future::ready(Ok::<_, kube::Error>(answer.body(body).unwrap()))
    });
    let mut lease = KubeLease::new(Client::new(service, "default"), "typo", "web");
    assert!(lease.read().await.unwrap().is_none());
    let record = LeaseRecord::default();
    let updated = lease.update(&record, "1", false).await.unwrap();
    assert_eq!(updated, Written::Conflict);
    let error = lease.create(&record).await.unwrap_err();
    assert_eq!(error.status(), Some(404));
    let expected = "POST /apis/coordination.k8s.io/v1/namespaces/typo/leases: the server responds with 404 Not Found: \
        namespaces \"typo\" not found";
    assert_eq!(error.to_string(), expected);
}

/// Somebody else's annotation survives renewals, and their write in between is a conflict, not an overwrite. The server
/// fails each second renewal, which costs neither the annotation nor the leadership.
#[tokio::test(start_paused = true)]
async fn fields_that_the_election_does_not_use_survive() {
    let mock = with_leases();
    let (inner, renewals) = (client(&mock), Arc::new(AtomicUsize::new(0)));
    let renewed = Arc::clone(&renewals);
    let service = tower::service_fn(move |request: Request<Body>| {
        let fails = request.method() == "PUT" && renewed.fetch_add(1, Ordering::SeqCst) % 2 == 1;
        let inner = inner.clone();
        async move {
            if fails {
                let answer = Response::builder().status(500).body(Body::empty());
                return Ok(answer.unwrap());
            }
            inner.send(request).await
        }
    });
    let (a, _a_runs) = join_with(Client::new(service, "default"), "a");
    assert!(a.acquired().await);
    let mut lease = mock.with(|server| {
        server
            .get("leases.coordination.k8s.io", "prod", "web")
            .unwrap()
    });
    lease["metadata"]["annotations"] = json!({ "note": "mine" });
    mock.update("leases.coordination.k8s.io", lease).unwrap();
    // The conflict of this write is resolved by a read.
    sleep(Duration::from_secs(5)).await;
    for _ in 0..60 {
        assert!(a.is_leader());
        sleep(Duration::from_secs(1)).await;
    }
    assert!(renewals.load(Ordering::SeqCst) > 10);
    let lease = mock.with(|server| {
        server
            .get("leases.coordination.k8s.io", "prod", "web")
            .unwrap()
    });
    assert_eq!(lease["metadata"]["annotations"]["note"], "mine");
}

#[tokio::test(start_paused = true)]
async fn the_members_are_the_leases_with_the_same_labels() {
    let mock = with_leases();
    for (name, app, tier) in [
        ("a", "web", "front"),
        ("x", "other", "front"),
        ("y", "web", "back"),
    ] {
        let labels = json!({ "app": app, "tier": tier });
        let lease = json!({
            "metadata": { "name": name, "namespace": "prod", "labels": labels },
            "spec": { "holderIdentity": name, "leaseDurationSeconds": 15 },
        });
        mock.create("leases.coordination.k8s.io", lease).unwrap();
    }
    let own = KubeLease::new(client(&mock), "prod", "a");
    let mut own = own.label("app", "web").label("tier", "front");
    let members = own.list().await.unwrap();
    let holders: Vec<_> = members
        .iter()
        .map(|member| (member.holder.as_str(), member.duration_seconds))
        .collect();
    assert_eq!(holders, [("a", 15)]);
}

#[tokio::test(start_paused = true)]
async fn leases_of_replicas_that_are_gone_are_removed() {
    let mock = with_leases();
    let names = || {
        mock.with(|server| {
            let leases = server.objects("leases.coordination.k8s.io");
            leases
                .map(|lease| lease.name().to_owned())
                .collect::<Vec<_>>()
        })
    };
    let join = |name: &str| {
        let lease = KubeLease::new(client(&mock), "prod", name).label("app", "web");
        let (replica, work) = Replica::new(lease.clone(), lease, name, Default::default()).unwrap();
        (replica, tokio::spawn(work.run()))
    };
    let lease = json!({
        "metadata": { "name": "other", "namespace": "prod" },
        "spec": { "holderIdentity": "other", "leaseDurationSeconds": 15 },
    });
    mock.create("leases.coordination.k8s.io", lease).unwrap();
    let (_a, _a_works) = join("a");
    let (b, _) = join("b");
    let (_c, c_works) = join("c");
    sleep(Duration::from_secs(40)).await;
    b.resign().await;
    c_works.abort();
    sleep(Duration::from_secs(55)).await;
    assert_eq!(names(), ["a", "b", "c", "other"]);
    sleep(Duration::from_secs(15)).await;
    assert_eq!(names(), ["a", "other"], "the latter has other labels");
}

/// A Lease that was renewed after the list is not removed, nor one of any program if there are no labels. Whoever writes
/// one in another state than the known one has to read it again.
#[tokio::test(start_paused = true)]
async fn a_lease_is_removed_and_written_only_in_the_known_state() {
    let mock = with_leases();
    let lease = |holder: &str| {
        json!({
            "metadata": { "name": "a", "namespace": "prod", "labels": { "app": "web" } },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 },
        })
    };
    let exists = || {
        mock.with(|server| server.get("leases.coordination.k8s.io", "prod", "a"))
            .is_some()
    };
    mock.create("leases.coordination.k8s.io", lease("a"))
        .unwrap();
    let mut unlabelled = KubeLease::new(client(&mock), "prod", "b");
    let listed = unlabelled.list().await.unwrap();
    unlabelled.remove(&listed[0]).await.unwrap();
    assert!(exists());

    let mut own = KubeLease::new(client(&mock), "prod", "b").label("app", "web");
    let listed = own.list().await.unwrap();
    let mut renewed = lease("a");
    renewed["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z".into();
    mock.update("leases.coordination.k8s.io", renewed).unwrap();
    own.remove(&listed[0]).await.unwrap();
    assert!(exists(), "its version is another one");
    let listed = own.list().await.unwrap();
    own.remove(&listed[0]).await.unwrap();
    assert!(!exists());
    own.remove(&listed[0]).await.unwrap();
    let created = own.create(&listed[0]).await.unwrap();
    assert!(matches!(created, Written::Done(_)), "{created:?}");
    let created = own.create(&listed[0]).await.unwrap();
    assert_eq!(created, Written::Conflict, "it exists");
}
