//! Stored objects: rendered once, and written in each format of the API.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::ops::Range;

use serde_json::{Map, Value};

use crate::event;
use crate::protobuf;
use crate::query::Part;

/// A resource type of the server.
#[derive(Clone, Debug)]
pub(crate) struct ResourceType {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    /// Whether it is defined by a CustomResourceDefinition. Then members are sorted, and items of a list have kind and
    /// apiVersion.
    pub(crate) custom: bool,
    /// Whether it has endpoints: its definition has not been deleted.
    pub(crate) is_served: bool,
    pub(crate) names: Names,
    /// The subresources of a built-in kind.
    pub(crate) parts: &'static [Part],
    /// The rest of its definition, if the server has it.
    pub(crate) definition: Option<Arc<Definition>>,
    /// The fields that a field selector supports, besides name and namespace.
    pub(crate) selectable: Vec<String>,
}

/// The names of a resource type in discovery, besides its plural and its kind.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) singular: String,
    pub(crate) short: Vec<String>,
    pub(crate) categories: Vec<String>,
}

/// The part of a CustomResourceDefinition about a version, besides its names.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// `openAPIV3Schema`.
    pub(crate) schema: Value,
    pub(crate) has_status: bool,
    /// The paths of the scale subresource.
    pub(crate) scale: Option<ScalePaths>,
}

/// The places of the scale subresource in an object, as dotted paths without the dot at the beginning.
#[derive(Clone, Debug)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

impl ResourceType {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns whether its objects are stored as events of `v1`, and shown as those of `events.k8s.io/v1`.
    pub(crate) fn is_new_event(&self) -> bool {
        !self.custom && self.group == "events.k8s.io"
    }

    /// Returns the apiVersion and kind of an object in a response.
    pub(crate) fn type_of(&self, view: View) -> (String, &str) {
        match view {
            View::Full => (self.api_version(), &self.kind),
            View::Metadata => ("meta.k8s.io/v1".to_string(), "PartialObjectMetadata"),
        }
    }

    /// Returns whether the status is a subresource: other writes do not change it.
    pub(crate) fn has_status(&self) -> bool {
        match &self.definition {
            Some(definition) => definition.has_status,
            None => self.custom || self.parts.contains(&Part::Status),
        }
    }

    /// Returns the schema of a custom resource, if the server has it.
    pub(crate) fn schema(&self) -> Option<&Value> {
        self.definition
            .as_ref()
            .map(|definition| &definition.schema)
    }

    /// Returns whether its objects have this part.
    pub(crate) fn has(&self, part: Part) -> bool {
        match part {
            Part::Whole => true,
            Part::Status => self.has_status(),
            Part::Scale => self.has_scale(),
            Part::Finalize | Part::Eviction | Part::Binding | Part::Container(_) => {
                self.parts.contains(&part)
            }
        }
    }

    fn has_scale(&self) -> bool {
        match &self.definition {
            Some(definition) => definition.scale.is_some(),
            None => self.parts.contains(&Part::Scale),
        }
    }

    /// Returns whether a name means this type: `pods`, `deployments.apps` or `apps/v1/deployments`.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.plural.as_str());
        if let Some(rest) = rest {
            return rest.is_empty()
                || rest
                    .strip_prefix('.')
                    .is_some_and(|group| group == self.group);
        }
        let path = name
            .strip_suffix(self.plural.as_str())
            .and_then(|rest| rest.strip_suffix('/'));
        path.is_some_and(|path| path == self.api_version())
    }

    /// Writes kind and apiVersion as the first members of an object, followed by a comma.
    pub(crate) fn write_type(&self, out: &mut Vec<u8>, kind_suffix: &str) {
        let (kind, version) = (&self.kind, self.api_version());
        let text = if self.custom {
            format!("\"apiVersion\":\"{version}\",\"kind\":\"{kind}{kind_suffix}\",")
        } else {
            format!("\"kind\":\"{kind}{kind_suffix}\",\"apiVersion\":\"{version}\",")
        };
        out.extend_from_slice(text.as_bytes());
    }
}

/// The part of an object that a request selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    Full,
    /// `PartialObjectMetadata`.
    Metadata,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Json,
    Protobuf,
}

/// How objects are written, as negotiated with the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form {
    pub(crate) view: View,
    pub(crate) format: Format,
    /// Whether `metadata.managedFields` is omitted.
    pub(crate) drops_managed_fields: bool,
}

