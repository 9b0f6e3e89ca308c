//! User-defined admission.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde_json::{Value, json};

use crate::server::FakeServer;
use crate::status::Status;

/// The kind of a write that is to be admitted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// The object is to be created.
    Create,
    /// The object is to be changed.
    Update,
    /// The object is to be deleted.
    Delete,
}

/// A write that is to be admitted, as an admission webhook receives it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Admission<'a> {
    /// The requested operation.
    pub operation: Operation,
    /// The plural name of the resource.
    pub resource: &'a str,
    /// The group of the resource.
    pub group: &'a str,
    /// `status`, `scale`, or empty.
    pub subresource: &'a str,
    /// The namespace, or an empty string for a cluster-scoped object.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
    /// The object to be stored, which can be changed; null for a deletion.
    pub object: &'a mut Value,
    /// The stored object, if there is one.
    pub old: Option<&'a Value>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
}

type Hook = Box<dyn FnMut(&mut Admission<'_>) -> Result<(), String> + Send>;

/// The hooks of a server, in the order in which they were added.
#[derive(Default)]
pub(in crate::server) struct Hooks(Vec<(String, Hook)>);

impl Hooks {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls all hooks. The first refusal counts.
    pub(super) fn call(&mut self, mut admission: Admission<'_>) -> Result<(), Status> {
        for (name, hook) in &mut self.0 {
            hook(&mut admission).map_err(|message| {
                let denied = ["admission webhook \"", name, "\" denied the request"].concat();
                let text = if message.is_empty() {
                    [&denied, " without explanation"].concat()
                } else {
                    [&denied, ": ", &message].concat()
                };
                Status::new(403, "Forbidden", text).details(json!({}))
            })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

/// # Admission
impl FakeServer {
    /// Adds a hook that is called for every write by [`execute`](Self::execute) before it is validated, like an
    /// admission webhook. It can change the object or refuse the write with a message.
    ///
    /// Hooks are called in the order in which they were added, also for dry runs. Changes by the garbage collector and
    /// by [`create`](Self::create) and its siblings are not admitted.
    ///
    /// ```
    /// use informer_mock::{FakeServer, Instant, Operation, Write, json};
    ///
    /// let mut server = FakeServer::new(1);
    /// server.add_admission("owners.example.com", |request| {
    ///     if request.operation == Operation::Create && request.object["metadata"]["labels"]["team"].is_null() {
    ///         return Err("the label team is missing".into());
    ///     }
    ///     Ok(())
    /// });
    /// let write = Write {
    ///     method: "POST",
    ///     target: "/api/v1/namespaces/prod/configmaps",
    ///     content_type: "application/json",
    ///     body: br#"{"metadata":{"name":"web"}}"#,
    /// };
    /// let (status, body) = server.execute(Instant::from_micros(0), write);
    /// assert_eq!(status, 403);
    /// let message = "admission webhook \\\"owners.example.com\\\" denied the request: the label team is missing";
    /// assert!(String::from_utf8_lossy(&body).contains(message));
    /// ```
    pub fn add_admission(
        &mut self,
        name: &str,
        hook: impl FnMut(&mut Admission<'_>) -> Result<(), String> + Send + 'static,
    ) {
        self.hooks.0.push((name.into(), Box::new(hook)));
    }
}
