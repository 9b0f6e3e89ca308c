//! Advice for failures.

use core::fmt::Write as _;

use informer_core::{Resource, report::Phase};

/// Returns the advice for a failure, if there is any. `message` is the whole text of the failure.
pub(crate) fn advice(
    class: &str,
    phase: Phase,
    resource: Resource<'_>,
    message: &str,
) -> Option<String> {
    // The response of servers written in Go, such as the API server.
    if message.contains("HTTP request to an HTTPS server") {
        return Some("The port speaks HTTPS: use an `https://` URL.".to_owned());
    }
    Some(match class {
        "forbidden" => grant(phase, resource),
        "not-found" => not_served(resource),
        "method-not-allowed" => format!(
            "The server does not list or watch `{}`: `kubectl api-resources -o wide` shows the verbs that it supports.",
            full_name(resource)
        ),
        "invalid" | "bad-request" => format!(
            "The server rejects a parameter: check the selectors, and whether {} can be selected by these fields.",
            resource.plural
        ),
        "tls" => tls(message).to_owned(),
        _ => of_requests(class)
            .or_else(|| of_responses(class))?
            .to_owned(),
    })
}

/// Returns the advice for a request that fails.
fn of_requests(class: &str) -> Option<&'static str> {
    Some(match class {
        "unauthorized" => {
            "The server does not accept the credentials: the token or the client certificate is missing, \
             has expired or is for another cluster. Renew it."
        }
        "not-acceptable" => {
            "The server does not support the requested media type: request whole objects instead of \
             metadata."
        }
        "connection-refused" => {
            "No server listens at this address: check the address and the port, and \
             whether the API server runs."
        }
        "dns" => "The server's name cannot be resolved: check its spelling and DNS.",
        "request" => {
            "The request cannot be sent as it is, and the message says why: shorten or correct the selectors. A program can also \
             select on its own side, with `Handlers::filter` or `Controller::only`."
        }
        "timed-out" | "silent" | "connection-reset" | "truncated" | "transport" => {
            "The network, a proxy, a load balancer or a firewall fails. The request is retried, and no data \
             is lost."
        }
        "too-many-requests"
        | "service-unavailable"
        | "server-timeout"
        | "timeout"
        | "internal-error" => {
            "The server is overloaded or not ready. The request is retried with increasing delays."
        }
        "expired" | "too-large" => {
            "No action is needed: a relist follows. If this is frequent, the server's history is too short."
        }
        "long-retry-after" => {
            "The server or a proxy requests a long delay: check whether it is overloaded or misconfigured."
        }
        "invalid-name" => "No request was sent, since no server can have this name: correct it.",
        "request-too-long" => "The selectors are too long: shorten them.",
        _ => return None,
    })
}

/// Returns the advice for a response that cannot be used, or for a failure within the program.
fn of_responses(class: &str) -> Option<&'static str> {
    Some(match class {
        "endless-pages" => {
            "The server does not implement paging as the API requires. A page size of 0 requests the whole list at once."
        }
        "no-version" => {
            "The server violates the API: every list must have a resourceVersion. A relist finds missed changes."
        }
        "not-json" | "not-a-list" | "not-an-event" => {
            "This is not an API server: check whether the address belongs to a proxy or a login page."
        }
        "very-short-watch" | "short-watches" => {
            "Watches are cut: check whether a proxy in between has a short timeout or buffers responses."
        }
        "no-initial-events" | "endless-stream" => {
            "The server or a proxy does not support streaming lists, so plain lists are used. `Initial::List` avoids the attempt."
        }
        "undecodable" | "object-not-utf8" => {
            "The object does not match the decoded type: check that the type is of the served version, and \
             that fields which may be missing are optional."
        }
        "object-too-large" | "object-too-deep" => {
            "The object exceeds a limit: raise it with `Builder::frame_limit`."
        }
        "no-room" | "key-too-long" => {
            "The cache has a fixed size and is full: enlarge it, or select fewer objects."
        }
        "other-kind" => {
            "The server sent an object of another kind: check the kind of the resource."
        }
        "handler-panicked" | "index-panicked" => "A function of this program panicked: fix it.",
        "drift" => {
            "The server or a proxy lost events. The audit repairs the cache with a relist; see docs/AUDIT.md."
        }
        "undelivered" => {
            "A handler did not finish in time for a stop: `Builder::drain` extends the time."
        }
        _ => return None,
    })
}

