//! How a process reaches the server: as a transport of informers, and as a client for JSON.

use core::fmt;
use std::sync::Arc;

use informer_core::transport::{BoxChunk, BoxFuture, BoxSend, FailureKind, Get, SendTransport};
use informer_core::{Body, Head, OwnedResource, Transport};
use serde_json::Value;

use super::body::LifeBody;
use super::paths::path;
use super::process::{Life, Process};
use informer_mock::MockError;

impl Process {
    /// Returns a transport for informers.
    #[must_use]
    pub fn transport(&self) -> ProcessTransport {
        ProcessTransport {
            life: Arc::clone(&self.life),
        }
    }

    /// Returns a client that reads and writes JSON.
    #[must_use]
    pub fn client(&self) -> Client {
        Client {
            life: Arc::clone(&self.life),
        }
    }
}

/// The transport of a [`Process`].
#[derive(Clone)]
pub struct ProcessTransport {
    life: Arc<Life>,
}

/// The body of a response to a [`ProcessTransport`].
pub struct ProcessBody {
    body: LifeBody,
    buffer: Vec<u8>,
    has_ended: bool,
}

impl Transport for ProcessTransport {
    type Body = ProcessBody;
    type Error = MockError;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, ProcessBody), MockError> {
        let opened = self.life.open(get.target, get.accept).await;
        let (head, body) = opened.map_err(MockError::new)?;
        let body = ProcessBody {
            body,
            buffer: Vec::new(),
            has_ended: false,
        };
        Ok((head.to_head(), body))
    }
}

impl Body for ProcessBody {
    type Error = MockError;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, MockError> {
        if self.has_ended {
            return Ok(None);
        }
        match self.body.chunk().await.map_err(MockError::new)? {
            Some(bytes) => {
                self.buffer = bytes;
                Ok(Some(&self.buffer))
            }
            None => {
                self.has_ended = true;
                Ok(None)
            }
        }
    }
}

impl SendTransport for ProcessTransport {
    fn boxed_ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.ready())
    }

    fn boxed_send<'a>(&'a mut self, get: Get<'a>) -> BoxSend<'a, Self> {
        Box::pin(self.send(get))
    }

    fn boxed_chunk<E: Send + 'static>(
        body: &mut Self::Body,
        error: fn(Self::Error) -> E,
    ) -> BoxChunk<'_, E> {
        Box::pin(async move { body.chunk().await.map_err(error) })
    }
}

impl fmt::Debug for ProcessTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessTransport").finish_non_exhaustive()
    }
}

impl fmt::Debug for ProcessBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessBody").finish_non_exhaustive()
    }
}

/// A client of a [`Process`] that reads and writes JSON. Reads are of the newest state.
///
/// Resources are named as in kubectl: `pods`, `deployments.apps`.
#[derive(Clone)]
pub struct Client {
    life: Arc<Life>,
}

