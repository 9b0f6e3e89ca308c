//! The option of a controller that spares it the runs that its own writes cause.

use std::sync::Arc;

use informer_core::Form;

use super::builder::Controller;
use super::own::Skip;
#[cfg(doc)]
use super::writes::WriteLog;
use crate::health::unheard;

impl<F: Form<Stored: Send + Sync + 'static>> Controller<F> {
    /// Skips changes that are nothing but the controller's own writes to these subresources, usually `["status"]`. Without
    /// it, each write of a run causes another run of its key.
    ///
    /// A run that relies on the one after its own write, such as one that writes one field at a time, requests it by
    /// [`Next::again`](super::Next::again). Writes of the object itself always cause a run, such as that which adds a
    /// finalizer.
    ///
    /// The writes must be known with their requests, from the client of `informer_kube::Informers`, from `RecordWrites` or
    /// by [`WriteLog::record_subresource`]. A change is skipped only if all of this is known:
    ///
    /// - It came by one event of a watch, whose version is that in the answer to a write. Changes that come by a list, or that
    ///   a slow handler gets merged, cause a run.
    /// - The write has led to it: the request has the resourceVersion of the state before, or it has the whole status that
    ///   the object has now, and nothing else has changed.
    /// - The run of the same key has written it, in its own task.
    ///
    /// A change that comes during a run waits for its end, in case that the answer is late. The informer keeps a hash beside
    /// each object that it decodes from the time on at which the controller is run, which takes some 60 bytes of memory.
    /// An object that was decoded before is compared only if its form has its JSON.
    ///
    /// ```
    /// # fn example(controller: informer_tokio::controller::Controller<informer_tokio::Raw>) {
    /// let controller = controller.skip_own_writes(["status"]);
    /// # }
    /// ```
    pub fn skip_own_writes<S: Into<String>>(
        mut self,
        subresources: impl IntoIterator<Item = S>,
    ) -> Self {
        self.skipped
            .extend(subresources.into_iter().map(Into::into));
        self
    }

    /// Returns what skips own writes, if that is wanted.
    pub(super) fn skip(&self) -> Option<Arc<Skip>> {
        if self.skipped.is_empty() {
            return None;
        }
        if self.writes.is_empty() {
            let line = "no own write is skipped, since no informer has a log of writes";
            tracing::warn!(controller = self.name, "{line}");
            unheard::say(&format_args!("controller {}: {line}", self.name));
        }
        let (subresources, queue) = (self.skipped.clone(), &self.queue);
        let skip = Skip::new(subresources, queue, self.debounce, &self.counts);
        Some(Arc::new(skip))
    }
}
