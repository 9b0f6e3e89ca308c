//! The state of a Pod in three columns.

use jiff::Timestamp;
use serde_json::Value;

use super::{list, number, since, text};

pub(super) fn ready(pod: &Value) -> String {
    let state = State::of(pod);
    format!("{}/{}", state.ready, state.containers)
}

pub(super) fn status(pod: &Value) -> String {
    State::of(pod).status
}

pub(super) fn restarts(pod: &Value) -> String {
    let state = State::of(pod);
    match state.last_restart {
        Some((_, time)) if state.restarts > 0 => {
            format!("{} ({} ago)", state.restarts, since(time))
        }
        _ => state.restarts.to_string(),
    }
}

#[derive(Default)]
struct State<'p> {
    containers: usize,
    ready: usize,
    status: String,
    restarts: u64,
    last_restart: Option<(Timestamp, &'p str)>,
}

/// Their number, and the end before the last one.
type Restarts<'p> = (u64, Option<(Timestamp, &'p str)>);

impl<'p> State<'p> {
    fn of(pod: &'p Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let mut state = State {
            containers: list(&spec["containers"]).len(),
            status: text(&status["phase"]).to_owned(),
            ..State::default()
        };
        if !text(&status["reason"]).is_empty() {
            text(&status["reason"]).clone_into(&mut state.status);
        }
        if condition(status, "PodScheduled")["reason"] == "SchedulingGated" {
            "SchedulingGated".clone_into(&mut state.status);
        }
        let (is_initializing, sidecars) = state.initialize(spec, status);
        if !is_initializing || condition(status, "Initialized")["status"] == "True" {
            // The restarts of other init containers no longer count.
            (state.restarts, state.last_restart) = sidecars;
            state.run(status);
        }
        if pod["metadata"]["deletionTimestamp"].is_string() {
            if status["reason"] == "NodeLost" {
                "Unknown".clone_into(&mut state.status);
            } else if !matches!(text(&status["phase"]), "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut state.status);
            }
        }
        state
    }

    /// Reads the init containers. Returns whether one of them has yet to end, or to start if it is a sidecar, and the
    /// restarts of the sidecars.
    fn initialize(&mut self, spec: &Value, status: &'p Value) -> (bool, Restarts<'p>) {
        let init = list(&spec["initContainers"]);
        let is_sidecar = |name: &Value| {
            let mut named = init.iter().filter(|container| container["name"] == *name);
            named.any(|container| container["restartPolicy"] == "Always")
        };
        self.containers += init.iter().filter(|it| is_sidecar(&it["name"])).count();
        let (mut of_sidecars, mut last_of_sidecars) = (0, None);
        for (index, container) in list(&status["initContainerStatuses"]).iter().enumerate() {
            self.count_restarts(container);
            let is_sidecar = is_sidecar(&container["name"]);
            if is_sidecar {
                of_sidecars += number(&container["restartCount"]);
                last_of_sidecars = last_of_sidecars.max(last_end(container));
            }
            let (terminated, waiting) = (
                &container["state"]["terminated"],
                text(&container["state"]["waiting"]["reason"]),
            );
            if is_zero(terminated) {
                continue;
            }
            if is_sidecar && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            self.status = if terminated.is_object() {
                format!("Init:{}", ending(terminated))
            } else if !matches!(waiting, "" | "PodInitializing") {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", init.len())
            };
            return (true, (of_sidecars, last_of_sidecars));
        }
        (false, (of_sidecars, last_of_sidecars))
    }

    fn run(&mut self, status: &'p Value) {
        let mut is_running = false;
        for container in list(&status["containerStatuses"]).iter().rev() {
            self.count_restarts(container);
            let (terminated, waiting) = (
                &container["state"]["terminated"],
                text(&container["state"]["waiting"]["reason"]),
            );
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.status);
            } else if terminated.is_object() {
                self.status = ending(terminated);
            } else if container["ready"] == true && container["state"]["running"].is_object() {
                is_running = true;
                self.ready += 1;
            }
        }
        // One container has ended, and another one still runs.
        if self.status == "Completed" && is_running {
            let is_ready = condition(status, "Ready")["status"] == "True";
            (if is_ready { "Running" } else { "NotReady" }).clone_into(&mut self.status);
        }
    }

    fn count_restarts(&mut self, container: &'p Value) {
        self.restarts += number(&container["restartCount"]);
        self.last_restart = self.last_restart.max(last_end(container));
    }
}

/// Returns when the container ended before it was restarted.
fn last_end(container: &Value) -> Option<(Timestamp, &str)> {
    let time = container["lastState"]["terminated"]["finishedAt"].as_str()?;
    Some((time.parse().ok()?, time))
}

/// Returns why a container has ended.
fn ending(terminated: &Value) -> String {
    match (text(&terminated["reason"]), number(&terminated["signal"])) {
        ("", 0) => format!("ExitCode:{}", number(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_zero(terminated: &Value) -> bool {
    terminated.is_object() && number(&terminated["exitCode"]) == 0
}

fn condition<'v>(status: &'v Value, name: &str) -> &'v Value {
    let mut conditions = list(&status["conditions"]).iter();
    conditions
        .find(|condition| condition["type"] == name)
        .unwrap_or(&Value::Null)
}
