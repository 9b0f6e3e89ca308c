//! Rendezvous hashing.

use crate::hash::Fnv;

/// Returns the member that a key belongs to. `None` if there are no members.
///
/// When a member comes or goes, no more keys move than necessary (rendezvous hashing). Members are identified by their
/// names, and their order does not matter.
///
/// ```
/// use informer_core::election::rendezvous;
///
/// let three = ["a", "b", "c"];
/// let owner = rendezvous("prod/web", three);
/// let without = three.into_iter().filter(|member| Some(*member) != owner);
/// // When this member leaves, the owners of other keys stay the same.
/// for key in ["prod/x", "prod/y", "prod/z"] {
///     let before = rendezvous(key, three);
///     if before != owner {
///         assert_eq!(rendezvous(key, without.clone()), before);
///     }
/// }
/// assert_eq!(rendezvous("prod/web", []), None);
/// ```
pub fn rendezvous<'a>(key: &str, members: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let weight = |member: &str| {
        let mut hash = Fnv::new();
        hash.add(member);
        hash.add("\0");
        hash.add(key);
        mixed(hash.value())
    };
    members
        .into_iter()
        .max_by_key(|member| (weight(member), *member))
}

/// FNV's upper bits differ little if only the end of the input differs. The finalizer of splitmix64 spreads them.
const fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn keys_are_spread_and_few_move() {
        let members = ["web-0", "web-1", "web-2", "web-3"];
        let keys: Vec<_> = (0..2000)
            .map(|number| format!("prod/pod-{number}"))
            .collect();
        let count = |member| {
            keys.iter()
                .filter(|key| rendezvous(key, members) == Some(member))
                .count()
        };
        for member in members {
            assert!(
                (400..600).contains(&count(member)),
                "{member}: {}",
                count(member)
            );
        }
        let moved = keys.iter().filter(|key| {
            rendezvous(key, members) != rendezvous(key, members[..3].iter().copied())
        });
        assert_eq!(moved.count(), count("web-3"), "those of the one that went");
        let mut turned = members;
        turned.reverse();
        assert!(
            keys.iter()
                .all(|key| rendezvous(key, members) == rendezvous(key, turned))
        );
    }
}
