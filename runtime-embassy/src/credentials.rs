//! Bearer tokens of requests.

use core::fmt::{self, Write};

/// Provides the bearer token of each request.
///
/// It is called for every request, so that a renewed token is used: a projected service account token expires after
/// about an hour. A `&str` is a constant token, and an empty one means no token.
///
/// ```
/// use core::cell::RefCell;
/// use core::fmt::{self, Write};
/// use informer_embassy::Credentials;
///
/// /// Another task stores a new token here before the old one expires.
/// struct Renewed<'a>(&'a RefCell<String>);
///
/// impl Credentials for Renewed<'_> {
///     fn write_token(&mut self, out: &mut dyn Write) -> fmt::Result {
///         out.write_str(&self.0.borrow())
///     }
/// }
/// ```
pub trait Credentials {
    /// Writes the token, without the word `Bearer`. Writing nothing sends the request without a token.
    ///
    /// # Errors
    /// Fails if `out` does, or if there is no token. The request then fails as well.
    fn write_token(&mut self, out: &mut dyn Write) -> fmt::Result;
}

impl Credentials for &str {
    fn write_token(&mut self, out: &mut dyn Write) -> fmt::Result {
        out.write_str(self)
    }
}

/// Sends requests without a token, to a server behind a proxy or one that identifies the client by its certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Anonymous;

impl Credentials for Anonymous {
    fn write_token(&mut self, _out: &mut dyn Write) -> fmt::Result {
        Ok(())
    }
}
