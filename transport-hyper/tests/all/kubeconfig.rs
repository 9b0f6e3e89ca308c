//! Kubeconfig files: a table of cases, checked against `kubectl` itself where `KUBECTL` names it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::std_instead_of_alloc,
    reason = "a test may"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use informer_core::{Get, Transport};
use informer_hyper::Kubeconfig;
use rcgen::{CertificateParams, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use crate::support::tls::{Ca, for_name};
use crate::support::{Server, read};

/// What a kubeconfig leads to.
enum Expected {
    /// The server sees this request, from both.
    Sees(&'static str),
    /// It is an error of both; ours has these words.
    Fails(&'static str),
    /// It is an error only here: `kubectl` asks for a password, or takes another server.
    FailsHere(&'static str),
}
use Expected::{Fails, FailsHere, Sees};

struct Case {
    name: &'static str,
    /// The files of `KUBECONFIG` in order. `MISSING` is not written, and `FOLDER` is a folder.
    files: Vec<String>,
    expected: Expected,
}

const MISSING: &str = "(missing)";
const FOLDER: &str = "(folder)";

/// A file of one cluster, one user and one context, with these lines in the cluster and the user.
fn one(server: &str, cluster: &str, user: &str) -> String {
    let indent = |lines: &str| -> String { lines.lines().map(|l| format!("    {l}\n")).collect() };
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         contexts:\n- name: here\n  context: {{cluster: c, user: u}}\n\
         clusters:\n- name: c\n  cluster:\n    server: {server}\n{}\
         users:\n- name: u\n  user:\n    unknown: [1]\n{}",
        indent(cluster),
        indent(user)
    )
}

fn case(name: &'static str, files: &[&str], expected: Expected) -> Case {
    let files = files.iter().map(|text| (*text).to_owned()).collect();
    Case {
        name,
        files,
        expected,
    }
}

fn user(name: &'static str, user: &str, expected: Expected) -> Case {
    case(
        name,
        &[&one("{https}", "certificate-authority: ca.crt", user)],
        expected,
    )
}

fn cluster(name: &'static str, cluster: &str, expected: Expected) -> Case {
    case(name, &[&one("{https}", cluster, "token: abc")], expected)
}

fn plain(name: &'static str, user: &str, expected: Expected) -> Case {
    case(name, &[&one("{http}", "", user)], expected)
}

const ABC: Expected = Sees("/x; authorization: Bearer abc");

fn cases() -> Vec<Case> {
    let base = &one("{https}", "certificate-authority: ca.crt", "token: abc");
    let other = &base.replace("abc", "def");
    let exec = |more: &str| {
        format!("exec: {{apiVersion: client.authentication.k8s.io/v1, command: ./plugin, {more}}}")
    };
    let with_exec = |name, cluster: &str, more: &str, expected| {
        case(name, &[&one("{https}", cluster, &exec(more))], expected)
    };
    let told = |json: &'static str| Sees(json);
    vec![
        // Several files.
        case("one file", &[base], ABC),
        case(
            "an empty current context comes first",
            &["current-context: ''", base],
            ABC,
        ),
        case(
            "a null current context comes first",
            &["current-context:", base],
            ABC,
        ),
        case(
            "the first user counts",
            &["users: [{name: u, user: {token: first}}]", base],
            Sees("/x; authorization: Bearer first"),
        ),
        case(
            "users are not mixed",
            &["users: [{name: u, user: {as: jane, username: me}}]", base],
            Sees("/x; authorization: Basic bWU6; impersonate-user: jane"),
        ),
        case(
            "the first cluster counts",
            &["clusters: [{name: c}]", base],
            FailsHere("the cluster \"c\" has no server"),
        ),
        case(
            "the first context counts",
            &["contexts: [{name: here, context: {cluster: w}}]", base],
            FailsHere("there is no cluster \"w\""),
        ),
        case("a file is missing", &[MISSING, base], ABC),
        case("a file is empty", &["", base], ABC),
        case("a file is a folder", &[base, FOLDER], Fails("directory")),
        case(
            "the first file is broken",
            &["users: [name: x", base],
            Fails("see line 1"),
        ),
        case(
            "the last file is broken",
            &[base, "users: [name: x"],
            Fails("see line 1"),
        ),
        // What a file may look like.
        case("a document marker", &[&format!("---\n{base}")], ABC),
        case("two documents", &[&format!("{base}---\n{other}")], ABC),
        case("a byte order mark", &[&format!("\u{feff}{base}")], ABC),
        case(
            "JSON with tabs",
            &[
                "{\"current-context\":\"here\",\n\t\"contexts\":[{\"name\":\"here\",\"context\":{\"cluster\":\"c\",\"user\":\"u\"}}],\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"{https}\",\"certificate-authority\":\"ca.crt\"}}],\"users\":[{\"name\":\"u\",\"user\":{\"token\":\"abc\"}}]}",
            ],
            ABC,
        ),
        case(
            "no kind",
            &[&base
                .replace("kind: Config\n", "")
                .replace("apiVersion: v1\n", "")],
            ABC,
        ),
        case(
            "another kind",
            &[&base.replace("kind: Config", "kind: Pod")],
            Fails("its kind is \"Pod\""),
        ),
        case(
            "another version",
            &[&base.replace("apiVersion: v1", "apiVersion: v2")],
            Fails("its apiVersion is \"v2\""),
        ),
        case(
            "a list is a map",
            &[
                &format!("{base}extensions: []\n")
                    .replace("users:\n- name: u", "users:\n  name: u"),
            ],
            Fails("users is not a list"),
        ),
        case(
            "two users of one name",
            &[&format!("{base}- name: u\n  user: {{token: def}}\n")],
            Fails("two entries"),
        ),
        user(
            "a key twice",
            "token: abc\ntoken: def",
            Sees("/x; authorization: Bearer def"),
        ),
        user(
            "an anchor",
            "token: &t abc\nas: *t",
            Sees("/x; authorization: Bearer abc; impersonate-user: abc"),
        ),
        user(
            "a merge key",
            "<<: {token: abc}\nas: jane",
            Sees("/x; authorization: Bearer abc; impersonate-user: jane"),
        ),
        // What is not there.
        case(
            "no context",
            &[&base.replace("current-context: here", "")],
            FailsHere("no current context"),
        ),
        case(
            "an unknown context",
            &[&base.replace("current-context: here", "current-context: w")],
            Fails("there is no context \"w\""),
        ),
        case(
            "an unknown cluster",
            &[&base.replace("cluster: c,", "cluster: w,")],
            FailsHere("there is no cluster \"w\""),
        ),
        case(
            "an unknown user",
            &[&base.replace("user: u}", "user: w}")],
            FailsHere("there is no user \"w\""),
        ),
        case(
            "no server",
            &[&one("''", "", "token: abc")],
            FailsHere("has no server"),
        ),
        case(
            "a server without a scheme",
            &[&one("{host}", "", "token: abc")],
            FailsHere("no scheme"),
        ),
        case(
            "a server with a path",
            &[&one(
                "{https}/p/",
                "certificate-authority: ca.crt",
                "token: abc",
            )],
            Sees("/p/x; authorization: Bearer abc"),
        ),
        // Users.
        user("a number", "token: 123", Fails("token is not text")),
        user("a boolean", "token: yes", Fails("token is not text")),
        user(
            "a hexadecimal number",
            "token: 0x1f",
            Fails("token is not text"),
        ),
        user("a float", "token: 1e3", Fails("token is not text")),
        user(
            "a number in quotes",
            "token: '123'",
            Sees("/x; authorization: Bearer 123"),
        ),
        user(
            "a number that is tagged",
            "token: !!str 123",
            Sees("/x; authorization: Bearer 123"),
        ),
        user(
            "a date",
            "token: 2001-01-01",
            Sees("/x; authorization: Bearer 2001-01-01"),
        ),
        user(
            "a user name",
            "username: me\npassword: pw",
            Sees("/x; authorization: Basic bWU6cHc="),
        ),
        user(
            "no password",
            "username: me",
            Sees("/x; authorization: Basic bWU6"),
        ),
        user(
            "a token and a user name",
            "token: abc\nusername: me",
            Fails("both a token and a user name"),
        ),
        user(
            "a token file",
            "tokenFile: token",
            Sees("/x; authorization: Bearer fromfile"),
        ),
        user(
            "a token file and a token",
            "token: abc\ntokenFile: token",
            Sees("/x; authorization: Bearer fromfile"),
        ),
        user(
            "a token and no token file",
            "token: abc\ntokenFile: /no/file",
            ABC,
        ),
        user(
            "no token file",
            "tokenFile: /no/file",
            Fails("cannot read the token file /no/file"),
        ),
        user(
            "a certificate",
            "client-certificate: client.crt\nclient-key: client.key",
            Sees("/x; certificate"),
        ),
        user(
            "a certificate inline",
            "client-certificate-data: {client.crt}\nclient-key-data: {client.key}",
            Sees("/x; certificate"),
        ),
        user(
            "a certificate without a key",
            "client-certificate: client.crt",
            Fails("one is missing"),
        ),
        user(
            "a certificate twice",
            "client-certificate: client.crt\nclient-certificate-data: {client.crt}\nclient-key: client.key",
            Fails("both given"),
        ),
        user(
            "an auth provider",
            "auth-provider: {name: gcp}",
            Fails("auth provider \"gcp\""),
        ),
        // Impersonation.
        user(
            "impersonation",
            "token: abc\nas: jane\nas-uid: '7'\nas-groups: [b, a]",
            Sees(
                "/x; authorization: Bearer abc; impersonate-group: a; impersonate-group: b; impersonate-uid: 7; impersonate-user: jane",
            ),
        ),
        user(
            "extra fields",
            "token: abc\nas: jane\nas-user-extra:\n  example.com/team%: [a, b]\n  'sp ace:é': [d]",
            Sees(
                "/x; authorization: Bearer abc; impersonate-extra-example.com%2fteam%25: a; impersonate-extra-example.com%2fteam%25: b; impersonate-extra-sp%20ace%3a%c3%a9: d; impersonate-user: jane",
            ),
        ),
        user(
            "empty impersonation",
            "token: abc\nas: ''\nas-uid: ''\nas-groups: []",
            ABC,
        ),
        user(
            "groups without a user",
            "token: abc\nas-groups: [a]",
            Fails("need `as`"),
        ),
        // Without TLS a user's credentials are not sent.
        plain("a token in plain text", "token: abc", Sees("/x")),
        plain(
            "impersonation in plain text",
            "token: abc\nas: jane",
            Sees("/x; impersonate-user: jane"),
        ),
        plain(
            "a certificate in plain text",
            "client-certificate: client.crt\nclient-key: client.key",
            Sees("/x"),
        ),
        plain(
            "a plugin in plain text",
            &exec("interactiveMode: Never"),
            Sees("/x"),
        ),
        // Clusters.
        cluster(
            "a CA in lines",
            "certificate-authority-data: |\n{ca.crt lines}",
            ABC,
        ),
        cluster(
            "a CA in words",
            "certificate-authority-data: >-\n{ca.crt lines}",
            Fails("certificate-authority-data is not base64"),
        ),
        cluster(
            "a CA twice",
            "certificate-authority: ca.crt\ncertificate-authority-data: {ca.crt}",
            Fails("both given"),
        ),
        cluster(
            "no CA file",
            "certificate-authority: nowhere",
            Fails("cannot read"),
        ),
        cluster(
            "a CA and none",
            "certificate-authority: ca.crt\ninsecure-skip-tls-verify: true",
            Fails("insecure_skip_tls_verify"),
        ),
        cluster("no verification", "insecure-skip-tls-verify: yes", ABC),
        cluster(
            "no verification as text",
            "insecure-skip-tls-verify: 'true'",
            Fails("neither true nor false"),
        ),
        cluster(
            "another name",
            "certificate-authority: ca.crt\ntls-server-name: other",
            Fails("not valid for the name \"other\""),
        ),
        cluster(
            "a proxy of another kind",
            "certificate-authority: ca.crt\nproxy-url: ftp://x",
            Fails("proxy"),
        ),
        cluster(
            "a bundle with a certificate that is none first",
            "certificate-authority: bad+ca.crt",
            ABC,
        ),
        cluster(
            "a bundle with a certificate that is none last",
            "certificate-authority: ca+bad.crt",
            ABC,
        ),
        cluster(
            "a bundle with wrong base64",
            "certificate-authority: base64+ca.crt",
            ABC,
        ),
        cluster(
            "a bundle with an expired CA",
            "certificate-authority: expired+ca.crt",
            ABC,
        ),
        cluster(
            "an expired CA",
            "certificate-authority: expired.crt",
            Fails("expired"),
        ),
        cluster(
            "a CA that is not valid yet",
            "certificate-authority: future.crt",
            Fails("valid only in"),
        ),
        cluster(
            "a bundle without a certificate that is one",
            "certificate-authority: bad.crt",
            Fails("root certificates"),
        ),
        // Plugins.
        user(
            "a plugin",
            &exec("interactiveMode: Never"),
            Sees("/x; authorization: Bearer {\"spec\":{\"interactive\":false}}"),
        ),
        user(
            "a plugin and a token",
            &format!("token: abc\n{}", exec("interactiveMode: Never")),
            ABC,
        ),
        user(
            "a plugin without a mode",
            &exec("args: []"),
            Fails("its interactiveMode \"\""),
        ),
        user(
            "a plugin with a wrong mode",
            &exec("interactiveMode: Foo"),
            Fails("its interactiveMode \"Foo\""),
        ),
        user(
            "a plugin with a variable without a name",
            &exec("interactiveMode: Never, env: [{value: x}]"),
            Fails("has no name"),
        ),
        with_exec(
            "a plugin that is told of the cluster",
            "certificate-authority: ca.crt",
            "interactiveMode: Never, provideClusterInfo: true",
            told(
                "/x; authorization: Bearer {\"spec\":{\"cluster\":{\"certificate-authority-data\":\"{ca.crt}\",\"config\":null,\"server\":\"{https}\"},\"interactive\":false}}",
            ),
        ),
        with_exec(
            "a plugin that is told all of the cluster",
            "certificate-authority-data: {ca.crt}\ntls-server-name: 127.0.0.1\ndisable-compression: true\nextensions: [{name: client.authentication.k8s.io/exec, extension: {a: 1, b: [yes, 1.5, ~], 3: c}}]",
            "interactiveMode: Never, provideClusterInfo: true",
            told(
                "/x; authorization: Bearer {\"spec\":{\"cluster\":{\"certificate-authority-data\":\"{ca.crt}\",\"config\":{\"3\":\"c\",\"a\":1,\"b\":[true,1.5,null]},\"disable-compression\":true,\"server\":\"{https}\",\"tls-server-name\":\"127.0.0.1\"},\"interactive\":false}}",
            ),
        ),
    ]
}

/// The servers and the files that the cases name.
struct Place {
    folder: tempfile::TempDir,
    https: String,
    http: String,
}

impl Place {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let (ca, expired, future) = (
            Ca::valid(&key, 2020, 4000),
            Ca::valid(&key, 2020, 2021),
            Ca::valid(&key, 3000, 4000),
        );
        let (client, client_key) = ca.sign(&CertificateParams::new([]).unwrap());
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let base64 = "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n";
        let pem = ca.certificate.pem();
        // A plugin gives what it was told as a token: as hexadecimal digits.
        let plugin = "#!/bin/sh\ntoken=$(printf %s \"$KUBERNETES_EXEC_INFO\" | od -An -v -tx1 | tr -d ' \\n')\n\
             printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s\"}}' \"$token\"\n";
        for (name, text) in [
            ("ca.crt", pem.clone()),
            ("expired.crt", expired.certificate.pem()),
            ("future.crt", future.certificate.pem()),
            ("bad.crt", bad.to_owned()),
            ("bad+ca.crt", format!("{bad}{pem}")),
            ("ca+bad.crt", format!("{pem}{bad}")),
            ("base64+ca.crt", format!("{base64}{pem}")),
            (
                "expired+ca.crt",
                format!("{}{pem}", expired.certificate.pem()),
            ),
            ("client.crt", client.pem()),
            ("client.key", client_key.serialize_pem()),
            ("token", "fromfile\n".to_owned()),
            ("plugin", plugin.to_owned()),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(folder.path().join("plugin"), mode).unwrap();
        }
        let (https, http) = (Server::start().await, Server::start().await);
        let place = Self {
            folder,
            https: format!("https://127.0.0.1:{}", https.port),
            http: format!("http://127.0.0.1:{}", http.port),
        };
        let acceptor = TlsAcceptor::from(Arc::new(server_config(&ca)));
        tokio::spawn(async move {
            loop {
                let (tcp, acceptor) = (https.accept_tcp().await, acceptor.clone());
                tokio::spawn(async move {
                    if let Ok(tls) = acceptor.accept(tcp).await {
                        let has_certificate = tls.get_ref().1.peer_certificates().is_some();
                        show(tls, has_certificate).await;
                    }
                });
            }
        });
        tokio::spawn(async move {
            loop {
                tokio::spawn(show(http.accept_tcp().await, false));
            }
        });
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Fills in addresses and base64.
    fn fill(&self, text: &str) -> String {
        let mut text = text
            .replace("{https}", &self.https)
            .replace("{http}", &self.http)
            .replace("{host}", self.http.trim_start_matches("http://"));
        for name in ["ca.crt", "client.crt", "client.key"] {
            let data = BASE64_STANDARD.encode(fs::read(self.path(name)).unwrap());
            let lines = data.as_bytes().chunks(64);
            let lines: Vec<_> = lines
                .map(|l| format!("      {}", String::from_utf8_lossy(l)))
                .collect();
            text = text
                .replace(&format!("    {{{name} lines}}"), &lines.join("\n"))
                .replace(&format!("{{{name}}}"), &data);
        }
        text
    }

    fn files(&self, case: &Case) -> Vec<PathBuf> {
        let files = case.files.iter().enumerate().map(|(number, text)| {
            let path = self.path(&format!("config{number}"));
            let _ = fs::remove_file(&path);
            match text.as_str() {
                MISSING => {}
                FOLDER => return self.folder.path().to_owned(),
                text => fs::write(&path, self.fill(text)).unwrap(),
            }
            path
        });
        files.collect()
    }
}

fn server_config(ca: &Ca) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca.certificate.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .unwrap();
    let (certificate, key) = ca.sign(&for_name("127.0.0.1"));
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap()
}

/// Answers a request with what it says of the client.
async fn show(mut stream: impl AsyncRead + AsyncWrite + Unpin, has_certificate: bool) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let mut seen: Vec<String> = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .filter(|(name, _)| name == "authorization" || name.starts_with("impersonate-"))
        .map(|(name, value)| format!("; {name}: {value}"))
        .collect();
    seen.sort();
    if has_certificate {
        seen.push("; certificate".to_owned());
    }
    let path = head.split(' ').nth(1).unwrap();
    let body = format!("{path}{}", seen.concat());
    let answer = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Turns what a plugin was told, which is the token, into JSON with sorted keys.
fn readable(seen: &str) -> String {
    let Some((before, token)) = seen.split_once("Bearer 7b") else {
        return seen.to_owned();
    };
    let digits = format!("7b{token}");
    let bytes = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap());
    let mut told: serde_json::Value = serde_json::from_slice(&bytes.collect::<Vec<_>>()).unwrap();
    let told = told.as_object_mut().unwrap();
    assert_eq!(told.remove("kind").unwrap(), "ExecCredential");
    told.remove("apiVersion").unwrap();
    format!("{before}Bearer {}", serde_json::Value::from(told.clone()))
}

async fn ours(files: &[PathBuf]) -> Result<String, String> {
    let line = |error: informer_hyper::BuildError| error.to_string();
    let config = Kubeconfig::from_files(files).map_err(line)?;
    let builder = config.ok_or("there is none")?.builder().map_err(line)?;
    let mut transport = builder.build().map_err(line)?;
    let answer = transport.send(Get::new("/x")).await;
    let seen = read(answer).await.map_err(|error| error.to_string())?;
    Ok(readable(&seen))
}

async fn kubectls(kubectl: &Path, files: &[PathBuf], home: &Path) -> Option<String> {
    let output = tokio::process::Command::new(kubectl)
        .args(["get", "--raw", "/x"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("KUBECONFIG", std::env::join_paths(files).unwrap())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let seen = String::from_utf8(output.stdout).unwrap();
    output.status.success().then(|| readable(seen.trim()))
}

#[tokio::test]
async fn every_case_of_the_table() {
    let place = Place::new().await;
    let kubectl = std::env::var_os("KUBECTL").map(PathBuf::from);
    if kubectl.is_none() {
        eprintln!("SKIPPED: the comparison with kubectl, for KUBECTL does not name it");
    }
    let mut wrong = Vec::new();
    for case in cases() {
        let files = place.files(&case);
        let seen = ours(&files).await;
        let is_right = match (&case.expected, &seen) {
            (Sees(expected), Ok(seen)) => place.fill(expected) == *seen,
            (Fails(words) | FailsHere(words), Err(error)) => {
                error.contains(words) && !error.contains('\n')
            }
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{}: {seen:?}", case.name));
        }
        if let Some(kubectl) = &kubectl {
            let theirs = kubectls(kubectl, &files, place.folder.path()).await;
            let is_right = match &case.expected {
                Sees(expected) => theirs == Some(place.fill(expected)),
                Fails(_) => theirs.is_none(),
                FailsHere(_) => true,
            };
            if !is_right {
                wrong.push(format!("{}: kubectl: {theirs:?}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A shell gives a file as a pipe: `KUBECONFIG=<(decrypt config)`.
#[cfg(unix)]
#[tokio::test]
async fn a_kubeconfig_may_be_a_pipe() {
    let place = Place::new().await;
    let text = place.fill(&one("{http}", "", "as: jane"));
    let pipe = place.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let writing = pipe.clone();
    let writer = tokio::task::spawn_blocking(move || fs::write(writing, text));
    let reading = tokio::task::spawn_blocking(move || Kubeconfig::from_files([&pipe, &pipe]));
    let config = reading.await.unwrap().unwrap().unwrap();
    writer.await.unwrap().unwrap();
    let mut transport = config.builder().unwrap().build().unwrap();
    let seen = read(transport.send(Get::new("/x")).await).await.unwrap();
    assert_eq!(seen, "/x; impersonate-user: jane");
}
