//! An informer on tokio whose process dies and starts again, with everything that works beside its watch: a journal with a
//! slow writer, decoding on other threads, audits, late indexes, filters, waiting for writes, and workers of a queue.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;

use informer_core::{audit::AuditConfig, object::ExpectedState, reflector::Initial};
use informer_mock::{FakeServer, Fault, Mock, TokioClock, Verb, json};
use informer_tokio::journal::Journal;
use informer_tokio::{Entry, Informer, Lister, Raw};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::super::entropy::Entropy;
use super::decoder::Gated;
use super::history::{History, Write};
use super::listener::Listener;
use super::user::{Mark, User};
use super::work::Workers;
use super::{Figures, PATIENCE, PODS, Server, Verdict, Wrong, holds, shown};

const NAMES: [(&str, &str); 6] = [
    ("prod", "a"),
    ("prod", "b"),
    ("prod", "c"),
    ("prod", "d"),
    ("edge", "e"),
    ("edge", "f"),
];
const STEPS: usize = 36;
/// The resync period of all listeners that want one.
pub(super) const RESYNC: Duration = Duration::from_secs(30);
/// An index by the parity of the step that wrote an object; the one that is added late has the same values.
const INDEXES: [&str; 2] = ["parity", "late"];

/// What an informer has beside its watch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kit {
    /// It has a source for each of two namespaces.
    namespaces: bool,
    journal: bool,
    audit: bool,
    /// Large objects are decoded on other threads, while another one reads the cache.
    pub(super) threads: bool,
    streams: bool,
    paged: bool,
    /// Each answer takes some time.
    slow: bool,
}

/// What happened to the files of a journal while no process ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Damage {
    None,
    Cut,
    Flipped,
    /// There is no journal any more.
    Deleted,
    /// Its folder is missing, so that the journal cannot be opened until [`World::repair`].
    Missing,
    /// The decoder refuses a part of what is restored.
    Undecodable,
}

/// A process.
struct Life {
    informer: Informer<Raw>,
    driver: JoinHandle<()>,
    listeners: Vec<Listener>,
    reader: Option<Arc<AtomicBool>>,
    has_late: bool,
}

/// A wait for a write: its key and version, and the version that the cache showed after it.
type Wait = JoinHandle<Option<(String, u64, Option<u64>)>>;

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
    /// Opens the thread that writes the journal, which hangs.
    hangs: Option<std::sync::mpsc::Sender<()>>,
    is_missing: bool,
    /// The server has lost an object without a word.
    has_lied: bool,
    /// Objects are large.
    is_flood: bool,
    began: Instant,
    pub(super) step: usize,
    pub(super) trace: Vec<String>,
    pub(super) figures: Figures,
}

impl Kit {
    pub(super) fn of_seed(seed: u64) -> Self {
        let dice = &mut Entropy::Seed(seed ^ 0x5eed);
        Self {
            namespaces: dice.one_in(3),
            journal: !dice.one_in(3),
            audit: dice.one_in(4),
            threads: dice.one_in(6),
            streams: dice.below(2) == 1,
            paged: dice.one_in(4),
            slow: dice.one_in(3),
        }
    }

    /// How many threads a runtime has for blocking work. The only one can be made to hang.
    pub(super) const fn blocking_threads(self) -> usize {
        if self.threads { 4 } else { 1 }
    }
}

