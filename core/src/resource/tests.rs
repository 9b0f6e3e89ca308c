//! Names, paths and the table of built-in resources.

extern crate alloc;

use alloc::{format, string::String, string::ToString};
use core::fmt::Write as _;

use super::*;

fn query(resource: &Resource<'_>, parameters: &[(&str, &dyn fmt::Display)]) -> String {
    let mut out = String::new();
    write_query(resource, &mut out, parameters).unwrap();
    out
}

fn write_query(
    resource: &Resource<'_>,
    out: &mut dyn fmt::Write,
    parameters: &[(&str, &dyn fmt::Display)],
) -> fmt::Result {
    let mut query = resource.query(out)?;
    parameters
        .iter()
        .try_for_each(|(key, value)| query.pair(key, value).map(drop))
}

#[test]
fn parses_the_documented_syntax() {
    // The text; then the path, and of built-in resources the kind and whether it has namespaces.
    let table = "
        pods                         | /api/v1/pods Pod true
        pods.v1                      | /api/v1/pods Pod true
        pods.v1.                     | /api/v1/pods Pod true
        nodes                        | /api/v1/nodes Node false
        events                       | /api/v1/events Event true
        events.events.k8s.io         | /apis/events.k8s.io/v1/events Event true
        deployments                  | /apis/apps/v1/deployments Deployment true
        deployments.apps             | /apis/apps/v1/deployments Deployment true
        deployments.v1beta2.apps     | /apis/apps/v1beta2/deployments Deployment true
        horizontalpodautoscalers     | /apis/autoscaling/v2/horizontalpodautoscalers HorizontalPodAutoscaler true
        clusterroles.rbac.authorization.k8s.io | /apis/rbac.authorization.k8s.io/v1/clusterroles ClusterRole false
        leasecandidates              | /apis/coordination.k8s.io/v1beta1/leasecandidates LeaseCandidate true
        widgets.v1alpha1.example.com | /apis/example.com/v1alpha1/widgets
        widgets.v12.local            | /apis/local/v12/widgets
        deployments.v1.example.com   | /apis/example.com/v1/deployments
    ";
    for (text, expected) in crate::rows(table) {
        let resource = Resource::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut shown = resource.path().to_string();
        if let Some(kind) = resource.kind {
            write!(shown, " {kind}").unwrap();
        }
        if let Some(namespaced) = resource.is_namespaced() {
            write!(shown, " {namespaced}").unwrap();
        }
        assert_eq!(shown, expected, "{text}");
        assert_eq!(
            Resource::parse(&resource.to_string()),
            Ok(resource),
            "{text}"
        );
    }
}

#[test]
fn refuses_the_rest() {
    let unknown = |similar| ResourceError::Unknown { similar };
    let table = [
        ("", ResourceError::Empty),
        ("foos", unknown(None)),
        ("pod", unknown(Some("pods"))),
        ("Pods", unknown(Some("pods"))),
        ("NetworkPolicy", unknown(Some("networkpolicies"))),
        ("foos.v1", unknown(None)),
        ("foos.v1.", unknown(None)),
        (".v1", unknown(None)),
        ("widgets.example.com", ResourceError::NoVersion),
        ("widgets.v.example.com", ResourceError::NoVersion),
        ("widgets.v1gamma1.example.com", ResourceError::NoVersion),
        ("widgets.v1alpha.example.com", ResourceError::NoVersion),
        ("widgets.valpha1.example.com", ResourceError::NoVersion),
        (
            "widgets.v1alpha1beta1.example.com",
            ResourceError::NoVersion,
        ),
        ("widgets.", ResourceError::NoVersion),
        (".", ResourceError::NoVersion),
        (".v1.example.com", ResourceError::InvalidName),
        ("wid/gets.v1.example.com", ResourceError::InvalidName),
        ("widgets.v1.example..com", ResourceError::InvalidName),
        ("Widgets.v1.example.com", ResourceError::InvalidName),
        ("widgets.v1.example.com ", ResourceError::InvalidName),
    ];
    for (text, error) in table {
        assert_eq!(Resource::parse(text), Err(error), "{text:?}");
        let message = error.to_string();
        assert!(
            !message.contains('\n') && message.contains("plural.version.group"),
            "{message}"
        );
    }
}

