//! Errors of settings.

use core::error::Error;
use core::fmt;

/// The reason why a transport cannot be built, in one line with advice. It contains no secrets.
///
/// # Examples
/// ```
/// let error = informer_hyper::HyperTransport::builder("http://host:99999").build().unwrap_err();
/// assert_eq!(error.to_string(), "server URL \"http://host:99999\": its port is not a number from 1 to 65535");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError(pub(crate) String);

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BuildError {}

informer_core::readable_errors!(BuildError);
