//! The text format of Prometheus, version 0.0.4.

use core::fmt::{self, Write as _};

use crate::controller::ControllerMetrics;
use crate::health::{Health, State};

/// A figure that each informer has.
struct Figure {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    of: fn(&Health) -> Option<f64>,
}

#[expect(clippy::cast_precision_loss, reason = "the format has floats alone")]
const FIGURES: [Figure; 15] = [
    Figure {
        name: "informer_synced",
        kind: "gauge",
        help: "1 where the cache has shown a complete list.",
        of: |health| Some(bit(health.synced)),
    },
    Figure {
        name: "informer_running",
        kind: "gauge",
        help: "1 while the driver has not ended.",
        of: |health| Some(bit(!health.ended)),
    },
    Figure {
        name: "informer_incomplete",
        kind: "gauge",
        help: "1 where something was refused for want of room.",
        of: |health| Some(bit(health.incomplete)),
    },
    Figure {
        name: "informer_objects",
        kind: "gauge",
        help: "Objects in the cache.",
        of: |health| Some(health.objects as f64),
    },
    Figure {
        name: "informer_object_bytes",
        kind: "gauge",
        help: "Bytes of these objects as they came, as JSON.",
        of: |health| Some(health.bytes as f64),
    },
    Figure {
        name: "informer_stale_objects",
        kind: "gauge",
        help: "Objects whose latest state could not be used.",
        of: |health| Some(health.stale_count as f64),
    },
    Figure {
        name: "informer_state_age_seconds",
        kind: "gauge",
        help: "For how long the informer has been in its state.",
        of: |health| Some(health.state_age.as_secs_f64()),
    },
    Figure {
        name: "informer_watch_age_seconds",
        kind: "gauge",
        help: "For how long the watch has been open.",
        of: |health| Some(health.watch_age?.as_secs_f64()),
    },
    Figure {
        name: "informer_lists_total",
        kind: "counter",
        help: "Lists that were completed.",
        of: |health| Some(health.lists as f64),
    },
    Figure {
        name: "informer_watches_total",
        kind: "counter",
        help: "Watches that were opened.",
        of: |health| {
            Some(
                health
                    .sources
                    .iter()
                    .map(|source| source.watches)
                    .sum::<u64>() as f64,
            )
        },
    },
    Figure {
        name: "informer_failures_total",
        kind: "counter",
        help: "Requests that failed, or ended in a failure.",
        of: |health| Some(health.failures as f64),
    },
    Figure {
        name: "informer_troubles",
        kind: "gauge",
        help: "Failures that nothing has mended yet.",
        of: |health| Some(health.troubles().count() as f64),
    },
    Figure {
        name: "informer_audits_total",
        kind: "counter",
        help: "Audits that have come to their end.",
        of: |health| Some(health.audits as f64),
    },
    Figure {
        name: "informer_audit_age_seconds",
        kind: "gauge",
        help: "How long ago the last audit came to its end.",
        of: |health| Some(health.audit_age?.as_secs_f64()),
    },
    Figure {
        name: "informer_drifted_objects",
        kind: "gauge",
        help: "Objects that differed from the server for good when the last audit ended.",
        of: |health| Some(health.drifted as f64),
    },
];

const STATES: [State; 8] = [
    State::Watching,
    State::Opening,
    State::Listing,
    State::Streaming,
    State::NotStarted,
    State::Waiting,
    State::Stopping,
    State::Ended,
];

pub(super) fn text(all: &[Health], controllers: &[(String, ControllerMetrics)]) -> String {
    let mut out = String::new();
    // Writing into a `String` does not fail.
    let _ = write_text(&mut out, all);
    let _ = of_controllers(&mut out, controllers);
    out
}

fn write_text(out: &mut String, all: &[Health]) -> fmt::Result {
    for figure in &FIGURES {
        head(out, figure.name, figure.kind, figure.help)?;
        for health in all {
            if let Some(value) = (figure.of)(health) {
                let name = figure.name;
                writeln!(
                    out,
                    "{name}{{informer=\"{}\"}} {value}",
                    Label(&health.name)
                )?;
            }
        }
    }
    head(
        out,
        "informer_state",
        "gauge",
        "1 for the state that the informer is in.",
    )?;
    for health in all {
        for state in STATES {
            writeln!(
                out,
                "informer_state{{informer=\"{}\",state=\"{state}\"}} {}",
                Label(&health.name),
                bit(state == health.state)
            )?;
        }
    }
    handlers(out, all)
}

