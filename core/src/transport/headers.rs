//! Headers of responses that a user should read.

use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The warnings of a server that were reported, so that each text is reported once.
///
/// The clones of a transport share it. It remembers the last 64 texts.
///
/// ```
/// use informer_core::transport::Warnings;
///
/// let mut warnings = Warnings::new();
/// let header = r#"299 - "batch/v1beta1 CronJob is deprecated in v1.21+""#;
/// assert_eq!(warnings.unreported(header), ["batch/v1beta1 CronJob is deprecated in v1.21+"]);
/// assert!(warnings.unreported(header).is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Warnings(VecDeque<String>);

impl Warnings {
    /// Creates an empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Returns the texts in the value of a `Warning` header that were not returned before.
    ///
    /// As in client-go, these are the texts with the code 299. A text is cut after 1,024 bytes. A malformed rest of the
    /// value is ignored.
    #[must_use = "the texts are not returned again"]
    pub fn unreported(&mut self, header: &str) -> Vec<String> {
        let mut rest = header;
        let mut new = Vec::new();
        while let Some((code, text, after)) = next_warning(rest) {
            rest = after;
            if code != KUBERNETES || text.is_empty() || self.0.contains(&text) {
                continue;
            }
            if self.0.len() == MOST_TEXTS {
                self.0.pop_front();
            }
            self.0.push_back(text.clone());
            new.push(text);
        }
        new
    }
}

/// The code of the API server's warnings.
const KUBERNETES: &str = "299";
const MOST_TEXTS: usize = 64;
const MOST_BYTES: usize = 1024;

/// Parses the first warning of a list: its code, its text and the rest. See RFC 7234, section 5.5.
fn next_warning(list: &str) -> Option<(&str, String, &str)> {
    let list = list.trim_start_matches([' ', '\t', ',']);
    let (code, rest) = list.split_once(' ')?;
    let (_agent, rest) = rest.split_once(' ')?;
    let (text, rest) = quoted(rest)?;
    // A date may follow.
    let rest = quoted(rest.trim_start()).map_or(rest, |(_date, rest)| rest);
    Some((code, text, rest))
}

/// Parses a quoted string, in which a backslash quotes the next character. Returns it with the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?.chars();
    let mut unquoted = String::new();
    loop {
        let next = match rest.next()? {
            '"' => return Some((unquoted, rest.as_str())),
            '\\' => rest.next()?,
            other => other,
        };
        if unquoted.len() + next.len_utf8() <= MOST_BYTES {
            unquoted.push(next);
        }
    }
}

/// Returns the body to use instead of that of a redirect: a `Status` whose message names the target. `None` if the
/// response is not a redirect.
///
/// The engine does not follow redirects, since the credentials are for this server. The query of the target is left
/// out, as are a user and a password.
///
/// ```
/// use informer_core::transport::redirect_body;
///
/// let body = redirect_body(307, "https://10.0.0.2:6443/api/v1/pods?limit=500").expect("307 is a redirect");
/// assert!(body.contains("redirects to https://10.0.0.2:6443/api/v1/pods, "));
/// assert_eq!(redirect_body(200, "/"), None);
/// ```
#[must_use]
pub fn redirect_body(status: u16, location: &str) -> Option<String> {
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let target = location.split(['?', '#']).next().unwrap_or_default();
    let mut shown: String = target
        .chars()
        // No other character may be in a URL, and these two would end the JSON string.
        .filter(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\'))
        .take(MOST_BYTES)
        .collect();
    if let Some((scheme, rest)) = target_parts(&shown)
        && let Some((_user, host)) = rest.authority.rsplit_once('@')
    {
        shown = format!("{scheme}//{host}{}", rest.path);
    }
    if shown.is_empty() {
        "nowhere".clone_into(&mut shown);
    }
    Some(format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","code":{status},"message":"the server redirects to {shown}, and redirects are not followed: if that is the API server, use its URL"}}"#
    ))
}

struct Rest<'a> {
    authority: &'a str,
    path: &'a str,
}

/// Splits a URL with an authority.
fn target_parts(url: &str) -> Option<(&str, Rest<'_>)> {
    let at = url.find("//")?;
    let (scheme, rest) = (url.get(..at)?, url.get(at + 2..)?);
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    Some((scheme, Rest { authority, path }))
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::string::ToString as _;
    use alloc::vec;

    #[test]
    fn warnings_are_those_of_client_go() {
        for (header, expected) in [
            (r#"299 - "a b""#, vec!["a b"]),
            (r#"299 kube-apiserver:6443 "a""#, vec!["a"]),
            (r#"299 - "a \"b\" \\ c""#, vec![r#"a "b" \ c"#]),
            (
                r#"299 - "a, b", 299 - "c" "Wed, 21 Oct 2015 07:28:00 GMT",299 - "d""#,
                vec!["a, b", "c", "d"],
            ),
            (r#"299 - "älter""#, vec!["älter"]),
            (r#"110 - "stale", 299 - "a""#, vec!["a"]),
            (r#"299 - "a", oops"#, vec!["a"]),
            (r#"299 - "a", 299 - "open"#, vec!["a"]),
            (r#"299 - """#, vec![]),
            ("", vec![]),
            ("299", vec![]),
            ("299 - a", vec![]),
            (r#"299 - "\"#, vec![]),
        ] {
            assert_eq!(Warnings::new().unreported(header), expected, "{header}");
        }
    }

    #[test]
    fn each_text_is_reported_once_in_bounded_memory() {
        let mut warnings = Warnings::new();
        let header = |number: usize| format!("299 - \"{number}\"");
        for number in 0..1_000 {
            assert_eq!(warnings.unreported(&header(number)), [number.to_string()]);
            assert!(warnings.unreported(&header(number)).is_empty());
            assert!(warnings.0.len() <= MOST_TEXTS);
        }
        // Those before the last 64 are forgotten.
        assert_eq!(warnings.unreported(&header(0)), ["0"]);
        let long = format!("299 - \"{}\"", "é".repeat(10_000));
        assert_eq!(warnings.unreported(&long), ["é".repeat(MOST_BYTES / 2)]);
    }

    #[test]
    fn a_redirect_names_its_target_and_no_secret() {
        for (location, shown) in [
            (
                "https://other:6443/api/v1/pods?limit=500",
                "https://other:6443/api/v1/pods",
            ),
            ("https://me:s3cret@other/x?token=s3cret", "https://other/x"),
            ("//s3cret@other", "//other"),
            ("/login#s3cret", "/login"),
            ("https://other/a@b", "https://other/a@b"),
            ("https://o\"th\\er\n", "https://other"),
            ("", "nowhere"),
        ] {
            for status in [301, 302, 303, 307, 308] {
                let body = redirect_body(status, location).unwrap();
                let message = crate::wire::message(body.as_bytes()).to_string();
                let expected =
                    format!("the server redirects to {shown}, and redirects are not followed");
                assert!(message.starts_with(&expected), "{message}");
            }
            for status in [200, 300, 304, 404] {
                assert_eq!(redirect_body(status, location), None);
            }
        }
    }
}
