//! What is asked of a factory.

use core::any::TypeId;
use core::fmt;
use std::sync::Arc;

use informer_core::{Decode, OwnedResource};

use super::{Factory, InUse, Slot, SlotKey};
use crate::factory::transport::BoxTransport;
use crate::informer::Informer;
use crate::informer::builder::Builder;

/// Asks a [`Factory`] for an informer of a resource: in which namespaces, and with which selectors.
///
/// ```
/// # fn example(factory: informer_tokio::Factory) -> Result<(), informer_core::ResourceError> {
/// let mine = factory.raw("pods")?.fields("spec.nodeName=node-1").get();
/// # Ok(())
/// # }
/// ```
#[must_use = "`get` gives the informer"]
pub struct Request<'a, D> {
    factory: &'a Factory,
    resource: OwnedResource,
    namespaces: Vec<String>,
    decode: D,
}

impl<'a, D: Decode> Request<'a, D> {
    pub(super) const fn new(factory: &'a Factory, resource: OwnedResource, decode: D) -> Self {
        Self {
            factory,
            resource,
            namespaces: Vec::new(),
            decode,
        }
    }

    /// Limits it to a namespace. Left out, or empty, it is all of them.
    ///
    /// ```
    /// # fn example(factory: informer_tokio::Factory) -> Result<(), informer_core::ResourceError> {
    /// let pods = factory.raw("pods")?.namespace("prod").get();
    /// # Ok(())
    /// # }
    /// ```
    pub fn namespace(self, namespace: &str) -> Self {
        self.namespaces([namespace])
    }

    /// Limits it to several namespaces: one cache, with a list and a watch for each of them.
    ///
    /// # Panics
    /// Where the list is empty.
    ///
    /// ```
    /// # fn example(factory: informer_tokio::Factory) -> Result<(), informer_core::ResourceError> {
    /// let pods = factory.raw("pods")?.namespaces(["prod", "staging"]).get();
    /// # Ok(())
    /// # }
    /// ```
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        assert!(!self.namespaces.is_empty(), "name at least one namespace");
        self.namespaces.sort();
        self.namespaces.dedup();
        if self.namespaces.first().is_some_and(String::is_empty) {
            self.namespaces.clear();
        }
        self
    }

    /// Limits it to objects with these labels; the server selects.
    ///
    /// ```
    /// # fn example(factory: informer_tokio::Factory) -> Result<(), informer_core::ResourceError> {
    /// let pods = factory.raw("pods")?.labels("app=web").get();
    /// # Ok(())
    /// # }
    /// ```
    pub fn labels(mut self, selector: &str) -> Self {
        self.resource = self.resource.as_ref().labels(selector).into();
        self
    }

    /// Limits it to objects with these fields; the server selects.
    ///
    /// ```
    /// # fn example(factory: informer_tokio::Factory) -> Result<(), informer_core::ResourceError> {
    /// let pods = factory.raw("pods")?.fields("spec.nodeName=node-1").get();
    /// # Ok(())
    /// # }
    /// ```
    pub fn fields(mut self, selector: impl AsRef<str>) -> Self {
        self.resource = self.resource.as_ref().fields(selector.as_ref()).into();
        self
    }

    /// Returns the informer, which is built where nobody uses it yet or where it has ended.
    ///
    /// It runs while anything uses it: see [`Informer`]. A factory that was stopped gives one that has ended.
    ///
    /// ```
    /// # fn example(factory: informer_tokio::Factory) -> Result<(), informer_core::ResourceError> {
    /// let pods = factory.raw("pods")?.get();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the watch ends with the last user"]
    pub fn get(self) -> Informer<D::Value>
    where
        D: Send + Sync + 'static,
        D::Value: Send + Sync + 'static,
    {
        let key = SlotKey {
            decoder: TypeId::of::<D>(),
            fingerprint: self.decode.fingerprint(),
            resource: self.resource.clone(),
            namespaces: self.namespaces.clone(),
        };
        let inner = &self.factory.inner;
        let mut replaced = None;
        let mut table = inner.table();
        if let Some(slot) = table.slots.get(&key)
            && let Some(in_use) = slot.in_use.upgrade()
            && let Some(informer) = slot.informer.as_any().downcast_ref::<Informer<D::Value>>()
        {
            if !informer.is_over() || inner.status().stopping {
                return informer.clone().counted(in_use);
            }
            replaced = Some(in_use);
        }
        let factory = self.factory;
        let (informer, driver) = self.builder().build();
        let number = table.next;
        table.next += 1;
        let stop = {
            let informer = informer.clone();
            Box::new(move || informer.stop())
        };
        let in_use = Arc::new(InUse {
            factory: Arc::downgrade(inner),
            key: key.clone(),
            number,
            stop,
        });
        let slot = Slot {
            number,
            informer: Box::new(informer.clone()),
            in_use: Arc::downgrade(&in_use),
        };
        table.slots.insert(key, slot);
        if inner.status().stopping {
            informer.stop();
        }
        drop(table);
        // It may be the last user, which takes the table's lock to remove the slot.
        drop(replaced);
        // Where the factory's driver has ended this ends the informer's.
        let _ = factory.jobs.send(Box::pin(driver.run()));
        informer.counted(in_use)
    }

    /// A builder with what was asked for, and what the factory gives to all.
    fn builder(self) -> Builder<BoxTransport, D> {
        let inner = &self.factory.inner;
        let settings = inner.settings.clone();
        let name = name(&self.resource, &self.namespaces);
        let mut builder = Informer::builder(inner.transport(), self.resource.as_ref(), self.decode)
            .name(name.clone());
        if !self.namespaces.is_empty() {
            builder = builder.namespaces(self.namespaces);
        }
        if let Some(period) = settings.resync {
            builder = builder.resync(period);
        }
        if let Some(initial) = settings.initial {
            builder = builder.initial(initial);
        }
        if let Some(size) = settings.page_size {
            builder = builder.page_size(size);
        }
        if let Some(bytes) = settings.frame_limit {
            builder = builder.frame_limit(bytes);
        }
        if let Some(backoff) = settings.backoff {
            builder = builder.backoff(backoff);
        }
        if let Some(time) = settings.drain {
            builder = builder.drain(time);
        }
        if settings.client_go {
            builder = builder.client_go();
        }
        if let Some(hear) = settings.on_report {
            builder = builder.on_report(move |report| hear(&name, report));
        }
        builder
    }
}

impl<D> fmt::Debug for Request<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("name", &name(&self.resource, &self.namespaces))
            .finish_non_exhaustive()
    }
}

/// Names an informer by all that tells it apart from others of its form.
fn name(resource: &OwnedResource, namespaces: &[String]) -> String {
    let mut name = resource.to_string();
    let resource = resource.as_ref();
    let mut add = |word: &str, text: &str| {
        if !text.is_empty() {
            name.push_str(word);
            name.push_str(text);
        }
    };
    add(" in ", &namespaces.join(","));
    add(" with labels ", resource.label_selector.unwrap_or_default());
    add(" with fields ", resource.field_selector.unwrap_or_default());
    name
}
