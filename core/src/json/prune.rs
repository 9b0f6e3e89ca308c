//! Pruning: removing parts of an object.

use alloc::vec::Vec;

use super::JsonStr;
use super::members::Cursor;
use crate::hash::Fnv;

/// The parts of an object to remove: they are skipped while parsing, and never allocated.
///
/// A part is identified by its path. A segment is the name of a member, or a decimal index into an array; `*` matches
/// every element of an array and every member of an object. A decoder with a `Prune` removes the parts from everything
/// it stores: the value of any type, the labels next to it, and the bytes that it writes to a journal.
///
/// In protobuf, `metadata` is pruned by the same paths, except below managedFields. Everywhere else a segment is the number of a
/// field, and a path may lead only through fields that are messages.
///
/// ```
/// use informer_core::json::Prune;
///
/// let prune = Prune::new(&[&["metadata", "managedFields"], &["items", "*", "b"]]);
/// let mut kept = Vec::new();
/// prune.copy(br#"{"metadata":{"managedFields":[1],"name":"a"},"items":[{"a":1,"b":2}]}"#, &mut kept);
/// assert_eq!(kept, br#"{"metadata":{"name":"a"},"items":[{"a":1}]}"#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Prune(&'static [&'static [&'static str]]);

/// Each path has a bit in [`Below`].
const MAX_PATHS: usize = u32::BITS as usize;

/// The parts that may still be removed below a position: one bit for each path that leads through it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Below {
    prune: Prune,
    paths: u32,
    depth: usize,
}

/// The decision for a member.
pub(crate) enum Member {
    Skip,
    Keep(Below),
}

impl Prune {
    /// Removes nothing.
    pub const NOTHING: Self = Self(&[]);

    /// Removes large parts that few programs read: `metadata.managedFields`, and the annotation in which `kubectl
    /// apply` stores the last configuration.
    pub const NOISE: Self = Self(&[
        &["metadata", "managedFields"],
        &[
            "metadata",
            "annotations",
            "kubectl.kubernetes.io/last-applied-configuration",
        ],
    ]);

    /// Creates a `Prune` for these paths.
    ///
    /// # Panics
    /// Panics if there are more than 32 paths, if a path is empty, or if one that begins with the number of a field has a `*`,
    /// which would also lead into texts. In a constant, this is a compile error.
    ///
    /// ```compile_fail
    /// use informer_core::json::Prune;
    ///
    /// // A path that would remove the whole object.
    /// const NOTHING_LEFT: Prune = Prune::new(&[&[]]);
    /// # let _ = NOTHING_LEFT;
    /// ```
    #[must_use]
    pub const fn new(paths: &'static [&'static [&'static str]]) -> Self {
        assert!(paths.len() <= MAX_PATHS, "more than 32 paths to prune");
        let mut rest = paths;
        while let [path, behind @ ..] = rest {
            assert!(
                !path.is_empty(),
                "an empty path would prune the whole object"
            );
            assert!(
                !is_of_numbers(path[0]) || !has_star(path),
                "in protobuf, `*` would also lead into texts: name the numbers of the fields"
            );
            rest = behind;
        }
        Self(paths)
    }

    /// Returns whether nothing is removed.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether `metadata.managedFields` is removed as a whole.
    #[must_use]
    pub fn skips_managed_fields(&self) -> bool {
        let path = |path: &&[&str]| matches!(**path, ["metadata"] | ["metadata", "managedFields"]);
        self.0.iter().any(path)
    }

    /// Appends an object in JSON without the removed parts; the rest from an error on is copied unchanged.
    pub(crate) fn copy_json(self, json: &[u8], out: &mut Vec<u8>) {
        out.reserve(json.len());
        copy(&mut Cursor::new(json), self.begin(), out);
    }

    /// Returns a number that depends on the removed parts.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fnv::zero();
        for path in self.0 {
            for segment in *path {
                hash.add(segment);
                hash.add("\0");
            }
            hash.add("\u{1}");
        }
        hash.value()
    }

