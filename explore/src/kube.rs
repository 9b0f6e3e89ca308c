//! Exploring a controller that has a `kube::Client`, with typed objects.

use core::fmt;
use core::future::Future;
use core::ops::Deref;
use std::sync::Arc;

use informer_core::Instant;
use informer_mock::FakeServer;
use kube_client::Client;
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::action::FaultKind;
use super::failure::Failure;
use super::process::Process;
use super::run::Start;
use super::search::{self, Explored};
use super::spec::{Objects, merge};
use super::trace::Trace;
use super::world::World;
use super::{Explore, boxed};

/// Creates rules for a program that has a `kube::Client`, such as kube's `Controller`. [`Explore`] has the rest of the
/// rules.
///
/// ```
/// use informer_explore::{Env, kube};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
/// use kube_client::api::{Api, ListParams, PostParams};
///
/// /// Each ConfigMap gets a Secret of the same name.
/// async fn operator(client: kube_client::Client) {
///     let maps = Api::<ConfigMap>::namespaced(client.clone(), "prod");
///     let secrets = Api::<Secret>::namespaced(client, "prod");
///     loop {
///         if let Ok(list) = maps.list(&ListParams::default()).await {
///             for map in list {
///                 let metadata = ObjectMeta { name: map.metadata.name, ..ObjectMeta::default() };
///                 let secret = Secret { metadata, ..Secret::default() };
///                 // The next round repeats what fails.
///                 let _ = secrets.create(&PostParams::default(), &secret).await;
///             }
///         }
///         tokio::time::sleep(std::time::Duration::from_secs(1)).await;
///     }
/// }
///
/// let map = |size: &str| ConfigMap {
///     metadata: ObjectMeta { namespace: Some("prod".into()), ..ObjectMeta::default() },
///     data: Some([("size".into(), size.into())].into()),
///     ..ConfigMap::default()
/// };
/// kube(|env: Env| operator(env.client()))
///     .users_write([map("small"), map("large")])
///     .person_edits::<Secret>()
///     .check("each ConfigMap has its Secret", |world| {
///         let (maps, secrets) = (world.all::<ConfigMap>().len(), world.all::<Secret>().len());
///         if secrets >= maps { Ok(()) } else { Err(format!("{maps} ConfigMaps, {secrets} Secrets")) }
///     })
///     .seeds(20)
///     .run();
/// ```
///
/// # What is spared
/// Two defects of kube-runtime 5.0 would fail each exploration of its `Controller`, whatever the program does. Worlds
/// spare precisely these, until [`with_defects_of_kube_runtime`](Explore::with_defects_of_kube_runtime):
/// - A watch that gets the HTTP status 410 is repeated from the same version for ever. So [`FaultKind::Gone`] is off;
///   a 410 as an event, which API servers send, is on.
/// - A new object is lost if its reconciliation begins while the relist that shows it is still read: the store does not
///   have it yet, so the reconciliation ends with `ObjectNotFound`, and is not repeated. With kube-apiserver, that happens
///   to an object that is created while no watch is open, if the relist after a 410 has several pages. In a list of one
///   page, it takes a failure of another watch at the same instant. So a process never gets a list and a failure at the
///   same instant: one of them comes 1 ms later.
pub fn kube<F: Future + 'static>(
    program: impl Fn(Env) -> F + Send + Sync + 'static,
) -> Explore<Kube> {
    let start = boxed(move |process| program(Env { process }));
    let mut explore = Explore::with_program(Kube(start));
    explore.rules.spec.spares_kube = true;
    explore.rules.spec.config.requires_namespaces = true;
    explore.without(FaultKind::Gone)
}

/// A program that has a `kube::Client`. [`kube`](fn@kube) creates rules with it.
#[derive(Clone)]
pub struct Kube(Arc<Start>);

impl fmt::Debug for Kube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kube").finish_non_exhaustive()
    }
}

/// What a program with a `kube::Client` gets: the client, and the [`Process`] that it is.
#[derive(Clone, Debug)]
pub struct Env {
    process: Process,
}