impl World {
    pub(super) fn new(seed: u64, kit: Kit) -> Result<Self, Wrong> {
        let mut dice = Entropy::Seed(!seed);
        let mock = Mock::with_clock(FakeServer::new(seed), TokioClock::new());
        if kit.slow {
            mock.with(|server| server.config_mut().latency = Duration::from_millis(700));
        }
        let user = Arc::new(User::default());
        // In memory, where there is such a place: a sync takes no time there.
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
                0..44 => self.change(),
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
                94..96 => self.repair(),
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

    /// Lets time pass. While a thread for blocking work hangs, time does not pass by itself.
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

    /// Writes or deletes an object, and mostly waits until the cache shows it.
    fn change(&mut self) {
        let mut place = self.dice.pick(&NAMES);
        if !self.kit.namespaces {
            place.0 = "prod";
        }
        let (namespace, name) = place;
        let mark = match self.dice.below(8) {
            0 => Mark::Refused,
            1 => Mark::Panics,
            _ => Mark::Fine,
        };
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
            self.mock.apply("pods", object).ok()
        };
        self.note(&format!(
            "{key} is {mark:?} at {version:?}, deleted: {is_deletion}"
        ));
        // A write that changes nothing has no version of its own.
        let Some(version) = version.filter(|version| self.history.version() < *version) else {
            return;
        };
        self.history.add(Write {
            version,
            key: key.clone(),
            mark: (!is_deletion).then_some(mark),
        });
        // Without a process nobody waits.
        if self.dice.one_in(4) || self.life.informer.health().ended {
            return;
        }
        let informer = self.life.informer.clone();
        self.waits.push(tokio::spawn(async move {
            let expected = match uid {
                Some(uid) if is_deletion => ExpectedState::gone(&uid, &version.to_string()),
                _ => ExpectedState::at_version(&version.to_string()),
            };
            informer.wait_for_write(&key, expected).await.ok()?;
            let shown = informer.lister().get_by_key(&key);
            let shown = shown.and_then(|entry| entry.resource_version().to_string().parse().ok());
            Some((key, version, shown))
        }));
    }

    /// Changes an object so that filters drop it, and deletes it at once.
    fn flicker(&mut self) {
        self.note("an object comes, is changed, and goes");
        for parity in ["even", "odd", "even"] {
            self.put("a", Mark::Fine, parity);
        }
        if let Ok(version) = self.mock.delete("pods", "prod", "a") {
            let key = "prod/a".to_owned();
            self.history.add(Write {
                version,
                key,
                mark: None,
            });
        }
    }

    fn put(&mut self, name: &str, mark: Mark, parity: &str) {
        let object = self.object("prod", name, mark, parity);
        if let Ok(version) = self.mock.apply("pods", object)
            && version > self.history.version()
        {
            let (key, mark) = (format!("prod/{name}"), Some(mark));
            self.history.add(Write { version, key, mark });
        }
    }

    /// More is written than may wait for the journal, whose writer hangs, so that the driver is held back; and then it is
    /// stopped, perhaps.
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

    /// Has the server or the network fail.
    fn trouble(&mut self) {
        let which = self.dice.below(10);
        let at = u64::from(self.dice.below(400));
        self.note(&format!("fault {which}"));
        let audited = self.kit.audit;
        self.mock.with(|server| match which {
            0 => server.inject(Fault::refuse()),
            1 => server.inject(Fault::reset()),
            2 => server.inject(Fault::status(500, "{}")),
            3 => server.inject(Fault::nothing().cut_after_bytes(at)),
            4 => server.inject(Fault::expired().on(Verb::Watch)),
            5 => server.inject(Fault::delay(Duration::from_millis(at * 10))),
            6 => server.cut_watches(),
            7 => server.inject(Fault::nothing().cut_after_events(2).silently()),
            8 if audited => server.inject(Fault::stall().on(Verb::List)),
            _ => {
                server.compact_all();
                server.cut_watches();
            }
        });
    }

    fn join(&mut self) {
        let listener = Listener::join(&self.life.informer, &self.user, &mut self.dice);
        self.note(&format!("{listener:?} joins"));
        self.life.listeners.push(listener);
        self.figures.joined += 1;
    }

    fn leave(&mut self) {
        let count = u32::try_from(self.life.listeners.len()).unwrap_or(u32::MAX);
        if count > 0 {
            let left = self
                .life
                .listeners
                .swap_remove(self.dice.below(count) as usize);
            self.note(&format!("{left:?} leaves"));
            left.leave();
        }
    }

