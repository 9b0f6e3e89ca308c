//! Where the `Authorization` header comes from.

use core::fmt;
use core::pin::Pin;

use http::HeaderValue;

use crate::error::HyperError;

/// A source of credentials.
///
/// It is asked before every request, so that a token that is renewed, read from a file or given by a plugin fits in.
pub(crate) trait Credentials: Send + Sync {
    /// Gives the value of the `Authorization` header, marked as sensitive.
    fn authorization(
        &self,
    ) -> Pin<Box<dyn Future<Output = Result<HeaderValue, HyperError>> + Send + '_>>;
}

/// A token that never changes.
pub(crate) struct BearerToken(HeaderValue);

impl BearerToken {
    /// Takes a token as a file holds it, with or without a line break at its end.
    pub(crate) fn parse(token: &Secret) -> Result<Self, &'static str> {
        let token = token.0.trim_ascii();
        if token.is_empty() {
            return Err("it is empty");
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(
                "it has characters that a token cannot have; is it the token itself, not base64 of a Secret?",
            );
        }
        let header = [b"Bearer ", token].concat();
        let mut header = HeaderValue::from_bytes(&header)
            .map_err(|_| "it has characters that are not allowed")?;
        header.set_sensitive(true);
        Ok(Self(header))
    }
}

impl Credentials for BearerToken {
    fn authorization(
        &self,
    ) -> Pin<Box<dyn Future<Output = Result<HeaderValue, HyperError>> + Send + '_>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// Bytes that are shown to nobody.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(token: &str) -> Result<HeaderValue, &'static str> {
        BearerToken::parse(&Secret(token.into())).map(|t| t.0)
    }

    #[test]
    fn a_line_break_at_the_end_is_not_part_of_a_token() {
        assert_eq!(
            parse("abc.def\n"),
            Ok(HeaderValue::from_static("Bearer abc.def"))
        );
    }

    #[test]
    fn what_is_no_token_is_refused() {
        assert!(parse(" \n").is_err());
        assert!(parse("a\nb").is_err());
        assert!(parse("a b").is_err());
        assert!(parse("é").is_err());
    }

    #[test]
    fn nothing_shows_the_token() {
        assert_eq!(format!("{:?}", Secret(b"s3cret".to_vec())), "[secret]");
        assert_eq!(format!("{:?}", parse("s3cret")), "Ok(Sensitive)");
    }
}
