//! What a program writes to stderr without a hook and without a subscriber of `tracing`.

use core::time::Duration;
use std::process::Command;

use informer_mock::Fault;
use informer_tokio::controller::Controller;
use informer_tokio::election::{
    Election, LeaseClient, LeaseRecord, MembersClient, Replica, Written,
};
use informer_tokio::{Informer, Raw};
use tokio::time::{Instant, sleep};

use crate::support::{PODS, pod, server, start};

/// Set in the process in which nobody listens.
const CHILD: &str = "INFORMER_TEST_UNHEARD";

/// Other tests of this program may have set a subscriber, so it runs in a process of its own.
#[test]
fn a_problem_that_nobody_hears_of_is_on_stderr() {
    if let Ok(case) = std::env::var(CHILD) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        return runtime.unwrap().block_on(fail(&case));
    }
    let lines = |case: &str| -> Vec<String> {
        let test = "stderr::a_problem_that_nobody_hears_of_is_on_stderr";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, case)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines().map(ToOwned::to_owned).collect()
    };
    let forbidden = lines("forbidden");
    assert_eq!(forbidden.len(), 1, "{forbidden:?}");
    let starts = "informer pods.v1: list: the server answered 403 (forbidden): no right";
    assert!(forbidden[0].starts_with(starts), "{forbidden:?}");
    let refused = lines("refused");
    assert!(refused[0].contains("connection refused; "), "{refused:?}");
    let end = "informer pods.v1: requests succeed again, after 6";
    assert!(
        refused.len() == 2 && refused[1].starts_with(end),
        "{refused:?}"
    );
    assert_eq!(lines("quiet"), [""; 0]);
    assert_eq!(lines("heard"), [""; 0]);
    let election = lines("election");
    // Twice, since it works in between.
    assert_eq!(election.len(), 2, "{election:?}");
    assert!(election[0].contains("cannot read the Lease: no right"));
    let removal = lines("removal");
    let line = "cannot remove the Lease of gone, which has ended, so it stays: no right";
    assert_eq!(removal, [line; 2]);
    let runs = lines("runs");
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0], "controller pods: prod/web: no luck");
    assert_eq!(lines("heard-runs"), [""; 0]);
}

async fn fail(case: &str) {
    let mock = server();
    if case.ends_with("runs") {
        mock.create("pods", pod("web", 1)).unwrap();
        let pods = start(&mock);
        let mut controller = Controller::new(&pods);
        let _read = (case == "heard-runs").then(|| controller.results());
        let running = controller.run(|_| async { Err::<(), _>("no luck") });
        let ended = tokio::time::timeout(Duration::from_secs(600), running).await;
        assert!(ended.is_err(), "{ended:?}");
        return;
    }
    let fault = match case {
        "refused" => Fault::refuse(),
        _ => Fault::api_status(403, "Forbidden", "no right"),
    };
    let mut pods = None;
    if case == "removal" {
        let all = Kept(Instant::now());
        let (_replica, work) = Replica::new(Own(None), all, "a", Default::default()).unwrap();
        tokio::spawn(work.run());
    } else if case == "election" {
        let client = Forbidden(Own(None), Instant::now());
        let (leadership, election) = Election::new(client, "a", Default::default()).unwrap();
        tokio::spawn(async move {
            election.run().await;
            drop(leadership);
        });
    } else {
        mock.with(|server| server.inject(fault.always()));
        let builder = Informer::<Raw>::builder_for(&mock.transport(), PODS);
        let builder = match case {
            "quiet" => builder.stderr(false),
            "heard" => builder.on_report(|_| {}),
            _ => builder,
        };
        pods = Some(builder.spawn());
    }
    sleep(Duration::from_secs(230)).await;
    // The limit of one line per second is one of the machine's time.
    std::thread::sleep(Duration::from_secs(1));
    sleep(Duration::from_secs(370)).await;
    if case == "refused" {
        mock.with(|server| server.clear_faults());
        sleep(Duration::from_secs(120)).await;
        assert!(pods.is_some_and(|pods| pods.is_synced()));
    }
}

/// Fails but for a minute.
fn refused(since: Instant) -> Result<(), String> {
    match since.elapsed().as_secs() {
        200..260 => Ok(()),
        _ => Err("no right".to_owned()),
    }
}

struct Forbidden(Own, Instant);

impl LeaseClient for Forbidden {
    type Error = String;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, String> {
        refused(self.1)?;
        self.0.read().await
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, String> {
        refused(self.1)?;
        self.0.create(record).await
    }

    async fn update(&mut self, record: &LeaseRecord, _: &str, _: bool) -> Result<Written, String> {
        self.create(record).await
    }
}

/// A Lease that may be read and written.
struct Own(Option<LeaseRecord>);

impl LeaseClient for Own {
    type Error = String;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, String> {
        Ok(self.0.clone().map(|record| (record, "1".to_owned())))
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, String> {
        self.0 = Some(record.clone());
        Ok(Written::Done("1".to_owned()))
    }

    async fn update(&mut self, record: &LeaseRecord, _: &str, _: bool) -> Result<Written, String> {
        self.create(record).await
    }
}

/// The Lease of a replica that has ended, which may not be deleted.
struct Kept(Instant);

impl MembersClient for Kept {
    type Error = String;

    async fn list(&mut self) -> Result<Vec<LeaseRecord>, String> {
        let mut gone = LeaseRecord::default();
        gone.holder = "gone".to_owned();
        Ok(vec![gone])
    }

    async fn remove(&mut self, _: &LeaseRecord) -> Result<(), String> {
        refused(self.0)
    }
}