impl Env {
    /// Returns a client, with the namespace `default` as the default.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.process.service(), "default")
    }
}

impl Deref for Env {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

/// # Typed objects
impl Explore<Kube> {
    /// Adds a custom resource: its `CustomResourceDefinition`, as `kube::CustomResourceExt::crd` of any version of kube
    /// returns it. The program can read the definition, too.
    ///
    /// # Panics
    /// Panics in a run if the definition cannot be used.
    pub fn crd(self, definition: impl Serialize) -> Self {
        let definition = json(definition);
        self.setup(move |server: &mut FakeServer| {
            let body = definition.to_string();
            let write = informer_mock::Write {
                method: "POST",
                target: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                content_type: "application/json",
                body: body.as_bytes(),
            };
            let (status, answer) = server.execute(Instant::from_micros(0), write);
            if status != 201 {
                let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
                let name = &definition["metadata"]["name"];
                panic!(
                    "the CustomResourceDefinition {name} cannot be used: {}",
                    answer["message"]
                );
            }
        })
    }

    /// Adds objects that users create, change and delete. Those of one name are variants of an object: users change it
    /// from one to the other. Objects without a name are variants of the two objects `a` and `b`.
    ///
    /// # Panics
    /// Panics if an object cannot be written as JSON.
    pub fn users_write<K>(mut self, objects: impl IntoIterator<Item = K>) -> Self
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let mut groups: Vec<(String, String, Vec<Value>)> = Vec::new();
        for object in objects {
            let (meta, mut value) = (object.meta(), json(&object));
            let namespace = meta.namespace.clone().unwrap_or_default();
            let name = meta.name.clone().unwrap_or_default();
            value["apiVersion"] = K::api_version(&()).as_ref().into();
            value["kind"] = K::kind(&()).as_ref().into();
            match groups
                .iter_mut()
                .find(|group| (&group.0, &group.1) == (&namespace, &name))
            {
                Some(group) => group.2.push(value),
                None => groups.push((namespace, name, vec![value])),
            }
        }
        for (_, name, variants) in groups {
            let objects = variants_of(&resource::<K>(), &variants);
            self = self.objects(match name.as_str() {
                "" => objects,
                name => objects.names([name]),
            });
        }
        self
    }

    /// Adds a resource whose objects a person edits (an annotation) and deletes, such as those that the controller
    /// creates.
    pub fn person_edits<K: Resource<DynamicType = ()>>(self) -> Self {
        self.edited(&resource::<K>())
    }

    /// Sets the program that runs before an upgrade. Each run begins with it, and at some time each replica is replaced
    /// by the program under test, one after the other.
    pub fn upgraded_from<F: Future + 'static>(
        mut self,
        old: impl Fn(Env) -> F + Send + Sync + 'static,
    ) -> Self {
        self.rules.spec.old = Some(boxed(move |process| old(Env { process })));
        self
    }

    /// Ends the sparing of [kube-runtime's defects](fn@kube#what-is-spared).
    pub fn with_defects_of_kube_runtime(mut self) -> Self {
        self.rules.spec.spares_kube = false;
        if !self.rules.spec.has(FaultKind::Gone) {
            self.rules.spec.faults.push(FaultKind::Gone);
        }
        self
    }
}

/// # Running
impl Explore<Kube> {
    /// Runs the program in the world of each seed, like [`Explore::run`].
    ///
    /// # Panics
    /// Panics with a report if a check fails, so that a test fails.
    pub fn run(&self) -> Explored {
        search::run(&self.rules, &self.program.0)
    }

    /// Runs the program in the world of each seed, until a check fails.
    ///
    /// # Errors
    /// The failure of the smallest seed that fails.
    pub fn find(&self) -> Result<Explored, Box<Failure>> {
        search::find(&self.rules, &self.program.0)
    }

    /// Runs the program in the world of one seed, and returns what happened.
    pub fn trace(&self, seed: u64) -> Trace {
        search::trace(&self.rules, seed, &self.program.0)
    }
}

