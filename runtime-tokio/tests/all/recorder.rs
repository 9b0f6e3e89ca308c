//! Events about objects, as a service gets them.

use core::convert::Infallible;
use core::future::{Ready, ready};
use core::task::{Context, Poll};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use informer_mock::json;
use informer_tokio::recorder::{Happened, Recorder, Regarding};
use informer_tokio::{Informer, Raw};
use serde_json::Value;
use tokio::time::sleep;

use crate::support::{PODS, secs, server};

/// Takes requests, of which a PATCH is refused with 404 while `has_expired`.
#[derive(Clone, Default)]
struct Events {
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    has_expired: bool,
}

impl tower_service::Service<Request<Full<Bytes>>> for Events {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let what = format!("{} {}", request.method(), request.uri());
        let is_gone = self.has_expired && what.starts_with("PATCH");
        let collected = futures_util::FutureExt::now_or_never(request.into_body().collect());
        let body = collected.unwrap().unwrap().to_bytes();
        let mut requests = self.requests.lock().unwrap();
        requests.push((what, serde_json::from_slice(&body).unwrap()));
        let name = format!("event.{}", requests.len());
        let body = json!({ "metadata": { "name": name } }).to_string();
        let status = if is_gone { 404 } else { 201 };
        let response = Response::builder().status(status).body(Full::from(body));
        ready(Ok(response.unwrap()))
    }
}

impl Events {
    /// Returns the requests, each with the count of its series.
    fn take(&self) -> Vec<(String, Value)> {
        let requests = self.requests.lock().unwrap().drain(..).collect::<Vec<_>>();
        let count = |body: Value| body["series"]["count"].clone();
        requests
            .into_iter()
            .map(|(what, body)| (what, count(body)))
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_again_counts_up_the_first() {
    let mock = server();
    let pod = json!({ "metadata": { "name": "System:web", "namespace": "prod" } });
    mock.create("pods", pod).unwrap();
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS).spawn();
    pods.synced().await.unwrap();
    let pod = pods.lister().get("prod", "System:web").unwrap();
    let events = Events::default();
    let recorder = Recorder::new(events.clone(), "example.com/test", "one");
    let about = Regarding::of("v1", "Pod", &pod);
    let long = Happened::warning("Odd", "Look", "é".repeat(1000));
    recorder.publish(&about, &long).await.unwrap();
    let (what, event) = events.requests.lock().unwrap().pop().unwrap();
    assert_eq!(what, "POST /apis/events.k8s.io/v1/namespaces/prod/events");
    assert_eq!(event["metadata"]["generateName"], "system-web-");
    assert_eq!(
        (&event["type"], &event["regarding"]["kind"]),
        (&json!("Warning"), &json!("Pod"))
    );
    assert_eq!(event["regarding"]["uid"], pod.uid().to_string());
    assert_eq!(event["note"].as_str().unwrap().len(), 1024);

    let normal = Happened::normal("Fine", "Look", "it is");
    let path = "/apis/events.k8s.io/v1/namespaces/prod/events";
    let posted = || (format!("POST {path}"), Value::Null);
    for _ in 0..3 {
        // A clone has the same series.
        recorder.clone().publish(&about, &normal).await.unwrap();
        sleep(secs(300)).await;
    }
    let patched = |number: u64| (format!("PATCH {path}/event.1"), json!(number));
    assert_eq!(events.take(), [posted(), patched(2), patched(3)]);
    sleep(secs(60)).await;
    recorder.publish(&about, &normal).await.unwrap();
    assert_eq!(
        events.take(),
        [posted()],
        "it is another one after six minutes"
    );

    let expired = Events {
        has_expired: true,
        ..Events::default()
    };
    let recorder = Recorder::new(expired.clone(), "example.com/test", "one");
    recorder.publish(&about, &normal).await.unwrap();
    recorder.publish(&about, &normal).await.unwrap();
    assert_eq!(expired.take(), [posted(), patched(2), posted()]);
}
