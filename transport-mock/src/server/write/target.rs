//! The target of a write, and the responses that name it.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::decode::{Decoded, decode};
use super::json_patch::depth;
use super::managers::Manager;
use super::options::Options;
use super::problems::Problems;
use super::schema;
use crate::object::ResourceType;
use crate::query::{ApiPath, Query};
use crate::server::MutationError;
use crate::status::Status;

/// The deepest nesting of an object. `managedFields` are nested a little deeper, and the parser's limit is 128.
const DEPTH: usize = 100;

/// The target of a write.
#[derive(Clone, Debug)]
pub(super) struct Target<'a> {
    pub(super) index: usize,
    pub(super) path: ApiPath<'a>,
    pub(super) kind: Arc<ResourceType>,
    pub(super) query: &'a Query,
    /// Whether nothing is to be stored.
    pub(super) is_dry: bool,
}

impl<'a> Target<'a> {
    pub(super) fn namespace(&self) -> &'a str {
        self.path.namespace.unwrap_or_default()
    }

    /// Checks the type of an object, and sets the namespace and name from the path. The object must not contradict
    /// them.
    pub(super) fn place(&self, object: Value, name: Option<&str>) -> Result<Value, Status> {
        if depth(&object) > DEPTH {
            return Err(Status::bad_request(
                "the object is nested too deeply: at most 100 levels are supported",
            ));
        }
        let Value::Object(mut object) = object else {
            return Err(mistyped("the body", "object"));
        };
        let api_version = self.kind.api_version();
        let given_kind = object.get("kind").and_then(Value::as_str);
        if let Some(given) = given_kind.filter(|given| {
            self.kind.custom
                && *given != self.kind.kind
                && object.get("apiVersion") == Some(&api_version.as_str().into())
        }) {
            let mut problems = Problems::default();
            let problem = ["must be ", &self.kind.kind].concat();
            problems.invalid("kind", &given.into(), &problem);
            let name = name.map_or_else(|| text_of(&object, "name"), ToString::to_string);
            problems.result((self.path.group, given), &name)?;
        }
        for (member, wanted) in [("kind", &self.kind.kind), ("apiVersion", &api_version)] {
            let given = object.get(member).filter(|given| !given.is_null());
            if given.is_some_and(|given| given != wanted) || given.is_none() && self.kind.custom {
                let message = [
                    "the object provided is unrecognized (must be of type ",
                    &self.kind.kind,
                    ")",
                ];
                return Err(Status::bad_request(message.concat()));
            }
        }
        let metadata = object.entry("metadata").or_insert(Value::Null);
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
        }
        let Value::Object(metadata) = metadata else {
            return Err(mistyped("metadata", "object"));
        };
        check_types(metadata)?;
        for (member, wanted) in [("namespace", self.path.namespace), ("name", name)] {
            let Some(wanted) = wanted else { continue };
            match metadata.get(member).and_then(Value::as_str) {
                None | Some("") => drop(metadata.insert(member.to_string(), wanted.into())),
                Some(given) if given == wanted => {}
                Some(given) => {
                    let message = if member == "name" {
                        [
                            "the name of the object (",
                            given,
                            ") does not match the name on the URL (",
                            wanted,
                            ")",
                        ]
                        .concat()
                    } else {
                        "the namespace of the provided object does not match the namespace sent on the request".to_string()
                    };
                    return Err(Status::bad_request(message));
                }
            }
        }
        Ok(Value::Object(object))
    }

    /// Checks an object, and removes what its kind does not have.
    pub(super) fn decode(
        &self,
        object: Value,
        name: Option<&str>,
        options: &Options,
    ) -> Result<Value, Status> {
        let mut object = self.place(object, name)?;
        let Decoded {
            mut unknown,
            mistyped,
        } = decode(&mut object, &self.kind);
        let fails = |problem: &str| {
            let kind = &self.kind.kind;
            let message = [
                kind,
                " in version \"",
                self.path.version,
                "\" cannot be handled as a ",
                kind,
                ": ",
                problem,
            ];
            Err(Status::bad_request(message.concat()))
        };
        if let Some(problem) = mistyped {
            return fails(&problem.decoded);
        }
        if let Some(schema) = self.kind.schema() {
            let pruned = schema::prune(&mut object, schema);
            unknown.extend(pruned.undeclared);
            unknown.extend(pruned.within_any);
            schema::set_defaults(&mut object, schema);
        }
        if options.is_strict && !unknown.is_empty() {
            let unknown: Vec<String> = unknown
                .iter()
                .map(|path| ["unknown field \"", path, "\""].concat())
                .collect();
            return fails(&["strict decoding error: ", &unknown.join(", ")].concat());
        }
        Ok(object)
    }

    /// Checks an applied configuration.
    pub(super) fn decode_applied(&self, config: Value, name: &str) -> Result<Value, Status> {
        let word = |member: &str| {
            config
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (api_version, kind) = (word("apiVersion"), word("kind"));
        if (api_version, kind) != (self.kind.api_version().as_str(), self.kind.kind.as_str()) {
            if !config.is_object() {
                return Err(mistyped("the body", "object"));
            }
            let slash = if api_version.contains('/') { "" } else { "/" };
            let message = ["invalid object type: ", slash, api_version, ", Kind=", kind];
            return Err(Status::bad_request(message.concat()));
        }
        if config
            .pointer("/metadata/managedFields")
            .is_some_and(|fields| !fields.is_null())
        {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let group_version = if api_version.contains('/') {
            api_version.to_string()
        } else {
            ["/", api_version].concat()
        };
        let head = [
            "failed to create typed patch object (",
            text(&config, "namespace").unwrap_or_default(),
            "/",
            text(&config, "name").unwrap_or_default(),
            "; ",
            &group_version,
            ", Kind=",
            kind,
            "): ",
        ]
        .concat();
        let mut config = self.place(config, Some(name))?;
        let Decoded {
            mut unknown,
            mistyped,
        } = decode(&mut config, &self.kind);
        if let Some(schema) = self.kind.schema() {
            unknown.extend(schema::prune(&mut config, schema).undeclared);
        }
        let problem = match (mistyped, unknown.first()) {
            (Some(problem), _) => problem.applied,
            (None, Some(path)) => [".", path, ": field not declared in schema"].concat(),
            (None, None) => return Ok(config),
        };
        Err(Status::new(500, "", head + &problem))
    }

    /// Returns the manager of a request.
    pub(super) fn manager(&self, options: &Options, applies: bool) -> Manager {
        let name = options.manager.as_str();
        Manager {
            applies,
            // The server takes it from the User-Agent, if there is one.
            name: if name.is_empty() { "unknown" } else { name }.to_string(),
            api_version: self.kind.api_version(),
            subresource: self.path.part.name().to_string(),
        }
    }

    /// The name of the resource in messages.
    fn full(&self) -> String {
        match self.path.group {
            "" => self.path.plural.to_string(),
            group => [self.path.plural, group].join("."),
        }
    }

    pub(super) fn details(&self, name: &str) -> Value {
        let mut details = json!({ "name": name, "kind": self.path.plural });
        if !self.path.group.is_empty() {
            details["group"] = self.path.group.into();
        }
        details
    }

    pub(super) fn refused(&self, error: MutationError, name: &str) -> Status {
        match error {
            MutationError::NotFound => {
                Status::no_such_object(self.path.group, self.path.plural, name)
            }
            MutationError::AlreadyExists => {
                let message = [&self.full(), " \"", name, "\" already exists"];
                Status::new(409, "AlreadyExists", message.concat()).details(self.details(name))
            }
            MutationError::Conflict => self.conflict(
                name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ),
            MutationError::NoName => {
                let mut problems = Problems::default();
                problems.required("metadata.name", "name or generateName is required");
                let refused = problems.of(self, name);
                refused.err().unwrap_or_else(|| Status::bad_request(error.to_string()))
            }
            MutationError::UnknownResource | MutationError::NotAnObject => {
                Status::bad_request(error.to_string())
            }
        }
    }

    /// The server refuses the request with 403.
    pub(super) fn forbidden(&self, name: &str, problem: &str, causes: Option<Value>) -> Status {
        let message = [&self.full(), " \"", name, "\" is forbidden: ", problem];
        let mut details = self.details(name);
        if let Some(causes) = causes {
            details["causes"] = causes;
        }
        Status::new(403, "Forbidden", message.concat()).details(details)
    }

    pub(super) fn conflict(&self, name: &str, problem: &str) -> Status {
        conflict(&self.full(), self.details(name), problem)
    }

    /// A precondition of a deletion does not hold. The message names the kind.
    pub(super) fn unmet(&self, name: &str, problem: &str) -> Status {
        let kind = &self.kind.kind;
        let (full, details) = match self.path.group {
            "" => (kind.clone(), json!({ "name": name, "kind": kind })),
            group => (
                [kind, ".", group].concat(),
                json!({ "name": name, "kind": kind, "group": group }),
            ),
        };
        conflict(&full, details, problem)
    }

    /// Some resources can only be replaced at a version.
    pub(super) fn unversioned(&self, name: &str) -> Result<(), Status> {
        let mut problems = Problems::default();
        let problem = "must be specified for an update";
        problems.invalid("metadata.resourceVersion", &0.into(), problem);
        problems.result((self.path.group, self.path.plural), name)
    }
}

fn conflict(full: &str, details: Value, problem: &str) -> Status {
    let name = details["name"].as_str().unwrap_or_default();
    let message = [
        "Operation cannot be fulfilled on ",
        full,
        " \"",
        name,
        "\": ",
        problem,
    ]
    .concat();
    Status::new(409, "Conflict", message).details(details)
}

/// Returns a member of the metadata, if it is a text and not empty.
pub(super) fn text<'a>(object: &'a Value, member: &str) -> Option<&'a str> {
    let value = object.get("metadata")?.get(member)?.as_str()?;
    (!value.is_empty()).then_some(value)
}

