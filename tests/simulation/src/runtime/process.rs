//! An informer on tokio whose process dies and restarts, with every feature beside its watch: a journal with a slow
//! writer, decoding on other threads, audits, late indexes, filters, waiting for writes, and workers of a queue.

mod deaths;

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;

use informer_core::object::ExpectedState;
use informer_mock::{FakeServer, Fault, Mock, TokioClock, Verb, json};
use informer_tokio::controller::WriteLog;
use informer_tokio::health::State;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::super::entropy::Entropy;
use super::history::History;
use super::life::{INDEXES, Kit, Life, RESYNC, begin, indexed, parity};
use super::listener::Listener;
use super::user::{Mark, User};
use super::work::Workers;
use super::{
    Figures, PATIENCE, PODS, Server, Verdict, Wrong, converges, ends, holds, objects, reaches,
    shown, trouble,
};
use deaths::Damage;

const NAMES: [(&str, &str); 6] = [
    ("prod", "a"),
    ("prod", "b"),
    ("prod", "c"),
    ("prod", "d"),
    ("edge", "e"),
    ("edge", "f"),
];
const STEPS: usize = 36;

/// A wait for a write: its key and version, and the same with the version in the cache afterwards.
type Wait = (
    (String, u64),
    JoinHandle<Option<(String, u64, Option<u64>)>>,
);

pub(super) struct World {
    dice: Entropy<'static>,
    kit: Kit,
    mock: Server,
    user: Arc<User>,
    folder: TempDir,
    history: History,
    life: Life,
    lives: u64,
    waits: Vec<Wait>,
    workers: Workers,
    /// Releases the thread that writes the journal, which hangs.
    hangs: Option<std::sync::mpsc::Sender<()>>,
    is_missing: bool,
    /// The server has lost an object without an event.
    has_lied: bool,
    /// Objects are large.
    is_flood: bool,
    began: Instant,
    pub(super) step: usize,
    pub(super) trace: Vec<String>,
    pub(super) figures: Figures,
}

impl World {
    pub(super) fn new(seed: u64, kit: Kit) -> Result<Self, Wrong> {
        let mut dice = Entropy::of(!seed);
        let mock = Mock::with_clock(FakeServer::new(seed), TokioClock::new());
        if kit.slow {
            mock.with(|server| server.config_mut().latency = Duration::from_millis(700));
        }
        let user = Arc::new(User::default());
        // Uses memory if such a folder exists, since syncing takes no time there.
        let shared = PathBuf::from("/dev/shm");
        let folder = if shared.is_dir() {
            tempfile::tempdir_in(shared)
        } else {
            tempfile::tempdir()
        };
        let folder = folder.map_err(|error| Wrong::new("folder", &error))?;
        let made = std::fs::create_dir(folder.path().join("journal"));
        made.map_err(|error| Wrong::new("folder", &error))?;
        let life = begin(kit, &mock, &user, &folder, seed);
        let workers = Workers::new(3, &mut dice);
        let mut world = Self {
            dice,
            kit,
            mock,
            user,
            folder,
            history: History::default(),
            life,
            lives: 0,
            waits: Vec::new(),
            workers,
            hangs: None,
            is_missing: false,
            has_lied: false,
            is_flood: false,
            began: Instant::now(),
            step: 0,
            trace: Vec::new(),
            figures: Figures::default(),
        };
        world.note(&format!("{kit:?}"));
        world.workers.follow(&world.life.informer);
        Ok(world)
    }

    fn note(&mut self, what: &str) {
        let at = self.began.elapsed().as_millis();
        self.trace.push(format!("{at:>9} ms  {what}"));
    }

    pub(super) async fn play(&mut self) -> Verdict {
        for step in 0..STEPS {
            self.step = step;
            match self.dice.below(100) {
                0..40 => self.change(),
                40..44 => self.disturb().await,
                44..56 => self.trouble(),
                56..66 => self.join(),
                66..71 => self.leave(),
                71..74 if self.kit.audit => self.lose(),
                74..77 => self.add_index().await?,
                77..84 if self.kit.journal && !self.kit.threads => {
                    self.hang();
                    if self.hangs.is_some() && self.dice.one_in(50) {
                        self.flood().await?;
                    }
                }
                84..92 => self.die().await?,
                92..94 => {
                    self.stop().await?;
                    self.restart(Damage::None).await?;
                }
                94..96 => {
                    self.repair();
                    self.calm();
                }
                96..98 => self.flicker(),
                _ => {}
            }
            let pause = self.dice.pick(&[0, 1, 50, 1_000, 7_000, 40_000]);
            self.pause(Duration::from_millis(pause)).await;
            self.check().await?;
        }
        self.step = STEPS;
        self.come_right().await?;
        self.stop().await?;
        if self.kit.journal {
            self.is_persisted().await?;
        }
        self.workers.end().await
    }

