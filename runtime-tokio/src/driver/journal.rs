//! The persisted cache: its files, and the thread that writes them.

mod outbox;
mod source;
#[cfg(test)]
mod tests;
mod writer;

use core::time::Duration;
use std::path::PathBuf;
use std::time::SystemTime;

use informer_core::Resource;
use informer_journal::Identity;

pub(crate) use self::outbox::{Outbox, Range};
pub(crate) use self::source::SourceJournal;
pub(crate) use self::writer::Writer;

/// A cache that is stored in a file, so that it can be served immediately after a restart, even without a reachable API
/// server.
///
/// The files are `PATH.0` and `PATH.1`. With several namespaces or shards, each has two files of its own, `PATH-….0`
/// and `PATH-….1`. The folder must exist, and only one informer at a time can use the files. `docs/JOURNAL.md`
/// describes the guarantees after a crash and the cost.
///
/// The files contain the JSON of the objects, including Secrets, without encryption. They are created with mode 0600,
/// and wider modes are tightened.
///
/// A journal that fails, for example on a full disk, is reported with the class `journal`. It is retried after a second
/// and then at intervals of up to five minutes. Once it can be written, one relist fills it, and `journal-recovered` is
/// reported.
///
/// ```
/// use informer_tokio::{Informer, Raw, Resource};
/// use informer_tokio::journal::Journal;
/// # async fn example(transport: informer_tokio::transport::BoxTransport) -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Journal::file("/var/lib/gateway/pods").cluster("edge-7");
/// let (pods, driver) = Informer::<Raw>::builder_for(&transport, Resource::parse("pods")?)
///     .journal(journal)
///     .build();
/// tokio::spawn(driver.run());
/// pods.served().await?; // Within milliseconds with a journal, and otherwise once it is synced.
/// if let Some(since) = pods.stale_since() {
///     println!("{} objects, possibly stale since {since:?}", pods.lister().len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `Builder::journal`"]
pub struct Journal {
    path: PathBuf,
    cluster: String,
    sync_every: Duration,
}

impl Journal {
    /// Creates a journal in two files: this path with `.0` and `.1` appended.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            cluster: String::new(),
            sync_every: Duration::from_secs(10),
        }
    }

    /// Sets the name of the cluster. A journal of another cluster is rejected. The uid of the namespace `kube-system`
    /// is the best name, and the address of the server is sufficient. Without a name, journals of all clusters are
    /// considered equal.
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = name.into();
        self
    }

    /// Sets how long a change may remain unsynced (`fdatasync`), and so be lost in a power failure. The default is 10
    /// seconds.
    ///
    /// A crash of the program alone loses nothing that was written. A loss only means that the watch resumes at an
    /// older version: the restored state is always one that the server had.
    pub const fn sync_every(mut self, period: Duration) -> Self {
        self.sync_every = period;
        self
    }

    /// The journal of one source of an informer.
    pub(crate) fn of_source(
        &self,
        resource: &Resource<'_>,
        decoder: u64,
        is_one_of_many: bool,
    ) -> SourceJournal {
        let identity = Identity::new(&self.cluster, resource, decoder);
        let mut path = self.path.clone().into_os_string();
        if is_one_of_many {
            path.push(format!("-{}", identity.source()));
        }
        SourceJournal {
            path: path.into(),
            identity,
            sync_every: self.sync_every,
        }
    }
}

/// The current time, in milliseconds since 1970.
pub(crate) fn now() -> Option<u64> {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
}

/// Converts a time in milliseconds since 1970. An unknown time becomes 1970, the earliest possible one.
pub(crate) fn moment(at: Option<u64>) -> SystemTime {
    let since_1970 = Duration::from_millis(at.unwrap_or(0));
    SystemTime::UNIX_EPOCH
        .checked_add(since_1970)
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
