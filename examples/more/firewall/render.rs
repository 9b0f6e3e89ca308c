//! Renders policies as text.

use core::fmt::Write as _;
use core::net::Ipv4Addr;
use std::collections::BTreeSet;

use informer::Entry;

use super::policy::{IpBlock, Namespace, Peer, Pod, Policy, Port, Rule};

/// The rules for nftables, and the parts that cannot be expressed. Those parts allow nothing.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) problems: Vec<String>,
}

/// Renders the ingress rules of all policies. The result does not depend on the order of the objects.
pub(crate) fn render(
    policies: &[Entry<Policy>],
    pods: &[Entry<Pod>],
    namespaces: &[Entry<Namespace>],
) -> Rendered {
    let mut policies: Vec<_> = policies
        .iter()
        .filter(|policy| is_ingress(policy))
        .collect();
    policies.sort_by(|a, b| a.key().cmp(b.key()));
    let world = World { pods, namespaces };
    let mut rendering = Rendering {
        text: "table ip kubernetes\ndelete table ip kubernetes\ntable ip kubernetes {\n".to_owned(),
        problems: Vec::new(),
    };
    let mut isolated = BTreeSet::new();
    let mut jumps = String::new();
    for policy in policies {
        let selected = world.pods(policy.namespace(), |pod| {
            policy.spec.pod_selector.matches(|key| pod.label(key))
        });
        if selected.is_empty() {
            continue;
        }
        let chain = chain_name(policy);
        // Writing into a `String` cannot fail.
        let _ = writeln!(jumps, "    ip daddr {} jump {chain}", set(&selected));
        let _ = writeln!(rendering.text, "  chain {chain} {{ # {}", policy.key());
        for rule in &policy.spec.ingress {
            rendering.rule(&world, policy, rule);
        }
        rendering.text += "  }\n";
        isolated.extend(selected);
    }
    rendering.text +=
        "  chain forward {\n    type filter hook forward priority filter; policy accept;\n";
    rendering.text += "    ct state established,related accept\n";
    rendering.text += &jumps;
    if !isolated.is_empty() {
        let _ = writeln!(rendering.text, "    ip daddr {} drop", set(&isolated));
    }
    rendering.text += "  }\n}\n";
    Rendered {
        text: rendering.text,
        problems: rendering.problems,
    }
}

struct World<'a> {
    pods: &'a [Entry<Pod>],
    namespaces: &'a [Entry<Namespace>],
}

impl World<'_> {
    /// The addresses of the Pods of a namespace.
    fn pods(&self, namespace: &str, selects: impl Fn(&Entry<Pod>) -> bool) -> BTreeSet<Ipv4Addr> {
        let pods = self.pods.iter();
        pods.filter(|pod| pod.namespace() == namespace && has_own_address(pod) && selects(pod))
            .filter_map(|pod| pod.status.pod_ip.parse().ok())
            .collect()
    }

    fn of_peer(&self, own: &str, peer: &Peer) -> BTreeSet<Ipv4Addr> {
        let selects = |pod: &Entry<Pod>| {
            let selector = peer.pod_selector.as_ref();
            selector.is_none_or(|selector| selector.matches(|key| pod.label(key)))
        };
        let Some(selector) = &peer.namespace_selector else {
            return self.pods(own, selects);
        };
        self.namespaces
            .iter()
            .filter(|namespace| selector.matches(|key| namespace.label(key)))
            .flat_map(|namespace| self.pods(namespace.name(), selects))
            .collect()
    }
}

struct Rendering {
    text: String,
    problems: Vec<String>,
}

impl Rendering {
    fn rule(&mut self, world: &World<'_>, policy: &Entry<Policy>, rule: &Rule) {
        let mut sources = Vec::new();
        let mut addresses = BTreeSet::new();
        for peer in &rule.from {
            match &peer.ip_block {
                Some(block) => sources.extend(self.block(policy, block)),
                None => addresses.extend(world.of_peer(policy.namespace(), peer)),
            }
        }
        if !addresses.is_empty() {
            sources.push(format!("ip saddr {} ", set(&addresses)));
        }
        if rule.from.is_empty() {
            sources.push(String::new());
        }
        let ports: Vec<String> = if rule.ports.is_empty() {
            vec![String::new()]
        } else {
            rule.ports
                .iter()
                .filter_map(|port| self.port(policy, port))
                .collect()
        };
        for source in &sources {
            for port in &ports {
                let _ = writeln!(self.text, "    {source}{port}accept");
            }
        }
    }

    fn block(&mut self, policy: &Entry<Policy>, block: &IpBlock) -> Option<String> {
        let mut all = core::iter::once(&block.cidr).chain(&block.except);
        // The text is loaded as root, so only valid address blocks may enter it.
        if !all.all(|cidr| is_block(cidr)) {
            self.problem(
                policy,
                &format!("{} is not an IPv4 address block", block.cidr),
            );
            return None;
        }
        let mut text = format!("ip saddr {} ", block.cidr);
        if !block.except.is_empty() {
            let _ = write!(text, "ip saddr != {{ {} }} ", block.except.join(", "));
        }
        Some(text)
    }

    fn port(&mut self, policy: &Entry<Policy>, port: &Port) -> Option<String> {
        let protocol = match port.protocol.as_deref() {
            None | Some("TCP") => "tcp",
            Some("UDP") => "udp",
            Some("SCTP") => "sctp",
            Some(_) => {
                self.problem(policy, "a protocol is unknown");
                return None;
            }
        };
        let Some(number) = &port.port else {
            return Some(format!("meta l4proto {protocol} "));
        };
        let Some(number) = number
            .as_u64()
            .and_then(|number| u16::try_from(number).ok())
        else {
            self.problem(
                policy,
                "a port has a name, and this example knows numbers alone",
            );
            return None;
        };
        Some(match port.end_port {
            Some(end) => format!("{protocol} dport {number}-{end} "),
            None => format!("{protocol} dport {number} "),
        })
    }

    fn problem(&mut self, policy: &Entry<Policy>, what: &str) {
        self.problems
            .push(format!("{policy}: {what}; that part allows nothing"));
    }
}

/// A policy without types applies to ingress.
fn is_ingress(policy: &Policy) -> bool {
    let types = &policy.spec.policy_types;
    types.is_empty() || types.iter().any(|kind| kind == "Ingress")
}

/// Policies ignore a Pod on the network of its node, and a Pod that has ended has no address any more.
fn has_own_address(pod: &Pod) -> bool {
    !pod.spec.host_network && !matches!(pod.status.phase.as_str(), "Succeeded" | "Failed")
}

/// Returns a chain name for nftables, which does not allow `.` and `-`. Different policies get different names.
fn chain_name(policy: &Entry<Policy>) -> String {
    let escaped = |text: &str| {
        text.replace('_', "__")
            .replace('-', "_d")
            .replace('.', "_p")
    };
    format!(
        "policy_{}_s{}",
        escaped(policy.namespace()),
        escaped(policy.name())
    )
}

fn set(addresses: &BTreeSet<Ipv4Addr>) -> String {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    format!("{{ {} }}", addresses.join(", "))
}

fn is_block(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    address.parse::<Ipv4Addr>().is_ok() && bits.parse::<u8>().is_ok_and(|bits| bits <= 32)
}
