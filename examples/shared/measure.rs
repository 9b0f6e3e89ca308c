//! What a client of the throughput benchmark measures of itself, and the lines that it prints.
//!
//! The client of another library includes this file too, so that all of them measure the same.

use core::hash::{Hash, Hasher};
use core::time::Duration;
use std::collections::hash_map::DefaultHasher;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The name of the Pod at which a run ends. It is neither counted nor part of the checksum.
pub const SENTINEL: &str = "zz-sentinel";

/// The annotation that carries the time at which a server sent an event, where it has 20 digits.
pub const STAMP: &str = "kubectl.kubernetes.io/restartedAt";

/// So many events warm up the connection before latencies count.
const WARM_UP: usize = 1000;

/// What the process has used so far.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    at: Instant,
    cpu: Duration,
    rss_kb: u64,
    hwm_kb: u64,
}

impl Usage {
    /// Reads the figures of this process from `/proc`; zeros where there is no such thing.
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
        }
    }
}

/// What was used between two looks.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// Time that passed.
    pub wall: Duration,
    /// Time of processors.
    pub cpu: Duration,
    /// How much more is resident, in kB; 0 where it is less.
    pub rss_kb: u64,
}

impl Usage {
    /// Returns what was used since an earlier look.
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
    // The second field is the name in parentheses, which may have spaces.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// Counts what a handler is told.
#[derive(Clone, Debug)]
pub struct Tally {
    began: Usage,
    synced: Option<Usage>,
    first_event: Option<Usage>,
    adds: u64,
    updates: u64,
    checksum: u64,
    latencies_us: Vec<u32>,
}

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is new.
    Add,
    /// It has changed.
    Update,
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

impl Tally {
    /// Begins to measure.
    #[must_use]
    pub fn new() -> Self {
        Self {
            began: Usage::now(),
            synced: None,
            first_event: None,
            adds: 0,
            updates: 0,
            checksum: 0,
            latencies_us: Vec::new(),
        }
    }

    /// Takes note that the first state is complete.
    pub fn synced(&mut self) {
        self.synced = Some(Usage::now());
    }

    /// Takes note of an event; returns whether it is the one at which the run ends.
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

    /// Takes note of how long an event took, where it carries the time at which it was sent.
    pub fn stamp(&mut self, stamp: &str) {
        if stamp.len() != 20 {
            return;
        }
        let Ok(sent) = stamp.parse::<u64>() else {
            return;
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let took = now.saturating_sub(Duration::from_nanos(sent));
        self.latencies_us
            .push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    /// Writes what was measured: one line, and a second one where events carried the time.
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
        let latencies = self.latencies_us.get_mut(WARM_UP..).unwrap_or_default();
        if !latencies.is_empty() {
            lines.push('\n');
            lines.push_str(&percentiles("latency_us", latencies));
        }
        lines
    }
}

/// Writes a line of what something took: `name p50=… p99=… max=… n=…`.
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
