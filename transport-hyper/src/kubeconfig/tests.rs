//! kubeconfig files and exec plugins.

use super::*;

use alloc::sync::Arc;
use std::fs;

use crate::credentials::{CredentialSource, Login};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

/// A file of one cluster, one user and one context, with these lines in the cluster and the user.
fn one(cluster: &str, user: &str) -> String {
    let indent = |lines: &str| -> String { lines.lines().map(|l| format!("    {l}\n")).collect() };
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         contexts:\n- name: here\n  context: {{cluster: c, user: u, namespace: prod}}\n- name: there\n  context: \
         {{cluster: other, user: u}}\n\
         clusters:\n- name: c\n  cluster:\n    server: https://10.0.0.1:6443\n{}\
         users:\n- name: u\n  user:\n    as-uid: ''\n{}",
        indent(cluster),
        indent(user)
    )
}

fn read(cluster: &str, user: &str) -> Result<HyperBuilder, BuildError> {
    let folder = folder();
    Kubeconfig::from_file(write(&folder, "config", &one(cluster, user)))?.builder()
}

fn problem(config: &Kubeconfig) -> String {
    let problem = config.builder().unwrap_err().to_string();
    assert!(!problem.contains('\n'), "{problem}");
    problem
}

fn pem(what: &str) -> String {
    BASE64_STANDARD.encode(what)
}

#[test]
fn a_context_gives_a_transport() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default()
        .self_signed(&key)
        .unwrap();
    let (chain, key) = (pem(&certificate.pem()), pem(&key.serialize_pem()));
    let cluster = format!(
        "certificate-authority-data: {chain}\ntls-server-name: kubernetes\ndisable-compression: true\n\
         proxy-url: http://me:s3cret@proxy:3128"
    );
    let user = format!(
        "client-certificate-data: {chain}\nclient-key-data: {key}\ntoken: s3cret\nas: jane"
    );
    let builder = read(&cluster, &user).unwrap();
    let shown = format!("{builder:?}");
    assert!(
        !shown.contains("s3cret") && !shown.contains(&key),
        "{shown}"
    );
    assert!(
        shown.contains("kubernetes") && shown.contains("gzip: false"),
        "{shown}"
    );
    let transport = builder.build().unwrap();
    assert_eq!(
        format!("{transport:?}"),
        "HyperTransport(https://10.0.0.1:6443)"
    );
}

#[test]
fn files_are_found_beside_the_kubeconfig() {
    let folder = folder();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default()
        .self_signed(&key)
        .unwrap();
    write(&folder, "ca.crt", &certificate.pem());
    write(&folder, "me.key", &key.serialize_pem());
    let user = "client-certificate: ca.crt\nclient-key: me.key";
    let path = write(
        &folder,
        "config",
        &one("certificate-authority: ca.crt", user),
    );
    let config = Kubeconfig::from_file(path).unwrap();
    assert_eq!(config.namespace().unwrap(), Some("prod"));
    assert_eq!(config.clone().context("there").namespace().unwrap(), None);
    config.builder().unwrap().build().unwrap();
    fs::remove_file(folder.path().join("me.key")).unwrap();
    let problem = config.builder().unwrap().build().unwrap_err().to_string();
    assert!(
        problem.starts_with("client key: cannot read ") && problem.contains("me.key"),
        "{problem}"
    );
}

#[test]
fn missing_entries_are_reported() {
    let folder = folder();
    let config = Kubeconfig::from_file(write(&folder, "config", &one("", ""))).unwrap();
    assert!(
        problem(&config.clone().context("nowhere"))
            .ends_with("the context \"nowhere\" does not exist; the contexts are: here, there")
    );
    assert!(problem(&config.context("there")).ends_with("the cluster \"other\" does not exist"));
    let empty = Kubeconfig::from_file(write(&folder, "empty", "")).unwrap();
    assert!(problem(&empty).ends_with("it has no current context; choose one by name"));
    let no_user = one("", "").replace("name: u\n", "name: v\n");
    let config = Kubeconfig::from_file(write(&folder, "config", &no_user)).unwrap();
    assert!(problem(&config).ends_with("the user \"u\" does not exist"));
    let no_server = one("", "").replace("https://10.0.0.1:6443", "''");
    let config = Kubeconfig::from_file(write(&folder, "config", &no_server)).unwrap();
    assert!(problem(&config).ends_with("the cluster \"c\" has no server"));
}