    /// Lets time pass. While a thread for blocking work hangs, paused time does not advance by itself.
    async fn pause(&self, time: Duration) {
        if self.hangs.is_none() {
            return sleep(time).await;
        }
        let mut left = time;
        loop {
            settle().await;
            if left.is_zero() {
                return;
            }
            let part = left.min(Duration::from_secs(1));
            tokio::time::advance(part).await;
            left -= part;
        }
    }

    /// Writes or deletes an object, and usually waits until the cache shows the write.
    fn change(&mut self) {
        let mut place = self.dice.pick(&NAMES);
        if !self.kit.namespaces {
            place.0 = "prod";
        }
        let (namespace, name) = place;
        let mark = Mark::any(&mut self.dice);
        let key = format!("{namespace}/{name}");
        let uid = self.mock.with(|server| {
            let object = server.get("pods", namespace, name)?;
            object["metadata"]["uid"].as_str().map(ToOwned::to_owned)
        });
        let is_deletion = self.dice.one_in(4);
        let version = if is_deletion {
            self.mock.delete("pods", namespace, name).ok()
        } else {
            let parity = self.dice.pick(&["even", "odd"]);
            let object = self.object(namespace, name, mark, parity);
            self.mock.put("pods", object).ok()
        };
        self.note(&format!(
            "{key} is {mark:?} at {version:?}, deleted: {is_deletion}"
        ));
        // A write that changes nothing has no version.
        let Some(version) = version.filter(|version| self.history.version() < *version) else {
            return;
        };
        self.history
            .add(version, key.clone(), (!is_deletion).then_some(mark));
        // Without a running process there is nothing to wait with.
        if self.dice.one_in(4) || self.life.informer.health().ended {
            return;
        }
        let informer = self.life.informer.clone();
        let expected = match uid {
            Some(uid) if is_deletion => ExpectedState::gone(&uid, &version.to_string()),
            _ => ExpectedState::at_version(&version.to_string()),
        };
        // A log of writes must have the same result as the wait itself. It skips an informer that is ending.
        let is_running = informer.health().state < State::Stopping;
        let log = (is_running && self.dice.one_in(2)).then(WriteLog::default);
        if let Some(log) = &log {
            let object = self
                .mock
                .with(|server| server.get("pods", namespace, name))
                .map(|object| object.to_string());
            let object = object.as_deref().map(str::as_bytes);
            log.attach(&informer);
            log.record(&PODS, &key, expected.clone(), object);
        }
        let write = (key.clone(), version);
        let wait = tokio::spawn(async move {
            match log {
                Some(log) => {
                    log.seen().await.ok()?;
                    // A log does not wait for an informer that has no list.
                    informer.is_synced().then_some(())?;
                }
                None => informer.wait_for_write(&key, expected).await.ok()?,
            }
            let shown = informer.lister().get_by_key(&key);
            let shown = shown.and_then(|entry| entry.resource_version().to_string().parse().ok());
            Some((key, version, shown))
        });
        self.waits.push((write, wait));
    }

    /// Changes an object so that filters drop it, and deletes it at once.
    fn flicker(&mut self) {
        self.note("an object comes, is changed, and goes");
        for parity in ["even", "odd", "even"] {
            self.put("a", Mark::Fine, parity);
        }
        if let Ok(version) = self.mock.delete("pods", "prod", "a") {
            self.history.add(version, "prod/a".to_owned(), None);
        }
    }

    fn put(&mut self, name: &str, mark: Mark, parity: &str) {
        let object = self.object("prod", name, mark, parity);
        if let Ok(version) = self.mock.put("pods", object)
            && version > self.history.version()
        {
            self.history
                .add(version, format!("prod/{name}"), Some(mark));
        }
    }

    /// Writes more than may be pending for the journal while its writer hangs, so that the driver is blocked.
    /// Sometimes stops the driver then.
    async fn flood(&mut self) -> Verdict {
        self.note("a flood");
        self.is_flood = true;
        for number in 0..150 {
            self.put(
                NAMES[number % 4].1,
                Mark::Fine,
                if number % 8 < 4 { "odd" } else { "even" },
            );
            settle().await;
        }
        self.is_flood = false;
        self.pause(Duration::from_secs(1)).await;
        if self.dice.below(2) == 1 {
            self.life.informer.stop();
            settle().await;
            self.stop().await?;
            self.restart(Damage::None).await?;
        }
        Ok(())
    }

