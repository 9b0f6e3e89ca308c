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

pub(super) fn cases() -> Vec<Case> {
    let base = &one("{https}", "certificate-authority: ca.crt", "token: abc");
    let other = &base.replace("abc", "def");
    let mut cases = Vec::new();
    for line in TABLE.trim().lines() {
        let cells: Vec<&str> = line.split(" ;; ").map(str::trim).collect();
        let [kind, name, text, expected] = cells[..] else {
            panic!("{line}");
        };
        let (verb, words) = expected.split_once(' ').expect("a verb and words");
        let expected = match verb {
            "Sees" => Sees(words),
            "Fails" => Fails(words),
            _ => FailsHere(words),
        };
        let text = text
            .replace("\\n", "\n")
            .replace("\\u{feff}", "\u{feff}")
            .replace("(empty)", "")
            .replace("{base}", base)
            .replace("{other}", other)
            .replace("{plugin}", PLUGIN);
        let (first, second) = text.split_once("=>").unwrap_or((&text, ""));
        let in_tls = |user: &str| one("{https}", "certificate-authority: ca.crt", user);
        let files = match kind {
            "files" => text.split(" ++ ").map(ToOwned::to_owned).collect(),
            "edit" => vec![base.replace(first, second)],
            "server" => vec![one(first, second, "token: abc")],
            "cluster" => vec![one("{https}", &text, "token: abc")],
            "plugin" => {
                let user = format!("exec: {{{PLUGIN}, {second}}}");
                vec![one("{https}", first, &user)]
            }
            "plain" => vec![one("{http}", "", &text)],
            _ => vec![in_tls(&text)],
        };
        cases.push(Case {
            name,
            files,
            expected,
        });
    }
    cases
}

const PLUGIN: &str = "apiVersion: client.authentication.k8s.io/v1, command: ./plugin";

