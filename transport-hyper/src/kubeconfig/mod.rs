//! The clusters that a user knows, by the files that `kubectl` has.

mod exec;

use core::fmt;
use std::env;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube_client::config::{self as files, AuthInfo, Cluster, Context};
use secrecy::ExposeSecret as _;

use crate::builder::{BuildError, HyperBuilder};
use crate::credentials::{Credential, Fixed, Secret};
use crate::kubeconfig::exec::Exec;
use crate::tls::{Identity, Source};
use crate::transport::HyperTransport;

/// What kubeconfig files say of clusters, users and contexts. `Debug` shows the files' names alone.
///
/// See [Organizing Cluster Access](https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/).
/// What is understood: the server and its CA, `tls-server-name`, `insecure-skip-tls-verify`, `proxy-url`,
/// `disable-compression`; client certificates, tokens, token files, user and password, exec plugins, impersonation.
/// Files that it names are read again when they change. Auth providers, which Kubernetes 1.26 has taken out, are not.
///
/// # Examples
/// ```no_run
/// use informer_hyper::{HyperTransport, Kubeconfig};
///
/// let transport = match Kubeconfig::load()? {
///     Some(config) => config.builder()?.build()?,
///     None => HyperTransport::in_cluster()?.build()?,
/// };
/// # Ok::<(), informer_hyper::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Kubeconfig {
    files: files::Kubeconfig,
    origin: String,
    context: Option<String>,
}

impl Kubeconfig {
    /// Reads what `kubectl` would: the files that `KUBECONFIG` names, the first one first, or `~/.kube/config`. `None`
    /// where there are none of these.
    ///
    /// # Errors
    /// Fails where a file is there and cannot be read.
    pub fn load() -> Result<Option<Self>, BuildError> {
        let named = env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
        let paths = match &named {
            Some(value) => env::split_paths(value).collect(),
            None => home()
                .map(|home| home.join(".kube/config"))
                .into_iter()
                .collect(),
        };
        Self::of_paths(paths)
    }

    fn of_paths(paths: Vec<PathBuf>) -> Result<Option<Self>, BuildError> {
        let mut merged: Option<Self> = None;
        // As kubectl: a file that is not there counts as an empty one.
        for path in paths.iter().filter(|path| path.is_file()) {
            let next = Self::from_file(path)?;
            merged = Some(match merged {
                None => next,
                Some(first) => first.merge(next)?,
            });
        }
        Ok(merged)
    }

    /// Reads one file.
    ///
    /// # Errors
    /// Fails where it cannot be read.
    ///
    /// # Examples
    /// ```
    /// let error = informer_hyper::Kubeconfig::from_file("/nowhere").unwrap_err();
    /// assert!(error.to_string().starts_with("kubeconfig /nowhere: "));
    /// ```
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, BuildError> {
        let path = path.as_ref();
        let origin = path.display().to_string();
        // Its errors show where in the text something is wrong, and so what is there: it may be a secret.
        std::fs::File::open(path)
            .map_err(|error| BuildError(format!("kubeconfig {origin}: {error}")))?;
        match files::Kubeconfig::read_from(path) {
            Ok(files) => Ok(Self {
                files,
                origin,
                context: None,
            }),
            Err(_) => Err(BuildError(format!(
                "kubeconfig {origin}: it is not a kubeconfig file in YAML or JSON"
            ))),
        }
    }

    fn merge(self, next: Self) -> Result<Self, BuildError> {
        let origin = format!("{}:{}", self.origin, next.origin);
        let files = self.files.merge(next.files).map_err(|_| {
            BuildError(format!("kubeconfig {origin}: the files do not go together"))
        })?;
        Ok(Self {
            files,
            origin,
            context: None,
        })
    }

    /// Chooses a context; the current one of the files where this is not called.
    #[must_use]
    pub fn context(self, name: impl Into<String>) -> Self {
        Self {
            context: Some(name.into()),
            ..self
        }
    }

