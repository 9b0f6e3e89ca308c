//! Realistic generated Pods, as an API server sends them.
//!
//! The same numbers yield the same bytes. A Pod has about 9 kB of JSON, including managedFields.

use core::fmt::Write;

use informer_core::time::Rng;

/// The first resourceVersion of the data set.
pub const FIRST_VERSION: u64 = 1000;

const APPS: [&str; 10] = [
    "checkout", "search", "catalog", "billing", "ledger", "feed", "login", "media", "risk",
    "notify",
];
const PARTS: [&str; 10] = [
    "api", "worker", "cron", "gateway", "cache", "sync", "web", "relay", "index", "etl",
];
const TIERS: [&str; 3] = ["front", "back", "data"];

/// The changing parts of a Pod.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Its resourceVersion.
    pub version: u64,
    /// The restart counts of its two containers.
    pub restarts: [u32; 2],
    /// The number of the event that changed it last; `None` before the first.
    pub event: Option<u64>,
}

impl State {
    /// Returns the initial state of the Pod with this number.
    #[must_use]
    pub const fn first(number: u64) -> Self {
        Self {
            version: FIRST_VERSION + number,
            restarts: [0; 2],
            event: None,
        }
    }
}

/// The constant parts of a Pod.
struct Pod {
    app: String,
    namespace: String,
    hash: String,
    image: String,
    tier: &'static str,
    node: String,
    name: String,
    time: String,
    ip: String,
    config: String,
    uids: [String; 2],
    settings: [[u64; 6]; 2],
    ids: [[String; 2]; 2],
}

impl Pod {
    fn new(number: u64) -> Self {
        let mut n = Rng::new(4158 ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let app = format!(
            "{}-{}",
            APPS[n.below(10) as usize],
            PARTS[n.below(10) as usize]
        );
        let node = n.below(1000);
        let hash = format!("{:010x}", n.next() >> 24);
        let wide = |n: &mut Rng| {
            format!(
                "{:016x}{:016x}{:016x}{:016x}",
                n.next(),
                n.next(),
                n.next(),
                n.next()
            )
        };
        Self {
            namespace: format!("team-{:03}", n.below(200)),
            image: format!("v{}.{}.{}", n.below(9), n.below(30), n.below(9)),
            tier: TIERS[n.below(3) as usize],
            node: format!(
                "ip-10-{}-{}-17.eu-west-1.compute.internal",
                node / 250,
                node % 250
            ),
            name: format!("{app}-{hash}-{number:06}"),
            time: format!("2026-11-20T08:{:02}:{:02}Z", n.below(60), n.below(60)),
            ip: format!("10.{}.{}.{}", n.below(256), n.below(256), n.below(256)),
            config: wide(&mut n),
            uids: core::array::from_fn(|_| uid(&mut n)),
            settings: core::array::from_fn(|_| core::array::from_fn(|_| n.next() >> 16)),
            ids: core::array::from_fn(|_| core::array::from_fn(|_| wide(&mut n))),
            app,
            hash,
        }
    }
}

fn uid(n: &mut Rng) -> String {
    let (a, b) = (n.next(), n.next());
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xffff,
        b >> 48,
        b & 0xffff_ffff_ffff
    )
}

/// Appends the JSON of a Pod, with kind and apiVersion if `typed` is set, as in events.
pub fn write(out: &mut String, number: u64, state: State, typed: bool) {
    write_named(out, number, state, typed, None);
}

/// Appends the JSON of the Pod at which a run ends.
pub fn write_sentinel(out: &mut String, version: u64) {
    let state = State {
        version,
        ..State::first(0)
    };
    write_named(out, 0, state, true, Some(("team-000", "zz-sentinel")));
}

