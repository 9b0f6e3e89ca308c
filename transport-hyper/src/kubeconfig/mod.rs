//! Clusters and users from kubeconfig files.

mod exec;
mod file;
mod oidc;
mod reload;
mod rfc3339;
mod yaml;

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::fmt;
use std::env;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::build_error::BuildError;
use crate::builder::HyperBuilder;
use crate::credentials::{Credential, CredentialSource, Fixed, Secret, TokenFile};
use crate::kubeconfig::exec::Exec;
use crate::kubeconfig::file::{AuthProvider, Cluster, Context, Entries, File, Material, User};
use crate::kubeconfig::oidc::IdToken;
use crate::kubeconfig::reload::{Part, PartOf, Reload, Reloaded};
use crate::tls::{Identity, PemSource};
use crate::transport::HyperTransport;

/// The clusters, users and contexts of kubeconfig files. `Debug` shows only the names of the files.
///
/// See [Organizing Cluster
/// Access](https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/). Supported fields of
/// a cluster: the server and its CA, `tls-server-name`, `insecure-skip-tls-verify`, `proxy-url` and
/// `disable-compression`. Supported authentication: client certificates, tokens, token files, user and password, exec
/// plugins and impersonation.
///
/// Files are read again: those that a kubeconfig names, and the kubeconfig itself. A transport follows the CA, the client
/// certificate and the credentials of its context, which is the one of [`context`](Self::context) or the current one when
/// the transport was built. A change of the server, the proxy, the impersonation or other settings is not followed, since
/// the cache may be of another cluster then: it is logged, and the previous credentials stay in use.
///
/// Of the auth provider `oidc`, the `id-token` is sent until it expires. It is not refreshed: after that, requests fail
/// with an error that names the time, and the kubeconfig has to be loaded again after a login. An exec plugin such as
/// kubelogin renews tokens itself. Other auth providers are not supported.
///
/// The files are read, merged and checked as by `kubectl`. Like `kubectl`, a transport does not send the credentials of
/// a kubeconfig to a server with an `http://` URL.
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
    files: File,
    origin: String,
    context: Option<String>,
    /// Whether it may name files and plugins.
    is_trusted: bool,
    /// The files to read again. They are empty for a text, and if one is a pipe, which can be read only once.
    paths: Vec<PathBuf>,
}

impl Kubeconfig {
    /// Reads the files that `kubectl` reads: those in `KUBECONFIG`, or `~/.kube/config`.
    ///
    /// In `KUBECONFIG`, earlier files take precedence. Returns `None` if none of the files exists.
    ///
    /// It neither falls back to the service account of a Pod nor connects: the program calls
    /// [`HyperTransport::in_cluster`] for `None`, and [`builder`](Self::builder) otherwise. `informer::connect` does both.
    /// A program that has to distinguish a file without a current context asks
    /// [`has_current_context`](Self::has_current_context) first.
    ///
    /// # Errors
    /// Fails if one of the files exists but cannot be read.
    pub fn load() -> Result<Option<Self>, BuildError> {
        let named = env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
        let paths: Vec<PathBuf> = match &named {
            Some(value) => env::split_paths(value).collect(),
            None => home()
                .map(|home| home.join(".kube/config"))
                .into_iter()
                .collect(),
        };
        Self::from_files(paths)
    }

    /// Reads several files as `kubectl` reads those in `KUBECONFIG`.
    ///
    /// Earlier files take precedence, and files that do not exist count as empty. Returns `None` if none of them
    /// exists.
    ///
    /// # Errors
    /// Fails if one of the files exists but cannot be read.
    ///
    /// # Examples
    /// ```
    /// use informer_hyper::Kubeconfig;
    ///
    /// // A team shares the clusters, and each member has a file with credentials.
    /// let config = Kubeconfig::from_files(["/nowhere/me", "/nowhere/clusters"])?;
    /// assert!(config.is_none());
    /// # Ok::<(), informer_hyper::BuildError>(())
    /// ```
    pub fn from_files(
        paths: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Result<Option<Self>, BuildError> {
        let mut merged: Option<Self> = None;
        let mut known: Vec<PathBuf> = Vec::new();
        for path in paths {
            let path = path.as_ref();
            // A pipe can be read only once.
            if path.as_os_str().is_empty() || known.iter().any(|known| known == path) {
                continue;
            }
            known.push(path.to_owned());
            let Some(next) = Self::read(path)? else {
                continue;
            };
            match &mut merged {
                None => merged = Some(next),
                Some(merged) => {
                    merged.files.merge(next.files);
                    merged.origin = format!("{}:{}", merged.origin, next.origin);
                }
            }
        }
        if let Some(merged) = &mut merged {
            merged.paths = reload::readable_again(known);
        }
        Ok(merged)
    }

    /// Reads one file.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, BuildError> {
        let path = path.as_ref();
        let missing = || problem(&path.display().to_string(), "the file does not exist");
        Self::from_files([path])?.ok_or_else(missing)
    }

