//! What an error of h2 is about.

use core::error::Error;
use std::io;

use h2::Reason;

/// Returns the error of I/O that is the cause.
pub(crate) fn io_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    error.downcast_ref::<h2::Error>()?.get_io()
}

/// Returns whether the server has sent the error.
pub(crate) fn is_remote(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<h2::Error>();
    error.is_some_and(h2::Error::is_remote)
}

/// Returns whether the head of a response may be over the limit. h2 has one error for such heads and invalid ones.
pub(crate) fn may_be_of_head(error: &(dyn Error + 'static)) -> bool {
    let Some(error) = error.downcast_ref::<h2::Error>() else {
        return false;
    };
    let is_of_head = match error.reason() {
        Some(Reason::PROTOCOL_ERROR) => error.is_reset(),
        Some(Reason::ENHANCE_YOUR_CALM | Reason::COMPRESSION_ERROR) => error.is_go_away(),
        _ => false,
    };
    error.is_library() && is_of_head
}
