//! Whether a cache shows a write.

use std::sync::Arc;

use informer_core::cache::SourceId;
use informer_core::json::{as_str, value_at};
use informer_core::object::ExpectedState;
use informer_core::selector::{FieldSelector, LabelSelector, Labels};
use informer_core::{Resource, ResourceVersion, resource::ShardBy};

use super::entry::Key;
use super::moves::Reached;
use super::shared::Inner;
use crate::health::error::Ended;

/// A write to an object, as the answer of the API server describes it.
pub(crate) struct Written<'a> {
    pub(crate) resource: Resource<'a>,
    pub(crate) key: &'a str,
    /// The JSON of the object, if it is known.
    pub(crate) object: Option<&'a [u8]>,
}

/// The state that a cache has to show.
#[derive(Clone)]
pub(crate) struct AwaitedState {
    pub(crate) state: ExpectedState<Key>,
    /// The join of the cluster that has to show it. One that joins again under the same name may be another, with versions
    /// of its own.
    pub(crate) join: Option<u64>,
    /// Set if the write removes the object from what the informer selects. Then its absence counts as well, since the
    /// server does not send the write to a cache that has lost the object before.
    pub(crate) leaves: Option<Leaves>,
}

/// The write before one that removes an object from the selection. Until it is shown, the absence means nothing.
#[derive(Clone)]
pub(crate) struct Leaves {
    pub(crate) after: Option<ExpectedState<Key>>,
}

/// Whether a cache awaits a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// It is of another resource or namespace.
    Nothing,
    /// The object is not selected. The cache may hold its earlier state.
    Leaving {
        is_held: bool,
    },
    Selected,
}

impl<V> Inner<V> {
    /// Returns what a write of an object leads to in this cache.
    pub(crate) fn expected(&self, key: &str, state: ExpectedState<Key>) -> AwaitedState {
        AwaitedState {
            state,
            join: self.join_of(key),
            leaves: None,
        }
    }

    /// Returns whether the cache shows a write now.
    pub(crate) fn is_shown(&self, key: &str, expected: &AwaitedState) -> bool {
        // The sink sends versions while it holds the cache, so only one of them is borrowed at a time.
        let reached = self.reached.borrow().clone();
        let own = self.each_source(|id, source| source.has(key).then_some(id));
        if self.has_left(key, expected) {
            return true;
        }
        let cache = self.cache();
        let object = cache.get(key);
        let shows = |state: &ExpectedState<Key>| {
            let own = own.iter().flatten();
            state.is_shown(
                own.filter_map(|id| reached.get(id)),
                object.map(|object| (object.uid(), object.version())),
            )
        };
        let has_left = expected
            .leaves
            .as_ref()
            .is_some_and(|leaves| object.is_none() && leaves.after.as_ref().is_none_or(shows));
        has_left || shows(&expected.state)
    }

    /// Returns whether the cache shows what came of a write: the object was changed or deleted since. Of what happened before
    /// the cache showed the write, no handler was notified.
    pub(crate) fn is_superseded(&self, key: &str, expected: &AwaitedState) -> bool {
        // The absence of an object that is not selected is what the write led to.
        if expected.leaves.is_some()
            || self.has_left(key, expected)
            || !self.is_shown(key, expected)
        {
            return false;
        }
        let cache = self.cache();
        let version = cache.get(key).map(|object| object.version());
        expected.state.is_superseded(version)
    }

    /// Returns whether the namespace or the cluster of a write has left, so that the write never arrives.
    fn has_left(&self, key: &str, expected: &AwaitedState) -> bool {
        let join = self.join_of(key);
        match expected.join {
            Some(_) if join.is_some() => join != expected.join,
            _ => {
                let has = self.each_source(|_, source| source.has(key));
                self.joins() && !has.contains(&true)
            }
        }
    }

    /// Returns the number of the join of the cluster of a key.
    fn join_of(&self, key: &str) -> Option<u64> {
        let joins = self.each_source(|_, source| source.has(key).then_some(source.join));
        joins.into_iter().flatten().next()
    }

