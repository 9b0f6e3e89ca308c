//! The text format of Prometheus, version 0.0.4.

use core::fmt::{self, Write as _};

use informer_core::queue::Spread;

use crate::controller::ControllerMetrics;
use crate::controller::metrics::{DEPTHS, FIGURES, labels};
use crate::health::figure::{Figure, Of, figures};
use crate::health::{HandlerHealth, Health, State};

#[expect(clippy::cast_precision_loss, reason = "the format has only floats")]
const INFORMER: &[Figure<Health>] = figures! {
    gauge "informer_synced" "1 if the cache is synced." |h| Some(bit(h.synced));
    gauge "informer_sources_not_synced" "Namespaces and clusters without a complete list." |h| Some(h.sources.iter().filter(|source| !source.synced).count() as f64);
    gauge "informer_running" "1 while the driver has not ended." |h| Some(bit(!h.ended));
    gauge "informer_incomplete" "1 if an object is missing: it did not fit, or it will come with the list that is due." |h| Some(bit(h.incomplete));
    gauge "informer_objects" "Objects in the cache." |h| Some(h.objects as f64);
    gauge "informer_object_bytes" "Bytes of JSON of the objects in the cache, as received." |h| Some(h.bytes as f64);
    gauge "informer_stale_objects" "Objects in an older state because the latest one could not be used." |h| Some(h.stale_count as f64);
    gauge "informer_state_age_seconds" "Time in the current state." |h| Some(h.state_age.as_secs_f64());
    gauge "informer_watch_age_seconds" "Time since the watch was opened." |h| Some(h.watch_age?.as_secs_f64());
    counter "informer_lists_total" "Completed lists." |h| Some(h.lists as f64);
    counter "informer_watches_total" "Opened watches." |h| Some(h.watches as f64);
    counter "informer_received_bytes_total" "Bytes of response bodies, decompressed." |h| Some(h.received_bytes as f64);
    gauge "informer_protobuf" "1 if the last response was in protobuf." |h| Some(bit(h.sources.iter().any(|source| source.format == Some("protobuf"))));
    counter "informer_failures_total" "Failed requests." |h| Some(h.failures as f64);
    gauge "informer_troubles" "Problems that are not resolved." |h| Some(h.troubles().count() as f64);
    counter "informer_audits_total" "Completed audits." |h| Some(h.audits as f64);
    gauge "informer_audit_age_seconds" "Time since the last completed audit." |h| Some(h.audit_age?.as_secs_f64());
    gauge "informer_drifted_objects" "Objects that differed permanently from the server in the last audit." |h| Some(h.drifted as f64);
};

#[expect(clippy::cast_precision_loss, reason = "the format has only floats")]
const HANDLER: &[Figure<HandlerHealth>] = figures! {
    gauge "informer_handler_pending" "Notifications that are pending for a handler." |h| Some(h.lag.pending as f64);
    gauge "informer_handler_behind_seconds" "Time for which a handler has continuously had pending notifications." |h| Some(h.lag.behind.as_secs_f64());
    counter "informer_handler_merged_total" "Notifications merged into others of the same key." |h| Some(h.lag.merged as f64);
    counter "informer_handler_calls_total" "Calls to a handler." |h| Some(h.calls as f64);
    counter "informer_handler_panics_total" "Calls to a handler that panicked." |h| Some(h.panics as f64);
};

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
    for figure in INFORMER {
        head(out, figure.name, figure.kind, figure.help)?;
        for health in all {
            if let Some(value) = figure.number(health) {
                let name = Label(&health.name);
                writeln!(out, "{}{{informer=\"{name}\"}} {value}", figure.name)?;
            }
        }
    }
    let help = "1 for the current state of the informer.";
    head(out, "informer_state", "gauge", help)?;
    for health in all {
        let name = Label(&health.name);
        for state in STATES {
            let is = bit(state == health.state);
            writeln!(
                out,
                "informer_state{{informer=\"{name}\",state=\"{state}\"}} {is}"
            )?;
        }
    }
    for figure in HANDLER {
        head(out, figure.name, figure.kind, figure.help)?;
        for health in all {
            // Handler names may not be unique, but series must be.
            let mut sums: Vec<(&str, f64)> = Vec::new();
            for handler in &health.handlers {
                let value = figure.number(handler).unwrap_or_default();
                match sums.iter_mut().find(|(name, _)| *name == handler.name) {
                    Some((_, sum)) => *sum += value,
                    None => sums.push((&handler.name, value)),
                }
            }
            let (series, name) = (figure.name, Label(&health.name));
            for (handler, value) in sums {
                let handler = Label(handler);
                writeln!(
                    out,
                    "{series}{{informer=\"{name}\",handler=\"{handler}\"}} {value}"
                )?;
            }
        }
    }
    Ok(())
}

fn of_controllers(out: &mut String, all: &[(String, ControllerMetrics)]) -> fmt::Result {
    let mut before = "";
    for figure in FIGURES {
        let series = figure.name;
        // The figures of one name are neighbours.
        if series != before {
            head(out, series, figure.kind, figure.help)?;
            before = series;
        }
        for (controller, metrics) in all {
            let labels: Vec<String> = labels(figure, controller)
                .map(|(label, value)| format!("{label}=\"{}\"", Label(value)))
                .collect();
            let labels = labels.join(",");
            match figure.of {
                Of::Spread(of) => histogram(out, series, &labels, of(metrics))?,
                Of::Number(of) => {
                    if let Some(value) = of(metrics) {
                        writeln!(out, "{series}{{{labels}}} {value}")?;
                    }
                }
            }
        }
    }
    let (series, help) = DEPTHS;
    head(out, series, "gauge", help)?;
    for (controller, metrics) in all {
        let controller = Label(controller);
        for (priority, depth) in &metrics.queue.depths {
            writeln!(
                out,
                "{series}{{controller=\"{controller}\",priority=\"{priority}\"}} {depth}"
            )?;
        }
    }
    Ok(())
}

fn histogram(out: &mut String, series: &str, labels: &str, spread: &Spread) -> fmt::Result {
    for (count, exponent) in spread.at_most.iter().zip(-6..) {
        writeln!(
            out,
            "{series}_bucket{{{labels},le=\"1e{exponent}\"}} {count}"
        )?;
    }
    let (count, sum) = (spread.count, spread.sum.as_secs_f64());
    writeln!(out, "{series}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
    writeln!(out, "{series}_sum{{{labels}}} {sum}")?;
    writeln!(out, "{series}_count{{{labels}}} {count}")
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn bit(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// A label value with the escapes of the format.
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
    fn histograms_have_a_bucket_for_each_power_of_ten() {
        let mut spread = Spread::default();
        spread += core::time::Duration::from_millis(20);
        spread += core::time::Duration::from_secs(3);
        let mut out = String::new();
        histogram(&mut out, "h", "c=\"x\"", &spread).expect("a String takes everything");
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[4], r#"h_bucket{c="x",le="1e-2"} 0"#);
        assert_eq!(lines[5], r#"h_bucket{c="x",le="1e-1"} 1"#);
        assert_eq!(lines[9], r#"h_bucket{c="x",le="1e3"} 2"#);
        let rest = [
            r#"h_bucket{c="x",le="+Inf"} 2"#,
            r#"h_sum{c="x"} 3.02"#,
            r#"h_count{c="x"} 2"#,
        ];
        assert_eq!(lines[10..], rest);
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(Label("a\"b\\c\nd").to_string(), r#"a\"b\\c\nd"#);
    }
}
