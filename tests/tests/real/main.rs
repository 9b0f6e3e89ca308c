//! The informer against a real API server.
//!
//! `INFORMER_TEST_KUBECONFIG` names the kubeconfig of a cluster, see `docs/REAL-SERVER.md`. If it is not set, every
//! test here is ignored and listed as SKIPPED. Tests that kill and restart servers are also skipped if the cluster
//! cannot be controlled.

mod access;
mod access_faults;
mod cli;
mod control_plane;
mod cuts;
mod deployed;
mod expiry;
mod faults;
mod helpers;
mod lists;
mod load;
mod many;
mod mock;
mod outage;
mod own_writes;
mod replicas;
mod rotation;
mod shards;
mod short;
mod silence;
mod soak;
mod staleness;

use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::time::Duration;
use std::panic::{catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use informer_tests::real::{
    Cluster, Identity, Kubectl, Outcome, Protocol, Recorded, Server, Table,
};
use informer_tests::say;
use libtest_mimic::{Arguments, Trial};
use tokio::sync::{RwLock, Semaphore};

/// The input of a test.
struct Context {
    cluster: Cluster,
    protocol: Protocol,
    kubeconfig: PathBuf,
    folder: Option<PathBuf>,
    kubectl: Option<PathBuf>,
    assets: Option<PathBuf>,
}

impl Context {
    /// Returns kubectl for the cluster, which is a whole control plane.
    fn kubectl(&self) -> Outcome<Kubectl> {
        self.kubectl_at(self.kubeconfig.clone())
    }

    /// Returns kubectl for another cluster.
    fn kubectl_at(&self, kubeconfig: PathBuf) -> Outcome<Kubectl> {
        let program = self.kubectl.clone().ok_or("there is no kubectl")?;
        Ok(Kubectl::new(program, kubeconfig))
    }

    /// Returns the folder with a control plane to start.
    fn assets(&self) -> Outcome<PathBuf> {
        Ok(self
            .assets
            .clone()
            .ok_or("there is no control plane to start")?)
    }

    /// Returns the shared server, if it can be controlled.
    fn server(&self) -> Outcome<Server> {
        let folder = self
            .folder
            .clone()
            .ok_or("there is no control over the server")?;
        Ok(Server::shared(folder))
    }

    /// Makes a transport that connects to the server directly.
    fn direct(&self) -> Outcome<Recorded<informer_hyper::HyperTransport>> {
        self.cluster
            .transport(self.protocol, &Identity::Admin, None)
    }

    /// Makes a transport through a proxy.
    fn through(
        &self,
        proxy: &informer_tests::proxy::FaultProxy,
    ) -> Outcome<Recorded<informer_hyper::HyperTransport>> {
        self.cluster
            .transport(self.protocol, &Identity::Admin, Some(proxy.address()))
    }

    /// Returns a resource whose objects belong to the test: a built-in one in a namespace of its own on a whole control
    /// plane, and a custom resource elsewhere.
    async fn table(&self, name: &str) -> Outcome<Table> {
        match self.kubectl {
            Some(_) => self.cluster.built_in_apart(BUILT_IN, name).await,
            None => self.custom(name).await,
        }
    }

    /// Creates a custom resource that belongs to the test.
    async fn custom(&self, name: &str) -> Outcome<Table> {
        self.cluster.table(name).await
    }
}

/// The built-in resource of tests that run on any resource. Unlike ConfigMaps and Pods, no controller writes these.
const BUILT_IN: &str = "leases.v1.coordination.k8s.io";

/// The requirements of a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// A cluster.
    Cluster,
    /// Servers that the test may kill.
    Control,
    /// The built-in resources with their controllers, and kubectl.
    Kubectl,
    /// A whole control plane of its own.
    Plane,
}

/// The share of the machine that a test needs, which limits how many run at a time. A server that shares two cores
/// with six others responds too late to test anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Almost nothing: it waits for time to pass.
    Waits,
    /// Some requests.
    Light,
    /// Additional servers.
    Servers,
    /// The whole machine.
    Alone,
}

