//! What user-defined functions may do, and what is true when they are called.

use std::sync::{Arc, Mutex, OnceLock};

use futures_util::FutureExt as _;
use informer_core::Resource;
use informer_mock::{FakeServer, Mock, TokioClock, json};
use informer_tokio::{Event, Informer, Raw, RawJson, Subscription};

const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");

fn mock() -> Mock<FakeServer, TokioClock> {
    Mock::with_clock(FakeServer::new(1), TokioClock::new())
}

fn pod(name: &str) -> serde_json::Value {
    json!({ "metadata": { "name": name, "namespace": "prod" }, "spec": { "nodeName": "n1" } })
}

/// The hook runs between the notification of listeners and the update of what tasks wait for, as a listener on another
/// thread does at times.
#[tokio::test(start_paused = true)]
async fn whoever_is_notified_of_synced_sees_the_version() {
    let mock = mock();
    mock.create("pods", pod("web")).unwrap();
    type Reader = (Informer<RawJson>, Mutex<Subscription<RawJson>>);
    let reader: Arc<OnceLock<Reader>> = Arc::default();
    let seen: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let (hook_reader, hook_seen) = (Arc::clone(&reader), Arc::clone(&seen));
    let (pods, driver) = Informer::builder(mock.transport(), PODS, Raw)
        .seed(1)
        .on_version(move |_| {
            let (pods, events) = hook_reader.get().unwrap();
            while let Some(Some(event)) = events.lock().unwrap().recv().now_or_never() {
                if matches!(event, Event::Synced) {
                    let health = pods.health();
                    let mut seen = hook_seen.lock().unwrap();
                    seen.push((pods.resource_version(), pods.is_synced()));
                    seen.push((health.resource_version, health.synced));
                }
            }
        })
        .build();
    let events = Mutex::new(pods.subscribe());
    assert!(reader.set((pods.clone(), events)).is_ok());
    tokio::spawn(driver.run());
    pods.synced().await.unwrap();
    let version = pods.resource_version();
    assert!(!version.is_empty());
    assert_eq!(
        *seen.lock().unwrap(),
        [(version.clone(), true), (version, true)]
    );
}
