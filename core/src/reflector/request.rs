//! The requests of a reflector.

use core::fmt::{self, Write};
use core::time::Duration;

use crate::decode::Accept;
use crate::resource::Resource;

/// The id of a request. It distinguishes answers to cancelled requests from those to the current one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId(pub(crate) u32);

/// The purpose of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Purpose {
    /// A list, or a page of a list.
    List,
    /// A watch: the changes after a version.
    Watch,
    /// A streaming list: the current state as events, then the changes after it.
    Stream,
}

impl Purpose {
    /// Returns whether the answer is a stream that stays open.
    #[must_use]
    pub const fn is_watch(self) -> bool {
        matches!(self, Self::Watch | Self::Stream)
    }
}

/// A resource that a reflector can list and watch.
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

/// A request to send.
#[derive(Clone, Copy)]
pub struct ApiRequest<'a> {
    pub(super) id: RequestId,
    pub(super) verb: Purpose,
    pub(super) resource: Resource<'a>,
    /// `None` omits the parameter.
    pub(super) version: Option<&'a dyn fmt::Display>,
    pub(super) limit: u32,
    pub(super) token: &'a [u8],
    pub(super) timeout: Duration,
    pub(super) accept: Accept,
}

impl ApiRequest<'_> {
    /// Returns the id to pass back with the answer.
    #[must_use]
    pub const fn id(&self) -> RequestId {
        self.id
    }

    /// Returns the purpose of the request.
    #[must_use]
    pub const fn purpose(&self) -> Purpose {
        self.verb
    }

    /// Returns the `Accept` header.
    #[must_use]
    pub const fn accept(&self) -> &'static str {
        self.accept.header(self.verb.is_watch())
    }

    /// Writes path and query, percent-encoded.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_target(&self, out: &mut dyn Write) -> fmt::Result {
        write!(out, "{}", self.resource.path())?;
        let mut query = self.resource.query(out)?;
        let timeout = self.timeout.as_secs();
        match self.verb {
            Purpose::List => {
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
            Purpose::Watch | Purpose::Stream => {
                query
                    .pair("watch", "true")?
                    .pair("allowWatchBookmarks", "true")?;
                if let Some(version) = self.version {
                    query.pair("resourceVersion", version)?;
                }
                if self.verb == Purpose::Stream {
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

impl fmt::Debug for ApiRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ", self.verb)?;
        self.write_target(f)
    }
}