static LIGHT: Semaphore = Semaphore::const_new(4);
static SERVERS: Semaphore = Semaphore::const_new(2);
/// A test that needs the whole machine takes the write lock.
static MACHINE: RwLock<()> = RwLock::const_new(());

impl Load {
    /// Runs a test when it is its turn, and aborts it if it takes far too long.
    async fn run(self, test: impl Future<Output = Outcome>) -> Outcome {
        let limit = match self {
            // The soak test takes the configured time plus a few minutes.
            Self::Alone => Duration::from_secs(1800),
            // The longest of the others takes the configured time plus a few minutes, too.
            Self::Waits | Self::Light | Self::Servers => {
                Duration::from_secs(300 + soak::number("INFORMER_TEST_TENANTS", 60)?)
            }
        };
        let limited = async {
            let done = tokio::time::timeout(limit, test).await;
            done.map_err(|_| format!("it is not done within {limit:?}"))?
        };
        let turn = match self {
            Self::Alone => {
                let _all = MACHINE.write().await;
                return limited.await;
            }
            Self::Waits => None,
            Self::Light => Some(&LIGHT),
            Self::Servers => Some(&SERVERS),
        };
        let _shared = MACHINE.read().await;
        let _turn = match turn {
            Some(turn) => Some(turn.acquire().await?),
            None => None,
        };
        limited.await
    }
}

type Running = Pin<Box<dyn Future<Output = Outcome>>>;

/// A test with its protocols.
struct Test {
    name: &'static str,
    needs: Needs,
    load: Load,
    protocols: &'static [Protocol],
    run: fn(Context) -> Running,
}

const BOTH: &[Protocol] = &[Protocol::Http1, Protocol::Http2];

const HTTP2: &[Protocol] = &[Protocol::Http2];
/// The test chooses protocols itself, and its name contains none.
const MIXED: &[Protocol] = &[];

macro_rules! tests {
    ($($needs:ident $load:ident $protocols:ident $module:ident::$name:ident,)*) => {
        &[$(Test {
            name: concat!(stringify!($module), "::", stringify!($name)),
            needs: Needs::$needs,
            load: Load::$load,
            protocols: $protocols,
            run: |context| Box::pin($module::$name(context)),
        },)*]
    };
}

