//! Who hears of changes.

use informer_core::{Report, cache::ObjectNotification};

/// Hears what a [`Runner`](crate::Runner) tells: of objects, and of trouble. A closure over [`ObjectNotification`] is one.
///
/// It is called on the runner's task and must not take long; what it is lent is the cache's own, so a [`Lister`] cannot be
/// asked from within it.
///
/// ```
/// use informer_embassy::{Handler, Notification, Report, Storage, ObjectNotification};
///
/// #[derive(Default)]
/// struct Count { objects: u32, problems: u32 }
///
/// impl<V, X> Handler<V, X> for Count {
///     fn notify(&mut self, told: ObjectNotification<'_, V, X>) {
///         self.objects += u32::from(matches!(told, Notification::Added { .. }));
///     }
///     fn report(&mut self, _report: Report<'_>) {
///         self.problems += 1;
///     }
/// }
/// ```
///
/// [`Lister`]: crate::Lister
pub trait Handler<V, X> {
    /// Hears of an object, or that the cache is synced.
    fn notify(&mut self, told: ObjectNotification<'_, V, X>);

    /// Hears of trouble: of a failed request, of an object that does not fit.
    fn report(&mut self, report: Report<'_>) {
        let _ = report;
    }
}

impl<V, X, F: FnMut(ObjectNotification<'_, V, X>)> Handler<V, X> for F {
    fn notify(&mut self, told: ObjectNotification<'_, V, X>) {
        self(told);
    }
}

/// A handler, and one for reports.
impl<V, X, F: FnMut(ObjectNotification<'_, V, X>), G: FnMut(Report<'_>)> Handler<V, X> for (F, G) {
    fn notify(&mut self, told: ObjectNotification<'_, V, X>) {
        self.0(told);
    }

    fn report(&mut self, report: Report<'_>) {
        self.1(report);
    }
}
