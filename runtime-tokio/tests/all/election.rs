//! Elections among replicas, on paused time.
#![allow(clippy::unwrap_used, reason = "a test may")]

use core::time::Duration;
use std::sync::{Arc, Mutex};

use informer_tokio::election::{
    Election, ElectionConfig, Leadership, LeaseClient, LeaseRecord, Written,
};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// The Lease, and the state of the network.
#[derive(Clone, Default)]
struct Api(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<(LeaseRecord, u64)>,
    version: u64,
    /// The replica with this name gets no responses.
    cut_off: Option<&'static str>,
}

struct Client {
    api: Api,
    name: &'static str,
}

impl Client {
    async fn reach(&self) -> Result<(), String> {
        sleep(Duration::from_millis(20)).await;
        match self.api.0.lock().unwrap().cut_off {
            Some(name) if name == self.name => {}
            _ => return Ok(()),
        }
        core::future::pending().await
    }

    fn write(&self, record: &LeaseRecord, expected: Option<&str>) -> Written {
        let mut state = self.api.0.lock().unwrap();
        let version = state.lease.as_ref().map(|(_, version)| version.to_string());
        if version.as_deref() != expected {
            return Written::Conflict;
        }
        state.version += 1;
        let record = LeaseRecord {
            renewed: state.version.to_string(),
            ..record.clone()
        };
        state.lease = Some((record, state.version));
        Written::Done(state.version.to_string())
    }
}

impl LeaseClient for Client {
    type Error = String;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, String> {
        self.reach().await?;
        let lease = self.api.0.lock().unwrap().lease.clone();
        Ok(lease.map(|(record, version)| (record, version.to_string())))
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, String> {
        self.reach().await?;
        Ok(self.write(record, None))
    }

    async fn update(
        &mut self,
        record: &LeaseRecord,
        resource_version: &str,
        _: bool,
    ) -> Result<Written, String> {
        self.reach().await?;
        Ok(self.write(record, Some(resource_version)))
    }
}

fn join(api: &Api, name: &'static str) -> (Leadership, JoinHandle<()>) {
    let client = Client {
        api: api.clone(),
        name,
    };
    let (leadership, election) = Election::new(client, name, ElectionConfig::default()).unwrap();
    (leadership, tokio::spawn(election.run()))
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_next_follows_when_it_is_cut_off() {
    let api = Api::default();
    let (a, _a) = join(&api, "a");
    assert!(a.acquired().await);
    let (b, _b) = join(&api, "b");
    sleep(secs(60)).await;
    assert!(a.is_leader() && !b.is_leader());
    assert_eq!(b.holder().as_deref(), Some("a"));

    api.0.lock().unwrap().cut_off = Some("a");
    let worked = a.while_leading(sleep(secs(3600))).await;
    assert!(worked.is_none() && !a.is_leader());
    assert!(
        !b.is_leader(),
        "the one has stopped before the other begins"
    );
    timeout(secs(20), b.acquired()).await.unwrap();
    assert!(b.is_leader() && !a.is_leader());
    assert_eq!(b.while_leading(async { 7 }).await, Some(7));

    // Its writes in the meantime are not trusted, and it sees another holder.
    api.0.lock().unwrap().cut_off = None;
    sleep(secs(60)).await;
    assert!(b.is_leader() && !a.is_leader());
    assert_eq!(a.holder().as_deref(), Some("b"));
    assert_eq!(a.while_leading(async { 7 }).await, None);
}

#[tokio::test(start_paused = true)]
async fn who_resigns_makes_room_at_once() {
    let api = Api::default();
    let (a, a_runs) = join(&api, "a");
    assert!(a.acquired().await);
    let (b, _b) = join(&api, "b");
    sleep(secs(5)).await;
    let losing = a.lost();
    let ((), ()) = tokio::join!(losing, a.resign());
    assert!(!a.is_leader() && !a.acquired().await);
    a_runs.await.unwrap();
    timeout(secs(3), b.acquired()).await.unwrap();
    assert!(b.is_leader());
    // It also leaves when all handles were dropped.
    let (c, _c) = join(&api, "c");
    drop(b);
    timeout(secs(5), c.acquired()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_killed_leads_until_its_time_is_over_and_no_longer() {
    let api = Api::default();
    let (a, a_runs) = join(&api, "a");
    assert!(a.acquired().await);
    let (b, _b) = join(&api, "b");
    sleep(secs(5)).await;
    a_runs.abort();
    let start = tokio::time::Instant::now();
    a.lost().await;
    assert!(!a.is_leader() && start.elapsed() <= secs(10));
    assert!(!b.is_leader());
    assert!(timeout(secs(20), b.acquired()).await.unwrap());
    assert!(!a.acquired().await, "it never will");
}
