//! An informer over a noisy line has the server's state in the end, and only objects of the server before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use informer_mock::{FakeServer, Mock, TokioClock, json};
use informer_tokio::decode::Decoder;
use informer_tokio::informer::Initial;
use informer_tokio::{Informer, Raw, Resource};
use tokio::task::{LocalSet, spawn_local};

use crate::support::{Random, connect};

#[tokio::test(start_paused = true)]
async fn an_informer_has_what_the_server_has_whatever_the_line_does() {
    let mut right = 0;
    for seed in 0..6 {
        right += LocalSet::new().run_until(run(seed)).await;
    }
    // Or there was no noise to speak of, or nothing else.
    assert!(
        (60..240).contains(&right),
        "{right} of 354 times it was right"
    );
}

/// Returns how often the informer had the server's state, of 59 times.
async fn run(seed: u64) -> usize {
    let mut random = Random::new(seed);
    let mock = Mock::with_clock(FakeServer::new(seed), TokioClock::new());
    let put = |name: u64, value: u64| {
        let pod = json!({
            "metadata": { "namespace": "prod", "name": format!("p{name}") },
            "spec": { "nodeName": format!("n{value}") }
        });
        let version = mock.put("pods", pod).unwrap();
        let node = format!("\"n{value}\"");
        (format!("p{name}"), (version.to_string(), node))
    };
    let mut there: BTreeMap<_, _> = (0..20).map(|name| put(name, 0)).collect();
    let mut ever: BTreeSet<_> = there.clone().into_iter().collect();
    let (device, noise) = connect(mock.transport(), 64, seed);

    let pods = Resource::parse("pods").unwrap();
    let (informer, driver) = Informer::<Raw>::builder_with(device, pods, Decoder::<Raw>::new())
        .initial(Initial::List)
        .page_size(7)
        .seed(seed)
        .build();
    let driver = spawn_local(driver.run());
    let here = || -> BTreeMap<_, _> {
        let entries = informer.lister().list();
        let shown = entries.iter().map(|entry| {
            let node = entry.value().at(&["spec", "nodeName"]).unwrap();
            let node = String::from_utf8_lossy(node).into_owned();
            let object = (entry.resource_version().to_string(), node);
            (entry.name().to_string(), object)
        });
        shown.collect()
    };
    let mut right = 0;
    for value in 1..60 {
        noise.set([0, 2, 10, 5000][random.below(4) as usize]);
        for _ in 0..random.below(4) {
            let object = put(random.below(25), value);
            ever.insert(object.clone());
            there.extend([object]);
        }
        if random.below(3) == 0
            && let Some((name, _)) = there.pop_first()
        {
            mock.delete("pods", "prod", &name).unwrap();
        }
        if random.below(12) == 0 {
            mock.with(FakeServer::compact_all);
            mock.with(FakeServer::cut_watches);
        }
        tokio::time::sleep(Duration::from_millis(random.below(8000))).await;
        let here = here();
        right += usize::from(here == there);
        for object in here {
            assert!(ever.contains(&object), "seed {seed}: {object:?}");
        }
    }

    noise.set(0);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(here(), there, "seed {seed}");
    driver.abort();
    right
}
