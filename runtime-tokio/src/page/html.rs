//! The HTML page.

use core::fmt::{self, Write as _};
use core::time::Duration;

use crate::controller::ControllerMetrics;
use crate::health::{Health, Trouble};

const STYLE: &str = "
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-bottom: .3rem; }
section { border-top: 1px solid #8886; padding: .5rem 0 1rem; }
.badge { padding: .1rem .5rem; border-radius: .6rem; font-size: .85rem; color: #fff; }
.well { background: #186a3b; } .busy { background: #7a5200; } .ill { background: #a3160f; }
.trouble { border-left: 4px solid #a3160f; padding-left: .7rem; }
.trouble.over { border-color: #8888; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { text-align: left; padding: .1rem 1rem .1rem 0; vertical-align: top; }
th { font-weight: 600; } h1, h2, p, td { overflow-wrap: anywhere; }
@media (max-width: 40rem) {
.list tr:first-child { display: none; } .list tr, .list td { display: block; } .list tr { margin-bottom: .5rem; }
.list td::before { content: attr(data-of) \": \"; font-weight: 600; }
}
";

pub(super) fn page(
    title: &str,
    all: &[Health],
    controllers: &[(String, ControllerMetrics)],
) -> String {
    let mut out = String::new();
    // Writing into a `String` does not fail.
    let _ = write_page(&mut out, title, all, controllers);
    out
}

fn write_page(
    out: &mut String,
    title: &str,
    all: &[Health],
    controllers: &[(String, ControllerMetrics)],
) -> fmt::Result {
    let title = Escaped(title);
    let synced = all.iter().filter(|health| health.synced).count();
    let mut state = format!("{synced} of {} informers are synced", all.len());
    // One that is synced may have ended, or be incomplete.
    let in_trouble = |health: &&Health| {
        health.troubles().next().is_some() || (health.synced && !health.is_well())
    };
    match all.iter().filter(in_trouble).count() {
        0 => {}
        count => write!(state, ", {count} in trouble")?,
    }
    for (name, metrics) in controllers {
        if metrics.election_error.is_some() {
            write!(state, ", the election of {} fails", Escaped(name))?;
        }
    }
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><meta http-equiv=\"refresh\" content=\"5\">\
         <title>{title}: {state}</title><style>{STYLE}</style></head><body>\n\
         <h1>{title}</h1>\n<p>{state}. \
         <a href=\"health.json\">JSON</a>, <a href=\"metrics\">metrics</a></p>\n",
    )?;
    for health in all {
        informer(out, health)?;
    }
    for (name, metrics) in controllers {
        controller(out, name, metrics)?;
    }
    out.write_str("</body></html>\n")
}

fn controller(out: &mut String, name: &str, metrics: &ControllerMetrics) -> fmt::Result {
    writeln!(out, "<section><h2>controller {}</h2><table>", Escaped(name))?;
    let queue = &metrics.queue;
    row(
        out,
        "runs",
        format_args!(
            "{} succeeded, {} failed, {} panicked, {} cut",
            metrics.succeeded, metrics.failed, metrics.panicked, metrics.cut
        ),
    )?;
    row(
        out,
        "running",
        format_args!(
            "{}, the longest for {}",
            metrics.running,
            Time(queue.longest_running)
        ),
    )?;
    for key in &metrics.long_runs {
        row(out, "running for over ten minutes", Escaped(key.as_str()))?;
    }
    if let Some(is_active) = metrics.is_active {
        let leader = Escaped(metrics.leader.as_deref().unwrap_or_default());
        match (is_active, &metrics.leader) {
            (true, Some(_)) => row(out, "election", format_args!("leads as {leader}"))?,
            (true, None) => row(out, "election", "takes part")?,
            (false, Some(_)) => row(out, "election", format_args!("waits; {leader} leads"))?,
            (false, None) => row(out, "election", "waits")?,
        }
    }
    if let Some(error) = &metrics.election_error {
        row(out, "election fails", Prose(error))?;
    }
    row(out, "waiting", queue.depth)?;
    row(
        out,
        "delayed",
        format_args!("{}; there were {} retries", queue.delayed, queue.retries),
    )?;
    row(
        out,
        "writes",
        format_args!(
            "{} keys wait for their writes, {} writes were not seen in time",
            metrics.waiting_for_writes, metrics.writes_not_seen
        ),
    )?;
    out.write_str("</table></section>\n")
}

/// Returns the class and the text of an informer's badge.
fn badge(health: &Health) -> (&'static str, &'static str) {
    if health.ended {
        ("ill", "ended")
    } else if health.is_well() {
        ("well", "synced")
    } else if health.incomplete {
        ("ill", "incomplete")
    } else if health.synced {
        ("busy", "synced, with stale objects")
    } else if health.troubles().next().is_some() {
        ("ill", "not synced")
    } else {
        ("busy", "not synced yet")
    }
}

fn informer(out: &mut String, health: &Health) -> fmt::Result {
    let (class, word) = badge(health);
    writeln!(
        out,
        "<section><h2>{} <span class=\"badge {class}\">{word}</span></h2>",
        Escaped(&health.name)
    )?;
    for source in &health.sources {
        if let Some(trouble) = &source.trouble {
            trouble_of(out, trouble, &source.namespace)?;
        }
    }
    if let Some(trouble) = &health.last_error
        && !health
            .sources
            .iter()
            .any(|source| source.trouble.as_ref() == Some(trouble))
    {
        trouble_of(out, trouble, "")?;
    }
    out.write_str("<table>\n")?;
    row(
        out,
        "state",
        format_args!("{} for {}", health.state, Time(health.state_age)),
    )?;
    row(out, "resource", Escaped(&health.resource))?;
    row(
        out,
        "objects",
        format_args!("{} ({} as JSON)", health.objects, Bytes(health.bytes)),
    )?;
    row(
        out,
        "resourceVersion",
        format_args!("<code>{}</code>", Escaped(&health.resource_version)),
    )?;
    row(
        out,
        "lists",
        format_args!("{}, of them relists: {}", health.lists, health.relists),
    )?;
    row(out, "failures", health.failures)?;
    match health.watch_age {
        Some(age) => row(out, "watch", format_args!("open for {}", Time(age)))?,
        None => row(out, "watch", "not open")?,
    }
    match (health.staleness, health.staleness_unknown) {
        (Some(time), _) => row(out, "staleness", format_args!("at most {}", Time(time)))?,
        (None, Some(why)) => row(out, "staleness", format_args!("not known: {why}"))?,
        (None, None) => {}
    }
    if let Some(age) = health.audit_age {
        row(
            out,
            "audits",
            format_args!(
                "{}, the last one {} ago with {} differing objects",
                health.audits,
                Time(age),
                health.drifted
            ),
        )?;
    }
    if health.stale_count > 0 {
        let keys = health.stale.join(", ");
        row(
            out,
            "stale",
            format_args!("{}: <code>{}</code>", health.stale_count, Escaped(&keys)),
        )?;
    }
    out.write_str("</table>\n")?;
    sources(out, health)?;
    handlers(out, health)?;
    out.write_str("</section>\n")
}

fn trouble_of(out: &mut String, trouble: &Trouble, namespace: &str) -> fmt::Result {
    let over = if trouble.is_over { " over" } else { "" };
    write!(out, "<div class=\"trouble{over}\"><p>")?;
    if !namespace.is_empty() {
        write!(out, "<b>{}</b>: ", Escaped(namespace))?;
    }
    write!(
        out,
        "{} <small>({}, {} ago{})</small></p>",
        Prose(&trouble.message),
        Escaped(trouble.class),
        Time(trouble.age),
        if trouble.is_over { ", resolved" } else { "" }
    )?;
    if let Some(advice) = &trouble.advice {
        write!(out, "<p>{}</p>", Prose(advice))?;
    }
    out.write_str("</div>\n")
}

fn sources(out: &mut String, health: &Health) -> fmt::Result {
    if health.sources.len() < 2 {
        return Ok(());
    }
    let names = ["namespace", "state", "synced", "resourceVersion"];
    columns(out, &names)?;
    for source in &health.sources {
        let state = format_args!("{} for {}", source.state, Time(source.state_age)).to_string();
        let version = format!("<code>{}</code>", Escaped(&source.resource_version));
        let namespace = Escaped(&source.namespace);
        cells(
            out,
            &names,
            &[&namespace, &state, &yes(source.synced), &version],
        )?;
    }
    out.write_str("</table>\n")
}

fn handlers(out: &mut String, health: &Health) -> fmt::Result {
    if health.handlers.is_empty() {
        return Ok(());
    }
    let names = [
        "handler", "synced", "pending", "behind", "merged", "calls", "panics",
    ];
    columns(out, &names)?;
    for handler in &health.handlers {
        let (name, behind) = (Escaped(&handler.name), Time(handler.lag.behind));
        let (pending, merged) = (&handler.lag.pending, &handler.lag.merged);
        let cells: [&dyn fmt::Display; 7] = [
            &name,
            &yes(handler.synced),
            pending,
            &behind,
            merged,
            &handler.calls,
            &handler.panics,
        ];
        self::cells(out, &names, &cells)?;
    }
    out.write_str("</table>\n")
}

const fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// Writes the head of a table with a row for each thing.
fn columns(out: &mut String, names: &[&str]) -> fmt::Result {
    out.write_str("<table class=\"list\"><tr>")?;
    for name in names {
        write!(out, "<th>{name}</th>")?;
    }
    out.write_str("</tr>\n")
}

/// Writes a row. On a narrow screen each cell is a line, with the name of its column.
fn cells(out: &mut String, names: &[&str], cells: &[&dyn fmt::Display]) -> fmt::Result {
    out.write_str("<tr>")?;
    for (name, cell) in names.iter().zip(cells) {
        write!(out, "<td data-of=\"{name}\">{cell}</td>")?;
    }
    out.write_str("</tr>\n")
}

fn row(out: &mut String, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(out, "<tr><th>{name}</th><td>{value}</td></tr>")
}

/// A sentence with HTML escapes. What is between backticks is code.
struct Prose<'a>(&'a str);

impl fmt::Display for Prose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((text, after)) = rest.split_once('`')
            && let Some((code, after)) = after.split_once('`')
        {
            write!(f, "{}<code>{}</code>", Escaped(text), Escaped(code))?;
            rest = after;
        }
        Escaped(rest).fmt(f)
    }
}

/// Text with HTML escapes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0..60 => write!(f, "{:.1} s", self.0.as_secs_f32()),
            seconds @ 60..3600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            seconds @ 3600..86400 => write!(f, "{} h {} min", seconds / 3600, seconds / 60 % 60),
            seconds => write!(f, "{} d {} h", seconds / 86400, seconds / 3600 % 24),
        }
    }
}

