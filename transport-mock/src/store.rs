//! The objects in all available versions, and the log of events.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use informer_core::Instant;

use crate::object::{Object, ResourceType};

/// One change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) version: u64,
    pub(crate) at: Instant,
    pub(crate) resource: usize,
    pub(crate) before: Option<Arc<Object>>,
    pub(crate) after: Option<Arc<Object>>,
}

/// A multi-version store like etcd, with one version counter for all resources.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    tables: Vec<Table>,
    /// The version of the last change.
    pub(crate) version: u64,
    /// States before this version have been compacted.
    pub(crate) compacted: u64,
    log: VecDeque<Entry>,
    /// The resources and keys of the current objects with owners, by the owners' uids.
    dependents: BTreeMap<Box<str>, BTreeSet<(usize, Arc<str>)>>,
}

#[derive(Clone, Debug)]
struct Table {
    kind: Arc<ResourceType>,
    /// The resource whose objects it shows, if they are not its own.
    view_of: Option<usize>,
    /// The states of each object by key, in the order of their versions. `None` is a deletion.
    objects: BTreeMap<Arc<str>, States>,
}

/// The states of one object, each from its version on.
type States = Vec<(u64, Option<Arc<Object>>)>;

impl Store {
    pub(crate) const fn new() -> Self {
        Self {
            tables: Vec::new(),
            version: 1,
            compacted: 0,
            log: VecDeque::new(),
            dependents: BTreeMap::new(),
        }
    }

    /// Adds a resource and returns its index.
    pub(crate) fn add(&mut self, kind: ResourceType) -> usize {
        self.tables.push(Table {
            kind: Arc::new(kind),
            view_of: None,
            objects: BTreeMap::new(),
        });
        self.tables.len() - 1
    }

    /// Adds a resource that shows the objects of another one, and returns its index.
    pub(crate) fn add_view(&mut self, kind: ResourceType, of: usize) -> usize {
        let index = self.add(kind);
        self.tables[index].view_of = Some(self.stored(of));
        index
    }

    /// Returns the resource that has the objects of a resource.
    pub(crate) fn stored(&self, resource: usize) -> usize {
        self.tables[resource].view_of.unwrap_or(resource)
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.tables.iter().map(|table| &table.kind)
    }

    pub(crate) fn kind(&self, resource: usize) -> &Arc<ResourceType> {
        &self.tables[resource].kind
    }

    pub(crate) fn kind_mut(&mut self, resource: usize) -> &mut ResourceType {
        Arc::make_mut(&mut self.tables[resource].kind)
    }

    /// Returns the current state of an object.
    pub(crate) fn current(&self, resource: usize, key: &str) -> Option<&Arc<Object>> {
        let resource = self.stored(resource);
        self.tables[resource].objects.get(key)?.last()?.1.as_ref()
    }

