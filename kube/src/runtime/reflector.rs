//! A replacement of `kube::runtime::reflector`, with a store of its own.

use core::fmt;
use core::hash::Hash;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};

use futures_core::Stream;
use tokio::sync::watch;

use kube_core::{ResourceExt, Selector, SelectorExt as _};

use crate::runtime::watcher::{Event, Result, undecodable};

pub use kube_runtime::reflector::{Lookup, ObjectRef, ObjectRefExtra};

/// The store and its writer, at the path that they have in kube.
pub mod store {
    pub use super::{Applied, Store, Writer, WriterDropped, store};
}

/// Writes the events of a stream to a store and passes them on, like `kube_runtime::reflector`.
///
/// ```
/// use futures_util::{StreamExt as _, TryStreamExt as _};
/// use informer_kube::runtime::{reflector, watcher}; // Instead of those of `kube::runtime`.
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::runtime::WatchStreamExt as _;
/// use kube::{Api, Client};
///
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let (store, writer) = reflector::store::<Pod>();
/// let pods = watcher(Api::all(client), watcher::Config::default());
/// let stream = reflector(writer, pods).applied_objects();
/// tokio::spawn(stream.for_each(async |_| {}));
/// store.wait_until_ready().await?; // In any number of tasks.
/// println!("{} Pods", store.len());
/// # Ok(())
/// # }
/// ```
pub fn reflector<K, W>(writer: Writer<K>, stream: W) -> impl Stream<Item = W::Item>
where
    K: Lookup<DynamicType: Eq + Hash + Clone> + Clone + 'static,
    W: Stream<Item = Result<Event<K>>>,
{
    Reflector(Some((writer, Box::pin(stream))))
}

/// Creates a store and its writer.
#[must_use]
pub fn store<K>() -> (Store<K>, Writer<K>)
where
    K: Lookup<DynamicType: Eq + Hash + Clone + Default> + Clone + 'static,
{
    let writer = Writer::default();
    (writer.as_reader(), writer)
}

/// The writer is dropped at the end of the stream, as by kube.
struct Reflector<K: Lookup, W>(Option<(Writer<K>, Pin<Box<W>>)>);

// Only the stream is pinned, in its box.
impl<K: Lookup, W> Unpin for Reflector<K, W> {}

impl<K, W> Stream for Reflector<K, W>
where
    K: Lookup<DynamicType: Eq + Hash + Clone> + Clone,
    W: Stream<Item = Result<Event<K>>>,
{
    type Item = W::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<W::Item>> {
        let Some((writer, stream)) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let next = stream.as_mut().poll_next(cx);
        match &next {
            Poll::Ready(Some(Ok(event))) => writer.apply_watcher_event(event),
            // They exist, so the list does not remove them.
            Poll::Ready(Some(Err(error))) => {
                for key in undecodable(error) {
                    writer.unseen.retain(|object| !is_key_of(&key, object));
                }
            }
            Poll::Ready(None) => self.0 = None,
            Poll::Pending => {}
        }
        next
    }
}

fn is_key_of<K: Lookup>(key: &str, object: &ObjectRef<K>) -> bool {
    match key.split_once('/') {
        Some((namespace, name)) => {
            object.namespace.as_deref() == Some(namespace) && object.name == name
        }
        None => object.namespace.is_none() && object.name == key,
    }
}

/// Objects by their references. Clones share the store.
///
/// A relist changes the store as the objects arrive and removes the others at its end, so there is never a second copy
/// of all objects. Before the first list is complete, the store has a part of the objects.
pub struct Store<K: Lookup>(Arc<Shared<K>>);

struct Shared<K: Lookup> {
    state: RwLock<State<K>>,
    phase: watch::Sender<Phase>,
}

struct State<K: Lookup> {
    objects: HashMap<ObjectRef<K>, Arc<K>>,
    readers: Vec<Weak<Mutex<Pending<K>>>>,
    /// The writer was dropped.
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Ready,
    Dropped,
}

/// The error of [`Store::wait_until_ready`]: the writer was dropped before the first list was complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriterDropped;

