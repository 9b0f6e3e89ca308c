//! Users of an informer with failing code: handlers join, leave, are slow and panic, hooks, the decoder and the
//! transport panic, informers are stopped and drivers dropped.

use core::time::Duration;
use std::sync::Arc;

use informer_mock::{FakeServer, Mock, TokioClock, json};
use informer_tokio::factory::Factory;
use informer_tokio::{Informer, Lister, Raw, boxed};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::super::entropy::Entropy;
use super::listener::Listener;
use super::user::{HOOKS, Mark, Picky, Shaky, User};
use super::{
    Figures, PATIENCE, PODS, Server, Verdict, Wrong, converges, ends, holds, objects, reaches,
    shown, trouble,
};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const STEPS: usize = 40;

/// The origin of an informer.
enum Source {
    /// Built directly, with every hook.
    Own(Informer<Raw>, Option<JoinHandle<()>>),
    /// From a factory. Between two steps the user holds only a lister, not the informer.
    Shared(Factory, Lister<Raw>),
}

pub(super) struct World {
    dice: Entropy<'static>,
    mock: Server,
    user: Arc<User>,
    source: Source,
    joined: Vec<Listener>,
    /// The mark of each object on the server.
    marks: Vec<(&'static str, Mark)>,
    began: Instant,
    pub(super) step: usize,
    pub(super) trace: Vec<String>,
    pub(super) figures: Figures,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Entropy::of(seed);
        let mock = Mock::with_clock(FakeServer::new(seed), TokioClock::new());
        let user = Arc::new(User::default());
        let source = if dice.one_in(2) {
            let (informer, driver) = own(&mock, &user, seed);
            Source::Own(informer, Some(driver))
        } else {
            let transport = Shaky(mock.transport(), Arc::clone(&user));
            let hook = Arc::clone(&user);
            let (factory, driver) = Factory::builder(boxed!(transport))
                .drain(PATIENCE)
                .on_report(move |_, report| hook.on_report(report))
                .build();
            tokio::spawn(driver.run());
            let lister = shared(&factory, &user).lister();
            Source::Shared(factory, lister)
        };
        Self {
            dice,
            mock,
            user,
            source,
            joined: Vec::new(),
            marks: Vec::new(),
            began: Instant::now(),
            step: 0,
            trace: Vec::new(),
            figures: Figures::default(),
        }
    }

    fn note(&mut self, what: &str) {
        let at = self.began.elapsed().as_millis();
        self.trace.push(format!("{at:>9} ms  {what}"));
    }

    fn informer(&self) -> Informer<Raw> {
        match &self.source {
            Source::Own(informer, _) => informer.clone(),
            Source::Shared(factory, _) => shared(factory, &self.user),
        }
    }

    pub(super) async fn play(&mut self) -> Verdict {
        for step in 0..STEPS {
            self.step = step;
            match self.dice.below(100) {
                0..45 => self.change(),
                45..60 => self.trouble(),
                60..72 => self.join(),
                72..78 => self.leave(),
                78..92 => {
                    let hook = self.dice.below(4) as usize;
                    self.note(&format!("{} panics at its next call", HOOKS[hook]));
                    self.user.arm(hook);
                }
                92..94 => {
                    self.end(false).await?;
                    self.figures.replaced += 1;
                    self.begin();
                }
                _ => {}
            }
            let pause = self.dice.pick([0, 1, 50, 1_000, 7_000, 40_000].as_slice());
            sleep(Duration::from_millis(pause)).await;
            self.joined.iter().try_for_each(Listener::follows)?;
        }
        self.step = STEPS;
        self.come_right().await?;
        let dropped = matches!(self.source, Source::Own(..)) && self.dice.one_in(3);
        self.end(dropped).await?;
        self.reported(dropped)
    }

    /// Writes or deletes an object.
    fn change(&mut self) {
        let name = self.dice.pick(&NAMES);
        let mark = Mark::any(&mut self.dice);
        self.marks.retain(|(other, _)| *other != name);
        let version = if self.dice.one_in(4) {
            self.mock.delete("pods", "prod", name).ok()
        } else {
            self.marks.push((name, mark));
            let labels = json!({ "mark": format!("{mark:?}"), "step": self.step.to_string() });
            let metadata = json!({ "name": name, "namespace": "prod", "labels": labels });
            self.mock.put("pods", json!({ "metadata": metadata })).ok()
        };
        self.note(&format!("{name} is {mark:?} at {version:?}"));
    }

    /// Injects a fault into the server or the network.
    fn trouble(&mut self) {
        let which = self.dice.below(8);
        let at = u64::from(self.dice.below(400));
        self.note(&format!("fault {which}"));
        trouble(&self.mock, if which < 7 { which } else { u32::MAX }, at);
    }

    fn join(&mut self) {
        let listener = Listener::join(&self.informer(), &self.user, &mut self.dice, true);
        self.note(&format!("{listener:?} joins"));
        self.joined.push(listener);
        self.figures.joined += 1;
    }

    fn leave(&mut self) {
        if let Some(gone) = self.dice.take(&mut self.joined) {
            gone.leave();
            self.note("a listener leaves");
        }
    }