struct Bytes(usize);

impl fmt::Display for Bytes {
    #[expect(
        clippy::cast_precision_loss,
        reason = "the precision is sufficient for people"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes @ 0..1024 => write!(f, "{bytes} B"),
            bytes @ 1024..1_048_576 => write!(f, "{:.1} KiB", bytes as f64 / 1024.0),
            bytes => write!(f, "{:.1} MiB", bytes as f64 / 1_048_576.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_server_is_escaped() {
        assert_eq!(
            Escaped("<script>\"a\" & 'b'").to_string(),
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;"
        );
        let text = "The verb `<list>` on `pods`, and a ` & more";
        let shown = "The verb <code>&lt;list&gt;</code> on <code>pods</code>, and a ` &amp; more";
        assert_eq!(Prose(text).to_string(), shown);
    }

    #[test]
    fn times_and_sizes_are_for_people() {
        let time = |seconds| Time(Duration::from_secs(seconds)).to_string();
        assert_eq!(
            [time(5), time(75), time(3_700), time(100_000)],
            ["5.0 s", "1 min 15 s", "1 h 1 min", "1 d 3 h"]
        );
        let bytes = |bytes| Bytes(bytes).to_string();
        assert_eq!(
            [bytes(5), bytes(2048), bytes(3 << 20)],
            ["5 B", "2.0 KiB", "3.0 MiB"]
        );
    }
}
