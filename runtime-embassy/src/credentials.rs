//! Who asks.

use core::fmt::{self, Write};

/// Gives the bearer token of each request.
///
/// It is asked for every request, so that a token that was renewed meanwhile is used; a projected token of a service
/// account expires after an hour or so. A text is a token that stays the same, and an empty one none at all.
///
/// ```
/// use core::cell::RefCell;
/// use core::fmt::{self, Write};
/// use informer_embassy::Credentials;
///
/// /// Another task puts a new token here in time.
/// struct Renewed<'a>(&'a RefCell<String>);
///
/// impl Credentials for Renewed<'_> {
///     fn write_token(&mut self, out: &mut dyn Write) -> fmt::Result {
///         out.write_str(&self.0.borrow())
///     }
/// }
/// ```
pub trait Credentials {
    /// Writes the token, without the word `Bearer`; nothing where the request is to have none.
    ///
    /// # Errors
    /// Fails where `out` does, or where there is no token to be had; the request fails with it.
    fn write_token(&mut self, out: &mut dyn Write) -> fmt::Result;
}

impl Credentials for &str {
    fn write_token(&mut self, out: &mut dyn Write) -> fmt::Result {
        out.write_str(self)
    }
}

/// No token: for a server behind a proxy, or one that knows the client by its certificate.
///
/// ```
/// use informer_embassy::{Anonymous, Credentials};
/// let mut token = String::new();
/// assert!(Anonymous.write_token(&mut token).is_ok() && token.is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Anonymous;

impl Credentials for Anonymous {
    fn write_token(&mut self, _out: &mut dyn Write) -> fmt::Result {
        Ok(())
    }
}
