//! Each example on a whole control plane, with exactly the rights of its manifest in `examples/deploy`.

mod rights;
mod tenants;

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use informer_tests::real::{Kubectl, Outcome, ensure};
use informer_tests::{example, say};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Mutex;

use crate::Context;

pub(crate) use rights::each_example_reports_a_missing_right;
pub(crate) use tenants::leader_and_server_are_killed_in_turn;

const PATIENCE: Duration = Duration::from_secs(60);

/// Some tests change the same roles, and Leases of the same names.
static ROLES: Mutex<()> = Mutex::const_new(());

/// Runs every example as a user would, with the token of its ServiceAccount, and checks the result with kubectl.
pub(crate) async fn each_example_works_with_its_rights(context: Context) -> Outcome {
    let _roles = ROLES.lock().await;
    let trial = Trial {
        kubectl: context.kubectl()?,
        folder: tempfile::tempdir()?,
    };
    trial.load_balancer().await?;
    trial.firewall().await?;
    trial.sample_controller().await?;
    trial.same_controller("same-controller").await?;
    trial.same_controller("alone").await?;
    trial.tenants().await?;
    trial.sites().await?;
    for (account, arguments, shown) in [
        ("kube-client", &["default"][..], "is deleted"),
        ("factory", &[], "nodes.v1: watching"),
        ("watch", &["pods", "--seconds", "2"], "synced"),
    ] {
        let mut running = trial.start(account, arguments).await?;
        running.shows(shown).await?;
        let ended = tokio::time::timeout(PATIENCE, running.child.wait()).await??;
        ensure(ended.success(), format_args!("{account}: {ended}"))?;
    }
    Ok(())
}

