//! A cluster: the identities of clients, and the writes of tests.

use core::net::SocketAddr;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Uri};
use informer_core::OwnedResource;
use informer_hyper::HyperTransport;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::{Value, json};

use super::{Outcome, Recorded, Table};

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
    /// The paths of definitions and namespaces created by this cluster and its clones.
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
                        namespace: None,
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
            namespace: None,
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
        let group = GROUP;
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
        self.made().push(format!("{DEFINITIONS}/{plural}.{group}"));
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
            namespace: None,
        };
        self.serves(&table).await?;
        Ok(table)
    }

    /// Returns a built-in resource in a namespace that is created for it, whose name starts with `name`.
    ///
    /// # Errors
    /// Fails if there is no such resource, or if the server rejects the namespace.
    pub async fn built_in_apart(&self, definition: &str, name: &str) -> Outcome<Table> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let namespace = format!("{name}{:x}", now.as_nanos());
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": namespace, "labels": { "made-by": "informer-tests" } },
        });
        self.made().push(format!("{NAMESPACES}/{namespace}"));
        let (status, answer) = self
            .request(Method::POST, NAMESPACES, Some(&object))
            .await?;
        if status != 201 {
            return Err(format!("no namespace could be made: {status} {answer}").into());
        }
        Ok(self.built_in(definition).await?.in_namespace(&namespace))
    }

    /// Deletes every definition and namespace created by this cluster and its clones with all objects, however a test
    /// ended.
    ///
    /// # Errors
    /// Fails if the server does not answer.
    pub async fn clean_up(&self) -> Outcome {
        let made = core::mem::take(&mut *self.made());
        for path in made {
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

/// The group of the custom resources of tests.
pub(super) const GROUP: &str = "informer.test";
const NAMESPACES: &str = "/api/v1/namespaces";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn host_and_port(url: &Uri) -> Outcome<(String, u16)> {
    let host = url.host().ok_or("the kubeconfig's server has no host")?;
    let port = url.port_u16().unwrap_or(443);
    Ok((host.trim_matches(['[', ']']).to_owned(), port))
}
