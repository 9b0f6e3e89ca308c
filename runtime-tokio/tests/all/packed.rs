//! Compressed objects that are decoded when they are read, on paused time.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use informer_mock::json;
use informer_tokio::decode::{PackError, Packer};
use informer_tokio::{Handlers, Informer, Packed, kind};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{server, settle};

const PODS: usize = 300;

/// The number of Pods that have been decoded. One test reads Pods of this type.
static DECODED: AtomicUsize = AtomicUsize::new(0);

#[derive(Deserialize)]
#[serde(from = "Plain")]
struct Pod(Plain);

#[derive(Deserialize)]
struct Plain {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: String,
    round: u64,
}

impl From<Plain> for Pod {
    fn from(plain: Plain) -> Self {
        DECODED.fetch_add(1, Ordering::Relaxed);
        Self(plain)
    }
}

kind!(Pod, "v1", "pods");
kind!(Plain, "v1", "pods", "Pod");

fn pod(number: usize, round: u64) -> Value {
    json!({
        "metadata": {
            "name": format!("p{number:03}"),
            "namespace": "prod",
            "labels": { "part": (number % 100).to_string() },
        },
        "spec": { "nodeName": format!("n{}", number % 5), "round": round, "text": "filling ".repeat(100) },
    })
}

fn decoded() -> usize {
    DECODED.swap(0, Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn an_object_is_decoded_once_for_all_handlers_and_only_if_one_reads_it() {
    let mock = server();
    for number in 0..PODS {
        mock.create("pods", pod(number, 0)).unwrap();
    }
    let pods = Informer::<Packed<Pod>>::builder(&mock.transport())
        .index("node", |pod| {
            pod.string_at(&["spec", "nodeName"]).ok().flatten()
        })
        .spawn();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let few = Handlers::<Packed<Pod>>::new()
        .on_add({
            let seen = Arc::clone(&seen);
            move |pod, _| seen.lock().unwrap().push(pod.get().unwrap().0.spec.round)
        })
        .filter(|pod| pod.label("part").as_deref() == Some("7"));
    pods.add_handler(few);
    pods.synced().await.unwrap();
    settle().await;
    assert_eq!(
        decoded(),
        PODS / 100,
        "the others were indexed and filtered"
    );
    assert_eq!(*seen.lock().unwrap(), [0; PODS / 100]);

    // Each reads the old and the new state of every change.
    let rounds = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let rounds = Arc::clone(&rounds);
        pods.add_handler(Handlers::<Packed<Pod>>::new().on_update(move |old, new| {
            let (old, new) = (old.get().unwrap(), new.get().unwrap());
            assert_eq!(old.0.spec.round + 1, new.0.spec.round);
            rounds.fetch_add(1, Ordering::Relaxed);
        }));
    }
    settle().await;
    decoded();
    for number in 0..PODS {
        mock.update("pods", pod(number, 1)).unwrap();
    }
    settle().await;
    assert_eq!(rounds.load(Ordering::Relaxed), 3 * PODS);
    // The old state of `p007` was read before, and is still decoded. Those of `p107` and `p207` made room.
    assert_eq!(decoded(), 2 * PODS - 1);

    let lister = pods.lister();
    let on_n1 = lister.by_index("node", "n1").unwrap();
    assert_eq!(on_n1.len(), PODS / 5);
    let read = |name: &str| lister.get("prod", name).unwrap().get().unwrap();
    assert!(Arc::ptr_eq(&read("p001"), &read("p001")));
    assert_eq!(decoded(), 1, "it was evicted, and read twice");
    pods.stop();
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_type_is_an_error_of_the_reader_alone() {
    let mock = server();
    let mut other = pod(1, 0);
    other["spec"]["round"] = "first".into();
    mock.create("pods", pod(0, 0)).unwrap();
    mock.create("pods", other).unwrap();
    let reports = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (pods, driver) = Informer::<Packed<Plain>>::builder_with(
        mock.transport(),
        <Plain as informer_tokio::Kind>::resource(),
        Packer::new().keep_decoded(0),
    )
    .index("round", |pod| {
        let pod = pod.get().ok()?;
        Some(pod.spec.round.to_string())
    })
    .on_report({
        let reports = Arc::clone(&reports);
        move |_| _ = reports.fetch_add(1, Ordering::Relaxed)
    })
    .build();
    tokio::spawn(driver.run());
    pods.add_handler(Handlers::<Packed<Plain>>::new().on_add({
        let seen = Arc::clone(&seen);
        move |entry, _| {
            let read = entry.get().map(|pod| pod.spec.node_name.clone());
            let read = read.map_err(|error: PackError| error.to_string());
            seen.lock().unwrap().push((entry.to_string(), read));
        }
    }));
    pods.synced().await.unwrap();
    settle().await;
    let mut seen = core::mem::take(&mut *seen.lock().unwrap());
    seen.sort();
    assert_eq!(seen[0], ("prod/p000".to_owned(), Ok("n0".to_owned())));
    let (key, error) = &seen[1];
    let error = error.as_ref().unwrap_err();
    assert!(
        error.starts_with("the stored object cannot be decoded: invalid type: string \"first\""),
        "{key}: {error}"
    );
    let lister = pods.lister();
    assert_eq!(lister.len(), 2, "it is stored nevertheless");
    assert_eq!(lister.by_index("round", "0").unwrap().len(), 1);
    assert_eq!(reports.load(Ordering::Relaxed), 0);
    pods.stop();
}
