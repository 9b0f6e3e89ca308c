//! Whether a cache shows a write.

use std::sync::Arc;

use informer_core::json::{as_str, value_at};
use informer_core::object::ExpectedState;
use informer_core::selector::{FieldSelector, LabelSelector, Labels};
use informer_core::{Resource, resource::ShardBy};

use super::entry::Key;
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
pub(crate) struct Expected {
    pub(crate) state: ExpectedState<Key>,
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
pub(crate) enum Awaits {
    /// It is of another resource or namespace.
    Nothing,
    /// The object is not selected. The cache may hold its earlier state.
    Leaving {
        is_held: bool,
    },
    Selected,
}

impl From<ExpectedState<Key>> for Expected {
    fn from(state: ExpectedState<Key>) -> Self {
        Self {
            state,
            leaves: None,
        }
    }
}

impl<V> Inner<V> {
    /// Returns whether the cache shows a write now.
    pub(crate) fn is_shown(&self, key: &str, expected: &Expected) -> bool {
        // The sink sends versions while it holds the cache, so only one of them is borrowed at a time.
        let reached = self.reached.borrow().clone();
        let counts = self.each_source(|_, source| source.has(key));
        let is_vacant = self.each_source(|_, source| source.is_vacant);
        if is_vacant.contains(&true) && !counts.contains(&true) {
            // The namespace or the cluster has left, so the write never arrives.
            return true;
        }
        let cache = self.cache();
        let object = cache.get(key);
        let shows = |state: &ExpectedState<Key>| {
            let reached = reached.iter().zip(&counts);
            let reached = reached.filter(|(_, counts)| **counts);
            state.is_shown(
                reached.map(|(reached, _)| reached),
                object.map(|object| (object.uid(), object.version())),
            )
        };
        let has_left = expected
            .leaves
            .as_ref()
            .is_some_and(|leaves| object.is_none() && leaves.after.as_ref().is_none_or(shows));
        has_left || shows(&expected.state)
    }

    /// Waits until the cache shows a write.
    pub(crate) async fn wait_for_write(&self, key: &str, expected: &Expected) -> Result<(), Ended> {
        let mut reached = self.reached.subscribe();
        let mut status = self.status.subscribe();
        loop {
            reached.mark_unchanged();
            if self.is_shown(key, expected) {
                return Ok(());
            }
            tokio::select! {
                biased;
                changed = reached.changed() => changed.map_err(|_| Ended)?,
                _ = status.wait_for(|status| status.closed) => return Err(Ended),
            }
        }
    }

    /// Returns whether the server sends a write to this cache.
    pub(crate) fn awaits(&self, write: &Written<'_>) -> Awaits {
        let own = self.resource.as_ref();
        // The same object can be written in every version of its group.
        if (own.group, own.plural) != (write.resource.group, write.resource.plural) {
            return Awaits::Nothing;
        }
        let sources = self.each_source(|_, source| {
            let resource = source.resource.as_ref();
            source
                .has(write.key)
                .then(|| write.object.is_none_or(|object| selects(&resource, object)))
        });
        if sources.contains(&Some(true)) {
            return Awaits::Selected;
        }
        if sources.contains(&Some(false)) {
            let is_held = self.cache().get(write.key).is_some();
            return Awaits::Leaving { is_held };
        }
        Awaits::Nothing
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
pub(crate) trait Shows: Send + Sync {
    fn name(&self) -> &str;
    fn is_over(&self) -> bool;
    fn awaits(&self, write: &Written<'_>) -> Awaits;
    /// Returns the uid of a cached object.
    fn uid(&self, key: &str) -> Option<String>;
    fn is_shown(&self, key: &str, expected: &Expected) -> bool;
    fn wait(
        self: Arc<Self>,
        key: Key,
        expected: Expected,
    ) -> futures_util::future::BoxFuture<'static, Result<(), Ended>>;
}

impl<V: Send + Sync + 'static> Shows for Inner<V> {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_over(&self) -> bool {
        self.status.borrow().closed
    }

    fn awaits(&self, write: &Written<'_>) -> Awaits {
        self.awaits(write)
    }

    fn uid(&self, key: &str) -> Option<String> {
        let uid = self.cache().get(key)?.uid().to_string();
        (!uid.is_empty()).then_some(uid)
    }

    fn is_shown(&self, key: &str, expected: &Expected) -> bool {
        self.is_shown(key, expected)
    }

    fn wait(
        self: Arc<Self>,
        key: Key,
        expected: Expected,
    ) -> futures_util::future::BoxFuture<'static, Result<(), Ended>> {
        Box::pin(async move { self.wait_for_write(key.as_str(), &expected).await })
    }
}
