//! A `kube::Client` as the transport of informers.

use core::error::Error;
use core::future::poll_fn;
use core::pin::Pin;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER, WARNING,
};
use http::{HeaderMap, HeaderValue, Request};
use http_body::Body as _;
use informer_tokio::transport::{
    BoxTransport, DynBody, DynTransport, FailureKind, Get, Head, Lost, Warnings, async_trait,
    redirect_body,
};
use kube_client::Client;
use kube_client::client::Body;

/// Returns a transport that sends the requests of informers through a client, with its layers, authentication and TLS.
///
/// The client also determines timeouts and retries. By default, it retries responses with 429, 503 and 504 itself.
///
/// ```no_run
/// use informer_tokio::{Informer, Raw, Resource};
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let client = kube::Client::try_default().await?;
/// let transport = informer_kube::transport(client.clone());
/// let (maps, driver) = Informer::<Raw>::builder_for(&transport, Resource::parse("configmaps")?).build();
/// tokio::spawn(driver.run());
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn transport(client: Client) -> BoxTransport {
    BoxTransport::new(KubeTransport {
        client,
        warnings: Arc::default(),
    })
}

#[derive(Clone)]
struct KubeTransport {
    client: Client,
    warnings: Arc<Mutex<Warnings>>,
}

#[async_trait]
impl DynTransport for KubeTransport {
    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Box<dyn DynBody>), Lost> {
        let request = request(&get).map_err(|error| unsendable(&get, &error))?;
        let response = self.client.send(request).await;
        let (parts, body) = response
            .map_err(|error| lost("no response from the server", &error))?
            .into_parts();
        if let Some(coding) = coding(&parts.headers) {
            return Err(Lost::new(
                FailureKind::Other,
                format!(
                    "the client does not decode responses in {coding}: enable kube's feature `gzip`"
                ),
            ));
        }
        let bytes = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let location = parts.headers.get(LOCATION).map(bytes).unwrap_or_default();
        if let Some(text) = redirect_body(parts.status.as_u16(), &location) {
            let body = KubeBody::new(Body::from(text.into_bytes()), Vec::new());
            return Ok((Head::new(parts.status.as_u16()), Box::new(body)));
        }
        let mut head = Head::new(parts.status.as_u16());
        let text = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        if let Some(after) = text(RETRY_AFTER) {
            head = head.with_retry_after(after);
        }
        if let Some(content_type) = text(CONTENT_TYPE) {
            head = head.with_content_type(content_type);
        }
        let mut reported = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let warnings = parts
            .headers
            .get_all(WARNING)
            .iter()
            .flat_map(|value| reported.unreported(&bytes(value)))
            .collect();
        drop(reported);
        Ok((head, Box::new(KubeBody::new(body, warnings))))
    }

    fn fork(&self) -> Box<dyn DynTransport> {
        Box::new(self.clone())
    }
}

fn request(get: &Get<'_>) -> Result<Request<Body>, http::Error> {
    let mut request = Request::get(get.target).header(ACCEPT, get.accept);
    if get.watch {
        // A server that compresses a stream sends a member per event, of which the client would decode the first.
        request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    request.body(Body::empty())
}

fn coding(headers: &HeaderMap) -> Option<&str> {
    let coding = headers.get(CONTENT_ENCODING)?.to_str().ok()?;
    (!coding.eq_ignore_ascii_case("identity")).then_some(coding)
}

struct KubeBody {
    body: Body,
    /// The chunk that is lent.
    chunk: Option<<Body as http_body::Body>::Data>,
    /// The warnings of the head that were not taken yet, the last one first.
    warnings: Vec<String>,
    /// The one that is lent.
    warning: String,
}

impl KubeBody {
    fn new(body: Body, mut warnings: Vec<String>) -> Self {
        warnings.reverse();
        Self {
            body,
            chunk: None,
            warnings,
            warning: String::new(),
        }
    }
}

#[async_trait]
impl DynBody for KubeBody {
    async fn chunk(&mut self) -> Result<Option<&[u8]>, Lost> {
        loop {
            let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| lost("the response was cut off", &error))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(self.chunk.insert(data)));
            }
        }
    }

    fn warning(&mut self) -> Option<&str> {
        self.warning = self.warnings.pop()?;
        Some(&self.warning)
    }
}

/// Describes a request that cannot be built. Sending it again fails again.
fn unsendable(get: &Get<'_>, error: &http::Error) -> Lost {
    let length = get.target.len();
    let why = if length > MOST_TARGET {
        format!(
            "its path and query have {length} bytes, and at most {MOST_TARGET} are possible: select by fewer values, or \
             select in the program"
        )
    } else {
        error.to_string()
    };
    Lost::new(
        FailureKind::Request,
        format!("cannot send a request: {why}"),
    )
}

/// The longest path and query of `http::Uri`.
const MOST_TARGET: usize = 65_534;

/// Describes an error of the client with its causes, and classifies it by the system's error among them.
fn lost(what: &str, error: &(dyn Error + 'static)) -> Lost {
    let (mut kind, mut message) = (FailureKind::Other, what.to_owned());
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        // Some of kube's errors repeat their cause.
        if !message.ends_with(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        if kind == FailureKind::Other {
            kind = class(error, &text);
        }
        next = error.source();
    }
    Lost::new(kind, message)
}

fn class(error: &(dyn Error + 'static), text: &str) -> FailureKind {
    match error.downcast_ref().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => FailureKind::Refused,
        Some(io::ErrorKind::TimedOut) => FailureKind::TimedOut,
        Some(
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected
            | io::ErrorKind::UnexpectedEof,
        ) => FailureKind::Reset,
        // hyper-util's error for it has no public type.
        None if text == "dns error" => FailureKind::Dns,
        _ => FailureKind::Other,
    }
}
