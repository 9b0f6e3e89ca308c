//! Advice for failures.

use core::fmt::Write as _;

use informer_core::{Resource, report::Phase};

/// Returns the advice that depends on the resource or on the message, which is the whole text of the failure.
/// [`Report::advice`](informer_core::Report::advice) has all other.
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
    match class {
        "forbidden" => Some(grant(phase, resource)),
        "not-found" => Some(not_served(resource)),
        "method-not-allowed" => Some(format!(
            "The server does not list or watch `{}`: `kubectl api-resources -o wide` shows the verbs that it supports.",
            full_name(resource)
        )),
        "invalid" | "bad-request" => Some(format!(
            "The server rejects a parameter: check the selectors, and whether {} can be selected by these fields.",
            resource.plural
        )),
        "tls" => Some(tls(message).to_owned()),
        _ => None,
    }
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
    let (kind, place) = place(resource);
    format!(
        "The verb `{}` on `{}` {place} is missing. An informer needs `list` and `watch`: a {kind} with {}, and a {kind}Binding \
         for the user or the service account of this program.",
        verb(phase).unwrap_or("list"),
        full_name(resource),
        rule_of(resource, "", &["list", "watch"]),
    )
}

/// Names rights, and the rule that grants them.
#[cfg(feature = "requests")]
pub(crate) fn rule(resource: Resource<'_>, subresource: &str, verbs: &[&str]) -> String {
    let (kind, place) = place(resource);
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!(
        "`{}` on `{}{slash}{subresource}` {place} (a {kind} with {})",
        verbs.join("`, `"),
        full_name(resource),
        rule_of(resource, subresource, verbs)
    )
}

/// Returns the kind of the role that grants rights where the resource is, and that place.
fn place(resource: Resource<'_>) -> (&'static str, String) {
    match resource.namespace {
        Some(namespace) if !namespace.is_empty() => {
            ("Role", format!("in the namespace `{namespace}`"))
        }
        _ => ("ClusterRole", "in all namespaces".to_owned()),
    }
}

fn rule_of(resource: Resource<'_>, subresource: &str, verbs: &[&str]) -> String {
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!(
        "apiGroups: [\"{}\"], resources: [\"{}{slash}{subresource}\"], verbs: [\"{}\"]",
        resource.group,
        resource.plural,
        verbs.join("\", \"")
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
        "A certificate has expired or is not valid yet: renew it, or correct this machine's clock."
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
    fn a_resource_that_is_not_installed_is_named() {
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
}