fn write_named(
    out: &mut String,
    number: u64,
    state: State,
    typed: bool,
    named: Option<(&str, &str)>,
) {
    let pod = Pod::new(number);
    let (namespace, name) = named.unwrap_or((&pod.namespace, &pod.name));
    let Pod {
        app,
        hash,
        image,
        tier,
        time,
        ..
    } = &pod;
    let kind = if typed {
        r#""kind":"Pod","apiVersion":"v1","#
    } else {
        ""
    };
    let restarted = match state.event {
        None => "2026-11-02T10:11:12Z".to_owned(),
        Some(event) => format!("2026-11-20T09:{:02}:{:02}Z", event / 60 % 60, event % 60),
    };
    // Writing into a `String` does not fail.
    let _ = write!(
        out,
        r#"{{{kind}"metadata":{{"name":"{name}","generateName":"{app}-{hash}-","namespace":"{namespace}","uid":"{}","resourceVersion":"{}","creationTimestamp":"{time}","labels":{{"app.kubernetes.io/name":"{app}","app.kubernetes.io/instance":"{app}-{namespace}","app.kubernetes.io/version":"{image}","app.kubernetes.io/managed-by":"Helm","pod-template-hash":"{hash}","tier":"{tier}"}},"annotations":{{"prometheus.io/scrape":"true","prometheus.io/port":"9090","checksum/config":"{}","kubectl.kubernetes.io/restartedAt":"{restarted}"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{app}-{hash}","uid":"{}","controller":true,"blockOwnerDeletion":true}}],"#,
        pod.uids[0], state.version, pod.config, pod.uids[1],
    );
    write_managed_fields(out, app, time);
    let _ = write!(
        out,
        r#"}},"spec":{{"volumes":[{{"name":"config","configMap":{{"name":"{app}-config","defaultMode":420}}}},{{"name":"kube-api-access-x7k2p","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},{{"downwardAPI":{{"items":[{{"path":"namespace","fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}}}}]}}}}],"defaultMode":420}}}}],"containers":["#
    );
    for container in 0..2 {
        if container > 0 {
            out.push(',');
        }
        write_container(out, &pod, container);
    }
    let _ = write!(
        out,
        r#"],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"{app}","serviceAccount":"{app}","nodeName":"{}","securityContext":{{"fsGroup":2000}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{{"phase":"Running","conditions":["#,
        pod.node
    );
    for (i, condition) in [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    .iter()
    .enumerate()
    {
        let comma = if i > 0 { "," } else { "" };
        let _ = write!(
            out,
            r#"{comma}{{"type":"{condition}","status":"True","lastProbeTime":null,"lastTransitionTime":"{time}"}}"#
        );
    }
    let _ = write!(
        out,
        r#"],"hostIP":"10.0.3.17","hostIPs":[{{"ip":"10.0.3.17"}}],"podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}],"startTime":"{time}","containerStatuses":["#,
        ip = pod.ip
    );
    for (i, (ids, restarts)) in pod.ids.iter().zip(state.restarts).enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let _ = write!(
            out,
            r#"{comma}{{"name":"{app}-{i}","state":{{"running":{{"startedAt":"{time}"}}}},"lastState":{{}},"ready":true,"restartCount":{restarts},"image":"registry.example.com/platform/{app}:{image}","imageID":"registry.example.com/platform/{app}@sha256:{}","containerID":"containerd://{}","started":true}}"#,
            ids[0], ids[1],
        );
    }
    out.push_str(r#"],"qosClass":"Burstable"}}"#);
}

fn write_container(out: &mut String, pod: &Pod, i: usize) {
    let Pod { app, image, .. } = pod;
    let _ = write!(
        out,
        r#"{{"name":"{app}-{i}","image":"registry.example.com/platform/{app}:{image}","args":["--config=/etc/app/config.yaml","--shard={i}","--log-format=json","--v=2"],"ports":[{{"name":"http","containerPort":{},"protocol":"TCP"}},{{"name":"metrics","containerPort":{},"protocol":"TCP"}}],"env":[{{"name":"POD_NAME","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}}},{{"name":"POD_NAMESPACE","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}}}}}}"#,
        8080 + i,
        9090 + i
    );
    for (k, setting) in pod.settings[i].iter().enumerate() {
        let _ = write!(
            out,
            r#",{{"name":"APP_SETTING_{k}","value":"{setting:012x}"}}"#
        );
    }
    out.push_str(r#"],"resources":{"limits":{"cpu":"2","memory":"2Gi"},"requests":{"cpu":"250m","memory":"512Mi"}},"volumeMounts":[{"name":"config","mountPath":"/etc/app"},{"name":"kube-api-access-x7k2p","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":"http","scheme":"HTTP"},"initialDelaySeconds":10,"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"readinessProbe":{"httpGet":{"path":"/readyz","port":"http","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":5,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","securityContext":{"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"allowPrivilegeEscalation":false}}"#);
}

fn write_managed_fields(out: &mut String, app: &str, time: &str) {
    let _ = write!(
        out,
        r#""managedFields":[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{"f:prometheus.io/scrape":{{}},"f:prometheus.io/port":{{}},"f:checksum/config":{{}},"f:kubectl.kubernetes.io/restartedAt":{{}}}},"f:generateName":{{}},"f:labels":{{"f:app.kubernetes.io/name":{{}},"f:app.kubernetes.io/instance":{{}},"f:app.kubernetes.io/version":{{}},"f:app.kubernetes.io/managed-by":{{}},"f:pod-template-hash":{{}},"f:tier":{{}}}},"f:ownerReferences":{{}}}},"f:spec":{{"#
    );
    for i in 0..2 {
        let comma = if i > 0 { "," } else { "" };
        let _ = write!(
            out,
            r#"{comma}"f:containers:{{\"name\":\"{app}-{i}\"}}":{{"#
        );
        out.push_str(r#""f:name":{},"f:image":{},"f:args":{},"f:ports":{},"f:env":{},"f:resources":{"f:limits":{"f:cpu":{},"f:memory":{}},"f:requests":{"f:cpu":{},"f:memory":{}}},"f:volumeMounts":{},"f:livenessProbe":{"f:httpGet":{"f:path":{},"f:port":{},"f:scheme":{}},"f:initialDelaySeconds":{},"f:timeoutSeconds":{},"f:periodSeconds":{},"f:successThreshold":{},"f:failureThreshold":{}},"f:readinessProbe":{"f:httpGet":{"f:path":{},"f:port":{},"f:scheme":{}},"f:timeoutSeconds":{},"f:periodSeconds":{},"f:successThreshold":{},"f:failureThreshold":{}},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{},"f:imagePullPolicy":{},"f:securityContext":{"f:capabilities":{"f:drop":{}},"f:runAsNonRoot":{},"f:allowPrivilegeEscalation":{}}}"#);
    }
    let _ = write!(
        out,
        r#"}}}}}},{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"{time}","subresource":"status","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:phase":{{}},"f:conditions":{{}},"f:hostIP":{{}},"f:hostIPs":{{}},"f:podIP":{{}},"f:podIPs":{{}},"f:startTime":{{}},"f:containerStatuses":{{}},"f:qosClass":{{}}}}}}}}]"#
    );
}

/// The states of the Pods after each update.
#[derive(Clone, Debug)]
pub struct Updates {
    states: Vec<State>,
    numbers: Rng,
    version: u64,
    event: u64,
}

impl Updates {
    /// Starts with the initial states of `pods` Pods.
    #[must_use]
    pub fn new(pods: u64) -> Self {
        Self {
            states: (0..pods).map(State::first).collect(),
            numbers: Rng::new(20_261_121),
            version: FIRST_VERSION + pods,
            event: 0,
        }
    }

    /// Returns the last resourceVersion so far.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }
}

impl Iterator for Updates {
    type Item = (u64, State);

    fn next(&mut self) -> Option<(u64, State)> {
        let number = self.numbers.below(self.states.len().max(1) as u64);
        let state = self.states.get_mut(usize::try_from(number).ok()?)?;
        self.version += 1;
        state.version = self.version;
        state.restarts[(self.event % 2) as usize] += 1;
        state.event = Some(self.event);
        self.event += 1;
        Some((number, *state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_json_of_the_expected_size_and_always_the_same() {
        let mut first = String::new();
        write(&mut first, 7, State::first(7), true);
        let pod: serde_json::Value = serde_json::from_str(&first).unwrap();
        assert_eq!(pod["kind"], "Pod");
        assert_eq!(pod["metadata"]["resourceVersion"], "1007");
        assert_eq!(pod["metadata"]["managedFields"][1]["subresource"], "status");
        assert_eq!(pod["status"]["containerStatuses"][1]["restartCount"], 0);
        assert!((9_000..9_300).contains(&first.len()), "{}", first.len());
        let mut again = String::new();
        write(&mut again, 7, State::first(7), true);
        assert_eq!(first, again);
    }

    #[test]
    fn updates_have_rising_versions() {
        let versions: Vec<_> = Updates::new(10)
            .take(100)
            .map(|(_, state)| state.version)
            .collect();
        assert_eq!(versions, (1011..1111).collect::<Vec<_>>());
    }
}
