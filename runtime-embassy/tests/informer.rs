//! The whole informer in fixed memory, over HTTP/1.1 to a mock server, on virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::std_instead_of_core,
    reason = "a test may"
)]

mod support;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use embedded_storage::nor_flash::{
    ErrorType, NorFlash, NorFlashErrorKind, ReadNorFlash, check_erase, check_read, check_write,
};
use informer_core::{
    Body, Head,
    transport::{FailureKind, Get, TransportError},
};
use informer_embassy::{
    Anonymous, Connection, HttpTransport, InHandler, Inline, Lister, MAX_WAITERS, Notification,
    ObjectNotification, RawObject, Resource, Resources, TooManyWaiters, config, json, new,
};
use informer_journal::FlashJournal;
use informer_mock::{FakeServer, Fault, Mock, MockTransport, Simulation, Verb, VirtualClock};
use serde_json::json;
use support::{Seen, ServerLink};

/// At most 8 objects, keys of 48 bytes, objects of 1 KiB.
type Memory = Inline<8, 48, 1024>;
type Text = <Memory as informer_embassy::Storage>::Text;
type Server = Connection<ServerLink<MockTransport>, Anonymous, 512>;
type Transport = HttpTransport<'static, ServerLink<MockTransport>, Anonymous, 512, 4>;
type Log = Rc<RefCell<Vec<String>>>;

fn data(raw: &RawObject<'_>) -> Result<u64, &'static str> {
    let text = json::value_at(raw.json(), &["data", "n"]).and_then(json::as_str);
    let text = text
        .and_then(|text| text.as_plain())
        .ok_or("there is no number")?;
    text.parse().map_err(|_| "it is no number")
}

struct Bench {
    mock: Mock,
    clock: VirtualClock,
    simulation: Simulation,
    connection: &'static Server,
    seen: Rc<Seen>,
}

impl Bench {
    fn new(step: usize) -> Self {
        let mock = Mock::new(FakeServer::new(1));
        let clock = mock.clock().clone();
        let (link, seen) = ServerLink::new(mock.transport(), step);
        Self {
            simulation: Simulation::new(&clock),
            connection: Box::leak(Box::new(Connection::new(link, "mock:1", Anonymous))),
            mock,
            clock,
            seen,
        }
    }

    fn transport(&self) -> Transport {
        self.connection.transport().unwrap()
    }

    /// Starts an informer. Its notifications and reports are in the log.
    fn watch(&mut self, plural: &'static str) -> (Lister<'static, u64, Memory>, Log) {
        self.watch_with(plural, None)
    }

    /// Starts an informer, optionally with a journal.
    fn watch_with(
        &mut self,
        plural: &'static str,
        flash: Option<Flash>,
    ) -> (Lister<'static, u64, Memory>, Log) {
        let resources = Box::leak(Box::new(Resources::<u64, Memory>::new(1)));
        let decode: fn(&RawObject<'_>) -> Result<u64, &'static str> = data;
        let resource = Resource::new("", "v1", plural);
        let (lister, runner) = new(resources, resource, decode, config(), 1);
        let log = Log::default();
        let (notified, reports) = (log.clone(), log.clone());
        let handler = (
            move |event: ObjectNotification<'_, u64, Text>| {
                notified.borrow_mut().push(show(&event));
            },
            move |report: informer_embassy::Report<'_>| {
                reports.borrow_mut().push(format!("! {report}"));
            },
        );
        let (clock, transport) = (self.clock.clone(), self.transport());
        match flash {
            None => self
                .simulation
                .spawn(runner.run_on(clock, transport, handler)),
            Some(flash) => {
                let journal = FlashJournal::in_flash(flash, 512, 8192, [0; 1024]).unwrap();
                self.simulation
                    .spawn(runner.run_with_journal(clock, transport, handler, journal, "here"));
            }
        }
        (lister, log)
    }

    fn put(&self, plural: &str, name: &str, n: u64) {
        let object = json!({
            "metadata": { "namespace": "prod", "name": name }, "data": { "n": n.to_string() }
        });
        self.mock.put(plural, object).unwrap();
    }

    fn wait(&mut self, seconds: u64) {
        self.simulation.run_for(Duration::from_secs(seconds));
    }

    fn held(&self, plural: &str) -> BTreeMap<String, u64> {
        self.mock.with(|server| {
            let objects = server.objects(plural);
            objects
                .map(|object| {
                    let value = server
                        .get(plural, object.namespace(), object.name())
                        .unwrap();
                    let n = value["data"]["n"].as_str().unwrap().parse().unwrap();
                    (format!("{}/{}", object.namespace(), object.name()), n)
                })
                .collect()
        })
    }
}

