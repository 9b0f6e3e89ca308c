//! Proxies between the client and the server.

use alloc::sync::Arc;
use core::fmt;
use core::net::IpAddr;
use std::env;

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use ipnet::IpNet;

use crate::address::{Address, Host};
use crate::build_error::BuildError;
use crate::tls::{self, Handshake};

/// The user's choice of a proxy.
#[derive(Clone)]
pub(crate) enum ProxySetting {
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`.
    Environment,
    None,
    Url(String),
}

/// The URL may hold a password.
impl fmt::Debug for ProxySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment => "Environment",
            Self::None => "None",
            Self::Url(_) => "Url([hidden])",
        })
    }
}

/// A proxy to connect through.
pub(crate) struct Proxy {
    pub(crate) address: Arc<Address>,
    pub(crate) kind: Kind,
    pub(crate) uri: Uri,
}

pub(crate) enum Kind {
    /// An HTTP proxy, over TLS if there is a handshake.
    Http {
        tls: Option<Handshake>,
        authorization: Option<HeaderValue>,
    },
    /// A SOCKS 5 proxy. It resolves names if `remote_dns` is set.
    Socks {
        login: Option<(String, String)>,
        remote_dns: bool,
    },
}

impl Proxy {
    /// Returns the proxy for requests to this server, if any.
    pub(crate) fn choose(
        setting: &ProxySetting,
        server: &Address,
    ) -> Result<Option<Self>, BuildError> {
        let url = match setting {
            ProxySetting::None => return Ok(None),
            ProxySetting::Environment => match environment(server, |name| env::var(name).ok()) {
                Some(url) => url,
                None => return Ok(None),
            },
            ProxySetting::Url(url) => url.clone(),
        };
        let matcher = Matcher::builder().all(url).build();
        let target: Uri = server
            .url()
            .parse()
            .map_err(|_| BuildError("server URL: a proxy cannot connect to it".to_owned()))?;
        match matcher.intercept(&target) {
            Some(intercept) => Self::of(&intercept).map(Some),
            None => Err(BuildError(
                "proxy: it is not a URL; write it like http://host:3128".to_owned(),
            )),
        }
    }

    fn of(intercept: &Intercept) -> Result<Self, BuildError> {
        let uri = intercept.uri();
        let scheme = uri.scheme_str().unwrap_or("http");
        let host = uri.host().unwrap_or_default();
        let default_port = match scheme {
            "https" => 443,
            "http" => 80,
            _ => 1080,
        };
        let port = uri.port_u16().unwrap_or(default_port);
        let base = if scheme == "https" { "https" } else { "http" };
        let address = Address::parse(&format!("{base}://{host}:{port}"))
            .map_err(|advice| BuildError(format!("proxy: {advice}")))?;
        let kind = match scheme {
            "http" | "https" => Kind::Http {
                tls: (scheme == "https")
                    .then(|| tls::for_proxy(address.host()))
                    .transpose()?,
                authorization: intercept.basic_auth().cloned(),
            },
            "socks5" | "socks5h" => Kind::Socks {
                login: intercept
                    .raw_auth()
                    .map(|(user, password)| (user.to_owned(), password.to_owned())),
                // As in Go, the proxy resolves names for both schemes.
                remote_dns: true,
            },
            other => {
                return Err(BuildError(format!(
                    "proxy: its scheme {other:?} is not one of http, https and socks5"
                )));
            }
        };
        Ok(Self {
            address: Arc::new(address),
            kind,
            uri: uri.clone(),
        })
    }
}

/// Chooses a proxy as Go does, and `ALL_PROXY` if Go would choose none.
fn environment(server: &Address, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let get = |name: &str| {
        let lower = name.to_ascii_lowercase();
        let values = [name, &lower].into_iter().filter_map(&variable);
        values.into_iter().find(|value| !value.is_empty())
    };
    let name = if server.is_tls() {
        "HTTPS_PROXY"
    } else {
        "HTTP_PROXY"
    };
    let is_exempt = is_local(server.host())
        || get("NO_PROXY").is_some_and(|list| is_listed(&list, server.host(), server.port()));
    if is_exempt {
        return None;
    }
    get(name).or_else(|| get("ALL_PROXY"))
}

/// Returns whether `NO_PROXY` names a server, by the rules of
/// [Go's httpproxy](https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config).
fn is_listed(list: &str, host: &Host, port: u16) -> bool {
    let list = list.to_ascii_lowercase();
    list.split(',').map(str::trim).any(|entry| {
        if entry == "*" {
            return true;
        }
        if entry.contains('/') {
            let network = entry.parse::<IpNet>();
            return match host {
                Host::Ip(ip) => network.is_ok_and(|network| network.contains(ip)),
                Host::Name(_) => false,
            };
        }
        let (name, wanted) = match entry.rsplit_once(':') {
            // An IPv6 address has a port only after brackets.
            Some((name, wanted)) if !name.contains(':') || name.ends_with(']') => {
                (name, Some(wanted))
            }
            _ => (entry, None),
        };
        if wanted.is_some_and(|wanted| wanted.parse() != Ok(port)) {
            return false;
        }
        let address: Result<IpAddr, _> = name.trim_matches(['[', ']']).parse();
        match (host, address) {
            (Host::Ip(ip), Ok(address)) => *ip == address,
            (Host::Name(host), Err(_)) => {
                let host = host.to_ascii_lowercase();
                let name = name.strip_prefix('*').unwrap_or(name);
                let domain = name.strip_prefix('.').unwrap_or(name);
                let below = host.strip_suffix(domain);
                // `.example` matches only subdomains, and `example` also matches the domain itself.
                !domain.is_empty()
                    && below.is_some_and(|below| {
                        below.ends_with('.') || below.is_empty() && domain.len() == name.len()
                    })
            }
            (Host::Ip(_), Err(_)) | (Host::Name(_), Ok(_)) => false,
        }
    })
}

/// As in Go, servers on this machine are reached without a proxy.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Ip(ip) => ip.is_loopback(),
        Host::Name(name) => name.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(url: &str, variables: &[(&str, &str)]) -> Option<String> {
        environment(&Address::parse(url).unwrap(), |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_names_a_proxy() {
        let all = [
            ("HTTPS_PROXY", "s"),
            ("HTTP_PROXY", ""),
            ("http_proxy", "h"),
            ("all_proxy", "a"),
        ];
        let both = [("http_proxy", "h"), ("HTTP_PROXY", "H")];
        for (url, variables, expected) in [
            ("https://host", &all[..], Some("s")),
            ("http://host", &all, Some("h")),
            ("https://host", &all[1..], Some("a")),
            ("http://host", &both, Some("H")),
            ("http://localhost", &all, None),
            ("http://127.0.0.2", &all, None),
            ("https://[::1]:6443", &all, None),
            ("http://host", &[], None),
        ] {
            assert_eq!(chosen(url, variables).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_proxy_without_a_port_has_that_of_its_scheme() {
        let server = Address::parse("https://host").unwrap();
        for (url, port) in [
            ("http://proxy", 80),
            ("https://proxy", 443),
            ("socks5://proxy", 1080),
            ("http://proxy:3128", 3128),
        ] {
            match Proxy::choose(&ProxySetting::Url(url.to_owned()), &server) {
                Ok(proxy) => assert_eq!(proxy.unwrap().address.port(), port, "{url}"),
                // The operating system may have no store of CAs.
                Err(error) => assert_eq!(port, 443, "{error}"),
            }
        }
    }

    /// The results for HTTP are those of kubectl 1.36.
    #[test]
    fn no_proxy_names_servers() {
        let (name, ip, ip6) = (
            "http://example.test",
            "http://10.1.2.3",
            "http://[fd00::1]:8080",
        );
        for (list, exempt) in [
            ("", &[][..]),
            ("*", &[name, ip, ip6]),
            ("example.test", &[name]),
            ("Example.Test", &[name]),
            ("example.test:80", &[name]),
            ("example.test:81", &[]),
            ("a, example.test:80 ,b", &[name]),
            ("test", &[name]),
            (".test", &[name]),
            ("*.test", &[name]),
            (".example.test", &[]),
            ("xample.test", &[]),
            ("*ample.test", &[]),
            ("10.1.2.3", &[ip]),
            ("10.1.2.3:80", &[ip]),
            ("10.1.2.3:81", &[]),
            ("10.0.0.0/8", &[ip]),
            ("10.1.2.2/31, x/8, 10.0.0.0/40", &[ip]),
            ("10.2.0.0/16", &[]),
            ("0.0.0.0/0", &[ip]),
            ("fd00::1", &[ip6]),
            ("[fd00::1]:8080", &[ip6]),
            ("[fd00::1]:80", &[]),
            ("fd00::/16", &[ip6]),
        ] {
            for url in [name, ip, ip6] {
                let proxy = chosen(url, &[("NO_PROXY", list), ("HTTP_PROXY", "p")]);
                assert_eq!(proxy.is_none(), exempt.contains(&url), "{list:?} {url}");
            }
        }
    }
}
