//! The contents of kubeconfig files, and how several files are merged.
//!
//! The rules are those of `kubectl`; the tests in `tests/all/kubeconfig` compare them.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use crate::credentials::Secret;
use crate::kubeconfig::yaml;

/// The entries of one or more files.
#[derive(Clone, Default)]
pub(super) struct File {
    pub(super) current_context: Option<String>,
    pub(super) contexts: Entries<Context>,
    pub(super) clusters: Entries<Cluster>,
    pub(super) users: Entries<User>,
}

pub(super) type Entries<T> = Vec<(String, T)>;

#[derive(Clone)]
pub(super) struct Context {
    pub(super) cluster: String,
    pub(super) user: Option<String>,
    pub(super) namespace: Option<String>,
}

#[derive(Clone, PartialEq)]
pub(super) struct Cluster {
    pub(super) server: Option<String>,
    pub(super) tls_server_name: Option<String>,
    pub(super) insecure: bool,
    pub(super) ca: Material,
    pub(super) proxy_url: Option<String>,
    pub(super) disable_compression: bool,
    /// The configuration for exec plugins in the cluster's extensions.
    pub(super) exec_config: Value,
}

#[derive(Clone, PartialEq)]
pub(super) struct User {
    pub(super) certificate: Material,
    pub(super) key: Material,
    pub(super) token: Option<String>,
    pub(super) token_file: Option<PathBuf>,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) impersonate: Option<String>,
    pub(super) impersonate_uid: Option<String>,
    pub(super) impersonate_groups: Vec<String>,
    pub(super) impersonate_extra: Vec<(String, Vec<String>)>,
    pub(super) auth_provider: Option<AuthProvider>,
    pub(super) exec: Option<ExecConfig>,
}

/// An auth provider. Of its configuration, only the token of `oidc` is used.
#[derive(Clone, PartialEq)]
pub(super) struct AuthProvider {
    pub(super) name: String,
    pub(super) id_token: Option<String>,
}

/// A certificate or a key. It is inline or in a file; both is an error.
#[derive(Clone, PartialEq)]
pub(super) struct Material {
    pub(super) data: Option<Secret>,
    pub(super) file: Option<PathBuf>,
}

#[derive(Clone, PartialEq)]
pub(super) struct ExecConfig {
    pub(super) api_version: Option<String>,
    pub(super) command: Option<PathBuf>,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) install_hint: Option<String>,
    pub(super) interactive_mode: Option<String>,
    pub(super) provide_cluster_info: bool,
}

impl File {
    /// Parses the text of a file. Relative paths in it are resolved against `folder`.
    pub(super) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let value = yaml::parse(text)?;
        let root = Fields::of(&value, "the file", folder)?;
        for (name, expected) in [("apiVersion", "v1"), ("kind", "Config")] {
            if let Some(given) = root.text(name)?.filter(|given| given != expected) {
                return Err(format!("its {name} is {given:?} rather than {expected}"));
            }
        }
        Ok(Self {
            current_context: root.text("current-context")?,
            contexts: root.entries("contexts", "context", Context::of)?,
            clusters: root.entries("clusters", "cluster", Cluster::of)?,
            users: root.entries("users", "user", User::of)?,
        })
    }

    /// Adds the entries of another file. For each entry and for the current context, the first file that has it takes
    /// precedence. Entries of the same name are not merged.
    pub(super) fn merge(&mut self, next: Self) {
        fn add<T>(entries: &mut Entries<T>, next: Entries<T>) {
            for (name, entry) in next {
                if entries.iter().all(|(known, _)| *known != name) {
                    entries.push((name, entry));
                }
            }
        }
        self.current_context = self.current_context.take().or(next.current_context);
        add(&mut self.contexts, next.contexts);
        add(&mut self.clusters, next.clusters);
        add(&mut self.users, next.users);
    }
}

impl Context {
    fn of(fields: &Fields<'_>) -> Result<Self, String> {
        Ok(Self {
            cluster: fields.text("cluster")?.unwrap_or_default(),
            user: fields.text("user")?,
            namespace: fields.text("namespace")?,
        })
    }
}

impl Cluster {
    fn of(fields: &Fields<'_>) -> Result<Self, String> {
        let extensions =
            fields.entries("extensions", "extension", |fields| Ok(fields.value.clone()))?;
        let mut extensions = extensions.into_iter();
        let config = extensions.find(|(name, _)| name == "client.authentication.k8s.io/exec");
        Ok(Self {
            server: fields.text("server")?,
            tls_server_name: fields.text("tls-server-name")?,
            insecure: fields.flag("insecure-skip-tls-verify")?,
            ca: fields.material("certificate-authority")?,
            proxy_url: fields.text("proxy-url")?,
            disable_compression: fields.flag("disable-compression")?,
            exec_config: config.map(|(_, config)| config).unwrap_or_default(),
        })
    }
}

