//! Whose cache it is.

use core::fmt::{self, Write};

use crate::report::Mismatch;
use crate::resource::{Fnv, Resource};

/// Whose cache a journal keeps, as hashes: one of another cluster, resource, selector or decoder is refused.
///
/// ```
/// use informer_core::{Decode, Raw, Resource, journal::{Identity, Mismatch}};
///
/// let pods = Resource::new("", "v1", "pods");
/// let ours = Identity::new("edge-7", &pods, Raw.fingerprint());
/// let other = Identity::new("edge-7", &pods.labels("app=web"), Raw.fingerprint());
/// assert_eq!(ours.mismatch(&other), Some(Mismatch::Selectors));
/// assert_eq!(ours.mismatch(&ours), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    cluster: u64,
    resource: u64,
    selectors: u64,
    decoder: u64,
}

impl Identity {
    /// Names the cache of a resource in a cluster, by what the user calls the cluster (the uid of its namespace
    /// `kube-system` is best, since it changes where a cluster is made anew under the same name), and by the decoder's
    /// [`fingerprint`](crate::Decode::fingerprint).
    #[must_use]
    pub fn new(cluster: &str, resource: &Resource<'_>, decoder: u64) -> Self {
        Self {
            cluster: hash(format_args!("{cluster}")),
            resource: hash(format_args!("{}", resource.path())),
            selectors: {
                let mut hash = Fnv::new();
                // Writing into it does not fail.
                let _ = resource.query(&mut hash);
                hash.value()
            },
            decoder,
        }
    }

    /// Says in what another one differs from it.
    #[must_use]
    pub const fn mismatch(&self, other: &Self) -> Option<Mismatch> {
        if self.cluster != other.cluster {
            Some(Mismatch::Cluster)
        } else if self.resource != other.resource {
            Some(Mismatch::Resource)
        } else if self.selectors != other.selectors {
            Some(Mismatch::Selectors)
        } else if self.decoder != other.decoder {
            Some(Mismatch::Decoder)
        } else {
            None
        }
    }

    /// Names the resource and its selectors, whatever the cluster and the decoder: for files of one informer that has several
    /// sources.
    #[must_use]
    pub fn source(&self) -> impl fmt::Display + use<> {
        Source(self.resource ^ self.selectors.rotate_left(32))
    }

    pub(super) const fn parts(&self) -> [u64; 4] {
        [self.cluster, self.resource, self.selectors, self.decoder]
    }

    pub(super) const fn from_parts([cluster, resource, selectors, decoder]: [u64; 4]) -> Self {
        Self {
            cluster,
            resource,
            selectors,
            decoder,
        }
    }
}

struct Source(u64);

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

fn hash(text: fmt::Arguments<'_>) -> u64 {
    let mut hash = Fnv::new();
    // Writing into it does not fail.
    let _ = hash.write_fmt(text);
    hash.value()
}
