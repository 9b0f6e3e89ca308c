//! Small cases for the micro benchmarks and for counting instructions.
//!
//! Each case is a separate function that is not inlined, because callgrind counts by function names.

use core::hint::black_box;

use informer_core::cache::SourceId;
use informer_core::json::{Scanner, value_at};
use informer_core::{
    Cache, Decode, Decoder, Heap, Json, Meta, Object, Raw, RawObject, ResourceVersion, Step, Uid,
    cache::{CacheConfig, DeltaFifo},
    json::Prune,
    reflector::Change,
};
use informer_tokio::decode::Packer;
use serde::Deserialize;

use crate::informers::{self, Work};
use crate::pods::{self, State};

/// The number of Pods that a case processes.
pub const PODS: u64 = 100;

/// The input of the cases.
#[derive(Debug)]
pub struct Input {
    pods: Vec<String>,
    /// The Pods in protobuf.
    messages: Vec<Vec<u8>>,
    keys: Vec<String>,
    pub(crate) work: Work,
}

impl Input {
    /// Generates the Pods.
    #[must_use]
    pub fn new() -> Self {
        let pods: Vec<String> = (0..PODS)
            .map(|number| {
                let mut text = String::new();
                pods::write(&mut text, number, State::first(number), true);
                text
            })
            .collect();
        let message = |pod: &String| {
            let pod = serde_json::from_str(pod).unwrap_or_default();
            informer_mock::protobuf::message("v1", "Pod", &pod).unwrap_or_default()
        };
        let messages = pods.iter().map(message).collect();
        let keys = pods
            .iter()
            .map(|pod| {
                let mut key = String::new();
                // Writing into a `String` does not fail.
                let _ = RawObject::parse(pod.as_bytes()).write_key(&mut key);
                key
            })
            .collect();
        Self {
            pods,
            messages,
            keys,
            work: Work::new(PODS),
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    fn raw(&self) -> impl Iterator<Item = RawObject<'_>> {
        self.pods.iter().map(|pod| RawObject::parse(pod.as_bytes()))
    }
}

impl Default for Input {
    fn default() -> Self {
        Self::new()
    }
}

/// A case.
pub type Case = fn(&Input);

/// All cases by name.
pub const CASES: [(&str, Case); 21] = [
    ("scan", case_scan),
    ("head", case_head),
    ("path", case_path),
    ("prune", case_prune),
    ("raw", case_raw),
    ("meta", case_meta),
    ("proto_meta", case_proto_meta),
    ("typed", case_typed),
    ("packed_typed", case_packed_typed),
    ("fifo", case_fifo),
    ("cache", case_cache),
    ("lister", case_lister),
    ("drive_list", informers::case_drive_list),
    ("drive_update", informers::case_drive_update),
    ("drive_sweep", informers::case_drive_sweep),
    ("listener", informers::case_listener),
    ("listeners_8", informers::case_listeners_8),
    ("resync", informers::case_resync),
    ("record", informers::case_record),
    ("restart", informers::case_restart),
    ("inline", informers::case_inline),
];

/// Validates each Pod.
#[inline(never)]
pub fn case_scan(input: &Input) {
    for pod in &input.pods {
        black_box(Scanner::new().skip_value(pod.as_bytes(), &mut 0, 0)).ok();
    }
}

/// Reads the identity of each Pod.
#[inline(never)]
pub fn case_head(input: &Input) {
    for pod in &input.pods {
        black_box(RawObject::parse(pod.as_bytes()));
    }
}

/// Finds the node of each Pod.
#[inline(never)]
pub fn case_path(input: &Input) {
    for pod in &input.pods {
        black_box(value_at(pod.as_bytes(), &["spec", "nodeName"]));
    }
}

/// Removes managedFields from each Pod.
#[inline(never)]
pub fn case_prune(input: &Input) {
    let mut kept = Vec::new();
    for pod in &input.pods {
        kept.clear();
        Prune::NOISE.copy(pod.as_bytes(), &mut kept);
        black_box(&kept);
    }
}

/// Stores the bytes of each Pod.
#[inline(never)]
pub fn case_raw(input: &Input) {
    input
        .raw()
        .for_each(|pod| drop(black_box(Decoder::<Raw>::new().decode(&pod))));
}

/// Stores the metadata of each Pod in protobuf.
#[inline(never)]
pub fn case_proto_meta(input: &Input) {
    let decode = Decoder::<Meta>::new();
    for message in &input.messages {
        black_box(decode.decode(&RawObject::parse(message)).ok());
    }
}

/// Stores the metadata of each Pod.
#[inline(never)]
pub fn case_meta(input: &Input) {
    input
        .raw()
        .for_each(|pod| drop(black_box(Decoder::<Meta>::new().decode(&pod))));
}

#[derive(Deserialize)]
struct Pod {
    #[allow(dead_code)] // Only made.
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[allow(dead_code)] // Only made.
    node_name: String,
    #[allow(dead_code)] // Only made.
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    #[allow(dead_code)] // Only made.
    name: String,
    #[allow(dead_code)] // Only made.
    image: String,
}

/// Decodes a few fields of each Pod.
#[inline(never)]
pub fn case_typed(input: &Input) {
    let decoder = Decoder::<Json<Pod>>::new();
    input
        .raw()
        .for_each(|pod| drop(black_box(decoder.decode(&pod))));
}

/// Compresses each Pod, and reads all of them twice as a type of a few fields.
#[inline(never)]
pub fn case_packed_typed(input: &Input) {
    let packer = Packer::<Json<Pod>>::new();
    let packed: Vec<_> = input
        .raw()
        .filter_map(|pod| packer.decode(&pod).ok())
        .collect();
    for pod in packed.iter().chain(&packed) {
        black_box(pod.get()).ok();
    }
}

/// Sends each key through a DeltaFIFO, three times.
#[inline(never)]
pub fn case_fifo(input: &Input) {
    let mut fifo: DeltaFifo<&str, Heap> = DeltaFifo::new(|key, out| out.write_str(key));
    for _ in 0..3 {
        for key in &input.keys {
            black_box(fifo.add(key.as_str())).ok();
        }
    }
    while let Ok(popped) = fifo.pop() {
        black_box(&popped);
    }
}

fn filled(input: &Input) -> Cache<Object<u64, Box<str>>, Heap> {
    let mut cache = Cache::new(CacheConfig::default(), 1, 7);
    let index = cache.declare_index("node").unwrap_or_default();
    cache.apply(SourceId::FIRST, Step::Begin, &mut ()).ok();
    for round in 0..2_u64 {
        for (number, key) in input.keys.iter().enumerate() {
            let version = ResourceVersion::new(&format!("{}", round * 1000 + number as u64 + 1));
            let object = Object::new(Uid::new(key), version, round);
            let values = vec![(index, format!("n{}", number % 10).into())];
            let step = Step::Object {
                change: Change::Listed,
                key,
                object: Some(object),
                values: Some(values),
            };
            black_box(cache.apply(SourceId::FIRST, step, &mut ())).ok();
        }
        cache
            .apply(
                SourceId::FIRST,
                Step::Complete(ResourceVersion::new("9")),
                &mut (),
            )
            .ok();
        while let Some(notification) = cache.pop() {
            black_box(&notification);
        }
    }
    cache
}

/// Lists into a cache, and relists with every object changed.
#[inline(never)]
pub fn case_cache(input: &Input) {
    drop(black_box(filled(input)));
}

/// Fills a cache and reads every object, by key and by an index.
#[inline(never)]
pub fn case_lister(input: &Input) {
    let cache = filled(input);
    for _ in 0..10 {
        for key in &input.keys {
            black_box(cache.get(key));
        }
        for node in 0..10 {
            if let Ok(found) = cache.by_index("node", &format!("n{node}")) {
                black_box(found.count());
            }
        }
    }
}
