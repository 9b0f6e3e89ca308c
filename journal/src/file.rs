//! A log in two files.

use core::fmt;
use core::time::Duration;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::vec::Vec;

use super::index::Keys;
use super::log::Log;
use super::medium::{Area, Medium};

/// The number of bytes that are buffered before a write.
const GATHERED: usize = 64 << 10;
/// The number of bytes that are read at a time.
const AHEAD: usize = 256 << 10;
/// The number of bytes that are read at a time if only the header of a record is needed. It often includes the next
/// header.
const PEEK: usize = 2 << 10;
/// The average time that such a read may take. It is far above the time for a read from the system's cache, and below
/// the time for a read from a disk. On a disk, sequential reading is faster.
const PEEK_TIME: Duration = Duration::from_micros(20);

/// A journal in two files, `PATH.0` and `PATH.1`. One has the state, and the other is empty except during a compaction.
///
/// A record is in the file once a version is added after it, and survives a power loss after
/// [`sync`](super::RecordLog::sync). The journal stores the keys of its objects in memory: about 100 bytes each.
///
/// The files contain the JSON of the objects, including Secrets, and are not encrypted. Only their owner can read them.
pub type FileJournal = Log<FileMedium, Keys, Vec<u8>>;

impl FileJournal {
    /// Opens the files, and creates missing ones. They are locked while the journal is open.
    ///
    /// # Errors
    /// Fails if the files cannot be opened, or if another process or journal has locked them.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        Ok(Self::new(FileMedium::open(path)?, Vec::new()))
    }
}

/// Two files, for a [`Log`].
#[derive(Debug)]
pub struct FileMedium {
    files: [Named; 2],
    /// The bytes to write at the end of an area.
    gathered: Gathered,
    ahead: Ahead,
    /// The remaining time for short reads.
    patience: Duration,
    exposed: Option<FileError>,
}

#[derive(Debug)]
struct Named {
    file: File,
    path: PathBuf,
}

/// Only the owner can read or write, since the objects may be Secrets.
#[cfg(unix)]
const MODE: u32 = 0o600;

#[derive(Debug)]
struct Gathered {
    area: Area,
    at: u64,
    bytes: Vec<u8>,
}

/// Bytes of an area that were read ahead.
#[derive(Debug)]
struct Ahead {
    area: Area,
    at: u64,
    bytes: Vec<u8>,
    /// The number of bytes that were read.
    len: usize,
}

/// The reason why a file of a journal cannot be used.
///
/// ```
/// let error = informer_journal::FileJournal::open("/nowhere/at/all").err().unwrap();
/// assert!(error.to_string().starts_with("/nowhere/at/all.0 cannot be opened: "));
/// ```
pub struct FileError {
    path: PathBuf,
    what: &'static str,
    cause: io::Error,
}

informer_core::readable_errors!(FileError);

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, what, cause } = self;
        write!(f, "{} cannot be {what}: {cause}", path.display())
    }
}

impl core::error::Error for FileError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.cause)
    }
}

impl Named {
    fn open(path: &Path, number: usize) -> Result<Self, FileError> {
        let mut name = OsString::from(path);
        name.push(std::format!(".{number}"));
        let path = PathBuf::from(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, MODE);
        let opened = options.open(&path);
        let opened = opened.and_then(|file| match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::Error(error)) => Err(error),
            Err(TryLockError::WouldBlock) => Err(io::Error::other(
                "it is locked by another informer: use a separate journal for each",
            )),
        });
        match opened {
            Ok(file) => Ok(Self { file, path }),
            Err(cause) => Err(FileError {
                path,
                what: "opened",
                cause,
            }),
        }
    }

    /// Restricts the mode of a file that was created with a wider one.
    #[cfg(unix)]
    fn make_private(&self) -> Result<(), FileError> {
        use std::os::unix::fs::PermissionsExt as _;
        let found = self.file.metadata().map_err(self.failed("read"))?;
        let mut permissions = found.permissions();
        // A device such as `/dev/null` stores no objects, and other users may need it.
        if !found.is_file() || permissions.mode() & 0o777 & !MODE == 0 {
            return Ok(());
        }
        permissions.set_mode(MODE);
        let done = self.file.set_permissions(permissions);
        done.map_err(self.failed("made private to its owner"))
    }

    /// Does nothing, since there are no modes.
    #[cfg(not(unix))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as on unix")]
    const fn make_private(&self) -> Result<(), FileError> {
        Ok(())
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(io::Error) -> FileError {
        let path = self.path.clone();
        move |cause| FileError { path, what, cause }
    }
}

