//! Shards of a resource, for replicas that share the work.

use core::fmt::{self, Write as _};

use crate::decode::RawObject;
use crate::hash::Fnv;
use crate::json::JsonStr;

/// A part of a resource's objects: those whose hash is in a range (KEP-5866, sharded list and watch).
///
/// The hash is the 64-bit FNV-1a of the uid or the namespace, as the API server computes it. A server that supports
/// `shardSelector` sends only this part. Any other server sends all objects, and the rest is dropped before decoding.
///
/// ```
/// use informer_core::{Resource, resource::{Shard, ShardBy}};
///
/// let [first, second] = [0, 1].map(|index| Shard::of(ShardBy::Uid, index, 2).expect("0 and 1 are below 2"));
/// assert_eq!(
///     first.to_string(),
///     "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')"
/// );
/// let uid = "2f6d3f2e-6f0b-4a53-9f8c-1f3f5f7a9b1d";
/// assert_ne!(first.has(uid), second.has(uid));
///
/// let pods = Resource::new("", "v1", "pods").shard(second);
/// assert_eq!(pods.shard, Some(second));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Shard {
    by: ShardBy,
    first: u64,
    last: u64,
}

/// The field that a [`Shard`] hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum ShardBy {
    /// `metadata.uid`: objects are distributed evenly.
    #[default]
    Uid,
    /// `metadata.namespace`: the objects of a namespace stay together.
    Namespace,
}

impl Shard {
    /// Returns the shard of the hashes from `first` to `last`, both included; `None` if the range is empty.
    #[must_use]
    pub const fn new(by: ShardBy, first: u64, last: u64) -> Option<Self> {
        if first > last {
            return None;
        }
        Some(Self { by, first, last })
    }

    /// Returns one of `count` shards of nearly equal size, counted from 0; `None` if `index` is not below `count`.
    ///
    /// The `count` shards are disjoint and together contain every object.
    ///
    /// ```
    /// use informer_core::resource::{Shard, ShardBy};
    ///
    /// let parts: Vec<Shard> = (0..3).filter_map(|index| Shard::of(ShardBy::Uid, index, 3)).collect();
    /// assert_eq!(parts.iter().filter(|part| part.has("any")).count(), 1);
    /// assert_eq!(Shard::of(ShardBy::Uid, 3, 3), None);
    /// ```
    #[must_use]
    pub const fn of(by: ShardBy, index: u32, count: u32) -> Option<Self> {
        if index >= count {
            return None;
        }
        Some(Self {
            by,
            first: start(index as u64, count as u64),
            last: start(index as u64 + 1, count as u64).wrapping_sub(1),
        })
    }

    /// Returns the field that is hashed.
    #[must_use]
    pub const fn by(&self) -> ShardBy {
        self.by
    }

    /// Returns whether an object with this uid, or in this namespace, is in the shard.
    #[must_use]
    pub fn has(&self, value: &str) -> bool {
        self.holds(Fnv::of(|hash| hash.write_str(value)))
    }

    pub(crate) fn has_object(&self, object: RawObject<'_>) -> bool {
        let value: JsonStr<'_> = match self.by {
            ShardBy::Uid => object.uid(),
            ShardBy::Namespace => object.namespace(),
        };
        self.holds(Fnv::of(|hash| value.write_to(hash)))
    }

    const fn holds(&self, hash: u64) -> bool {
        self.first <= hash && hash <= self.last
    }
}

/// Writes the shard in the form of the API server's `shardSelector`.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = match self.by {
            ShardBy::Uid => "uid",
            ShardBy::Namespace => "namespace",
        };
        // The end is exclusive in this form.
        let end = u128::from(self.last) + 1;
        write!(
            f,
            "shardRange(object.metadata.{field},'0x{:016x}','0x{end:016x}')",
            self.first
        )
    }
}

/// Returns the first hash of a shard: `index / count` of all hashes.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the start after the last shard wraps to 0 on purpose"
)]
const fn start(index: u64, count: u64) -> u64 {
    (((index as u128) << 64) / count as u128) as u64
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_server() {
        // The test vectors of FNV-1a.
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            let only = Shard::new(ShardBy::Uid, hash, hash);
            assert!(only.is_some_and(|only| only.has(text)), "{text}");
        }
    }

    #[test]
    fn parts_are_disjoint_and_complete() {
        for count in [1, 2, 3, 7, 64, 1000, u32::MAX] {
            let ends = [0, 1, count / 2, count.saturating_sub(2), count - 1];
            for index in ends.into_iter().filter(|index| *index < count) {
                let part =
                    Shard::of(ShardBy::Uid, index, count).map(|part| (part.first, part.last));
                let next = Shard::of(ShardBy::Uid, index.saturating_add(1), count);
                let (first, last) = part.unwrap_or_default();
                assert!(first <= last);
                match next {
                    Some(next) => assert_eq!(next.first, last + 1),
                    None => assert_eq!(last, u64::MAX),
                }
                assert_eq!(index == 0, first == 0);
            }
        }
        assert_eq!(Shard::of(ShardBy::Uid, 0, 0), None);
        let parts: Vec<_> = (0..5)
            .filter_map(|i| Shard::of(ShardBy::Namespace, i, 5))
            .collect();
        for number in 0..1000 {
            let name = format!("namespace-{number}");
            let of: Vec<usize> = (0..5).filter(|i| parts[*i].has(&name)).collect();
            assert_eq!(of.len(), 1);
        }
    }

    #[test]
    fn it_is_written_as_the_server_reads_it() {
        let part =
            |index, count| Shard::of(ShardBy::Namespace, index, count).map(|p| p.to_string());
        assert_eq!(
            part(1, 2).as_deref(),
            Some(
                "shardRange(object.metadata.namespace,'0x8000000000000000','0x10000000000000000')"
            )
        );
        assert_eq!(
            part(1, 3).as_deref(),
            Some("shardRange(object.metadata.namespace,'0x5555555555555555','0xaaaaaaaaaaaaaaaa')")
        );
    }
}
