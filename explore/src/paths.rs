//! Paths of requests, and keys of objects.

use informer_core::OwnedResource;
use serde_json::Value;

/// Returns the path of a collection or of an object.
pub(super) fn path(resource: &OwnedResource, namespace: &str, name: &str) -> String {
    let mut path = resource.as_ref().namespace(namespace).path().to_string();
    if !name.is_empty() {
        path += "/";
        path += name;
    }
    path
}

/// Returns the namespace of an object in paths: `default` if it has none, and empty if the resource is cluster-scoped.
pub(super) fn namespace_of<'a>(resource: &OwnedResource, object: &'a Value) -> &'a str {
    match object["metadata"]["namespace"].as_str() {
        _ if resource.as_ref().is_namespaced() == Some(false) => "",
        None | Some("") => "default",
        Some(namespace) => namespace,
    }
}

/// Returns the resource of a request's path.
pub(super) fn plural_of(target: &str) -> &str {
    let path = target.split('?').next().unwrap_or_default();
    let mut parts = path.trim_matches('/').split('/').peekable();
    let skip = if parts.next() == Some("apis") { 2 } else { 1 };
    let mut parts = parts.skip(skip);
    match parts.next() {
        Some("namespaces") => match (parts.next(), parts.next()) {
            (_, Some(plural)) if !["status", "finalize"].contains(&plural) => plural,
            _ => "namespaces",
        },
        plural => plural.unwrap_or_default(),
    }
}

/// Returns `namespace/name` of an object.
pub(super) fn key_of(object: &Value) -> String {
    let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => [namespace, "/", text("name")].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::{path as path_of, *};
    use informer_mock::FakeServer;

    #[test]
    fn resources_of_paths() {
        for (path, plural) in [
            ("/api/v1/pods?limit=1", "pods"),
            ("/api/v1/namespaces/prod/pods/a", "pods"),
            (
                "/apis/apps/v1/namespaces/prod/deployments/a/status",
                "deployments",
            ),
            ("/api/v1/namespaces/prod", "namespaces"),
            ("/api/v1/namespaces/prod/status", "namespaces"),
            ("/api/v1/namespaces", "namespaces"),
            ("/version", ""),
        ] {
            assert_eq!(plural_of(path), plural, "{path}");
        }
        let pods = FakeServer::new(1).resource("pods").unwrap();
        assert_eq!(
            path_of(&pods, "prod", "a"),
            "/api/v1/namespaces/prod/pods/a"
        );
        assert_eq!(path_of(&pods, "", ""), "/api/v1/pods");
    }
}