impl FileMedium {
    /// Opens `PATH.0` and `PATH.1`, and creates missing files. They are locked while the medium is open.
    ///
    /// On Unix the files are created with mode 0600, and files with a wider mode are restricted to it; see
    /// [`exposed`](Self::exposed).
    ///
    /// # Errors
    /// Fails if the files cannot be opened, or if another process or medium has locked them.
    fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let files = [Named::open(path, 0)?, Named::open(path, 1)?];
        // A journal is useful on a file system without modes, such as FAT.
        let exposed = files.iter().find_map(|file| file.make_private().err());
        // The existence of the files must survive a power loss as well. Not every system can sync a folder.
        #[cfg(unix)]
        {
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or_else(|| Path::new("."));
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(|cause| FileError {
                path: folder.into(),
                what: "synced",
                cause,
            })?;
        }
        Ok(Self {
            files,
            gathered: Gathered {
                area: Area::First,
                at: 0,
                bytes: Vec::new(),
            },
            ahead: Ahead {
                area: Area::First,
                at: 0,
                bytes: Vec::new(),
                len: 0,
            },
            patience: 100 * PEEK_TIME,
            exposed,
        })
    }

    /// Returns the reason if other users of the machine can read the files, because their mode could not be changed.
    #[must_use]
    pub const fn exposed(&self) -> Option<&FileError> {
        self.exposed.as_ref()
    }

    fn named(&self, area: Area) -> &Named {
        let [first, second] = &self.files;
        match area {
            Area::First => first,
            Area::Second => second,
        }
    }

    /// Writes the buffered bytes.
    fn flush(&mut self) -> Result<(), FileError> {
        if self.gathered.bytes.is_empty() {
            return Ok(());
        }
        let named = self.named(self.gathered.area);
        let mut file = &named.file;
        file.seek(SeekFrom::Start(self.gathered.at))
            .and_then(|_| file.write_all(&self.gathered.bytes))
            .map_err(named.failed("written"))?;
        self.gathered.bytes.clear();
        Ok(())
    }

    /// Ensures that bytes are in memory, and reads ahead.
    fn read_ahead(
        &mut self,
        area: Area,
        at: u64,
        len: usize,
        most: usize,
    ) -> Result<(), FileError> {
        if self.ahead.get(area, at, len).is_some() {
            return Ok(());
        }
        self.flush()?;
        let most = most.max(len);
        let mut bytes = core::mem::take(&mut self.ahead.bytes);
        if bytes.len() < most {
            bytes.resize(most, 0);
        }
        let into = bytes.get_mut(..most).unwrap_or_default();
        let named = self.named(area);
        let read = read_at(&named.file, at, into).map_err(named.failed("read"))?;
        self.ahead = Ahead {
            area,
            at,
            bytes,
            len: read,
        };
        Ok(())
    }

    fn ahead(&self, area: Area, at: u64, len: usize) -> Result<&[u8], FileError> {
        let failed = || self.named(area).failed("read")(io::ErrorKind::UnexpectedEof.into());
        self.ahead.get(area, at, len).ok_or_else(failed)
    }

    fn set_len(&mut self, area: Area, len: u64) -> Result<(), FileError> {
        self.ahead.len = 0;
        if self.gathered.area == area {
            self.gathered.bytes.clear();
        }
        let named = self.named(area);
        named.file.set_len(len).map_err(named.failed("cut"))
    }
}

impl Ahead {
    fn get(&self, area: Area, at: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(at.checked_sub(self.at)?).ok()?;
        let bytes = self.bytes.get(..self.len)?;
        let bytes = bytes.get(start..start.checked_add(len)?)?;
        (self.area == area).then_some(bytes)
    }
}

/// Reads up to the end of the file.
fn read_at(file: &File, at: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(left) = into.get_mut(done..).filter(|left| !left.is_empty()) {
        match read_some(file, at + done as u64, left) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(unix)]
fn read_some(file: &File, at: u64, into: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, at)
}

#[cfg(not(unix))]
fn read_some(mut file: &File, at: u64, into: &mut [u8]) -> io::Result<usize> {
    use std::io::Read as _;
    file.seek(SeekFrom::Start(at))?;
    file.read(into)
}

impl Medium for FileMedium {
    type Error = FileError;

    fn unit(&self) -> usize {
        1
    }

    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn len(&mut self, area: Area) -> Result<u64, FileError> {
        self.flush()?;
        let named = self.named(area);
        let found = named.file.metadata().map_err(named.failed("read"))?;
        Ok(found.len())
    }