    /// Reads a text, such as the value of a Secret.
    ///
    /// Certificates, keys and tokens must be in the text: [`builder`](Self::builder) refuses a context that names a file or
    /// an exec plugin, since whoever wrote the text could then read files and run commands of this program. If you trust its
    /// author, write it to a file.
    ///
    /// # Errors
    /// Fails if it is no kubeconfig.
    ///
    /// # Examples
    /// ```
    /// use informer_hyper::Kubeconfig;
    ///
    /// let text = r#"{ "current-context": "a", "contexts": [{ "name": "a", "context": { "cluster": "c", "user": "u" } }],
    ///     "clusters": [{ "name": "c", "cluster": { "server": "https://10.0.0.1:6443", "insecure-skip-tls-verify": true } }],
    ///     "users": [{ "name": "u", "user": { "token": "t" } }] }"#;
    /// let transport = Kubeconfig::from_text(text)?.builder()?.build()?;
    /// assert_eq!(transport.url(), "https://10.0.0.1:6443");
    /// # Ok::<(), informer_hyper::BuildError>(())
    /// ```
    pub fn from_text(text: &str) -> Result<Self, BuildError> {
        Self::parse(text.as_bytes(), "(text)", None)
    }

    /// Parses a file of a folder, or a text.
    fn parse(text: &[u8], origin: &str, folder: Option<&Path>) -> Result<Self, BuildError> {
        let problem = |why: &dyn fmt::Display| problem(origin, why);
        if text.len() as u64 > MOST_BYTES {
            return Err(problem(&format_args!(
                "it has more than {MOST_BYTES} bytes"
            )));
        }
        let text = str::from_utf8(text).map_err(|_| problem(&"it is not UTF-8"))?;
        let files = File::parse(text, folder.unwrap_or_else(|| Path::new("")));
        Ok(Self {
            files: files.map_err(|why| problem(&why))?,
            origin: origin.to_owned(),
            context: None,
            is_trusted: folder.is_some(),
            paths: Vec::new(),
        })
    }