    fn object(&self, namespace: &str, name: &str, mark: Mark, parity: &str) -> Value {
        let labels = json!({ "mark": format!("{mark:?}"), "parity": parity });
        let padding = if self.kit.threads || self.is_flood {
            66 << 10
        } else {
            0
        };
        json!({
            "metadata": { "name": name, "namespace": namespace, "labels": labels },
            "spec": { "padding": "x".repeat(padding) },
        })
    }

    /// Injects a fault into the server or the network.
    fn trouble(&mut self) {
        let which = self.dice.below(10);
        let at = u64::from(self.dice.below(400));
        self.note(&format!("fault {which}"));
        let is_known = which < 8 || (which == 8 && self.kit.audit);
        trouble(&self.mock, if is_known { which } else { u32::MAX }, at);
    }

    /// Makes the watch cache lag, the server stop, or the clock jump.
    async fn disturb(&mut self) {
        let is_probed = self.kit.probe;
        match self.dice.below(3) {
            // Only a probe detects it.
            0 if is_probed => {
                self.note("the watch cache lags");
                self.mock.with(|server| server.lag_at(server.version()));
            }
            1 => {
                self.note("the server stops");
                self.mock.with(FakeServer::go_down);
            }
            _ => {
                self.note("the clock jumps");
                tokio::time::advance(Duration::from_secs(400)).await;
            }
        }
    }

    /// Ends what [`World::disturb`] began.
    fn calm(&self) {
        self.mock.with(|server| {
            server.come_up();
            server.catch_up();
        });
    }

    /// Checks that no change is missing for longer than health says.
    fn is_as_fresh_as_shown(&mut self) -> Verdict {
        for source in self.life.informer.health().sources {
            let Some(shown) = source.staleness else {
                continue;
            };
            self.figures.proven += 1;
            let version = source.resource_version.parse().unwrap_or(0);
            let lacks = self.history.lacks_for(&source.namespace, version);
            holds("staleness", lacks <= shown, &|| {
                format!(
                    "{} has lacked a change for {lacks:?}, and shows {shown:?}",
                    source.namespace
                )
            })?;
        }
        Ok(())
    }

    fn join(&mut self) {
        let listener = Listener::join(&self.life.informer, &self.user, &mut self.dice, false);
        self.note(&format!("{listener:?} joins"));
        self.life.listeners.push(listener);
        self.figures.joined += 1;
    }

    fn leave(&mut self) {
        if let Some(gone) = self.dice.take(&mut self.life.listeners) {
            self.note(&format!("{gone:?} leaves"));
            gone.leave();
        }
    }

    /// Makes the server lose an object without an event, which only an audit detects.
    fn lose(&mut self) {
        let (namespace, name) = self.dice.pick(&NAMES);
        let lost = self
            .mock
            .with(|server| server.forget("pods", namespace, name));
        if let Ok(version) = lost.map(|_| self.mock.with(|server| server.version())) {
            self.note(&format!("the server loses {namespace}/{name}"));
            self.has_lied = true;
            self.history
                .add(version, format!("{namespace}/{name}"), None);
        }
    }

    async fn add_index(&mut self) -> Verdict {
        if core::mem::replace(&mut self.life.has_late, true) {
            return Ok(());
        }
        self.note("an index is added");
        let added = self.life.informer.add_index(INDEXES[1], parity).await;
        holds("index", added.is_ok(), &|| format!("{added:?}"))
    }

