//! The requests of a reflector.

use core::fmt::{self, Write};
use core::time::Duration;

use crate::decode::Accept;
use crate::resource::Resource;

/// Names one request, so that an answer to one that was abandoned is not taken for another's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId(pub(crate) u32);

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verb {
    /// A list, or a page of one.
    List,
    /// Changes after a version.
    Watch,
    /// The present state as a stream, and the changes after it.
    Stream,
}

impl Verb {
    /// Tells whether the answer stays open.
    #[must_use]
    pub const fn is_watch(self) -> bool {
        matches!(self, Self::Watch | Self::Stream)
    }
}

/// Something whose list and watch a reflector asks for.
pub trait Target {
    /// Returns the resource.
    fn resource(&self) -> Resource<'_>;
}

impl Target for Resource<'_> {
    fn resource(&self) -> Resource<'_> {
        *self
    }
}

#[cfg(feature = "alloc")]
impl Target for crate::resource::OwnedResource {
    fn resource(&self) -> Resource<'_> {
        self.as_ref()
    }
}

/// A request to be sent.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub(super) id: RequestId,
    pub(super) verb: Verb,
    pub(super) resource: Resource<'a>,
    /// `None` leaves the parameter out.
    pub(super) version: Option<&'a dyn fmt::Display>,
    pub(super) limit: u32,
    pub(super) token: &'a [u8],
    pub(super) timeout: Duration,
    pub(super) accept: Accept,
}

impl Request<'_> {
    /// Returns the name to be given back with the answer.
    #[must_use]
    pub const fn id(&self) -> RequestId {
        self.id
    }

    /// Returns what it asks for.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        self.verb
    }

    /// Returns the `Accept` header.
    #[must_use]
    pub const fn accept(&self) -> &'static str {
        if self.verb.is_watch() {
            self.accept.watch
        } else {
            self.accept.list
        }
    }

    /// Writes path and query, percent-encoded.
    ///
    /// # Errors
    /// Fails where `out` does.
    pub fn write_target(&self, out: &mut dyn Write) -> fmt::Result {
        write!(out, "{}", self.resource.path())?;
        let mut query = self.resource.query(out)?;
        let timeout = self.timeout.as_secs();
        match self.verb {
            Verb::List => {
                if self.limit > 0 {
                    query.pair("limit", self.limit)?;
                }
                if !self.token.is_empty() {
                    query.pair(
                        "continue",
                        core::str::from_utf8(self.token).map_err(|_| fmt::Error)?,
                    )?;
                } else if let Some(version) = self.version {
                    query.pair("resourceVersion", version)?;
                }
            }
            Verb::Watch | Verb::Stream => {
                query
                    .pair("watch", "true")?
                    .pair("allowWatchBookmarks", "true")?;
                if let Some(version) = self.version {
                    query.pair("resourceVersion", version)?;
                }
                if self.verb == Verb::Stream {
                    query
                        .pair("resourceVersionMatch", "NotOlderThan")?
                        .pair("sendInitialEvents", "true")?;
                }
                query.pair("timeoutSeconds", timeout)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ", self.verb)?;
        self.write_target(f)
    }
}