    /// The server loses an object without a word, as only an audit finds out.
    fn lose(&mut self) {
        let (namespace, name) = self.dice.pick(&NAMES);
        let lost = self
            .mock
            .with(|server| server.forget("pods", namespace, name));
        if let Ok(version) = lost.map(|_| self.mock.with(|server| server.version())) {
            self.note(&format!("the server loses {namespace}/{name}"));
            self.has_lied = true;
            let key = format!("{namespace}/{name}");
            self.history.add(Write {
                version,
                key,
                mark: None,
            });
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

    /// The disk of the journal is slow until the next call.
    fn hang(&mut self) {
        if self.hangs.take().is_some() {
            return self.note("the writer goes on");
        }
        let (open, gate) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || {
            // It ends as well when the sender is dropped.
            let _ = gate.recv();
        });
        self.hangs = Some(open);
        self.note("the writer hangs");
    }

    /// Kills the process and starts another one, after some changes and perhaps damage to the files.
    async fn die(&mut self) -> Verdict {
        self.note("the process dies");
        self.life.driver.abort();
        self.bury().await;
        for _ in 0..self.dice.below(4) {
            self.change();
        }
        if self.dice.one_in(6) {
            self.mock.with(FakeServer::compact_all);
        }
        let damage = self.dice.pick(&[
            Damage::None,
            Damage::None,
            Damage::Cut,
            Damage::Flipped,
            Damage::Deleted,
            Damage::Missing,
            Damage::Undecodable,
            Damage::Undecodable,
        ]);
        self.restart(damage).await
    }

    /// Waits for what a process leaves behind on other threads.
    async fn bury(&mut self) {
        self.hangs = None;
        if let Some(ends) = self.life.reader.take() {
            ends.store(true, Ordering::Relaxed);
        }
        for listener in core::mem::take(&mut self.life.listeners) {
            listener.leave();
        }
        // Time passes only when these threads have nothing to do any more.
        sleep(Duration::from_millis(5)).await;
    }

    /// Starts a process while no server can be reached, and looks at what it has restored.
    async fn restart(&mut self, damage: Damage) -> Verdict {
        self.figures.replaced += 1;
        self.lives += 1;
        let mut damage = damage;
        if self.kit.journal && !self.damage(damage) {
            damage = Damage::None;
        }
        self.note(&format!("a process starts, damage: {damage:?}"));
        self.user.refuse_restore(damage == Damage::Undecodable);
        self.mock.with(|server| {
            server.clear_faults();
            server.inject(Fault::refuse().always());
        });
        self.life = begin(self.kit, &self.mock, &self.user, &self.folder, self.lives);
        sleep(Duration::from_millis(300)).await;
        let restored = shown(&self.life.informer.lister());
        let version = self.life.informer.resource_version();
        let is_whole = damage != Damage::Undecodable && !self.has_lied && !self.kit.namespaces;
        let version = version.parse().ok().filter(|_| is_whole);
        self.figures.restored += u64::from(!restored.is_empty());
        let wrong = self.history.is_no_state(&restored, version);
        holds("restored", wrong.is_none() || self.has_lied, &|| {
            format!("{}, at {version:?}", wrong.clone().unwrap_or_default())
        })?;
        self.user.refuse_restore(false);
        self.mock.with(FakeServer::clear_faults);
        self.workers.follow(&self.life.informer);
        Ok(())
    }

    /// Damages the files of the journal; returns whether there was something to damage.
    fn damage(&mut self, damage: Damage) -> bool {
        let folder = self.folder.path().join("journal");
        let files = std::fs::read_dir(&folder).into_iter().flatten();
        let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        files.sort();
        let away = self.folder.path().join("away");
        match damage {
            Damage::None | Damage::Undecodable => true,
            Damage::Missing => {
                self.is_missing = std::fs::rename(&folder, away).is_ok() || self.is_missing;
                self.is_missing
            }
            Damage::Deleted => files.iter().all(|file| std::fs::remove_file(file).is_ok()),
            Damage::Cut | Damage::Flipped => {
                let mut any = false;
                for file in files {
                    let mut bytes = std::fs::read(&file).unwrap_or_default();
                    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    let at = self.dice.below(len) as usize;
                    if bytes.len() < 64 {
                        continue;
                    }
                    if damage == Damage::Cut {
                        bytes.truncate(at);
                    } else {
                        bytes[at] ^= 0x5a;
                    }
                    any |= std::fs::write(&file, bytes).is_ok();
                }
                any
            }
        }
    }

    /// Gives a journal its folder back.
    fn repair(&mut self) {
        if core::mem::take(&mut self.is_missing) {
            let away = self.folder.path().join("away");
            // What fails here shows in the end.
            let _ = std::fs::rename(away, self.folder.path().join("journal"));
            self.note("the folder of the journal is there again");
        }
    }

    /// Looks at everything that has to hold at any time.
    async fn check(&mut self) -> Verdict {
        settle().await;
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
        for wait in core::mem::take(&mut self.waits) {
            if !wait.is_finished() {
                waits.push(wait);
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

    /// Takes all faults away and waits until everything is as it should be.
    async fn come_right(&mut self) -> Verdict {
        self.note("no more faults");
        self.hangs = None;
        self.repair();
        self.mock.with(FakeServer::clear_faults);
        let mut last = 0;
        for namespace in ["edge", "prod"] {
            let object = self.object(namespace, "last", Mark::Fine, "odd");
            let written = self.mock.apply("pods", object);
            last = written.map_err(|error| Wrong::new("server", &error))?;
            let (key, mark) = (format!("{namespace}/last"), Some(Mark::Fine));
            self.history.add(Write {
                version: last,
                key,
                mark,
            });
        }
        let informer = self.life.informer.clone();
        let waited = timeout(PATIENCE, informer.wait_until(&last.to_string())).await;
        holds("liveness", matches!(waited, Ok(Ok(()))), &|| {
            format!(
                "it does not come right: {waited:?}, {:?}",
                informer.health()
            )
        })?;
        self.user.counts().drifted.clear();
        if self.kit.audit && (self.kit.streams || self.dice.below(2) == 1) {
            self.lose();
        }
        if self.kit.audit && self.kit.streams {
            // Only audits list. The first list is never silent and takes too long; the next one does not.
            let slow = Fault::nothing().bandwidth(1).on(Verb::List);
            self.mock.with(|server| server.inject(slow));
        }
        // An audit finds what the server has lost, and a journal is tried again.
        let mends = if self.has_lied {
            PATIENCE
        } else {
            Duration::from_secs(700)
        };
        sleep(mends).await;
        self.check().await?;
        self.converges(&shown(&informer.lister()), true)?;
        // An object that the decoder refuses is missing, and an audit says so.
        let drifted = self.user.counts().drifted.clone();
        let drifted = drifted
            .iter()
            .find(|key| self.history.mark(key) == Some(Mark::Fine));
        holds("drift", drifted.is_none() || self.has_lied, &|| {
            format!("{drifted:?} is reported to differ, and the server lost nothing")
        })?;
        let is_done = self.waits.is_empty() || self.has_lied;
        holds("own_writes", is_done, &|| {
            "a write is never shown".to_owned()
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

    /// Compares what an informer shows with the server.
    fn converges(&self, shown: &super::user::State, is_live: bool) -> Verdict {
        let stale = self.life.informer.health().stale;
        let server = self.mock.with(|server| {
            let objects = server.objects("pods");
            let in_scope =
                objects.filter(|pod| self.kit.namespaces || pod.namespace() == "prod" || !is_live);
            in_scope
                .map(|pod| (pod.key(), pod.version().to_string()))
                .collect::<Vec<_>>()
        });
        for (key, version) in &server {
            let is_fine = self.history.mark(key) == Some(Mark::Fine);
            let cached = shown.get(key);
            let is_right = match cached {
                Some(cached) if is_fine => cached == version,
                Some(cached) => cached != version && stale.contains(key),
                None => !is_fine,
            };
            holds("converges", is_right, &|| {
                format!("{key}@{version} is cached as {cached:?}; stale: {stale:?}")
            })?;
        }
        let gone = shown
            .keys()
            .find(|key| server.iter().all(|(other, _)| other != *key));
        holds("converges", gone.is_none(), &|| {
            format!("{gone:?} is not on the server")
        })
    }

    /// Stops the informer. Each listener knows by then what the cache has.
    async fn stop(&mut self) -> Verdict {
        self.note("a stop");
        self.hangs = None;
        let informer = self.life.informer.clone();
        informer.stop();
        let ended = timeout(PATIENCE * 2, informer.ended()).await;
        holds("ended", ended.is_ok(), &|| "it does not end".to_owned())?;
        let lister = informer.lister();
        for listener in core::mem::take(&mut self.life.listeners) {
            listener.ends(&informer, &lister).await?;
        }
        self.bury().await;
        Ok(())
    }

    /// A process that is started without a server shows what the last one had.
    async fn is_persisted(&mut self) -> Verdict {
        let before = shown(&self.life.informer.lister());
        let stale = self.life.informer.health().stale;
        self.restart(Damage::None).await?;
        let after = shown(&self.life.informer.lister());
        let key = before
            .iter()
            .find(|(key, version)| after.get(*key) != Some(*version) && !stale.contains(key));
        holds("persisted", key.is_none(), &|| {
            format!("{key:?} is not in the journal, which has {after:?}")
        })?;
        let gone = after.keys().find(|key| !before.contains_key(*key));
        holds("persisted", gone.is_none(), &|| {
            format!("{gone:?} is still in the journal")
        })?;
        self.life.driver.abort();
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

/// Lets everything run that is ready.
async fn settle() {
    for _ in 0..48 {
        tokio::task::yield_now().await;
    }
}

/// The value of an object in the indexes.
fn parity(object: &Raw, emit: &mut dyn FnMut(&str)) {
    let contains = |text: &[u8]| object.bytes().windows(text.len()).any(|part| part == text);
    emit(if contains(br#""parity":"odd""#) {
        "odd"
    } else {
        "even"
    });
}

/// An index finds what has its value, and nothing else.
fn indexed(lister: &Lister<Raw>, index: &str) -> Verdict {
    for value in ["odd", "even"] {
        let found = lister.by_index(index, value);
        let mut found: Vec<String> = found
            .map_err(|error| Wrong::new("index", &error))?
            .iter()
            .map(|entry| entry.key().to_string())
            .collect();
        let is_right = |entry: &&Entry<Raw>| {
            let mut is = false;
            parity(entry, &mut |other| is = other == value);
            is
        };
        let right = lister.list();
        let right = right.iter().filter(is_right);
        let mut right: Vec<String> = right.map(|entry| entry.key().to_string()).collect();
        found.sort();
        right.sort();
        holds("index", found == right, &|| {
            format!("{index}={value} finds {found:?}, and the cache has {right:?}")
        })?;
    }
    Ok(())
}

/// Starts a process.
fn begin(kit: Kit, mock: &Server, user: &Arc<User>, folder: &TempDir, seed: u64) -> Life {
    let hook = Arc::clone(user);
    let decoder = Gated::new(user, kit.threads, seed);
    let mut builder = Informer::<Raw>::builder_with(mock.transport(), PODS, decoder)
        .seed(seed)
        .drain(PATIENCE)
        .initial(if kit.streams {
            Initial::Stream
        } else {
            Initial::List
        })
        .index_with(INDEXES[0], parity)
        .on_report(move |said| hook.on_report(said));
    builder = if kit.namespaces {
        builder.namespaces(["prod", "edge"])
    } else {
        builder.namespace("prod")
    };
    if kit.paged {
        builder = builder.page_size(2);
    }
    if kit.journal {
        let path = folder.path().join("journal/pods");
        builder = builder.journal(Journal::file(path).cluster("here"));
    }
    if kit.audit {
        let mut config = AuditConfig::new(Duration::from_secs(300));
        config.list_limit = Duration::from_secs(60);
        builder = builder.audit(config);
    }
    if kit.threads {
        builder = builder.decoders(2);
    }
    let (informer, driver) = builder.build();
    let reader = kit.threads.then(|| read(informer.lister()));
    Life {
        informer,
        driver: tokio::spawn(driver.run()),
        listeners: Vec::new(),
        reader,
        has_late: false,
    }
}

/// Reads the cache on another thread, over and over, until the flag is set.
fn read(lister: Lister<Raw>) -> Arc<AtomicBool> {
    let ends = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ends);
    std::thread::spawn(move || {
        while !flag.load(Ordering::Relaxed) {
            drop(lister.list());
            drop(lister.by_index(INDEXES[0], "odd"));
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    ends
}
