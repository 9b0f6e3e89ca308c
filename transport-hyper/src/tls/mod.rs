//! The TLS configuration, which is rebuilt when certificate files change.

mod algorithm;
mod der;
mod describe;
mod handshake;
mod insecure;
mod key;
mod peer;
mod provider;
mod roots;
mod store;
mod verify;

use alloc::sync::Arc;
use core::time::Duration;
use std::env;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::crypto::CryptoProvider;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ConfigBuilder, InconsistentKeys, WantsVerifier};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::address::Host;
use crate::build_error::BuildError;
use crate::connect::{H2, Protocols};
use crate::credentials::{ClientCertificate, Secret};
use crate::tls::peer::Peer;
use crate::tls::provider::provider;
use crate::tls::roots::Roots;
use crate::tls::verify::Verifier;

pub(crate) use describe::describe;
pub(crate) use handshake::Handshake;
pub(crate) use rustls::Error;

/// The user's TLS settings.
#[derive(Clone, Default, Debug)]
pub(crate) struct TlsSettings {
    pub(crate) roots: Vec<PemSource>,
    pub(crate) identity: Option<Identity>,
    pub(crate) config: Option<ClientConfig>,
    pub(crate) server_name: Option<String>,
    pub(crate) insecure: bool,
}

/// The source of certificates or a key.
#[derive(Clone, Debug)]
pub(crate) enum PemSource {
    /// `Debug` does not show it, since it may hold keys beside certificates.
    Data(Secret),
    File(PathBuf),
    #[cfg(feature = "kubeconfig")]
    Part(Arc<dyn ReadPem>),
}

/// A part of a larger file, which has been read already.
#[cfg(feature = "kubeconfig")]
pub(crate) trait ReadPem: core::fmt::Debug + Send + Sync {
    /// Returns it as it was at first, or after reading the file `again`. `what` names it in an error. It blocks.
    fn read(&self, what: &str, again: bool) -> Result<Secret, BuildError>;
}

/// A client's certificate and key.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) chain: PemSource,
    pub(crate) key: PemSource,
}

impl TlsSettings {
    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty()
            && self.identity.is_none()
            && self.config.is_none()
            && self.server_name.is_none()
            && !self.insecure
    }

    fn check(&self) -> Result<(), BuildError> {
        let problem = if self.config.is_some()
            && (!self.roots.is_empty() || self.identity.is_some() || self.insecure)
        {
            "tls_config: it cannot be combined with certificates; add these to the configuration"
        } else if self.insecure && !self.roots.is_empty() {
            "insecure_skip_tls_verify: it cannot be combined with root certificates, which it would ignore"
        } else {
            return Ok(());
        };
        Err(BuildError(problem.to_owned()))
    }

    /// Reads the certificates and the key. `again` says that they were read before.
    fn read(&self, again: bool) -> Result<Material, BuildError> {
        let roots = self.roots.iter();
        let identity = self.identity.as_ref().map(|identity| {
            let chain = identity.chain.read("client certificate", again)?;
            Ok((chain, identity.key.read("client key", again)?))
        });
        Ok(Material {
            roots: roots
                .map(|root| root.read("root certificates", again))
                .collect::<Result<_, _>>()?,
            identity: identity.transpose()?,
        })
    }

    /// Whether the operating system's store is trusted.
    fn needs_store(&self) -> bool {
        self.roots.is_empty() && self.config.is_none() && !self.insecure
    }

    fn has_files(&self) -> bool {
        let identity = self.identity.iter().flat_map(|i| [&i.chain, &i.key]);
        let mut sources = self.roots.iter().chain(identity);
        sources.any(|source| !matches!(source, PemSource::Data(_)))
    }
}

impl PemSource {
    /// Reads a certificate or a key. `again` says that it was read before.
    #[cfg_attr(
        not(feature = "kubeconfig"),
        expect(unused_variables, reason = "files have no first state")
    )]
    pub(crate) fn read(&self, what: &str, again: bool) -> Result<Secret, BuildError> {
        match self {
            Self::Data(data) => Ok(data.clone()),
            Self::File(path) => read(what, path).map(Secret),
            #[cfg(feature = "kubeconfig")]
            Self::Part(part) => part.read(what, again),
        }
    }
}

/// Reads a small file. It blocks, so it runs on a blocking thread while requests are in progress.
fn read(what: &str, path: &Path) -> Result<Vec<u8>, BuildError> {
    let wrong = |why: &dyn core::fmt::Display| {
        BuildError(format!("{what}: cannot read {}: {why}", path.display()))
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| wrong(&error))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(wrong(&format_args!("it has more than {MOST_BYTES} bytes")));
    }
    Ok(bytes)
}

/// The CAs of a whole operating system take a few hundred kilobytes.
const MOST_BYTES: u64 = 16 << 20;

/// The data last read, used to detect changes.
#[derive(Clone, PartialEq, Eq)]
struct Material {
    roots: Vec<Secret>,
    identity: Option<(Secret, Secret)>,
}

