//! Kubeconfig files that change while a transport uses them.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::build_error::BuildError;
use crate::credentials::{Credential, CredentialError, CredentialFuture, CredentialSource, Secret};
use crate::kubeconfig::Kubeconfig;
use crate::kubeconfig::file::{Cluster, Material, User};
use crate::tls::ReadPem;

/// The context of a transport, in files that are read again.
#[derive(Clone)]
pub(super) struct Reload(Arc<Loaded>);

struct Loaded {
    context: String,
    /// As they were last read without a problem.
    good: Mutex<Good>,
}

/// The files, with the cluster and the user of the context.
#[derive(Clone)]
struct Good {
    config: Kubeconfig,
    cluster: Cluster,
    user: Option<User>,
}

/// A certificate or a key in a kubeconfig.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Ca,
    Certificate,
    Key,
}

impl Part {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ca => "certificate-authority",
            Self::Certificate => "client-certificate",
            Self::Key => "client-key",
        }
    }
}

/// Returns the files if all of them can be read again.
pub(super) fn readable_again(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_file = |path: &PathBuf| fs::metadata(path).map_or(true, |file| file.is_file());
    if paths.iter().all(is_file) {
        paths
    } else {
        Vec::new()
    }
}

impl Reload {
    /// Returns `None` if the files cannot be read again.
    pub(super) fn new(config: &Kubeconfig, cluster: &Cluster, user: Option<&User>) -> Option<Self> {
        let context = config
            .context
            .as_ref()
            .or(config.files.current_context.as_ref())?;
        let good = Good {
            config: config.clone(),
            cluster: cluster.clone(),
            user: user.cloned(),
        };
        (!config.paths.is_empty()).then(|| {
            Self(Arc::new(Loaded {
                context: context.clone(),
                good: Mutex::new(good),
            }))
        })
    }

    fn good(&self) -> Good {
        let good = self.0.good.lock().unwrap_or_else(PoisonError::into_inner);
        good.clone()
    }

    /// Reads the files. It blocks.
    fn read(&self) -> Result<Good, BuildError> {
        let good = self.good();
        let config = Kubeconfig::from_files(&good.config.paths)?
            .ok_or_else(|| BuildError("the kubeconfig files do not exist any more".to_owned()))?
            .context(&self.0.context);
        let context = config.chosen()?;
        let cluster = config
            .find("cluster", &config.files.clusters, &context.cluster)?
            .clone();
        let user = match &context.user {
            Some(name) => Some(config.find("user", &config.files.users, name)?.clone()),
            None => None,
        };
        let read = Good {
            config,
            cluster,
            user,
        };
        if let Some(what) = good.fixed(&read) {
            return Err(read.config.problem(format!(
                "{what} of the context {:?} has changed; restart the program to follow it",
                self.0.context
            )));
        }
        *self.0.good.lock().unwrap_or_else(PoisonError::into_inner) = read.clone();
        Ok(read)
    }
}

impl Good {
    /// Returns what has changed, and may belong to another cluster.
    fn fixed(&self, read: &Self) -> Option<&'static str> {
        let (old, cluster) = (&self.cluster, &read.cluster);
        let of_user = |user: &User| {
            let (name, uid) = (user.impersonate.clone(), user.impersonate_uid.clone());
            (
                name,
                uid,
                user.impersonate_groups.clone(),
                user.impersonate_extra.clone(),
            )
        };
        [
            (old.server != cluster.server, "the server"),
            (
                old.tls_server_name != cluster.tls_server_name,
                "the tls-server-name",
            ),
            (old.insecure != cluster.insecure, "insecure-skip-tls-verify"),
            (old.proxy_url != cluster.proxy_url, "the proxy-url"),
            (
                old.disable_compression != cluster.disable_compression,
                "disable-compression",
            ),
            (
                self.user.as_ref().map(of_user) != read.user.as_ref().map(of_user),
                "the impersonation",
            ),
        ]
        .into_iter()
        .find_map(|(has_changed, what)| has_changed.then_some(what))
    }
}

