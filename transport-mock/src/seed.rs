//! What a server makes up from a seed: uids, and suffixes of names.

use alloc::format;
use alloc::string::String;

use informer_core::time::Rng;

/// Returns a UUID of version 4.
pub(crate) fn uuid(rng: &mut Rng) -> String {
    let (a, b) = (rng.next(), rng.next());
    let (low, mid, high) = (a >> 32, a >> 16 & 0xffff, a & 0xfff | 0x4000);
    format!(
        "{low:08x}-{mid:04x}-{high:04x}-{:04x}-{:012x}",
        b >> 48 & 0x3fff | 0x8000,
        b & 0xffff_ffff_ffff
    )
}

/// Returns a suffix such as the API server appends to `generateName`.
pub(crate) fn suffix(rng: &mut Rng) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    (0..5)
        .map(|_| char::from(LETTERS[rng.below(LETTERS.len() as u64) as usize]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_their_form_and_follow_from_the_seed() {
        let uuid_of = |seed| uuid(&mut Rng::new(seed));
        let uuid = uuid_of(3);
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uuid.as_bytes()[19]));
        assert_eq!(uuid, uuid_of(3));
        assert_ne!(uuid, uuid_of(4));
    }
}
