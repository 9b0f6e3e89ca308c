//! Two replicas of the example `tenants`, while the leader and the control plane are killed in turn.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use http::Method;
use informer_tests::proxy::Random;
use informer_tests::real::{Cluster, Kubectl, Outcome, Plane, ensure};
use informer_tests::{example, say};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::{Duration, PATIENCE, Trial};
use crate::Context;
use crate::soak::number;

const TENANTS: &str = "/apis/example.com/v1/tenants";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/tenants";
/// The garbage collector deletes the ConfigMaps of a Tenant that is gone.
const FLAGS: &[&str] = &["--controllers=garbage-collector-controller"];
/// How many Tenants there are at most.
const COUNT: u64 = 30;

/// Users create, change and delete Tenants and their ConfigMaps, while the control plane and the leader are killed in turn. Within
/// a minute after the last fault each Tenant is as its user wants it, and nothing is left of the others.
///
/// It runs for `INFORMER_TEST_TENANTS` seconds, or 60, and starts with the seed `INFORMER_TEST_SEED`.
pub(crate) async fn leader_and_server_are_killed_in_turn(context: Context) -> Outcome {
    let seconds = number("INFORMER_TEST_TENANTS", 60)?;
    let seed = number("INFORMER_TEST_SEED", 1)?;
    let plane = Plane::start(context.assets()?, FLAGS).await?;
    let cluster = plane.cluster().await?;
    define(&context.kubectl_at(plane.kubeconfig())?).await?;
    let accounts = tempfile::tempdir()?;
    let mut replicas = Replicas {
        kubeconfig: plane.kubeconfig().display().to_string(),
        accounts: accounts.path().display().to_string(),
        started: 0,
        running: Vec::new(),
    };
    replicas.start()?;
    replicas.start()?;

    let stop = Arc::new(AtomicBool::new(false));
    let writes = Arc::new(AtomicU64::new(0));
    let users = tokio::spawn(write(
        cluster.clone(),
        Random::new(seed),
        Arc::clone(&stop),
        Arc::clone(&writes),
    ));
    let began = Instant::now();
    let mut random = Random::new(seed + 1);
    let mut kills = [0; 2];
    while began.elapsed() < Duration::from_secs(seconds) {
        pause(random.between(3_000, 8_000)).await;
        replicas.kill_leader(&cluster).await?;
        kills[0] += 1;
        pause(random.below(3_000)).await;
        replicas.start()?;
        pause(random.between(3_000, 8_000)).await;
        plane.kill().await?;
        kills[1] += 1;
        pause(random.below(5_000)).await;
        plane.restart(FLAGS).await?;
    }
    stop.store(true, Relaxed);
    users.await?;

    let last = Instant::now();
    let mut wrong = Vec::new();
    loop {
        let now = problems(&cluster, accounts.path()).await?;
        if now.is_empty() {
            break;
        }
        let patient = last.elapsed() < PATIENCE;
        ensure(patient, format_args!("{now:#?}\n{}", replicas.said()))?;
        wrong = now;
        pause(100).await;
    }
    let left = items(&cluster, TENANTS).await?.len();
    ensure(left > 0, "no Tenant is left")?;
    say(&format!(
        "{seconds} s with seed {seed}: {} writes by users, the leader killed {} and the API server {} times; {left} Tenants as \
         wanted {:.1?} after the last fault; the last ones to become so: {wrong:?}",
        writes.load(Relaxed),
        kills[0],
        kills[1],
        last.elapsed(),
    ));
    Ok(())
}

async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Applies the definition of Tenants that the example prints.
pub(super) async fn define(kubectl: &Kubectl) -> Outcome {
    let crd = Command::new(example("tenants")).arg("--crd").output();
    kubectl
        .apply(&String::from_utf8(crd.await?.stdout)?)
        .await?;
    let established = [
        "wait",
        "--for=condition=established",
        "crd/tenants.example.com",
        "--timeout=60s",
    ];
    kubectl.run(&established).await?;
    Ok(())
}

/// The last lines of a process.
type Said = Arc<Mutex<VecDeque<String>>>;

struct Replicas {
    kubeconfig: String,
    accounts: String,
    started: u32,
    running: Vec<(String, Child, Said)>,
}

impl Replicas {
    fn start(&mut self) -> Outcome {
        self.started += 1;
        let identity = format!("replica-{}", self.started);
        let arguments = [
            "--identity",
            &identity,
            "--seconds",
            "4",
            "--accounts",
            &self.accounts,
        ];
        let mut process = Trial::process("tenants", &self.kubeconfig, &arguments)?;
        let said = Said::default();
        let heard = Arc::clone(&said);
        tokio::spawn(async move {
            while let Ok(Some(line)) = process.lines.next_line().await {
                let mut said = heard.lock().unwrap_or_else(PoisonError::into_inner);
                said.push_back(line);
                if said.len() > 20 {
                    said.pop_front();
                }
            }
        });
        self.running.push((identity, process.child, said));
        Ok(())
    }

