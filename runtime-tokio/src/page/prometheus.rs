//! The text format of Prometheus, version 0.0.4.

use core::fmt::{self, Write as _};
use core::time::Duration;

use informer_core::queue::Spread;

use crate::controller::ControllerMetrics;
use crate::health::Health;
use crate::metrics::figure::{Kind, Labels, Value};
use crate::metrics::tables::families;

pub(super) fn text(all: &[Health], controllers: &[(String, ControllerMetrics)]) -> String {
    let mut out = String::new();
    // Writing into a `String` does not fail.
    let _ = write_text(&mut out, all, controllers);
    out
}

fn write_text(
    out: &mut String,
    all: &[Health],
    controllers: &[(String, ControllerMetrics)],
) -> fmt::Result {
    for mut family in families(all, controllers) {
        family
            .series
            .retain(|(_, value)| !matches!(value, Value::Unknown));
        if family.series.is_empty() {
            continue;
        }
        let (name, help) = (family.name, family.help);
        let kind = match family.kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        };
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        for (labels, value) in &family.series {
            let labels = text_of(labels);
            match value {
                Value::Number(value) => writeln!(out, "{name}{{{labels}}} {value}")?,
                Value::Histogram(spread) => histogram(out, name, &labels, spread)?,
                Value::Unknown => {}
            }
        }
    }
    Ok(())
}

fn text_of(labels: &Labels) -> String {
    let labels: Vec<String> = labels
        .iter()
        .map(|(label, value)| format!("{label}=\"{}\"", Label(value)))
        .collect();
    labels.join(",")
}

fn histogram(out: &mut String, name: &str, labels: &str, spread: &Spread) -> fmt::Result {
    for (bound, count) in spread.at_most() {
        let bound = Bound(bound);
        writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}")?;
    }
    let (count, sum) = (spread.count, spread.sum.as_secs_f64());
    writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
    writeln!(out, "{name}_sum{{{labels}}} {sum}")?;
    writeln!(out, "{name}_count{{{labels}}} {count}")
}

/// The bound of a bucket in seconds, as Go's client writes it: series of several programs are added by this text.
struct Bound(Duration);

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Go's client computes powers of ten by multiplication, and two of them are not exact.
        match self.0.as_nanos() {
            10 => f.write_str("1e-08"),
            100 => f.write_str("1e-07"),
            1_000 => f.write_str("1e-06"),
            10_000 => f.write_str("9.999999999999999e-06"),
            100_000 => f.write_str("9.999999999999999e-05"),
            _ => write!(f, "{}", self.0.as_secs_f64()),
        }
    }
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
    fn histograms_have_the_buckets_of_go_programs() {
        let mut spread = Spread::default();
        spread += Duration::from_millis(20);
        spread += Duration::from_secs(3);
        let mut out = String::new();
        histogram(&mut out, "h", "c=\"x\"", &spread).expect("a String takes everything");
        let lines: Vec<&str> = out.lines().collect();
        let bounds: Vec<&str> = lines[..12]
            .iter()
            .filter_map(|line| line.split('"').nth(3))
            .collect();
        let in_go = [
            "1e-08",
            "1e-07",
            "1e-06",
            "9.999999999999999e-06",
            "9.999999999999999e-05",
            "0.001",
            "0.01",
            "0.1",
            "1",
            "10",
            "100",
            "1000",
        ];
        assert_eq!(bounds, in_go);
        assert_eq!(lines[6], r#"h_bucket{c="x",le="0.01"} 0"#);
        assert_eq!(lines[7], r#"h_bucket{c="x",le="0.1"} 1"#);
        let rest = [
            r#"h_bucket{c="x",le="+Inf"} 2"#,
            r#"h_sum{c="x"} 3.02"#,
            r#"h_count{c="x"} 2"#,
        ];
        assert_eq!(lines[12..], rest);
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(Label("a\"b\\c\nd").to_string(), r#"a\"b\\c\nd"#);
    }
}