const TESTS: &[Test] = tests! {
    Cluster Waits BOTH expiry::the_window_is_answered_by_one_list,
    Cluster Waits BOTH silence::a_dead_connection_is_noticed,
    Cluster Waits BOTH silence::a_pause_is_no_death,
    Cluster Waits BOTH short::are_reopened_without_a_list,
    Plane Waits MIXED outage::etcd_is_restored,
    Control Servers BOTH expiry::compaction_is_answered_by_one_list,
    Control Servers BOTH outage::the_api_server_is_killed_and_restarted,
    Control Servers BOTH outage::etcd_stops_and_continues,
    Control Servers HTTP2 many::goaway_drains,
    Control Servers BOTH shards::are_disjoint_and_complete,
    Control Servers HTTP2 staleness::is_never_below_the_truth,
    Cluster Light HTTP2 replicas::every_key_is_done_and_by_one_at_a_time,
    Cluster Light BOTH lists::as_a_list,
    Cluster Light BOTH lists::as_a_stream,
    Cluster Light BOTH lists::bookmarks_move_the_version,
    Cluster Light BOTH cuts::every_cut_is_resumed,
    Control Light BOTH access::access_is_withdrawn_and_given_back,
    Control Light BOTH rotation::of_a_token,
    Control Light BOTH rotation::of_a_certificate,
    Cluster Light MIXED cli::watches_by_kubeconfig,
    Control Light MIXED cli::names_the_cause_of_a_failure,
    Kubectl Servers BOTH control_plane::every_resource_at_once,
    Kubectl Light MIXED control_plane::kubectl_sees_the_same_events,
    Plane Servers MIXED faults::of_the_server,
    Plane Servers MIXED access_faults::of_access,
    Plane Servers MIXED shards::of_built_in_resources,
    Plane Servers MIXED mock::answers_as_the_server_does,
    Kubectl Light MIXED deployed::each_example_works_with_its_rights,
    Kubectl Light MIXED deployed::the_leader_is_killed,
    Kubectl Light MIXED deployed::each_example_reports_a_missing_right,
    Plane Servers MIXED deployed::leader_and_server_are_killed_in_turn,
    Kubectl Light MIXED helpers::finalizers_events_and_conditions,
    Kubectl Light MIXED helpers::events_without_kube,
    Kubectl Light MIXED own_writes::to_the_status_cause_no_runs,
    Kubectl Alone MIXED cli::shows_the_columns_of_kubectl,
    Cluster Alone MIXED soak::all_converges,
    Plane Alone MIXED load::nothing_is_lost,
};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each test has a thread on which it waits for its turn.
    arguments.test_threads.get_or_insert(64);
    if std::env::var_os("INFORMER_TEST_LATER").is_some() {
        // The tests run in another step then, so they do not count as skipped here.
        say("The tests on a real API server are run later.");
        return ExitCode::SUCCESS;
    }
    let kubeconfig = std::env::var_os("INFORMER_TEST_KUBECONFIG").map(PathBuf::from);
    let folder = std::env::var_os("INFORMER_TEST_APISERVER").map(PathBuf::from);
    let kubectl = std::env::var_os("INFORMER_TEST_KUBECTL").map(PathBuf::from);
    let assets = std::env::var_os("INFORMER_TEST_KUBE").map(PathBuf::from);
    let mut skipped = Vec::new();
    let mut trials = Vec::new();
    for test in TESTS {
        let protocols = if test.protocols.is_empty() {
            HTTP2
        } else {
            test.protocols
        };
        for &protocol in protocols {
            let name = match protocol {
                _ if test.protocols.is_empty() => test.name.to_owned(),
                Protocol::Http1 => format!("http1::{}", test.name),
                Protocol::Http2 => format!("http2::{}", test.name),
            };
            let has_needs = match test.needs {
                Needs::Cluster => true,
                Needs::Control => folder.is_some(),
                Needs::Kubectl => kubectl.is_some(),
                Needs::Plane => kubectl.is_some() && assets.is_some(),
            };
            let can = kubeconfig.is_some() && has_needs;
            let needs_whole = matches!(test.needs, Needs::Kubectl | Needs::Plane);
            if !can && needs_whole && folder.is_some() {
                // A server for custom resources alone: a run on a whole control plane has these.
                continue;
            }
            if !can {
                skipped.push(name.clone());
            }
            let (kubeconfig, folder) = (kubeconfig.clone(), folder.clone());
            let (kubectl, assets) = (kubectl.clone(), assets.clone());
            let (load, run) = (test.load, test.run);
            let trial = Trial::test(name, move || {
                let kubeconfig = kubeconfig.ok_or("INFORMER_TEST_KUBECONFIG is not set")?;
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .enable_all()
                    .build()?;
                let cluster = runtime.block_on(Cluster::open(&kubeconfig))?;
                let context = Context {
                    cluster: cluster.clone(),
                    protocol,
                    kubeconfig,
                    folder,
                    kubectl,
                    assets,
                };
                let test = AssertUnwindSafe(|| runtime.block_on(load.run(run(context))));
                let outcome = catch_unwind(test);
                // A failed test leaves nothing behind either.
                let cleaned = runtime.block_on(cluster.clean_up());
                outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
                Ok(cleaned?)
            });
            trials.push(trial.with_ignored_flag(!can));
        }
    }
    if !skipped.is_empty() && !arguments.list {
        let why = match kubeconfig {
            None => "INFORMER_TEST_KUBECONFIG is not set",
            Some(_) => {
                "INFORMER_TEST_APISERVER, INFORMER_TEST_KUBECTL or INFORMER_TEST_KUBE is not set"
            }
        };
        say(&format!(
            "SKIPPED {} tests on a real API server, as {why}: {}",
            skipped.len(),
            skipped.join(" ")
        ));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