/// Returns the verb that a request of this phase needs. For the server, a streaming list is a watch.
pub(crate) const fn verb(phase: Phase) -> Option<&'static str> {
    match phase {
        Phase::List => Some("list"),
        Phase::Watch | Phase::Stream => Some("watch"),
        Phase::Cache | Phase::Handler | _ => None,
    }
}

fn grant(phase: Phase, resource: Resource<'_>) -> String {
    let (kind, place) = match resource.namespace {
        Some(namespace) if !namespace.is_empty() => {
            ("Role", format!("in the namespace `{namespace}`"))
        }
        _ => ("ClusterRole", "in all namespaces".to_owned()),
    };
    format!(
        "The verb `{}` on `{}` {place} is missing. An informer needs `list` and `watch`: a {kind} with apiGroups: [\"{}\"], \
         resources: [\"{}\"], verbs: [\"list\", \"watch\"], and a {kind}Binding for the user or the service account of this \
         program.",
        verb(phase).unwrap_or("list"),
        full_name(resource),
        resource.group,
        resource.plural,
    )
}

fn not_served(resource: Resource<'_>) -> String {
    let mut text = format!(
        "The server does not serve `{}` in version `{}`: ",
        full_name(resource),
        resource.version
    );
    // Writing into a `String` cannot fail.
    let _ = if resource.group.contains('.') {
        write!(text, "check that its CustomResourceDefinition is installed")
    } else {
        write!(text, "check the name and the version")
    };
    let _ = write!(
        text,
        " (`kubectl api-resources --api-group={}`). The informer continues once the resource is served.",
        resource.group
    );
    text
}

fn full_name(resource: Resource<'_>) -> String {
    if resource.group.is_empty() {
        resource.plural.to_owned()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}

fn tls(message: &str) -> &'static str {
    let message = message.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["expired", "not valid yet", "notvalidyet"]) {
        "A certificate has expired or is not valid yet: renew it, or set this machine's clock."
    } else if has(&["unknownissuer", "unknown issuer", "unknownca", "unknown ca"]) {
        "The server's certificate is signed by an unknown CA: set the cluster's CA."
    } else if has(&["not valid for name", "notvalidforname"]) {
        "The server's certificate is for another name: use a name or an address from the certificate."
    } else if has(&["certificate required", "certificaterequired"]) {
        "The server requires a client certificate: set one."
    } else {
        "The TLS handshake failed: check that this is the TLS port of an API server, and check the certificates."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDGETS: Resource<'static> = Resource::new("example.com", "v1", "widgets");

    #[test]
    fn the_missing_verb_and_where_it_is_missing_are_named() {
        let pods = Resource::new("", "v1", "pods").namespace("prod");
        let text = advice("forbidden", Phase::Watch, pods, "").unwrap();
        assert!(
            text.contains("`watch` on `pods` in the namespace `prod`"),
            "{text}"
        );
        assert!(text.contains("a Role with apiGroups: [\"\"]"), "{text}");
        let text = advice("forbidden", Phase::List, WIDGETS, "").unwrap();
        assert!(
            text.contains("`list` on `widgets.example.com` in all namespaces"),
            "{text}"
        );
        assert!(
            advice("forbidden", Phase::Stream, WIDGETS, "")
                .unwrap()
                .contains("`watch`")
        );
    }

    #[test]
    fn what_is_not_installed_is_named() {
        let text = advice("not-found", Phase::List, WIDGETS, "").unwrap();
        assert!(text.contains("CustomResourceDefinition"), "{text}");
        assert!(text.contains("--api-group=example.com"), "{text}");
    }

    #[test]
    fn an_expired_certificate_is_distinguished_from_an_unknown_one() {
        for (message, word) in [
            ("invalid peer certificate: Expired", "expired"),
            (
                "invalid peer certificate: certificate expired: verification time 1",
                "expired",
            ),
            ("invalid peer certificate: UnknownIssuer", "CA"),
            (
                "invalid peer certificate: certificate not valid for name \"a\"",
                "another name",
            ),
            (
                "received fatal alert: CertificateRequired",
                "client certificate",
            ),
            ("received corrupt message", "TLS port"),
        ] {
            let text = advice("tls", Phase::List, WIDGETS, message).unwrap();
            assert!(text.contains(word), "{message}: {text}");
        }
    }

    #[test]
    fn classes_that_need_nobody_have_no_advice() {
        assert_eq!(advice("slow-list", Phase::List, WIDGETS, ""), None);
    }
}