impl fmt::Display for WriterDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the writer of the store was dropped before the first list was complete")
    }
}

impl core::error::Error for WriterDropped {}

impl<K: Lookup<DynamicType: Eq + Hash + Clone> + Clone> Store<K> {
    /// Waits until the first list is complete, in any number of tasks.
    ///
    /// # Errors
    /// Fails if the writer is dropped first.
    pub async fn wait_until_ready(&self) -> core::result::Result<(), WriterDropped> {
        let mut phase = self.0.phase.subscribe();
        let phase = phase.wait_for(|phase| *phase != Phase::Waiting).await;
        match phase.as_deref() {
            Ok(Phase::Ready) => Ok(()),
            Ok(Phase::Waiting | Phase::Dropped) | Err(_) => Err(WriterDropped),
        }
    }

    /// Returns an object. As in kube, a reference with a namespace also finds a cluster-scoped object.
    #[must_use]
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Arc<K>> {
        let state = self.0.read();
        state.objects.get(key).cloned().or_else(|| {
            let mut cluster = key.clone();
            cluster.namespace = None;
            state.objects.get(&cluster).cloned()
        })
    }

    /// Returns all objects.
    #[must_use]
    pub fn state(&self) -> Vec<Arc<K>> {
        self.0.read().objects.values().cloned().collect()
    }

    /// Returns the objects that match.
    #[must_use]
    pub fn state_filter(&self, predicate: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let state = self.0.read();
        let objects = state.objects.values();
        objects
            .filter(|object| predicate(object))
            .cloned()
            .collect()
    }

    /// Returns the objects whose labels match.
    #[must_use]
    pub fn state_filter_selector(&self, selector: &Selector) -> Vec<Arc<K>>
    where
        K: ResourceExt,
    {
        self.state_filter(|object| selector.matches(object.labels()))
    }

    /// Returns an object that matches.
    #[must_use]
    pub fn find(&self, predicate: impl Fn(&K) -> bool) -> Option<Arc<K>> {
        let state = self.0.read();
        state
            .objects
            .values()
            .find(|object| predicate(object))
            .cloned()
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.read().objects.len()
    }

    /// Returns whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.read().objects.is_empty()
    }

    /// Subscribes to the objects that are applied, beginning with the current ones.
    ///
    /// A slow subscriber holds nothing back: it gets the newest state of each object, and nothing of an object that is
    /// deleted before it reads. The stream ends when the writer is dropped.
    #[must_use]
    pub fn subscribe(&self) -> Applied<K> {
        let mut pending = Pending::default();
        let mut state = self.0.write();
        pending.ended = state.ended;
        for (key, object) in &state.objects {
            pending.put(key, object);
        }
        let pending = Arc::new(Mutex::new(pending));
        state.readers.retain(|reader| reader.strong_count() > 0);
        state.readers.push(Arc::downgrade(&pending));
        Applied(pending)
    }
}

impl<K: Lookup> Shared<K> {
    // The data behind a poisoned lock is consistent: predicates of users cannot change it.
    fn read(&self) -> RwLockReadGuard<'_, State<K>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<K>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Lookup> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Lookup> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.0.read().objects.len();
        f.debug_struct("Store")
            .field("len", &len)
            .finish_non_exhaustive()
    }
}

/// Writes a [`Store`].
pub struct Writer<K: Lookup> {
    shared: Arc<Shared<K>>,
    dyntype: K::DynamicType,
    /// The objects of the store that the current list has not shown yet.
    unseen: HashSet<ObjectRef<K>>,
}

impl<K: Lookup<DynamicType: Eq + Hash + Clone> + Clone> Writer<K> {
    /// Creates a writer for a type that is known only at run time. [`store()`] serves other types.
    #[must_use]
    pub fn new(dyntype: K::DynamicType) -> Self {
        let state = State {
            objects: HashMap::new(),
            readers: Vec::new(),
            ended: false,
        };
        let shared = Shared {
            state: RwLock::new(state),
            phase: watch::Sender::new(Phase::Waiting),
        };
        Self {
            shared: Arc::new(shared),
            dyntype,
            unseen: HashSet::new(),
        }
    }

