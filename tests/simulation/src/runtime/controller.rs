//! A controller that acts on the state that its caches show and writes to the server, while users write too. Its watches
//! are slow and break, its requests are slow and lose their answers, and some of its runs fail after their writes. Some
//! controllers skip their own writes to the status, and every change of a user must cause a run all the same.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use informer_core::object::ExpectedState;
use informer_core::queue::Exponential;
use informer_mock::{
    DeleteAnswer, FakeServer, Fault, Mock, Timer as _, TokioClock, Verb, Write, json,
};
use informer_tokio::controller::{Controller, Provided, Task, WriteLog};
use informer_tokio::{Entry, Informer, Lister, Raw, Resource};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::super::entropy::Entropy;
use super::user::lock;
use super::{Figures, PATIENCE, PODS, Server, Verdict, Wrong, holds, trouble};

const SETS: Resource<'static> = Resource::new("apps", "v1", "replicasets").kind("ReplicaSet");
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Where a set has its round, where its status shows it, and where its Pod has it. The server keeps real fields only.
const WANTED: [&str; 4] = ["spec", "template", "spec", "nodeName"];
const STATUS: [&str; 4] = ["status", "conditions", "0", "message"];
const POD_ROUND: [&str; 3] = ["metadata", "labels", "round"];
const STEPS: usize = 30;

/// The last write to an object by the runs of its key, as the server answered it.
#[derive(Clone, Debug)]
enum Own {
    At(u64),
    /// The object with this uid was deleted.
    Gone(String),
}

/// What all runs and the users share.
#[derive(Default)]
struct Desk {
    running: BTreeSet<String>,
    /// The last own write to each object, by resource and name.
    own: BTreeMap<(&'static str, String), Own>,
    /// The version of the last deletion of each object by a user.
    deleted: BTreeMap<(&'static str, String), u64>,
    /// The version of the last change of each set by a user.
    changed: BTreeMap<String, u64>,
    /// The version of each set that its last run has seen.
    seen: BTreeMap<String, u64>,
    runs: u64,
    wrong: Option<Wrong>,
}

/// The parts of a reconcile function.
#[derive(Clone)]
struct Worker {
    mock: Server,
    log: WriteLog,
    desk: Arc<Mutex<Desk>>,
    dice: Arc<Mutex<Entropy<'static>>>,
    pods: Lister<Raw>,
    status: StatusWrites,
}

/// How the controller writes the status of a set.
#[derive(Clone, Copy, Debug)]
struct StatusWrites {
    /// In every run, and not only if the status differs.
    always: bool,
    based: Based,
    /// Own writes are skipped.
    skips: bool,
}

/// The state for which a status is written.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Based {
    /// That which the run has seen.
    Seen,
    /// That which the server has.
    Read,
    Any,
}

impl StatusWrites {
    fn of_seed(seed: u64) -> Self {
        let mut dice = Entropy::of(seed ^ 0x5c1b_57a7);
        Self {
            always: dice.one_in(2),
            based: dice.pick(&[Based::Seen, Based::Read, Based::Any]),
            skips: !dice.one_in(3),
        }
    }
}

impl Worker {
    fn below(&self, bound: u32) -> u32 {
        lock(&self.dice).below(bound)
    }

    /// Waits for a part of a request's latency.
    async fn travel(&self) {
        let most = lock(&self.dice).pick(&[1, 30, 400]);
        sleep(Duration::from_millis(u64::from(self.below(most)))).await;
    }

    /// Writes to the server, and records the answer in the log.
    async fn write(
        &self,
        method: &'static str,
        resource: Resource<'static>,
        name: &str,
        body: &Value,
    ) -> Result<(), String> {
        self.travel().await;
        let (status, answer) = send(&self.mock, method, resource, name, body);
        self.travel().await;
        if status >= 300 {
            return Err(format!("{method} of {} {name}: {status}", resource.plural));
        }
        let key = (resource.plural, name.to_owned());
        if self.status.skips && self.below(8) == 0 {
            lock(&self.desk).own.remove(&key);
            return Err("the answer is lost".to_owned());
        }
        let object: Value = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        let is_status = object["kind"] == "Status";
        let (expected, own) = if method == "DELETE" {
            let uid = if is_status {
                &object["details"]["uid"]
            } else {
                &object["metadata"]["uid"]
            };
            let uid = uid.as_str().unwrap_or_default().to_owned();
            (ExpectedState::after_delete(&answer), Own::Gone(uid))
        } else {
            let version = object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default();
            let own = Own::At(version.parse().unwrap_or_default());
            (Some(ExpectedState::at_version(version)), own)
        };
        let expected = expected.ok_or("the answer to a DELETE has no uid")?;
        let known = (!is_status).then_some(&answer[..]);
        let (object, log) = (format!("prod/{name}"), &self.log);
        if resource.plural == SETS.plural {
            let body = body.to_string().into_bytes();
            log.record_subresource(&resource, &object, "status", &body, &answer);
        } else {
            log.record(&resource, &object, expected, known);
        }
        lock(&self.desk).own.insert(key, own);
        Ok(())
    }