impl Form {
    /// Whole objects in JSON.
    pub(crate) const JSON: Self = Self {
        view: View::Full,
        format: Format::Json,
        drops_managed_fields: false,
    };
}

/// One state of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Object {
    pub(crate) version: u64,
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    pub(crate) created: Box<str>,
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// The uids of its owners.
    pub(crate) owners: Box<[Box<str>]>,
    /// The values of the fields that selectors support, in the order of the type.
    pub(crate) fields: Box<[Box<str>]>,
    /// The members from `metadata` on, without the enclosing braces.
    pub(crate) body: Box<[u8]>,
    /// The position of the resourceVersion's digits in the body.
    pub(crate) version_at: Range<usize>,
    /// The position of the managedFields in the body, with the comma before them; empty if there are none.
    pub(crate) managed_at: Range<usize>,
    pub(crate) metadata_end: usize,
}

/// The metadata that the server sets.
pub(crate) struct Identity<'a> {
    pub(crate) version: u64,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) created: &'a str,
}

impl Object {
    /// Renders an object. The members that the server sets are taken from `identity`.
    pub(crate) fn new(
        kind: &ResourceType,
        value: &Map<String, Value>,
        identity: &Identity<'_>,
    ) -> Self {
        let no_metadata = Map::new();
        let metadata = value
            .get("metadata")
            .and_then(Value::as_object)
            .unwrap_or(&no_metadata);
        let mut body = b"\"metadata\":{".to_vec();
        let (version_at, managed_at) = write_metadata(&mut body, metadata, identity, kind);
        body.push(b'}');
        let metadata_end = body.len();
        let skipped = ["kind", "apiVersion", "metadata"];
        for key in sorted(value).filter(|key| !skipped.contains(key)) {
            body.push(b',');
            write_member(&mut body, key, value.get(key).unwrap_or(&Value::Null));
        }
        let labels = metadata
            .get("labels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let labels =
            labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())));
        let owners = metadata.get("ownerReferences").and_then(Value::as_array);
        let owners = owners.into_iter().flatten();
        let owners = owners.filter_map(|owner| Some(owner["uid"].as_str()?.into()));
        Self {
            version: identity.version,
            namespace: identity.namespace.into(),
            name: identity.name.into(),
            uid: identity.uid.into(),
            created: identity.created.into(),
            labels: labels.collect(),
            owners: owners.collect(),
            fields: kind
                .selectable
                .iter()
                .map(|path| field(value, path))
                .collect(),
            body: body.into(),
            version_at,
            managed_at,
            metadata_end,
        }
    }

    /// Returns the value of a field for a field selector.
    pub(crate) fn field(&self, selectable: &[String], path: &str) -> &str {
        match path {
            "metadata.name" => &self.name,
            "metadata.namespace" => &self.namespace,
            _ => {
                let index = selectable.iter().position(|own| own == path);
                index
                    .and_then(|index| self.fields.get(index))
                    .map_or("", |value| value)
            }
        }
    }

    /// Returns whether it differs from `other` only in its version.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        fn parts(object: &Object) -> (&[u8], &[u8]) {
            (
                &object.body[..object.version_at.start],
                &object.body[object.version_at.end..],
            )
        }
        parts(self) == parts(other)
    }

    /// Writes it as a single object.
    pub(crate) fn write(&self, out: &mut Vec<u8>, kind: &ResourceType, form: Form) {
        self.write_at(out, kind, form, self.version);
    }

    /// Writes it with another version, as in the event of its deletion.
    pub(crate) fn write_at(
        &self,
        out: &mut Vec<u8>,
        kind: &ResourceType,
        form: Form,
        version: u64,
    ) {
        if form.format == Format::Protobuf {
            let (api_version, name) = kind.type_of(form.view);
            let message = self.message(kind, form, version);
            protobuf::write_object(out, &api_version, name, &message);
            return;
        }
        out.push(b'{');
        match form.view {
            View::Full => kind.write_type(out, ""),
            View::Metadata => out.extend_from_slice(
                b"\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",",
            ),
        }
        self.write_body(out, kind, form, version);
        out.push(b'}');
    }

    /// Writes it as an item of a list.
    pub(crate) fn write_item(&self, out: &mut Vec<u8>, kind: &ResourceType, form: Form) {
        if form.format == Format::Protobuf {
            let message = self.message(kind, form, self.version);
            out.extend_from_slice(&protobuf::list_item(&message));
            return;
        }
        if kind.custom || form.view == View::Metadata {
            return self.write(out, kind, form);
        }
        out.push(b'{');
        self.write_body(out, kind, form, self.version);
        out.push(b'}');
    }

    /// Converts it to a message of protobuf. A kind without a table is negotiated as metadata only.
    fn message(&self, kind: &ResourceType, form: Form, version: u64) -> Vec<u8> {
        let mut text = b"{".to_vec();
        self.write_body(&mut text, kind, form, version);
        text.push(b'}');
        let object = serde_json::from_slice(&text).unwrap_or(Value::Null);
        let (api_version, name) = kind.type_of(form.view);
        protobuf::message(&api_version, name, &object).unwrap_or_default()
    }

    fn write_body(&self, out: &mut Vec<u8>, kind: &ResourceType, form: Form, version: u64) {
        let is_new_event = form.view == View::Full && kind.is_new_event();
        let end = if form.view == View::Full && !is_new_event {
            self.body.len()
        } else {
            self.metadata_end
        };
        let version = version.to_string();
        let no_fields = if form.drops_managed_fields {
            self.managed_at.clone()
        } else {
            0..0
        };
        let mut replaced = [(&self.version_at, version.as_str()), (&no_fields, "")];
        replaced.sort_by_key(|(range, _)| range.start);
        let mut at = 0;
        for (range, text) in replaced {
            out.extend_from_slice(&self.body[at..range.start]);
            out.extend_from_slice(text.as_bytes());
            at = range.end;
        }
        out.extend_from_slice(&self.body[at..end]);
        if is_new_event {
            let rest = &self.body[self.metadata_end..];
            let rest = rest.strip_prefix(b",").unwrap_or(rest);
            let core = serde_json::from_slice(&[b"{", rest, b"}"].concat()).unwrap_or_default();
            let event = event::from_core(core);
            for key in sorted(&event) {
                out.push(b',');
                write_member(out, key, event.get(key).unwrap_or(&Value::Null));
            }
        }
    }
}

