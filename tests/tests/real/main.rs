//! The informer against a real API server.
//!
//! `INFORMER_TEST_KUBECONFIG` names the kubeconfig of a cluster, see `docs/REAL-SERVER.md`. Where it is not set, every
//! test here is ignored and named as SKIPPED; so are, with a cluster alone, those that kill and restart servers.

mod access;
mod cuts;
mod expiry;
mod lists;
mod many;
mod outage;
mod rotation;
mod silence;
mod soak;

use core::pin::Pin;
use std::path::PathBuf;
use std::process::ExitCode;

use informer_tests::real::{Cluster, Identity, Outcome, Protocol, Recorded, Server, Table};
use informer_tests::say;
use libtest_mimic::{Arguments, Trial};

/// What a test gets.
struct Context {
    cluster: Cluster,
    protocol: Protocol,
    folder: Option<PathBuf>,
}

impl Context {
    /// The server of all tests, where it is one that can be controlled.
    fn server(&self) -> Outcome<Server> {
        let folder = self
            .folder
            .clone()
            .ok_or("there is no control over the server")?;
        Ok(Server::shared(folder))
    }

    /// Makes a transport straight to the server.
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

    /// Makes a resource of the test's own.
    async fn table(&self, name: &str) -> Outcome<Table> {
        self.cluster.table(name).await
    }
}

/// What a test needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// A cluster.
    Cluster,
    /// Servers that it may kill.
    Control,
}

type Running = Pin<Box<dyn Future<Output = Outcome>>>;

/// A test, over each of its protocols.
struct Test {
    name: &'static str,
    needs: Needs,
    protocols: &'static [Protocol],
    run: fn(Context) -> Running,
}

const BOTH: &[Protocol] = &[Protocol::Http1, Protocol::Http2];

const HTTP2: &[Protocol] = &[Protocol::Http2];
/// It uses both at once, and its name says of neither.
const MIXED: &[Protocol] = &[];

macro_rules! tests {
    ($($needs:ident $protocols:ident $module:ident::$name:ident,)*) => {
        &[$(Test {
            name: concat!(stringify!($module), "::", stringify!($name)),
            needs: Needs::$needs,
            protocols: $protocols,
            run: |context| Box::pin($module::$name(context)),
        },)*]
    };
}

const TESTS: &[Test] = tests! {
    Cluster BOTH lists::as_a_list,
    Cluster BOTH lists::as_a_stream,
    Cluster BOTH lists::bookmarks_move_the_version,
    Cluster BOTH cuts::every_cut_is_resumed,
    Control BOTH expiry::compaction_is_answered_by_one_list,
    Cluster BOTH expiry::the_window_is_answered_by_one_list,
    Control BOTH outage::the_api_server_is_killed_and_restarted,
    Control BOTH outage::etcd_stops_and_goes_on,
    Cluster BOTH silence::a_dead_connection_is_noticed,
    Cluster BOTH silence::a_pause_is_no_death,
    Control BOTH access::access_is_withdrawn_and_given_back,
    Control BOTH rotation::of_a_token,
    Control BOTH rotation::of_a_certificate,
    Control HTTP2 many::goaway_drains,
    Cluster MIXED soak::all_converges,
};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They wait, mostly, so that many at a time are no burden.
    arguments.test_threads.get_or_insert(24);
    if std::env::var_os("INFORMER_TEST_LATER").is_some() {
        // Whoever set it runs them in another step, and so they are not skipped here.
        say("The tests on a real API server are run later.");
        return ExitCode::SUCCESS;
    }
    let kubeconfig = std::env::var_os("INFORMER_TEST_KUBECONFIG").map(PathBuf::from);
    let folder = std::env::var_os("INFORMER_TEST_APISERVER").map(PathBuf::from);
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
            let can = kubeconfig.is_some() && (test.needs == Needs::Cluster || folder.is_some());
            if !can {
                skipped.push(name.clone());
            }
            let (kubeconfig, folder, run) = (kubeconfig.clone(), folder.clone(), test.run);
            let trial = Trial::test(name, move || {
                let kubeconfig = kubeconfig.ok_or("INFORMER_TEST_KUBECONFIG is not set")?;
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .enable_all()
                    .build()?;
                runtime.block_on(async {
                    let cluster = Cluster::open(&kubeconfig).await?;
                    let context = Context {
                        cluster,
                        protocol,
                        folder,
                    };
                    Ok(run(context).await?)
                })
            });
            trials.push(trial.with_ignored_flag(!can));
        }
    }
    if !skipped.is_empty() && !arguments.list {
        let why = match kubeconfig {
            None => "INFORMER_TEST_KUBECONFIG is not set",
            Some(_) => "INFORMER_TEST_APISERVER is not set: there is no control over the server",
        };
        say(&format!(
            "SKIPPED {} tests on a real API server, as {why}: {}",
            skipped.len(),
            skipped.join(" ")
        ));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