    /// Makes the Pod and the status of a set follow its round.
    async fn reconcile(self, task: Task<Raw>) -> Result<(), String> {
        let name = task.name().to_owned();
        let pod = self.pods.get_by_key(task.as_str());
        if !lock(&self.desk).begin(&name, task.object(), pod.as_ref()) {
            return Err("wrong".to_owned());
        }
        let done = self.work(&name, task.object(), pod.as_ref()).await;
        lock(&self.desk).running.remove(&name);
        if self.below(5) == 0 {
            return Err("it fails after its writes".to_owned());
        }
        done
    }

    async fn work(
        &self,
        name: &str,
        set: Option<&Entry<Raw>>,
        pod: Option<&Entry<Raw>>,
    ) -> Result<(), String> {
        let round = |entry: &Entry<Raw>, path: &[&str]| entry.string_at(path);
        let Some(set) = set else {
            return match pod {
                Some(pod) => self.write("DELETE", PODS, name, &only(pod)).await,
                None => Ok(()),
            };
        };
        let wanted = round(set, &WANTED).unwrap_or_default();
        let body = json!({ "metadata": { "name": name, "namespace": "prod", "labels": { "round": wanted } } });
        match pod {
            None => self.write("POST", PODS, name, &body).await?,
            Some(pod) if round(pod, &POD_ROUND).as_ref() != Some(&wanted) => {
                if self.below(3) == 0 {
                    self.write("DELETE", PODS, name, &only(pod)).await?;
                    if self.below(2) == 0 {
                        self.write("POST", PODS, name, &body).await?;
                    }
                } else {
                    self.write("PUT", PODS, name, &body).await?;
                }
            }
            Some(_) => {}
        }
        if round(set, &STATUS).as_ref() == Some(&wanted) && !self.status.always {
            return Ok(());
        }
        let condition = json!({ "type": "Round", "status": "True", "message": wanted });
        let status = json!({ "replicas": 1, "conditions": [condition] });
        if self.status.skips && self.below(4) == 0 {
            self.travel().await;
            let runs = lock(&self.desk).runs;
            self.touch(name, self.below(4), runs);
        }
        let version = match self.status.based {
            // A set that has changed since is a conflict.
            Based::Seen => set.resource_version().to_string().into(),
            Based::Read => {
                let read = |server: &mut FakeServer| server.get("replicasets.apps", "prod", name);
                let read = self.mock.with(read).unwrap_or_default();
                read["metadata"]["resourceVersion"].clone()
            }
            Based::Any => Value::Null,
        };
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": status });
        self.write("PATCH", SETS, name, &patch).await
    }

    /// Another client changes the annotations of a set or its status.
    fn touch(&self, name: &str, which: u32, number: u64) {
        let text = format!("by another {number}");
        let condition = json!({ "type": "Round", "status": "True", "message": text });
        let (target, patch) = match which {
            0 => (
                "",
                json!({ "metadata": { "annotations": { "round": text } } }),
            ),
            1 => ("/status", json!({ "status": { "replicas": 7 } })),
            // The controller does not write it.
            2 => (
                "/status",
                json!({ "status": { "observedGeneration": number } }),
            ),
            _ => (
                "/status",
                json!({ "status": { "conditions": [condition] } }),
            ),
        };
        let write = Write {
            method: "PATCH",
            target: &format!("/apis/apps/v1/namespaces/prod/replicasets/{name}{target}"),
            content_type: "application/merge-patch+json",
            body: &patch.to_string().into_bytes(),
        };
        let now = self.mock.clock().now();
        let (status, before, after) = self.mock.with(|server| {
            let before = server.version();
            (server.execute(now, write).0, before, server.version())
        });
        if status == 200 && after > before {
            lock(&self.desk).changed.insert(name.to_owned(), after);
        }
    }
}

impl Desk {
    /// Checks the state that a run sees. Returns whether it may begin.
    fn begin(&mut self, name: &str, set: Option<&Entry<Raw>>, pod: Option<&Entry<Raw>>) -> bool {
        self.runs += 1;
        let shown = set.and_then(|set| set.resource_version().to_string().parse().ok());
        self.seen.insert(name.to_owned(), shown.unwrap_or_default());
        let mut wrong = None;
        if !self.running.insert(name.to_owned()) {
            wrong = Some(Wrong::new(
                "at_once",
                &format!("{name} is reconciled by two"),
            ));
        }
        for (plural, shown) in [(SETS.plural, set), (PODS.plural, pod)] {
            let key = (plural, name.to_owned());
            let deleted = self.deleted.get(&key).copied().unwrap_or_default();
            let is_old = match (self.own.get(&key), shown) {
                (Some(Own::At(version)), Some(shown)) => {
                    let shown = shown.resource_version().to_string();
                    shown.parse::<u64>().is_ok_and(|shown| shown < *version)
                }
                (Some(Own::At(version)), None) => deleted < *version,
                (Some(Own::Gone(uid)), Some(shown)) => shown.uid().to_string() == *uid,
                (Some(Own::Gone(_)) | None, _) => false,
            };
            if is_old {
                let own = self.own.get(&key);
                let shown = shown.map(|shown| shown.resource_version().to_string());
                let what = format!("a run of {name} sees its {plural} at {shown:?}, after {own:?}");
                wrong = wrong.or_else(|| Some(Wrong::new("own_writes", &what)));
            }
        }
        let is_right = wrong.is_none();
        self.wrong = self.wrong.take().or(wrong);
        is_right
    }

