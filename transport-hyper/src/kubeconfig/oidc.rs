//! The id-token of the auth provider `oidc`.
//!
//! kubectl still has this provider, and refreshes the token. Here the token is sent as it is.

use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::credentials::{Credential, CredentialError, CredentialFuture, CredentialSource};
use crate::kubeconfig::rfc3339;

/// A token that is sent until it expires.
pub(super) struct IdToken {
    credential: Credential,
    /// `None` if the token does not say it.
    expires: Option<SystemTime>,
}

impl IdToken {
    /// # Errors
    /// Fails if the text cannot be a token. The error does not contain it.
    pub(super) fn new(token: &str) -> Result<Self, CredentialError> {
        Ok(Self {
            credential: Credential::bearer(token)?,
            expires: expiry(token.trim()),
        })
    }

    /// Returns the credential if the token has not expired. The server's clock decides about a token that the server
    /// refuses before.
    fn at(&self, now: SystemTime) -> Result<Credential, CredentialError> {
        match self.expires.filter(|expires| now >= *expires) {
            None => Ok(self.credential.clone()),
            Some(expired) => Err(CredentialError::new(format!(
                "the id-token of the auth provider oidc expired at {}, and it is not refreshed here: log in anew and load \
                 the kubeconfig again, or use an exec plugin such as kubelogin",
                rfc3339::format(expired)
            ))),
        }
    }
}

impl CredentialSource for IdToken {
    fn credential<'a>(&'a self, _refused: Option<&'a Credential>) -> CredentialFuture<'a> {
        Box::pin(async { self.at(SystemTime::now()) })
    }
}

/// Returns the time in `exp` of a JSON Web Token, in seconds since 1970 (RFC 7519).
fn expiry(token: &str) -> Option<SystemTime> {
    let payload = token.split('.').nth(1)?.trim_end_matches('=');
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    let exp = claims.get("exp")?;
    let since = exp.as_u64().map(Duration::from_secs).or_else(|| {
        let seconds = exp.as_f64()?;
        Duration::try_from_secs_f64(seconds).ok()
    })?;
    UNIX_EPOCH.checked_add(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.s3cret", BASE64_URL_SAFE_NO_PAD.encode(claims))
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_token_is_sent_until_it_expires() {
        let text = token(r#"{"exp":1767225600}"#);
        let id = IdToken::new(&text).unwrap();
        assert_eq!(id.at(at(1_767_225_599)), Credential::bearer(&text));
        for late in [1_767_225_600, 1_900_000_000] {
            let error = id.at(at(late)).unwrap_err().to_string();
            assert!(
                error.contains("expired at 2026-01-01T00:00:00Z") && error.contains("kubelogin"),
                "{error}"
            );
            assert!(!error.contains("s3cret"));
        }
    }

    #[test]
    fn a_token_without_a_known_expiry_is_sent() {
        let texts = [
            token("{}"),
            token(r#"{"exp":"soon"}"#),
            token(r#"{"exp":-1}"#),
            token(r#"{"exp":1e300}"#),
            token(r#"{"exp":18446744073709551615}"#),
            token("oops"),
            "opaque".to_owned(),
            "a.!.c".to_owned(),
        ];
        for text in texts {
            let id = IdToken::new(&text).unwrap();
            assert_eq!(
                id.at(at(4_000_000_000)),
                Credential::bearer(&text),
                "{text}"
            );
        }
        assert!(IdToken::new("a b").is_err());
    }

    #[test]
    fn the_expiry_may_be_padded_or_fractional() {
        let padded = format!(
            "e30.{}.x",
            base64::prelude::BASE64_URL_SAFE.encode(r#"{"exp": 7.5}"#)
        );
        let expected = UNIX_EPOCH + Duration::from_millis(7_500);
        assert_eq!(expiry(&padded), Some(expected));
    }
}