    /// Tells whether the files say which context is used where none is chosen.
    #[must_use]
    pub fn has_current_context(&self) -> bool {
        let current = self.files.current_context.as_ref();
        current.is_some_and(|name| !name.is_empty())
    }

    /// Returns the namespace of the context, where it names one.
    ///
    /// # Errors
    /// Fails where there is no such context.
    pub fn namespace(&self) -> Result<Option<&str>, BuildError> {
        Ok(self.chosen()?.namespace.as_deref())
    }

    /// Starts to set up a transport to the context's cluster as the context's user.
    ///
    /// # Errors
    /// Fails where the context, its cluster or its user are not there, or are of a kind that is not understood. What
    /// their files hold is read by [`HyperBuilder::build`].
    pub fn builder(&self) -> Result<HyperBuilder, BuildError> {
        let context = self.chosen()?;
        let cluster = self.cluster(&context.cluster)?;
        let server = cluster.server.as_deref().unwrap_or_default();
        if server.is_empty() {
            return Err(self.problem(format!("the cluster {:?} has no server", context.cluster)));
        }
        let builder = self.with_cluster(HyperTransport::builder(server), cluster)?;
        match context.user.as_deref().filter(|user| !user.is_empty()) {
            Some(name) => self.with_user(builder, self.user(name)?, cluster),
            None => Ok(builder),
        }
    }

    fn chosen(&self) -> Result<&Context, BuildError> {
        let current = self.files.current_context.as_ref();
        let name = self
            .context
            .as_ref()
            .or(current)
            .filter(|name| !name.is_empty());
        let Some(name) = name else {
            return Err(self.problem("it has no current context; name one".to_owned()));
        };
        let contexts = &self.files.contexts;
        let found = contexts.iter().find(|context| context.name == *name);
        found.and_then(|c| c.context.as_ref()).ok_or_else(|| {
            let known: Vec<_> = contexts.iter().map(|c| c.name.as_str()).collect();
            self.problem(format!(
                "there is no context {name:?}; there are: {}",
                known.join(", ")
            ))
        })
    }

    fn cluster(&self, name: &str) -> Result<&Cluster, BuildError> {
        let found = self.files.clusters.iter().find(|c| c.name == name);
        found
            .and_then(|c| c.cluster.as_ref())
            .ok_or_else(|| self.problem(format!("there is no cluster {name:?}")))
    }

    fn user(&self, name: &str) -> Result<&AuthInfo, BuildError> {
        let found = self.files.auth_infos.iter().find(|user| user.name == name);
        found
            .and_then(|user| user.auth_info.as_ref())
            .ok_or_else(|| self.problem(format!("there is no user {name:?}")))
    }

    fn with_cluster(
        &self,
        mut builder: HyperBuilder,
        cluster: &Cluster,
    ) -> Result<HyperBuilder, BuildError> {
        let insecure = cluster.insecure_skip_tls_verify == Some(true);
        let (data, file) = (
            &cluster.certificate_authority_data,
            &cluster.certificate_authority,
        );
        if let Some(source) =
            self.source("certificate-authority-data", data.as_deref(), file.as_ref())?
        {
            builder = builder.roots(source);
        }
        if let Some(name) = cluster.tls_server_name.as_ref().filter(|n| !n.is_empty()) {
            builder = builder.server_name(name);
        }
        if let Some(url) = cluster.proxy_url.as_ref().filter(|url| !url.is_empty()) {
            builder = builder.proxy(url);
        }
        if cluster.disable_compression == Some(true) {
            builder = builder.gzip(false);
        }
        Ok(builder.insecure_skip_tls_verify(insecure))
    }

