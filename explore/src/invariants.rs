//! What holds of each correct controller, so that nobody needs to write a check for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::paths::{key_of, plural_of};
use super::process::Life;
use super::spec::Spec;
use super::trace::EntryKind;
use super::world::{Shared, World};

/// Something that holds of a correct controller, whatever it does. All are checked, unless
/// [`Explore::without_invariant`](crate::Explore::without_invariant) says that a program is meant to differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Invariant {
    /// In the end, no object waits in its deletion for a finalizer. Finalizers that users give their objects do not
    /// count.
    DeletionsEnd,
    /// In the end, the program rests: it sends fewer than 50 requests in a second, and does not write the same object
    /// without an effect three times within [`Explore::settle`](crate::Explore::settle).
    QuietAtRest,
    /// If the program is started again after the end, it changes nothing. It is checked after five quiet minutes, in
    /// one of four runs. Leases and Events do not count.
    StartChangesNothing,
    /// The program does not remove what it cannot know: annotations that another client has set just before its write
    /// ([`FaultKind::Conflict`](crate::FaultKind::Conflict)), or a person ([`Explore::edited`](crate::Explore::edited)).
    ForeignFieldsStay,
    /// The end is as without faults: the same objects with the same finalizers, owners, labels and other members, but for
    /// versions, uids and times. It is compared in one of eight runs, with 3 to 24 runs in which users do the same and
    /// nothing fails. What differs among these, such as names with a uid, is not compared, and nor is
    /// [what the author leaves out](crate::Explore::without_field).
    Converges,
    /// With several replicas and an election by Leases, a process writes only if it was the last to write a Lease.
    /// Leases and Events do not count.
    OneWriter,
}

impl Invariant {
    /// All invariants.
    pub const ALL: [Self; 6] = [
        Self::DeletionsEnd,
        Self::QuietAtRest,
        Self::StartChangesNothing,
        Self::ForeignFieldsStay,
        Self::Converges,
        Self::OneWriter,
    ];

    /// The name of the check in reports.
    pub(super) const fn check(self) -> &'static str {
        match self {
            Self::DeletionsEnd => "no object waits in its deletion",
            Self::QuietAtRest => "it is quiet at rest",
            Self::StartChangesNothing => "a start at rest changes nothing",
            Self::ForeignFieldsStay => "no annotation of another client is lost",
            Self::Converges => "it ends as without faults",
            Self::OneWriter => "only the leader writes",
        }
    }
}

/// The annotations that other clients and people set in worlds.
pub(super) const MARKS: [&str; 3] = ["edited", "touched-at", "touched-by"];

/// The most requests in a second at rest.
const BUSY: u64 = 50;
/// How many writes of an object without an effect are too many at rest.
const REPEATS: u64 = 3;

/// What the program has done since the world came to rest.
#[derive(Clone, Default, Debug)]
pub(super) struct Rest {
    requests: u64,
    /// The writes without an effect, by their method and path.
    in_vain: BTreeMap<String, u64>,
}

/// The objects of a world, by resource and key. Leases and Events do not count.
pub(super) type Snapshot = BTreeMap<(String, String), Value>;

/// # At rest
impl Shared {
    /// Begins to count what happens at rest.
    pub(super) fn begin_rest(&self) {
        self.state().rest = Rest::default();
    }

    /// Checks what holds at rest, after a time without a change.
    pub(super) fn check_rest(&self) -> Result<(), (String, String)> {
        let check = |invariant: Invariant, what: Option<String>| match what {
            Some(what) if self.spec.keeps(invariant) => Err((invariant.check().to_owned(), what)),
            _ => Ok(()),
        };
        check(Invariant::DeletionsEnd, self.hanging())?;
        check(Invariant::QuietAtRest, self.busy())
    }

