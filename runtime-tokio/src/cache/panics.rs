//! Calls of user-defined code whose panics affect nothing else.
//!
//! All user-defined code of this crate is called through here. Some places catch the panic themselves to know the
//! object: [`Index::values`](crate::cache::index::Index::values), the loops of handlers, and the controller's
//! functions. `AssertUnwindSafe` is sound in all of them: user code gets shared references only, so a panic can leave
//! only the user's own state inconsistent, and the user gets the report. With `panic = "abort"` nothing is caught, and
//! the process ends.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::task::Poll;
use std::panic::catch_unwind;

/// The payload of a panic.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Calls a function. The error is the panic.
pub(crate) fn catch<R>(call: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(call))
}

/// Awaits a future. The error is the panic, after which the future is not polled again.
pub(crate) async fn catch_async<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    core::future::poll_fn(|cx| match catch(|| future.as_mut().poll(cx)) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Returns the message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a payload that is not text")
}
