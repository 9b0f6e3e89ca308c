//! Informers of a factory whose clusters and namespaces join and leave, while objects change and requests fail.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use informer_mock::{FakeServer, Mock, TokioClock, json};
use informer_tokio::factory::Factory;
use informer_tokio::{Event, Informer, Raw, Subscription, boxed};
use tokio::time::{Instant, sleep, timeout};

use super::super::entropy::Entropy;
use super::user::State;
use super::{PATIENCE, Server, Verdict, Wrong, holds, objects, shown, trouble};

const STEPS: u32 = 40;
const SERVERS: u32 = 3;
const CLUSTERS: [&str; 2] = ["eu", "us"];
const NAMESPACES: [&str; 3] = ["prod", "edge", "test"];
const NAMES: [&str; 2] = ["a", "b"];

struct World {
    dice: Entropy<'static>,
    servers: Vec<Server>,
    factory: Factory,
    /// The clusters that have joined, each with the number of its server. A cluster may come back as another one.
    joined: BTreeMap<&'static str, usize>,
    /// The namespaces of each server that have the label.
    labelled: BTreeSet<(usize, &'static str)>,
    /// The informer of all namespaces, and that of those with the label.
    views: [View; 2],
}

/// An informer, and the state that its events make.
struct View {
    informer: Informer<Raw>,
    events: Subscription<Raw>,
    heard: State,
}

impl View {
    fn new(informer: Informer<Raw>) -> Self {
        let events = informer.subscribe();
        Self {
            informer,
            events,
            heard: State::default(),
        }
    }

    /// Applies the events that have arrived. Each must follow from those before it.
    async fn hear(&mut self) -> Verdict {
        while let Ok(Some(event)) = timeout(Duration::from_millis(1), self.events.recv()).await {
            let version = |entry: &informer_tokio::Entry<Raw>| {
                (
                    entry.key().to_string(),
                    entry.resource_version().to_string(),
                )
            };
            let (key, was, is) = match &event {
                Event::Added { entry, .. } => {
                    let (key, version) = version(entry);
                    (key, None, Some(version))
                }
                Event::Updated { old, new } => {
                    let (key, new) = version(new);
                    (key, Some(version(old).1), Some(new))
                }
                Event::Deleted { entry, .. } => {
                    let (key, _) = version(entry);
                    let was = self.heard.get(&key).cloned().unwrap_or_default();
                    (key, Some(was), None)
                }
                Event::Replayed { .. } | Event::Synced | _ => continue,
            };
            let before = match is {
                Some(version) => self.heard.insert(key.clone(), version),
                None => self.heard.remove(&key),
            };
            holds("grammar", before == was, &|| {
                format!("{key} was {before:?}, and the event has {was:?}")
            })?;
        }
        Ok(())
    }
}

/// Plays a fleet from a seed.
pub(super) async fn play(seed: u64) -> Verdict {
    let mut world = World::new(seed)?;
    for step in 0..STEPS {
        world.step(step);
        let wait = world.dice.pick(&[0, 0, 1, 100, 5_000, 40_000]);
        sleep(Duration::from_millis(wait)).await;
        for view in &mut world.views {
            view.hear().await?;
        }
    }
    for server in &world.servers {
        server.with(FakeServer::clear_faults);
    }
    world.converges().await
}

impl World {
    fn new(seed: u64) -> Result<Self, Wrong> {
        let mut dice = Entropy::of(seed ^ 0xf1ee7);
        let clock = TokioClock::new();
        let servers = (0..u64::from(SERVERS))
            .map(|number| Mock::with_clock(FakeServer::new(seed ^ number), clock))
            .collect();
        let (factory, driver) = Factory::of_clusters().build();
        tokio::spawn(driver.run());
        let pods = || {
            factory
                .raw("pods")
                .map_err(|error| Wrong::new("resource", &error))
        };
        let views = [
            View::new(pods()?.get()),
            View::new(pods()?.namespaces_where("team=web").get()),
        ];
        let mut world = Self {
            servers,
            factory,
            joined: BTreeMap::new(),
            labelled: BTreeSet::new(),
            views,
            dice: Entropy::of(u64::from(dice.below(u32::MAX))),
        };
        for number in 0..world.servers.len() {
            for namespace in NAMESPACES {
                world.label(number, namespace, dice.below(2) == 0);
            }
        }
        Ok(world)
    }

