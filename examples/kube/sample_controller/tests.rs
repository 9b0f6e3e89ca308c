//! Webs and Deployments, on a server in this program with a real port, as `kube::Client` requires.
#![allow(clippy::unwrap_used, reason = "a test may")]

use core::time::Duration;
use std::sync::{Arc, Mutex};

use informer_kube::Informers;
use informer_mock::{Verb, json};
use kube::{Client, config::Config};
use serde_json::Value;

use super::{controller, web};
use informer_examples::cluster::{self, Demo};

/// Waits until a Deployment is as expected, as long as a slow machine may take.
async fn until(demo: &Demo, name: &str, is: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
    for _ in 0..3000 {
        let now = demo.with(|server| server.get("deployments.apps", "prod", name));
        if is(now.as_ref()) {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{name} does not come to be as it should")
}

fn replicas(deployment: Option<&Value>) -> Option<u64> {
    deployment?.pointer("/spec/replicas")?.as_u64()
}

#[tokio::test]
async fn a_web_becomes_a_deployment_and_stays_one() {
    let (demo, url) = cluster::start(controller::demo).await.unwrap();
    let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
    let informers = Informers::new(client);
    let failures = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&failures);
    let controller = controller::new(&informers)
        .workers(4)
        .on_failure(move |key, failure| heard.lock().unwrap().push(format!("{key}: {failure}")));
    let handle = controller.handle();
    let running = tokio::spawn(async move { controller::run(controller, &informers).await });

    let shop = until(&demo, "shop", |shop| replicas(shop) == Some(2))
        .await
        .unwrap();
    let owner = &shop["metadata"]["ownerReferences"][0];
    let web_uid = demo.with(|server| server.get("webs.example.com", "prod", "shop").unwrap());
    assert_eq!(owner["uid"], web_uid["metadata"]["uid"]);
    until(&demo, "blog", |blog| replicas(blog) == Some(1)).await;

    demo.put("webs.example.com", web("shop", 5)).unwrap();
    until(&demo, "shop", |shop| replicas(shop) == Some(5)).await;
    demo.delete("deployments.apps", "prod", "shop").unwrap();
    until(&demo, "shop", |shop| replicas(shop) == Some(5)).await;
    let mut by_hand = demo.with(|server| server.get("deployments.apps", "prod", "blog").unwrap());
    by_hand["spec"]["replicas"] = json!(7);
    demo.update("deployments.apps", by_hand).unwrap();
    until(&demo, "blog", |blog| replicas(blog) == Some(1)).await;

    // Many changes of one Web: the last one takes effect, and a stale cache causes no repeated write.
    let writes = |demo: &Demo| {
        let log = demo.log();
        log.iter()
            .filter(|request| request.verb == Verb::Other)
            .count()
    };
    let before = writes(&demo);
    for round in 10..30 {
        demo.put("webs.example.com", web("shop", round)).unwrap();
    }
    until(&demo, "shop", |shop| replicas(shop) == Some(29)).await;
    assert!((1..=20).contains(&(writes(&demo) - before)));
    handle.stop();
    running.await.unwrap().unwrap();
    assert_eq!(*failures.lock().unwrap(), [""; 0]);
}
