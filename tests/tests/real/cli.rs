//! The example `watch` with a kubeconfig.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use informer_tests::real::{Outcome, Server, ensure};
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
    ensure(table_form.contains("default/item-00004"), &table_form)?;
    ensure(table_form.contains("5 objects"), &table_form)?;
    let named = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        event["event"] == "add" && event["key"] == definition
    };
    ensure(definitions.lines().any(named), &definitions)?;
    ensure(definitions_table.contains(definition), &definitions_table)?;
    Ok(())
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