/// A flash that outlives the informers on it.
#[derive(Clone)]
struct Flash(Rc<RefCell<Vec<u8>>>);

impl ErrorType for Flash {
    type Error = NorFlashErrorKind;
}

impl ReadNorFlash for Flash {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), NorFlashErrorKind> {
        check_read(self, offset, bytes.len())?;
        let at = offset as usize;
        bytes.copy_from_slice(&self.0.borrow()[at..at + bytes.len()]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.0.borrow().len()
    }
}

impl NorFlash for Flash {
    const WRITE_SIZE: usize = 4;
    const ERASE_SIZE: usize = 512;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), NorFlashErrorKind> {
        check_erase(self, from, to)?;
        self.0.borrow_mut()[from as usize..to as usize].fill(0xff);
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), NorFlashErrorKind> {
        check_write(self, offset, bytes.len())?;
        let mut all = self.0.borrow_mut();
        let places = all[offset as usize..].iter_mut();
        places.zip(bytes).for_each(|(place, byte)| *place &= byte);
        Ok(())
    }
}

#[test]
fn a_device_starts_on_its_flash_and_goes_on_from_there() {
    let flash = Flash(Rc::new(RefCell::new(vec![0x5a; 16 * 1024])));
    let mut bench = Bench::new(97);
    for n in 0..3 {
        bench.put("configmaps", &format!("c{n}"), n);
    }
    let (lister, _) = bench.watch_with("configmaps", Some(flash.clone()));
    bench.wait(40);
    bench.put("configmaps", "c1", 11);
    bench.wait(40);
    let truth = bench.held("configmaps");
    assert_eq!(cached(lister), truth);
    lister.stop();
    bench.wait(1);

    // A restart while the server is unreachable.
    let mut later = Bench::new(97);
    later
        .mock
        .with(|server| server.inject(Fault::refuse().always()));
    let (lister, log) = later.watch_with("configmaps", Some(flash.clone()));
    later.wait(5);
    assert_eq!(cached(lister), truth);
    assert!(!lister.is_synced());
    let notified: Vec<_> = log
        .borrow()
        .iter()
        .filter(|line| line.starts_with('+'))
        .cloned()
        .collect();
    assert_eq!(notified.len(), 3, "{notified:?}");

    // And with a reachable server.
    let mark = bench.mock.log().mark();
    bench.put("configmaps", "c2", 22);
    let (lister, _) = bench.watch_with("configmaps", Some(flash));
    bench.wait(80);
    assert!(lister.is_synced());
    assert_eq!(cached(lister), bench.held("configmaps"));
    bench.mock.log().assert_no_list_since(mark);
}

fn show(event: &ObjectNotification<'_, u64, Text>) -> String {
    match event {
        Notification::Added {
            entry: (key, object),
            ..
        } => format!("+ {} {}", key.as_ref(), object.value()),
        Notification::Updated {
            old: (_, old),
            new: (key, object),
        } => {
            format!("~ {} {}->{}", key.as_ref(), old.value(), object.value())
        }
        Notification::Replayed {
            entry: (key, object),
            ..
        } => {
            format!("= {} {}", key.as_ref(), object.value())
        }
        Notification::Deleted {
            entry: (key, object),
            ..
        } => {
            format!("- {} {}", key.as_ref(), object.value())
        }
        Notification::Synced => "synced".into(),
        _ => "?".into(),
    }
}

fn cached(lister: Lister<'_, u64, Memory>) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    lister
        .for_each(|key, object| {
            all.insert(key.as_ref().to_owned(), *object.value());
        })
        .unwrap();
    all
}

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.borrow_mut())
}