/// A certificate or a key in the files.
#[derive(Debug)]
pub(super) struct PartOf(pub(super) Reload, pub(super) Part);

impl ReadPem for PartOf {
    fn read(&self, what: &str, again: bool) -> Result<Secret, BuildError> {
        let Self(files, part) = self;
        if again {
            // A problem changes nothing here, and the credentials report it. Files that the kubeconfig named are followed.
            let _ = files.read();
        }
        let Good {
            config,
            cluster,
            user,
        } = files.good();
        let of_user = |material: fn(&User) -> &Material| user.as_ref().map(material);
        let material = match part {
            Part::Ca => Some(&cluster.ca),
            Part::Certificate => of_user(|user| &user.certificate),
            Part::Key => of_user(|user| &user.key),
        };
        let source = material.map(|material| config.source(*part, material, None));
        match source.transpose()?.flatten() {
            Some(source) => source.read(what, again),
            None => Err(config.problem(format!("{} is missing now", part.name()))),
        }
    }
}

/// It shows no secret.
impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reload({:?})", self.good().config.paths)
    }
}

/// The credentials of a context's user. The files are read again every minute, and after a refusal.
pub(super) struct Reloaded {
    files: Reload,
    state: Mutex<State>,
}

struct State {
    /// The user and the cluster to which the source belongs.
    of: (Cluster, Option<User>),
    /// `None` if there are no credentials but a certificate.
    source: Option<Arc<dyn CredentialSource>>,
    read_at: Instant,
    /// The last problem. It is kept so that it is logged only once.
    trouble: Option<BuildError>,
}

impl Reloaded {
    pub(super) fn new(files: Reload, source: Option<Arc<dyn CredentialSource>>) -> Self {
        let Good { cluster, user, .. } = files.good();
        Self {
            files,
            state: Mutex::new(State {
                of: (cluster, user),
                source,
                read_at: Instant::now(),
                trouble: None,
            }),
        }
    }

    async fn current(&self, refused: Option<&Credential>) -> Result<Credential, CredentialError> {
        let is_due = refused.is_some() || self.state().read_at.elapsed() >= READ_EVERY;
        let is_new = is_due && self.read_again().await;
        let source = self.state().source.clone();
        match source {
            // A new source has refused nothing yet.
            Some(source) => source.credential(refused.filter(|_| !is_new)).await,
            None => Ok(Credential::default()),
        }
    }

    /// Reads the files, and returns whether the user has changed. Files that cannot be used change nothing, since they may
    /// be half written.
    async fn read_again(&self) -> bool {
        let files = self.files.clone();
        let read = spawn_blocking(move || files.read()).await;
        let read = read.unwrap_or_else(|error| Err(BuildError(error.to_string())));
        let mut state = self.state();
        state.read_at = Instant::now();
        let renewed = read.and_then(|read| {
            let of = (read.cluster, read.user);
            if of == state.of {
                return Ok(false);
            }
            let source = match &of.1 {
                Some(user) => read.config.credentials(user, &of.0)?,
                None => None,
            };
            (state.of, state.source) = (of, source);
            Ok(true)
        });
        let is_new = renewed.as_ref().is_ok_and(|is_new| *is_new);
        let trouble = renewed.err();
        if trouble != state.trouble {
            match &trouble {
                Some(error) => tracing::warn!("keeping the previous credentials: {error}"),
                None => tracing::info!("the kubeconfig is usable again"),
            }
            state.trouble = trouble;
        }
        is_new
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CredentialSource for Reloaded {
    fn credential<'a>(&'a self, refused: Option<&'a Credential>) -> CredentialFuture<'a> {
        Box::pin(self.current(refused))
    }
}

/// The same interval as for token files.
const READ_EVERY: Duration = Duration::from_secs(60);
