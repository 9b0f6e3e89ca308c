//! The whole informer over compressed bodies, from a server on a real port.

use core::time::Duration;

use informer_core::reflector::Initial;
use informer_hyper::HyperTransport;
use informer_mock::{Config, FakeServer, Fault, Mock, TokioClock, Verb, serve};
use informer_tests::support::{PODS, next, pod, shown};
use informer_tokio::{Informer, Raw};

const COUNT: usize = 3000;

/// Lists, streams and compressed streams give the same result, even if a body is cut within a gzip member, or arrives
/// a few bytes at a time.
#[tokio::test]
async fn compressed_bodies_bring_what_plain_ones_do() {
    for (minor, initial) in [
        (36, Initial::List),
        (37, Initial::List),
        (36, Initial::Stream),
        (37, Initial::Stream),
    ] {
        let mock = Mock::with_clock(
            FakeServer::with_config(1, Config::for_minor(minor)),
            TokioClock::new(),
        );
        for index in 0..COUNT {
            mock.create("pods", pod(&format!("p{index:04}"), 0))
                .unwrap();
        }
        let verb = match initial {
            Initial::List => Verb::List,
            Initial::Stream => Verb::Stream,
        };
        mock.with(|server| {
            server.inject(Fault::nothing().cut_inside_event(COUNT / 2).on(verb));
            server.inject(Fault::nothing().split(&[1000, 7, 50_000]).on(verb));
        });
        let serving = serve(mock.clone(), "127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", serving.local_addr());
        tokio::spawn(serving.run());
        let transport = HyperTransport::builder(&url).gzip(true).build().unwrap();
        let mut backoff = informer_core::time::BackoffConfig::default();
        // In real time, waiting would show nothing.
        backoff.initial = Duration::from_millis(1);
        let (pods, driver) = Informer::<Raw>::builder_for(&transport, PODS)
            .initial(initial)
            .backoff(backoff)
            .build();
        let driver = tokio::spawn(driver.run());
        let mut events = pods.subscribe();
        while shown(&next(&mut events).await) != "synced" {}
        assert_eq!(pods.lister().len(), COUNT);
        for round in 1..=3 {
            let version = mock.update("pods", pod("p0007", round)).unwrap();
            pods.wait_until(&version.to_string()).await.unwrap();
            let seen = pods.lister().get("prod", "p0007").unwrap();
            assert_eq!(seen.resource_version().to_string(), version.to_string());
        }
        assert!(
            !mock.with(|server| server.has_faults()),
            "{minor} {initial:?}"
        );
        pods.stop();
        driver.await.unwrap();
    }
}