#[test]
fn it_lists_watches_and_asks() {
    for step in [1, 5, 4096] {
        let mut bench = Bench::new(step);
        bench.put("configmaps", "a", 1);
        bench.put("configmaps", "b", 2);
        let (maps, log) = bench.watch("configmaps");
        assert!(
            maps.add_index("parity", |object, value| value(
                if object.value() % 2 == 0 {
                    "even"
                } else {
                    "odd"
                }
            ))
            .unwrap()
        );
        bench.wait(1);
        assert_eq!(take(&log), ["+ prod/a 1", "+ prod/b 2", "synced"]);
        assert!(maps.is_synced() && maps.len() == Ok(2));
        bench.put("configmaps", "a", 3);
        bench.put("configmaps", "c", 4);
        bench.mock.delete("configmaps", "prod", "b").unwrap();
        bench.wait(1);
        assert_eq!(take(&log), ["~ prod/a 1->3", "+ prod/c 4", "- prod/b 2"]);
        assert_eq!(maps.with("prod/a", |object| *object.value()), Ok(Some(3)));
        assert_eq!(maps.with("prod/b", |_| ()), Ok(None));
        assert_eq!(cached(maps), bench.held("configmaps"));
        let mut even = Vec::new();
        let known = maps.by_index("parity", "even", |key, _| {
            even.push(key.as_ref().to_owned());
        });
        assert_eq!((known, even), (Ok(true), vec!["prod/c".to_owned()]));
        assert_eq!(maps.by_index("none", "even", |_, _| ()), Ok(false));
        // While an object is borrowed, the cache is too.
        let inner = maps.with("prod/a", |_| maps.add_index("more", |_, _| ()));
        assert_eq!(inner, Ok(Some(Err(InHandler))));

        maps.resync();
        bench.wait(1);
        let mut replayed = take(&log);
        replayed.sort();
        assert_eq!(replayed, ["= prod/a 3", "= prod/c 4"]);
        let mark = bench.mock.log().mark();
        maps.relist();
        bench.wait(5);
        assert_eq!(take(&log), [""; 0]);
        assert_eq!(
            bench
                .mock
                .log()
                .since(mark)
                .filter(|request| request.verb == Verb::List)
                .count(),
            1
        );
        maps.stop();
        bench.wait(1);
        assert_eq!(bench.simulation.running(), 0);
        assert_eq!(maps.len(), Ok(2), "the cache stays");
    }
}

/// Three informers on one connection: each watch takes 30 s, and then the next informer has its turn.
#[test]
fn several_informers_take_turns_on_one_connection() {
    let mut bench = Bench::new(64);
    bench.put("configmaps", "a", 1);
    let plurals = ["configmaps", "secrets", "services"];
    let informers = plurals.map(|plural| bench.watch(plural));
    bench.wait(61);
    for (lister, log) in &informers {
        assert!(lister.is_synced());
        let notified = take(log);
        assert!(
            notified.iter().all(|line| !line.starts_with('!')),
            "{notified:?}"
        );
    }
    for round in 1..=20 {
        for plural in plurals {
            bench.put(plural, "a", round * 10);
            bench.put(plural, "b", round);
        }
        bench.wait(95);
        for (plural, (lister, log)) in plurals.iter().zip(&informers) {
            assert_eq!(
                cached(*lister),
                bench.held(plural),
                "{plural} in round {round}"
            );
            let notified = take(log);
            assert!(
                notified.iter().all(|line| !line.starts_with('!')),
                "{notified:?}"
            );
        }
    }
    // Half an hour on one connection, with one list each. All other requests are watches of 30 s, one after another.
    assert_eq!((bench.seen.opened.get(), bench.seen.closed.get()), (1, 0));
    let log = bench.mock.log();
    assert_eq!(log.lists().count(), 3);
    assert!(log.watches().all(|watch| watch.timeout() == Some(30)));
    let paths: Vec<_> = log.watches().map(|watch| watch.path.clone()).collect();
    assert!(paths.len() >= 60, "{}", paths.len());
    for three in paths[1..].windows(3) {
        assert!(
            three[0] != three[1] && three[1] != three[2] && three[0] != three[2],
            "{three:?}"
        );
    }
}