#[cfg_attr(docsrs, doc(cfg(feature = "kube")))]
/// # Typed objects
impl World {
    /// Returns all objects of a type, in the order of lists.
    ///
    /// # Panics
    /// Panics if the resource does not exist, or an object does not have the type: a check of nothing cannot fail.
    #[must_use]
    pub fn all<K: Resource<DynamicType = ()> + DeserializeOwned>(&self) -> Vec<K> {
        let objects = self.objects(&resource::<K>()).into_iter();
        objects.map(typed).collect()
    }

    /// Returns an object of a type. The namespace is empty for a cluster-scoped resource.
    ///
    /// # Panics
    /// Panics if the object does not have the type.
    #[must_use]
    pub fn find<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<K> {
        self.get(&resource::<K>(), namespace, name).map(typed)
    }
}

fn json(object: impl Serialize) -> Value {
    match serde_json::to_value(object) {
        Ok(value) => value,
        Err(error) => panic!("an object cannot be written as JSON: {error}"),
    }
}

fn typed<K: DeserializeOwned>(object: Value) -> K {
    let key = super::paths::key_of(&object);
    match serde_json::from_value(object) {
        Ok(object) => object,
        Err(error) => panic!("{key} is no {}: {error}", core::any::type_name::<K>()),
    }
}

/// Returns the name of a resource as in kubectl.
fn resource<K: Resource<DynamicType = ()>>() -> String {
    match K::group(&()).as_ref() {
        "" => K::plural(&()).into_owned(),
        group => format!("{}.{group}", K::plural(&())),
    }
}

/// Returns objects that users change from each of these to each other.
fn variants_of(resource: &str, variants: &[Value]) -> Objects {
    let mut all = Value::Object(Map::new());
    for variant in variants {
        merge(&mut all, variant);
    }
    let mut objects = Objects::new(resource, variants.first().cloned().unwrap_or_default());
    if variants.len() > 1 {
        // A change back to the first object is a change as well, which removes what the others have.
        objects.object = without(&all, &variants[0]);
        for variant in &variants[1..] {
            let change = without(&all, variant);
            let change = difference(&objects.object, &change);
            objects = objects.changed(change);
        }
    }
    objects
}

/// Returns a merge patch that makes an object be like `wanted`, whichever members of `all` it has.
fn without(all: &Value, wanted: &Value) -> Value {
    match (all, wanted) {
        (Value::Object(all), Value::Object(wanted)) => {
            let members = all.iter().map(|(name, value)| {
                let patch = match wanted.get(name) {
                    Some(own) => without(value, own),
                    None => Value::Null,
                };
                (name.clone(), patch)
            });
            Value::Object(members.collect())
        }
        (_, wanted) => wanted.clone(),
    }
}

/// Returns a patch without the members that another one has as well, which is applied first.
fn difference(first: &Value, patch: &Value) -> Value {
    let (Value::Object(first), Value::Object(patch)) = (first, patch) else {
        return patch.clone();
    };
    let differs = |(name, value): &(&String, &Value)| first.get(*name) != Some(value);
    let members = patch.iter().filter(differs).map(|(name, value)| {
        let value = first
            .get(name)
            .map_or_else(|| value.clone(), |first| difference(first, value));
        (name.clone(), value)
    });
    Value::Object(members.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn variants_remove_what_the_others_have() {
        let small = json!({ "kind": "Shop", "spec": { "size": 1, "tags": { "a": "b" } } });
        let large = json!({ "kind": "Shop", "spec": { "size": 2, "mode": "fast" } });
        let objects = variants_of("shops.example.com", &[small.clone(), large.clone()]);
        // Reports show only what a user changes.
        let change = json!({ "spec": { "size": 2, "mode": "fast", "tags": null } });
        assert_eq!(objects.variants, [change]);
        let mut made = objects.make("a", 0);
        assert_eq!(made["spec"], small["spec"]);
        for (variant, wanted) in [(1, &large), (0, &small)] {
            merge(&mut made, &objects.change(variant));
            assert_eq!(made["spec"], wanted["spec"]);
        }
        assert_eq!(objects.make("a", 1)["spec"], large["spec"]);
    }
}
