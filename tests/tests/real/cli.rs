//! The example `watch` with a kubeconfig.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use informer_tests::real::{Kubectl, Outcome, Server, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::Context;

/// The objects of a custom resource, and the definitions, in both output forms.
pub(crate) async fn watches_by_kubeconfig(context: Context) -> Outcome {
    let table = context.custom("shown").await?;
    table.create_many("item", 5).await?;
    let kubeconfig = context.kubeconfig.display().to_string();
    let plural = table
        .definition()
        .split('.')
        .next()
        .unwrap_or_default()
        .to_owned();
    let resource = format!("{plural}.v1.informer.test");
    let (short, definition) = (format!("s{plural}"), table.definition());
    let watch = async |resource: &str, output: &str| {
        let arguments = [
            "--kubeconfig",
            &kubeconfig,
            resource,
            "--output",
            output,
            "--seconds",
            "4",
        ];
        let output = run(&arguments).await?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure(
            output.status.success(),
            format_args!("{arguments:?}: {}\n{errors}", output.status),
        )?;
        Ok::<_, informer_tests::real::Error>(String::from_utf8(output.stdout)?)
    };
    let (json, table_form, definitions, definitions_table) = tokio::try_join!(
        watch(&resource, "json"),
        watch(&resource, "table"),
        watch("customresourcedefinitions", "json"),
        watch("customresourcedefinitions", "table"),
    )?;
    let mut as_json = vec![json];
    // The server for custom resources does not list its groups; a complete cluster does, and there short names work.
    let (discovery, _) = context
        .cluster
        .request(http::Method::GET, "/apis", None)
        .await?;
    if discovery == 200 {
        as_json.push(watch(&short, "json").await?);
    }
    for text in &as_json {
        let events = text
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<Vec<Value>, _>>()?;
        let adds = events
            .iter()
            .filter(|event| event["event"] == "add" && event["initial"] == true);
        ensure(adds.count() == 5, text)?;
        ensure(events.iter().any(|event| event["event"] == "synced"), text)?;
    }
    ensure(table_form.contains("default    item-00004"), &table_form)?;
    ensure(table_form.contains("5 objects"), &table_form)?;
    let named = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        event["event"] == "add" && event["key"] == definition
    };
    ensure(definitions.lines().any(named), &definitions)?;
    ensure(definitions_table.contains(definition), &definitions_table)?;
    Ok(())
}

/// The table of `watch` has the rows of `kubectl get`: of built-in resources, and of custom ones with and without columns.
pub(crate) async fn shows_the_columns_of_kubectl(context: Context) -> Outcome {
    let kubectl = context.kubectl()?;
    kubectl
        .apply(include_str!("../../fixtures/columns/definitions.yaml"))
        .await?;
    let definitions = ["crd/shops.columns.test", "crd/plains.columns.test"];
    for definition in definitions {
        let wait = ["wait", "--for=condition=Established", "--timeout=60s"];
        kubectl.run(&[&wait[..], &[definition]].concat()).await?;
    }
    kubectl
        .apply(include_str!("../../fixtures/columns/objects.yaml"))
        .await?;
    let status = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/columns/status.yaml");
    kubectl
        .run(&[
            "apply",
            "--server-side",
            "--force-conflicts",
            "--subresource=status",
            "-f",
            status,
        ])
        .await?;
    let held = ["pod/deleted", "pod/lost"];
    kubectl
        .run(&[&["-n", "columns", "delete", "--wait=false"], &held[..]].concat())
        .await?;

    let of_namespace = [
        "pods",
        "services",
        "configmaps",
        "secrets",
        "serviceaccounts",
        "persistentvolumeclaims",
        "events",
        "events.events.k8s.io",
        "deployments",
        "replicasets",
        "statefulsets",
        "daemonsets",
        "jobs",
        "cronjobs",
        "leases",
        "shops",
    ];
    let others = [
        "nodes/columns",
        "namespaces/columns",
        "plains/columns",
        definitions[0],
    ];
    for resource in of_namespace {
        agree(&context, &kubectl, &["-n", "columns", resource]).await?;
    }
    for object in others {
        agree(&context, &kubectl, &[object]).await?;
    }

    let release = r#"{"metadata":{"finalizers":null}}"#;
    // No controller of this cluster removes those of claims.
    for object in held.into_iter().chain(["pvc/pending", "pvc/bound"]) {
        let arguments = [
            "-n",
            "columns",
            "patch",
            object,
            "--type=merge",
            "-p",
            release,
        ];
        kubectl.run(&arguments).await?;
    }
    // Another test compares all objects of the cluster, and controllers work on these.
    let gone = ["namespace/columns", "node/columns"];
    kubectl
        .run(&[&["delete", "--timeout=60s"], &gone[..], &definitions[..]].concat())
        .await?;
    Ok(())
}