#[test]
fn the_table_is_sound() {
    for builtin in builtins() {
        let found = builtins()
            .filter(|other| (other.group, other.plural) == (builtin.group, builtin.plural));
        assert_eq!(found.count(), 1, "{}.{}", builtin.plural, builtin.group);
        assert!(is_version(builtin.version), "{}", builtin.version);
        assert!(is_dns_subdomain(builtin.plural) && !builtin.plural.contains('.'));
        assert!(builtin.group.is_empty() || is_dns_subdomain(builtin.group));
        assert_eq!(similar(builtin.kind), Some(builtin.plural));
        assert!(builtin.plural == "endpoints" || builtin.plural.len() > builtin.kind.len());
        let resource = Resource::parse(builtin.plural).unwrap();
        assert!(resource.group == builtin.group || builtin.plural == "events");
    }
}

#[test]
fn paths_are_encoded_and_cannot_climb() {
    let at = |namespace| {
        Resource::new("", "v1", "pods")
            .namespace(namespace)
            .path()
            .to_string()
    };
    assert_eq!(at("a/b?c#d%"), "/api/v1/namespaces/a%2Fb%3Fc%23d%25/pods");
    assert_eq!(at(".."), "/api/v1/namespaces/%2E%2E/pods");
    assert_eq!(at("."), "/api/v1/namespaces/%2E/pods");
    assert_eq!(at("é"), "/api/v1/namespaces/%C3%A9/pods");
    assert_eq!(at(""), "/api/v1/pods");
    let nodes = Resource::new("", "v1", "nodes").namespace("prod");
    assert_eq!(nodes.path().to_string(), "/api/v1/nodes");
    let widgets = Resource::new("example.com", "v1", "widgets").namespace("prod");
    assert_eq!(
        widgets.path().to_string(),
        "/apis/example.com/v1/namespaces/prod/widgets"
    );
}

#[test]
fn queries_hold_selectors_then_parameters() {
    let pods = Resource::new("", "v1", "pods");
    assert_eq!(query(&pods, &[]), "");
    assert_eq!(
        query(&pods.labels("").fields(""), &[("watch", &true)]),
        "?watch=true"
    );
    assert_eq!(
        query(
            &pods.labels("app in (a, b),!c").fields("x!=1"),
            &[("timeoutSeconds", &300), ("k&", &"=€\u{10ffff}")]
        ),
        "?labelSelector=app%20in%20%28a%2C%20b%29%2C%21c&fieldSelector=x%21%3D1\
             &timeoutSeconds=300&k%26=%3D%E2%82%AC%F4%8F%BF%BF"
    );
}

#[test]
fn every_ascii_character_is_encoded_as_rfc_3986_has_it() {
    for byte in 0..128_u8 {
        let c = char::from(byte);
        let mut out = String::new();
        percent_encode(&mut out, c).unwrap();
        if c.is_ascii_alphanumeric() || "-._~".contains(c) {
            assert_eq!(out, format!("{c}"));
        } else {
            assert_eq!(out, format!("%{byte:02X}"));
        }
    }
}

#[test]
fn a_full_output_is_an_error() {
    struct Full(usize);
    impl fmt::Write for Full {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
            Ok(())
        }
    }
    let pods = Resource::new("", "v1", "pods").labels("a=b");
    let whole = query(&pods, &[("watch", &true)]).len();
    for room in 0..=whole {
        let done = write_query(&pods, &mut Full(room), &[("watch", &true)]);
        assert_eq!(done.is_ok(), room == whole);
    }
    assert!(write!(Full(3), "{}", pods.path()).is_err());
}

#[cfg(feature = "alloc")]
#[test]
fn an_owned_resource_keeps_everything() {
    let full = Resource::new("apps", "v1", "deployments")
        .kind("Deployment")
        .namespace("prod")
        .labels("a=b")
        .fields("c=d");
    for resource in [full, Resource::new("", "v1", "pods")] {
        let owned = OwnedResource::from(resource);
        assert_eq!(owned.as_ref(), resource);
        assert_eq!(owned.to_string(), resource.to_string());
    }
    assert_eq!(
        "foos".parse::<OwnedResource>(),
        Err(ResourceError::Unknown { similar: None })
    );
}