/// Three processes of the example `leader` run for one Lease. The leader is killed by SIGKILL, and the next one ended by
/// SIGTERM; kubectl shows who holds the Lease. Then three share keys, and one of them is killed.
pub(crate) async fn the_leader_is_killed(context: Context) -> Outcome {
    let _leases = ROLES.lock().await;
    let trial = Trial {
        kubectl: context.kubectl()?,
        folder: tempfile::tempdir()?,
    };
    let file = trial.credentials("leader").await?;
    let holder = [
        "get",
        "lease",
        "informer-leader",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ];
    let start = |name, more: &[&str]| {
        let mut arguments = vec!["--identity", name, "--seconds", "4"];
        arguments.extend(more);
        Trial::process("leader", &file, &arguments)
    };

    let mut first = start("a", &[])?;
    first.shows("a leads").await?;
    trial.until(&holder, "a").await?;
    let mut others = [start("b", &[])?, start("c", &[])?];
    tokio::time::sleep(Duration::from_secs(2)).await;
    let killed = Instant::now();
    first.child.kill().await?;
    let [b, c] = &mut others;
    let next = tokio::select! {
        shown = b.shows("b leads") => shown.map(|_| 0)?,
        shown = c.shows("c leads") => shown.map(|_| 1)?,
    };
    let taken = killed.elapsed();
    // The Lease lasts 4 s from its last renewal, which is up to half a second old; a candidate asks every half a second.
    ensure(
        taken > Duration::from_secs(3),
        format_args!("taken over after {taken:?}"),
    )?;
    trial.until(&holder, ["b", "c"][next]).await?;
    let [b, c] = others;
    let (leader, mut last) = if next == 0 { (b, c) } else { (c, b) };
    let ended = Instant::now();
    leader.ends_by_signal().await?;
    last.shows("leads").await?;
    let released = ended.elapsed();
    trial.until(&holder, ["c", "b"][next]).await?;
    last.ends_by_signal().await?;
    trial.until(&holder, "").await?;
    let transitions = [
        "get",
        "lease",
        "informer-leader",
        "-o",
        "jsonpath={.spec.leaseTransitions}",
    ];
    let transitions = trial.kubectl.run(&transitions).await?;

    let mut members = Vec::new();
    for name in ["x", "y", "z"] {
        members.push(start(name, &["--share"])?);
    }
    for member in &mut members {
        member.shows("with: x y z").await?;
    }
    let mut killed_member = members.remove(0);
    let killed = Instant::now();
    killed_member.child.kill().await?;
    let mut sum = 0;
    for member in &mut members {
        let line = member.shows("with: y z").await?;
        let own = line.split(' ').nth(2).unwrap_or_default();
        sum += own.parse::<u32>()?;
    }
    ensure(sum == 100, format_args!("{sum} of 100 keys have an owner"))?;
    let shared = killed.elapsed();
    // The others remove its Lease.
    let leases = ["get", "leases", "-l", "app=informer-member", "-o", "name"];
    let end = Instant::now() + PATIENCE;
    loop {
        let left = trial.kubectl.run(&leases).await?;
        if left.lines().count() == 2 {
            break;
        }
        ensure(Instant::now() < end, left)?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let removed = killed.elapsed();
    for member in members {
        member.ends_by_signal().await?;
    }
    say(&format!(
        "Leases of 4 s: taken over {taken:.1?} after SIGKILL and {released:.1?} after SIGTERM, {transitions} transitions; \
         the keys of a killed member {shared:.1?} after SIGKILL, and its Lease removed after {removed:.1?}"
    ));
    trial.kubectl.run(&["delete", "leases", "--all"]).await?;
    Ok(())
}

const SITE: &str = "apiVersion: example.com/v1\nkind: Site\nmetadata: { namespace: default, name: shop }\n\
                    spec: { image: \"registry.example.com/shop:1\", replicas: 2 }\n";

struct Trial {
    kubectl: Kubectl,
    folder: tempfile::TempDir,
}

impl Trial {
    async fn load_balancer(&self) -> Outcome {
        let service = "apiVersion: v1\nkind: Service\nmetadata: { namespace: default, name: balanced }\n\
                       spec: { type: LoadBalancer, ports: [{ port: 80, nodePort: 30080 }] }\n";
        self.kubectl.apply(service).await?;
        let file = self.path("load-balancer.json");
        let arguments = ["--file", &file, "--page", "127.0.0.1:0"];
        let mut running = self.start("load-balancer", &arguments).await?;
        let page = running.shows("its health is at http://").await?;
        running.shows("default/balanced is configured").await?;
        let address = page
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or_default();
        for probe in ["/readyz", "/livez"] {
            let status = get(address, probe).await?;
            ensure(status == "200", format_args!("{probe}: {status}"))?;
        }
        let text = std::fs::read_to_string(&file)?;
        ensure(text.contains("30080"), &text)?;
        running.ends_by_signal().await?;
        self.kubectl.run(&["delete", "service", "balanced"]).await?;
        Ok(())
    }

    async fn firewall(&self) -> Outcome {
        let objects = "apiVersion: v1\nkind: Pod\nmetadata: { namespace: default, name: walled, labels: { app: db } }\n\
                       spec: { containers: [{ name: db, image: \"registry.example.com/db:1\" }] }\n---\n\
                       apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: { namespace: default, name: db }\n\
                       spec: { podSelector: { matchLabels: { app: db } }, policyTypes: [Ingress] }\n";
        self.kubectl.apply(objects).await?;
        let status =
            r#"{"status":{"phase":"Running","podIP":"10.9.8.7","podIPs":[{"ip":"10.9.8.7"}]}}"#;
        let patch = [
            "patch",
            "pod",
            "walled",
            "--subresource=status",
            "--type=merge",
            "-p",
            status,
        ];
        self.kubectl.run(&patch).await?;
        let file = self.path("firewall.nft");
        let mut running = self.start("firewall", &["--file", &file]).await?;
        running.shows("is written").await?;
        let text = std::fs::read_to_string(&file)?;
        ensure(text.contains("10.9.8.7"), &text)?;
        running.ends_by_signal().await?;
        self.kubectl
            .run(&["delete", "pod/walled", "networkpolicy/db"])
            .await?;
        Ok(())
    }

    async fn sample_controller(&self) -> Outcome {
        let definition = workspace().join("examples/kube/sample_controller/crd.yaml");
        self.kubectl.apply_file(&definition).await?;
        let established = [
            "wait",
            "--for=condition=established",
            "crd/webs.example.com",
            "--timeout=60s",
        ];
        self.kubectl.run(&established).await?;
        let web = |replicas: u32| {
            json!({
                "apiVersion": "example.com/v1", "kind": "Web",
                "metadata": { "namespace": "default", "name": "shop" },
                "spec": { "image": "registry.example.com/shop:1", "replicas": replicas },
            })
        };
        self.kubectl.apply(&web(2).to_string()).await?;
        let mut running = self.start("sample-controller", &[]).await?;
        running.shows("default/shop has 2 replicas").await?;
        self.kubectl.apply(&web(3).to_string()).await?;
        running.shows("default/shop has 3 replicas").await?;
        let scaled = [
            "get",
            "deployment",
            "shop",
            "-o",
            "jsonpath={.spec.replicas} {.status.replicas}",
        ];
        self.until(&scaled, "3 3").await?;
        running.ends_by_signal().await?;
        // The garbage collector deletes the Deployment, since the Web owns it.
        self.kubectl.run(&["delete", "web", "shop"]).await?;
        self.until(
            &[
                "get",
                "deployments",
                "-l",
                "made-by=sample-controller",
                "-o",
                "name",
            ],
            "",
        )
        .await?;
        self.kubectl
            .run(&["delete", "crd", "webs.example.com"])
            .await?;
        Ok(())
    }

    async fn same_controller(&self, account: &str) -> Outcome {
        let namespace = format!("with-{account}");
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": namespace, "labels": { "team": "blue" } },
        });
        self.kubectl.apply(&object.to_string()).await?;
        let running = self.start(account, &[]).await?;
        let team = [
            "get",
            "configmap",
            "team",
            "-n",
            &namespace,
            "-o",
            "jsonpath={.data.team}",
            "--ignore-not-found",
        ];
        self.until(&team, "blue").await?;
        self.kubectl
            .run(&["delete", "configmap", "team", "-n", &namespace])
            .await?;
        self.until(&team, "blue").await?;
        let label = [
            "label",
            "namespace",
            &namespace,
            "team=green",
            "--overwrite",
        ];
        self.kubectl.run(&label).await?;
        self.until(&team, "green").await?;
        running.ends_by_signal().await?;
        self.kubectl
            .run(&["delete", "namespace", &namespace, "--wait=false"])
            .await?;
        Ok(())
    }

    async fn tenants(&self) -> Outcome {
        tenants::define(&self.kubectl).await?;
        let tenant = |quota: u32| {
            json!({
                "apiVersion": "example.com/v1", "kind": "Tenant",
                "metadata": { "name": "acme" }, "spec": { "quota": quota },
            })
        };
        self.kubectl.apply(&tenant(1).to_string()).await?;
        let accounts = self.path("accounts");
        let arguments = ["--identity", "a", "--accounts", &accounts];
        let running = self.start("tenants", &arguments).await?;
        let observed = [
            "get",
            "tenant",
            "acme",
            "-o",
            "jsonpath={.spec.quota} {.metadata.generation} {.status.observedGeneration}",
        ];
        self.until(&observed, "1 1 1").await?;
        self.kubectl.apply(&tenant(2).to_string()).await?;
        self.until(&observed, "2 2 2").await?;
        let quota = ["get", "configmap", "acme", "-o", "jsonpath={.data.quota}"];
        self.until(&quota, "2").await?;
        let account = Path::new(&accounts).join("acme");
        ensure(std::fs::read_to_string(&account)? == "2", "no account")?;
        // It returns once the finalizer is removed.
        self.kubectl.run(&["delete", "tenant", "acme"]).await?;
        ensure(!account.exists(), "the account is left")?;
        running.ends_by_signal().await?;
        let definition = ["delete", "crd", "tenants.example.com"];
        self.kubectl.run(&definition).await?;
        Ok(())
    }

    /// The definition is the one that the program prints.
    async fn define_sites(&self) -> Outcome {
        let crd = Command::new(example("sites")).arg("crd").output().await?;
        self.kubectl.apply(&String::from_utf8(crd.stdout)?).await?;
        let established = [
            "wait",
            "--for=condition=established",
            "crd/sites.example.com",
            "--timeout=60s",
        ];
        self.kubectl.run(&established).await?;
        Ok(())
    }

    async fn sites(&self) -> Outcome {
        self.define_sites().await?;
        let running = self.start("sites", &[]).await?;
        self.kubectl.apply(SITE).await?;
        let ready = ["get", "site", "shop", "-o", "jsonpath={.status.ready}"];
        self.until(&ready, "0").await?;
        let status = r#"{"status":{"replicas":2,"readyReplicas":2,"availableReplicas":2}}"#;
        let patch = ["patch", "deployment", "shop", "--subresource=status"];
        self.kubectl
            .run(&[&patch[..], &["--type=merge", "-p", status]].concat())
            .await?;
        // The controllers of the cluster know no ready Pods, and take it back.
        let notes = [
            "get",
            "events",
            "--field-selector=involvedObject.name=shop,reason=Scaled",
            "-o",
            "jsonpath={.items[*].message}",
        ];
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = self.kubectl.run(&notes).await?;
            if shown.contains("0 of 2 replicas are ready") {
                break;
            }
            ensure(Instant::now() < end, shown)?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let holder = [
            "get",
            "lease",
            "sites",
            "-o",
            "jsonpath={.spec.holderIdentity}",
        ];
        self.until(&holder, "a").await?;
        // Both return once the finalizer is removed. In a namespace that is being deleted, no Event can be made.
        self.kubectl.run(&["delete", "site", "shop"]).await?;
        self.kubectl.run(&["create", "namespace", "closed"]).await?;
        let site = SITE.replace("namespace: default", "namespace: closed");
        self.kubectl.apply(&site).await?;
        let ready = [&["-n", "closed"], &ready[..]].concat();
        self.until(&ready, "0").await?;
        let namespace = ["delete", "namespace", "closed", "--timeout=60s"];
        self.kubectl.run(&namespace).await?;
        running.ends_by_signal().await?;
        self.until(&holder, "").await?;
        let definition = ["delete", "crd/sites.example.com", "deployment/sites"];
        self.kubectl.run(&definition).await?;
        Ok(())
    }

    /// Starts an example with the token of its ServiceAccount.
    async fn start(&self, account: &str, arguments: &[&str]) -> Outcome<Running> {
        Self::process(account, &self.credentials(account).await?, arguments)
    }

    /// Applies the manifest of an example. Returns a kubeconfig with the token of its ServiceAccount.
    async fn credentials(&self, account: &str) -> Outcome<String> {
        let manifest = workspace().join(format!("examples/deploy/{account}.yaml"));
        self.kubectl.apply_file(&manifest).await?;
        let token = self
            .kubectl
            .run(&["create", "token", account, "-n", "default"])
            .await?;
        let config = self
            .kubectl
            .run(&[
                "config",
                "view",
                "--raw",
                "--flatten",
                "--minify",
                "-o",
                "json",
            ])
            .await?;
        let mut config: Value = serde_json::from_str(&config)?;
        config["users"][0]["user"] = json!({ "token": token.trim() });
        let file = self.path(&format!("{account}.kubeconfig"));
        std::fs::write(&file, config.to_string())?;

        Ok(file)
    }

    /// Starts an example with a kubeconfig.
    fn process(account: &str, file: &str, arguments: &[&str]) -> Outcome<Running> {
        let name = account.replace('-', "_");
        // Errors are shown, too.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
            .arg(example(&name))
            .args(["--kubeconfig", file])
            .args(arguments)
            .env("KUBECONFIG", file)
            .env("POD_NAME", "a")
            .env("LISTEN", "127.0.0.1:0")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or("it has no output")?;
        let lines = BufReader::new(output).lines();
        Ok(Running { name, child, lines })
    }

    /// Waits until kubectl prints this.
    async fn until(&self, arguments: &[&str], wanted: &str) -> Outcome {
        let mut printed = String::new();
        let end = tokio::time::Instant::now() + PATIENCE;
        while tokio::time::Instant::now() < end {
            printed = self.kubectl.run(arguments).await?;
            if printed == wanted {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(format!("kubectl {}: {printed}, not {wanted}", arguments.join(" ")).into())
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

struct Running {
    name: String,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Waits for a line with this text, and returns it.
    async fn shows(&mut self, wanted: &str) -> Outcome<String> {
        let mut shown = Vec::new();
        let reading = async {
            loop {
                let line = self.lines.next_line().await?;
                let line = line.ok_or_else(|| format!("{} ended: {shown:#?}", self.name))?;
                if line.contains(wanted) {
                    return Ok(line);
                }
                shown.push(line);
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, reading).await;
        in_time.map_err(|_| format!("{} shows no {wanted:?}: {shown:#?}", self.name))?
    }

    /// Sends the signal that a Pod gets first. The example has to end without a failure.
    async fn ends_by_signal(mut self) -> Outcome {
        let id = self.child.id().ok_or("it has ended")?.to_string();
        Command::new("kill").args(["-TERM", &id]).status().await?;
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await??;
        ensure(ended.success(), format_args!("{}: {ended}", self.name))
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the status of a page.
async fn get(address: &str, path: &str) -> Outcome<String> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split(' ').nth(1).unwrap_or_default().to_owned())
}