fn text_of(object: &Map<String, Value>, member: &str) -> String {
    let value = object
        .get("metadata")
        .and_then(|metadata| metadata.get(member));
    value
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_string()
}

/// Checks the types of the members of `metadata`. As in Go, null counts as absent.
pub(super) fn check_types(metadata: &Map<String, Value>) -> Result<(), Status> {
    for (member, value) in metadata {
        let of_text = |value: &Value| value.is_string() || value.is_null();
        let (is_right, wanted) = match member.as_str() {
            "name" | "generateName" | "namespace" | "uid" | "resourceVersion"
            | "creationTimestamp" => (value.is_string(), "string"),
            "labels" | "annotations" => {
                let object = value.as_object();
                let is_right = object.is_some_and(|object| object.values().all(of_text));
                (is_right, "object of strings")
            }
            "finalizers" => {
                let is_right = value
                    .as_array()
                    .is_some_and(|list| list.iter().all(of_text));
                (is_right, "array of strings")
            }
            "ownerReferences" | "managedFields" => {
                let list = value.as_array();
                let is_right = list.is_some_and(|list| list.iter().all(Value::is_object));
                (is_right, "array of objects")
            }
            _ => continue,
        };
        if !is_right && !value.is_null() {
            return Err(mistyped(&["metadata.", member].concat(), wanted));
        }
    }
    Ok(())
}

/// The response for an object that cannot be decoded.
pub(super) fn mistyped(what: &str, wanted: &str) -> Status {
    Status::bad_request(
        [
            "the object provided is unrecognized: ",
            what,
            " is not of type ",
            wanted,
        ]
        .concat(),
    )
}