    /// Makes the journal's disk hang until the next call.
    fn hang(&mut self) {
        if self.hangs.take().is_some() {
            return self.note("the writer continues");
        }
        let (open, gate) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || {
            // Also returns when the sender is dropped.
            let _ = gate.recv();
        });
        self.hangs = Some(open);
        self.note("the writer hangs");
    }

    /// Checks everything that must hold at any time.
    async fn check(&mut self) -> Verdict {
        settle().await;
        self.is_as_fresh_as_shown()?;
        let informer = &self.life.informer;
        for listener in &self.life.listeners {
            listener.follows()?;
        }
        let (known, joined) = (
            informer.health().handlers.len(),
            self.life.listeners.len() + 1,
        );
        holds("listeners", known == joined, &|| {
            format!("{joined} listeners, and health shows {known}")
        })?;
        let lister = informer.lister();
        indexed(&lister, INDEXES[0])?;
        if self.life.has_late {
            indexed(&lister, INDEXES[1])?;
        }
        if self.workers.is_missed() {
            self.pause(Duration::from_millis(2)).await;
        }
        self.workers.check()?;
        let mut waits = Vec::new();
        for (write, wait) in core::mem::take(&mut self.waits) {
            if !wait.is_finished() {
                waits.push((write, wait));
            } else if let Ok(Some((key, version, shown))) = wait.await {
                self.figures.waits += 1;
                let is_shown = self.has_lied || self.history.is_shown(&key, version, shown);
                holds("own_writes", is_shown, &|| {
                    format!("{key}@{version} was waited for, and the cache showed {shown:?}")
                })?;
            }
        }
        self.waits = waits;
        Ok(())
    }

    /// Removes all faults and waits for convergence.
    async fn come_right(&mut self) -> Verdict {
        self.note("no more faults");
        self.hangs = None;
        self.repair();
        self.calm();
        self.mock.with(FakeServer::clear_faults);
        let mut last = 0;
        for namespace in ["edge", "prod"] {
            let object = self.object(namespace, "last", Mark::Fine, "odd");
            let written = self.mock.put("pods", object);
            last = written.map_err(|error| Wrong::new("server", &error))?;
            self.history
                .add(last, format!("{namespace}/last"), Some(Mark::Fine));
        }
        let informer = self.life.informer.clone();
        reaches(&informer, last).await?;
        self.user.counts().drifted.clear();
        if self.kit.audit && (self.kit.streams || self.dice.below(2) == 1) {
            self.lose();
        }
        if self.kit.audit && self.kit.streams {
            // Only audits send lists. The first list takes too long, although it never falls silent; the next one is
            // fast. In protobuf a list may be too short for that.
            let slow = Fault::in_json().bandwidth(1).on(Verb::List);
            self.mock.with(|server| server.inject(slow));
        }
        // An audit detects the lost object, and the journal is retried.
        let mends = if self.has_lied {
            PATIENCE
        } else {
            Duration::from_secs(700)
        };
        sleep(mends).await;
        self.check().await?;
        let is_wide = self.kit.namespaces;
        let server = objects(&self.mock, |pod| is_wide || pod.namespace() == "prod");
        let is_fine = |key: &str| self.history.mark(key) == Some(Mark::Fine);
        converges(&server, &shown(&informer.lister()), &informer, is_fine)?;
        // An object that the decoder rejects is missing from the cache, and an audit reports it.
        let drifted = self.user.counts().drifted.clone();
        let drifted = drifted
            .iter()
            .find(|key| self.history.mark(key) == Some(Mark::Fine));
        holds("drift", drifted.is_none() || self.has_lied, &|| {
            format!("{drifted:?} is reported to differ, and the server lost nothing")
        })?;
        // A deletion is not shown while the cache has the deleted object, since the next one under its key is unusable.
        let mut waits = self.waits.iter().map(|(write, _)| write);
        let late = waits.find(|(key, version)| !self.history.is_rejected_since(key, *version));
        holds("own_writes", late.is_none() || self.has_lied, &|| {
            format!("a write is never shown: {late:?}")
        })?;
        let since = informer.stale_since();
        holds("restored", since.is_none() && informer.is_synced(), &|| {
            format!(
                "it is stale since {since:?}, and synced: {}",
                informer.is_synced()
            )
        })?;
        let lister = informer.lister();
        for listener in &self.life.listeners {
            listener.settled(&lister)?;
        }
        sleep(RESYNC * 4).await;
        for listener in &self.life.listeners {
            listener.is_resynced()?;
        }
        self.workers.settled(&lister)
    }

    /// Stops the informer. Each listener must have the final state of the cache by then.
    async fn stop(&mut self) -> Verdict {
        self.note("a stop");
        self.hangs = None;
        let informer = self.life.informer.clone();
        informer.stop();
        ends(&informer).await?;
        let lister = informer.lister();
        for listener in core::mem::take(&mut self.life.listeners) {
            listener.ends(&informer, &lister).await?;
        }
        self.bury().await;
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(ends) = self.life.reader.take() {
            ends.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs all tasks that are ready.
async fn settle() {
    for _ in 0..48 {
        tokio::task::yield_now().await;
    }
}
