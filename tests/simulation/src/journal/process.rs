//! A process with a journal that restarts after every power loss, and a server whose history is recorded.

use core::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use informer_core::cache::ObjectNotification;
use informer_core::{
    Decoder, End, Heap, Instant, Notification, Object, Output, PolledInformer, Raw,
    ReflectorConfig, RequestId, Resource, TransportFailure,
    reflector::{Initial, Purpose},
};
use informer_journal::{Identity, Loaded, LostRecords, Record, RecordLog, Recorder};
use informer_mock::{Backend, Chunk, FakeServer, HeadPoll, ResponseId, json};

use super::power::{Chance, Power};

/// The objects, by key: the uid and the version.
pub type State = BTreeMap<String, (String, u64)>;

/// The number of keys.
const KEYS: u64 = 5;

/// A server and its state at each version.
pub struct World {
    server: FakeServer,
    history: BTreeMap<u64, State>,
    now: Instant,
}

/// The counters of a run.
#[derive(Clone, Copy, Default, Debug)]
pub struct Ran {
    /// The number of power losses.
    pub crashes: usize,
    /// The number of restarts that restored a state.
    pub restored: usize,
    /// The number of lists.
    pub lists: usize,
}

/// One life of a process.
struct Life<J: RecordLog> {
    informer: PolledInformer<Resource<'static>, Decoder<Raw>, Heap, Recorder<J>>,
    open: Option<(RequestId, ResponseId, bool)>,
    notified: State,
    /// Writing the journal failed.
    failed: bool,
    lists: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            server: FakeServer::new(seed),
            history: BTreeMap::new(),
            now: Instant::from_micros(1_000_000_000),
        };
        world.server.tick(world.now);
        world.note();
        world
    }

    /// Records the present state.
    fn note(&mut self) {
        let objects = self.server.objects("pods");
        let state = objects.map(|object| {
            let whole = self
                .server
                .get("pods", "default", object.name())
                .unwrap_or_default();
            let uid = whole["metadata"]["uid"].as_str().unwrap_or_default();
            (object.key(), (uid.to_owned(), object.version()))
        });
        self.history.insert(self.server.version(), state.collect());
    }

    /// Changes something on the server.
    fn act(&mut self, chance: &mut Chance) {
        let name = format!("k{}", chance.below(KEYS));
        let pad = "x".repeat(chance.place(200));
        let object = json!({ "metadata": { "name": name }, "spec": { "pad": pad } });
        match chance.below(20) {
            0..11 => drop(self.server.put("pods", object)),
            11..14 => drop(self.server.delete("pods", "default", &name)),
            14 => {
                let _ = self.server.delete("pods", "default", &name);
                self.note();
                let _ = self.server.create("pods", object);
            }
            15 => drop(self.server.bump_version()),
            16 => self.server.cut_watches(),
            17 => self.server.compact_all(),
            18 => {
                self.server.compact_all();
                self.server.cut_watches();
            }
            _ => self.pass(),
        }
        self.note();
    }

    /// Lets some time pass, with some changes.
    fn go_on(&mut self, chance: &mut Chance) {
        if chance.one_in(5) {
            self.pass();
        }
        for _ in 0..chance.below(3) {
            self.act(chance);
        }
    }

    fn pass(&mut self) {
        self.now = self.now + core::time::Duration::from_secs(61);
        self.server.tick(self.now);
    }
}

impl<J: RecordLog> Life<J> {
    /// Starts with the state in the journal, which must be one that the server had.
    fn begin(journal: J, world: &World, seed: u64) -> Result<(Self, Option<u64>), String> {
        let pods = Resource::new("", "v1", "pods").kind("Pod");
        let config = ReflectorConfig {
            page_size: (seed.is_multiple_of(2)).then_some(2),
            initial: if seed.is_multiple_of(3) {
                Initial::Stream
            } else {
                Initial::List
            },
            ..ReflectorConfig::default()
        };
        let mut life = Self {
            informer: PolledInformer::new(pods, Decoder::new(), config, seed)
                .with_recorder(Recorder::new(journal)),
            open: None,
            notified: State::new(),
            failed: false,
            lists: 0,
        };
        let failed = &mut life.failed;
        let restored = life.informer.restore("here", &mut |report| {
            *failed |= report.class() == "journal";
        });
        life.pop()?;
        let Some(restored) = restored else {
            return Ok((life, None));
        };
        let version: u64 = restored
            .version
            .to_string()
            .parse()
            .map_err(|_| "no number")?;
        let truth = world
            .history
            .get(&version)
            .ok_or("the server never had that version")?;
        let shown = life.shown();
        if shown != *truth || life.notified != shown {
            return Err(format!(
                "restored at {version}: {shown:?}, notified {:?}, the server had {truth:?}",
                life.notified
            ));
        }
        Ok((life, Some(version)))
    }

