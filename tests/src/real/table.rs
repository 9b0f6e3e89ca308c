//! A resource, and the writes of tests to it.

use std::collections::BTreeMap;

use http::Method;
use informer_core::OwnedResource;
use serde_json::{Value, json};

use super::cluster::GROUP;
use super::{Cluster, Error, Outcome};

/// Key to uid and version.
pub type Versions = BTreeMap<String, (String, String)>;

/// A resource with objects that belong to one test.
#[derive(Clone)]
pub struct Table {
    pub(super) cluster: Cluster,
    pub(super) path: String,
    pub(super) definition: String,
    pub(super) kind: String,
    pub(super) resource: OwnedResource,
    /// The namespace of a built-in resource.
    pub(super) namespace: Option<String>,
}

impl Table {
    /// The resource to watch.
    #[must_use]
    pub const fn resource(&self) -> &OwnedResource {
        &self.resource
    }

    /// The cluster that serves it.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The name of the definition: `plural.group`.
    #[must_use]
    pub fn definition(&self) -> &str {
        &self.definition
    }

    /// The kind of its objects.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The path of its objects.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The namespace of its objects.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    /// Sends a request for an object, or for all of them if `name` is empty; returns status and body.
    ///
    /// # Errors
    /// Fails if there is no answer within a minute.
    pub async fn request(
        &self,
        method: Method,
        name: &str,
        body: Option<&Value>,
    ) -> Outcome<(u16, Value)> {
        let path = format!("{}/{name}", self.path);
        let path = path.trim_end_matches('/');
        self.cluster.request(method, path, body).await
    }

    /// Creates an object; returns its version.
    ///
    /// # Errors
    /// Fails if the server rejects it.
    pub async fn create(&self, name: &str, value: u64) -> Outcome<String> {
        if self.namespace.is_some() {
            return self.create_minimal(name, value).await;
        }
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": self.kind,
            "metadata": { "name": name, "labels": { "value": value.to_string() } },
            "spec": { "value": value, "text": "x".repeat(200) },
        });
        let (status, answer) = self.request(Method::POST, "", Some(&object)).await?;
        version(status, &answer, &[201], "create", name)
    }

    /// Returns the objects of one namespace, to which informers are restricted, of a built-in resource in all namespaces.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        if let Some((head, plural)) = self.path.rsplit_once('/') {
            self.path = format!("{head}/namespaces/{namespace}/{plural}");
            self.resource = self.resource.as_ref().namespace(namespace).into();
            self.namespace = Some(namespace.to_owned());
        }
        self
    }

    /// Creates a minimal object, also of a built-in resource.
    ///
    /// # Errors
    /// Fails if the server rejects it.
    pub async fn create_minimal(&self, name: &str, value: u64) -> Outcome<String> {
        let api_version = self.resource.as_ref().api_version().to_string();
        let mut object = json!({
            "apiVersion": api_version, "kind": self.kind,
            "metadata": {
                "name": name,
                "labels": { "value": value.to_string() },
                "annotations": { "text": "x".repeat(200) },
            },
        });
        if self.kind == "Pod" {
            let container = json!({ "name": "main", "image": "registry.example.com/main:1" });
            object["spec"] = json!({ "containers": [container] });
        }
        let (status, answer) = self.request(Method::POST, "", Some(&object)).await?;
        version(status, &answer, &[201], "create", name)
    }

    /// Changes a label of any object.
    ///
    /// # Errors
    /// Fails if the server rejects it.
    pub async fn label(&self, name: &str, value: u64) -> Outcome<String> {
        let patch = json!({ "metadata": { "labels": { "value": value.to_string() } } });
        let (status, answer) = self.request(Method::PATCH, name, Some(&patch)).await?;
        version(status, &answer, &[200], "label", name)
    }

    /// Creates the objects `PREFIX-0000` and so on, several at a time.
    ///
    /// # Errors
    /// Fails if the server rejects one.
    pub async fn create_many(&self, prefix: &str, count: usize) -> Outcome {
        let mut tasks = tokio::task::JoinSet::new();
        for lane in 0..8 {
            let (table, prefix) = (self.clone(), prefix.to_owned());
            tasks.spawn(async move {
                for index in (lane..count).step_by(8) {
                    table
                        .create(&format!("{prefix}-{index:05}"), index as u64)
                        .await?;
                }
                Ok::<(), Error>(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Updates an object; returns its version. The version changes only if the value does.
    ///
    /// # Errors
    /// Fails if the server rejects it.
    pub async fn update(&self, name: &str, value: u64) -> Outcome<String> {
        let patch = if self.namespace.is_some() {
            json!({ "metadata": { "annotations": { "changed": value.to_string() } } })
        } else {
            json!({ "spec": { "changed": value } })
        };
        let (status, answer) = self.request(Method::PATCH, name, Some(&patch)).await?;
        version(status, &answer, &[200], "update", name)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// Fails if the server rejects it.
    pub async fn delete(&self, name: &str) -> Outcome {
        let (status, answer) = self.request(Method::DELETE, name, None).await?;
        if status == 200 {
            Ok(())
        } else {
            Err(format!("delete {name}: {status} {answer}").into())
        }
    }

    /// Lists the objects from etcd; returns this true state and its version.
    ///
    /// # Errors
    /// Fails if the server does not answer with a list.
    pub async fn list(&self) -> Outcome<(Versions, String)> {
        let (status, list) = self.request(Method::GET, "", None).await?;
        if status != 200 {
            return Err(format!("list: {status} {list}").into());
        }
        let version = list["metadata"]["resourceVersion"].as_str();
        Ok((versions(&list)?, version.unwrap_or_default().to_owned()))
    }
}

/// Returns the state in a list as JSON.
///
/// # Errors
/// Fails if it is no list.
pub fn versions(list: &Value) -> Outcome<Versions> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().ok_or("it has no items")?;
    let state = items.iter().map(|item| {
        let meta = &item["metadata"];
        let key = match meta["namespace"].as_str() {
            Some(namespace) => format!("{namespace}/{}", text(&meta["name"])),
            None => text(&meta["name"]),
        };
        (key, (text(&meta["uid"]), text(&meta["resourceVersion"])))
    });
    Ok(state.collect())
}

fn version(status: u16, answer: &Value, wanted: &[u16], what: &str, name: &str) -> Outcome<String> {
    if !wanted.contains(&status) {
        return Err(format!("{what} {name}: {status} {answer}").into());
    }
    let version = answer["metadata"]["resourceVersion"].as_str();
    Ok(version.ok_or("an object without a version")?.to_owned())
}
