//! An object costs the same in a small cache as in a large one: temporary memory of a list is released after it.
//!
//! An informer whose watch is idle holds no large buffers, so a program can have a thousand.
//!
//! The server is a separate process, so that only the informer's memory is counted. An object's cost is not measured for
//! packed ones: allocations of zstd itself are not counted, and objects stored before there is a dictionary take more.

use informer_core::Form;
use informer_hyper::HyperTransport;
use informer_tests::demo::DemoServer;
use informer_tests::memory::Counting;
use informer_tests::{say, support::PATIENCE};
use informer_tokio::decode::{Decode, Packer};
use informer_tokio::health::State;
use informer_tokio::informer::Initial;
use informer_tokio::{Informer, Meta, Packed, Raw, Resource};
use tokio::sync::Mutex;
use tokio::time::timeout;

#[global_allocator]
static MEMORY: Counting = Counting::new();

const PROGRAM: &str = env!("CARGO_BIN_EXE_demo_server");
const FEW: usize = 2_000;
const MANY: usize = 20_000;
/// The maximum ratio between the two costs.
const BOUND: f64 = 1.2;
/// The most bytes for one object among many: 5 % more than when this was written.
const META_BOUND: f64 = 917.0;
const RAW_BOUND: f64 = 2_223.0;
/// The number of clusters, each with this many Pods, and the most bytes for one of them and its Pods.
const CLUSTERS: usize = 200;
const PODS: usize = 100;
const IDLE_BOUND: usize = 155_000;

/// The tests count the memory of the process, so they run one after the other.
static ALONE: Mutex<()> = Mutex::const_new(());

async fn watching<F: Form<Stored: Send + Sync + 'static>>(informer: &Informer<F>) {
    timeout(PATIENCE, async {
        while informer.health().state != State::Watching {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("in time");
}

/// Returns the cost per object, including the informer's other memory.
async fn cost<F>(server: &str, count: usize) -> f64
where
    F: Form<Stored: Send + Sync + 'static>,
    F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
{
    let pods = Resource::parse("pods").expect("a resource");
    let before = MEMORY.now();
    let transport = HyperTransport::builder(server).build().expect("a URL");
    let (informer, driver) = Informer::<F>::builder_for(&transport, pods)
        .initial(Initial::List)
        .build();
    let driver = tokio::spawn(driver.run());
    // The watch starts once the list is applied and its memory is released.
    watching(&informer).await;
    assert_eq!(
        (informer.health().objects, informer.lister().len()),
        (count, count)
    );
    let held = MEMORY.now() - before;

    informer.stop();
    timeout(PATIENCE, driver)
        .await
        .expect("in time")
        .expect("no panic");
    held as f64 / count as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_costs_as_much_among_few_as_among_many() {
    let _alone = ALONE.lock().await;
    let few = DemoServer::start(PROGRAM, FEW).await;
    let many = DemoServer::start(PROGRAM, MANY).await;
    let costs = [
        (
            "metadata",
            cost::<Meta>(few.url(), FEW).await,
            cost::<Meta>(many.url(), MANY).await,
            META_BOUND,
        ),
        (
            "raw",
            cost::<Raw>(few.url(), FEW).await,
            cost::<Raw>(many.url(), MANY).await,
            RAW_BOUND,
        ),
    ];
    for (form, few, many, most) in costs {
        say(&format!(
            "{form}: {few:.0} bytes an object among {FEW}, {many:.0} among {MANY}"
        ));
        assert!(many <= most, "{form}: {many:.0} bytes an object");
        assert!(
            few / many <= BOUND && many / few <= BOUND,
            "{form}: {few:.0} bytes an object among {FEW}, and {many:.0} among {MANY}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_informer_among_many_costs_little() {
    let _alone = ALONE.lock().await;
    let server = DemoServer::start(PROGRAM, PODS).await;
    // Packed objects are decoded on other threads, which takes the most buffers.
    let packer = Packer::new();
    let before = MEMORY.now();
    let informers: Vec<Informer<Packed<Raw>>> = (0..CLUSTERS)
        .map(|_| {
            let transport = HyperTransport::builder(server.url())
                .build()
                .expect("a URL");
            let pods = Resource::parse("pods").expect("a resource");
            Informer::builder_with(transport, pods, packer.clone()).spawn()
        })
        .collect();
    for informer in &informers {
        timeout(PATIENCE, informer.synced())
            .await
            .expect("in time")
            .expect("it runs");
        watching(informer).await;
        assert_eq!(informer.lister().len(), PODS);
    }
    let held = (MEMORY.now() - before) / CLUSTERS;
    say(&format!(
        "{held} bytes for an idle informer with {PODS} packed Pods"
    ));
    assert!(
        held <= IDLE_BOUND,
        "{held} bytes for an idle informer with {PODS} packed Pods"
    );
    for informer in &informers {
        informer.stop();
    }
}
