//! Informers of a factory: what counts as a user, and the end of an informer.

use core::any::Any;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use informer_core::{Decoder, Resource};
use informer_mock::{FakeServer, json};
use informer_tokio::controller::{Controller, Next};
use informer_tokio::factory::Factory;
use informer_tokio::{Handlers, Raw, boxed};
use tokio::time::sleep;

use crate::support::{Server, server};

fn start(mock: &Server) -> Factory {
    let (factory, driver) = Factory::builder(boxed!(mock.transport())).build();
    tokio::spawn(driver.run());
    factory
}

fn mock() -> Server {
    let mock = server();
    create(&mock, "a");
    mock
}

fn create(mock: &Server, name: &str) {
    let object = json!({ "metadata": { "name": name, "namespace": "prod" } });
    mock.create("pods", object).unwrap();
}

async fn settle() {
    sleep(Duration::from_secs(1)).await;
}

/// Everything that reads the cache or receives notifications keeps the informer running without the informer itself.
#[tokio::test(start_paused = true)]
async fn everything_that_uses_a_shared_informer_keeps_it_running() {
    for user in ["lister", "subscription", "handler", "controller"] {
        let mock = mock();
        let factory = start(&mock);
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let pods = factory.raw("pods").unwrap().get();
        let handle = Arc::new(std::sync::OnceLock::new());
        let kept: Box<dyn Any> = match user {
            "lister" => {
                let lister = pods.lister();
                let task = tokio::spawn(async move {
                    loop {
                        count.store(lister.len(), Relaxed);
                        sleep(Duration::from_millis(100)).await;
                    }
                });
                Box::new(AbortOnDrop(task))
            }
            "subscription" => {
                let mut events = pods.subscribe();
                let task = tokio::spawn(async move {
                    while let Some(event) = events.recv().await {
                        let adds = matches!(event, informer_tokio::Event::Added { .. });
                        count.fetch_add(usize::from(adds), Relaxed);
                    }
                });
                Box::new(AbortOnDrop(task))
            }
            "handler" => {
                let handler = Handlers::<Raw>::new().on_add(move |_, _| {
                    count.fetch_add(1, Relaxed);
                });
                assert!(handle.set(pods.add_handler(handler)).is_ok());
                Box::new(())
            }
            _ => {
                let controller = Controller::new(&pods);
                let task = tokio::spawn(controller.run(move |_| {
                    count.fetch_add(1, Relaxed);
                    async { Ok::<_, core::fmt::Error>(Next::done()) }
                }));
                Box::new(AbortOnDrop(task))
            }
        };
        drop(pods);
        settle().await;
        create(&mock, "b");
        settle().await;
        assert_eq!(seen.load(Relaxed), 2, "{user}");
        if let Some(handle) = handle.get() {
            handle.remove();
        }
        drop(kept);
        settle().await;
        assert!(factory.health().is_empty(), "{user}: it is no longer used");
        assert_eq!(mock.with(FakeServer::open_responses), (0, 0), "{user}");
    }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A program that ends right after a controller drops the driver as well. That is reported if the informer has users.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_last_user_stops_the_informer_at_once() {
    let mock = mock();
    let factory = start(&mock);
    let pods = factory.raw("pods").unwrap().get();
    let handle = pods.add_handler(Handlers::<Raw>::new().on_add(|_, _| ()));
    drop(pods);
    settle().await;
    assert_eq!(factory.health().len(), 1);
    handle.remove();
    assert!(factory.health().is_empty(), "the handler is removed");

    let controller = Controller::new(&factory.raw("pods").unwrap().get());
    let control = controller.handle();
    let run = tokio::spawn(controller.run(|_| async { Ok::<_, core::fmt::Error>(Next::done()) }));
    settle().await;
    assert_eq!(factory.health().len(), 1);
    control.stop();
    run.await.unwrap().unwrap();
    assert!(factory.health().is_empty(), "the controller has ended");
    drop(control); // A handle alone keeps nothing running.
}

/// Users of the ended informer are notified of the end, and the next request gets a new one.
#[tokio::test(start_paused = true)]
async fn a_factory_replaces_an_informer_that_has_ended() {
    let mock = mock();
    let factory = start(&mock);
    let request = || factory.with::<Raw, _>(Resource::new("", "v1", "pods"), Decoder::<Raw>::new());
    let dead = request().get();
    let mut events = dead.subscribe();
    let handle = dead.add_handler(Handlers::<Raw>::new());
    factory.synced().await.unwrap();
    // One of its users stops it for all.
    dead.stop();
    dead.ended().await;
    while events.recv().await.is_some() {}
    handle.removed().await;
    create(&mock, "b");
    let live = request().get();
    live.synced().await.unwrap();
    assert_eq!((dead.lister().len(), live.lister().len()), (1, 2));
    assert!(request().get().is_synced(), "the new one is shared");
    drop((dead, events));
    settle().await;
    assert_eq!(
        factory.health().len(),
        1,
        "the end of the old one leaves the new one alone"
    );
    create(&mock, "c");
    settle().await;
    assert_eq!(live.lister().len(), 3);
}