#[test]
fn it_survives_cuts_resets_refusals_and_a_410() {
    for step in [3, 4096] {
        let mut bench = Bench::new(step);
        for n in 0..6 {
            bench.put("configmaps", &format!("m{n}"), n);
        }
        let (maps, log) = bench.watch("configmaps");
        bench.wait(1);
        let faults: [&dyn Fn(&mut FakeServer); 7] = [
            &|server| server.cut_watches(),
            &|server| server.inject(Fault::refuse().times(3)),
            &|server| server.inject(Fault::reset().times(2)),
            &|server| server.inject(Fault::nothing().cut_inside_event(1).on(Verb::Watch)),
            &|server| server.inject(Fault::overloaded(Some(2)).times(2)),
            &|server| {
                server.cut_watches();
                server.compact_all();
            },
            &|server| server.inject(Fault::html().times(2)),
        ];
        for (round, fault) in (0..).zip(faults) {
            bench.mock.with(|server| fault(server));
            bench.put("configmaps", "m1", 100 + round);
            bench.mock.delete("configmaps", "prod", "m2").unwrap();
            bench.wait(2);
            bench.put("configmaps", "m2", 200 + round);
            bench.put("configmaps", "m3", 300 + round);
            bench.wait(150);
            assert_eq!(
                cached(maps),
                bench.held("configmaps"),
                "after fault {round}"
            );
            assert!(maps.is_synced());
        }
        let notified = take(&log);
        assert!(
            notified.iter().any(|line| line.contains("410")),
            "{notified:?}"
        );
        // The notifications add up to the state of the server.
        let mut folded = BTreeMap::new();
        for line in &notified {
            let mut words = line.split(' ');
            match (words.next().unwrap(), words.next(), words.next()) {
                ("+", Some(key), Some(n)) => {
                    assert!(folded.insert(key.to_owned(), n.to_owned()).is_none());
                }
                ("~", Some(key), Some(change)) => {
                    let (old, n) = change.split_once("->").unwrap();
                    assert_eq!(
                        folded.insert(key.to_owned(), n.to_owned()).as_deref(),
                        Some(old)
                    );
                }
                ("-", Some(key), _) => assert!(folded.remove(key).is_some()),
                _ => {}
            }
        }
        let held = bench
            .held("configmaps")
            .into_iter()
            .map(|(key, n)| (key, n.to_string()));
        assert_eq!(folded, held.collect());
    }
}

/// An object that does not fit is rejected and reported, and the cache recovers when there is room.
#[test]
fn a_bound_that_is_reached_is_notified_and_heals() {
    let mut bench = Bench::new(100);
    for n in 0..10 {
        bench.put("configmaps", &format!("m{n}"), n);
    }
    let (maps, log) = bench.watch("configmaps");
    bench.wait(5);
    assert!(!maps.is_synced() && maps.is_incomplete() && maps.len() == Ok(8));
    let refused = take(&log)
        .iter()
        .filter(|line| line.starts_with("! cache"))
        .count();
    assert_eq!(refused, 2);
    // One is larger than a frame, and one lacks the decoded field. Each is reported, and neither affects the rest.
    let long = "x".repeat(2000);
    bench.mock.delete("configmaps", "prod", "m0").unwrap();
    bench.mock.delete("configmaps", "prod", "m1").unwrap();
    bench.mock.delete("configmaps", "prod", "m2").unwrap();
    bench.wait(60);
    assert!(maps.is_synced() && !maps.is_incomplete());
    assert_eq!(cached(maps), bench.held("configmaps"));
    take(&log);
    bench.mock.create("configmaps", json!({ "metadata": { "name": "long", "namespace": "prod" }, "data": { "n": "1", "x": long } })).unwrap();
    bench
        .mock
        .create(
            "configmaps",
            json!({ "metadata": { "name": "none", "namespace": "prod" } }),
        )
        .unwrap();
    bench.put("configmaps", "m5", 55);
    bench.wait(40);
    assert_eq!(maps.with("prod/m5", |object| *object.value()), Ok(Some(55)));
    let notified = take(&log);
    assert_eq!(
        notified.iter().filter(|line| line.starts_with('!')).count(),
        2,
        "{notified:?}"
    );
}

/// If objects are deleted one after another, the next relist brings everything for which all those deletions made room,
/// not only the first of them.
#[test]
fn a_cache_that_is_emptied_is_refilled_by_few_lists() {
    for pause in [0, 1, 4] {
        let mut bench = Bench::new(100);
        for n in 0..16 {
            bench.put("configmaps", &format!("m{n:02}"), n);
        }
        let (maps, _log) = bench.watch("configmaps");
        bench.wait(5);
        assert!(maps.is_incomplete() && maps.len() == Ok(8));
        let mark = bench.mock.log().mark();
        for n in 0..8 {
            let name = format!("m{n:02}");
            bench.mock.delete("configmaps", "prod", &name).unwrap();
            bench.wait(pause);
        }
        bench.wait(25);
        assert!(maps.is_synced() && !maps.is_incomplete(), "{pause} s");
        assert_eq!(cached(maps), bench.held("configmaps"));
        let lists = bench.mock.log();
        let lists = lists
            .since(mark)
            .filter(|request| request.verb == Verb::List);
        assert!(lists.count() <= 5, "{pause} s");
    }
}

