//! The engine on a microcontroller: no operating system, no allocator, no feature of informer-core.
//!
//! It only needs to link, which fails if anything that it calls allocates.
#![no_std]
#![no_main]

use core::convert::Infallible;
use core::fmt::{self, Write};
use core::hint::black_box;
use core::panic::PanicInfo;

use cortex_m_rt::entry;
use informer_core::{
    End, Head, Inline, Instant, Notification, Output, PolledInformer, RawObject, ReflectorConfig,
    Resource,
    cache::{DeltaFifo, Indexer},
};

/// At most 8 objects, with keys of 64 bytes and objects of 1 KiB as received.
type Small = Inline<8, 64, 1024>;

const LIST: &[u8] = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
    {"metadata":{"name":"web","namespace":"prod","uid":"u1","resourceVersion":"5"},"spec":{"nodeName":"n1"}},
    {"metadata":{"name":"db","namespace":"prod","uid":"u2","resourceVersion":"6"},"spec":{"nodeName":"n2"}}]}"#;

#[derive(Clone, Copy)]
struct Pod {
    key: &'static str,
    node: &'static str,
}

impl Pod {
    fn write_key(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_str(self.key)
    }
}

#[entry]
fn main() -> ! {
    let _ = black_box((queue_and_store(), informer()));
    loop {
        core::hint::spin_loop();
    }
}

/// Puts, pops and looks up objects without an informer.
#[inline(never)]
fn queue_and_store() -> Option<usize> {
    let mut store: Indexer<Pod, Small> = Indexer::new(Pod::write_key);
    store.add_index("node", |pod, value| value(pod.node)).ok()?;

    let mut fifo: DeltaFifo<Pod, Small> = DeltaFifo::merged(Pod::write_key);
    let web = black_box(Pod {
        key: "prod/web",
        node: "n1",
    });
    fifo.add(web).ok()?;
    fifo.update(Pod { node: "n2", ..web }).ok()?;
    while let Ok(popped) = fifo.pop() {
        store.apply(popped.deltas).ok()?;
    }
    fifo.resync(&store).ok()?;
    fifo.replace([], Some(&store)).ok()?;
    let found = store.by_index("node", black_box("n2")).ok()?.count();
    while let Ok(popped) = fifo.pop() {
        store.apply(popped.deltas).ok()?;
    }
    store.get(web.key).is_none().then_some(found)
}

/// Reads a list, from bytes to notifications.
#[inline(never)]
fn informer() -> Option<usize> {
    let size = |raw: &RawObject<'_>| Ok::<_, Infallible>(raw.json().len());
    let pods = Resource::new("", "v1", "pods")
        .kind("Pod")
        .fields("spec.nodeName=n1");
    let mut informer: PolledInformer<_, _, Small> =
        PolledInformer::new(pods, size, ReflectorConfig::list(), black_box(1));

    let now = Instant::from_micros(black_box(0));
    let id = loop {
        match informer.poll_output(now) {
            Output::Send(request) => {
                request.write_target(&mut Count(0)).ok()?;
                break request.id();
            }
            Output::Wait(_) => return None,
            _ => {}
        }
    };
    informer.handle_head(now, id, Head::new(200));
    let (mut notified, mut rest) = (0, black_box(LIST));
    while !rest.is_empty() {
        let taken = informer.handle_data(now, id, rest, &mut |report| {
            let _ = write!(Count(0), "{report}");
        });
        rest = &rest[taken..];
        while let Some(notification) = informer.pop() {
            notified += usize::from(matches!(notification, Notification::Added { .. }));
        }
    }
    informer.handle_end(now, id, End::Clean);
    informer.resync();
    while informer.pop().is_some() {}
    (informer.cache().get("prod/web").is_some() && informer.cache().is_synced()).then_some(notified)
}

/// Stands in for the link that sends a request.
struct Count(usize);

impl Write for Count {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += black_box(text).len();
        Ok(())
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
