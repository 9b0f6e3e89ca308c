//! The state that a cache reaches once it includes a write.

use core::cmp::Ordering;
use core::fmt;

use crate::json::{Elements, as_str, as_u64, value_at};
use crate::object::{ResourceVersion, Uid};
use crate::storage::Text;

/// The state that a cache must show to include a write: an object at a version or later, or the absence of a uid.
///
/// A version alone is not enough to wait for a deletion. An API server up to Kubernetes 1.37 answers a DELETE with the
/// last version that the object *had*, which the cache already shows. A newer server answers with the version of the
/// deletion, and for many resources the answer is a `Status` without a version. [`after_delete`](Self::after_delete)
/// reads all three.
///
/// ```
/// use informer_core::{ResourceVersion, Uid, object::ExpectedState};
///
/// let (old, uid) = (ResourceVersion::<Box<str>>::new("7"), Uid::new("u1"));
/// let expected = ExpectedState::gone("u1", "7");
/// assert!(!expected.is_shown([&old], Some((&uid, &old))), "the cache still has the object");
/// assert!(expected.is_shown([&ResourceVersion::new("8")], None));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpectedState<X> {
    version: ResourceVersion<X>,
    /// The uid that must be absent.
    gone: Option<Uid<X>>,
}

impl<X: Text> ExpectedState<X> {
    /// Returns the state in which the object is at this resourceVersion or a later one, as after a create, update or
    /// patch.
    #[must_use]
    pub fn at_version(version: &str) -> Self {
        Self {
            version: ResourceVersion::new(version),
            gone: None,
        }
    }

    /// Returns the state in which the object with this uid is deleted.
    ///
    /// `version` is any version that the object had, such as the last one. With it, a cache that has not seen the
    /// object yet does not count as one that has seen the deletion. It may be empty if the object was read from that
    /// cache.
    #[must_use]
    pub fn gone(uid: &str, version: &str) -> Self {
        Self {
            version: ResourceVersion::new(version),
            gone: Some(Uid::new(uid)),
        }
    }

    /// Returns the state that follows from the JSON answer to a DELETE of one object; `None` if the answer contains no
    /// uid.
    ///
    /// An object with finalizers or a grace period is only marked for deletion, and is expected at the version of the
    /// answer. Any other object is expected to be deleted.
    ///
    /// ```
    /// use informer_core::object::ExpectedState;
    ///
    /// let deleted = br#"{"kind":"Status","status":"Success","details":{"name":"web","uid":"u1"}}"#;
    /// assert_eq!(ExpectedState::<Box<str>>::after_delete(deleted), Some(ExpectedState::gone("u1", "")));
    /// let marked = br#"{"kind":"Pod","metadata":{"name":"web","uid":"u1","resourceVersion":"8",
    ///     "deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":30}}"#;
    /// assert_eq!(ExpectedState::<Box<str>>::after_delete(marked), Some(ExpectedState::at_version("8")));
    /// ```
    #[must_use]
    pub fn after_delete(answer: &[u8]) -> Option<Self> {
        let text = |path: &[&str]| value_at(answer, path).and_then(as_str);
        let (version, uid) = if text(&["kind"]).is_some_and(|kind| kind.eq_str("Status")) {
            (ResourceVersion::default(), text(&["details", "uid"])?)
        } else {
            let version = text(&["metadata", "resourceVersion"]).map(ResourceVersion::from_json);
            (version.unwrap_or_default(), text(&["metadata", "uid"])?)
        };
        let uid = Uid::from_json(uid);
        let metadata = |name| value_at(answer, &["metadata", name]);
        let seconds = metadata("deletionGracePeriodSeconds").and_then(as_u64);
        let finalizers = metadata("finalizers").map(Elements::new);
        let stays = seconds.is_some_and(|seconds| seconds > 0)
            || finalizers.is_some_and(|mut finalizers| finalizers.next().is_some());
        let is_marked = metadata("deletionTimestamp").and_then(as_str).is_some();
        uid.is_known().then(|| Self {
            gone: (!is_marked || !stays).then_some(uid),
            version,
        })
    }

    /// Returns whether a cache shows this state.
    ///
    /// `reached` are the versions of the sources that the object can come from. `object` is the cached object under its
    /// key.
    pub fn is_shown<'a>(
        &self,
        reached: impl IntoIterator<Item = &'a ResourceVersion<X>>,
        object: Option<(&Uid<X>, &ResourceVersion<X>)>,
    ) -> bool
    where
        X: PartialEq + 'a,
    {
        let is_reached = |version: &ResourceVersion<X>| {
            let order = version.compare(&self.version);
            order.is_some_and(Ordering::is_ge)
        };
        if let Some(uid) = &self.gone {
            // An object without a uid may be the deleted one.
            let is_held = object.is_some_and(|(held, _)| held == uid || !held.is_known());
            if is_held || !self.version.is_known() {
                return !is_held;
            }
        }
        let mut reached = reached.into_iter().peekable();
        let all = reached.peek().is_some() && reached.all(is_reached);
        all || object.is_some_and(|(_, version)| is_reached(version))
    }
}

