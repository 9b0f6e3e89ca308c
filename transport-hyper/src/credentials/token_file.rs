//! A token in a file that another program renews.

use core::time::Duration;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::credentials::{Credential, CredentialError, CredentialFuture, CredentialSource};

/// Reads a token file every minute, and after the server refuses the token.
///
/// The kubelet renews a service account's token after 80 % of its lifetime, and the old token stays valid until its
/// end. Reading the file every minute, as client-go does, is therefore often enough.
pub(crate) struct TokenFile {
    path: PathBuf,
    read: Mutex<Option<Known>>,
}

/// A service account's token has a few kilobytes.
const MOST_BYTES: u64 = 1 << 20;

struct Known {
    credential: Credential,
    /// When the file was read.
    at: Option<Instant>,
}

impl TokenFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            read: Mutex::new(None),
        }
    }

    /// Sets the token to use until the file can be read.
    #[cfg(feature = "kubeconfig")]
    pub(crate) fn or(self, first: Option<Credential>) -> Self {
        let read = first.map(|credential| Known {
            credential,
            at: None,
        });
        Self {
            read: Mutex::new(read),
            ..self
        }
    }

    async fn read(&self, anew: bool) -> Result<Credential, CredentialError> {
        if let Some(read) = &*self.state()
            && !anew
            && read.at.is_some_and(|at| at.elapsed() < READ_EVERY)
        {
            return Ok(read.credential.clone());
        }
        let (at, path) = (Some(Instant::now()), self.path.clone());
        let loaded = spawn_blocking(move || load(&path)).await;
        let loaded = loaded.unwrap_or_else(|error| Err(CredentialError::new(error.to_string())));
        let mut read = self.state();
        match (loaded, &mut *read) {
            (Ok(credential), _) => {
                *read = Some(Known {
                    credential: credential.clone(),
                    at,
                });
                Ok(credential)
            }
            // A file may be removed on purpose after it was read, while its token is still valid.
            (Err(error), Some(read)) => {
                tracing::warn!("keeping the previous token: {error}");
                read.at = at;
                Ok(read.credential.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<Known>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn load(path: &Path) -> Result<Credential, CredentialError> {
    let shown = path.display();
    let mut token = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut token))
        .map_err(|error| {
            CredentialError::new(format!("cannot read the token file {shown}: {error}"))
        })?;
    Credential::bearer(token).map_err(|error| {
        CredentialError::new(format!("invalid token in the file {shown}: {error}"))
    })
}

impl CredentialSource for TokenFile {
    fn credential<'a>(&'a self, refused: Option<&'a Credential>) -> CredentialFuture<'a> {
        Box::pin(self.read(refused.is_some()))
    }
}

/// The same interval as in client-go.
const READ_EVERY: Duration = Duration::from_secs(60);
