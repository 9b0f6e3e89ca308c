//! The address of the API server.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use http::Uri;
use http::uri::Authority;

/// The URL of an API server, split into its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    tls: bool,
    host: Host,
    port: u16,
    prefix: String,
}

/// A host name or an IP address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Host {
    Name(String),
    Ip(IpAddr),
}

/// Explains why a URL is invalid and how to correct it.
pub(crate) type Advice = &'static str;

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, Advice> {
        if !url.contains("://") {
            return Err("it has no scheme; write it like https://host:6443");
        }
        let uri: Uri = url
            .parse()
            .map_err(|_| "it is not a URL; write it like https://host:6443")?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => {
                return Err(
                    "its scheme is neither http nor https; write it like https://host:6443",
                );
            }
        };
        let Some(authority) = uri.authority() else {
            return Err("it names no host; write it like https://host:6443");
        };
        if authority.as_str().contains('@') {
            return Err(
                "it contains a user name; remove it and use bearer_token or client_certificate",
            );
        }
        if uri.query().is_some() || url.contains('#') {
            return Err("it has a query or a fragment; remove everything after its path");
        }
        Ok(Self {
            tls,
            host: Host::parse(authority.host())?,
            port: port(authority)?.unwrap_or(if tls { 443 } else { 80 }),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The path that is prepended to every request path, without a trailing slash.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn url(&self) -> String {
        format!(
            "{}://{self}{}",
            if self.tls { "https" } else { "http" },
            self.prefix
        )
    }

    /// The `Host` header. It omits the port if it is the scheme's default.
    pub(crate) fn host_header(&self) -> String {
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => self.host.to_string(),
            _ => self.to_string(),
        }
    }
}

fn port(authority: &Authority) -> Result<Option<u16>, Advice> {
    if authority.as_str().len() == authority.host().len() {
        return Ok(None);
    }
    match authority.port_u16() {
        Some(port @ 1..) => Ok(Some(port)),
        Some(0) | None => Err("its port is not a number from 1 to 65535"),
    }
}

impl Host {
    fn parse(host: &str) -> Result<Self, Advice> {
        if let Some(inner) = host.strip_prefix('[') {
            let inner = inner.strip_suffix(']').unwrap_or(inner);
            let ip: Ipv6Addr = inner.parse().map_err(
                |_| "the text in brackets is not an IPv6 address; write it like https://[::1]:6443",
            )?;
            return Ok(Self::Ip(ip.into()));
        }
        if host.is_empty() {
            return Err("it names no host; write it like https://host:6443");
        }
        Ok(host
            .parse()
            .map_or_else(|_| Self::Name(host.to_owned()), Self::Ip))
    }
}

/// Formats the address as `host:port`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(ip)) => ip.fmt(f),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (url, shown, header, prefix) in [
            (
                "http://127.0.0.1:8080",
                "127.0.0.1:8080",
                "127.0.0.1:8080",
                "",
            ),
            ("http://host", "host:80", "host", ""),
            ("https://host/", "host:443", "host", ""),
            ("https://host:443", "host:443", "host", ""),
            ("http://host:443", "host:443", "host:443", ""),
            (
                "HTTPS://host:6443/k8s/c-1/",
                "host:6443",
                "host:6443",
                "/k8s/c-1",
            ),
            ("https://[::1]:6443/x", "[::1]:6443", "[::1]:6443", "/x"),
            (
                "https://[2001:db8::1]",
                "[2001:db8::1]:443",
                "[2001:db8::1]",
                "",
            ),
        ] {
            let address = Address::parse(url)
                .map(|a| (a.to_string(), a.host_header(), a.prefix().to_owned()));
            assert_eq!(
                address,
                Ok((shown.into(), header.into(), prefix.into())),
                "{url}"
            );
        }
    }

    #[test]
    fn a_wrong_url_is_distinguished() {
        for (url, word) in [
            ("", "no scheme"),
            ("localhost:8080", "no scheme"),
            ("ftp://host", "neither http nor https"),
            ("http://", "not a URL"),
            ("http://:80", "no host"),
            ("http://ho st", "not a URL"),
            ("http://host:", "its port"),
            ("http://host:0", "its port"),
            ("http://host:65536", "its port"),
            ("http://host:x", "its port"),
            ("http://[::1", "not a URL"),
            ("http://[::g]", "brackets"),
            ("http://user:pw@host", "user name"),
            ("http://host/x?y", "a query"),
            ("http://host/x#y", "a query"),
        ] {
            let advice = Address::parse(url).map(|a| a.url());
            assert!(
                advice.clone().is_err_and(|a| a.contains(word)),
                "{url}: {advice:?}"
            );
        }
    }
}