impl<X: Text + PartialEq> ExpectedState<X> {
    /// Returns whether a cache that [shows](Self::is_shown) this state has another one under the key: the object was changed
    /// or deleted since the write. If that happened before the cache showed the write, no event tells of it. It is false for a
    /// deletion.
    ///
    /// ```
    /// use informer_core::{ResourceVersion, object::ExpectedState};
    ///
    /// let created = ExpectedState::<Box<str>>::at_version("7");
    /// assert!(created.is_superseded(None), "it was deleted since");
    /// assert!(created.is_superseded(Some(&ResourceVersion::new("8"))));
    /// assert!(!created.is_superseded(Some(&ResourceVersion::new("7"))));
    /// ```
    pub fn is_superseded(&self, object: Option<&ResourceVersion<X>>) -> bool {
        self.gone.is_none() && self.version.is_known() && object != Some(&self.version)
    }
}

impl<X: Text> From<&str> for ExpectedState<X> {
    fn from(version: &str) -> Self {
        Self::at_version(version)
    }
}

#[cfg(feature = "alloc")]
impl<X: Text> From<&alloc::string::String> for ExpectedState<X> {
    fn from(version: &alloc::string::String) -> Self {
        Self::at_version(version)
    }
}

impl<X: Text> fmt::Display for ExpectedState<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.gone {
            None => write!(f, "at {}", self.version),
            Some(uid) => write!(f, "deleted (uid {uid})"),
        }
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use alloc::boxed::Box;
    use alloc::string::{String, ToString};

    use super::*;

    type State = ExpectedState<Box<str>>;

    #[test]
    fn answers_to_a_delete_are_read_in_all_their_shapes() {
        let marked = r#""deletionTimestamp":"2026-01-01T00:00:00Z""#;
        let object = |more: &str| {
            alloc::format!(
                r#"{{"kind":"Pod","metadata":{{"uid":"u1","resourceVersion":"7"{more}}}}}"#
            )
        };
        let with = |more: &str| object(&alloc::format!(",{marked},{more}"));
        let status = r#"{"kind":"Status","metadata":{},"status":"Success","details":{"uid":"u1"}}"#;
        let gone = Some(State::gone("u1", "7"));
        let stays = Some(State::at_version("7"));
        for (answer, wanted) in [
            (object(""), gone.clone()),
            (object(r#","finalizers":["a"]"#), gone.clone()),
            (object(r#","deletionGracePeriodSeconds":30"#), gone.clone()),
            (object(&alloc::format!(",{marked}")), gone.clone()),
            (with(r#""finalizers":["a"]"#), stays.clone()),
            (with(r#""finalizers":[]"#), gone.clone()),
            (with(r#""deletionGracePeriodSeconds":30"#), stays),
            (with(r#""deletionGracePeriodSeconds":0"#), gone),
            (status.to_string(), Some(State::gone("u1", ""))),
            (r#"{"kind":"Status","status":"Success"}"#.to_string(), None),
            (r#"{"kind":"Pod","metadata":{"uid":""}}"#.to_string(), None),
            ("[1]".to_string(), None),
            ("not JSON".to_string(), None),
            (String::new(), None),
        ] {
            assert_eq!(State::after_delete(answer.as_bytes()), wanted, "{answer}");
        }
    }

    #[test]
    fn a_deletion_is_shown_when_the_uid_is_gone_and_a_write_at_its_version() {
        let version = ResourceVersion::<Box<str>>::new;
        for (expected, reached, object, wanted) in [
            (State::at_version("7"), &["6"][..], None, false),
            (State::at_version("7"), &["6"], Some(("u1", "6")), false),
            (State::at_version("7"), &["6"], Some(("u1", "7")), true),
            (State::at_version("7"), &["7"], None, true),
            (State::at_version("7"), &["7", "6"], None, false),
            (State::at_version("7"), &[], None, false),
            // Up to 1.37, the answer has the last version of the object.
            (State::gone("u1", "7"), &["7"], Some(("u1", "7")), false),
            (State::gone("u1", "7"), &["9"], Some(("u1", "7")), false),
            (State::gone("u1", "7"), &["8"], None, true),
            // The cache has not seen the object's creation yet.
            (State::gone("u1", "7"), &["6"], None, false),
            // The answer has the version of the deletion.
            (State::gone("u1", "8"), &["7"], Some(("u1", "7")), false),
            (State::gone("u1", "8"), &["8"], None, true),
            // Another object has the same name.
            (State::gone("u1", "7"), &["7"], Some(("u2", "9")), true),
            (State::gone("u1", "7"), &["6"], Some(("u0", "5")), false),
            // A Status has no version.
            (State::gone("u1", ""), &["7"], Some(("u1", "7")), false),
            (State::gone("u1", ""), &["7"], None, true),
            (State::gone("u1", ""), &["7"], Some(("u2", "9")), true),
            (State::gone("u1", "7"), &["9"], Some(("", "7")), false),
        ] {
            let all: alloc::vec::Vec<_> = reached.iter().map(|text| version(text)).collect();
            let object = object.map(|(uid, text)| (Uid::new(uid), version(text)));
            let object = object.as_ref().map(|(uid, version)| (uid, version));
            let is_shown = expected.is_shown(&all, object);
            assert_eq!(is_shown, wanted, "{expected} of {reached:?} and {object:?}");
        }
    }
}
