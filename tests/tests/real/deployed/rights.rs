//! Each example without one of its rights.

use informer_tests::real::{Outcome, ensure};
use serde_json::{Value, json};

use super::{Duration, ROLES, Trial, workspace};
use crate::Context;

/// Runs every example once for each right of its manifest, without that right. The example has to report it. `factory`
/// ends too early for that, and this server streams lists, for which `watch` suffices.
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
    let objects = "apiVersion: example.com/v1\nkind: Web\nmetadata: { namespace: default, name: unmade }\n\
                   spec: { image: \"registry.example.com/shop:1\", replicas: 0 }\n---\n\
                   apiVersion: v1\nkind: Namespace\nmetadata: { name: unmade, labels: { team: blue } }\n";
    trial.kubectl.apply(objects).await?;
    let mut count = 0;
    for (account, arguments) in [
        ("firewall", &["--file", &trial.path("missing.nft")][..]),
        ("kube-client", &["default"]),
        ("load-balancer", &["--file", &trial.path("missing.json")]),
        ("same-controller", &[]),
        ("sample-controller", &[]),
        ("watch", &["pods"]),
    ] {
        count += trial.reports_each_missing_right(account, arguments).await?;
    }
    ensure(count == 16, format_args!("{count} rights"))?;
    let objects = ["delete", "web/unmade", "namespace/unmade", "--wait=false"];
    trial.kubectl.run(&objects).await?;
    let definition = ["delete", "crd", "webs.example.com"];
    trial.kubectl.run(&definition).await?;
    Ok(())
}

impl Trial {
    /// Returns the number of missing rights.
    async fn reports_each_missing_right(
        &self,
        account: &str,
        arguments: &[&str],
    ) -> Outcome<usize> {
        let file = self.credentials(account).await?;
        let role = ["get", "clusterrole", account, "-o", "json"];
        let role = serde_json::from_str(&self.kubectl.run(&role).await?)?;
        // The last ones first: those to write, which a controller with all of them needs only once.
        let rights: Vec<_> = rights(&role).into_iter().rev().collect();
        let tested = || rights.iter().filter(|[_, _, verb]| verb != "list");
        for missing in tested() {
            let rules = rights.iter().filter(|right| *right != missing);
            let role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": account },
                "rules": rules.map(rule).collect::<Vec<_>>(),
            });
            self.kubectl.apply(&role.to_string()).await?;
            let [group, resource, verb] = missing;
            let user = format!("system:serviceaccount:default:{account}");
            let resource = format!("{resource}.{group}");
            let resource = resource.trim_end_matches('.');
            let may = ["auth", "can-i", verb, resource, "-A", "--as", &user];
            // The server learns of the change by a watch. The command fails if the answer is no.
            while self.kubectl.run(&may).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let mut running = Self::process(account, &file, arguments)?;
            let reported = running.shows("is forbidden").await;
            reported.map_err(|error| format!("without {missing:?}: {error}"))?;
        }
        self.credentials(account).await?;
        Ok(tested().count())
    }
}

/// Returns the group, resource and verb of each right of a ClusterRole.
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
