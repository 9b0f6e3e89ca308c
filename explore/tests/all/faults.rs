//! Each kind of fault, alone: an observer sees its symptom in some world, and sees none without faults.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use informer_core::transport::{FailureKind, Get, TransportError as _};
use informer_core::{Body as _, Transport as _};
use informer_explore::{
    Explore, FaultKind, Invariant, Objects, Process, ProcessTransport, World, each_seed,
};
use informer_mock::{MockError, json};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::table;

/// The faults, and what a process sees of each.
const SYMPTOMS: [(FaultKind, &str); 28] = [
    (FaultKind::Stale, "a read is older than what was seen"),
    (FaultKind::Unobserved, "changes are not observed"),
    (FaultKind::Crash, "it is started again"),
    (FaultKind::OldServer, "there are no streaming lists"),
    (FaultKind::Expired, "a version has expired"),
    (FaultKind::Gone, "a watch gets the status 410"),
    (FaultKind::Cut, "a watch is cut"),
    (FaultKind::Silence, "a watch does not end"),
    (FaultKind::Restart, "a server is down"),
    (FaultKind::Overload, "a server is overloaded"),
    (FaultKind::FailedRead, "a read fails"),
    (FaultKind::Unauthorized, "a read is not authorized"),
    (FaultKind::Slow, "a read is slow"),
    (FaultKind::LateEvents, "a watch is late"),
    (FaultKind::Conflict, "another client has changed the object"),
    (FaultKind::FailedWrite, "a write has failed"),
    (FaultKind::SlowWrite, "a write is slow"),
    (
        FaultKind::LostAnswer,
        "a write has taken effect without a response",
    ),
    (FaultKind::Denied, "a write is denied"),
    (FaultKind::FailedCall, "a call fails"),
    (FaultKind::Partition, "nothing can be reached"),
    (FaultKind::Pause, "a pause takes longer"),
    (FaultKind::Clocks, "the clock jumps"),
    (FaultKind::SlowDeletion, "an object outlives its owner"),
    (FaultKind::Duplicate, "two run at once"),
    (
        FaultKind::Backup,
        "the newest state is older than what was seen",
    ),
    (FaultKind::LostObject, "a watch and a list differ"),
    (FaultKind::LostEvent, "a watch and a list differ"),
];

#[test]
fn each_kind_of_fault_reaches_the_program() {
    assert_eq!(SYMPTOMS.map(|(kind, _)| kind), FaultKind::ALL);
    let seen = table::is_written().then(|| FaultKind::ALL.map(|kind| (kind, seen_in_runs(kind))));
    for (kind, symptom) in SYMPTOMS {
        let rules = rules(symptom).faults([kind]).seeds(300);
        let failure = rules.find(observe).expect_err(symptom);
        assert_eq!(failure.check, symptom, "{kind:?}: {failure}");
        let others = seen.as_ref().map(|seen| {
            let shows = |(other, seen): &&(FaultKind, BTreeMap<&str, u64>)| {
                *other != kind && seen.contains_key(symptom)
            };
            let others = seen.iter().filter(shows);
            let others = others.map(|(other, seen)| format!("{} `{other:?}`", seen[symptom]));
            others.collect::<Vec<_>>().join(", ")
        });
        let cells = format!("{symptom} | {}", failure.seed);
        table::check(&format!("{kind:?}"), &cells, others.as_deref());
    }
}

/// How many runs the table of faults compares for each kind.
const RUNS: u64 = 100;

/// Returns in how many runs each symptom of a fault shows itself.
fn seen_in_runs(kind: FaultKind) -> BTreeMap<&'static str, u64> {
    let seen = Mutex::default();
    each_seed(0..RUNS, 2, |seed| {
        let in_run = Arc::new(Mutex::new(BTreeSet::new()));
        let collected = Arc::clone(&in_run);
        let rules = plain_rules()
            .faults([kind])
            .check("collected", move |world| {
                let known = world.outside::<Seen>();
                let known = known.0.lock().unwrap();
                collected.lock().unwrap().extend(&known.symptoms);
                Ok(())
            });
        rules.trace(seed, observe);
        let mut seen: std::sync::MutexGuard<'_, BTreeMap<_, _>> = seen.lock().unwrap();
        for symptom in in_run.lock().unwrap().iter() {
            *seen.entry(*symptom).or_insert(0) += 1;
        }
        true
    });
    seen.into_inner().unwrap()
}

