//! Plain descriptions of rustls' errors.

use core::time::Duration;

use rustls::{AlertDescription, CertificateError, InvalidMessage, OtherError};
use rustls_pki_types::UnixTime;

use crate::tls::algorithm::{self, FOR_SERVERS};
use crate::tls::verify::Explained;

/// Explains why a handshake failed, with advice.
pub(crate) fn describe(error: &rustls::Error) -> String {
    if let rustls::Error::InvalidCertificate(error) = error {
        return describe_certificate(error);
    }
    if let rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) = error {
        return "the server does not use TLS; should the URL be http://?".to_owned();
    }
    if let rustls::Error::AlertReceived(alert) = error {
        return describe_alert(*alert);
    }
    error.to_string()
}

/// Describes why a certificate is not taken as a CA.
pub(super) fn describe_root(error: &rustls::Error) -> String {
    if let rustls::Error::InvalidCertificate(CertificateError::BadEncoding) = error {
        return "a certificate is damaged".to_owned();
    }
    if let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(error))) = error {
        return format!("a certificate cannot be used: {error}");
    }
    error.to_string()
}

fn describe_certificate(error: &CertificateError) -> String {
    if matches!(error, CertificateError::UnknownIssuer) {
        return "the server's certificate is signed by an unknown CA; set the cluster's CA (root_certificates, or \
                certificate-authority in a kubeconfig)"
            .into();
    }
    // All CAs made by kubeadm have the same name, so the CA of another cluster fails here.
    if matches!(error, CertificateError::BadSignature) {
        return "the server's certificate is signed by a different CA with the same name as the configured one; set \
                this cluster's CA (root_certificates, or certificate-authority in a kubeconfig)"
            .into();
    }
    if let CertificateError::ExpiredContext { time, not_after } = error {
        return format!(
            "the server's certificate has expired {} ago; renew it",
            between(*not_after, *time)
        );
    }
    if let CertificateError::NotValidYetContext { time, not_before } = error {
        let span = between(*time, *not_before);
        return format!("the server's certificate becomes valid in {span}; is the clock right?");
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
                "no name"
            } else {
                &presented
            },
        );
    }
    if let CertificateError::UnsupportedSignatureAlgorithmContext {
        signature_algorithm_id: identifier,
        ..
    }
    | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
        public_key_algorithm_id: identifier,
        ..
    } = error
    {
        let signed = algorithm::object(identifier)
            .map_or_else(|| "an unknown algorithm".to_owned(), algorithm::name);
        return format!(
            "the server's certificate is signed with {signed}, which is not supported; issue it again by a CA with \
             {FOR_SERVERS}"
        );
    }
    if let CertificateError::Other(OtherError(error)) = error {
        return match error.downcast_ref() {
            Some(Explained(text)) => text.clone(),
            None => describe_limit(&error.to_string()),
        };
    }
    format!(
        "the server's certificate cannot be used: {}",
        rustls::Error::InvalidCertificate(error.clone())
    )
}

/// Describes an error of webpki, whose type rustls does not export, by its name.
fn describe_limit(name: &str) -> String {
    let known = [
        (
            "CaUsedAsEndEntity",
            "the server's certificate is that of a CA (CA:TRUE), which is not supported; issue the server a certificate with \
             CA:FALSE, signed by that CA",
        ),
        (
            "EndEntityUsedAsCa",
            "the server's certificate is signed by a certificate that is not that of a CA; issue the latter with CA:TRUE",
        ),
        (
            "UnsupportedCriticalExtension",
            "a certificate of the server has a critical extension that is not supported; issue it without the extension",
        ),
        (
            "UnsupportedCertVersion",
            "a certificate of the server is not of X.509 version 3; issue it with extensions such as subjectAltName",
        ),
        (
            "PathLenConstraintViolated",
            "the chain of the server's certificates is longer than one of its CAs allows (pathlen)",
        ),
        (
            "NameConstraintViolation",
            "a CA of the server's certificate may not sign for its names (nameConstraints)",
        ),
    ];
    let found = known.iter().find(|(known, _)| *known == name);
    found.map_or_else(
        || format!("the server's certificate cannot be used: {name}"),
        |(_, text)| (*text).to_owned(),
    )
}

/// Extracts the name from `DnsName("name")` or `IpAddress(name)`, which is rustls' format.
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
            "requires a client certificate; set one (client_certificate, or client-certificate in a kubeconfig)",
        ),
        (
            AlertDescription::UnknownCA,
            "does not trust the CA of the client's certificate",
        ),
        (
            AlertDescription::DecryptError,
            "cannot verify the client's certificate; does it belong to another cluster?",
        ),
        (
            AlertDescription::CertificateExpired,
            "rejects the client's certificate because it has expired; renew it",
        ),
        (
            AlertDescription::BadCertificate,
            "rejects the client's certificate",
        ),
        (
            AlertDescription::CertificateUnknown,
            "rejects the client's certificate",
        ),
        (
            AlertDescription::HandshakeFailure,
            "has no TLS parameters in common with this client; is its certificate's key one of RSA, ECDSA on P-256 or P-384, or \
             Ed25519?",
        ),
        (
            AlertDescription::NoApplicationProtocol,
            "supports none of the protocols that this client allows (see http1 and http2)",
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

/// Formats a time in its largest unit.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn between(from: UnixTime, to: UnixTime) -> String {
    span(Duration::from_secs(
        to.as_secs().saturating_sub(from.as_secs()),
    ))
}