#[test]
fn an_invalid_kubeconfig_is_reported_without_secrets() {
    let folder = folder();
    let path = write(&folder, "config", "users: [name: s3cret");
    let problem = Kubeconfig::from_file(path).unwrap_err().to_string();
    assert!(
        problem.ends_with("it is not a kubeconfig file in YAML or JSON; see line 1"),
        "{problem}"
    );
    // What the cluster and the user have, and the problem.
    let table = r#"
        certificate-authority-data: '?' | | certificate-authority-data is not base64
        | client-key-data: s3cret! | client-key-data is not base64
        | client-certificate: x | the client certificate or the client key is missing
        | auth-provider: {name: gcp} | auth provider "gcp" is not supported, and Kubernetes 1.26 removed it; use the exec plugin gke-
        | auth-provider: {name: azure} | and Kubernetes 1.26 removed it; use the exec plugin kubelogin
        | auth-provider: {name: mine} | the auth provider "mine" is not supported; use an exec plugin
        | auth-provider: {name: oidc} | the auth provider oidc has no id-token; log in first
        | auth-provider: {name: oidc, config: {id-token: s3cret x}} | id-token of the auth provider oidc: it has characters
        | auth-provider: {name: oidc, config: {id-token: 7}} | id-token is not text
        | <<: {auth-provider: {name: oidc, config: {id-token: s3cret}}, exec: {command: x}} | both an auth provider and an exec plugin
        | exec: {apiVersion: client.authentication.k8s.io/v1} | exec plugin: it has no command
        | exec: {apiVersion: v7, command: x, interactiveMode: Never} | exec plugin: its apiVersion "v7" is not one of
    "#;
    for row in table.trim().lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [cluster, user, expected] = cells[..] else {
            panic!("{row}")
        };
        let problem = read(cluster, user).unwrap_err().to_string();
        assert!(
            problem.contains(expected) && !problem.contains("s3cret"),
            "{problem}"
        );
    }
}

#[test]
fn several_files_are_one() {
    let folder = folder();
    let first = write(&folder, "first", "current-context: there\n");
    let second = one("insecure-skip-tls-verify: true", "token: abc");
    let second = write(&folder, "second", &second);
    let third = "clusters:\n- name: other\n  cluster: {server: 'http://10.0.0.2:8080'}\n- name: c\n  cluster: {server: 'http://no'}\n";
    let third = write(&folder, "third", third);
    let paths = vec![first, folder.path().join("not there"), second, third];
    let config = Kubeconfig::from_files(paths).unwrap().unwrap();
    // The first file sets the context, the second defines it, and the third has its cluster.
    let transport = config.builder().unwrap().build().unwrap();
    assert_eq!(
        format!("{transport:?}"),
        "HyperTransport(http://10.0.0.2:8080)"
    );
    let transport = config.context("here").builder().unwrap().build().unwrap();
    assert_eq!(
        format!("{transport:?}"),
        "HyperTransport(https://10.0.0.1:6443)"
    );
    assert!(
        Kubeconfig::from_files(vec![folder.path().join("nothing")])
            .unwrap()
            .is_none()
    );
}

/// A plugin that is a shell script and counts its runs.
struct Plugin {
    folder: TempDir,
}

impl Plugin {
    fn new(script: &str) -> Self {
        let folder = folder();
        write(&folder, "plugin", &format!("echo run >>runs\n{script}\n"));
        Self { folder }
    }

    fn exec(&self) -> Exec {
        let config = ExecConfigYaml {
            command: "sh".to_owned(),
            folder: self.folder.path().display().to_string(),
        };
        config.parsed()
    }

    fn runs(&self) -> usize {
        let runs = fs::read_to_string(self.folder.path().join("runs"));
        runs.unwrap_or_default().lines().count()
    }

    async fn problem(script: &str) -> String {
        let plugin = Self::new(script);
        let problem = plugin
            .exec()
            .credential(None)
            .await
            .unwrap_err()
            .to_string();
        assert!(!problem.contains("s3cret"), "{problem}");
        problem
    }
}

struct ExecConfigYaml {
    command: String,
    folder: String,
}

