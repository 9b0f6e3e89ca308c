//! A cluster: the identities of clients, and the writes of tests.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Uri};
use informer_core::OwnedResource;
use informer_hyper::HyperTransport;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::{Value, json};

use super::{Error, Outcome, Recorded};

/// Key to uid and version.
pub type Versions = BTreeMap<String, (String, String)>;

/// The protocol between an informer under test and the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// The identity of an informer under test.
#[derive(Clone, Debug, Default)]
pub enum Identity {
    /// The user of the kubeconfig.
    #[default]
    Admin,
    /// The holder of this token.
    Token(String),
    /// The holder of the token in this file.
    TokenFile(PathBuf),
    /// The holder of the certificate and key in these files.
    Certificate(PathBuf, PathBuf),
}

/// A cluster that tests write to.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    config: Config,
    file: Kubeconfig,
    /// The definitions created by this cluster and its clones.
    made: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    /// Reads a kubeconfig.
    ///
    /// # Errors
    /// Fails if it cannot be used.
    pub async fn open(kubeconfig: &Path) -> Outcome<Self> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let config =
            Config::from_custom_kubeconfig(file.clone(), &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config.clone())?;
        Ok(Self {
            client,
            config,
            file,
            made: Arc::default(),
        })
    }

    /// Returns the configuration of a client.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the address of the API server.
    ///
    /// # Errors
    /// Fails if its name cannot be resolved.
    pub async fn address(&self) -> Outcome<SocketAddr> {
        let (host, port) = host_and_port(&self.config.cluster_url)?;
        let found = tokio::net::lookup_host((host.as_str(), port)).await?.next();
        found.ok_or_else(|| format!("{host} has no address").into())
    }

    /// Makes a transport for an informer, directly to the server or through a proxy.
    ///
    /// # Errors
    /// Fails if the kubeconfig contains something that a transport does not support.
    pub fn transport(
        &self,
        protocol: Protocol,
        identity: &Identity,
        through: Option<SocketAddr>,
    ) -> Outcome<Recorded<HyperTransport>> {
        let builder = self.kubeconfig(identity, through)?.builder()?;
        let builder = match protocol {
            Protocol::Http1 => builder.http2(false),
            Protocol::Http2 => builder.http1(false),
        };
        Ok(Recorded::new(builder.build()?))
    }

    /// Returns the kubeconfig with another address of the server or another user, if requested.
    fn kubeconfig(
        &self,
        identity: &Identity,
        through: Option<SocketAddr>,
    ) -> Outcome<informer_hyper::Kubeconfig> {
        let mut file = serde_json::to_value(&self.file)?;
        let context =
            &file["contexts"][Self::place(&file, "contexts", &file["current-context"])?]["context"];
        let cluster = Self::place(&file, "clusters", &context["cluster"])?;
        let user = Self::place(&file, "users", &context["user"])?;
        if let Some(proxy) = through {
            let (host, _) = host_and_port(&self.config.cluster_url)?;
            let cluster = &mut file["clusters"][cluster]["cluster"];
            cluster["server"] = format!("https://{proxy}").into();
            if host != proxy.ip().to_string() && cluster["tls-server-name"].is_null() {
                cluster["tls-server-name"] = host.into();
            }
        }
        match identity {
            Identity::Admin => {}
            Identity::Token(token) => file["users"][user]["user"] = json!({ "token": token }),
            Identity::TokenFile(path) => file["users"][user]["user"] = json!({ "tokenFile": path }),
            Identity::Certificate(chain, key) => {
                file["users"][user]["user"] =
                    json!({ "client-certificate": chain, "client-key": key });
            }
        }
        // Valid, because JSON is YAML.
        let mut changed = tempfile::NamedTempFile::new()?;
        std::io::Write::write_all(&mut changed, file.to_string().as_bytes())?;
        Ok(informer_hyper::Kubeconfig::from_file(changed.path())?)
    }

    fn place(file: &Value, list: &str, name: &Value) -> Outcome<usize> {
        let entries = file[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let place = entries.iter().position(|entry| &entry["name"] == name);
        Ok(place.ok_or_else(|| format!("the kubeconfig has no {name} in {list}"))?)
    }

    /// Sends a request; returns status and body.
    ///
    /// # Errors
    /// Fails if there is no answer within a minute.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Outcome<(u16, Value)> {
        let what = format!("{method} {path}: no answer within a minute");
        let answer = self.answer(method, path, body);
        let answer = tokio::time::timeout(Duration::from_secs(60), answer).await;
        answer.map_err(|_| what)?
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Outcome<(u16, Value)> {
        let kind = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(kube_client::client::Body::from(body.into_bytes()))?;
        let response = self.client.send(request).await?;
        let status = response.status().as_u16();
        let bytes = http_body_util::BodyExt::collect(response.into_body())
            .await?
            .to_bytes();
        Ok((
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        ))
    }

    /// Returns every resource that discovery lists and that can be listed and watched, each in one version, without the
    /// custom resources of tests, which come and go.
    ///
    /// # Errors
    /// Fails if discovery does.
    pub async fn resources(&self) -> Outcome<Vec<Table>> {
        let (_, groups) = self.request(Method::GET, "/apis", None).await?;
        let groups = groups["groups"].as_array().ok_or("there are no groups")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut places = vec![("/api/v1".to_owned(), String::new(), "v1".to_owned())];
        let lasting = |group: &&Value| {
            !["informer.test", "example.com"].contains(&group["name"].as_str().unwrap_or_default())
        };
        places.extend(groups.iter().filter(lasting).map(|group| {
            let preferred = &group["preferredVersion"];
            let path = format!("/apis/{}", text(&preferred["groupVersion"]));
            (path, text(&group["name"]), text(&preferred["version"]))
        }));
        let mut tables = Vec::new();
        for (path, group, version) in places {
            let (status, list) = self.request(Method::GET, &path, None).await?;
            let resources = list["resources"]
                .as_array()
                .ok_or_else(|| format!("{path}: {status}"))?;
            for resource in resources {
                let verbs = resource["verbs"].to_string();
                let plural = text(&resource["name"]);
                if verbs.contains("\"list\"") && verbs.contains("\"watch\"") {
                    let kind = text(&resource["kind"]);
                    tables.push(Table {
                        cluster: self.clone(),
                        path: format!("{path}/{plural}"),
                        definition: format!("{plural}.{version}.{group}"),
                        resource: informer_core::Resource::new(&group, &version, &plural)
                            .kind(&kind)
                            .into(),
                        kind,
                    });
                }
            }
        }
        Ok(tables)
    }

    /// Returns a resource that discovery lists, such as `pods.v1.`.
    ///
    /// # Errors
    /// Fails if there is none of that name.
    pub async fn built_in(&self, definition: &str) -> Outcome<Table> {
        let all = self.resources().await?;
        let found = all.into_iter().find(|table| table.definition == definition);
        Ok(found.ok_or_else(|| format!("there are no {definition}"))?)
    }

    /// Returns a resource that need not be there, with its objects in the namespace `default`.
    ///
    /// # Errors
    /// Fails if the name is not one of a resource.
    pub fn foreign(&self, group: &str, plural: &str, kind: &str) -> Outcome<Table> {
        Ok(Table {
            cluster: self.clone(),
            path: format!("/apis/{group}/v1/namespaces/default/{plural}"),
            definition: format!("{plural}.{group}"),
            kind: kind.to_owned(),
            resource: format!("{plural}.v1.{group}").parse()?,
        })
    }

    /// Creates a CustomResourceDefinition whose plural starts with `name`, for objects in the namespace `default`,
    /// and waits until it is served.
    ///
    /// # Errors
    /// Fails if the server rejects it, or does not serve it within a minute.
    pub async fn table(&self, name: &str) -> Outcome<Table> {
        // Unique per run, so that an aborted run does not interfere.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let plural = format!("{name}{:x}", now.as_nanos());
        let group = "informer.test";
        let kind = {
            let (first, rest) = plural.split_at(1);
            format!("{}{rest}", first.to_uppercase())
        };
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}"), "labels": { "made-by": "informer-tests" } },
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": { "plural": plural, "singular": plural, "kind": kind, "shortNames": [format!("s{plural}")] },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    } },
                }],
            },
        });
        self.made().push(format!("{plural}.{group}"));
        let (status, answer) = self
            .request(Method::POST, DEFINITIONS, Some(&definition))
            .await?;
        if status != 201 {
            return Err(
                format!("no CustomResourceDefinition could be made: {status} {answer}").into(),
            );
        }
        let resource: OwnedResource = format!("{plural}.v1.{group}").parse()?;
        let table = Table {
            cluster: self.clone(),
            path: format!("/apis/{group}/v1/namespaces/default/{plural}"),
            definition: format!("{plural}.{group}"),
            kind,
            resource,
        };
        self.serves(&table).await?;
        Ok(table)
    }

    /// Deletes every definition created by this cluster and its clones with all objects, however a test ended.
    ///
    /// # Errors
    /// Fails if the server does not answer.
    pub async fn clean_up(&self) -> Outcome {
        let made = core::mem::take(&mut *self.made());
        for definition in made {
            let path = format!("{DEFINITIONS}/{definition}");
            self.request(Method::DELETE, &path, None).await?;
        }
        Ok(())
    }

    fn made(&self) -> MutexGuard<'_, Vec<String>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this server serves a table.
    ///
    /// # Errors
    /// Fails if it does not within a minute.
    pub async fn serves(&self, table: &Table) -> Outcome {
        let end = tokio::time::Instant::now() + Duration::from_secs(60);
        while tokio::time::Instant::now() < end {
            let answer = self.request(Method::GET, &table.path, None).await;
            if answer.is_ok_and(|(status, _)| status == 200) {
                // Another server behind the same address, and discovery, may need a little longer.
                tokio::time::sleep(Duration::from_millis(500)).await;
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Err(format!("{} is not served within a minute", table.definition).into())
    }

    /// Returns the same objects through another server.
    #[must_use]
    pub fn view(&self, table: &Table) -> Table {
        Table {
            cluster: self.clone(),
            ..table.clone()
        }
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn host_and_port(url: &Uri) -> Outcome<(String, u16)> {
    let host = url.host().ok_or("the kubeconfig's server has no host")?;
    let port = url.port_u16().unwrap_or(443);
    Ok((host.trim_matches(['[', ']']).to_owned(), port))
}

/// A custom resource that belongs to one test.
#[derive(Clone)]
pub struct Table {
    cluster: Cluster,
    path: String,
    definition: String,
    kind: String,
    resource: OwnedResource,
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

    /// Creates an object; returns its version.
    ///
    /// # Errors
    /// Fails if the server rejects it.
    pub async fn create(&self, name: &str, value: u64) -> Outcome<String> {
        let object = json!({
            "apiVersion": "informer.test/v1", "kind": self.kind,
            "metadata": { "name": name, "labels": { "value": value.to_string() } },
            "spec": { "value": value, "text": "x".repeat(200) },
        });
        let (status, answer) = self
            .cluster
            .request(Method::POST, &self.path, Some(&object))
            .await?;
        version(status, &answer, &[201], "create", name)
    }

    /// Returns the objects of one namespace, of a built-in resource in all namespaces.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        if let Some((head, plural)) = self.path.rsplit_once('/') {
            self.path = format!("{head}/namespaces/{namespace}/{plural}");
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
            "metadata": { "name": name, "labels": { "value": value.to_string() } },
        });
        if self.kind == "Pod" {
            let container = json!({ "name": "main", "image": "registry.example.com/main:1" });
            object["spec"] = json!({ "containers": [container] });
        }
        let (status, answer) = self
            .cluster
            .request(Method::POST, &self.path, Some(&object))
            .await?;
        version(status, &answer, &[201], "create", name)
    }

    /// Changes a label of any object.
    ///
    /// # Errors
    /// Fails if the server rejects it.
    pub async fn label(&self, name: &str, value: u64) -> Outcome<String> {
        let patch = json!({ "metadata": { "labels": { "value": value.to_string() } } });
        let path = format!("{}/{name}", self.path);
        let (status, answer) = self
            .cluster
            .request(Method::PATCH, &path, Some(&patch))
            .await?;
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
        let patch = json!({ "spec": { "changed": value } });
        let path = format!("{}/{name}", self.path);
        let (status, answer) = self
            .cluster
            .request(Method::PATCH, &path, Some(&patch))
            .await?;
        version(status, &answer, &[200], "update", name)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// Fails if the server rejects it.
    pub async fn delete(&self, name: &str) -> Outcome {
        let path = format!("{}/{name}", self.path);
        let (status, answer) = self.cluster.request(Method::DELETE, &path, None).await?;
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
        let (status, list) = self.cluster.request(Method::GET, &self.path, None).await?;
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