impl User {
    fn of(fields: &Fields<'_>) -> Result<Self, String> {
        let extra = fields.fields("as-user-extra")?;
        Ok(Self {
            certificate: fields.material("client-certificate")?,
            key: fields.material("client-key")?,
            token: fields.text("token")?,
            token_file: fields.path("tokenFile")?,
            username: fields.text("username")?,
            password: fields.text("password")?,
            impersonate: fields.text("as")?,
            impersonate_uid: fields.text("as-uid")?,
            impersonate_groups: fields.texts("as-groups")?,
            impersonate_extra: match &extra {
                None => Vec::new(),
                Some(extra) => extra
                    .names()
                    .map(|name| Ok((name.clone(), extra.texts(name)?)))
                    .collect::<Result<_, String>>()?,
            },
            auth_provider: fields
                .fields("auth-provider")?
                .map(|provider| AuthProvider::of(&provider))
                .transpose()?,
            exec: fields
                .fields("exec")?
                .map(|exec| ExecConfig::of(&exec))
                .transpose()?,
        })
    }
}

impl AuthProvider {
    fn of(fields: &Fields<'_>) -> Result<Self, String> {
        let config = fields.fields("config")?;
        Ok(Self {
            name: fields.text("name")?.unwrap_or_default(),
            id_token: config
                .map(|config| config.text("id-token"))
                .transpose()?
                .flatten(),
        })
    }
}

impl ExecConfig {
    fn of(fields: &Fields<'_>) -> Result<Self, String> {
        let command = fields.text("command")?;
        let environment = fields.list("env")?.iter().map(|value| {
            let pair = Fields::of(value, "env", fields.folder)?;
            let name = pair.text("name")?;
            let name = name.ok_or("an environment variable of the exec plugin has no name")?;
            Ok((name, pair.text("value")?.unwrap_or_default()))
        });
        Ok(Self {
            api_version: fields.text("apiVersion")?,
            // A bare name is looked up in PATH.
            command: command.map(|command| {
                if command.contains(std::path::MAIN_SEPARATOR) {
                    fields.folder.join(command)
                } else {
                    command.into()
                }
            }),
            arguments: fields.texts("args")?,
            environment: environment.collect::<Result<_, String>>()?,
            install_hint: fields.text("installHint")?,
            interactive_mode: fields.text("interactiveMode")?,
            provide_cluster_info: fields.flag("provideClusterInfo")?,
        })
    }
}

/// The fields of a map in the file. Null and empty text count as absent. Errors contain a field's name but not its
/// value.
struct Fields<'a> {
    value: &'a Value,
    map: Option<&'a Map<String, Value>>,
    folder: &'a Path,
}

impl<'a> Fields<'a> {
    fn of(value: &'a Value, what: &str, folder: &'a Path) -> Result<Self, String> {
        let map = value.as_object();
        if map.is_none() && !value.is_null() {
            return Err(format!("{what} is not a map"));
        }
        Ok(Self { value, map, folder })
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map?.get(name).filter(|value| !value.is_null())
    }

    fn names(&self) -> impl Iterator<Item = &'a String> {
        self.map.into_iter().flat_map(Map::keys)
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok((!text.is_empty()).then(|| text.clone())),
            Some(_) => Err(format!("{name} is not text; put it in quotes")),
        }
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(format!("{name} is neither true nor false")),
        }
    }

    fn path(&self, name: &str) -> Result<Option<PathBuf>, String> {
        Ok(self.text(name)?.map(|path| self.folder.join(path)))
    }

    fn list(&self, name: &str) -> Result<&'a [Value], String> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(format!("{name} is not a list")),
        }
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        let texts = self.list(name)?.iter().map(|value| {
            let text = value.as_str().map(str::to_owned);
            text.ok_or_else(|| format!("{name} has an item that is not text; put it in quotes"))
        });
        texts.collect()
    }

    fn fields(&self, name: &str) -> Result<Option<Self>, String> {
        let value = self.get(name);
        value
            .map(|value| Self::of(value, name, self.folder))
            .transpose()
    }

    fn material(&self, name: &str) -> Result<Material, String> {
        let data_name = format!("{name}-data");
        let data = self.text(&data_name)?.map(|mut text| {
            // Go ignores line breaks in base64, but no other white space.
            text.retain(|c| !matches!(c, '\r' | '\n'));
            let data = BASE64_STANDARD.decode(text);
            data.map(Secret)
                .map_err(|_| format!("{data_name} is not base64"))
        });
        Ok(Material {
            data: data.transpose()?,
            file: self.path(name)?,
        })
    }

    /// Reads a list of named entries.
    fn entries<T>(
        &self,
        list: &str,
        member: &str,
        read: impl Fn(&Fields<'_>) -> Result<T, String>,
    ) -> Result<Entries<T>, String> {
        let mut entries: Entries<T> = Vec::new();
        for value in self.list(list)? {
            let entry = Fields::of(value, list, self.folder)?;
            let name = entry.text("name")?.unwrap_or_default();
            if entries.iter().any(|(known, _)| *known == name) {
                return Err(format!("{list} has two entries with the name {name:?}"));
            }
            let null = Value::Null;
            let inner = entry.get(member).unwrap_or(&null);
            let inner = if list == "extensions" {
                Fields {
                    value: inner,
                    map: None,
                    folder: self.folder,
                }
            } else {
                Fields::of(inner, member, self.folder)?
            };
            let read = read(&inner).map_err(|why| format!("{member} {name:?}: {why}"))?;
            entries.push((name, read));
        }
        Ok(entries)
    }
}