    fn step(&mut self, step: u32) {
        let number = self.dice.below(SERVERS) as usize;
        let namespace = self.dice.pick(&NAMESPACES);
        match self.dice.below(12) {
            0..=3 => {
                let name = self.dice.pick(&NAMES);
                let pod =
                    json!({ "metadata": { "namespace": namespace, "name": name }, "step": step });
                // It may not exist, and then cannot be deleted.
                let _ = self.servers[number].with(|server| {
                    if self.dice.one_in(3) {
                        server.delete("pods", namespace, name).map(drop)
                    } else {
                        server.put("pods", pod).map(drop)
                    }
                });
            }
            4..=5 => {
                let is_in = self.labelled.contains(&(number, namespace));
                self.label(number, namespace, !is_in);
            }
            6..=8 => {
                let cluster = self.dice.pick(&CLUSTERS);
                let server = self.servers[number].clone();
                self.factory.join(cluster, boxed!(server.transport()));
                self.joined.insert(cluster, number);
            }
            9 => {
                let cluster = self.dice.pick(&CLUSTERS);
                self.factory.leave(cluster);
                self.joined.remove(cluster);
            }
            _ => {
                let (which, at) = (self.dice.below(10), u64::from(self.dice.below(600)));
                trouble(&self.servers[number], which, at);
            }
        }
    }

    fn label(&mut self, number: usize, namespace: &'static str, is_in: bool) {
        if is_in {
            self.labelled.insert((number, namespace));
        } else {
            self.labelled.remove(&(number, namespace));
        }
        let team = if is_in { "web" } else { "db" };
        let metadata = json!({ "name": namespace, "labels": { "team": team } });
        let _ = self.servers[number].with(|server| {
            server
                .put("namespaces", json!({ "metadata": metadata }))
                .map(drop)
        });
    }

    /// Returns what the informers have to show.
    fn expected(&self) -> [State; 2] {
        [false, true].map(|of_labelled| {
            let clusters = self.joined.iter();
            let objects = clusters.flat_map(|(cluster, &number)| {
                let is_in = move |namespace: &str| {
                    let mut labelled = self.labelled.iter();
                    !of_labelled || labelled.any(|(of, name)| *of == number && *name == namespace)
                };
                let objects = objects(&self.servers[number], |pod| is_in(pod.namespace()));
                let objects = objects.into_iter();
                objects.map(move |(key, version)| (format!("{cluster}:{key}"), version))
            });
            objects.collect()
        })
    }

    /// Without faults, the caches come to have the objects of the clusters that have joined, and no others.
    async fn converges(&mut self) -> Verdict {
        let expected = self.expected();
        let began = Instant::now();
        for (view, expected) in self.views.iter_mut().zip(&expected) {
            let is_right = |view: &View| {
                let is_shown = shown(&view.informer.lister()) == *expected;
                is_shown && view.heard == *expected && view.informer.is_synced()
            };
            while !is_right(view) && began.elapsed() < PATIENCE {
                sleep(Duration::from_secs(5)).await;
                view.hear().await?;
            }
            holds("converges", is_right(view), &|| {
                let (shown, heard) = (shown(&view.informer.lister()), &view.heard);
                format!(
                    "{expected:?} is shown as {shown:?} and notified as {heard:?}: {:?}",
                    view.informer.health()
                )
            })?;
        }
        self.factory.shutdown().await;
        Ok(())
    }
}
