//! The client's identity: bearer tokens and client certificates.

mod login;
mod token_file;

use alloc::sync::Arc;
use core::error::Error;
use core::fmt;
use core::future::ready;
use core::pin::Pin;

use http::HeaderValue;

pub(crate) use login::Login;
pub(crate) use token_file::TokenFile;

/// A source of credentials, such as a token that is renewed.
///
/// See [`HyperBuilder::credentials`](crate::HyperBuilder::credentials). A transport's clones share it.
///
/// # Examples
/// ```
/// use informer_hyper::{Credential, CredentialError, CredentialFuture, CredentialSource};
///
/// /// Reads tokens from a secret store.
/// struct Vault;
///
/// impl Vault {
///     async fn token(&self, renew: bool) -> Result<String, &'static str> {
///         Ok(if renew { "renewed-token" } else { "cached-token" }.to_owned())
///     }
/// }
///
/// impl CredentialSource for Vault {
///     fn credential<'a>(&'a self, refused: Option<&'a Credential>) -> CredentialFuture<'a> {
///         Box::pin(async move {
///             let token = self.token(refused.is_some()).await.map_err(CredentialError::new)?;
///             Credential::bearer(token)
///         })
///     }
/// }
/// # let builder = informer_hyper::HyperTransport::builder("https://10.0.0.1:6443").credentials(Vault);
/// ```
pub trait CredentialSource: Send + Sync + 'static {
    /// Returns the credential for a request.
    ///
    /// It is called before every request, so a source should cache a credential while it is valid. `refused` is the
    /// credential that the server has just rejected with 401. If another one is returned, the request is sent once
    /// more.
    ///
    /// A refused credential is replaced by one call, whatever the number of requests and clones that used it. If the
    /// server refuses the result as well, the next such call is made after 10 s, and the pause doubles up to 5 min.
    /// Meanwhile requests use the last credential and return the 401. The pause begins anew with a credential that was
    /// not refused for as long.
    ///
    /// Concurrent requests share one call, and the call may outlive the request that began it. It is dropped after
    /// [`login_timeout`](crate::HyperBuilder::login_timeout), and with the last clone of the transport.
    ///
    /// # Errors
    /// Fails if there is no credential; the request is not sent. Further requests fail with the same error for 10 s
    /// before the source is called again.
    fn credential<'a>(&'a self, refused: Option<&'a Credential>) -> CredentialFuture<'a>;
}

/// The future returned by a [`CredentialSource`].
pub type CredentialFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Credential, CredentialError>> + Send + 'a>>;

/// A client's identity: an `Authorization` header, a client certificate, or both. `Debug` shows no part of it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credential {
    authorization: Option<HeaderValue>,
    certificate: Option<Arc<ClientCertificate>>,
}

/// A client certificate and its key.
#[derive(PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    pub(crate) chain: Secret,
    pub(crate) key: Secret,
}

impl Credential {
    /// Creates a credential from a bearer token. Surrounding white space is removed.
    ///
    /// # Errors
    /// Fails if the text cannot be a token. The error does not contain the text.
    pub fn bearer(token: impl AsRef<[u8]>) -> Result<Self, CredentialError> {
        let token = token.as_ref().trim_ascii();
        if token.is_empty() {
            return Err(CredentialError::new("it is empty"));
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(CredentialError::new(
                "it has characters that a token cannot have; is it still base64-encoded, as in a Secret?",
            ));
        }
        let header = HeaderValue::from_bytes(&[b"Bearer ", token].concat());
        header
            .map(Self::authorization)
            .map_err(|_| CredentialError::new("it has characters that are not allowed"))
    }

    /// Creates a credential from the value of an `Authorization` header.
    #[must_use]
    pub fn authorization(mut header: HeaderValue) -> Self {
        header.set_sensitive(true);
        Self {
            authorization: Some(header),
            certificate: None,
        }
    }

    /// Adds a client certificate: the chain, beginning with the client's own certificate, and its private key. Both are
    /// PEM text or DER.
    ///
    /// After a change of the certificate, connections opened with the previous one accept no new requests.
    #[must_use]
    pub fn with_certificate(self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        let certificate = ClientCertificate {
            chain: Secret(chain.into()),
            key: Secret(key.into()),
        };
        Self {
            certificate: Some(Arc::new(certificate)),
            ..self
        }
    }

    pub(crate) fn header(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    pub(crate) fn certificate(&self) -> Option<&Arc<ClientCertificate>> {
        self.certificate.as_ref()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential([secret])")
    }
}

/// The reason why there is no credential, in one line. A source must not put secrets into it.
#[derive(Clone, PartialEq, Eq)]
pub struct CredentialError(Box<str>);

impl CredentialError {
    /// Creates an error from its text.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into().into())
    }
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for CredentialError {}

informer_core::readable_errors!(CredentialError);

/// A credential that never changes.
pub(crate) struct Fixed(pub(crate) Credential);

impl CredentialSource for Fixed {
    fn credential<'a>(&'a self, _refused: Option<&'a Credential>) -> CredentialFuture<'a> {
        Box::pin(ready(Ok(self.0.clone())))
    }
}

/// Bytes that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) Vec<u8>);

impl Secret {
    /// Converts the secret to a header whose value `Debug` does not show.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_bytes(&self.0).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(token: &str) -> Result<HeaderValue, CredentialError> {
        Credential::bearer(token).map(|c| c.authorization.unwrap())
    }

    #[test]
    fn a_line_break_at_the_end_is_not_part_of_a_token() {
        assert_eq!(
            parse("abc.def\n"),
            Ok(HeaderValue::from_static("Bearer abc.def"))
        );
    }

    #[test]
    fn invalid_tokens_are_refused() {
        assert!(parse(" \n").is_err());
        assert!(parse("a\nb").is_err());
        assert!(parse("a b").is_err());
        assert!(parse("é").is_err());
    }

    #[test]
    fn nothing_shows_the_token() {
        assert_eq!(format!("{:?}", Secret(b"s3cret".to_vec())), "[secret]");
        assert_eq!(format!("{:?}", parse("s3cret")), "Ok(Sensitive)");
        let credential =
            Credential::bearer("s3cret").map(|c| c.with_certificate("s3cret", "s3cret"));
        assert!(!format!("{credential:?}").contains("s3cret"));
    }
}
