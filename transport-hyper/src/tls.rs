//! TLS: from certificates to a configuration, and from rustls' errors to words.

use alloc::sync::Arc;

use rustls::crypto::ring;
use rustls::{AlertDescription, CertificateError, ClientConfig, InvalidMessage, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::address::Host;
use crate::builder::BuildError;
use crate::connect::Protocols;
use crate::credentials::Secret;

/// Shakes hands with the server of one name.
pub(crate) struct TlsConnector {
    pub(crate) connector: tokio_rustls::TlsConnector,
    pub(crate) name: ServerName<'static>,
}

/// What the user gave.
#[derive(Clone, Default, Debug)]
pub(crate) struct TlsSettings {
    /// Not shown by `Debug`: a file may hold keys beside certificates.
    pub(crate) roots: Vec<Secret>,
    pub(crate) identity: Option<Identity>,
    pub(crate) config: Option<ClientConfig>,
}

/// A client's certificate and key.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) chain: Secret,
    pub(crate) key: Secret,
}

impl TlsSettings {
    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty() && self.identity.is_none() && self.config.is_none()
    }
}

pub(crate) fn connector(
    settings: TlsSettings,
    host: &Host,
    protocols: Protocols,
) -> Result<TlsConnector, BuildError> {
    let name = match host {
        Host::Ip(ip) => ServerName::from(*ip),
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(|_| {
            BuildError(format!(
                "server URL: {name:?} is not a name that a certificate can have"
            ))
        })?,
    };
    let mut config = match settings.config {
        Some(config) if settings.roots.is_empty() && settings.identity.is_none() => config,
        Some(_) => {
            let advice =
                "tls_config: it is given beside certificates; put these into the configuration";
            return Err(BuildError(advice.to_owned()));
        }
        None => config(&settings.roots, settings.identity.as_ref())?,
    };
    config.alpn_protocols = protocols.alpn();
    Ok(TlsConnector {
        connector: Arc::new(config).into(),
        name,
    })
}

fn config(roots: &[Secret], identity: Option<&Identity>) -> Result<ClientConfig, BuildError> {
    // Named here, for the provider of the whole process may be another one, or none.
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| BuildError(format!("TLS: {error}")))?
        .with_root_certificates(root_store(roots)?);
    let Some(identity) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates("client certificate", &identity.chain.0)?;
    builder
        .with_client_auth_cert(chain, private_key(&identity.key.0)?)
        .map_err(|error| BuildError(format!("client certificate and key: {error}")))
}

fn root_store(roots: &[Secret]) -> Result<RootCertStore, BuildError> {
    let mut store = RootCertStore::empty();
    if roots.is_empty() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    for bytes in roots {
        for certificate in certificates("root certificates", &bytes.0)? {
            store
                .add(certificate)
                .map_err(|error| BuildError(format!("root certificates: {error}")))?;
        }
    }
    Ok(store)
}

fn certificates(what: &str, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, BuildError> {
    if !is_pem(bytes) {
        if bytes.first() != Some(&DER_SEQUENCE) {
            return Err(BuildError(format!(
                "{what}: neither PEM text (-----BEGIN CERTIFICATE-----) nor DER"
            )));
        }
        return Ok(vec![CertificateDer::from(bytes.to_vec())]);
    }
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(BuildError(format!(
            "{what}: the PEM text has no CERTIFICATE in it"
        ))),
        Ok(found) => Ok(found),
        Err(error) => Err(BuildError(format!("{what}: {error}"))),
    }
}

/// Its errors say nothing of what is in the key.
fn private_key(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, BuildError> {
    let key = if is_pem(bytes) {
        PrivateKeyDer::from_pem_slice(bytes).ok()
    } else {
        PrivateKeyDer::try_from(bytes.to_vec()).ok()
    };
    key.ok_or_else(|| {
        BuildError(
            "client key: no private key in PKCS#8, PKCS#1 or SEC1, as PEM text or DER".to_owned(),
        )
    })
}

fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(PEM_BEGIN.len()).any(|w| w == PEM_BEGIN)
}

const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const DER_SEQUENCE: u8 = 0x30;

/// Says why a handshake failed and what can be done about it.
pub(crate) fn describe(error: &rustls::Error) -> String {
    if let rustls::Error::InvalidCertificate(error) = error {
        return describe_certificate(error);
    }
    if let rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) = error {
        return "the server does not speak TLS; is it an http:// URL?".to_owned();
    }
    if let rustls::Error::AlertReceived(alert) = error {
        return describe_alert(*alert);
    }
    error.to_string()
}

fn describe_certificate(error: &CertificateError) -> String {
    if matches!(error, CertificateError::UnknownIssuer) {
        return "the server's certificate is signed by an unknown CA; give the cluster's CA by root_certificates"
            .into();
    }
    // All CAs that kubeadm makes have one name, so the CA of another cluster ends here.
    if matches!(error, CertificateError::BadSignature) {
        return "the server's certificate is signed by another CA of the same name as the one in root_certificates; \
                give this cluster's CA"
            .into();
    }
    if let CertificateError::ExpiredContext { time, not_after } = error {
        return format!(
            "the server's certificate has expired {} ago; renew it",
            span(*not_after, *time)
        );
    }
    if let CertificateError::NotValidYetContext { time, not_before } = error {
        let span = span(*time, *not_before);
        return format!("the server's certificate is valid only in {span}; is the clock right?");
    }
    if let CertificateError::NotValidForNameContext {
        expected,
        presented,
    } = error
    {
        let presented = presented
            .iter()
            .map(|name| bare(name))
            .collect::<Vec<_>>()
            .join(", ");
        return format!(
            "the server's certificate is not valid for the name {:?}; it is for {}",
            expected.to_str(),
            if presented.is_empty() {
                "no name at all"
            } else {
                &presented
            },
        );
    }
    format!(
        "the server's certificate cannot be used: {}",
        rustls::Error::InvalidCertificate(error.clone())
    )
}

/// Takes a name out of `DnsName("name")` and `IpAddress(name)`, which is how rustls tells it.
fn bare(presented: &str) -> &str {
    match presented.split_once('(') {
        Some((_, name)) => name.trim_end_matches(')').trim_matches('"'),
        None => presented,
    }
}

fn describe_alert(alert: AlertDescription) -> String {
    let known = [
        (
            AlertDescription::CertificateRequired,
            "wants a client certificate; give one by client_certificate",
        ),
        (
            AlertDescription::UnknownCA,
            "does not know the CA of the client's certificate",
        ),
        (
            AlertDescription::DecryptError,
            "cannot verify the client's certificate; is it of another cluster?",
        ),
        (
            AlertDescription::CertificateExpired,
            "found the client's certificate expired; renew it",
        ),
        (
            AlertDescription::BadCertificate,
            "does not take the client's certificate",
        ),
        (
            AlertDescription::CertificateUnknown,
            "does not take the client's certificate",
        ),
        (
            AlertDescription::HandshakeFailure,
            "has no TLS parameters in common with this client",
        ),
        (
            AlertDescription::NoApplicationProtocol,
            "speaks none of the protocols that this client allows (see http1 and http2)",
        ),
        (
            AlertDescription::ProtocolVersion,
            "has no TLS version in common with this client (1.2 and 1.3)",
        ),
    ];
    let found = known.iter().find(|(known, _)| *known == alert);
    found.map_or_else(
        || format!("the server sent the alert {alert:?}"),
        |(_, text)| format!("the server {text}"),
    )
}

/// The time from one point to another in its largest unit.
fn span(from: UnixTime, to: UnixTime) -> String {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