    /// Returns whether no source of a key has sent a list, and none will soon. Then a write need not be awaited: it would
    /// hold a key although the cache shows no state from before it either.
    pub(crate) fn has_no_list(&self, key: &str) -> bool {
        let sources = self.each_source(|_, source| source.has(key).then(|| source.has_no_list()));
        !sources.contains(&Some(false))
    }

    /// Waits until the cache shows a write.
    pub(crate) async fn wait_for_write(
        &self,
        key: &str,
        expected: &AwaitedState,
    ) -> Result<(), Ended> {
        self.wait_while(key, || !self.is_shown(key, expected)).await
    }

    /// Waits until the cache shows a write, as long as a source of it [is usable](Self::has_no_list). Returns whether the
    /// write [is superseded](Self::is_superseded).
    pub(crate) async fn await_write(
        &self,
        key: &str,
        expected: &AwaitedState,
    ) -> Result<bool, Ended> {
        self.wait_while(key, || {
            !self.is_shown(key, expected) && !self.has_no_list(key)
        })
        .await?;
        Ok(self.is_superseded(key, expected))
    }

    /// Waits as long as something is missing. It looks again when a source of the key has reached another version, or when
    /// the state of any source has changed, so that the events of other clusters cost little.
    async fn wait_while(&self, key: &str, is_missing: impl Fn() -> bool) -> Result<(), Ended> {
        let mut status = self.status.subscribe();
        loop {
            status.mark_unchanged();
            let own = self.each_source(|id, source| source.has(key).then_some(id));
            let own: Vec<SourceId> = own.into_iter().flatten().collect();
            let versions = |reached: &Reached| -> Vec<Option<ResourceVersion<Key>>> {
                own.iter().map(|id| reached.get(id).cloned()).collect()
            };
            let before = versions(&self.reached.borrow());
            if !is_missing() {
                return Ok(());
            }
            if status.borrow().closed {
                return Err(Ended);
            }
            tokio::select! {
                biased;
                () = self.reached.until(|reached| versions(reached) != before) => {}
                changed = status.changed() => changed.map_err(|_| Ended)?,
            }
        }
    }

    /// Returns whether the server sends a write to this cache.
    pub(crate) fn awaits(&self, write: &Written<'_>) -> Awaited {
        let own = self.resource.as_ref();
        // The same object can be written in every version of its group.
        if (own.group, own.plural) != (write.resource.group, write.resource.plural) {
            return Awaited::Nothing;
        }
        let sources = self.each_source(|_, source| {
            let resource = source.resource.as_ref();
            source
                .has(write.key)
                .then(|| write.object.is_none_or(|object| selects(&resource, object)))
        });
        if sources.contains(&Some(true)) {
            return Awaited::Selected;
        }
        if sources.contains(&Some(false)) {
            let is_held = self.cache().get(write.key).is_some();
            return Awaited::Leaving { is_held };
        }
        Awaited::Nothing
    }
}

/// Returns whether the selectors and the shard of a resource match an object.
fn selects(resource: &Resource<'_>, object: &[u8]) -> bool {
    let labels = resource.label_selector.map(LabelSelector::parse);
    let fields = resource.field_selector.map(str::parse::<FieldSelector>);
    let is_in_shard = resource.shard.is_none_or(|shard| {
        let name = match shard.by() {
            ShardBy::Namespace => "namespace",
            _ => "uid",
        };
        let value = value_at(object, &["metadata", name]).and_then(as_str);
        value.is_none_or(|value| shard.has(&value.to_string()))
    });
    // The server rejects a selector that cannot be parsed, and the informer reports that.
    is_in_shard
        && labels.is_none_or(|labels| labels.is_ok_and(|labels| labels.matches(&OfJson(object))))
        && fields.is_none_or(|fields| fields.is_ok_and(|fields| fields.matches(object)))
}

/// The labels of an object in JSON.
struct OfJson<'a>(&'a [u8]);