/// Waits until `watch` and `kubectl get` print the same rows. Controllers may work between the two.
async fn agree(context: &Context, kubectl: &Kubectl, what: &[&str]) -> Outcome {
    let kubeconfig = context.kubeconfig.display().to_string();
    let arguments = [&["--seconds", "1", "--kubeconfig", &kubeconfig], what].concat();
    let mut last = String::new();
    for _ in 0..20 {
        let theirs = kubectl.run(&[&["get"], what].concat()).await?;
        let output = run(&arguments).await?;
        let (ours, errors) = (String::from_utf8(output.stdout)?, output.stderr);
        let first_rows = |line: &&str| line.starts_with(['+', ' ']) && !line.contains("+ added");
        let ours = rows(ours.lines().filter(first_rows).map(|line| &line[2..]));
        let theirs = rows(theirs.lines());
        if ours == theirs && ours.len() > 1 {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&errors);
        last = format!("{what:?}: kubectl: {theirs:#?}\nwatch: {ours:#?}\n{errors}");
    }
    Err(last.into())
}

/// Returns the words of each row, in an order that does not depend on the program. Ages grow from one to the other.
fn rows<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let word = |word: &str| {
        let is_age = word.starts_with(|c: char| c.is_ascii_digit())
            && word.ends_with(['s', 'm', 'h', 'd'])
            && word
                .chars()
                .all(|c| c.is_ascii_digit() || "smhdy".contains(c));
        if is_age {
            "AGO".to_owned()
        } else {
            word.to_owned()
        }
    };
    let row = |line: &str| {
        let line = line.replace('(', "( ");
        let words: Vec<String> = line.split_whitespace().map(word).collect();
        words.join(" ")
    };
    let mut rows: Vec<String> = lines.map(row).collect();
    rows.sort();
    rows
}

/// Errors of connections and credentials are one-line messages, each specific to the cause.
pub(crate) async fn names_the_cause_of_a_failure(context: Context) -> Outcome {
    let server = context.server()?;
    // A CA that signed nothing here.
    let wrong_ca = tempfile("wrong-ca.crt");
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=other-ca",
            "-days",
            "1",
            "-keyout",
            "/dev/null",
            "-out",
        ])
        .arg(&wrong_ca)
        .output()
        .await?;
    ensure(made.status.success(), "openssl makes no certificate")?;
    let ca = server.pki().join("ca.crt");
    let address = context.cluster.address().await?;
    let url = format!("https://{address}");
    // This port was free a moment ago.
    let closed = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let admin = admin(&server);
    let token = "{token: nobody-knows-it}".to_owned();
    let case = |name, server: &str, ca: &Path, more, user: &str, words: &'static [&str]| {
        let text = kubeconfig_text(server, ca, more, user);
        (name, text, words)
    };
    let elsewhere = format!("https://{closed}");
    let (past, other) = (
        "tls-server-name: expired.informer.test",
        "tls-server-name: wrong.informer.test",
    );
    let cases: [(&str, String, &[&str]); 5] = [
        case(
            "wrong-ca",
            &url,
            &wrong_ca,
            "",
            &admin,
            &["certificate", "unknown ca"],
        ),
        case("expired", &url, &ca, past, &admin, &["expired"]),
        case(
            "name",
            &url,
            &ca,
            other,
            &admin,
            &["wrong.informer.test", "name"],
        ),
        case("token", &url, &ca, "", &token, &["401", "unauthorized"]),
        case("port", &elsewhere, &ca, "", &admin, &["refused"]),
    ];
    for (name, text, words) in cases {
        let kubeconfig = tempfile(&format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, text)?;
        let file = kubeconfig.display().to_string();
        let resource = "customresourcedefinitions";
        let output = run(&[
            "--kubeconfig",
            &file,
            resource,
            "--output",
            "json",
            "--seconds",
            "20",
        ])
        .await?;
        let errors = String::from_utf8(output.stderr)?;
        let lines: Vec<&str> = errors
            .lines()
            .filter(|line| line.starts_with("error: "))
            .collect();
        ensure(
            !output.status.success(),
            format_args!("{name}: it did not fail\n{errors}"),
        )?;
        let [line] = lines.as_slice() else {
            return Err(format!("{name}: not one line says what is wrong:\n{errors}").into());
        };
        informer_tests::say(&format!("{name}: {line}"));
        for word in words {
            let says = line.to_lowercase().contains(word);
            ensure(says, format_args!("{name}: {line:?} has no {word:?}"))?;
        }
        ensure(!line.contains("nobody-knows-it"), "the token is shown")?;
        std::fs::remove_file(&kubeconfig)?;
    }
    std::fs::remove_file(&wrong_ca)?;
    Ok(())
}

fn admin(server: &Server) -> String {
    let pki = server.pki();
    format!(
        "{{client-certificate: {}, client-key: {}}}",
        pki.join("admin.crt").display(),
        pki.join("admin.key").display()
    )
}

fn kubeconfig_text(server: &str, ca: &Path, more: &str, user: &str) -> String {
    let more = if more.is_empty() {
        String::new()
    } else {
        format!(", {more}")
    };
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters: [{{name: test, cluster: {{server: \"{server}\", certificate-authority: {}{more}}}}}]\n\
         users: [{{name: test, user: {user}}}]\n\
         contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n",
        ca.display()
    )
}

fn tempfile(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("informer-test-{}-{name}", std::process::id()))
}

async fn run(arguments: &[&str]) -> Outcome<Output> {
    let running = Command::new(informer_tests::example("watch"))
        .args(arguments)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(60), running).await;
    Ok(output.map_err(|_| format!("{arguments:?}: it does not end"))??)
}
