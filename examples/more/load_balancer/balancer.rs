//! The load balancer: a file that anybody may change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// Where connections to a port go.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Route {
    /// The port that clients connect to.
    pub(crate) port: u16,
    /// The port of every node behind it.
    pub(crate) node_port: u16,
}

/// What the load balancer does, by the key of a Service.
pub(crate) type Routes = BTreeMap<String, Vec<Route>>;

/// A load balancer in a file.
#[derive(Clone, Debug)]
pub(crate) struct Balancer {
    file: PathBuf,
    /// Two workers do not write at once.
    writing: Arc<Mutex<()>>,
}

impl Balancer {
    /// Names the file; it need not be there yet.
    pub(crate) fn new(file: PathBuf) -> Self {
        Self {
            file,
            writing: Arc::default(),
        }
    }

    /// Reads what it does.
    pub(crate) fn routes(&self) -> io::Result<Routes> {
        match fs::read(&self.file) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Routes::new()),
            Err(error) => Err(error),
        }
    }

    /// Has it do this for a Service, or nothing; tells whether that is a change.
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

    /// Removes Services, whoever wants them.
    pub(crate) fn remove_where(&self, breaks: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let mut routes = self.routes()?;
        let broken = routes.keys().filter(|key| breaks(key)).cloned().collect();
        routes.retain(|key, _| !breaks(key));
        self.write(&routes)?;
        Ok(broken)
    }

    /// Writes another file and puts it in the place of this one, so that nobody reads half of it.
    fn write(&self, routes: &Routes) -> io::Result<()> {
        let new = self.file.with_extension("new");
        fs::write(&new, serde_json::to_vec_pretty(routes)?)?;
        fs::rename(new, &self.file)
    }
}