    /// Kills the replica that holds the Lease, once one of those that run does.
    async fn kill_leader(&mut self, cluster: &Cluster) -> Outcome {
        let end = Instant::now() + PATIENCE;
        loop {
            let (_, lease) = cluster.request(Method::GET, LEASE, None).await?;
            let holder = lease["spec"]["holderIdentity"].as_str();
            let found = self
                .running
                .iter()
                .position(|(own, ..)| holder == Some(own));
            if let Some(found) = found {
                let (identity, mut child, said) = self.running.swap_remove(found);
                let ended = child.try_wait()?;
                ensure(ended.is_none(), format_args!("{identity} ended: {said:?}"))?;
                return Ok(child.kill().await?);
            }
            let patient = Instant::now() < end;
            ensure(patient, format_args!("no leader: {lease}\n{}", self.said()))?;
            pause(100).await;
        }
    }

    fn said(&self) -> String {
        let said = self.running.iter().map(|(identity, _, said)| {
            let said = said.lock().unwrap_or_else(PoisonError::into_inner);
            format!("{identity}: {said:#?}")
        });
        said.collect::<Vec<_>>().join("\n")
    }
}

/// Writes as users do. A request that fails has no effect, or has it unknown to them.
async fn write(
    cluster: Cluster,
    mut random: Random,
    stop: Arc<AtomicBool>,
    writes: Arc<AtomicU64>,
) {
    while !stop.load(Relaxed) {
        let name = format!("tenant-{}", random.below(COUNT));
        let (tenant, map) = (format!("{TENANTS}/{name}"), format!("{MAPS}/{name}"));
        let quota = random.below(1_000_000);
        let answer = match random.below(10) {
            0 => cluster.request(Method::DELETE, &tenant, None).await,
            1 => cluster.request(Method::DELETE, &map, None).await,
            2 => {
                let data = json!({ "data": { "quota": "0" } });
                cluster.request(Method::PATCH, &map, Some(&data)).await
            }
            3 => {
                let label = json!({ "metadata": { "labels": { "round": quota.to_string() } } });
                cluster.request(Method::PATCH, &tenant, Some(&label)).await
            }
            _ => {
                let spec = json!({ "spec": { "quota": quota } });
                match cluster.request(Method::PATCH, &tenant, Some(&spec)).await {
                    Ok((404, _)) => {
                        let new = json!({
                            "apiVersion": "example.com/v1", "kind": "Tenant",
                            "metadata": { "name": name }, "spec": { "quota": quota },
                        });
                        cluster.request(Method::POST, TENANTS, Some(&new)).await
                    }
                    answer => answer,
                }
            }
        };
        if answer.is_ok_and(|(status, _)| status < 300) {
            writes.fetch_add(1, Relaxed);
        }
        pause(random.below(60)).await;
    }
}

async fn items(cluster: &Cluster, path: &str) -> Outcome<Vec<Value>> {
    let (status, list) = cluster.request(Method::GET, path, None).await?;
    let items = list["items"].as_array().filter(|_| status == 200);
    Ok(items.ok_or_else(|| format!("{status} {list}"))?.clone())
}

/// Returns what is not yet as the users want it.
async fn problems(cluster: &Cluster, accounts: &Path) -> Outcome<Vec<String>> {
    let tenants = items(cluster, TENANTS).await?;
    let made = format!("{MAPS}?labelSelector=made-by%3Dtenants");
    let maps = items(cluster, &made).await?;
    let mut quotas = BTreeMap::new();
    for map in &maps {
        let quota = map["data"]["quota"].as_str().unwrap_or_default();
        let owner = &map["metadata"]["ownerReferences"][0]["uid"];
        quotas.insert(map["metadata"]["name"].as_str(), (quota, owner));
    }
    let mut open = BTreeMap::new();
    for account in std::fs::read_dir(accounts)? {
        let account = account?;
        let name = account.file_name().into_string().unwrap_or_default();
        open.insert(name, std::fs::read_to_string(account.path())?);
    }
    let mut problems = Vec::new();
    for tenant in &tenants {
        let metadata = &tenant["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let quota = tenant["spec"]["quota"].to_string();
        if !metadata["deletionTimestamp"].is_null() {
            problems.push(format!("{name} is not deleted"));
            continue;
        }
        if tenant["status"]["observedGeneration"] != metadata["generation"] {
            let (status, generation) = (&tenant["status"], &metadata["generation"]);
            problems.push(format!("{name} has {status} and generation {generation}"));
        }
        if quotas.remove(&Some(name)) != Some((&quota, &metadata["uid"])) {
            problems.push(format!("{name} has no ConfigMap with {quota}"));
        }
        if open.remove(name).as_ref() != Some(&quota) {
            problems.push(format!("{name} has no account with {quota}"));
        }
    }
    problems.extend(
        quotas
            .keys()
            .map(|name| format!("the ConfigMap {name:?} is left")),
    );
    problems.extend(
        open.keys()
            .map(|name| format!("the account {name} is left")),
    );
    Ok(problems)
}
