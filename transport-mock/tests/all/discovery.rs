//! Discovery: the shapes that clients read.

use informer_mock::{Config, FakeServer, json};
use serde_json::Value;

use crate::common::{ask, ask_as};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

fn server() -> FakeServer {
    let mut server = FakeServer::new(1);
    server.add_resource("a.example.com", "v1", "widgets", "Widget", true);
    // The server has it already.
    server.add_resource("coordination.k8s.io", "v1", "leases", "Lease", true);
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": { "openAPIV3Schema": { "type": "object" } },
            "subresources": { "status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            } },
        })
    };
    let names = json!({
        "plural": "gizmos", "kind": "Gizmo", "shortNames": ["gz"], "categories": ["all"], "singular": "gizmo",
    });
    let definition = json!({ "spec": {
        "group": "example.com", "scope": "Cluster", "names": names,
        "versions": [version("v1beta1", false), version("v1", true)],
    } });
    server.add_definition(&definition).unwrap();
    server
}

/// Returns the value of a member of each item.
fn each<'a>(list: &'a Value, member: &str) -> Vec<&'a str> {
    let items = list.as_array().unwrap().iter();
    items.map(|item| item[member].as_str().unwrap()).collect()
}

fn find<'a>(list: &'a Value, member: &str, name: &str) -> &'a Value {
    let mut items = list.as_array().unwrap().iter();
    items.find(|item| item[member] == name).unwrap()
}

#[test]
fn groups_versions_and_resources_are_listed() {
    let mut server = server();
    let (status, versions) = ask(&mut server, "/api");
    assert_eq!((status, &versions["versions"]), (200, &json!(["v1"])));

    let (_, groups) = ask(&mut server, "/apis");
    assert_eq!(groups["kind"], "APIGroupList");
    let names = each(&groups["groups"], "name");
    assert_eq!(names[..2], ["apps", "events.k8s.io"]);
    assert_eq!(names[names.len() - 2..], ["a.example.com", "example.com"]);

    let (_, group) = ask(&mut server, "/apis/example.com");
    assert_eq!(
        (&group["kind"], &group["name"], &group["preferredVersion"]),
        (
            &json!("APIGroup"),
            &json!("example.com"),
            &json!({ "groupVersion": "example.com/v1", "version": "v1" })
        )
    );
    assert_eq!(each(&group["versions"], "version"), ["v1", "v1beta1"]);

    let (_, core) = ask(&mut server, "/api/v1");
    assert_eq!(
        (&core["groupVersion"], core.get("apiVersion")),
        (&json!("v1"), None)
    );
    let pods = find(&core["resources"], "name", "pods");
    assert_eq!(
        *pods,
        json!({
            "name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "shortNames": ["po"],
            "categories": ["all"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        })
    );
    let eviction = find(&core["resources"], "name", "pods/eviction");
    assert_eq!(
        *eviction,
        json!({
            "name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
            "kind": "Eviction", "verbs": ["create"],
        })
    );

    let (_, apps) = ask(&mut server, "/apis/apps/v1");
    assert_eq!(
        each(&apps["resources"], "name")[1..6],
        [
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status"
        ]
    );
    let (_, leases) = ask(&mut server, "/apis/coordination.k8s.io/v1");
    assert_eq!(each(&leases["resources"], "name"), ["leases"]);
    for version in ["v1", "v1beta1"] {
        let (_, gizmos) = ask(&mut server, &format!("/apis/example.com/{version}"));
        assert_eq!(
            each(&gizmos["resources"], "name"),
            ["gizmos", "gizmos/status", "gizmos/scale"]
        );
        assert_eq!(gizmos["resources"][0]["shortNames"], json!(["gz"]));
        assert_eq!(gizmos["resources"][0]["namespaced"], false);
    }
}

#[test]
fn aggregated_discovery_has_everything_at_once() {
    let mut server = server();
    let (_, core) = ask_as(&mut server, "/api", AGGREGATED);
    assert_eq!(
        (&core["kind"], &core["apiVersion"]),
        (
            &json!("APIGroupDiscoveryList"),
            &json!("apidiscovery.k8s.io/v2")
        )
    );
    assert_eq!(core["items"][0]["metadata"], json!({}));
    let (_, groups) = ask_as(&mut server, "/apis", AGGREGATED);
    let items = groups["items"].as_array().unwrap();
    let example = items
        .iter()
        .find(|item| item["metadata"]["name"] == "example.com");
    let versions = &example.unwrap()["versions"];
    assert_eq!(each(versions, "version"), ["v1", "v1beta1"]);
    let kind = |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let verbs = json!(["get", "patch", "update"]);
    assert_eq!(
        versions[0]["resources"][0],
        json!({
            "resource": "gizmos", "responseKind": kind("example.com", "v1", "Gizmo"), "scope": "Cluster",
            "singularResource": "gizmo", "shortNames": ["gz"], "categories": ["all"],
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
            "subresources": [
                { "subresource": "status", "responseKind": kind("example.com", "v1", "Gizmo"), "verbs": verbs },
                { "subresource": "scale", "responseKind": kind("autoscaling", "v1", "Scale"), "verbs": verbs },
            ],
        })
    );
    // A single group is not aggregated.
    assert_eq!(
        ask_as(&mut server, "/apis/apps", AGGREGATED).1["kind"],
        "APIGroup"
    );
}

#[test]
fn discovery_depends_on_the_version_and_on_what_the_client_accepts() {
    let answer = |minor: u32, accept: &str| {
        let mut server = FakeServer::with_config(1, Config::for_minor(minor));
        let (status, body) = ask_as(&mut server, "/apis", accept);
        let text = |member: &str| body[member].as_str().unwrap_or_default().to_owned();
        (status, text("kind"), text("apiVersion"))
    };
    let list = "APIGroupDiscoveryList".to_owned();
    let beta = "apidiscovery.k8s.io/v2beta1".to_owned();
    assert_eq!(answer(28, AGGREGATED), (200, list, beta));
    for (minor, accept) in [(25, AGGREGATED), (36, ""), (36, "*/*")] {
        assert_eq!(answer(minor, accept).1, "APIGroupList", "{accept}");
    }
    let only = AGGREGATED.split(',').next().unwrap();
    for accept in [only, "text/html"] {
        assert_eq!(answer(25, accept).0, 406, "{accept}");
    }
}

#[test]
fn what_is_not_there_is_not_discovered() {
    let mut server = server();
    for path in [
        "/api/v2",
        "/apis/none.example.com",
        "/apis/none.example.com/v1",
        "/apis/apps/v2",
    ] {
        let id = informer_mock::Backend::handle_request(
            &mut server,
            crate::common::at(0),
            path,
            "application/json",
        );
        assert_eq!(
            crate::common::head(&mut server, crate::common::at(0), id).status,
            404,
            "{path}"
        );
    }
}
