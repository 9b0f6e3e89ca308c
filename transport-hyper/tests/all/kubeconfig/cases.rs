//! Kubeconfig files, and the results of this crate and of `kubectl`.

/// The result of a kubeconfig.
pub(super) enum Expected {
    /// Both send this request to the server.
    Sees(&'static str),
    /// Both fail. Our error contains these words.
    Fails(&'static str),
    /// Only this crate fails: `kubectl` asks for a password, or uses another server.
    FailsHere(&'static str),
}
use Expected::{Fails, FailsHere, Sees};

pub(super) struct Case {
    pub(super) name: &'static str,
    /// The files of `KUBECONFIG` in order. `MISSING` is not written, and `FOLDER` is a folder.
    pub(super) files: Vec<String>,
    pub(super) expected: Expected,
}

pub(super) const MISSING: &str = "(missing)";
pub(super) const FOLDER: &str = "(folder)";

/// A file of one cluster, one user and one context, with these lines in the cluster and the user.
pub(super) fn one(server: &str, cluster: &str, user: &str) -> String {
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

pub(super) fn cases() -> Vec<Case> {
    let base = &one("{https}", "certificate-authority: ca.crt", "token: abc");
    let other = &base.replace("abc", "def");
    let exec = |more: &str| {
        format!("exec: {{apiVersion: client.authentication.k8s.io/v1, command: ./plugin, {more}}}")
    };
    let with_exec = |name, cluster: &str, more: &str, expected| {
        case(name, &[&one("{https}", cluster, &exec(more))], expected)
    };
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
            FailsHere("the cluster \"w\" does not exist"),
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
        // Formats of a file.
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
        // Missing entries.
        case(
            "no context",
            &[&base.replace("current-context: here", "")],
            FailsHere("no current context"),
        ),
        case(
            "an unknown context",
            &[&base.replace("current-context: here", "current-context: w")],
            Fails("the context \"w\" does not exist"),
        ),
        case(
            "an unknown cluster",
            &[&base.replace("cluster: c,", "cluster: w,")],
            FailsHere("the cluster \"w\" does not exist"),
        ),
        case(
            "an unknown user",
            &[&base.replace("user: u}", "user: w}")],
            FailsHere("the user \"w\" does not exist"),
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
            Fails("client key is missing"),
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
            Fails("becomes valid in"),
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
            "a plugin with provideClusterInfo",
            "certificate-authority: ca.crt",
            "interactiveMode: Never, provideClusterInfo: true",
            Sees(
                "/x; authorization: Bearer {\"spec\":{\"cluster\":{\"certificate-authority-data\":\"{ca.crt}\",\"config\":null,\"server\":\"{https}\"},\"interactive\":false}}",
            ),
        ),
        with_exec(
            "a plugin with provideClusterInfo and every field",
            "certificate-authority-data: {ca.crt}\ntls-server-name: 127.0.0.1\ndisable-compression: true\nextensions: [{name: client.authentication.k8s.io/exec, extension: {a: 1, b: [yes, 1.5, ~], 3: c}}]",
            "interactiveMode: Never, provideClusterInfo: true",
            Sees(
                "/x; authorization: Bearer {\"spec\":{\"cluster\":{\"certificate-authority-data\":\"{ca.crt}\",\"config\":{\"3\":\"c\",\"a\":1,\"b\":[true,1.5,null]},\"disable-compression\":true,\"server\":\"{https}\",\"tls-server-name\":\"127.0.0.1\"},\"interactive\":false}}",
            ),
        ),
    ]
}