    fn hanging(&self) -> Option<String> {
        for ((resource, key), object) in self.snapshot() {
            let metadata = &object["metadata"];
            if metadata["deletionTimestamp"].is_null() {
                continue;
            }
            let of_users = self.spec.finalizers_of_users();
            let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
            let mut own = finalizers.filter(|finalizer| !of_users.contains(finalizer));
            if let Some(finalizer) = own.next() {
                return Some(format!(
                    "{resource} {key} is deleted, and still waits for the finalizer {finalizer}"
                ));
            }
        }
        None
    }

    fn busy(&self) -> Option<String> {
        let settle = self.spec.settle.as_secs().max(1);
        let rest = self.state().rest.clone();
        if rest.requests >= BUSY * settle {
            return Some(format!(
                "the program has sent {} requests in {settle} s in which nothing has changed",
                rest.requests
            ));
        }
        let (write, count) = rest.in_vain.iter().find(|(_, count)| **count >= REPEATS)?;
        Some(format!(
            "the program has sent {write} {count} times in {settle} s, without an effect. Compare before a write, or \
             repeat it less often"
        ))
    }

    /// Returns the state of all objects.
    pub(super) fn snapshot(&self) -> Snapshot {
        let objects = self.mock.read(|server| {
            let mut all = Vec::new();
            for resource in server.resources() {
                let resource = resource.as_ref();
                if ["leases", "events"].contains(&resource.plural) {
                    continue;
                }
                let name = kubectl_name(resource.group, resource.plural);
                let objects = server.objects(&name);
                all.extend(objects.map(|object| (name.clone(), object.to_bytes())));
            }
            all
        });
        let parsed = objects.into_iter().filter_map(|(name, bytes)| {
            let object: Value = serde_json::from_slice(&bytes).ok()?;
            Some(((name, key_of(&object)), object))
        });
        parsed.collect()
    }

    /// Compares the state with that before the program was started again.
    pub(super) fn check_start(&self, before: &Snapshot) {
        let now = self.snapshot();
        let keys: BTreeSet<_> = before.keys().chain(now.keys()).collect();
        for key in keys {
            let (resource, name) = key;
            let what = match (before.get(key), now.get(key)) {
                (Some(_), None) => "it is gone".to_owned(),
                (None, _) => "it is new".to_owned(),
                (Some(before), Some(now)) => match difference(before, now, "") {
                    Some(what) => what,
                    None => continue,
                },
            };
            let what = format!(
                "the program was killed at rest and started again, and then {resource} {name} has changed: {what}"
            );
            return self.violate(Invariant::StartChangesNothing.check(), &what);
        }
    }
}

/// Returns the name of a resource as in kubectl.
fn kubectl_name(group: &str, plural: &str) -> String {
    match group {
        "" => plural.to_owned(),
        group => format!("{plural}.{group}"),
    }
}

/// Describes the first difference between two objects, other than who has written which member, and versions.
fn difference(before: &Value, now: &Value, path: &str) -> Option<String> {
    if before == now {
        return None;
    }
    if ["/metadata/managedFields", "/metadata/resourceVersion"].contains(&path) {
        return None;
    }
    let (Value::Object(one), Value::Object(other)) = (before, now) else {
        return Some(format!("{path} was {before}, and is {now}"));
    };
    let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    names.into_iter().find_map(|name| {
        let path = format!("{path}/{name}");
        difference(&before[name.as_str()], &now[name.as_str()], &path)
    })
}

impl Spec {
    pub(super) fn keeps(&self, invariant: Invariant) -> bool {
        self.invariants.contains(&invariant)
    }

    /// Returns the finalizers of the objects that users write.
    fn finalizers_of_users(&self) -> Vec<&Value> {
        let objects = self.objects.iter();
        let all =
            objects.flat_map(|objects| [&objects.object].into_iter().chain(&objects.variants));
        let finalizers = all.filter_map(|object| object["metadata"]["finalizers"].as_array());
        finalizers.flatten().collect()
    }
}