    /// Ends the informer and checks all notifications. Stopping a shared informer stops it for all users.
    async fn end(&mut self, drop_driver: bool) -> Verdict {
        self.note(if drop_driver {
            "the driver is dropped"
        } else {
            "a stop"
        });
        let informer = self.informer();
        if let (true, Source::Own(_, driver)) = (drop_driver, &mut self.source) {
            driver.take().into_iter().for_each(|driver| driver.abort());
        } else {
            informer.stop();
        }
        ends(&informer).await?;
        let lister = informer.lister();
        for listener in core::mem::take(&mut self.joined) {
            // A handler whose driver was dropped never receives what was pending for it.
            if !drop_driver || listener.is_reader() {
                listener.ends(&informer, &lister).await?;
            }
        }
        let health = informer.health();
        let class = health.last_error.map(|error| error.class);
        let is_seen = health.ended && (!drop_driver || class == Some("driver-ended"));
        holds("reported", is_seen, &|| {
            format!("health has ended: {}, {class:?}", health.ended)
        })?;
        self.figures.dropped += u64::from(drop_driver);
        Ok(())
    }

    /// Starts again after the end of an informer. A factory creates a new one by itself.
    fn begin(&mut self) {
        match &mut self.source {
            Source::Own(informer, driver) => {
                let (new, running) = own(&self.mock, &self.user, self.step as u64);
                (*informer, *driver) = (new, Some(running));
            }
            Source::Shared(factory, lister) => *lister = shared(factory, &self.user).lister(),
        }
    }

    /// Removes all faults and waits until the cache shows the server's state.
    async fn come_right(&mut self) -> Verdict {
        self.note("no more faults");
        self.user.disarm();
        let last = self.mock.with(|server| {
            server.clear_faults();
            server.put(
                "pods",
                json!({ "metadata": { "name": "last", "namespace": "prod" } }),
            )
        });
        self.marks.push(("last", Mark::Fine));
        let last = last.map_err(|error| Wrong::new("server", &error))?;
        // A lister that was kept must work like the informer, although nobody held the informer.
        let lister = match &self.source {
            Source::Own(informer, _) => informer.lister(),
            Source::Shared(_, lister) => lister.clone(),
        };
        let informer = self.informer();
        reaches(&informer, last).await?;
        let server = objects(&self.mock, |_| true);
        let is_fine = |key: &str| {
            let name = key.trim_start_matches("prod/");
            let mark = self.marks.iter().find(|(other, _)| *other == name);
            mark.is_none_or(|(_, mark)| *mark == Mark::Fine)
        };
        converges(&server, &shown(&lister), &informer, is_fine)
    }

    /// Compares the failures of user code with the reports.
    fn reported(&mut self, dropped: bool) -> Verdict {
        let counts = self.user.counts();
        let failures = |what| counts.failures.get(what).copied().unwrap_or_default();
        let reports = |class| counts.reports.get(class).copied().unwrap_or_default();
        let reported = |hook| counts.reported.get(hook).copied().unwrap_or_default();
        for (what, class) in [
            ("decoder", "undecodable"),
            ("handler", "handler-panicked"),
            ("index", "index-panicked"),
        ] {
            holds("reported", failures(what) == reports(class), &|| {
                format!(
                    "{what}: {} failures, {} reports",
                    failures(what),
                    reports(class)
                )
            })?;
        }
        // Only the first panic in each informer is reported.
        for hook in ["on_report", "on_version"] {
            let (failures, reported) = (failures(hook), reported(hook));
            let is_right = (failures > 0) == (reported > 0) && reported <= failures;
            holds("reported", is_right, &|| {
                format!("{hook}: {failures} panics, {reported} reports")
            })?;
        }
        let (failures, reported) = (failures("transport"), reported("transport"));
        holds("reported", failures == reported, &|| {
            format!("transport: {failures} panics, {reported} reports")
        })?;
        let ends = reports("driver-ended");
        holds("reported", ends == u64::from(dropped), &|| {
            format!("{ends} reports of a driver that ended, and dropped: {dropped}")
        })?;
        self.figures.panics = counts.failures.values().sum();
        Ok(())
    }
}

/// Builds an informer with every hook, and runs it.
fn own(mock: &Server, user: &Arc<User>, seed: u64) -> (Informer<Raw>, JoinHandle<()>) {
    let [report, version, index] = [(); 3].map(|()| Arc::clone(user));
    let transport = Shaky(mock.transport(), Arc::clone(user));
    let (informer, driver) = Informer::builder_with(transport, PODS, Picky(Arc::clone(user)))
        .seed(seed)
        .drain(PATIENCE)
        .index_with("nothing", move |_, _| index.call("index"))
        .on_report(move |said| report.on_report(said))
        .on_version(move |_| version.call("on_version"))
        .build();
    (informer, tokio::spawn(driver.run()))
}

fn shared(factory: &Factory, user: &Arc<User>) -> Informer<Raw> {
    factory.with::<Raw, _>(PODS, Picky(Arc::clone(user))).get()
}