#[test]
fn changed_returns_after_every_change() {
    let mut bench = Bench::new(4096);
    let (maps, _log) = bench.watch("configmaps");
    let seen = Rc::new(RefCell::new(Vec::new()));
    let heard = seen.clone();
    bench.simulation.spawn(async move {
        maps.synced().await.unwrap();
        heard.borrow_mut().push(0);
        loop {
            maps.changed().await.unwrap();
            heard.borrow_mut().push(maps.len().unwrap());
        }
    });
    bench.wait(1);
    bench.put("configmaps", "a", 1);
    bench.wait(1);
    bench.put("configmaps", "b", 1);
    bench.wait(1);
    let heard = seen.borrow();
    assert!(
        heard.starts_with(&[0]) && heard.contains(&1) && heard.ends_with(&[2]),
        "{heard:?}"
    );
}

#[test]
fn waiters_are_polled_only_when_something_changed() {
    let mut bench = Bench::new(4096);
    let (maps, _log) = bench.watch("configmaps");
    bench.wait(1);
    let polls = Rc::new(Cell::new(0));
    let changes = Rc::new(Cell::new(0));
    for _ in 0..MAX_WAITERS {
        let (polls, changes) = (polls.clone(), changes.clone());
        bench.simulation.spawn(async move {
            let mut waiting = Box::pin(async {
                loop {
                    maps.changed().await.unwrap();
                    changes.set(changes.get() + 1);
                }
            });
            poll_fn(move |cx| {
                polls.set(polls.get() + 1);
                assert!(polls.get() < 10_000, "they wake each other");
                waiting.as_mut().poll(cx)
            })
            .await;
        });
    }
    bench.wait(1);
    assert_eq!(
        (polls.take(), changes.take()),
        (MAX_WAITERS, 0),
        "each waits"
    );
    bench.put("configmaps", "a", 1);
    bench.wait(1);
    let (polled, changed) = (polls.take(), changes.take());
    assert!(changed >= MAX_WAITERS, "each hears of it: {changed}");
    assert_eq!(polled, changed, "none is woken without a change");
    let mut cx = Context::from_waker(Waker::noop());
    let one_more = pin!(maps.changed()).poll(&mut cx);
    assert_eq!(one_more, Poll::Ready(Err(TooManyWaiters)));
}

#[test]
fn a_body_that_is_there_already_leaves_other_tasks_their_turn() {
    let resources = Box::leak(Box::new(Resources::<u64, Memory>::new(1)));
    let decode: fn(&RawObject<'_>) -> Result<u64, &'static str> = data;
    let resource = Resource::new("", "v1", "configmaps");
    let (lister, runner) = new(resources, resource, decode, config(), 1);
    let read = Rc::new(Cell::new(0));
    let transport = AllThere(read.clone());
    let running = runner.run_on(
        VirtualClock::new(),
        transport,
        |_: ObjectNotification<'_, u64, Text>| (),
    );
    let mut running = pin!(running);
    let mut cx = Context::from_waker(Waker::noop());
    let mut most = 0;
    for _ in 0..CHUNKS {
        let before = read.get();
        assert!(running.as_mut().poll(&mut cx).is_pending());
        most = most.max(read.get() - before);
    }
    assert!(read.get() > CHUNKS && lister.is_synced(), "all is read");
    assert!(most <= 16, "{most} chunks in one poll");
}

const CHUNKS: usize = 5_000;

/// Responds to a list with a body in many chunks, most of them without an object, and to no later request.
struct AllThere(Rc<Cell<usize>>);

#[derive(Debug)]
struct Never;

impl std::fmt::Display for Never {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("never")
    }
}

impl TransportError for Never {
    fn kind(&self) -> FailureKind {
        FailureKind::Other
    }
}

impl informer_embassy::Transport for AllThere {
    type Body = Self;
    type Error = Never;

    async fn send(&mut self, _get: Get<'_>) -> Result<(Head, Self), Never> {
        if self.0.get() > 0 {
            std::future::pending::<()>().await;
        }
        Ok((Head::new(200), Self(self.0.clone())))
    }
}

impl Body for AllThere {
    type Error = Never;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, Never> {
        let number = self.0.replace(self.0.get() + 1);
        Ok(match number {
            0 => Some(br#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":["#),
            CHUNKS => Some(b"]}"),
            1.. if number > CHUNKS => None,
            1000 => Some(br#"{"metadata":{"namespace":"prod","name":"a","resourceVersion":"5"},"data":{"n":"1"}}"#),
            _ => Some(b" "),
        })
    }
}
