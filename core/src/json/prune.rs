//! Leaving out parts of an object.

use alloc::vec::Vec;

use super::JsonStr;
use super::members::Cursor;

/// Names the parts of an object that are of no use: they are skipped while it is read, and never allocated.
///
/// A part is named by its path; a segment `*` stands for every element of an array. Of more than 32 paths those after
/// the 32nd are ignored.
///
/// ```
/// use informer_core::Prune;
///
/// let prune = Prune::new(&[&["metadata", "managedFields"], &["items", "*", "b"]]);
/// let mut kept = Vec::new();
/// prune.copy(br#"{"metadata":{"managedFields":[1],"name":"a"},"items":[{"a":1,"b":2}]}"#, &mut kept);
/// assert_eq!(kept, br#"{"metadata":{"name":"a"},"items":[{"a":1}]}"#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Prune(&'static [&'static [&'static str]]);

/// What may still be left out below a place: one bit for each path that leads through it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Below {
    prune: Prune,
    paths: u32,
    depth: usize,
}

/// What becomes of a member.
pub(crate) enum Member {
    Skip,
    Keep(Below),
}

impl Prune {
    /// Leaves out nothing.
    pub const NOTHING: Self = Self(&[]);

    /// Leaves out what takes much room and that hardly anybody reads: `metadata.managedFields`, and the annotation in
    /// which `kubectl apply` keeps the last configuration.
    pub const NOISE: Self = Self(&[
        &["metadata", "managedFields"],
        &[
            "metadata",
            "annotations",
            "kubectl.kubernetes.io/last-applied-configuration",
        ],
    ]);

    /// Leaves out what these paths name.
    #[must_use]
    pub const fn new(paths: &'static [&'static [&'static str]]) -> Self {
        Self(paths)
    }

    /// Tells whether nothing is left out.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends what is kept of an object, whose JSON was checked to be well-formed; what is not well-formed is kept.
    pub fn copy(&self, json: &[u8], out: &mut Vec<u8>) {
        out.reserve(json.len());
        copy(&mut Cursor::new(json), self.begin(), out);
    }

    /// Calls `with` with what is kept of an object; where nothing is left out, that is the object itself.
    pub fn lend(&self, json: &[u8], with: &mut dyn FnMut(&[u8])) {
        if self.is_nothing() {
            return with(json);
        }
        let mut kept = Vec::new();
        self.copy(json, &mut kept);
        with(&kept);
    }

    /// Returns a number that differs where other parts are left out.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let bytes = self.0.iter().flat_map(|path| {
            path.iter()
                .flat_map(|segment| segment.bytes().chain([0]))
                .chain([1])
        });
        // FNV-1a.
        bytes.fold(0, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    pub(crate) fn begin(self) -> Below {
        let count = self.0.len().min(32);
        Below {
            prune: self,
            paths: u32::try_from((1_u64 << count) - 1).unwrap_or(u32::MAX),
            depth: 0,
        }
    }
}

impl Below {
    pub(crate) const fn is_nothing(self) -> bool {
        self.paths == 0
    }

    pub(crate) fn member(self, name: JsonStr<'_>) -> Member {
        self.choose(|segment| name.eq_str(segment))
    }

    pub(crate) fn element(self) -> Member {
        self.choose(|segment| segment == "*")
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
        for (number, path) in self.prune.0.iter().take(32).enumerate() {
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

/// Copies the value that comes next. It goes down only where something is to be left out, so no deeper than a path.
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
    while cursor.peek().is_some_and(|byte| byte != close) {
        let before = cursor.at();
        let (member, key) = if open == b'{' {
            let Some(key) = cursor.key() else { break };
            (below.member(key), Some(key))
        } else {
            cursor.eat(b',');
            (below.element(), None)
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
    fn survives_what_is_cut_off() {
        let json = r#"{"metadata":{"managedFields":[1],"annotations":{"x":"y"}},"z":[1,{"b":2}]}"#;
        for end in 0..json.len() {
            let _: String = pruned(Prune::NOISE, &json[..end]);
        }
    }
}
