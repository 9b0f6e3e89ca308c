//! External changes, on paused time: repaired within one resync period, and not without a resync.
#![allow(clippy::unwrap_used, reason = "a test may")]

use core::time::Duration;

use informer::controller::ControllerHandle;
use informer_mock::{FakeServer, Mock, TokioClock};
use tokio::time::sleep;

use super::balancer::{Balancer, Route, Routes};
use super::{controller, service};

const PERIOD: Duration = Duration::from_secs(60);

struct Running {
    mock: Mock<FakeServer, TokioClock>,
    balancer: Balancer,
    controller: ControllerHandle,
    _directory: tempfile::TempDir,
}

async fn start(resync: Duration) -> Running {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    controller::demo(&mock);
    let directory = tempfile::tempdir().unwrap();
    let balancer = Balancer::new(directory.path().join("balancer.json"));
    let controller = controller::new(mock.transport(), resync);
    let (handle, own) = (controller.handle(), balancer.clone());
    tokio::spawn(controller.run(move |task| controller::reconcile(task, own.clone())));
    let running = Running {
        mock,
        balancer,
        controller: handle,
        _directory: directory,
    };
    running.settle().await;
    running
}

impl Running {
    /// Time does not advance while a file is written, so a short wait is sufficient.
    async fn settle(&self) {
        sleep(Duration::from_millis(100)).await;
    }

    fn keys(&self) -> Vec<String> {
        self.balancer.routes().unwrap().into_keys().collect()
    }
}

#[tokio::test(start_paused = true)]
async fn changes_in_the_cluster_reach_the_load_balancer() {
    let running = start(Duration::ZERO).await;
    let route = |port| Route {
        port,
        node_port: 30000 + port,
    };
    let both = Routes::from([
        ("prod/mail".to_owned(), vec![route(25)]),
        ("prod/web".to_owned(), vec![route(80)]),
    ]);
    assert_eq!(running.balancer.routes().unwrap(), both);
    running
        .mock
        .update("services", service("web", "LoadBalancer", 8080))
        .unwrap();
    running
        .mock
        .update("services", service("mail", "ClusterIP", 25))
        .unwrap();
    running.settle().await;
    let web = Routes::from([("prod/web".to_owned(), vec![route(8080)])]);
    assert_eq!(running.balancer.routes().unwrap(), web);
    running.mock.delete("services", "prod", "web").unwrap();
    running.settle().await;
    assert_eq!(running.balancer.routes().unwrap(), Routes::new());
}

#[tokio::test(start_paused = true)]
async fn a_resync_repairs_it_within_its_period() {
    for after in [1, 20, 59] {
        let running = start(PERIOD).await;
        sleep(Duration::from_secs(after)).await;
        let broken = running
            .balancer
            .remove_where(|key| key.ends_with("web"))
            .unwrap();
        assert_eq!(broken, ["prod/web"]);
        // An unrequested entry is not repaired, since no key represents it.
        assert_eq!(running.keys(), ["prod/mail"]);
        sleep(PERIOD).await;
        running.settle().await;
        assert_eq!(running.keys(), ["prod/mail", "prod/web"]);
        assert_eq!(running.controller.metrics().failed, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_resync_it_stays_broken() {
    let running = start(Duration::ZERO).await;
    running
        .balancer
        .remove_where(|key| key.ends_with("web"))
        .unwrap();
    sleep(PERIOD * 60 * 24).await;
    assert_eq!(running.keys(), ["prod/mail"]);
    // A change of the Service repairs it, as without a resync.
    running
        .mock
        .update("services", service("web", "LoadBalancer", 8080))
        .unwrap();
    running.settle().await;
    assert_eq!(running.keys(), ["prod/mail", "prod/web"]);
}