    fn shown(&self) -> State {
        let entries = self.informer.cache().iter();
        entries
            .map(|(key, object)| (key.to_string(), state(object)))
            .collect()
    }

    /// Does all work that is possible now.
    fn go(&mut self, world: &mut World, chance: &mut Chance) -> Result<(), String> {
        for _ in 0..200 {
            self.pop()?;
            let is_waiting = self.poll(world);
            let is_idle = self.read(world, chance);
            if self.failed || is_waiting && is_idle {
                return self.pop();
            }
        }
        Err("it does not come to rest".to_owned())
    }

    /// Carries out the reflector's outputs; returns whether it waits.
    fn poll(&mut self, world: &mut World) -> bool {
        match self.informer.poll_output(world.now) {
            Output::Send(request) => {
                let mut target = String::new();
                // Writing into a `String` does not fail.
                let _ = request.write_target(&mut target);
                let (id, accept) = (request.id(), request.accept());
                self.lists += usize::from(request.purpose() != Purpose::Watch);
                let response = world.server.handle_request(world.now, &target, accept);
                self.open = Some((id, response, false));
                false
            }
            Output::Cancel(_) => {
                if let Some((_, response, _)) = self.open.take() {
                    world.server.close(response);
                }
                false
            }
            Output::Report(_) => false,
            Output::Wait(_) | _ => true,
        }
    }

    /// Reads available bytes; returns whether there were none.
    fn read(&mut self, world: &mut World, chance: &mut Chance) -> bool {
        let now = world.now;
        let Some((id, response, has_head)) = self.open else {
            return true;
        };
        if !has_head {
            match world.server.poll_head(now, response) {
                HeadPoll::Ready(head) => {
                    self.informer.handle_head(now, id, head.to_head());
                    self.open = Some((id, response, true));
                    return false;
                }
                HeadPoll::Failed(kind) => {
                    self.end(
                        world,
                        id,
                        response,
                        End::Failed(TransportFailure::new(kind)),
                    );
                    return false;
                }
                HeadPoll::Pending { .. } => return true,
            }
        }
        match world.server.poll_chunk(now, response) {
            Chunk::Data(data) => {
                // Sometimes in two parts, with a version between them.
                let cut = if chance.one_in(3) {
                    chance.place(data.len())
                } else {
                    0
                };
                for part in [&data[..cut], &data[cut..]] {
                    let failed = &mut self.failed;
                    let time = Some(now.as_micros() / 1000);
                    self.informer.recorder().set_time(time);
                    let taken = self.informer.handle_data(now, id, part, &mut |report| {
                        *failed |= report.class() == "journal";
                    });
                    assert_eq!(taken, part.len(), "growing storage always has room");
                }
                false
            }
            Chunk::End => {
                self.end(world, id, response, End::Clean);
                false
            }
            Chunk::Abort(kind) => {
                self.end(
                    world,
                    id,
                    response,
                    End::Failed(TransportFailure::new(kind)),
                );
                false
            }
            Chunk::Pending { .. } => true,
        }
    }

    fn end(&mut self, world: &mut World, id: RequestId, response: ResponseId, end: End) {
        world.server.close(response);
        self.open = None;
        self.informer.handle_end(world.now, id, end);
    }

    fn pop(&mut self) -> Result<(), String> {
        while let Some(notified) = self.informer.pop() {
            tell(&mut self.notified, &notified)?;
        }
        Ok(())
    }
}

type Pod = Object<Raw, Box<str>>;

fn state(pod: &Pod) -> (String, u64) {
    let version = pod.resource_version().to_string();
    (pod.uid().to_string(), version.parse().unwrap_or(0))
}

/// Applies a notification, which must be a change.
fn tell(known: &mut State, notified: &ObjectNotification<'_, Raw, Box<str>>) -> Result<(), String> {
    let (is_right, what) = match notified {
        Notification::Added {
            entry: (key, object),
            ..
        } => (
            known.insert(key.to_string(), state(object)).is_none(),
            "added",
        ),
        Notification::Updated {
            old: (_, old),
            new: (key, object),
        } => {
            let before = known.insert(key.to_string(), state(object));
            (
                before == Some(state(old)) && state(old) != state(object),
                "updated",
            )
        }
        Notification::Deleted {
            entry: (key, _), ..
        } => (known.remove(key.as_ref()).is_some(), "deleted"),
        Notification::Synced => (true, "synced"),
        Notification::Replayed { .. } | _ => (false, "notified again"),
    };
    if is_right {
        Ok(())
    } else {
        Err(format!(
            "{what} without reason: {notified:?}, known {known:?}"
        ))
    }
}