/// What there is, and what it leads to: `files` in order; an `edit` of a file that is right; a `server` and what is in its
/// cluster; a `user` over TLS, or in `plain` text; a `cluster`; a cluster and a `plugin`.
const TABLE: &str = r#"
files   ;; one file ;; {base} ;; Sees /x; authorization: Bearer abc
files   ;; an empty current context comes first ;; current-context: '' ++ {base} ;; Sees /x; authorization: Bearer abc
files   ;; a null current context comes first ;; current-context: ++ {base} ;; Sees /x; authorization: Bearer abc
files   ;; the first user counts ;; users: [{name: u, user: {token: first}}] ++ {base} ;; Sees /x; authorization: Bearer first
files   ;; users are not mixed ;; users: [{name: u, user: {as: jane, username: me}}] ++ {base} ;; Sees /x; authorization: Basic bWU6; impersonate-user: jane
files   ;; the first cluster counts ;; clusters: [{name: c}] ++ {base} ;; FailsHere the cluster "c" has no server
files   ;; the first context counts ;; contexts: [{name: here, context: {cluster: w}}] ++ {base} ;; FailsHere the cluster "w" does not exist
files   ;; a file is missing ;; (missing) ++ {base} ;; Sees /x; authorization: Bearer abc
files   ;; a file is empty ;; (empty) ++ {base} ;; Sees /x; authorization: Bearer abc
files   ;; a file is a folder ;; {base} ++ (folder) ;; Fails directory
files   ;; the first file is broken ;; users: [name: x ++ {base} ;; Fails see line 1
files   ;; the last file is broken ;; {base} ++ users: [name: x ;; Fails see line 1
files   ;; a document marker ;; ---\n{base} ;; Sees /x; authorization: Bearer abc
files   ;; two documents ;; {base}---\n{other} ;; Sees /x; authorization: Bearer abc
files   ;; a byte order mark ;; \u{feff}{base} ;; Sees /x; authorization: Bearer abc
files   ;; JSON with tabs ;; {"current-context":"here",\n	"contexts":[{"name":"here","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":"{https}","certificate-authority":"ca.crt"}}],"users":[{"name":"u","user":{"token":"abc"}}]} ;; Sees /x; authorization: Bearer abc
edit    ;; no kind ;; apiVersion: v1\nkind: Config\n=> ;; Sees /x; authorization: Bearer abc
edit    ;; another kind ;; kind: Config=>kind: Pod ;; Fails its kind is "Pod"
edit    ;; another version ;; apiVersion: v1=>apiVersion: v2 ;; Fails its apiVersion is "v2"
edit    ;; a list is a map ;; users:\n- name: u=>extensions: []\nusers:\n  name: u ;; Fails users is not a list
files   ;; two users of one name ;; {base}- name: u\n  user: {token: def}\n ;; Fails two entries
edit    ;; no context ;; current-context: here=> ;; FailsHere no current context
edit    ;; an unknown context ;; current-context: here=>current-context: w ;; Fails the context "w" does not exist
edit    ;; an unknown cluster ;; cluster: c,=>cluster: w, ;; FailsHere the cluster "w" does not exist
edit    ;; an unknown user ;; user: u}=>user: w} ;; FailsHere the user "w" does not exist
server  ;; no server ;; ''=> ;; FailsHere has no server
server  ;; a server without a scheme ;; {host}=> ;; FailsHere no scheme
server  ;; a server with a path ;; {https}/p/=>certificate-authority: ca.crt ;; Sees /p/x; authorization: Bearer abc
plain   ;; a plugin in plain text ;; exec: {{plugin}, interactiveMode: Never} ;; Sees /x
user    ;; a plugin ;; exec: {{plugin}, interactiveMode: Never} ;; Sees /x; authorization: Bearer {"spec":{"interactive":false}}
user    ;; a plugin and a token ;; token: abc\nexec: {{plugin}, interactiveMode: Never} ;; Sees /x; authorization: Bearer abc
user    ;; a plugin without a mode ;; exec: {{plugin}, args: []} ;; Fails its interactiveMode ""
user    ;; a plugin with a wrong mode ;; exec: {{plugin}, interactiveMode: Foo} ;; Fails its interactiveMode "Foo"
user    ;; a plugin with a variable without a name ;; exec: {{plugin}, interactiveMode: Never, env: [{value: x}]} ;; Fails has no name
plugin  ;; a plugin with provideClusterInfo ;; certificate-authority: ca.crt=>interactiveMode: Never, provideClusterInfo: true ;; Sees /x; authorization: Bearer {"spec":{"cluster":{"certificate-authority-data":"{ca.crt}","config":null,"server":"{https}"},"interactive":false}}
plugin  ;; a plugin with provideClusterInfo and every field ;; certificate-authority-data: {ca.crt}\ntls-server-name: 127.0.0.1\ndisable-compression: true\nextensions: [{name: client.authentication.k8s.io/exec, extension: {a: 1, b: [yes, 1.5, ~], 3: c}}]=>interactiveMode: Never, provideClusterInfo: true ;; Sees /x; authorization: Bearer {"spec":{"cluster":{"certificate-authority-data":"{ca.crt}","config":{"3":"c","a":1,"b":[true,1.5,null]},"disable-compression":true,"server":"{https}","tls-server-name":"127.0.0.1"},"interactive":false}}
user    ;; a key twice ;; token: abc\ntoken: def ;; Sees /x; authorization: Bearer def
user    ;; an anchor ;; token: &t abc\nas: *t ;; Sees /x; authorization: Bearer abc; impersonate-user: abc
user    ;; a merge key ;; <<: {token: abc}\nas: jane ;; Sees /x; authorization: Bearer abc; impersonate-user: jane
user    ;; a number ;; token: 123 ;; Fails token is not text
user    ;; a boolean ;; token: yes ;; Fails token is not text
user    ;; a hexadecimal number ;; token: 0x1f ;; Fails token is not text
user    ;; a float ;; token: 1e3 ;; Fails token is not text
user    ;; a number in quotes ;; token: '123' ;; Sees /x; authorization: Bearer 123
user    ;; a number that is tagged ;; token: !!str 123 ;; Sees /x; authorization: Bearer 123
user    ;; a date ;; token: 2001-01-01 ;; Sees /x; authorization: Bearer 2001-01-01
user    ;; a user name ;; username: me\npassword: pw ;; Sees /x; authorization: Basic bWU6cHc=
user    ;; no password ;; username: me ;; Sees /x; authorization: Basic bWU6
user    ;; a token and a user name ;; token: abc\nusername: me ;; Fails both a token and a user name
user    ;; a token file ;; tokenFile: token ;; Sees /x; authorization: Bearer fromfile
user    ;; a token file and a token ;; token: abc\ntokenFile: token ;; Sees /x; authorization: Bearer fromfile
user    ;; a token and no token file ;; token: abc\ntokenFile: /no/file ;; Sees /x; authorization: Bearer abc
user    ;; no token file ;; tokenFile: /no/file ;; Fails cannot read the token file /no/file
user    ;; a certificate ;; client-certificate: client.crt\nclient-key: client.key ;; Sees /x; certificate
user    ;; a certificate inline ;; client-certificate-data: {client.crt}\nclient-key-data: {client.key} ;; Sees /x; certificate
user    ;; a certificate without a key ;; client-certificate: client.crt ;; Fails client key is missing
user    ;; a certificate twice ;; client-certificate: client.crt\nclient-certificate-data: {client.crt}\nclient-key: client.key ;; Fails both given
user    ;; an id-token ;; auth-provider: {name: oidc, config: {idp-issuer-url: 'https://issuer', client-id: me, id-token: e30.eyJleHAiOjQxMDI0NDQ4MDB9.x}} ;; Sees /x; authorization: Bearer e30.eyJleHAiOjQxMDI0NDQ4MDB9.x
user    ;; an id-token and a token ;; token: abc\nauth-provider: {name: oidc, config: {idp-issuer-url: 'https://issuer', client-id: me, id-token: e30.eyJleHAiOjQxMDI0NDQ4MDB9.x}} ;; Sees /x; authorization: Bearer abc
user    ;; an id-token that has expired ;; auth-provider: {name: oidc, config: {idp-issuer-url: 'https://issuer', client-id: me, id-token: e30.eyJleHAiOjE3NjcyMjU2MDB9.x}} ;; Fails expired at 2026-01-01T00:00:00Z
user    ;; no id-token ;; auth-provider: {name: oidc, config: {idp-issuer-url: 'https://issuer', client-id: me}} ;; Fails has no id-token
user    ;; an auth provider ;; auth-provider: {name: gcp} ;; Fails auth provider "gcp"
user    ;; impersonation ;; token: abc\nas: jane\nas-uid: '7'\nas-groups: [b, a] ;; Sees /x; authorization: Bearer abc; impersonate-group: a; impersonate-group: b; impersonate-uid: 7; impersonate-user: jane
user    ;; extra fields ;; token: abc\nas: jane\nas-user-extra:\n  example.com/team%: [a, b]\n  'sp ace:é': [d] ;; Sees /x; authorization: Bearer abc; impersonate-extra-example.com%2fteam%25: a; impersonate-extra-example.com%2fteam%25: b; impersonate-extra-sp%20ace%3a%c3%a9: d; impersonate-user: jane
user    ;; empty impersonation ;; token: abc\nas: ''\nas-uid: ''\nas-groups: [] ;; Sees /x; authorization: Bearer abc
user    ;; groups without a user ;; token: abc\nas-groups: [a] ;; Fails need `as`
plain   ;; a token in plain text ;; token: abc ;; Sees /x
plain   ;; impersonation in plain text ;; token: abc\nas: jane ;; Sees /x; impersonate-user: jane
plain   ;; a certificate in plain text ;; client-certificate: client.crt\nclient-key: client.key ;; Sees /x
cluster ;; a CA in lines ;; certificate-authority-data: |\n{ca.crt lines} ;; Sees /x; authorization: Bearer abc
cluster ;; a CA in words ;; certificate-authority-data: >-\n{ca.crt lines} ;; Fails certificate-authority-data is not base64
cluster ;; a CA twice ;; certificate-authority: ca.crt\ncertificate-authority-data: {ca.crt} ;; Fails both given
cluster ;; no CA file ;; certificate-authority: nowhere ;; Fails cannot read
cluster ;; a CA and none ;; certificate-authority: ca.crt\ninsecure-skip-tls-verify: true ;; Fails insecure_skip_tls_verify
cluster ;; no verification ;; insecure-skip-tls-verify: yes ;; Sees /x; authorization: Bearer abc
cluster ;; no verification as text ;; insecure-skip-tls-verify: 'true' ;; Fails neither true nor false
cluster ;; another name ;; certificate-authority: ca.crt\ntls-server-name: other ;; Fails not valid for the name "other"
cluster ;; a proxy of another kind ;; certificate-authority: ca.crt\nproxy-url: ftp://x ;; Fails proxy
cluster ;; a bundle with a certificate that is none first ;; certificate-authority: bad+ca.crt ;; Sees /x; authorization: Bearer abc
cluster ;; a bundle with a certificate that is none last ;; certificate-authority: ca+bad.crt ;; Sees /x; authorization: Bearer abc
cluster ;; a bundle with wrong base64 ;; certificate-authority: base64+ca.crt ;; Sees /x; authorization: Bearer abc
cluster ;; a bundle with an expired CA ;; certificate-authority: expired+ca.crt ;; Sees /x; authorization: Bearer abc
cluster ;; an expired CA ;; certificate-authority: expired.crt ;; Fails expired
cluster ;; a CA that is not valid yet ;; certificate-authority: future.crt ;; Fails becomes valid in
cluster ;; a bundle without a certificate that is one ;; certificate-authority: bad.crt ;; Fails root certificates
"#;
