//! A token in a file that somebody renews.

use core::future::ready;
use core::time::Duration;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::credentials::{Credential, CredentialError, CredentialFuture, CredentialSource};

/// Reads a token file again every minute, and where the server refuses what it holds.
///
/// The kubelet renews a service account's token when 80 % of its time have passed, and the old one holds for the rest;
/// so a look each minute, as client-go has it, is often enough.
pub(crate) struct TokenFile {
    path: PathBuf,
    read: Mutex<Option<Read>>,
}

struct Read {
    credential: Credential,
    at: Instant,
}

impl TokenFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            read: Mutex::new(None),
        }
    }

    fn read(&self, anew: bool) -> Result<Credential, CredentialError> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = &*read
            && !anew
            && read.at.elapsed() < READ_EVERY
        {
            return Ok(read.credential.clone());
        }
        let at = Instant::now();
        match (self.load(), &mut *read) {
            (Ok(credential), _) => {
                *read = Some(Read {
                    credential: credential.clone(),
                    at,
                });
                Ok(credential)
            }
            // A file may be taken away on purpose once it was read, and the token in it still hold.
            (Err(error), Some(read)) => {
                tracing::warn!("the token is kept as it was: {error}");
                read.at = at;
                Ok(read.credential.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    fn load(&self) -> Result<Credential, CredentialError> {
        let path = self.path.display();
        let token = std::fs::read(&self.path).map_err(|error| {
            CredentialError::new(format!("cannot read the token file {path}: {error}"))
        })?;
        Credential::bearer(token)
            .map_err(|error| CredentialError::new(format!("the token in the file {path}: {error}")))
    }
}

impl CredentialSource for TokenFile {
    fn credential<'a>(&'a self, refused: Option<&'a Credential>) -> CredentialFuture<'a> {
        Box::pin(ready(self.read(refused.is_some())))
    }
}

/// As client-go.
const READ_EVERY: Duration = Duration::from_secs(60);
