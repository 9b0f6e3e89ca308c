//! The fields of the objects that the example needs.

use std::collections::BTreeMap;

use informer::kind;
use serde::Deserialize;

/// A NetworkPolicy.
#[derive(Deserialize)]
pub(crate) struct Policy {
    pub(crate) spec: PolicySpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicySpec {
    #[serde(default)]
    pub(crate) pod_selector: Selector,
    #[serde(default)]
    pub(crate) policy_types: Vec<String>,
    #[serde(default)]
    pub(crate) ingress: Vec<Rule>,
}

#[derive(Deserialize)]
pub(crate) struct Rule {
    #[serde(default)]
    pub(crate) from: Vec<Peer>,
    #[serde(default)]
    pub(crate) ports: Vec<Port>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Peer {
    pub(crate) pod_selector: Option<Selector>,
    pub(crate) namespace_selector: Option<Selector>,
    pub(crate) ip_block: Option<IpBlock>,
}

#[derive(Deserialize)]
pub(crate) struct IpBlock {
    pub(crate) cidr: String,
    #[serde(default)]
    pub(crate) except: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Port {
    pub(crate) protocol: Option<String>,
    pub(crate) port: Option<serde_json::Value>,
    pub(crate) end_port: Option<u16>,
}

/// A label selector. An empty one selects everything.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Selector {
    #[serde(default)]
    pub(crate) match_labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) match_expressions: Vec<Expression>,
}

#[derive(Deserialize)]
pub(crate) struct Expression {
    pub(crate) key: String,
    pub(crate) operator: String,
    #[serde(default)]
    pub(crate) values: Vec<String>,
}

/// A Pod.
#[derive(Deserialize)]
pub(crate) struct Pod {
    #[serde(default)]
    pub(crate) spec: PodSpec,
    #[serde(default)]
    pub(crate) status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSpec {
    #[serde(default)]
    pub(crate) host_network: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodStatus {
    #[serde(default)]
    pub(crate) phase: String,
    #[serde(default, rename = "podIP")]
    pub(crate) pod_ip: String,
}

/// A Namespace. Only its labels are used.
#[derive(Deserialize)]
pub(crate) struct Namespace {}

kind!(
    Policy,
    "networking.k8s.io/v1",
    "networkpolicies",
    "NetworkPolicy"
);
kind!(Pod, "v1", "pods");
kind!(Namespace, "v1", "namespaces");

impl Selector {
    /// Returns whether labels are selected. An unknown operator selects nothing.
    pub(crate) fn matches(&self, label: impl Fn(&str) -> Option<String>) -> bool {
        let equal = self
            .match_labels
            .iter()
            .all(|(key, value)| label(key).as_ref() == Some(value));
        equal
            && self.match_expressions.iter().all(|expression| {
                let value = label(&expression.key);
                let is_in = value
                    .as_ref()
                    .is_some_and(|value| expression.values.contains(value));
                match expression.operator.as_str() {
                    "In" => is_in,
                    "NotIn" => !is_in,
                    "Exists" => value.is_some(),
                    "DoesNotExist" => value.is_none(),
                    _ => false,
                }
            })
    }
}
