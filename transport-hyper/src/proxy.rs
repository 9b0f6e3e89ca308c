//! The proxy on the way to the server.

use alloc::sync::Arc;
use core::fmt;

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use crate::address::{Address, Host};
use crate::builder::BuildError;

/// Where the user wants a proxy to be taken from.
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

/// A proxy that is on the way.
pub(crate) struct Proxy {
    pub(crate) address: Arc<Address>,
    pub(crate) kind: Kind,
    pub(crate) uri: Uri,
}

pub(crate) enum Kind {
    /// Asked by HTTP, over TLS where a configuration is here.
    Http {
        tls: Option<Arc<ClientConfig>>,
        authorization: Option<HeaderValue>,
    },
    /// Asked by SOCKS 5. It looks names up where that is wanted.
    Socks {
        login: Option<(String, String)>,
        remote_dns: bool,
    },
}

impl Proxy {
    /// Says which proxy the requests to this server go through.
    pub(crate) fn choose(
        setting: &ProxySetting,
        server: &Address,
    ) -> Result<Option<Self>, BuildError> {
        let matcher = match setting {
            ProxySetting::None => return Ok(None),
            // As in Go: what is on this machine is reached without a proxy.
            ProxySetting::Environment if is_local(server.host()) => return Ok(None),
            ProxySetting::Environment => Matcher::from_env(),
            ProxySetting::Url(url) => Matcher::builder().all(url.clone()).build(),
        };
        let target: Uri = server
            .url()
            .parse()
            .map_err(|_| BuildError("server URL: a proxy cannot be asked for it".to_owned()))?;
        match matcher.intercept(&target) {
            Some(intercept) => Self::of(&intercept).map(Some),
            None if matches!(setting, ProxySetting::Url(_)) => Err(BuildError(
                "proxy: it is not a URL; write it like http://host:3128".to_owned(),
            )),
            None => Ok(None),
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
                tls: (scheme == "https").then(public).transpose()?,
                authorization: intercept.basic_auth().cloned(),
            },
            "socks5" | "socks5h" => Kind::Socks {
                login: intercept
                    .raw_auth()
                    .map(|(user, password)| (user.to_owned(), password.to_owned())),
                // Go leaves the lookup to the proxy under either name.
                remote_dns: true,
            },
            other => {
                return Err(BuildError(format!(
                    "proxy: its scheme {other:?} is none of http, https and socks5"
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

/// A proxy's certificate is of a public CA.
fn public() -> Result<Arc<ClientConfig>, BuildError> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| BuildError(format!("TLS: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Ip(ip) => ip.is_loopback(),
        Host::Name(name) => name.eq_ignore_ascii_case("localhost"),
    }
}
