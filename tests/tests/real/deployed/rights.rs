//! Each example without one of its rights.

use informer_tests::real::{Outcome, ensure};
use serde_json::{Value, json};

use super::{Duration, PATIENCE, ROLES, Trial, workspace};
use crate::Context;

/// An example that runs without one of its rights.
struct Case {
    account: &'static str,
    arguments: Vec<String>,
    /// What exists before each run. `NUMBER` in its text is the number of the run.
    objects: &'static str,
    /// The verb without which it works: this server streams lists, for which `watch` suffices.
    spare: Option<&'static str>,
    /// Whether it ends once it has all objects, for which either of the two verbs suffices. It is run without both.
    ends: bool,
}

/// Runs every example once for each right of its manifest, without that right. The example has to report it.
pub(crate) async fn each_example_reports_a_missing_right(context: Context) -> Outcome {
    let _roles = ROLES.lock().await;
    let trial = Trial {
        kubectl: context.kubectl()?,
        folder: tempfile::tempdir()?,
    };
    let definition = workspace().join("examples/kube/sample_controller/crd.yaml");
    trial.kubectl.apply_file(&definition).await?;
    let established = [
        "wait",
        "--for=condition=established",
        "crd/webs.example.com",
    ];
    trial.kubectl.run(&established).await?;
    super::tenants::define(&trial.kubectl).await?;
    trial.define_sites().await?;
    let case = |account, arguments: &[&str], objects| Case {
        account,
        arguments: arguments.iter().map(ToString::to_string).collect(),
        objects,
        spare: Some("list"),
        ends: false,
    };
    let accounts = trial.path("accounts");
    let tenants = ["--identity", "a", "--seconds", "2", "--accounts", &accounts];
    let member = ["--share", "--identity", "a", "--seconds", "2"];
    let cases = [
        Case {
            ends: true,
            ..case("factory", &[], "")
        },
        case("firewall", &["--file", &trial.path("missing.nft")], ""),
        case("kube-client", &["default"], ""),
        Case {
            spare: None,
            ..case("leader", &member, DEAD_MEMBER)
        },
        case(
            "load-balancer",
            &["--file", &trial.path("missing.json")],
            "",
        ),
        case("same-controller", &[], NAMESPACE),
        case("alone", &[], NAMESPACE),
        case("sample-controller", &[], WEB),
        case("tenants", &tenants, TENANT),
        case("watch", &["pods"], ""),
        // It asks for its rights first.
        Case {
            spare: None,
            ..case("sites", &[], "")
        },
    ];
    let mut count = 0;
    for case in &cases {
        count += trial.reports_each_missing_right(case).await?;
    }
    ensure(count == 52, format_args!("{count} rights"))?;

    let objects = ["delete", "web/unmade", "namespace/unmade", "--wait=false"];
    trial.kubectl.run(&objects).await?;
    // With all rights, it removes the finalizers.
    let running = trial.start("tenants", &tenants).await?;
    trial.kubectl.run(&["delete", "tenants", "--all"]).await?;
    running.ends_by_signal().await?;
    let definitions = [
        "delete",
        "crd",
        "webs.example.com",
        "tenants.example.com",
        "sites.example.com",
    ];
    trial.kubectl.run(&definitions).await?;
    trial.kubectl.run(NO_LEASES).await?;
    Ok(())
}

const NO_LEASES: &[&str] = &["delete", "leases", "--all", "-n", "default"];
const NO_MAP: &[&str] = &[
    "delete",
    "configmap",
    "team",
    "-n",
    "unmade",
    "--ignore-not-found",
];
const NAMESPACE: &str =
    "apiVersion: v1\nkind: Namespace\nmetadata: { name: unmade, labels: { team: blue } }\n";
const WEB: &str = "apiVersion: example.com/v1\nkind: Web\nmetadata: { namespace: default, name: unmade }\n\
                   spec: { image: \"registry.example.com/shop:1\", replicas: 0 }\n";
