//! Selects the objects of a request.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{borrow::ToOwned, format};

use informer_core::{
    resource::{Shard, ShardBy},
    selector::LabelSelector,
};

use crate::object::{Object, ResourceType};
use crate::query::Query;
use crate::status::Status;

/// The namespace, the label selector and the field selector of a request.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: Vec<Field>,
    shards: Vec<Shard>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Field {
    path: String,
    value: String,
    equal: bool,
}

impl Filter {
    pub(crate) fn parse(
        namespace: Option<&str>,
        query: &Query,
        kind: &ResourceType,
    ) -> Result<Self, Status> {
        let labels = query.get("labelSelector").unwrap_or_default();
        let labels = LabelSelector::parse(labels).map_err(|error| {
            Status::bad_request(format!("unable to parse requirement: {error}"))
        })?;
        let fields = parse_fields(query.get("fieldSelector").unwrap_or_default())?;
        for field in &fields {
            let name = field.path == "metadata.name"
                || field.path == "metadata.namespace" && kind.namespaced;
            if !name && !kind.selectable.contains(&field.path) {
                let message = if kind.selectable.is_empty() {
                    format!(
                        "\"{}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                        field.path
                    )
                } else {
                    format!("field label not supported: {}", field.path)
                };
                return Err(Status::bad_request(message));
            }
        }
        Ok(Self {
            namespace: namespace.map(ToOwned::to_owned),
            labels,
            fields,
            shards: Vec::new(),
        })
    }

    /// Restricts the filter to the parts in a `shardSelector`, as a server with sharded lists and watches does.
    pub(crate) fn shards(self, selector: &str) -> Result<Self, Status> {
        let shards = selector.split("||").map(|part| {
            parse_shard(part.trim()).ok_or_else(|| {
                Status::bad_request(format!("invalid shardSelector: cannot read '{part}'"))
            })
        });
        Ok(Self {
            shards: shards.collect::<Result<_, _>>()?,
            ..self
        })
    }

    fn is_in_shard(&self, object: &Object) -> bool {
        self.shards.is_empty()
            || self.shards.iter().any(|shard| {
                shard.has(match shard.by() {
                    ShardBy::Uid => &object.uid,
                    ShardBy::Namespace => &object.namespace,
                })
            })
    }

    /// Returns whether there is a selector besides the namespace.
    pub(crate) fn selects(&self) -> bool {
        !self.labels.is_everything() || !self.fields.is_empty() || !self.shards.is_empty()
    }

    /// Returns the common prefix of all keys that can match.
    pub(crate) fn prefix(&self) -> String {
        self.namespace
            .as_ref()
            .map_or_else(String::new, |namespace| format!("{namespace}/"))
    }

    pub(crate) fn matches(&self, object: &Object, kind: &ResourceType) -> bool {
        let fields = || {
            self.fields.iter().all(|field| {
                (object.field(&kind.selectable, &field.path) == field.value) == field.equal
            })
        };
        self.namespace
            .as_ref()
            .is_none_or(|namespace| **namespace == *object.namespace)
            && fields()
            && self.labels.matches(&*object.labels)
            && self.is_in_shard(object)
    }
}

/// Parses `shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')`. The end is exclusive.
fn parse_shard(text: &str) -> Option<Shard> {
    let text = text.strip_prefix("shardRange(")?.strip_suffix(')')?;
    let mut parts = text.split(',').map(str::trim);
    let by = match parts.next()? {
        "object.metadata.uid" => ShardBy::Uid,
        "object.metadata.namespace" => ShardBy::Namespace,
        _ => return None,
    };
    let mut number = || {
        let text = parts.next()?.strip_prefix("'0x")?.strip_suffix('\'')?;
        u128::from_str_radix(text, 16).ok()
    };
    let (start, end) = (number()?, number()?);
    let (first, last) = (
        u64::try_from(start).ok()?,
        u64::try_from(end.checked_sub(1)?).ok()?,
    );
    Shard::new(by, first, last)
}

/// Parses a field selector. In values, a backslash escapes a comma, an equals sign and itself.
fn parse_fields(text: &str) -> Result<Vec<Field>, Status> {
    let mut fields = Vec::new();
    for term in split_terms(text)
        .into_iter()
        .filter(|term| !term.is_empty())
    {
        let at = term.find(['=', '!']);
        let split = at.and_then(|at| {
            let (path, rest) = term.split_at(at);
            let operators = [("!=", false), ("==", true), ("=", true)];
            let (rest, equal) = operators
                .into_iter()
                .find_map(|(op, eq)| Some((rest.strip_prefix(op)?, eq)))?;
            Some(Field {
                path: path.trim().to_string(),
                value: unescape(rest)?,
                equal,
            })
        });
        let invalid = || {
            Status::bad_request(format!(
                "invalid field selector: '{text}'; can't understand '{term}'"
            ))
        };
        fields.push(split.ok_or_else(invalid)?);
    }
    Ok(fields)
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        if c == ',' && !escaped {
            terms.push(&text[start..at]);
            start = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(&text[start..]);
    terms
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => chars.next().filter(|c| ['\\', ',', '='].contains(c))?,
            '=' => return None,
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_selectors() {
        let fields =
            parse_fields(r"spec.nodeName=n1,status.phase!=Failed,metadata.name==a\,b\=\\").ok();
        let field = |path: &str, value: &str, equal| Field {
            path: path.to_string(),
            value: value.to_string(),
            equal,
        };
        let expected = [
            field("spec.nodeName", "n1", true),
            field("status.phase", "Failed", false),
            field("metadata.name", r"a,b=\", true),
        ];
        assert_eq!(fields.as_deref(), Some(&expected[..]));
        assert_eq!(parse_fields("").map(|fields| fields.len()), Ok(0));
        for wrong in ["a", "a!b", r"a=\x", "a=b=c"] {
            assert!(parse_fields(wrong).is_err(), "{wrong}");
        }
    }
}
