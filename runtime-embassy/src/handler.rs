//! Handlers for changes and reports.

use informer_core::{Report, cache::ObjectNotification};

/// Receives the events and reports of a [`Runner`](crate::Runner). A closure over [`ObjectNotification`] is a handler.
///
/// It is called on the runner's task and must return quickly. The cache is borrowed during the call, so every method of
/// a [`Lister`] that reads it fails.
///
/// ```
/// use informer_embassy::{Handler, Notification, Report, Storage, ObjectNotification};
///
/// #[derive(Default)]
/// struct Count { objects: u32, problems: u32 }
///
/// impl<V, X> Handler<V, X> for Count {
///     fn notify(&mut self, notification: ObjectNotification<'_, V, X>) {
///         self.objects += u32::from(matches!(notification, Notification::Added { .. }));
///     }
///     fn report(&mut self, _report: Report<'_>) {
///         self.problems += 1;
///     }
/// }
/// ```
///
/// [`Lister`]: crate::Lister
pub trait Handler<V, X> {
    /// Handles a change of an object, or that the cache is synced.
    fn notify(&mut self, notification: ObjectNotification<'_, V, X>);

    /// Handles a report, such as a failed request or an object that does not fit into the cache.
    fn report(&mut self, report: Report<'_>) {
        let _ = report;
    }
}

impl<V, X, F: FnMut(ObjectNotification<'_, V, X>)> Handler<V, X> for F {
    fn notify(&mut self, notification: ObjectNotification<'_, V, X>) {
        self(notification);
    }
}

/// A closure for events, and one for reports.
impl<V, X, F: FnMut(ObjectNotification<'_, V, X>), G: FnMut(Report<'_>)> Handler<V, X> for (F, G) {
    fn notify(&mut self, notification: ObjectNotification<'_, V, X>) {
        self.0(notification);
    }

    fn report(&mut self, report: Report<'_>) {
        self.1(report);
    }
}
