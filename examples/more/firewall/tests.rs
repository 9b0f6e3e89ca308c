//! The rendered rules and the time of rendering, on paused time.
#![allow(clippy::unwrap_used, reason = "a test may")]

use core::time::Duration;

use informer_mock::{FakeServer, Mock, TokioClock, json};
use tokio::time::sleep;

use super::{demo, run};

const WHOLE: &str = "\
table ip kubernetes
delete table ip kubernetes
table ip kubernetes {
  chain policy_prod_sdb { # prod/db
    ip saddr { 10.0.0.1, 10.0.0.2 } tcp dport 5432 accept
    ip saddr 192.168.0.0/16 ip saddr != { 192.168.1.0/24 } tcp dport 9187 accept
    ip saddr { 10.0.1.1 } tcp dport 9187 accept
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    ct state established,related accept
    ip daddr { 10.0.0.3 } jump policy_prod_sdb
    ip daddr { 10.0.0.3 } drop
  }
}
";

#[tokio::test(start_paused = true)]
async fn the_text_follows_the_cluster() {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    demo(&mock);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("firewall.nft");
    let (transport, own) = (mock.transport(), file.clone());
    tokio::spawn(async move { run(transport, &own, core::future::pending()).await.unwrap() });
    let text = async || {
        sleep(Duration::from_secs(1)).await;
        std::fs::read_to_string(&file).unwrap()
    };
    assert_eq!(text().await, WHOLE);

    // A new Pod, and one that has ended.
    let pod = |name: &str, phase: &str, ip: &str| {
        json!({
            "metadata": { "namespace": "prod", "name": name, "labels": { "app": "web" } },
            "status": { "phase": phase, "podIP": ip },
        })
    };
    mock.create("pods", pod("web-3", "Running", "10.0.0.9"))
        .unwrap();
    mock.update("pods", pod("web-1", "Failed", "10.0.0.1"))
        .unwrap();
    let expected = WHOLE.replace("10.0.0.1, 10.0.0.2", "10.0.0.2, 10.0.0.9");
    assert_eq!(text().await, expected);

    // A namespace that is no longer selected, and therefore its Pods.
    mock.update(
        "namespaces",
        json!({ "metadata": { "name": "monitoring" } }),
    )
    .unwrap();
    let expected = expected.replace("    ip saddr { 10.0.1.1 } tcp dport 9187 accept\n", "");
    assert_eq!(text().await, expected);

    // Text that is not an address block, and rules that cannot be expressed, allow nothing.
    let policy = json!({
        "metadata": { "namespace": "prod", "name": "db" },
        "spec": {
            "podSelector": {},
            "ingress": [
                { "from": [{ "ipBlock": { "cidr": "0.0.0.0/0 accept # 1" } }] },
                { "ports": [{ "port": "http" }, { "protocol": "UDP", "port": 53, "endPort": 54 }] },
            ],
        },
    });
    mock.update("networkpolicies", policy).unwrap();
    let now = text().await;
    assert!(
        now.contains("{ # prod/db\n    udp dport 53-54 accept\n  }"),
        "{now}"
    );
    assert!(
        now.contains("ip daddr { 10.0.0.2, 10.0.0.3, 10.0.0.9 } drop"),
        "{now}"
    );

    mock.delete("networkpolicies", "prod", "db").unwrap();
    assert!(!text().await.contains("drop"));
}