#[test]
fn without_faults_nothing_happens() {
    let mut rules = rules("it comes to rest").faults([]).seeds(40);
    for (_, symptom) in SYMPTOMS {
        rules = with_check(rules, symptom);
    }
    rules.run(observe);
}

fn rules(symptom: &'static str) -> Explore {
    with_check(plain_rules(), symptom)
}

fn plain_rules() -> Explore {
    let map = json!({ "metadata": { "namespace": "prod" } });
    let owner = json!({ "metadata": { "namespace": "owned" } });
    Explore::new()
        .objects(Objects::new("configmaps", map).changed(json!({ "data": { "size": "2" } })))
        .objects(Objects::new("configmaps", owner).names(["owner"]))
        // It would be a crash.
        .without_invariant(Invariant::StartChangesNothing)
        .patience(Duration::from_secs(120))
        .shrinks(0)
}

fn with_check(rules: Explore, symptom: &'static str) -> Explore {
    rules.always(symptom, move |world| {
        let seen = world.outside::<Seen>();
        let seen = seen.0.lock().unwrap();
        if seen.symptoms.contains(symptom) {
            return Err(symptom.to_owned());
        }
        Ok(())
    })
}

#[derive(Default)]
struct Seen(Mutex<Known>);

/// What all processes of a run have seen.
#[derive(Default)]
struct Known {
    symptoms: BTreeSet<&'static str>,
    newest: u64,
    /// When a list first showed a version.
    shown: BTreeMap<u64, Instant>,
    running: usize,
    /// The objects and versions for which a write was made.
    written: BTreeSet<(String, String)>,
}

/// Reads, writes and watches, and notes each symptom of a fault.
async fn observe(process: Process) {
    let watcher = Watcher {
        seen: Observer::of(&process),
        transport: process.transport(),
        version: 0,
        keys: BTreeSet::new(),
    };
    let seen = Observer::of(&process);
    let _running = Running::begin(&seen);
    if !process.pod().ends_with("-1") {
        // A duplicate is a process of its own.
        let is_alone = seen.known(|known| known.running == 1);
        if is_alone {
            seen.note("it is started again");
        }
    }
    tokio::join!(
        read(&process),
        write(&process),
        outlive(&process),
        wait(&process),
        watcher.run()
    );
}

struct Observer(World);

impl Observer {
    fn of(process: &Process) -> Self {
        Self(process.world())
    }

    fn known<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.0.outside::<Seen>().0.lock().unwrap())
    }

    fn note(&self, symptom: &'static str) {
        self.known(|known| known.symptoms.insert(symptom));
    }

    /// Notes what an error shows.
    fn failed(&self, error: &MockError) {
        if error.kind() == FailureKind::Refused {
            self.note("a server is down");
        }
    }
}

/// Counts the processes that run.
struct Running<'a>(&'a Observer);

impl<'a> Running<'a> {
    fn begin(seen: &'a Observer) -> Self {
        let is_second = seen.known(|known| {
            known.running += 1;
            known.running > 1
        });
        if is_second {
            seen.note("two run at once");
        }
        Self(seen)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.known(|known| known.running -= 1);
    }
}

/// Reads a whole response.
async fn get(transport: &mut ProcessTransport, target: &str) -> Result<(u16, Value), MockError> {
    let (head, mut body) = transport.send(Get::new(target)).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = body.chunk().await? {
        bytes.extend_from_slice(chunk);
    }
    Ok((
        head.status,
        serde_json::from_slice(&bytes).unwrap_or_default(),
    ))
}