    fn read(&mut self, area: Area, at: u64, into: &mut [u8]) -> Result<(), FileError> {
        self.read_ahead(area, at, into.len(), AHEAD)?;
        into.copy_from_slice(self.ahead(area, at, into.len())?);
        Ok(())
    }

    fn peek(&mut self, area: Area, at: u64, into: &mut [u8]) -> Result<(), FileError> {
        if self.patience.is_zero() {
            return self.read(area, at, into);
        }
        if self.ahead.get(area, at, into.len()).is_none() {
            let start = Instant::now();
            self.read_ahead(area, at, into.len(), PEEK)?;
            self.patience = (self.patience + PEEK_TIME).saturating_sub(start.elapsed());
        }
        into.copy_from_slice(self.ahead(area, at, into.len())?);
        Ok(())
    }

    fn lend(&mut self, area: Area, at: u64, len: usize) -> Result<Option<&[u8]>, FileError> {
        self.read_ahead(area, at, len, AHEAD)?;
        self.ahead(area, at, len).map(Some)
    }

    fn write(&mut self, area: Area, at: u64, bytes: &[u8]) -> Result<(), FileError> {
        let end = self.gathered.at + self.gathered.bytes.len() as u64;
        if self.gathered.area != area || end != at || self.gathered.bytes.len() >= GATHERED {
            self.flush()?;
            (self.gathered.area, self.gathered.at) = (area, at);
        }
        self.gathered.bytes.extend_from_slice(bytes);
        if self.ahead.area == area {
            self.ahead.len = 0;
        }
        Ok(())
    }

    fn clear(&mut self, area: Area) -> Result<(), FileError> {
        self.set_len(area, 0)
    }

    fn cut(&mut self, area: Area, at: u64) -> Result<bool, FileError> {
        if self.len(area)? > at {
            self.set_len(area, at)?;
        }
        Ok(true)
    }

    fn commit(&mut self) -> Result<(), FileError> {
        self.flush()
    }

    fn sync(&mut self, area: Area) -> Result<(), FileError> {
        self.flush()?;
        let named = self.named(area);
        named.file.sync_data().map_err(named.failed("synced"))
    }

    fn free(&mut self, area: Area) -> Result<(), FileError> {
        self.set_len(area, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Identity, Loaded, Reached, Record, RecordLog as _};
    use super::*;
    use informer_core::Resource;

    /// With large and small steps, from a slow disk and from memory.
    #[test]
    fn records_do_not_depend_on_the_size_of_reads() {
        let folder =
            std::env::temp_dir().join(std::format!("informer-read-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("pods");
        let identity = Identity::new("here", &Resource::new("", "v1", "pods"), 0);
        let object =
            |number: usize| std::vec![b'x'; number * 977 % (2 * PEEK) + number % 3 * AHEAD];
        let mut journal = FileJournal::open(&path).unwrap();
        journal.load(&identity, &mut |_| (), &mut |_| ()).unwrap();
        for number in 0..100 {
            let (key, object) = (std::format!("prod/{number}"), object(number));
            let (key, object) = (&*key, &*object);
            journal.append(Record::Put { key, object }).unwrap();
        }
        journal.append(Record::Version(Reached::new("7"))).unwrap();
        drop(journal);
        for patience in [Duration::ZERO, PEEK_TIME / 1000, Duration::MAX / 2] {
            let mut medium = FileMedium::open(&path).unwrap();
            medium.patience = patience;
            let mut journal: FileJournal = Log::new(medium, Vec::new());
            let mut count = 0;
            let mut take = |record: Record<'_>| {
                if let Record::Put { key, object: found } = record {
                    assert_eq!(key, std::format!("prod/{count}"));
                    assert_eq!(found, object(count));
                    count += 1;
                } else {
                    assert_eq!(record, Record::Version(Reached::new("7")));
                }
            };
            let loaded = journal.load(&identity, &mut take, &mut |lost| panic!("{lost}"));
            assert_eq!((loaded.unwrap(), count), (Loaded::Restored, 100));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn the_files_are_readable_by_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder =
            std::env::temp_dir().join(std::format!("informer-mode-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("secrets");
        // A file that an earlier version created.
        std::fs::write(folder.join("secrets.1"), "").unwrap();
        let wide = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(folder.join("secrets.1"), wide).unwrap();
        let medium = FileMedium::open(&path).unwrap();
        assert!(medium.exposed().is_none());
        for file in std::fs::read_dir(&folder).unwrap() {
            let file = file.unwrap();
            let mode = file.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.path().display());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