/// TLS for one server name.
pub(crate) struct Tls {
    name: ServerName<'static>,
    settings: Arc<TlsSettings>,
    protocols: Protocols,
    state: Mutex<Current>,
}

struct Current {
    config: Arc<ClientConfig>,
    version: Version,
    material: Material,
    roots: Arc<Roots>,
    /// The roots that were valid when the configuration was made.
    valid: Vec<bool>,
    /// The client certificate of the credential. It takes precedence over the configured one.
    presented: Option<Arc<ClientCertificate>>,
    looked: Instant,
    /// The last problem with the files. It is kept so that it is logged only once.
    trouble: Option<BuildError>,
}

/// A counter of configurations. A connection that was opened with an older one accepts no new requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Version(u64);

impl Tls {
    pub(crate) fn new(
        settings: TlsSettings,
        host: &Host,
        protocols: Protocols,
    ) -> Result<Self, BuildError> {
        settings.check()?;
        if settings.insecure {
            tracing::warn!(
                "INSECURE: the certificate of the API server at {host} is not verified; an attacker on the network can read and \
                 change everything, including credentials"
            );
        }
        let name = match &settings.server_name {
            Some(name) => certificate_name("server name", name)?,
            None => host_name("server URL", host)?,
        };
        let material = settings.read(false)?;
        let roots = if settings.needs_store() {
            Roots::of_system(|name| env::var_os(name), Peer::Server)?
        } else {
            Roots::of(&material.roots)?
        };
        let roots = Arc::new(roots);
        let valid = roots.valid(UnixTime::now());
        roots.warn(&valid);
        let config = config(&settings, &material, &roots, None, protocols)?;
        Ok(Self {
            name,
            settings: Arc::new(settings),
            protocols,
            state: Mutex::new(Current {
                config: Arc::new(config),
                version: Version::default(),
                material,
                roots,
                valid,
                presented: None,
                looked: Instant::now(),
                trouble: None,
            }),
        })
    }

    /// Returns the handshake of a new connection, after reading the files.
    ///
    /// # Errors
    /// Fails if none of the CAs is currently valid.
    pub(crate) async fn handshake(&self) -> Result<(Handshake, Version), String> {
        self.look().await;
        let mut state = self.state();
        let now = UnixTime::now();
        let valid = state.roots.valid(now);
        if valid != state.valid {
            let presented = state.presented.clone();
            self.make(&mut state, presented).map_err(|error| error.0)?;
        }
        // There are no roots if verification is disabled.
        match state.roots.problem(now) {
            Some(problem) => Err(problem),
            None => {
                let handshake = Handshake {
                    config: Arc::clone(&state.config),
                    name: self.name.clone(),
                };
                Ok((handshake, state.version))
            }
        }
    }

    /// Reads the files if the last check is too old, and returns the version of the current configuration.
    pub(crate) async fn version(&self) -> Version {
        let is_due = self.state().looked.elapsed() >= LOOK_EVERY;
        if is_due {
            self.look().await;
        }
        self.state().version
    }

    /// Sets the client certificate of the credential.
    pub(crate) fn present(&self, presented: Option<&Arc<ClientCertificate>>) -> Result<(), String> {
        let mut state = self.state();
        if state.presented.as_ref() == presented {
            return Ok(());
        }
        self.make(&mut state, presented.cloned())
            .map_err(|error| error.0)
    }

    /// Reads the files again. A file that cannot be read or parsed changes nothing, since it may be half written.
    async fn look(&self) {
        if !self.settings.has_files() {
            return;
        }
        self.state().looked = Instant::now();
        let settings = Arc::clone(&self.settings);
        let read = spawn_blocking(move || settings.read(true)).await;
        let read = read.unwrap_or_else(|error| Err(BuildError(error.to_string())));
        let mut state = self.state();
        let renewed = read.and_then(|material| self.renew(&mut state, material));
        let trouble = renewed.err();
        if trouble != state.trouble {
            match &trouble {
                Some(error) => tracing::warn!("keeping the previous certificates: {error}"),
                None => tracing::info!("the certificate files are readable again"),
            }
            state.trouble = trouble;
        }
    }

    fn renew(&self, state: &mut Current, material: Material) -> Result<(), BuildError> {
        if material == state.material {
            return Ok(());
        }
        // The store is read once, as by Go.
        let roots = if self.settings.needs_store() {
            Arc::clone(&state.roots)
        } else {
            Arc::new(Roots::of(&material.roots)?)
        };
        let old = (
            core::mem::replace(&mut state.material, material),
            core::mem::replace(&mut state.roots, roots),
        );
        let presented = state.presented.clone();
        let made = self.make(state, presented);
        if made.is_err() {
            (state.material, state.roots) = old;
        }
        made
    }