/// Writes the members of metadata, and returns the positions of the version and of the managedFields.
fn write_metadata(
    body: &mut Vec<u8>,
    metadata: &Map<String, Value>,
    identity: &Identity<'_>,
    kind: &ResourceType,
) -> (Range<usize>, Range<usize>) {
    const FIRST: [&str; 7] = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
    ];
    let set = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ];
    let mut keys: Vec<&str> = set
        .into_iter()
        .filter(|key| *key != "namespace" || kind.namespaced)
        .collect();
    keys.extend(
        metadata
            .keys()
            .map(String::as_str)
            .filter(|key| !set.contains(key)),
    );
    keys.sort_unstable();
    if !kind.custom {
        keys.sort_by_key(|key| {
            FIRST
                .iter()
                .position(|first| first == key)
                .unwrap_or(FIRST.len())
        });
    }
    let (mut version_at, mut managed_at) = (0..0, 0..0);
    for (index, key) in keys.into_iter().enumerate() {
        let before = body.len();
        if index > 0 {
            body.push(b',');
        }
        let own = match key {
            "name" => identity.name,
            "namespace" => identity.namespace,
            "uid" => identity.uid,
            "creationTimestamp" => identity.created,
            "resourceVersion" => {
                body.extend_from_slice(b"\"resourceVersion\":\"");
                let start = body.len();
                body.extend_from_slice(identity.version.to_string().as_bytes());
                version_at = start..body.len();
                body.push(b'"');
                continue;
            }
            _ => {
                write_member(body, key, metadata.get(key).unwrap_or(&Value::Null));
                // Other members of every object precede them.
                if key == "managedFields" {
                    managed_at = before..body.len();
                }
                continue;
            }
        };
        write_member(body, key, &Value::from(own));
    }
    (version_at, managed_at)
}

fn write_member(out: &mut Vec<u8>, key: &str, value: &Value) {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write!(text, "{}:{value}", Value::from(key));
    out.extend_from_slice(text.as_bytes());
}

fn sorted(map: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let mut keys: Vec<&str> = map.keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys.into_iter()
}

/// Looks up a dotted path. A missing value is empty.
fn field(value: &Map<String, Value>, path: &str) -> Box<str> {
    let mut parts = path.split('.');
    let first = parts.next().and_then(|first| value.get(first));
    let found = parts.fold(first, |value, part| value?.get(part));
    match found {
        Some(Value::String(text)) => text.as_str().into(),
        Some(Value::Bool(flag)) => flag.to_string().into(),
        Some(Value::Number(number)) => number.to_string().into(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => "".into(),
    }
}