impl ExecConfigYaml {
    fn parsed(&self) -> Exec {
        let yaml = one(
            "",
            &format!(
                "exec:\n  apiVersion: client.authentication.k8s.io/v1\n  command: {}\n  args: ['-c', 'cd \"$PLACE\" && . ./$FILE']\n  \
                 env: [{{name: PLACE, value: '{}'}}, {{name: FILE, value: plugin}}]\n  interactiveMode: Never\n  provideClusterInfo: true\n  installHint: Take it from there.",
                self.command, self.folder
            ),
        );
        let file = File::parse(&yaml, Path::new("")).unwrap();
        let exec = file.users[0].1.exec.as_ref().unwrap();
        Exec::new(exec, &file.clusters[0].1).unwrap()
    }
}

fn gives(status: &str) -> String {
    format!(
        "echo '{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {{{status}}}}}'"
    )
}

#[tokio::test]
async fn a_plugin_runs_once_and_again_when_it_was_refused() {
    let plugin = Plugin::new(&gives(r#""token": "t'$(wc -l <runs | tr -d " ")'""#));
    let exec = plugin.exec();
    let first = exec.credential(None).await.unwrap();
    assert_eq!(first, Credential::bearer("t1").unwrap());
    assert_eq!(exec.credential(None).await.unwrap(), first);
    assert_eq!(plugin.runs(), 1);
    let second = exec.credential(Some(&first)).await.unwrap();
    assert_eq!(second, Credential::bearer("t2").unwrap());
    // Another request that was sent together with the first gets the new credential too.
    assert_eq!(exec.credential(Some(&first)).await.unwrap(), second);
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn a_plugin_runs_again_before_what_it_gave_expires() {
    let plugin = Plugin::new(&gives(
        r#""token": "t", "expirationTimestamp": "2001-01-01T00:00:00Z""#,
    ));
    let exec = plugin.exec();
    for run in 1..3 {
        exec.credential(None).await.unwrap();
        assert_eq!(plugin.runs(), run);
        exec.expire();
    }
    let now = SystemTime::now();
    for (expires, renewal) in [
        (3600, 3540),
        (600, 540),
        (30, 27),
        // A program that prints expired credentials does not run for each request.
        (5, 10),
        (0, 10),
    ] {
        let [expires, renewal] = [expires, renewal].map(|after| now + Duration::from_secs(after));
        assert_eq!(exec::renew_at(expires, now), renewal);
    }
    assert_eq!(
        exec::renew_at(SystemTime::UNIX_EPOCH, now),
        now + Duration::from_secs(10)
    );
}

use core::time::Duration;
use std::time::SystemTime;

#[tokio::test]
async fn a_plugin_gets_the_cluster() {
    let script = format!(
        "echo \"$KUBERNETES_EXEC_INFO\" >reported\n{}",
        gives(r#""token": "t""#)
    );
    let plugin = Plugin::new(&script);
    plugin.exec().credential(None).await.unwrap();
    let reported = fs::read_to_string(plugin.folder.path().join("reported")).unwrap();
    let reported: serde_json::Value = serde_json::from_str(&reported).unwrap();
    assert_eq!(
        reported,
        serde_json::json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "spec": {"interactive": false, "cluster": {"server": "https://10.0.0.1:6443", "config": null}},
        })
    );
}

#[tokio::test]
async fn a_plugin_may_give_a_certificate() {
    for (token, header) in [("", None), (r#""token": "t", "#, Some("Bearer t"))] {
        let plugin = Plugin::new(&gives(&format!(
            r#"{token}"clientCertificateData": "chain", "clientKeyData": "key""#,
        )));
        let credential = plugin.exec().credential(None).await.unwrap();
        assert!(credential.header().map(|header| header.as_bytes()) == header.map(str::as_bytes));
        let certificate = credential.certificate().unwrap();
        assert_eq!(
            (&*certificate.chain.0, &*certificate.key.0),
            (&b"chain"[..], &b"key"[..])
        );
    }
}

#[tokio::test]
async fn a_failed_plugin_is_reported_without_its_output() {
    for (script, expected) in [
        ("echo s3cret; exit 3", "failed: exit status: 3"),
        ("echo s3cret", "returned invalid JSON"),
        (
            "echo '{\"token\": \"s3cret\"}'",
            "did not return an ExecCredential of client.authentication.k8s.io/v1",
        ),
        (&gives(""), "returned neither a token nor a certificate"),
        (
            &gives(r#""token": "s3cret x""#),
            "returned an invalid token: it has characters",
        ),
        (&gives(r#""clientKeyData": "s3cret""#), "only one"),
        (
            &gives(r#""token": "s3cret", "expirationTimestamp": "soon""#),
            "the invalid expirationTimestamp \"soon\"",
        ),
    ] {
        let problem = Plugin::problem(script).await;
        assert!(
            problem.starts_with("the exec plugin \"sh\" ") && problem.contains(expected),
            "{problem}"
        );
    }
    let missing = ExecConfigYaml {
        command: "/nowhere/plugin".to_owned(),
        folder: String::new(),
    };
    let problem = missing
        .parsed()
        .credential(None)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        problem.contains("cannot be run: ") && problem.ends_with("Take it from there."),
        "{problem}"
    );
}

#[tokio::test]
async fn a_plugin_has_no_more_room_than_it_needs() {
    // It runs until it is killed.
    let problem = Plugin::problem("exec yes s3cret").await;
    assert!(
        problem.ends_with("returned more than 1048576 bytes"),
        "{problem}"
    );

    for (length, expected) in [(10, 10), (exec::MOST_MESSAGES, exec::MOST_MESSAGES)] {
        let length = usize::try_from(length).unwrap();
        let mut shown = Vec::new();
        exec::relay(&*vec![b'#'; length], &mut shown).await;
        assert_eq!(shown.len() as u64, expected);
    }
    let mut shown = Vec::new();
    exec::relay(&*vec![b'#'; 1 << 20], &mut shown).await;
    assert_eq!(
        shown.iter().filter(|byte| **byte == b'#').count() as u64,
        exec::MOST_MESSAGES
    );
    assert!(shown.ends_with(b"are discarded]\n"));
}

/// A plugin that never ends is killed when its limit passes, and when the transport is dropped.
#[cfg(unix)]
#[tokio::test]
async fn a_plugin_that_is_given_up_leaves_no_process() {
    for limit in [Some(Duration::from_millis(300)), None] {
        let plugin = Plugin::new("echo $$ >pid; exec sleep 1000");
        let login = Login::new(Arc::new(plugin.exec()), limit);
        let path = plugin.folder.path().join("pid");
        let started = async {
            let mut pid = String::new();
            while !pid.ends_with('\n') {
                tokio::time::sleep(Duration::from_millis(5)).await;
                pid = fs::read_to_string(&path).unwrap_or_default();
            }
            pid.trim().to_owned()
        };
        let pid = tokio::select! {
            pid = started => pid,
            given = login.credential(None) => unreachable!("{given:?}"),
        };
        match limit {
            Some(_) => {
                let error = login.credential(None).await.unwrap_err().to_string();
                assert_eq!(error, "it took longer than 300ms (login_timeout)");
            }
            None => drop(login),
        }
        let is_there = async || {
            let mut kill = tokio::process::Command::new("kill");
            kill.args(["-0", &pid]).stderr(std::process::Stdio::null());
            kill.status().await.unwrap().success()
        };
        // The runtime collects killed processes in the background.
        while is_there().await {}
    }
}

/// Whoever wrote the text could otherwise read files and run commands of the program.
#[test]
fn a_text_may_name_neither_files_nor_plugins() {
    let read = |cluster: &str, user: &str| Kubeconfig::from_text(&one(cluster, user))?.builder();
    let transport = read("insecure-skip-tls-verify: true", "token: t").unwrap();
    assert_eq!(transport.build().unwrap().url(), "https://10.0.0.1:6443");
    for (cluster, user, what) in [
        (
            "certificate-authority: /ca",
            "token: t",
            "certificate-authority",
        ),
        (
            "",
            "client-certificate: /c\nclient-key: /k",
            "client-certificate",
        ),
        ("", "tokenFile: /t", "tokenFile"),
        ("", "exec: { command: login }", "an exec plugin"),
    ] {
        let error = read(cluster, user).unwrap_err().to_string();
        let expected = format!("kubeconfig (text): it has {what}, and a text may name neither");
        assert!(error.starts_with(&expected), "{error}");
    }
    let error = Kubeconfig::from_text("[").unwrap_err().to_string();
    assert!(error.starts_with("kubeconfig (text): "), "{error}");
}