    fn read(path: &Path) -> Result<Option<Self>, BuildError> {
        let origin = path.display().to_string();
        let mut text = Vec::new();
        let reading = std::fs::File::open(path)
            .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut text));
        match reading {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(problem(&origin, error)),
        }
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        Self::parse(&text, &origin, Some(folder)).map(Some)
    }

    /// Chooses a context. Without this call, the current context of the files is used.
    #[must_use]
    pub fn context(self, name: impl Into<String>) -> Self {
        Self {
            context: Some(name.into()),
            ..self
        }
    }

    /// Returns whether the files set a current context.
    #[must_use]
    pub fn has_current_context(&self) -> bool {
        self.files.current_context.is_some()
    }

    /// Returns the namespace of the context, or `None` if it has none.
    ///
    /// # Errors
    /// Fails if the context does not exist.
    pub fn namespace(&self) -> Result<Option<&str>, BuildError> {
        Ok(self.chosen()?.namespace.as_deref())
    }

    /// Returns a builder for a transport to the context's cluster, with the credentials of the context's user.
    ///
    /// # Errors
    /// Fails if the context, its cluster or its user does not exist, or uses a feature that is not supported.
    /// Certificates and token files are read later, by [`HyperBuilder::build`].
    pub fn builder(&self) -> Result<HyperBuilder, BuildError> {
        let context = self.chosen()?;
        let cluster = self.find("cluster", &self.files.clusters, &context.cluster)?;
        let Some(server) = &cluster.server else {
            return Err(self.problem(format!("the cluster {:?} has no server", context.cluster)));
        };
        let user = match &context.user {
            Some(name) => Some(self.find("user", &self.files.users, name)?),
            None => None,
        };
        let reload = Reload::new(self, cluster, user);
        let mut builder = HyperTransport::builder(server).gzip(!cluster.disable_compression);
        if let Some(url) = &cluster.proxy_url {
            builder = builder.proxy(url);
        }
        if let Some(user) = user {
            builder = self.impersonate(builder, user)?;
        }
        let is_tls = server
            .get(..HTTPS.len())
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(HTTPS));
        if !is_tls {
            return Ok(builder);
        }
        builder = self.with_tls(builder, cluster, reload.as_ref())?;
        let mut source = None;
        if let Some(user) = user {
            if let Some(identity) = self.identity(user, reload.as_ref())? {
                builder = builder.identity(identity);
            }
            source = self.credentials(user, cluster)?;
        }
        Ok(match (reload, source) {
            (Some(reload), source) => builder.credentials(Reloaded::new(reload, source)),
            (None, Some(source)) => builder.shared_credentials(source),
            (None, None) => builder,
        })
    }

    fn chosen(&self) -> Result<&Context, BuildError> {
        let current = self.files.current_context.as_ref();
        let name = self.context.as_ref().or(current);
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err(self.problem("it has no current context; choose one by name"));
        };
        let contexts = &self.files.contexts;
        let found = contexts.iter().find(|(known, _)| known == name);
        found.map(|(_, context)| context).ok_or_else(|| {
            let known: Vec<_> = contexts.iter().map(|(name, _)| name.as_str()).collect();
            self.problem(format!(
                "the context {name:?} does not exist; the contexts are: {}",
                known.join(", ")
            ))
        })
    }

    fn find<'a, T>(
        &self,
        what: &str,
        entries: &'a Entries<T>,
        name: &str,
    ) -> Result<&'a T, BuildError> {
        let found = entries.iter().find(|(known, _)| known == name);
        found
            .map(|(_, entry)| entry)
            .ok_or_else(|| self.problem(format!("the {what} {name:?} does not exist")))
    }

    fn with_tls(
        &self,
        mut builder: HyperBuilder,
        cluster: &Cluster,
        reload: Option<&Reload>,
    ) -> Result<HyperBuilder, BuildError> {
        if let Some(source) = self.source(Part::Ca, &cluster.ca, reload)? {
            builder = builder.roots(source);
        }
        if let Some(name) = &cluster.tls_server_name {
            builder = builder.server_name(name);
        }
        Ok(builder.insecure_skip_tls_verify(cluster.insecure))
    }

    fn identity(
        &self,
        user: &User,
        reload: Option<&Reload>,
    ) -> Result<Option<Identity>, BuildError> {
        let chain = self.source(Part::Certificate, &user.certificate, reload)?;
        match (chain, self.source(Part::Key, &user.key, reload)?) {
            (None, None) => Ok(None),
            (Some(chain), Some(key)) => Ok(Some(Identity { chain, key })),
            _ => Err(self.problem("the client certificate or the client key is missing")),
        }
    }

    /// Returns the source of the user's credentials; `None` if there are none but a certificate.
    fn credentials(
        &self,
        user: &User,
        cluster: &Cluster,
    ) -> Result<Option<Arc<dyn CredentialSource>>, BuildError> {
        let provider = user.auth_provider.as_ref().map(id_token).transpose();
        let provider = provider.map_err(|why| self.problem(why))?;
        if provider.is_some() && user.exec.is_some() {
            return Err(
                self.problem("the user has both an auth provider and an exec plugin; remove one")
            );
        }
        for (names, what) in [
            (user.exec.is_some(), "an exec plugin"),
            (user.token_file.is_some(), "tokenFile"),
        ] {
            if names && !self.is_trusted {
                return Err(self.untrusted(what));
            }
        }
        let exec = user.exec.as_ref().map(|exec| Exec::new(exec, cluster));
        let exec = exec
            .transpose()
            .map_err(|why| self.problem(format!("exec plugin: {why}")))?;
        if user.token.is_some() && user.username.is_some() {
            let why = "the user has both a token and a user name; remove one";
            return Err(self.problem(why));
        }
        let token = user.token.as_ref().map(Credential::bearer).transpose();
        let token = token.map_err(|why| self.problem(format!("token: {why}")))?;
        // The order is that of client-go. The inline token is used until the token file has been read.
        if let Some(path) = &user.token_file {
            return Ok(Some(Arc::new(TokenFile::new(path.clone()).or(token))));
        }
        if let Some(token) = token {
            return Ok(Some(Arc::new(Fixed(token))));
        }
        if let Some(name) = &user.username {
            let password = user.password.as_deref().unwrap_or_default();
            let pair = BASE64_STANDARD.encode(format!("{name}:{password}"));
            let header = Secret(format!("Basic {pair}").into_bytes()).header();
            let header = header.ok_or_else(|| {
                self.problem("the user name or the password contains invalid characters")
            })?;
            return Ok(Some(Arc::new(Fixed(Credential::authorization(header)))));
        }
        Ok(match (exec, provider) {
            (Some(exec), _) => Some(Arc::new(exec)),
            (None, Some(token)) => Some(Arc::new(token)),
            (None, None) => None,
        })
    }

    /// See [User impersonation](https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/).
    fn impersonate(
        &self,
        mut builder: HyperBuilder,
        user: &User,
    ) -> Result<HyperBuilder, BuildError> {
        let Some(name) = &user.impersonate else {
            let is_alone = user.impersonate_uid.is_none()
                && user.impersonate_groups.is_empty()
                && user.impersonate_extra.is_empty();
            let why = "as-uid, as-groups and as-user-extra need `as`, the user to impersonate";
            return is_alone.then_some(builder).ok_or_else(|| self.problem(why));
        };
        builder = builder.header("Impersonate-User", name);
        if let Some(uid) = &user.impersonate_uid {
            builder = builder.header("Impersonate-Uid", uid);
        }
        for group in &user.impersonate_groups {
            builder = builder.header("Impersonate-Group", group);
        }
        for (name, values) in &user.impersonate_extra {
            let name = format!("Impersonate-Extra-{}", escaped(name));
            for value in values {
                builder = builder.header(&name, value);
            }
        }
        Ok(builder)
    }

    /// Returns the source of a certificate or a key.
    fn source(
        &self,
        part: Part,
        material: &Material,
        reload: Option<&Reload>,
    ) -> Result<Option<PemSource>, BuildError> {
        let what = part.name();
        match (&material.data, &material.file) {
            (Some(_), Some(_)) => {
                Err(self.problem(format!("{what} and {what}-data are both given; remove one")))
            }
            (None, None) => Ok(None),
            (None, Some(_)) if !self.is_trusted => Err(self.untrusted(what)),
            (data, file) => Ok(match (reload, data, file) {
                (Some(reload), ..) => Some(PemSource::Part(Arc::new(PartOf(reload.clone(), part)))),
                (None, Some(data), _) => Some(PemSource::Data(data.clone())),
                (None, None, file) => file.clone().map(PemSource::File),
            }),
        }
    }

    fn untrusted(&self, what: &str) -> BuildError {
        self.problem(format_args!(
            "it has {what}, and a text may name neither files nor plugins; if you trust its author, write it to a file"
        ))
    }

    fn problem(&self, why: impl fmt::Display) -> BuildError {
        problem(&self.origin, why)
    }
}