/// Each run needs one that it has not handled yet.
const TENANT: &str = "apiVersion: example.com/v1\nkind: Tenant\nmetadata: { name: missing-NUMBER }\nspec: { quota: 1 }\n";
/// A replica removes the Lease of one that has ended.
const DEAD_MEMBER: &str = "apiVersion: coordination.k8s.io/v1\nkind: Lease\n\
                           metadata: { namespace: default, name: informer-member-dead, labels: { app: informer-member } }\n\
                           spec: { holderIdentity: dead, leaseDurationSeconds: 2, renewTime: \"2020-01-01T00:00:00.000000Z\" }\n";

impl Trial {
    /// Returns the number of missing rights.
    async fn reports_each_missing_right(&self, case: &Case) -> Outcome<usize> {
        let account = case.account;
        let file = self.credentials(account).await?;
        let role = [
            "get",
            "clusterrole,role",
            "-n",
            "default",
            "--field-selector",
            &format!("metadata.name={account}"),
            "-o",
            "json",
        ];
        let found: Value = serde_json::from_str(&self.kubectl.run(&role).await?)?;
        let found = &found["items"][0];
        // The last ones first: those to write, which a controller with all of them needs only once.
        let rights: Vec<_> = rights(found).into_iter().rev().collect();
        let tested = || {
            rights
                .iter()
                .filter(|[_, _, verb]| Some(&**verb) != case.spare)
        };
        for (number, missing) in tested().enumerate() {
            self.kubectl.run(NO_LEASES).await?;
            if !case.objects.is_empty() {
                let objects = case.objects.replace("NUMBER", &number.to_string());
                self.kubectl.apply(&objects).await?;
            }
            if case.objects == NAMESPACE {
                // Without the right to watch, an example may have made it before it was stopped.
                self.kubectl.run(NO_MAP).await?;
            }
            let is_missing = |right: &[String; 3]| {
                let is_spare = Some(&*right[2]) == case.spare;
                right == missing || case.ends && is_spare && right[..2] == missing[..2]
            };
            let rules = rights.iter().filter(|right| !is_missing(right));
            let metadata = json!({ "name": account, "namespace": found["metadata"]["namespace"] });
            let role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": found["kind"], "metadata": metadata,
                "rules": rules.map(rule).collect::<Vec<_>>(),
            });
            self.kubectl.apply(&role.to_string()).await?;
            self.loses(account, missing).await?;
            let arguments: Vec<_> = case.arguments.iter().map(String::as_str).collect();
            let mut running = Self::process(account, &file, &arguments)?;
            let text = if account == "sites" {
                "rights are missing"
            } else {
                "is forbidden"
            };
            let reported = running.shows(text).await;
            reported.map_err(|error| format!("without {missing:?}: {error}"))?;
        }
        self.credentials(account).await?;
        Ok(tested().count())
    }

    /// Waits until an account does not have a right any more: the server learns of a changed role by a watch.
    async fn loses(&self, account: &str, [group, resource, verb]: &[String; 3]) -> Outcome {
        let user = format!("system:serviceaccount:default:{account}");
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let resource = format!("{resource}.{group}");
        let resource = resource.trim_end_matches('.');
        let part = format!("--subresource={part}");
        let may = [
            "auth", "can-i", verb, resource, &part, "-n", "default", "--as", &user,
        ];
        let end = tokio::time::Instant::now() + PATIENCE;
        // The command fails if the answer is no.
        while self.kubectl.run(&may).await.is_ok() {
            ensure(
                tokio::time::Instant::now() < end,
                format_args!("{user} may {verb} {resource}"),
            )?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// Returns the group, resource and verb of each right of a role.
fn rights(role: &Value) -> Vec<[String; 3]> {
    let list = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut rights = Vec::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        for group in list(&rule["apiGroups"]) {
            for resource in list(&rule["resources"]) {
                for verb in list(&rule["verbs"]) {
                    rights.push([group.clone(), resource.clone(), verb]);
                }
            }
        }
    }
    rights
}

fn rule([group, resource, verb]: &[String; 3]) -> Value {
    json!({ "apiGroups": [group], "resources": [resource], "verbs": [verb] })
}
