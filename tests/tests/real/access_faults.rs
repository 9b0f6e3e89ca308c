//! Rights, credentials and APIs that go and come back, on a control plane that belongs to the test.

use core::time::Duration;
use std::path::PathBuf;

use http::Method;
use informer_tests::proxy::{Cut, FaultProxy};
use informer_tests::real::{
    Cluster, Identity, Kubectl, Outcome, Plane, Protocol, Subject, ensure, until,
};
use informer_tests::say;
use tokio::time::Instant;

use crate::Context;
use crate::faults::Scene;

const PATIENCE: Duration = Duration::from_secs(60);
/// The API server remembers for ten seconds that a token is valid.
const FORGOTTEN: Duration = Duration::from_secs(11);

/// The user of the informers under test.
const READER: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: { name: reader, namespace: default }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: reader, namespace: default }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader }
subjects: [{ kind: ServiceAccount, name: reader, namespace: default }, { kind: User, name: certified-a }, { kind: User, name: certified-b }]
";

/// All requests of the user are refused while one of them is served.
const ONE_SEAT: &str = "
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: { name: one-seat }
spec: { type: Limited, limited: { nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: { type: Reject } } }
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: { name: one-seat }
spec:
  priorityLevelConfiguration: { name: one-seat }
  matchingPrecedence: 2
  rules:
  - subjects: [{ kind: ServiceAccount, serviceAccount: { name: reader, namespace: default } }]
    resourceRules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'], clusterScope: true, namespaces: ['*'] }]
";

/// 429, 403 and 401 for a user who is no administrator, and credentials that are replaced.
pub(crate) async fn of_access(context: Context) -> Outcome {
    let plane = Plane::start(context.assets()?, &[]).await?;
    let trial = Trial {
        kubectl: context.kubectl_at(plane.kubeconfig())?,
        cluster: plane.cluster().await?,
        proxy: FaultProxy::start(None, plane.cluster().await?.address().await?).await?,
        token: plane.path("reader.token"),
    };
    trial.kubectl.apply(READER).await?;
    trial.allow("default", &["list", "watch"]).await?;
    trial.replace_token("first").await?;
    let identity = Identity::TokenFile(trial.token.clone());
    let scene = Scene::new(&plane, &identity, Some(trial.proxy.address())).await?;

    scene.through("429", trial.overload(&scene)).await?;
    scene
        .through("watch revoked", trial.revoke(&scene, &["list"]))
        .await?;
    scene
        .through("all revoked", trial.revoke(&scene, &[]))
        .await?;
    scene
        .through("token replaced", trial.rotate(&scene))
        .await?;
    scene
        .through("token revoked", trial.revoke_token(&scene))
        .await?;
    scene.through("no backend", trial.lose_backend()).await?;
    trial.certificates(&plane).await?;
    trial.namespaces().await?;
    trial.late_resource().await
}

struct Trial {
    kubectl: Kubectl,
    cluster: Cluster,
    proxy: FaultProxy,
    token: PathBuf,
}

