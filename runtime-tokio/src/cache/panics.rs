//! User-defined code, called so that a panic in it ends nothing else.
//!
//! Every place of this crate that runs such code goes through here, or catches the panic itself where it has to know the
//! object: [`Index::values`](crate::cache::index::Index::values), the loops of handlers, the controller's functions.
//! `AssertUnwindSafe` is right in all of them: the informer lends shared references only, so that what a panic leaves half
//! done belongs to the user, who gets the report. With `panic = "abort"` nothing is caught and the process ends.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::task::Poll;
use std::panic::catch_unwind;

/// What a panic carries.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Calls a function; an error is the panic.
pub(crate) fn catch<R>(call: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(call))
}

/// Awaits a future, which is not polled again after a panic; an error is the panic.
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
        .unwrap_or("a value that is no text")
}