    /// Returns the store.
    #[must_use]
    pub fn as_reader(&self) -> Store<K> {
        Store(Arc::clone(&self.shared))
    }

    /// Applies an event.
    pub fn apply_watcher_event(&mut self, event: &Event<K>) {
        match event {
            Event::Init => self.unseen = self.shared.read().objects.keys().cloned().collect(),
            Event::InitApply(object) | Event::Apply(object) => {
                let key = object.to_object_ref(self.dyntype.clone());
                self.unseen.remove(&key);
                let object = Arc::new(object.clone());
                let mut state = self.shared.write();
                state.notify(|pending| pending.put(&key, &object));
                // Otherwise the old key would stay, with the version of the old object.
                state.objects.remove(&key);
                state.objects.insert(key, object);
            }
            Event::Delete(object) => self.remove(&object.to_object_ref(self.dyntype.clone())),
            Event::InitDone => {
                for key in core::mem::take(&mut self.unseen) {
                    self.remove(&key);
                }
                self.shared.phase.send_replace(Phase::Ready);
            }
        }
    }

    fn remove(&self, key: &ObjectRef<K>) {
        let mut state = self.shared.write();
        state.notify(|pending| {
            if let Some(object) = pending.objects.get_mut(key) {
                *object = None;
            }
        });
        state.objects.remove(key);
    }
}

impl<K: Lookup<DynamicType: Default + Eq + Hash + Clone> + Clone> Default for Writer<K> {
    fn default() -> Self {
        Self::new(K::DynamicType::default())
    }
}

impl<K: Lookup> Drop for Writer<K> {
    fn drop(&mut self) {
        self.shared.phase.send_if_modified(|phase| {
            let waits = *phase == Phase::Waiting;
            if waits {
                *phase = Phase::Dropped;
            }
            waits
        });
        let mut state = self.shared.write();
        state.ended = true;
        state.notify(|pending| pending.ended = true);
    }
}

impl<K: Lookup> fmt::Debug for Writer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl<K: Lookup> State<K> {
    fn notify(&self, mut change: impl FnMut(&mut Pending<K>)) {
        for reader in self.readers.iter().filter_map(Weak::upgrade) {
            let mut pending = lock(&reader);
            change(&mut pending);
            if let Some(waker) = pending.waker.take() {
                waker.wake();
            }
        }
    }
}

/// A subscription to the objects of a [`Store`].
pub struct Applied<K: Lookup>(Arc<Mutex<Pending<K>>>);

struct Pending<K: Lookup> {
    order: VecDeque<ObjectRef<K>>,
    /// The objects that are in `order`; `None` if one was deleted.
    objects: HashMap<ObjectRef<K>, Option<Arc<K>>>,
    waker: Option<Waker>,
    ended: bool,
}

impl<K: Lookup> Default for Pending<K> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            objects: HashMap::new(),
            waker: None,
            ended: false,
        }
    }
}

impl<K: Lookup<DynamicType: Eq + Hash + Clone> + Clone> Pending<K> {
    fn put(&mut self, key: &ObjectRef<K>, object: &Arc<K>) {
        let object = Some(Arc::clone(object));
        if self.objects.insert(key.clone(), object).is_none() {
            self.order.push_back(key.clone());
        }
    }
}

fn lock<K: Lookup>(pending: &Mutex<Pending<K>>) -> MutexGuard<'_, Pending<K>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Lookup<DynamicType: Eq + Hash + Clone> + Clone> Stream for Applied<K> {
    type Item = Arc<K>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Arc<K>>> {
        let mut pending = lock(&self.0);
        while let Some(key) = pending.order.pop_front() {
            if let Some(Some(object)) = pending.objects.remove(&key) {
                return Poll::Ready(Some(object));
            }
        }
        if pending.ended {
            return Poll::Ready(None);
        }
        pending.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<K: Lookup> fmt::Debug for Applied<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = lock(&self.0).objects.len();
        f.debug_struct("Applied")
            .field("pending", &pending)
            .finish_non_exhaustive()
    }
}