    fn with_user(
        &self,
        mut builder: HyperBuilder,
        user: &AuthInfo,
        cluster: &Cluster,
    ) -> Result<HyperBuilder, BuildError> {
        if let Some(provider) = &user.auth_provider {
            return Err(self.problem(format!(
                "the auth provider {:?} is not understood, nor is it by Kubernetes since 1.26; use an exec plugin",
                provider.name
            )));
        }
        let data = user.client_key_data.as_ref().map(|key| key.expose_secret());
        let key = self.source("client-key-data", data, user.client_key.as_ref())?;
        let chain = self.source(
            "client-certificate-data",
            user.client_certificate_data.as_deref(),
            user.client_certificate.as_ref(),
        )?;
        builder = match (chain, key) {
            (None, None) => builder,
            (Some(chain), Some(key)) => builder.identity(Identity { chain, key }),
            _ => {
                let why = "of the client's certificate and key one is missing";
                return Err(self.problem(why.to_owned()));
            }
        };
        builder = impersonate(builder, user);
        let token = user.token.as_ref().map(|token| token.expose_secret());
        // The file goes first, as in client-go: it is the one that is renewed.
        if let Some(path) = user.token_file.as_ref().filter(|path| !path.is_empty()) {
            return Ok(builder.bearer_token_file(path));
        }
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            return Ok(builder.bearer_token(token));
        }
        if let Some(name) = user.username.as_ref().filter(|name| !name.is_empty()) {
            let password = user.password.as_ref().map(|p| p.expose_secret());
            let pair = BASE64_STANDARD.encode(format!("{name}:{}", password.unwrap_or_default()));
            let header = Secret(format!("Basic {pair}").into_bytes()).header();
            let header = header.ok_or_else(|| self.problem("the user's name".to_owned()))?;
            return Ok(builder.credentials(Fixed(Credential::authorization(header))));
        }
        match &user.exec {
            Some(exec) => Ok(builder.credentials(
                Exec::new(exec, cluster)
                    .map_err(|why| self.problem(format!("exec plugin: {why}")))?,
            )),
            None => Ok(builder),
        }
    }

    /// Where something comes from that is given as base64 or as a file; base64 goes first.
    fn source(
        &self,
        what: &str,
        data: Option<&str>,
        file: Option<&String>,
    ) -> Result<Option<Source>, BuildError> {
        if let Some(data) = data.filter(|data| !data.is_empty()) {
            let decoded = BASE64_STANDARD
                .decode(data.trim())
                .map_err(|_| self.problem(format!("{what} is not base64")))?;
            return Ok(Some(Source::Data(Secret(decoded))));
        }
        let file = file.filter(|file| !file.is_empty());
        Ok(file.map(|file| Source::File(file.into())))
    }

    fn problem(&self, why: String) -> BuildError {
        BuildError(format!("kubeconfig {}: {why}", self.origin))
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kubeconfig({})", self.origin)
    }
}

/// Takes what `kube-client` has read, as `kube::config::Kubeconfig` is.
impl From<files::Kubeconfig> for Kubeconfig {
    fn from(files: files::Kubeconfig) -> Self {
        Self {
            files,
            origin: "(given)".to_owned(),
            context: None,
        }
    }
}

/// See [User impersonation](https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/).
fn impersonate(mut builder: HyperBuilder, user: &AuthInfo) -> HyperBuilder {
    if let Some(name) = &user.impersonate {
        builder = builder.header("Impersonate-User", name);
    }
    if let Some(uid) = &user.impersonate_uid {
        builder = builder.header("Impersonate-Uid", uid);
    }
    for group in user.impersonate_groups.iter().flatten() {
        builder = builder.header("Impersonate-Group", group);
    }
    for (name, values) in user.impersonate_user_extra.iter().flatten() {
        for value in values {
            builder = builder.header(format!("Impersonate-Extra-{name}"), value);
        }
    }
    builder
}

fn home() -> Option<PathBuf> {
    let home = env::var_os("HOME").or_else(|| env::var_os("USERPROFILE"))?;
    (!home.is_empty()).then(|| home.into())
}

#[cfg(test)]
mod tests;