    pub(crate) fn begin(self) -> Below {
        // `new` accepts no more paths than there are bits.
        let paths = (0..self.0.len()).fold(0, |paths, number| paths | 1 << number);
        self.below(paths, 0)
    }

    /// Returns the position through which these paths lead, at this depth.
    pub(crate) const fn below(self, paths: u32, depth: usize) -> Below {
        Below {
            prune: self,
            paths,
            depth,
        }
    }

    /// Returns the rest of `value`, which is at `path` in an object; `None` if it is removed.
    pub(crate) fn part(self, path: &[&str], value: &[u8]) -> Option<Vec<u8>> {
        let mut below = self.begin();
        for name in path {
            match below.member(JsonStr::new(name.as_bytes())) {
                Member::Skip => return None,
                Member::Keep(deeper) => below = deeper,
            }
        }
        Some(below.copy(value))
    }
}

/// Returns whether a path with this first segment is one of the field numbers of protobuf.
const fn is_of_numbers(first: &str) -> bool {
    matches!(first.as_bytes(), [b'0'..=b'9', ..])
}

const fn has_star(mut path: &[&str]) -> bool {
    while let [segment, rest @ ..] = path {
        if matches!(segment.as_bytes(), b"*") {
            return true;
        }
        path = rest;
    }
    false
}

impl Below {
    pub(crate) const fn is_nothing(self) -> bool {
        self.paths == 0
    }

    #[cfg(feature = "serde_json")]
    pub(crate) const fn paths(self) -> u32 {
        self.paths
    }

    /// Returns a position below which nothing is removed.
    #[cfg(feature = "protobuf")]
    pub(crate) const fn nothing(self) -> Self {
        Self { paths: 0, ..self }
    }

    /// Returns the decision for a member that `*` does not match.
    #[cfg(feature = "protobuf")]
    pub(crate) fn exactly(self, name: JsonStr<'_>) -> Member {
        self.choose(|segment| name.eq_str(segment))
    }

    pub(crate) fn member(self, name: JsonStr<'_>) -> Member {
        self.choose(|segment| segment == "*" || name.eq_str(segment))
    }

    pub(crate) fn element(self, index: usize) -> Member {
        self.choose(|segment| segment == "*" || super::members::index(segment) == Some(index))
    }

    /// Returns the rest of a value.
    pub(crate) fn copy(self, json: &[u8]) -> Vec<u8> {
        let mut kept = Vec::with_capacity(json.len());
        copy(&mut Cursor::new(json), self, &mut kept);
        kept
    }

    fn choose(self, matches: impl Fn(&str) -> bool) -> Member {
        let mut below = Self {
            paths: 0,
            depth: self.depth + 1,
            ..self
        };
        if self.paths == 0 {
            return Member::Keep(below);
        }
        for (number, path) in self.prune.0.iter().enumerate() {
            if self.paths & (1 << number) == 0 {
                continue;
            }
            let Some(segment) = path.get(self.depth) else {
                continue;
            };
            if matches(segment) {
                if path.len() == self.depth + 1 {
                    return Member::Skip;
                }
                below.paths |= 1 << number;
            }
        }
        Member::Keep(below)
    }
}