impl Trial {
    /// Lets the user do this in a namespace.
    async fn allow(&self, namespace: &str, verbs: &[&str]) -> Outcome {
        // A rule has at least one verb.
        let verbs = if verbs.is_empty() { &["none"] } else { verbs };
        let role = serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": "reader", "namespace": namespace },
            "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": verbs }],
        });
        self.kubectl.apply(&role.to_string()).await?;
        Ok(())
    }

    /// Cuts every connection, and waits until each informer has heard of the trouble.
    async fn cut(&self, scene: &Scene, class: &str) -> Outcome {
        let before = scene.reports(class);
        // The change of a role takes effect a moment later.
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.proxy.cut(Cut::Close);
        let all = || {
            scene
                .reports(class)
                .iter()
                .zip(&before)
                .all(|(now, before)| now > before)
        };
        until(
            PATIENCE,
            format_args!("each informer has reported {class}"),
            all,
        )
        .await
    }

    async fn overload(&self, scene: &Scene) -> Outcome {
        self.kubectl.apply(ONE_SEAT).await?;
        let user = "system:serviceaccount:default:reader";
        let holders = (0..3).map(|_| {
            let list = [
                "get",
                "--raw",
                "/api/v1/namespaces/default/configmaps?resourceVersion=1999999999",
                "--as",
                user,
            ];
            self.kubectl.command(&list)
        });
        let holders: Vec<_> = holders.collect();
        let mut running = Vec::new();
        for mut holder in holders {
            let quiet = holder
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null());
            running.push(quiet.spawn()?);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        self.proxy.cut(Cut::Close);
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(running);
        self.kubectl
            .run(&["delete", "flowschema", "one-seat"])
            .await?;
        ensure(scene.answers(429) > 0, "nobody was answered 429")
    }

    async fn revoke(&self, scene: &Scene, left: &[&str]) -> Outcome {
        self.allow("default", left).await?;
        self.cut(scene, "forbidden").await?;
        self.allow("default", &["list", "watch"]).await
    }

    /// Makes a token that is valid as long as a Secret of that name is there, and puts it into the file.
    async fn replace_token(&self, secret: &str) -> Outcome {
        self.kubectl
            .run(&["create", "secret", "generic", secret])
            .await?;
        let token = [
            "create",
            "token",
            "reader",
            "--duration=10m",
            "--bound-object-kind=Secret",
            "--bound-object-name",
            secret,
        ];
        let token = self.kubectl.run(&token).await?;
        // As kubelet does: a new file is moved to the place of the old one.
        let beside = self.token.with_extension("new");
        std::fs::write(&beside, token.trim())?;
        std::fs::rename(&beside, &self.token)?;
        Ok(())
    }

    async fn rotate(&self, scene: &Scene) -> Outcome {
        let before = scene.reports("unauthorized");
        self.replace_token("second").await?;
        self.kubectl.run(&["delete", "secret", "first"]).await?;
        tokio::time::sleep(FORGOTTEN).await;
        self.proxy.cut(Cut::Close);
        tokio::time::sleep(Duration::from_secs(2)).await;
        ensure(
            scene.reports("unauthorized") == before,
            "the old token was sent",
        )
    }

    async fn revoke_token(&self, scene: &Scene) -> Outcome {
        self.kubectl.run(&["delete", "secret", "second"]).await?;
        tokio::time::sleep(FORGOTTEN).await;
        self.cut(scene, "unauthorized").await?;
        self.replace_token("third").await
    }

    /// An API without a server behind it disturbs no other. Its own informer syncs when it is served.
    async fn lose_backend(&self) -> Outcome {
        let service = "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: { name: v1.lost.example.com }\n\
                       spec: { group: lost.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100, \
                       insecureSkipTLSVerify: true, service: { name: none, namespace: default } }\n";
        self.kubectl.apply(service).await?;
        let table = self
            .cluster
            .foreign("lost.example.com", "things", "Thing")?;
        let transport = self
            .cluster
            .transport(Protocol::Http2, &Identity::Admin, None)?;
        let subject = Subject::start(transport, &table, |builder| builder);
        let refused = || subject.reports("service-unavailable") > 0;
        until(PATIENCE, "503 for an API without a server", refused).await?;
        self.kubectl
            .run(&["delete", "apiservice", "v1.lost.example.com"])
            .await?;
        self.define("lost.example.com", "things", "Thing").await?;
        subject.synced().await?;
        subject.agrees(&table).await
    }

    async fn define(&self, group: &str, plural: &str, kind: &str) -> Outcome {
        let definition = format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{ name: {plural}.{group} }}\n\
             spec:\n  group: {group}\n  scope: Namespaced\n  names: {{ plural: {plural}, kind: {kind} }}\n  versions:\n  \
             - {{ name: v1, served: true, storage: true, schema: {{ openAPIV3Schema: {{ type: object }} }} }}\n"
        );
        self.kubectl.apply(&definition).await?;
        Ok(())
    }

    /// A client certificate is replaced in its files, and the old name loses its rights.
    async fn certificates(&self, plane: &Plane) -> Outcome {
        plane.certificate("client", "/CN=certified-a").await?;
        let identity =
            Identity::Certificate(plane.path("pki/client.crt"), plane.path("pki/client.key"));
        let table = self
            .cluster
            .built_in("configmaps.v1.")
            .await?
            .in_namespace("default");
        let mut subjects = Vec::new();
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let transport =
                self.cluster
                    .transport(protocol, &identity, Some(self.proxy.address()))?;
            let subject = Subject::start(transport, &table, |builder| builder);
            subject.synced().await?;
            subjects.push(subject);
        }
        plane.certificate("client", "/CN=certified-b").await?;
        self.kubectl
            .apply(&READER.replace(", { kind: User, name: certified-a }", ""))
            .await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let began = Instant::now();
        self.proxy.cut(Cut::Close);
        table.create_minimal("certified", 1).await?;
        for subject in &subjects {
            subject.agrees(&table).await?;
            subject.ensure(
                subject.reports("forbidden") == 0,
                "the old certificate was sent",
            )?;
        }
        say(&format!(
            "certificate replaced: correct after {:.1?}",
            began.elapsed()
        ));
        Ok(())
    }

    /// An informer of two namespaces loses one of them; the other goes on.
    async fn namespaces(&self) -> Outcome {
        self.kubectl.run(&["create", "namespace", "other"]).await?;
        self.kubectl
            .apply(&READER.replace(
                "namespace: default }\nroleRef",
                "namespace: other }\nroleRef",
            ))
            .await?;
        self.allow("other", &["list", "watch"]).await?;
        let all = self.cluster.built_in("configmaps.v1.").await?;
        let (here, there) = (
            all.clone().in_namespace("default"),
            all.in_namespace("other"),
        );
        let identity = Identity::TokenFile(self.token.clone());
        let transport =
            self.cluster
                .transport(Protocol::Http2, &identity, Some(self.proxy.address()))?;
        let subject = Subject::start(transport, &here, |builder| {
            builder.namespaces(["default", "other"])
        });
        subject.synced().await?;

        self.allow("other", &[]).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.proxy.cut(Cut::Close);
        until(PATIENCE, "403", || subject.reports("forbidden") > 0).await?;
        there.create_minimal("hidden", 1).await?;
        let version = here.create_minimal("shown", 1).await?;
        subject.shows("shown", &version).await?;
        ensure(
            subject.informer.lister().get("other", "hidden").is_none(),
            "it is seen without rights",
        )?;
        self.allow("other", &["list", "watch"]).await?;
        let began = Instant::now();
        let lister = subject.informer.lister();
        until(PATIENCE * 2, "the namespace is seen again", || {
            lister.get("other", "hidden").is_some()
        })
        .await?;
        let took = began.elapsed();
        let mut truth = here.list().await?.0;
        truth.extend(there.list().await?.0);
        let differences = subject.differences(&truth);
        ensure(differences.is_empty(), format_args!("{differences:#?}"))?;
        say(&format!(
            "one namespace of two revoked: correct after {took:.1?}"
        ));
        Ok(())
    }

    /// Informers of a resource that is defined later. Its storage is initialized by the first requests.
    async fn late_resource(&self) -> Outcome {
        let table = self.cluster.foreign("late.example.com", "ones", "One")?;
        let mut subjects = Vec::new();
        for protocol in [Protocol::Http1, Protocol::Http2]
            .into_iter()
            .cycle()
            .take(8)
        {
            let transport = self.cluster.transport(protocol, &Identity::Admin, None)?;
            subjects.push(Subject::start(transport, &table, |builder| builder));
        }
        for subject in &subjects {
            until(PATIENCE, "404", || subject.reports("not-found") > 0).await?;
        }
        self.define("late.example.com", "ones", "One").await?;
        let began = Instant::now();
        let mut answers = [0; 2];
        for subject in &subjects {
            subject.synced().await?;
            subject.agrees(&table).await?;
            let asked = subject.log.all();
            for (count, status) in answers.iter_mut().zip([404, 429]) {
                *count += asked
                    .iter()
                    .filter(|asked| asked.status == Some(status))
                    .count();
            }
        }
        let [missing, initializing] = answers;
        say(&format!(
            "defined later: 8 informers, {missing} answers 404, {initializing} answers 429; synced after {:.1?}",
            began.elapsed()
        ));
        let (status, _) = self
            .cluster
            .request(Method::GET, table.path(), None)
            .await?;
        ensure(status == 200, status)
    }
}
