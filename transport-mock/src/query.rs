//! Paths and queries of requests.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// The decoded query of a request, in the order in which it was sent.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses a query. Like Go, it decodes `+` as a space and ignores pairs with an invalid percent escape.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key, true)?, decode(value, true)?))
        });
        Self {
            pairs: pairs.collect(),
        }
    }

    /// Returns the first value of a parameter.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|pair| pair.0 == key).map(|pair| pair.1)
    }

    /// Returns whether a parameter is present and neither `false` nor `0`.
    #[must_use]
    pub fn flag(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|value| value != "false" && value != "0")
    }

    /// Iterates over the parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the parameter if it is present and not empty.
    pub(crate) fn filled(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }
}

/// Splits a request target, and decodes both parts.
pub(crate) fn split_target(target: &str) -> (String, Query) {
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (
        decode(path, false).unwrap_or_else(|| path.to_string()),
        Query::parse(query),
    )
}

/// The parts of a path of the Kubernetes API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ApiPath<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) plural: &'a str,
    pub(crate) name: Option<&'a str>,
    pub(crate) part: Part,
}

/// The part of an object that a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Whole,
    Status,
    Scale,
    /// The finalizers in the spec of a Namespace.
    Finalize,
    Eviction,
    Binding,
    /// A part that needs containers, by its name.
    Container(&'static str),
}

/// The parts that need containers.
const CONTAINER_PARTS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

impl Part {
    fn of(segment: &str) -> Option<Self> {
        let containers = CONTAINER_PARTS.into_iter().map(Self::Container);
        [
            Self::Status,
            Self::Scale,
            Self::Finalize,
            Self::Eviction,
            Self::Binding,
        ]
        .into_iter()
        .chain(containers)
        .find(|part| part.name() == segment)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::Eviction => "eviction",
            Self::Binding => "binding",
            Self::Container(name) => name,
        }
    }
}

impl<'a> ApiPath<'a> {
    pub(crate) fn parse(path: &'a str) -> Option<Self> {
        let mut segments = path.strip_prefix('/')?.split('/');
        let group = match segments.next()? {
            "api" => "",
            "apis" => segments.next()?,
            _ => return None,
        };
        let version = segments.next()?;
        let rest: Vec<&str> = segments.collect();
        let (rest, part) = match rest.as_slice() {
            // A resource of a namespace is no part of the namespace.
            ["namespaces", _, _, _] => (rest.as_slice(), Part::Whole),
            // The rest of the path is for the container.
            ["namespaces", _, _, _, "proxy", ..] => (&rest[..4], Part::Container("proxy")),
            [object @ .., last] if object.len() > 1 => {
                Part::of(last).map_or((rest.as_slice(), Part::Whole), |part| (object, part))
            }
            rest => (rest, Part::Whole),
        };
        let (namespace, plural, name) = match *rest {
            [plural] => (None, plural, None),
            ["namespaces", namespace, plural] => (Some(namespace), plural, None),
            ["namespaces", namespace, plural, name] => (Some(namespace), plural, Some(name)),
            [plural, name] => (None, plural, Some(name)),
            _ => return None,
        };
        let parts = [Some(version), Some(plural), namespace, name];
        let whole = parts.into_iter().flatten().all(|part| !part.is_empty());
        whole.then_some(Self {
            group,
            version,
            namespace,
            plural,
            name,
            part,
        })
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.iter().enumerate() {
            if index > 0 {
                f.write_str("&")?;
            }
            write!(f, "{key}={value}")?;
        }
        Ok(())
    }
}

fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded() {
        let (path, query) = split_target("/api/v1/pods?a=%E4%B8%96+x&b&=&c=%zz&d=1=2");
        assert_eq!(path, "/api/v1/pods");
        assert_eq!(query.get("a"), Some("世 x"));
        assert_eq!(query.get("b"), Some(""));
        assert!(query.flag("b"));
        assert_eq!(query.get("c"), None);
        assert_eq!(query.get("d"), Some("1=2"));
        assert_eq!(query.to_string(), "a=世 x&b=&=&d=1=2");
    }

    #[test]
    fn paths() {
        let path = |text| ApiPath::parse(text);
        let pods = ApiPath {
            group: "",
            version: "v1",
            namespace: None,
            plural: "pods",
            name: None,
            part: Part::Whole,
        };
        assert_eq!(path("/api/v1/pods"), Some(pods));
        assert_eq!(
            path("/api/v1/namespaces/a/pods"),
            Some(ApiPath {
                namespace: Some("a"),
                ..pods
            })
        );
        let one = ApiPath {
            namespace: Some("a"),
            name: Some("b"),
            ..pods
        };
        assert_eq!(path("/api/v1/namespaces/a/pods/b"), Some(one));
        let namespace = ApiPath {
            plural: "namespaces",
            name: Some("a"),
            ..pods
        };
        assert_eq!(path("/api/v1/namespaces/a"), Some(namespace));
        for (text, object) in [
            ("/api/v1/namespaces/a/pods/b/status", one),
            ("/api/v1/namespaces/a/status", namespace),
        ] {
            let part = Part::Status;
            assert_eq!(path(text), Some(ApiPath { part, ..object }), "{text}");
        }
        let named = ApiPath {
            name: Some("status"),
            ..one
        };
        assert_eq!(path("/api/v1/namespaces/a/pods/status"), Some(named));
        assert_eq!(
            path("/apis/apps/v1/deployments").map(|p| p.group),
            Some("apps")
        );
        for wrong in [
            "",
            "/",
            "/api",
            "/api/v1",
            "/api/v1/",
            "/apis/apps/v1",
            "/api/v1/namespaces//pods",
            "/x/v1/pods",
        ] {
            assert_eq!(path(wrong), None, "{wrong}");
        }
        let part = Part::Container("proxy");
        for text in [
            "/api/v1/namespaces/a/pods/b/proxy",
            "/api/v1/namespaces/a/pods/b/proxy/",
            "/api/v1/namespaces/a/pods/b/proxy/x/y",
        ] {
            assert_eq!(path(text), Some(ApiPath { part, ..one }), "{text}");
        }
        assert_eq!(path("/api/v1/namespaces/a/pods/b/none"), None);
    }
}
