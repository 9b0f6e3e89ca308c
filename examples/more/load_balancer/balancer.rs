//! The load balancer: a file that any program can change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// The destination of connections to a port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Route {
    /// The port that clients connect to.
    pub(crate) port: u16,
    /// The port on every node behind it.
    pub(crate) node_port: u16,
}

/// The configuration of the load balancer, by the key of a Service.
pub(crate) type Routes = BTreeMap<String, Vec<Route>>;

/// A load balancer in a file.
#[derive(Clone, Debug)]
pub(crate) struct Balancer {
    file: PathBuf,
    /// Prevents concurrent writes of two workers.
    writing: Arc<Mutex<()>>,
}

impl Balancer {
    /// Creates a load balancer with this file, which need not exist.
    pub(crate) fn new(file: PathBuf) -> Self {
        Self {
            file,
            writing: Arc::default(),
        }
    }

    /// Reads the configuration.
    pub(crate) fn routes(&self) -> io::Result<Routes> {
        match fs::read(&self.file) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Routes::new()),
            Err(error) => Err(error),
        }
    }

    /// Sets or removes the configuration of a Service. Returns whether that is a change.
    pub(crate) fn set(&self, key: &str, wanted: Option<&[Route]>) -> io::Result<bool> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut routes = self.routes()?;
        if routes.get(key).map(Vec::as_slice) == wanted {
            return Ok(false);
        }
        match wanted {
            Some(wanted) => drop(routes.insert(key.to_owned(), wanted.to_vec())),
            None => drop(routes.remove(key)),
        }
        self.write(&routes)?;
        Ok(true)
    }

    /// Removes Services, regardless of the cluster.
    pub(crate) fn remove_where(&self, breaks: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let mut routes = self.routes()?;
        let broken = routes.keys().filter(|key| breaks(key)).cloned().collect();
        routes.retain(|key, _| !breaks(key));
        self.write(&routes)?;
        Ok(broken)
    }

    /// Replaces the file atomically, so that nobody reads an incomplete one.
    fn write(&self, routes: &Routes) -> io::Result<()> {
        let new = self.file.with_extension("new");
        fs::write(&new, serde_json::to_vec_pretty(routes)?)?;
        fs::rename(new, &self.file)
    }
}