#[expect(clippy::cast_precision_loss, reason = "the format has floats alone")]
fn handlers(out: &mut String, all: &[Health]) -> fmt::Result {
    type Of = fn(&crate::health::HandlerHealth) -> f64;
    let figures: [(&str, &str, &str, Of); 5] = [
        (
            "informer_handler_pending",
            "gauge",
            "Notifications that wait for a handler.",
            |h| h.lag.pending as f64,
        ),
        (
            "informer_handler_behind_seconds",
            "gauge",
            "For how long it has not been without work.",
            |h| h.lag.behind.as_secs_f64(),
        ),
        (
            "informer_handler_merged_total",
            "counter",
            "Notifications merged into others of the same key.",
            |h| h.lag.merged as f64,
        ),
        (
            "informer_handler_calls_total",
            "counter",
            "Calls of a handler.",
            |h| h.calls as f64,
        ),
        (
            "informer_handler_panics_total",
            "counter",
            "Calls that panicked.",
            |h| h.panics as f64,
        ),
    ];
    for (name, kind, help, of) in figures {
        head(out, name, kind, help)?;
        for health in all {
            // A name may be given twice; a series may not.
            let mut seen: Vec<(&str, f64)> = Vec::new();
            for handler in &health.handlers {
                match seen.iter_mut().find(|(name, _)| *name == handler.name) {
                    Some((_, sum)) => *sum += of(handler),
                    None => seen.push((&handler.name, of(handler))),
                }
            }
            for (handler, value) in seen {
                writeln!(
                    out,
                    "{name}{{informer=\"{}\",handler=\"{}\"}} {value}",
                    Label(&health.name),
                    Label(handler)
                )?;
            }
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "the format has floats alone")]
fn of_controllers(out: &mut String, all: &[(String, ControllerMetrics)]) -> fmt::Result {
    type Of = fn(&ControllerMetrics) -> f64;
    let figures: [(&str, &str, &str, Of); 7] = [
        (
            "informer_controller_queue_depth",
            "gauge",
            "Keys that wait for a worker.",
            |c| c.queue.depth as f64,
        ),
        (
            "informer_controller_delayed",
            "gauge",
            "Keys that wait for their time.",
            |c| c.queue.delayed as f64,
        ),
        (
            "informer_controller_running",
            "gauge",
            "Keys that are reconciled now.",
            |c| c.running as f64,
        ),
        (
            "informer_controller_longest_running_seconds",
            "gauge",
            "For how long the key has been worked on that was begun first.",
            |c| c.queue.longest_running.as_secs_f64(),
        ),
        (
            "informer_controller_waiting_for_writes",
            "gauge",
            "Keys that wait for the cache to show what they wrote.",
            |c| c.waiting_for_writes as f64,
        ),
        (
            "informer_controller_retries_total",
            "counter",
            "Keys that were tried again after a failure.",
            |c| c.queue.retries as f64,
        ),
        (
            "informer_controller_writes_not_seen_total",
            "counter",
            "Writes that the cache did not show in time.",
            |c| c.writes_not_seen as f64,
        ),
    ];
    for (name, kind, help, of) in figures {
        head(out, name, kind, help)?;
        for (controller, metrics) in all {
            writeln!(
                out,
                "{name}{{controller=\"{}\"}} {}",
                Label(controller),
                of(metrics)
            )?;
        }
    }
    let name = "informer_controller_runs_total";
    head(
        out,
        name,
        "counter",
        "Runs of the reconcile function, by result.",
    )?;
    for (controller, metrics) in all {
        for (result, count) in [
            ("succeeded", metrics.succeeded),
            ("failed", metrics.failed),
            ("panicked", metrics.panicked),
            ("cut", metrics.cut),
        ] {
            writeln!(
                out,
                "{name}{{controller=\"{}\",result=\"{result}\"}} {count}",
                Label(controller)
            )?;
        }
    }
    Ok(())
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn bit(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// The value of a label, as the format wants it.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(Label("a\"b\\c\nd").to_string(), r#"a\"b\\c\nd"#);
    }
}