/// Copies the next value. The recursion only follows paths, so it is no deeper than the longest one.
fn copy(cursor: &mut Cursor<'_>, below: Below, out: &mut Vec<u8>) {
    let first = cursor.peek();
    if below.is_nothing() || !matches!(first, Some(b'{' | b'[')) {
        let value = cursor.value();
        out.extend_from_slice(value.unwrap_or_else(|| cursor.rest()));
        return;
    }
    let (open, close) = if first == Some(b'{') {
        (b'{', b'}')
    } else {
        (b'[', b']')
    };
    cursor.eat(open);
    out.push(open);
    let mut is_first = true;
    let mut elements = 0..;
    while cursor.peek().is_some_and(|byte| byte != close) {
        let before = cursor.at();
        let (member, key) = if open == b'{' {
            let Some(key) = cursor.key() else { break };
            (below.member(key), Some(key))
        } else {
            cursor.eat(b',');
            (below.element(elements.next().unwrap_or_default()), None)
        };
        match member {
            Member::Skip => {
                if cursor.value().is_none() {
                    break;
                }
            }
            Member::Keep(below) => {
                if !is_first {
                    out.push(b',');
                }
                is_first = false;
                if let Some(key) = key {
                    out.push(b'"');
                    out.extend_from_slice(key.raw());
                    out.extend_from_slice(b"\":");
                }
                copy(cursor, below, out);
            }
        }
        if cursor.at() == before {
            break;
        }
    }
    cursor.eat(close);
    out.push(close);
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    fn pruned(prune: Prune, json: &str) -> String {
        let mut out = Vec::new();
        prune.copy(json.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn leaves_out_what_is_named_and_nothing_else() {
        let json = r#"{"kind":"Pod","metadata":{"managedFields":[{"a":"]}"}],"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"x\"}","b":"c"}},"managedFields":1,"spec":{"metadata":{"managedFields":2}}}"#;
        assert_eq!(
            pruned(Prune::NOISE, json),
            r#"{"kind":"Pod","metadata":{"name":"a","annotations":{"b":"c"}},"managedFields":1,"spec":{"metadata":{"managedFields":2}}}"#
        );
        assert_eq!(pruned(Prune::NOTHING, json), json);
    }

    #[test]
    fn leaves_out_the_last_and_the_only_member_and_of_every_element() {
        const PRUNE: Prune = Prune::new(&[&["a"], &["l", "*", "b"], &["m", "*"]]);
        assert_eq!(pruned(PRUNE, r#"{"a":1}"#), "{}");
        assert_eq!(pruned(PRUNE, r#"{"b":1 , "a": [ ] }"#), r#"{"b":1}"#);
        assert_eq!(
            pruned(PRUNE, r#"{"l":[{"b":1},{"b":2,"c":[3]}, 7 ],"m":[1,2]}"#),
            r#"{"l":[{},{"c":[3]},7],"m":[]}"#
        );
    }

    #[test]
    fn leaves_out_by_index_and_every_member() {
        const PRUNE: Prune =
            Prune::new(&[&["l", "1"], &["l", "2", "b"], &["data", "*"], &["n", "0"]]);
        assert_eq!(
            pruned(
                PRUNE,
                r#"{"l":[0,1,{"a":1,"b":2},3],"data":{"a":1,"b":{}},"n":{"0":1,"1":2}}"#
            ),
            r#"{"l":[0,{"a":1},3],"data":{},"n":{"1":2}}"#
        );
        assert_eq!(
            pruned(PRUNE, r#"{"l":[0],"data":[1,2]}"#),
            r#"{"l":[0],"data":[]}"#
        );
    }

    #[test]
    fn takes_32_paths_and_no_more() {
        const SEGMENTS: [&[&str]; 33] = {
            let mut all: [&[&str]; 33] = [&["x"]; 33];
            all[31] = &["secret"];
            all
        };
        let most = Prune::new(SEGMENTS.split_at(32).0.to_vec().leak());
        assert_eq!(pruned(most, r#"{"secret":1,"a":2}"#), r#"{"a":2}"#);
        for paths in [&SEGMENTS[..], &[&["a"], &[]]] {
            let paths: &'static [_] = paths.to_vec().leak();
            assert!(std::panic::catch_unwind(|| Prune::new(paths)).is_err());
        }
    }

    #[test]
    fn survives_what_is_cut_off() {
        let json = r#"{"metadata":{"managedFields":[1],"annotations":{"x":"y"}},"z":[1,{"b":2}]}"#;
        for end in 0..json.len() {
            let _: String = pruned(Prune::NOISE, &json[..end]);
        }
    }
}
