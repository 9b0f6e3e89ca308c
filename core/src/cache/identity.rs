//! The identity of a source, by which a journal recognises its own.

use core::fmt::{self, Write as _};

use crate::hash::Fnv;
use crate::report::Mismatch;
use crate::resource::Resource;

/// The owner of a journal, as hashes. A journal of another cluster, resource, selector or decoder is rejected.
///
/// ```
/// use informer_core::{Decode, Decoder, Raw, Resource, cache::Identity};
///
/// let pods = Resource::new("", "v1", "pods");
/// let ours = Identity::new("edge-7", &pods, Decoder::<Raw>::new().fingerprint());
/// let other = Identity::new("edge-7", &pods.labels("app=web"), Decoder::<Raw>::new().fingerprint());
/// assert_ne!(ours, other);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    cluster: u64,
    resource: u64,
    selectors: u64,
    decoder: u64,
}

impl Identity {
    /// Creates the identity of the cache of a resource in a cluster.
    ///
    /// `cluster` is the user's name of the cluster. The uid of its namespace `kube-system` is best, since it changes if
    /// a cluster is recreated under the same name. `decoder` is the decoder's
    /// [`fingerprint`](crate::Decode::fingerprint).
    #[must_use]
    pub fn new(cluster: &str, resource: &Resource<'_>, decoder: u64) -> Self {
        Self {
            cluster: Fnv::of(|hash| hash.write_str(cluster)),
            resource: Fnv::of(|hash| write!(hash, "{}", resource.path())),
            selectors: Fnv::of(|hash| resource.query(hash).map(drop)),
            decoder,
        }
    }

    /// Returns the first difference to another identity.
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

    /// Returns a name for the resource and its selectors, independent of cluster and decoder. Use it for file names if
    /// one informer has several sources.
    #[must_use]
    pub fn source(&self) -> impl fmt::Display + use<> {
        Hex(self.resource ^ self.selectors.rotate_left(32))
    }

    /// Returns the hashes, for a journal to store.
    #[must_use]
    pub const fn parts(&self) -> [u64; 4] {
        [self.cluster, self.resource, self.selectors, self.decoder]
    }

    /// Creates an identity from its [`parts`](Self::parts).
    #[must_use]
    pub const fn from_parts([cluster, resource, selectors, decoder]: [u64; 4]) -> Self {
        Self {
            cluster,
            resource,
            selectors,
            decoder,
        }
    }
}

struct Hex(u64);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