    /// Checks that the last run of each set has seen the last change by a user.
    fn has_heard(&self, mock: &Server) -> Result<(), String> {
        for (name, changed) in &self.changed {
            let seen = self.seen.get(name).copied().unwrap_or_default();
            let exists = mock.with(|server| server.get("replicasets.apps", "prod", name).is_some());
            if exists && seen < *changed {
                return Err(format!(
                    "{name} was changed at {changed}, and its last run saw {seen}"
                ));
            }
        }
        Ok(())
    }
}

/// Runs a controller from a seed.
pub(super) async fn play(seed: u64) -> Result<Figures, Wrong> {
    let mut dice = Entropy::of(seed ^ 0xc0_47_01);
    let mock = Mock::with_clock(FakeServer::new(seed), TokioClock::new());
    let deletes = [
        DeleteAnswer::Status,
        DeleteAnswer::OldVersion,
        DeleteAnswer::NewVersion,
    ];
    mock.with(|server| server.config_mut().deletes = dice.pick(&deletes));
    slow_down(&mock, &mut dice);
    let log = WriteLog::default();
    let informer = |resource, seed| {
        Informer::<Raw>::builder_for(&mock.transport(), resource)
            .seed(seed)
            .spawn()
    };
    let (sets, pods) = (informer(SETS, seed), informer(PODS, !seed));
    // A choice of its own, so that all others of the seed stay the same. With no backlog, every change is merged.
    let backlog = Entropy::of(seed ^ 0xbac_c106).pick(&[4096, 1, 0]);
    let worker = Worker {
        mock: mock.clone(),
        log: log.clone(),
        desk: Arc::default(),
        dice: Arc::new(Mutex::new(Entropy::of(!seed))),
        pods: pods.lister(),
        status: StatusWrites::of_seed(seed),
    };
    // No run begins before its writes are seen, however long that takes.
    let controller = Controller::new(Provided::from(sets.clone()).with_writes(&log))
        .watches(Provided::from(pods.clone()).with_writes(&log), |pod| {
            [pod.key().clone()]
        })
        .workers(1 + dice.below(3) as usize)
        .backlog(backlog)
        .limit(Exponential::new(
            Duration::from_millis(100),
            Duration::from_secs(30),
        ))
        .write_deadline(PATIENCE * 4);
    let controller = match worker.status.skips {
        true => controller.skip_own_writes(["status"]),
        false => controller,
    };
    let handle = controller.handle();
    let running = worker.clone();
    let running = tokio::spawn(controller.run(move |task| running.clone().reconcile(task)));
    let desk = Arc::clone(&worker.desk);
    let mut others = Entropy::of(seed ^ 0x70_0c4);
    for round in 0..STEPS {
        act(&worker, &mut dice, round);
        if others.one_in(3) {
            worker.touch(others.pick(&NAMES), others.below(4), round as u64);
        }
        let pause = dice.pick(&[0, 1, 50, 500, 5_000]);
        sleep(Duration::from_millis(pause)).await;
        is_right(&desk)?;
    }
    mock.with(FakeServer::clear_faults);
    mock.with(FakeServer::cut_watches);
    let converged = async {
        while !has_converged(&mock) {
            sleep(Duration::from_secs(1)).await;
            is_right(&desk)?;
        }
        Ok(())
    };
    let converged = timeout(PATIENCE, converged).await;
    holds("liveness", converged.is_ok(), &|| {
        format!("a Pod does not follow its set: {:?}", handle.metrics())
    })?;
    converged.unwrap_or(Ok(()))?;
    let heard = async {
        while lock(&desk).has_heard(&mock).is_err() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let heard = timeout(PATIENCE, heard).await;
    holds("heard", heard.is_ok(), &|| {
        format!("{:?}", lock(&desk).has_heard(&mock))
    })?;
    let skipped = handle.metrics().own_writes_skipped;
    handle.stop();
    let ended = timeout(PATIENCE, running).await;
    holds("ended", matches!(ended, Ok(Ok(Ok(_)))), &|| {
        format!("the controller does not stop: {ended:?}")
    })?;
    sets.stop();
    pods.stop();
    let runs = lock(&desk).runs;
    Ok(Figures {
        runs,
        skipped,
        ..Figures::default()
    })
}

/// Makes the events of some watches arrive late.
fn slow_down(mock: &Server, dice: &mut Entropy<'_>) {
    for path in ["/api/v1/pods", "/apis/apps/v1/replicasets"] {
        let rate = dice.pick(&[100, 400, 3_000, 1_000_000]);
        let slow = Fault::nothing().bandwidth(rate).on(Verb::Watch);
        mock.with(|server| server.inject(slow.on_path(path).always()));
    }
}

/// A user changes or deletes an object, or a fault happens.
fn act(worker: &Worker, dice: &mut Entropy<'_>, round: usize) {
    let (mock, name) = (&worker.mock, dice.pick(&NAMES));
    let metadata = json!({ "name": name, "namespace": "prod" });
    let delete = |resource: Resource<'static>| {
        let deleted = mock.with(|server| {
            let name_of_resource = [resource.plural, resource.group].join(".");
            server.delete(name_of_resource.trim_end_matches('.'), "prod", name)
        });
        if let Ok(version) = deleted {
            let key = (resource.plural, name.to_owned());
            lock(&worker.desk).deleted.insert(key, version);
        }
    };
    match dice.below(10) {
        0..5 => {
            let template = json!({ "spec": { "nodeName": round.to_string() } });
            let set = json!({ "metadata": metadata, "spec": { "template": template } });
            // It always succeeds: the name is valid, and no version is required.
            if let Ok(version) = mock.put("replicasets.apps", set) {
                lock(&worker.desk).changed.insert(name.to_owned(), version);
            }
        }
        5 => delete(SETS),
        6 => delete(PODS),
        7 => {
            let mut pod = json!({ "metadata": metadata });
            pod["metadata"]["labels"] = json!({ "round": "other" });
            let _ = mock.put("pods", pod);
        }
        _ => {
            let (which, at) = (dice.below(8), u64::from(dice.below(400)));
            trouble(mock, if which < 7 { which } else { u32::MAX }, at);
        }
    }
}

/// The options that delete this object, and no other of its name. The deletion of one that the caches have never shown
/// cannot be awaited by its uid.
fn only(pod: &Entry<Raw>) -> Value {
    json!({ "preconditions": { "uid": pod.uid().to_string() } })
}

/// Sends a write of one object in the namespace `prod`.
fn send(
    mock: &Server,
    method: &str,
    resource: Resource<'static>,
    name: &str,
    body: &Value,
) -> (u16, Vec<u8>) {
    let root = match resource.group {
        "" => "/api".to_owned(),
        group => format!("/apis/{group}"),
    };
    let collection = format!(
        "{root}/{}/namespaces/prod/{}",
        resource.version, resource.plural
    );
    let (target, content_type) = match method {
        "POST" => (collection, "application/json"),
        // Only the status of a set is patched.
        "PATCH" => (
            format!("{collection}/{name}/status"),
            "application/merge-patch+json",
        ),
        _ => (format!("{collection}/{name}"), "application/json"),
    };
    let body = body.to_string().into_bytes();
    let write = Write {
        method,
        target: &target,
        content_type,
        body: &body,
    };
    let now = mock.clock().now();
    mock.with(|server| server.execute(now, write))
}

fn is_right(desk: &Mutex<Desk>) -> Verdict {
    lock(desk).wrong.take().map_or(Ok(()), Err)
}

/// Returns whether each Pod and each status follow their set on the server.
fn has_converged(mock: &Server) -> bool {
    mock.with(|server| {
        NAMES.iter().all(|name| {
            let set = server.get("replicasets.apps", "prod", name);
            let pod = server.get("pods", "prod", name);
            match (set, pod) {
                (None, pod) => pod.is_none(),
                (Some(_), None) => false,
                (Some(set), Some(pod)) => {
                    let wanted = &set["spec"]["template"]["spec"]["nodeName"];
                    let shown = &set["status"]["conditions"][0]["message"];
                    pod["metadata"]["labels"]["round"] == *wanted && shown == wanted
                }
            }
        })
    })
}
