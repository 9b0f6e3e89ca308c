//! An informer over a noisy line has the server's state in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use informer_mock::{FakeServer, Mock, TokioClock, json};
use informer_tokio::decode::Decoder;
use informer_tokio::informer::Initial;
use informer_tokio::{Informer, Raw, Resource};
use tokio::task::{LocalSet, spawn_local};

use crate::support::{Bench, Random};

#[tokio::test(start_paused = true)]
async fn an_informer_has_what_the_server_has_whatever_the_line_does() {
    for seed in 0..6 {
        LocalSet::new().run_until(run(seed)).await;
    }
}

async fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mock = Mock::with_clock(FakeServer::new(seed), TokioClock::new());
    let put = |name: u64, value: u64| {
        let pod = json!({
            "metadata": { "namespace": "prod", "name": format!("p{name}") },
            "spec": { "nodeName": format!("n{value}") }
        });
        mock.put("pods", pod).unwrap();
    };
    (0..20).for_each(|name| put(name, 0));
    let bench = Bench::<256>::start(mock.transport(), 64, seed, Duration::from_secs(60));
    let noise = bench.noise.clone();
    noise.set(10);

    let pods = Resource::parse("pods").unwrap();
    let (informer, driver) =
        Informer::<Raw>::builder_with(bench.device, pods, Decoder::<Raw>::new())
            .initial(Initial::List)
            .page_size(7)
            .build();
    let driver = spawn_local(driver.run());
    for value in 1..60 {
        noise.set([0, 5, 20, 5000][random.below(4) as usize]);
        for _ in 0..random.below(4) {
            put(random.below(25), value);
        }
        if random.below(3) == 0 {
            // It may be deleted already.
            let _ = mock.delete("pods", "prod", &format!("p{}", random.below(25)));
        }
        if random.below(12) == 0 {
            mock.with(FakeServer::compact_all);
            mock.with(FakeServer::cut_watches);
        }
        tokio::time::sleep(Duration::from_millis(random.below(8000))).await;
    }
    assert!(noise.hits() > 100, "there was no noise to speak of");

    noise.set(0);
    tokio::time::sleep(Duration::from_secs(300)).await;
    let there: BTreeMap<String, String> = mock.with(|server| {
        let objects = server.objects("pods");
        objects
            .map(|object| {
                let pod = server.get("pods", object.namespace(), object.name());
                let version = pod.unwrap()["metadata"]["resourceVersion"].clone();
                let key = format!("{}/{}", object.namespace(), object.name());
                (key, version.as_str().unwrap().to_owned())
            })
            .collect()
    });
    let here: BTreeMap<String, String> = informer
        .lister()
        .list()
        .iter()
        .map(|entry| {
            let key = format!("{}/{}", entry.namespace(), entry.name());
            (key, entry.resource_version().to_string())
        })
        .collect();
    assert_eq!(here, there, "seed {seed}");
    driver.abort();
}