    /// Builds a configuration from the state.
    fn make(
        &self,
        state: &mut Current,
        presented: Option<Arc<ClientCertificate>>,
    ) -> Result<(), BuildError> {
        let valid = state.roots.valid(UnixTime::now());
        let config = config(
            &self.settings,
            &state.material,
            &state.roots,
            presented.as_deref(),
            self.protocols,
        )?;
        state.roots.warn(&valid);
        state.config = Arc::new(config);
        state.version.0 += 1;
        state.valid = valid;
        state.presented = presented;
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, Current> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The maximum age of the last check of the files when a request is sent. Before a new connection they are always
/// checked.
const LOOK_EVERY: Duration = Duration::from_secs(10);

fn host_name(what: &str, host: &Host) -> Result<ServerName<'static>, BuildError> {
    match host {
        Host::Ip(ip) => Ok(ServerName::from(*ip)),
        Host::Name(name) => certificate_name(what, name),
    }
}

fn certificate_name(what: &str, name: &str) -> Result<ServerName<'static>, BuildError> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        BuildError(format!(
            "{what}: {name:?} is not a valid name for a certificate"
        ))
    })
}

/// Returns the protocols to offer in the handshake, in order of preference.
fn alpn(protocols: Protocols) -> Vec<Vec<u8>> {
    let offers = [(protocols.http2, H2), (protocols.http1, b"http/1.1")];
    let offered = offers.iter().filter(|(is_on, _)| *is_on);
    offered.map(|(_, name)| name.to_vec()).collect()
}

fn config(
    settings: &TlsSettings,
    material: &Material,
    roots: &Arc<Roots>,
    presented: Option<&ClientCertificate>,
    protocols: Protocols,
) -> Result<ClientConfig, BuildError> {
    let mut config = match &settings.config {
        Some(config) if presented.is_none() => config.clone(),
        Some(_) => {
            return Err(BuildError(
                "the credential has a client certificate, which cannot be combined with tls_config"
                    .to_owned(),
            ));
        }
        None => made(settings.insecure, material, roots, presented)?,
    };
    config.alpn_protocols = alpn(protocols);
    Ok(config)
}

fn made(
    insecure: bool,
    material: &Material,
    roots: &Arc<Roots>,
    presented: Option<&ClientCertificate>,
) -> Result<ClientConfig, BuildError> {
    let provider = provider()?;
    let builder = begun(&provider)?.dangerous();
    let builder = if insecure {
        builder.with_custom_certificate_verifier(Arc::new(insecure::Anyone(Arc::clone(&provider))))
    } else {
        builder.with_custom_certificate_verifier(Arc::new(Verifier {
            roots: Arc::clone(roots),
            peer: Peer::Server,
            provider: Arc::clone(&provider),
        }))
    };
    let identity = material.identity.as_ref();
    let identity = presented
        .map(|presented| (&presented.chain, &presented.key))
        .or_else(|| identity.map(|(chain, key)| (chain, key)));
    let Some((chain, key)) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates("client certificate", &chain.0)?;
    let chain = chain.into_iter().collect::<Result<_, _>>()?;
    let certified = CertifiedKey::new(chain, key::signing_key(&key.0, &provider)?);
    // rustls cannot check the key of an X.509 version 1 certificate, which openssl creates if no extensions are
    // requested. Servers accept such certificates, so they are accepted here.
    if let Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) = certified.keys_match() {
        return Err(BuildError(
            "client certificate and key: they do not belong together".to_owned(),
        ));
    }
    let resolver = Arc::new(SingleCertAndKey::from(certified));
    Ok(builder.with_client_cert_resolver(resolver))
}

/// Returns the handshake with a proxy, which the operating system's store must trust. It blocks.
pub(crate) fn for_proxy(host: &Host) -> Result<Handshake, BuildError> {
    let name = host_name("proxy", host)?;
    let provider = provider()?;
    let verifier = Verifier {
        roots: Arc::new(Roots::of_system(|name| env::var_os(name), Peer::Proxy)?),
        peer: Peer::Proxy,
        provider: Arc::clone(&provider),
    };
    let config = begun(&provider)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Handshake {
        config: Arc::new(config),
        name,
    })
}

fn begun(
    provider: &Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, BuildError> {
    ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| BuildError(format!("TLS: {error}")))
}

/// Parses certificates. Each of them may be invalid.
fn certificates(
    what: &str,
    bytes: &[u8],
) -> Result<Vec<Result<CertificateDer<'static>, BuildError>>, BuildError> {
    if !is_pem(bytes) {
        if bytes.first() != Some(&DER_SEQUENCE) {
            return Err(BuildError(format!(
                "{what}: neither PEM text (-----BEGIN CERTIFICATE-----) nor DER"
            )));
        }
        return Ok(vec![Ok(CertificateDer::from(bytes.to_vec()))]);
    }
    let found: Vec<_> = CertificateDer::pem_slice_iter(bytes)
        .map(|found| found.map_err(|error| BuildError(format!("{what}: {error}"))))
        .collect();
    if found.is_empty() {
        return Err(BuildError(format!(
            "{what}: the PEM text contains no CERTIFICATE"
        )));
    }
    Ok(found)
}

fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(PEM_BEGIN.len()).any(|w| w == PEM_BEGIN)
}

const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const DER_SEQUENCE: u8 = 0x30;
