//! What a person can do about a failure.

use core::fmt::Write as _;

use informer_core::{Resource, report::Phase};

/// Gives the advice that fits a failure; `message` is its whole text.
pub(crate) fn advice(
    class: &str,
    phase: Phase,
    resource: Resource<'_>,
    message: &str,
) -> Option<String> {
    // As servers written in Go answer, the API server among them.
    if message.contains("HTTP request to an HTTPS server") {
        return Some("The port speaks HTTPS: use an `https://` URL.".to_owned());
    }
    Some(match class {
        "forbidden" => grant(phase, resource),
        "unauthorized" => "The server does not accept the credentials: the token or the client certificate is missing, \
             has expired or is for another cluster. Renew it."
            .to_owned(),
        "not-found" => not_served(resource),
        "not-acceptable" => "The server does not speak the media type that was asked for; ask for whole objects instead of \
             metadata."
            .to_owned(),
        "method-not-allowed" => format!(
            "The server does not list or watch `{}`: `kubectl api-resources -o wide` shows the verbs that it supports.",
            full_name(resource)
        ),
        "bad-request" if message.contains("HTTP request to an HTTPS server") => {
            "The server speaks TLS at this port: use https:// in its URL.".to_owned()
        }
        "invalid" | "bad-request" => format!(
            "The server does not take a parameter: see whether the selectors are right and whether {} can be selected by \
             these fields.",
            resource.plural
        ),
        "tls" => tls(message).to_owned(),
        "connection-refused" => "Nobody listens at the server's address: see whether the address and the port are right and \
             whether the API server runs."
            .to_owned(),
        "dns" => "The server's name is not known: see whether it is spelled right and whether DNS works.".to_owned(),
        "timed-out" | "silent" | "connection-reset" | "truncated" | "transport" => {
            "The network or something on the way (a proxy, a load balancer, a firewall) fails. It is tried again; nothing \
             is lost."
                .to_owned()
        }
        "too-many-requests" | "service-unavailable" | "server-timeout" | "timeout" | "internal-error" => {
            "The server is overloaded or not ready. It is tried again, more seldom the longer it lasts.".to_owned()
        }
        "expired" | "too-large" => {
            "Nothing is to be done: the state is listed again. Where it comes often the server forgets its history too soon."
                .to_owned()
        }
        "endless-pages" => {
            "The server does not page as the API requires. A page size of 0 asks for the whole list at once.".to_owned()
        }
        "long-retry-after" => {
            "The server, or a proxy, asks clients to stay away: see whether it is overloaded or set up wrongly.".to_owned()
        }
        "no-version" => {
            "What answers does not follow the API: every list has a resourceVersion. A relist finds what was missed.".to_owned()
        }
        "not-json" | "not-a-list" | "not-an-event" => {
            "What answers is no API server: see whether a proxy or a login page is at this address.".to_owned()
        }
        "very-short-watch" | "short-watches" => {
            "Something cuts watches: see whether a proxy in between has a short timeout or holds answers back.".to_owned()
        }
        "no-initial-events" | "endless-stream" => {
            "The server, or a proxy, does not know streaming lists; plain lists are taken. `Initial::List` asks for none."
                .to_owned()
        }
        "undecodable" | "object-not-utf8" => {
            "The object does not fit the type that is decoded: see whether the type is of the version that is served, and \
             make optional what may be missing."
                .to_owned()
        }
        "object-too-large" | "object-too-deep" => {
            "The object is larger than is allowed: `Builder::frame_limit` allows more.".to_owned()
        }
        "no-room" | "key-too-long" => "The cache has a fixed size and is full: give it more room or select less.".to_owned(),
        "request-too-long" => "The selectors are too long: shorten them.".to_owned(),
        "other-kind" => "The server sent something of another kind: see whether the kind of the resource is right.".to_owned(),
        "handler-panicked" | "index-panicked" => "A function of this program panicked: mend it.".to_owned(),
        "drift" => {
            "The server, or something before it, lost events. The audit has everything listed again; see docs/AUDIT.md.".to_owned()
        }
        "undelivered" => {
            "A handler was too slow for the time that a stop gives it: `Builder::drain` gives more.".to_owned()
        }
        _ => return None,
    })
}

/// The verb that a request of this phase needs. A streaming list is a watch to the server.
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
    // Writing into a `String` does not fail.
    let _ = if resource.group.contains('.') {
        write!(
            text,
            "see whether its CustomResourceDefinition is installed"
        )
    } else {
        write!(text, "see whether the name and the version are right")
    };
    let _ = write!(
        text,
        " (`kubectl api-resources --api-group={}`). It is found by itself when it is there.",
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
        "The server's certificate is of an authority that is not known here: give the cluster's CA."
    } else if has(&["not valid for name", "notvalidforname"]) {
        "The server's certificate is for another name: use the name or the address that is in it."
    } else if has(&["certificate required", "certificaterequired"]) {
        "The server asks for a client certificate: give one."
    } else {
        "The TLS handshake failed: see whether this is the TLS port of an API server and whether the certificates fit."
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
    fn an_expired_certificate_is_told_from_an_unknown_one() {
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