impl Labels for OfJson<'_> {
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
        let value = value_at(self.0, &["metadata", "labels", key]).and_then(as_str);
        f(value.map(|value| value.to_string()).as_deref());
    }
}

/// The cache of an informer of any form.
pub(crate) trait ShowsWrites: Send + Sync {
    fn name(&self) -> &str;
    fn is_over(&self) -> bool;
    fn awaits(&self, write: &Written<'_>) -> Awaited;
    /// Returns the uid of a cached object.
    fn uid(&self, key: &str) -> Option<String>;
    /// Returns what a write of an object leads to in this cache.
    fn expected(&self, key: &str, state: ExpectedState<Key>) -> AwaitedState;
    /// Returns whether writes of a key need not be awaited, since none of its sources sends a list.
    fn has_no_list(&self, key: &str) -> bool;
    fn is_shown(&self, key: &str, expected: &AwaitedState) -> bool;
    fn is_superseded(&self, key: &str, expected: &AwaitedState) -> bool;
    /// Waits until the cache shows a write. Returns whether it is superseded.
    fn wait(
        self: Arc<Self>,
        key: Key,
        expected: AwaitedState,
    ) -> futures_util::future::BoxFuture<'static, Result<bool, Ended>>;
}

impl<V: Send + Sync + 'static> ShowsWrites for Inner<V> {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_over(&self) -> bool {
        self.status.borrow().closed
    }

    fn awaits(&self, write: &Written<'_>) -> Awaited {
        self.awaits(write)
    }

    fn uid(&self, key: &str) -> Option<String> {
        let uid = self.cache().get(key)?.uid().to_string();
        (!uid.is_empty()).then_some(uid)
    }

    fn expected(&self, key: &str, state: ExpectedState<Key>) -> AwaitedState {
        self.expected(key, state)
    }

    fn has_no_list(&self, key: &str) -> bool {
        self.has_no_list(key)
    }

    fn is_shown(&self, key: &str, expected: &AwaitedState) -> bool {
        self.is_shown(key, expected)
    }

    fn is_superseded(&self, key: &str, expected: &AwaitedState) -> bool {
        self.is_superseded(key, expected)
    }

    fn wait(
        self: Arc<Self>,
        key: Key,
        expected: AwaitedState,
    ) -> futures_util::future::BoxFuture<'static, Result<bool, Ended>> {
        Box::pin(async move { self.await_write(key.as_str(), &expected).await })
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use core::task::{Context, Waker};
    use std::pin::pin;

    use informer_core::OwnedResource;
    use informer_core::cache::CacheConfig;

    use super::*;

    #[test]
    fn a_write_is_looked_for_when_its_own_source_moves() {
        let pods = Resource::new("", "v1", "pods");
        let sources = ["a", "b"].map(|namespace| OwnedResource::from(pods.namespace(namespace)));
        let config = CacheConfig::default();
        let pods = OwnedResource::from(pods);
        let inner = Inner::<()>::new(
            "pods".into(),
            Some(sources.into()),
            pods,
            config,
            1,
            None,
            None,
        );
        let ids = inner.each_source(|id, _| id);
        let looks = Cell::new(0);
        let mut wait = pin!(inner.wait_while("a/web", || {
            looks.set(looks.get() + 1);
            true
        }));
        let mut looked_after = |source: Option<usize>| {
            for version in 1..=100_u32 {
                if let Some(source) = source {
                    let version = ResourceVersion::new(&version.to_string());
                    inner.reached.change(|reached| {
                        reached.insert(ids[source], version);
                        true
                    });
                }
                assert!(
                    wait.as_mut()
                        .poll(&mut Context::from_waker(Waker::noop()))
                        .is_pending()
                );
            }
            looks.take()
        };
        assert_eq!(looked_after(None), 1);
        assert_eq!(looked_after(Some(1)), 0, "another namespace");
        assert_eq!(looked_after(Some(0)), 100);
    }
}