impl Client {
    /// Reads an object; `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if the server rejects the request or cannot be reached.
    pub async fn get(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ApiError> {
        let target = self.path(resource, namespace, name)?;
        existing(self.read(&target).await)
    }

    /// Reads the objects of a namespace, or of all namespaces if it is empty.
    ///
    /// # Errors
    /// Fails if the server rejects the request or cannot be reached.
    pub async fn list(&self, resource: &str, namespace: &str) -> Result<Vec<Value>, ApiError> {
        let target = self.path(resource, namespace, "")?;
        let mut list = self.read(&target).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Creates an object, and returns it as stored.
    ///
    /// # Errors
    /// Fails if the server rejects the request or cannot be reached.
    pub async fn create(&self, resource: &str, object: &Value) -> Result<Value, ApiError> {
        let target = self.path(resource, text(object, "namespace"), "")?;
        self.write("POST", &target, object).await
    }

    /// Replaces an object, and returns it as stored. It is a conflict if the object has another version.
    ///
    /// # Errors
    /// Fails if the server rejects the request or cannot be reached.
    pub async fn replace(&self, resource: &str, object: &Value) -> Result<Value, ApiError> {
        let (namespace, name) = (text(object, "namespace"), text(object, "name"));
        let target = self.path(resource, namespace, name)?;
        self.write("PUT", &target, object).await
    }

    /// Replaces the status of an object, and returns the object as stored.
    ///
    /// # Errors
    /// Fails if the server rejects the request or cannot be reached.
    pub async fn replace_status(&self, resource: &str, object: &Value) -> Result<Value, ApiError> {
        let (namespace, name) = (text(object, "namespace"), text(object, "name"));
        let target = self.path(resource, namespace, name)? + "/status";
        self.write("PUT", &target, object).await
    }

    /// Changes an object by a merge patch, and returns it as stored.
    ///
    /// # Errors
    /// Fails if the server rejects the request or cannot be reached.
    pub async fn patch(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, ApiError> {
        let target = self.path(resource, namespace, name)?;
        self.write("PATCH", &target, patch).await
    }

    /// Deletes an object. Returns the server's answer; `None` if the object does not exist.
    ///
    /// # Errors
    /// Fails if the server rejects the request or cannot be reached.
    pub async fn delete(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ApiError> {
        let target = self.path(resource, namespace, name)?;
        existing(self.write("DELETE", &target, &Value::Null).await)
    }

    fn resource(&self, resource: &str) -> Result<OwnedResource, ApiError> {
        let found = self.life.shared.resource(resource);
        found.ok_or_else(|| ApiError {
            status: 404,
            reason: "NotFound".to_string(),
            message: format!("the server has no resource {resource:?}"),
        })
    }

    fn path(&self, resource: &str, namespace: &str, name: &str) -> Result<String, ApiError> {
        Ok(path(&self.resource(resource)?, namespace, name))
    }

    async fn read(&self, target: &str) -> Result<Value, ApiError> {
        let opened = self.life.open(target, "application/json").await;
        let (head, mut body) = opened.map_err(ApiError::of_connection)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = body.chunk().await.map_err(ApiError::of_connection)? {
            bytes.extend_from_slice(&chunk);
        }
        ApiError::check(head.status, &bytes)
    }

    async fn write(&self, method: &str, target: &str, body: &Value) -> Result<Value, ApiError> {
        let (content_type, body) = body_of(method, body);
        let answer = self.life.write(method, target, content_type, &body).await;
        let (status, answer) = answer.map_err(ApiError::of_connection)?;
        ApiError::check(status, &answer)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Returns `None` for an object that does not exist.
fn existing(response: Result<Value, ApiError>) -> Result<Option<Value>, ApiError> {
    match response {
        Err(error) if error.status == 404 => Ok(None),
        response => response.map(Some),
    }
}

/// Returns the content type and the bytes of a request's body.
pub(super) fn body_of(method: &str, body: &Value) -> (&'static str, Vec<u8>) {
    let content_type = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let bytes = match body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    (content_type, bytes)
}

fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object["metadata"][member].as_str().unwrap_or_default()
}

/// The error of a request by a [`Client`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiError {
    /// The HTTP status, or 0 if there was no response. The request may have taken effect even so.
    pub status: u16,
    /// The reason, such as `Conflict` or `AlreadyExists`.
    pub reason: String,
    /// The message for people.
    pub message: String,
}

impl ApiError {
    /// Returns whether the object has changed since it was read.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// Returns whether the object exists already.
    #[must_use]
    pub fn already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    pub(super) fn of_connection(kind: FailureKind) -> Self {
        Self {
            status: 0,
            reason: String::new(),
            message: kind.to_string(),
        }
    }

    fn check(status: u16, body: &[u8]) -> Result<Value, Self> {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        if (200..300).contains(&status) {
            return Ok(value);
        }
        let text = |member: &str| value[member].as_str().unwrap_or_default().to_string();
        Err(Self {
            status,
            reason: text("reason"),
            message: text("message"),
        })
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.status > 0 {
            write!(f, "{} {}: ", self.status, self.reason)?;
        }
        f.write_str(&self.message)
    }
}

impl core::error::Error for ApiError {}

informer_core::readable_errors!(ApiError);