/// # Writes
impl Life {
    /// Notes a request, and checks whether this process may write.
    pub(super) fn note_request(&self, target: &str, is_write: bool) {
        let other = {
            let mut state = self.shared.state();
            state.rest.requests += 1;
            if !is_write || self.shared.spec.replicas == 1 || is_periodic(target) {
                return;
            }
            let is_own =
                |holder: &Holder| holder.replica == self.replica && holder.number == self.number;
            if state.holders.is_empty() || state.holders.values().any(is_own) {
                return;
            }
            state
                .holders
                .iter()
                .next()
                .map(|(lease, holder)| (lease.clone(), holder.pod.clone()))
        };
        if let Some((lease, pod)) = other
            && self.shared.spec.keeps(Invariant::OneWriter)
        {
            let what = format!(
                "{} writes {target}, while {pod} holds the Lease {lease}",
                self.pod()
            );
            self.shared.violate(Invariant::OneWriter.check(), &what);
        }
    }

    /// Notes the effect of a write: the object before and after it.
    pub(super) fn note_write(
        &self,
        method: &str,
        target: &str,
        (before, after): (Option<&Value>, Option<&Value>),
    ) {
        let path = target.split('?').next().unwrap_or(target);
        if plural_of(target) == "leases" {
            self.note_lease(path, after);
        }
        if is_periodic(target) {
            return;
        }
        let (Some(before), Some(after)) = (before, after) else {
            return;
        };
        if before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"] {
            let mut state = self.shared.state();
            let write = format!("{method} {path}");
            *state.rest.in_vain.entry(write).or_default() += 1;
            return;
        }
        let lost = MARKS.into_iter().find(|mark| {
            let has = |object: &Value| !object["metadata"]["annotations"][*mark].is_null();
            has(before) && !has(after)
        });
        if let Some(mark) = lost
            && before["metadata"]["uid"] == after["metadata"]["uid"]
            && self.shared.spec.keeps(Invariant::ForeignFieldsStay)
        {
            let what = format!(
                "{method} {path} removes the annotation {mark:?}, which another client has set. Send the version with \
                 an object that is replaced, and change only what is your own"
            );
            self.shared
                .violate(Invariant::ForeignFieldsStay.check(), &what);
        }
    }

    fn note_lease(&self, path: &str, after: Option<&Value>) {
        let holder = after.and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        let mut state = self.shared.state();
        match holder {
            Some(holder) if !holder.is_empty() => {
                let holder = Holder {
                    replica: self.replica,
                    number: self.number,
                    pod: self.pod(),
                };
                state.holders.insert(path.to_owned(), holder);
            }
            _ => drop(state.holders.remove(path)),
        }
    }

    fn pod(&self) -> String {
        format!("controller-{}-{}", self.replica + 1, self.number)
    }
}

/// The process that has written a Lease last.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    replica: usize,
    number: u32,
    pod: String,
}

/// Whether a resource is written periodically, also at rest.
pub(super) fn is_periodic(target: &str) -> bool {
    ["leases", "events"].contains(&plural_of(target))
}

/// Kills all processes and lets them start again, and notes the state before.
pub(super) fn start_again(shared: &Arc<Shared>) -> Snapshot {
    let before = shared.snapshot();
    shared.record(
        super::trace::SERVER,
        EntryKind::Note,
        "the program is killed at rest".to_owned(),
    );
    for life in shared.lives() {
        life.die("at rest", core::time::Duration::ZERO);
    }
    before
}

/// Returns an object of a path.
pub(super) fn object_at(world: &World, target: &str) -> Option<Value> {
    let path = target.split('?').next()?;
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let parts = if parts.first() == Some(&"apis") {
        (parts.get(1).copied()?, parts.get(3..)?)
    } else {
        ("", parts.get(2..)?)
    };
    let (group, parts) = parts;
    let (namespace, parts) = match parts {
        ["namespaces", namespace, rest @ ..]
            if !rest.is_empty() && !["status", "finalize"].contains(&rest[0]) =>
        {
            (*namespace, rest)
        }
        parts => ("", parts),
    };
    let [plural, name, ..] = parts else {
        return None;
    };
    world.get(&kubectl_name(group, plural), namespace, name)
}