    /// Iterates over the objects at a version, by key, starting after `after`.
    pub(crate) fn at<'a>(
        &'a self,
        resource: usize,
        version: u64,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        let range = self.tables[self.stored(resource)]
            .objects
            .range::<str, _>((start, Bound::Unbounded));
        let range = range.take_while(move |(key, _)| key.starts_with(prefix));
        range.filter_map(move |(_, states)| state_at(states, version))
    }

    pub(crate) fn next_version(&self) -> u64 {
        self.version + 1
    }

    /// Makes a change at the next version.
    pub(crate) fn put(
        &mut self,
        now: Instant,
        resource: usize,
        key: &str,
        after: Option<Arc<Object>>,
    ) {
        let resource = self.stored(resource);
        self.version += 1;
        let version = self.version;
        let before = self.current(resource, key).cloned();
        self.index(resource, key, before.as_deref(), after.as_deref());
        let objects = &mut self.tables[resource].objects;
        match objects.get_mut(key) {
            Some(states) => states.push((version, after.clone())),
            None => {
                objects.insert(key.into(), [(version, after.clone())].into());
            }
        }
        self.log.push_back(Entry {
            version,
            at: now,
            resource,
            before,
            after,
        });
    }

    /// Removes an object and all its states, without an event.
    pub(crate) fn forget(&mut self, resource: usize, key: &str) -> bool {
        let resource = self.stored(resource);
        let before = self.current(resource, key).cloned();
        self.index(resource, key, before.as_deref(), None);
        self.tables[resource].objects.remove(key).is_some()
    }

    /// Returns the resources and keys of the objects that an object owns.
    pub(crate) fn dependents_of(&self, uid: &str) -> Vec<(usize, Arc<str>)> {
        let owned = self.dependents.get(uid).into_iter().flatten();
        owned.cloned().collect()
    }

    /// Returns the resources and keys of all objects with owners.
    pub(crate) fn dependents(&self) -> BTreeSet<(usize, Arc<str>)> {
        self.dependents.values().flatten().cloned().collect()
    }

    /// Records the owners of an object.
    fn index(
        &mut self,
        resource: usize,
        key: &str,
        before: Option<&Object>,
        after: Option<&Object>,
    ) {
        let place = || (resource, Arc::<str>::from(key));
        for uid in before.into_iter().flat_map(|object| &object.owners) {
            if let Some(owned) = self.dependents.get_mut(uid) {
                owned.remove(&place());
                if owned.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in after.into_iter().flat_map(|object| &object.owners) {
            self.dependents
                .entry(uid.clone())
                .or_default()
                .insert(place());
        }
    }

    /// Iterates over the events after a version.
    pub(crate) fn events_after(&self, version: u64) -> impl Iterator<Item = &Entry> {
        let start = self.log.partition_point(|entry| entry.version <= version);
        self.log.range(start..)
    }

    /// Undoes all changes after a version.
    pub(crate) fn restore(&mut self, version: u64) {
        let version = version.clamp(self.compacted, self.version);
        self.version = version;
        self.log.retain(|entry| entry.version <= version);
        for table in &mut self.tables {
            table.objects.retain(|_, states| {
                states.retain(|(v, _)| *v <= version);
                !states.is_empty()
            });
        }
        self.dependents.clear();
        for resource in 0..self.tables.len() {
            let owned = self.tables[resource]
                .objects
                .iter()
                .filter_map(|(key, states)| {
                    let object = states.last()?.1.as_ref()?;
                    (!object.owners.is_empty()).then(|| (key.clone(), object.clone()))
                });
            for (key, object) in owned.collect::<Vec<_>>() {
                self.index(resource, &key, None, Some(&object));
            }
        }
    }

    /// Returns the version of the last event before a time.
    pub(crate) fn version_before(&self, time: Instant) -> Option<u64> {
        let index = self
            .log
            .partition_point(|entry| entry.at < time)
            .checked_sub(1)?;
        self.log.get(index).map(|entry| entry.version)
    }

    /// Drops the events up to a version, and the states that are visible only at earlier versions.
    pub(crate) fn compact(&mut self, version: u64) {
        let version = version.min(self.version);
        self.compacted = self.compacted.max(version);
        while self
            .log
            .front()
            .is_some_and(|entry| entry.version <= version)
        {
            let Some(entry) = self.log.pop_front() else {
                break;
            };
            let Some(object) = entry.after.as_ref().or(entry.before.as_ref()) else {
                continue;
            };
            let objects = &mut self.tables[entry.resource].objects;
            let key = key(&object.namespace, &object.name);
            let Some(states) = objects.get_mut(key.as_str()) else {
                continue;
            };
            let old = states
                .partition_point(|(v, _)| *v <= version)
                .saturating_sub(1);
            states.drain(..old);
            if let [(v, None)] = states.as_slice()
                && *v <= version
            {
                objects.remove(key.as_str());
            }
        }
    }
}

/// Returns the key of an object, as in etcd after the resource's prefix.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.into()
    } else {
        format!("{namespace}/{name}")
    }
}

fn state_at(states: &[(u64, Option<Arc<Object>>)], version: u64) -> Option<&Arc<Object>> {
    let index = states
        .partition_point(|(v, _)| *v <= version)
        .checked_sub(1)?;
    states.get(index)?.1.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Identity, Names};
    use serde_json::Map;

    fn store() -> Store {
        let mut store = Store::new();
        let text = |text: &str| String::from(text);
        store.add(ResourceType {
            group: text(""),
            version: text("v1"),
            plural: text("pods"),
            kind: text("Pod"),
            namespaced: true,
            custom: false,
            is_served: true,
            names: Names {
                singular: text("pod"),
                short: Vec::new(),
                categories: Vec::new(),
            },
            parts: &[],
            definition: None,
            selectable: Vec::new(),
        });
        store
    }

    fn put(store: &mut Store, name: &str, there: bool) {
        let version = store.next_version();
        let identity = Identity {
            version,
            namespace: "d",
            name,
            uid: "u",
            created: "",
        };
        let object = there.then(|| Arc::new(Object::new(store.kind(0), &Map::new(), &identity)));
        store.put(Instant::from_micros(version), 0, &key("d", name), object);
    }

    fn names(store: &Store, version: u64, after: Option<&str>) -> String {
        store
            .at(0, version, "d/", after)
            .map(|object| format!("{}@{} ", object.name, object.version))
            .collect()
    }

    #[test]
    fn every_state_can_be_read_until_it_is_compacted() {
        let mut store = store();
        put(&mut store, "a", true); // 2
        put(&mut store, "b", true); // 3
        put(&mut store, "a", true); // 4
        put(&mut store, "b", false); // 5
        put(&mut store, "c", true); // 6
        assert_eq!(names(&store, 1, None), "");
        assert_eq!(names(&store, 3, None), "a@2 b@3 ");
        assert_eq!(names(&store, 4, Some("d/a")), "b@3 ");
        assert_eq!(names(&store, 6, None), "a@4 c@6 ");
        assert_eq!(store.events_after(3).count(), 3);
        assert_eq!(store.version_before(Instant::from_micros(5)), Some(4));

        store.compact(5);
        assert_eq!(names(&store, 5, None), "a@4 ");
        assert_eq!(names(&store, 6, None), "a@4 c@6 ");
        assert_eq!(store.events_after(0).count(), 1);
        assert_eq!(store.tables[0].objects.len(), 2);
        assert_eq!(store.tables[0].objects["d/a"].len(), 1);

        store.compact(100);
        assert_eq!(store.compacted, 6);
        assert_eq!(names(&store, 6, None), "a@4 c@6 ");
    }
}
