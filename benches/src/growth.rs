//! Measures an informer of n, 10 n and 100 n objects, and names what grows faster than their number.

use std::io;
use std::process::{Command, Stdio};

use crate::compare::{Figures, Server, figures, median};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// n.
    pub pods: u64,
    /// The number of updates at each size.
    pub updates: u64,
    /// The number of bookmarks at each size.
    pub bookmarks: u32,
    /// How often each is measured; the table has medians.
    pub rounds: usize,
    /// The forms of the example `large`.
    pub forms: Vec<String>,
}

/// The largest growth of the cost of an object that counts as linear.
const LINEAR: f64 = 1.3;

/// A row of the table: what it shows, the figure, the earlier figure that is subtracted, the unit, and how many of it are in one
/// of the figure.
type Row = (&'static str, &'static str, &'static str, &'static str, f64);

/// What is expected to grow as the number of objects.
const OF_ALL: [Row; 8] = [
    ("sync", "sync_s", "", "ms", 1e3),
    ("CPU for it", "sync_cpu_s", "", "ms", 1e3),
    ("resident after it", "sync_rss_kb", "", "MB", 1e-3),
    ("at most, with a relist", "relist_hwm_kb", "", "MB", 1e-3),
    ("CPU for a relist", "relist_cpu_s", "sync_cpu_s", "ms", 1e3),
    (
        "resident after the updates",
        "updates_rss_kb",
        "",
        "MB",
        1e-3,
    ),
    ("CPU for a resync", "resync_cpu_s", "", "ms", 1e3),
    ("a namespace by index", "by_index_us", "", "µs", 1.0),
];
/// What is expected to stay the same.
const OF_ONE: [Row; 3] = [
    (
        "CPU for the updates",
        "updates_cpu_s",
        "relist_cpu_s",
        "ms",
        1e3,
    ),
    ("CPU for a bookmark", "bookmark_cpu_us", "", "µs", 1.0),
    ("a read by key", "get_us", "", "µs", 1.0),
];

/// Runs the plan; returns the table.
///
/// # Errors
/// Fails if a program cannot be run or does not succeed.
pub fn run(plan: &Plan) -> io::Result<String> {
    let mut out =
        String::from("| form | figure | n | 10 n | 100 n | growth |\n|---|---|---|---|---|---|");
    let mut faster = Vec::new();
    let sizes = [1, 10, 100].map(|times| plan.pods * times);
    for form in &plan.forms {
        let mut runs = [const { Vec::new() }; 3];
        for (runs, pods) in runs.iter_mut().zip(sizes) {
            for _ in 0..plan.rounds.max(1) {
                runs.push(measure(plan, form, pods)?);
            }
        }
        for (rows, of_all) in [(&OF_ALL[..], true), (&OF_ONE[..], false)] {
            for row in rows {
                let Some((line, growth)) = show(row, &runs, of_all.then_some(sizes)) else {
                    continue;
                };
                out.push_str(&format!("\n| `{form}` | {line} | {growth:.2} |"));
                if growth > LINEAR {
                    faster.push(format!("`{form}`: {} ({growth:.2})", row.0));
                }
            }
        }
    }
    let faster = if faster.is_empty() {
        "nothing".to_owned()
    } else {
        faster.join(", ")
    };
    Ok(format!(
        "{out}\n\nn is {}. Grows by over {LINEAR} times: {faster}.",
        plan.pods
    ))
}

fn measure(plan: &Plan, form: &str, pods: u64) -> io::Result<Figures> {
    let bookmarks = format!("--bookmarks={}", plan.bookmarks);
    let server = Server::start(&[
        format!("--pods={pods}"),
        format!("--updates={}", plan.updates),
        bookmarks.clone(),
        "--expires".to_owned(),
    ])?;
    let client = std::env::current_exe()?
        .with_file_name("examples")
        .join("large");
    let output = Command::new(client)
        .args([
            "--server",
            &server.url,
            "--form",
            form,
            "--expires",
            &bookmarks,
        ])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(io::Error::other(format!("large failed: {text}")));
    }
    Ok(figures(&text))
}

/// Returns the cells of a row, and its growth. With `sizes` that is the cost of one of the objects from 10 n to 100 n, relative to
/// one of those from n to 10 n, so that what a program costs without objects does not count.
fn show(row: &Row, runs: &[Vec<Figures>; 3], sizes: Option<[u64; 3]>) -> Option<(String, f64)> {
    let (what, figure, earlier, unit, times) = row;
    let mut values = [0.0; 3];
    for (value, runs) in values.iter_mut().zip(runs) {
        let subtracted = median(runs, earlier).unwrap_or(0.0);
        *value = (median(runs, figure)? - subtracted) * times;
    }
    let [few, more, many] = values;
    let growth = match sizes {
        Some([n, n10, n100]) => {
            let (first, second) = ((n10 - n) as f64, (n100 - n10) as f64);
            (many - more) / second / ((more - few) / first)
        }
        None => many / few,
    };
    let cells = values.map(|value| format!("{value:.*} {unit}", usize::from(value < 10.0) * 2));
    Some((format!("{what} | {}", cells.join(" | ")), growth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_leaves_out_what_a_program_costs_without_objects() {
        let runs = [1000.0, 1900.0, 12_700.0].map(|kb| vec![figures(&format!("sync_rss_kb={kb}"))]);
        let row = ("memory", "sync_rss_kb", "", "MB", 1e-3);
        let (line, growth) = show(&row, &runs, Some([100, 1000, 10_000])).unwrap();
        assert_eq!(line, "memory | 1.00 MB | 1.90 MB | 13 MB");
        assert!((growth - 1.2).abs() < 1e-9, "{growth}");
        let (_, growth) = show(&row, &runs, None).unwrap();
        assert!((growth - 12.7).abs() < 1e-9, "{growth}");
        let absent = ("memory", "sync_hwm_kb", "", "MB", 1e-3);
        assert!(show(&absent, &runs, None).is_none());
    }
}
