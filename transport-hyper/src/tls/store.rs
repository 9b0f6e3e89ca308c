//! The operating system's store of CA certificates.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustls_native_certs::{CertificateResult, Error, ErrorKind, load_certs_from_paths};
use rustls_pki_types::CertificateDer;

use crate::build_error::BuildError;
use crate::tls::Peer;

/// What a store has, and where that was looked for.
pub(super) struct Store {
    pub(super) certificates: Vec<CertificateDer<'static>>,
    /// Whether environment variables name the store.
    pub(super) is_named: bool,
    /// The files and folders that were read; none if the store is not in files.
    read: Vec<PathBuf>,
    errors: Vec<Error>,
}

impl Store {
    /// Reads the store that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, or else that of the operating system. It blocks.
    pub(super) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        // As in Go, an empty variable counts as none.
        let get = |name| variable(name).filter(|value| !value.is_empty());
        let (file, folders) = (get("SSL_CERT_FILE"), get("SSL_CERT_DIR"));
        if file.is_none() && folders.is_none() {
            return Self::of_system();
        }
        let folders = folders.iter().flat_map(env::split_paths);
        let folders = folders.filter(|folder| !folder.as_os_str().is_empty());
        Self {
            is_named: true,
            ..Self::load(file.map(PathBuf::from), folders.collect())
        }
    }

    #[cfg(all(unix, not(target_os = "macos")))]
    fn of_system() -> Self {
        let found = openssl_probe::probe();
        Self::load(found.cert_file, found.cert_dir)
    }

    #[cfg(not(all(unix, not(target_os = "macos"))))]
    fn of_system() -> Self {
        let mut store = Self::load(None, Vec::new());
        store.add(rustls_native_certs::load_native_certs());
        store
    }

    fn load(file: Option<PathBuf>, folders: Vec<PathBuf>) -> Self {
        let mut store = Self {
            certificates: Vec::new(),
            is_named: false,
            read: Vec::new(),
            errors: Vec::new(),
        };
        if let Some(file) = file {
            store.add(load_certs_from_paths(Some(&file), None));
            store.read.push(file);
        }
        for folder in folders {
            store.add(load_certs_from_paths(None, Some(&folder)));
            store.read.push(folder);
        }
        // A folder usually has the certificates of the file again.
        store
            .certificates
            .sort_unstable_by(|a, b| a.as_ref().cmp(b.as_ref()));
        store.certificates.dedup();
        store
    }

    fn add(&mut self, found: CertificateResult) {
        self.certificates.extend(found.certs);
        self.errors.extend(found.errors);
    }

    /// Logs what could not be read.
    pub(super) fn warn(&self) {
        for error in &self.errors {
            tracing::warn!("the store of CA certificates: {}", why(error));
        }
    }

    /// Explains that the store has no usable certificate, and the ways out.
    pub(super) fn nothing(&self, peer: Peer) -> BuildError {
        let looked = if self.read.is_empty() {
            USUAL.to_owned()
        } else {
            let read = self.read.iter().map(|path| self.describe(path));
            format!("looked at {}", read.collect::<Vec<_>>().join(" and "))
        };
        let store = if self.is_named {
            "the store of CA certificates that SSL_CERT_FILE or SSL_CERT_DIR names has none"
        } else {
            "the operating system's store of CA certificates has none"
        };
        let (start, set) = match peer {
            Peer::Server => (
                "",
                "set the cluster's CA (root_certificates, or certificate-authority in a kubeconfig), ",
            ),
            Peer::Proxy => ("proxy: ", ""),
        };
        BuildError(format!(
            "{start}no CA to trust: {store} ({looked}); {set}install the package ca-certificates, name a file with \
             certificates in SSL_CERT_FILE, or compile a list of CAs in (the cargo feature webpki-roots)"
        ))
    }

    /// Describes what was read, with the reason if it could not be.
    fn describe(&self, read: &Path) -> String {
        let is_of =
            |error: &&Error| matches!(&error.kind, ErrorKind::Io { path, .. } if path == read);
        let place = read.display();
        match self.errors.iter().find(is_of).map(|error| &error.kind) {
            Some(ErrorKind::Io { inner, .. }) => format!("{place}: {inner}"),
            _ => place.to_string(),
        }
    }
}

/// Where stores usually are, if none of these places exists.
#[cfg(all(unix, not(target_os = "macos")))]
const USUAL: &str =
    "the usual files and folders do not exist, such as /etc/ssl/certs and /etc/pki/tls/certs";
#[cfg(not(all(unix, not(target_os = "macos"))))]
const USUAL: &str = "it is not in files";

/// Describes an error in one line.
fn why(error: &Error) -> String {
    if let ErrorKind::Io { inner, path } = &error.kind {
        format!("cannot read {}: {inner}", path.display())
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::roots::Roots;

    fn read(variables: &[(&str, &Path)]) -> Store {
        Store::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, path)| path.as_os_str().to_owned())
        })
    }

    fn made() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let made = rcgen::CertificateParams::default().self_signed(&key);
        made.unwrap().pem()
    }

    #[test]
    fn variables_name_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let (file, inner) = (folder.path().join("a.pem"), folder.path().join("inner"));
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(&file, made() + &made()).unwrap();
        std::fs::write(inner.join("c.0"), made()).unwrap();
        std::fs::write(inner.join("nothing"), "no certificate").unwrap();
        for (variables, certificates) in [
            (&[("SSL_CERT_FILE", &*file)][..], 2),
            (&[("SSL_CERT_DIR", &*inner)], 1),
            (&[("SSL_CERT_FILE", &*file), ("SSL_CERT_DIR", &*inner)], 3),
            // The folder has the file again.
            (
                &[("SSL_CERT_FILE", &*file), ("SSL_CERT_DIR", folder.path())],
                2,
            ),
        ] {
            let store = read(variables);
            assert!(store.is_named);
            assert_eq!(store.certificates.len(), certificates, "{variables:?}");
        }
        assert!(!read(&[("SSL_CERT_FILE", Path::new(""))]).is_named);
        assert!(!read(&[]).is_named);
    }

    /// An image without `/etc/ssl`.
    #[test]
    fn a_system_without_a_store_is_explained() {
        let empty = tempfile::tempdir().unwrap();
        for (store, expected) in [
            (Store::load(None, Vec::new()), USUAL.to_owned()),
            (
                Store::load(None, vec![empty.path().to_owned()]),
                format!("(looked at {})", empty.path().display()),
            ),
        ] {
            let error = store.nothing(Peer::Server).0;
            for words in [
                "no CA to trust: the operating system's store of CA certificates has none",
                &expected,
                "certificate-authority",
                "ca-certificates",
                "webpki-roots",
            ] {
                assert!(error.contains(words), "{words}: {error}");
            }
            let roots = Roots::of_store(&store, Peer::Server);
            if cfg!(feature = "webpki-roots") {
                let now = rustls_pki_types::UnixTime::now();
                assert!(roots.is_ok_and(|roots| roots.store(now).len() > 50));
            } else {
                assert_eq!(roots.err(), Some(BuildError(error)));
            }
        }
    }

    /// A store that is named is never replaced by another one.
    #[test]
    fn a_named_store_without_a_ca_is_an_error() {
        let missing = tempfile::tempdir().unwrap().path().join("missing");
        let store = read(&[("SSL_CERT_FILE", &missing)]);
        let error = Roots::of_store(&store, Peer::Proxy).err().unwrap().0;
        let read = format!("(looked at {}: ", missing.display());
        assert!(
            error.starts_with("proxy: no CA to trust: ") && error.contains(&read),
            "{error}"
        );
    }
}