/// Returns the token of an auth provider.
fn id_token(provider: &AuthProvider) -> Result<IdToken, String> {
    let name = &provider.name;
    match (name.as_str(), &provider.id_token) {
        ("oidc", Some(token)) => {
            IdToken::new(token).map_err(|why| format!("id-token of the auth provider oidc: {why}"))
        }
        ("oidc", None) => Err(
            "the auth provider oidc has no id-token; log in first, or use an exec plugin such as kubelogin".to_owned(),
        ),
        ("azure", _) => Err(removed(name, "kubelogin")),
        ("gcp", _) => Err(removed(name, "gke-gcloud-auth-plugin")),
        _ => Err(format!(
            "the auth provider {name:?} is not supported; use an exec plugin"
        )),
    }
}

fn removed(provider: &str, plugin: &str) -> String {
    format!(
        "the auth provider {provider:?} is not supported, and Kubernetes 1.26 removed it; use the exec plugin {plugin}"
    )
}

fn problem(origin: &str, why: impl fmt::Display) -> BuildError {
    BuildError(format!("kubeconfig {origin}: {why}"))
}

/// A file with the credentials of hundreds of clusters is smaller than a megabyte.
const MOST_BYTES: u64 = 16 << 20;

const HTTPS: &str = "https://";

/// Percent-encodes `%` and all characters that a header name must not contain.
fn escaped(name: &str) -> Cow<'_, str> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(byte);
    if name.as_bytes().iter().all(is_plain) {
        return name.into();
    }
    let bytes = name.bytes().map(|byte| {
        if is_plain(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    });
    bytes.collect::<String>().into()
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kubeconfig({})", self.origin)
    }
}

fn home() -> Option<PathBuf> {
    let home = env::var_os("HOME").or_else(|| env::var_os("USERPROFILE"))?;
    (!home.is_empty()).then(|| home.into())
}

#[cfg(test)]
mod tests;