/// A journal that records the last version written to it.
pub struct Noted<J> {
    journal: J,
    last: Rc<Cell<Option<u64>>>,
    /// Decides after each version whether the journal is synced or compacted, if nobody else does.
    chance: Option<Chance>,
}

impl<J> Noted<J> {
    pub(crate) fn new(journal: J, chance: Option<Chance>) -> Self {
        Self {
            journal,
            last: Rc::default(),
            chance,
        }
    }

    /// Returns the last version, which changes with the journal.
    pub(crate) fn last(&self) -> Rc<Cell<Option<u64>>> {
        Rc::clone(&self.last)
    }
}

impl<J: RecordLog> RecordLog for Noted<J> {
    type Error = J::Error;

    fn load(
        &mut self,
        identity: &Identity,
        take: &mut dyn FnMut(Record<'_>),
        lost: &mut dyn FnMut(LostRecords),
    ) -> Result<Loaded, J::Error> {
        self.journal.load(identity, take, lost)
    }

    fn append(&mut self, record: Record<'_>) -> Result<(), J::Error> {
        self.journal.append(record)?;
        if let Record::Version(reached) = record {
            self.last.set(reached.version.parse().ok());
            match self.chance.as_mut().map(|chance| chance.below(24)) {
                Some(0..4) => self.journal.sync()?,
                Some(4) => self.journal.compact()?,
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), J::Error> {
        self.journal.sync()
    }

    fn compact(&mut self) -> Result<(), J::Error> {
        self.journal.compact()
    }

    fn restart(&mut self) -> Result<(), J::Error> {
        self.journal.restart()
    }
}

/// Runs processes one after another on what the medium has kept, one per power loss. `open` makes a journal from the
/// medium, and `lose` returns what is left of it.
///
/// # Errors
/// A description of what was wrong.
pub fn run<M, J: RecordLog>(
    seed: u64,
    crashes: usize,
    power: &Power,
    mut medium: M,
    open: impl Fn(M) -> J,
    lose: impl Fn(J, &mut Chance) -> M,
) -> Result<Ran, String> {
    let mut chance = Chance::new(seed);
    let mut world = World::new(seed);
    let mut ran = Ran::default();
    // The version that must not be lost any more.
    let mut safe = None;
    for life in 0..crashes {
        let said = |what: String| format!("seed {seed}, life {life}: {what}");
        let most = if chance.one_in(8) { 400 } else { 60 };
        power.on(Some(chance.below(most)));
        let journal = Noted::new(open(medium), None);
        let (mut process, restored) =
            Life::begin(journal, &world, chance.below(1000)).map_err(said)?;
        if !process.failed {
            if restored < safe {
                return Err(said(format!(
                    "restored {restored:?}, and {safe:?} was safe"
                )));
            }
            safe = restored;
        }
        ran.restored += usize::from(restored.is_some());
        for _ in 0..chance.below(100) {
            if process.failed || power.is_off() {
                break;
            }
            process.go(&mut world, &mut chance).map_err(said)?;
            let journal = process.informer.recorder().journal();
            if chance.one_in(6) && !process.failed && journal.sync().is_ok() {
                safe = safe.max(journal.last.get());
            }
            world.go_on(&mut chance);
        }
        ran.lists += process.lists;
        ran.crashes += 1;
        if let Some((_, response, _)) = process.open.take() {
            world.server.close(response);
        }
        // If the power has not failed yet, it fails now.
        power.on(None);
        medium = lose(
            process.informer.into_recorder().into_journal().journal,
            &mut chance,
        );
    }
    let (mut process, _) = Life::begin(open(medium), &world, seed)?;
    settle(&mut process, &mut world, &mut chance)?;
    Ok(ran)
}

/// Checks that in the end the process has the server's state and has notified it.
fn settle<J: RecordLog>(
    process: &mut Life<J>,
    world: &mut World,
    chance: &mut Chance,
) -> Result<(), String> {
    for _ in 0..30 {
        process.go(world, chance)?;
        let truth = world.history.values().next_back();
        if Some(&process.shown()) == truth && process.informer.cache().is_synced() {
            let is_notified = process.notified == process.shown();
            return is_notified
                .then_some(())
                .ok_or_else(|| "what is shown was not notified".to_owned());
        }
        world.pass();
    }
    Err("it does not come to show what the server has".to_owned())
}
