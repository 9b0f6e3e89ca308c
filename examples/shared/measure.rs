//! The measurements of a throughput benchmark's client, and the lines that it prints.
//!
//! The clients of other libraries include this file too, so that all of them measure the same.

use core::hash::{Hash, Hasher};
use core::time::Duration;
use std::collections::hash_map::DefaultHasher;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The name of the Pod that ends a run. It is neither counted nor part of the checksum.
pub const SENTINEL: &str = "zz-sentinel";

/// The annotation with the time at which the server sent an event, if it has 20 digits.
pub const STAMP: &str = "kubectl.kubernetes.io/restartedAt";

/// The resources that the process has used so far.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    at: Instant,
    cpu: Duration,
    /// Resident memory in kB.
    pub rss_kb: u64,
    /// The most resident memory so far, in kB.
    pub hwm_kb: u64,
    /// The number of threads.
    pub threads: u64,
}

impl Usage {
    /// Reads the resource usage of this process from `/proc`; zeros if that does not exist.
    #[must_use]
    pub fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| {
                    line.strip_prefix(name)?
                        .split_whitespace()
                        .next()?
                        .parse()
                        .ok()
                })
                .unwrap_or(0)
        };
        Self {
            at: Instant::now(),
            cpu: cpu(),
            rss_kb: field("VmRSS:"),
            hwm_kb: field("VmHWM:"),
            threads: field("Threads:"),
        }
    }
}

/// The difference between two measurements.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// The elapsed time.
    pub wall: Duration,
    /// The processor time.
    pub cpu: Duration,
    /// The growth of resident memory, in kB; 0 if it shrank.
    pub rss_kb: u64,
}

impl Usage {
    /// Returns the usage since an earlier measurement.
    #[must_use]
    pub fn since(&self, before: Self) -> Used {
        Used {
            wall: self.at - before.at,
            cpu: self.cpu.saturating_sub(before.cpu),
            rss_kb: self.rss_kb.saturating_sub(before.rss_kb),
        }
    }
}

/// User and system time of the process, in steps of a hundredth of a second.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the name in parentheses, which may contain spaces.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// Counts the notifications of a handler.
#[derive(Clone, Debug)]
pub struct Tally {
    began: Usage,
    synced: Option<Usage>,
    first_event: Option<Usage>,
    adds: u64,
    updates: u64,
    checksum: u64,
    /// The time at which the latest notification ended, since the epoch.
    idle_at: Duration,
    /// The send time of the first event.
    first_sent: Option<Duration>,
    /// How long the notifications lagged after the first event had been sent.
    caught_up: Option<Duration>,
    latencies_us: Vec<u32>,
}

/// The change of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It was added.
    Add,
    /// It was updated.
    Update,
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

impl Tally {
    /// Starts the measurement.
    #[must_use]
    pub fn new() -> Self {
        Self {
            began: Usage::now(),
            synced: None,
            first_event: None,
            adds: 0,
            updates: 0,
            checksum: 0,
            idle_at: since_epoch(),
            first_sent: None,
            caught_up: None,
            latencies_us: Vec::new(),
        }
    }

    /// Records that the initial list is complete.
    pub fn synced(&mut self) {
        self.synced = Some(Usage::now());
        self.idle_at = since_epoch();
    }

    /// Records an event. Returns whether it ends the run.
    ///
    /// The checksum does not depend on the order of events of different objects.
    pub fn event(&mut self, change: Change, key: &str, node: &str, phase: &str) -> bool {
        if self.synced.is_some() && self.first_event.is_none() {
            self.first_event = Some(Usage::now());
        }
        if key.ends_with(SENTINEL) {
            return true;
        }
        match change {
            Change::Add => self.adds += 1,
            Change::Update => self.updates += 1,
        }
        let mut hasher = DefaultHasher::new();
        (key, node, phase).hash(&mut hasher);
        self.checksum = self.checksum.wrapping_add(hasher.finish());
        false
    }

    /// Records the latency of an event, if it has the time at which it was sent.
    ///
    /// Latencies count from the first event that was sent when none was pending.
    pub fn stamp(&mut self, stamp: &str) {
        if stamp.len() != 20 {
            return;
        }
        let Ok(sent) = stamp.parse().map(Duration::from_nanos) else {
            return;
        };
        let now = since_epoch();
        let first = *self.first_sent.get_or_insert(sent);
        if self.caught_up.is_none() && sent >= self.idle_at {
            self.caught_up = Some(sent.saturating_sub(first));
            self.latencies_us.clear();
        }
        self.idle_at = now;
        let took = now.saturating_sub(sent);
        self.latencies_us
            .push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    /// Formats the results: one line, and a second one if events had send times.
    #[must_use]
    pub fn lines(mut self, client: &str, form: &str, stored: usize) -> String {
        let end = Usage::now();
        let synced = self.synced.unwrap_or(end);
        let first = self.first_event.unwrap_or(synced);
        let wall = |from: Usage, to: Usage| (to.at - from.at).as_secs_f64();
        let cpu = |from: Usage, to: Usage| to.cpu.saturating_sub(from.cpu).as_secs_f64();
        let mut lines = format!(
            "{client} {form} sync_s={:.3} sync_cpu_s={:.2} sync_rss_kb={} sync_hwm_kb={} \
             events_s={:.3} events_cpu_s={:.2} end_rss_kb={} end_hwm_kb={} \
             adds={} updates={} stored={stored} checksum={:016x}",
            wall(self.began, synced),
            cpu(self.began, synced),
            synced.rss_kb,
            synced.hwm_kb,
            wall(first, end),
            cpu(first, end),
            end.rss_kb,
            end.hwm_kb,
            self.adds,
            self.updates,
            self.checksum,
        );
        if !self.latencies_us.is_empty() {
            lines.push('\n');
            lines.push_str(&percentiles("latency_us", &mut self.latencies_us));
            // Without a number, no event was sent when none was pending, and all of them count.
            let caught_up = self.caught_up.map(|took| took.as_millis().to_string());
            let caught_up = caught_up.as_deref().unwrap_or("never");
            lines.push_str(&format!(" caught_up_ms={caught_up}"));
        }
        lines
    }
}

fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Formats a line of durations: `name p50=… p99=… max=… n=…`.
#[must_use]
pub fn percentiles(name: &str, took: &mut [u32]) -> String {
    took.sort_unstable();
    let last = took.len().saturating_sub(1);
    let at = |part: f64| took.get((last as f64 * part).round() as usize).copied();
    format!(
        "{name} p50={} p99={} max={} n={}",
        at(0.5).unwrap_or(0),
        at(0.99).unwrap_or(0),
        at(1.0).unwrap_or(0),
        took.len(),
    )
}