fn version_of(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

async fn read(process: &Process) {
    let (seen, mut transport) = (Observer::of(process), process.transport());
    loop {
        for (query, symptom) in [
            ("", "the newest state is older than what was seen"),
            ("?resourceVersion=0", "a read is older than what was seen"),
        ] {
            let (before, asked) = (seen.known(|known| known.newest), Instant::now());
            match get(&mut transport, &format!("/api/v1/configmaps{query}")).await {
                Ok((200, list)) => {
                    let version = version_of(&list);
                    if version < before {
                        seen.note(symptom);
                    }
                    if asked.elapsed() > Duration::from_secs(3) {
                        seen.note("a read is slow");
                    }
                    seen.known(|known| {
                        known.newest = known.newest.max(version);
                        known.shown.entry(version).or_insert_with(Instant::now);
                    });
                }
                Ok((429, _)) => seen.note("a server is overloaded"),
                Ok((401, _)) => seen.note("a read is not authorized"),
                Ok((500 | 503, _)) => seen.note("a read fails"),
                Ok(_) => {}
                Err(error) => seen.failed(&error),
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Waits and calls, and compares the clocks.
async fn wait(process: &Process) {
    let seen = Observer::of(process);
    loop {
        let (began, time) = (Instant::now(), process.now());
        sleep(Duration::from_secs(1)).await;
        let passed = began.elapsed();
        if passed > Duration::from_millis(1_500) {
            seen.note("a pause takes longer");
        }
        let by_day = process.now().duration_since(time);
        if by_day.is_err()
            || by_day.is_ok_and(|by_day| by_day.abs_diff(passed) > Duration::from_millis(500))
        {
            seen.note("the clock jumps");
        }
        let asked = Instant::now();
        if process.try_call("look outside", || ()).await.is_err() {
            seen.note("a call fails");
        }
        if asked.elapsed() > Duration::from_secs(3) {
            seen.note("nothing can be reached");
        }
    }
}

/// Creates a Secret that each object owns, and looks for those without an owner.
async fn outlive(process: &Process) {
    let (seen, client) = (Observer::of(process), process.client());
    let uid_of = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
    loop {
        let owned = client.list("secrets", "owned").await.unwrap_or_default();
        if let Ok(maps) = client.list("configmaps", "owned").await {
            for map in &maps {
                let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": map["metadata"]["name"], "uid": uid_of(map) });
                let secret = json!({ "metadata": { "namespace": "owned", "name": uid_of(map), "ownerReferences": [owner] } });
                // It may exist.
                let _ = client.create("secrets", &secret).await;
            }
            let gone = |secret: &&Value| {
                let name = secret["metadata"]["name"].as_str().unwrap();
                !maps.iter().any(|map| uid_of(map) == name)
            };
            for secret in owned.iter().filter(gone) {
                let name = secret["metadata"]["name"].as_str().unwrap();
                if let Ok(Some(_)) = client.get("secrets", "owned", name).await {
                    seen.note("an object outlives its owner");
                }
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Creates and changes a Secret for each version of each object.
async fn write(process: &Process) {
    let (seen, client) = (Observer::of(process), process.client());
    loop {
        for map in client.list("configmaps", "prod").await.unwrap_or_default() {
            let (uid, version) = (map["metadata"]["uid"].to_string(), version_of(&map));
            let version = version.to_string();
            if !seen.known(|known| known.written.insert((uid, version.clone()))) {
                continue;
            }
            let name = format!("{}-{version}", map["metadata"]["name"].as_str().unwrap());
            let secret = json!({ "metadata": { "namespace": "prod", "name": name } });
            let asked = Instant::now();
            let created = client.create("secrets", &secret).await;
            if created.is_ok() && asked.elapsed() > Duration::from_secs(3) {
                seen.note("a write is slow");
            }
            let created = match created {
                Ok(created) => created,
                Err(error) if error.already_exists() => continue,
                Err(error) if [403, 422].contains(&error.status) => {
                    seen.note("a write is denied");
                    continue;
                }
                Err(_) => {
                    match client.get("secrets", "prod", &name).await {
                        Ok(Some(_)) => seen.note("a write has taken effect without a response"),
                        Ok(None) => seen.note("a write has failed"),
                        Err(_) => {}
                    }
                    continue;
                }
            };
            if let Err(error) = client.replace("secrets", &created).await
                && error.is_conflict()
            {
                seen.note("another client has changed the object");
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Keeps the keys of the objects by a list and watches of half a minute.
struct Watcher {
    seen: Observer,
    transport: ProcessTransport,
    version: u64,
    keys: BTreeSet<String>,
}

impl Watcher {
    async fn run(mut self) {
        loop {
            if self.version == 0 {
                self.list().await;
            } else {
                self.watch().await;
                self.compare().await;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn list(&mut self) {
        let stream = "/api/v1/configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        if let Ok((head, _)) = self.transport.send(Get::new(stream)).await
            && head.status == 422
        {
            self.seen.note("there are no streaming lists");
        }
        if let Ok((200, list)) = get(&mut self.transport, "/api/v1/configmaps").await {
            (self.version, self.keys) = (version_of(&list), keys_of(&list));
        }
    }

    /// Compares the keys with a list, if it shows the same version.
    async fn compare(&mut self) {
        if let Ok((200, list)) = get(&mut self.transport, "/api/v1/configmaps").await
            && version_of(&list) == self.version
            && keys_of(&list) != self.keys
        {
            self.seen.note("a watch and a list differ");
        }
    }

    async fn watch(&mut self) {
        let target = format!(
            "/api/v1/configmaps?watch=true&allowWatchBookmarks=true&timeoutSeconds=30&resourceVersion={}",
            self.version
        );
        let began = Instant::now();
        let (head, mut body) = match self.transport.send(Get::new(&target)).await {
            Ok(opened) => opened,
            Err(error) => return self.seen.failed(&error),
        };
        if head.status != 200 {
            if head.status == 410 {
                self.seen.note("a watch gets the status 410");
                self.version = 0;
            }
            return;
        }
        let mut bytes = Vec::new();
        loop {
            match timeout(Duration::from_secs(60), body.chunk()).await {
                Err(_) => return self.seen.note("a watch does not end"),
                Ok(Err(_)) => return self.seen.note("a watch is cut"),
                Ok(Ok(None)) if began.elapsed() < Duration::from_secs(29) => {
                    return self.seen.note("a watch is cut");
                }
                Ok(Ok(None)) => return,
                Ok(Ok(Some(chunk))) => bytes.extend_from_slice(chunk),
            }
            while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = bytes.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap_or_default();
                let object = &event["object"];
                match event["type"].as_str() {
                    Some("ERROR") => return self.expired(),
                    Some("DELETED") => drop(self.keys.remove(&key_of(object))),
                    Some("ADDED" | "MODIFIED") => drop(self.keys.insert(key_of(object))),
                    _ => {}
                }
                self.version = version_of(object);
                let late = |known: &mut Known| {
                    let mut shown = known.shown.range(self.version..);
                    shown
                        .next()
                        .is_some_and(|(_, at)| at.elapsed() > Duration::from_millis(2_500))
                };
                if event["type"] != "BOOKMARK" && self.seen.known(late) {
                    self.seen.note("a watch is late");
                }
            }
        }
    }

    fn expired(&mut self) {
        self.seen.note("a version has expired");
        let own = self.version;
        let is_old = |known: &mut Known| {
            let mut newer = known.shown.range(own + 1..);
            newer
                .next()
                .is_some_and(|(_, at)| at.elapsed() > Duration::from_millis(2_500))
        };
        if self.seen.known(is_old) {
            self.seen.note("changes are not observed");
        }
        self.version = 0;
    }
}

fn key_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn keys_of(list: &Value) -> BTreeSet<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(key_of).collect()
}
