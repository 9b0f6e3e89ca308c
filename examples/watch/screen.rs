//! The output: a table for people, or JSON for programs.

use core::time::Duration;
use std::time::Instant;

use super::terminal::Style;
use informer::health::{Health, Level};
use informer::{Entry, Event, Form, Informer};
use serde_json::json;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::Output;
use super::heard::Heard;
use super::writer::Line;

/// Formats events and reports as lines, and counts them.
pub(crate) struct Screen {
    output: Output,
    out: Style,
    errors: Style,
    pods: bool,
    began: Instant,
    synced: Option<Duration>,
    counts: [u64; 4],
    has_header: bool,
}

/// The indexes of `Screen::counts`.
const ADDED: usize = 0;
const UPDATED: usize = 1;
const DELETED: usize = 2;
const REPLAYED: usize = 3;

/// Narrower terminals get no padding between columns.
const WIDE: usize = 100;

impl Screen {
    pub(crate) fn new(output: Output, pods: bool) -> Self {
        let out = match output {
            Output::Table => Style::stdout(),
            Output::Json | Output::JsonFull => Style::default(),
        };
        Self {
            output,
            out,
            errors: Style::stderr(),
            pods,
            began: Instant::now(),
            synced: None,
            counts: [0; 4],
            has_header: false,
        }
    }

    pub(crate) fn event<F: Form>(
        &mut self,
        event: &Event<F>,
        informer: &Informer<F>,
    ) -> Option<Line> {
        match event {
            Event::Added { .. } => self.counts[ADDED] += 1,
            Event::Updated { .. } => self.counts[UPDATED] += 1,
            Event::Deleted { .. } => self.counts[DELETED] += 1,
            Event::Replayed { .. } => self.counts[REPLAYED] += 1,
            Event::Synced => self.synced = Some(self.began.elapsed()),
            _ => {}
        }
        if self.output != Output::Table {
            let is_full = self.output == Output::JsonFull;
            return as_json(event, is_full).map(|value| Line::Out(value.to_string()));
        }
        let width = self.width();
        let mut row = if matches!(event, Event::Synced) {
            let line = self.status_line(&informer.health());
            self.out.paint("1", &fit(&line, width))
        } else {
            self.row(event, width)?
        };
        if !self.has_header {
            self.has_header = true;
            let header = fit(&self.header(width), width);
            row = format!("{}\n{row}", self.out.paint("1", &header));
        }
        Some(Line::Out(self.above_status(&row)))
    }

    /// Formats a report with its advice. Normal events are omitted from the table.
    pub(crate) fn report(&self, heard: &Heard, advice: Option<&str>) -> Option<Line> {
        if heard.level == Level::Debug && self.output == Output::Table {
            return None;
        }
        let text = match advice {
            Some(advice) => format!("{}. {advice}", heard.text.trim_end_matches('.')),
            None => heard.text.clone(),
        };
        let parameters = if heard.level >= Level::Warn {
            "33"
        } else {
            "2"
        };
        Some(self.notice(heard.class, parameters, &text))
    }

    /// Formats the end of an outage.
    pub(crate) fn recovered(&self, text: &str) -> Line {
        self.notice("recovered", "32", text)
    }

    fn notice(&self, class: &str, parameters: &str, text: &str) -> Line {
        match self.output {
            Output::Json | Output::JsonFull => {
                let line = json!({ "event": "report", "class": class, "message": text });
                Line::Out(line.to_string())
            }
            Output::Table => {
                let line = self
                    .errors
                    .paint(parameters, &printable(&format!("! {text}")));
                // The status line is on the same terminal, if both streams are terminals.
                let is_shared = self.out.redraws && self.errors.redraws;
                Line::Error(format!("{}{line}", if is_shared { ERASE } else { "" }))
            }
        }
    }

    /// The status line, which is redrawn on a terminal.
    pub(crate) fn status(&self, health: &Health) -> Option<Line> {
        self.out.redraws.then(|| {
            // The cursor needs a column too.
            let width = self.width().map(|width| width.saturating_sub(1));
            let line = fit(&self.status_line(health), width);
            Line::Status(self.above_status(&self.out.paint("7", &line)))
        })
    }

    pub(crate) fn summary(&self, health: &Health, reports: u64) -> Option<Line> {
        if self.output != Output::Table {
            return None;
        }
        let [added, updated, deleted, replayed] = self.counts;
        let status = self.out.paint("1", &self.status_line(health));
        let after = self.began.elapsed().as_secs_f32();
        let (s, verb) = if reports == 1 {
            ("", "was")
        } else {
            ("s", "were")
        };
        Some(Line::Out(self.above_status(&format!(
            "{status}\nIn {after:.1} s, {added} objects were added, {updated} updated, {deleted} deleted and {replayed} \
             replayed, and {reports} problem{s} {verb} reported."
        ))))
    }

    fn status_line(&self, health: &Health) -> String {
        let synced = match self.synced {
            Some(after) => format!("synced after {:.2} s", after.as_secs_f32()),
            None => "not synced yet".to_owned(),
        };
        format!("{synced}, {}", figures(health))
    }

    fn row<F: Form>(&self, event: &Event<F>, width: Option<usize>) -> Option<String> {
        let (parameters, sign, entry, change) = match event {
            Event::Added { entry, .. } => ("32", '+', entry, String::new()),
            Event::Updated { old, new } => {
                ("34", '~', new, format!(" was {}", old.resource_version()))
            }
            Event::Replayed { entry, .. } => ("2", '=', entry, String::new()),
            Event::Deleted {
                entry,
                final_state_unknown,
            } => {
                let unknown = if *final_state_unknown {
                    " (the last known state)"
                } else {
                    ""
                };
                ("31", '-', entry, unknown.to_owned())
            }
            Event::Synced | _ => return None,
        };
        let row = format!("{sign} {}{change}", self.columns(entry, width));
        Some(self.out.paint(parameters, &fit(&row, width)))
    }

    /// Names the columns and the signs.
    fn header(&self, width: Option<usize>) -> String {
        let names = match (self.pods, width.is_some_and(|width| width < WIDE)) {
            (true, true) => "NAMESPACE/NAME PHASE VERSION NODE".to_owned(),
            (false, true) => "NAMESPACE/NAME VERSION".to_owned(),
            (true, false) => format!(
                "{:<56} {:>10}  {:<10} NODE",
                "NAMESPACE/NAME", "VERSION", "PHASE"
            ),
            (false, false) => format!("{:<56} {:>10}", "NAMESPACE/NAME", "VERSION"),
        };
        format!("  {names}  (+ added, ~ updated, - deleted, = replayed)")
    }

    fn columns<F: Form>(&self, entry: &Entry<F>, width: Option<usize>) -> String {
        let key = entry.key().as_str();
        let version = entry.resource_version();
        let text = |path: [&str; 2]| entry.string_at(&path).unwrap_or_default();
        let is_narrow = width.is_some_and(|width| width < WIDE);
        if !self.pods {
            return if is_narrow {
                format!("{key} {version}")
            } else {
                format!("{key:<56} {version:>10}")
            };
        }
        let (mut phase, mut node) = (text(["status", "phase"]), text(["spec", "nodeName"]));
        F::with_message(entry.value(), &mut |pod| {
            let text = |path: [u32; 2]| pod.text(&path).unwrap_or_default().to_owned();
            (phase, node) = (text([3, 1]), text([2, 10]));
        });
        if is_narrow {
            format!("{key} {phase} {version} {node}")
        } else {
            format!("{key:<56} {version:>10}  {phase:<10} {node}")
        }
    }

    /// The current width of the terminal; `None` if there is none, or if it is unknown.
    fn width(&self) -> Option<usize> {
        let (width, _) = self
            .out
            .redraws
            .then(|| terminal_size::terminal_size_of(std::io::stdout()))??;
        Some(usize::from(width.0))
    }

    /// Formats a text so that it replaces the status line.
    fn above_status(&self, text: &str) -> String {
        format!("{}{text}", if self.out.redraws { ERASE } else { "" })
    }
}

fn figures(health: &Health) -> String {
    format!(
        "{} objects, resourceVersion {}, {} relists",
        health.objects,
        health.resource_version,
        health.lists.saturating_sub(1)
    )
}

/// Erases the line of the cursor.
const ERASE: &str = "\r\x1b[K";

/// Replaces characters with which a server could control the terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// Makes a text printable, and cuts it to the available columns.
pub(super) fn fit(text: &str, width: Option<usize>) -> String {
    let text = printable(text);
    let Some(width) = width.filter(|&width| text.width() > width) else {
        return text;
    };
    let mut room = width.saturating_sub(1);
    let fits = text.chars().take_while(|c| {
        let taken = c.width().unwrap_or(0);
        let fits = taken <= room;
        room = room.saturating_sub(taken);
        fits
    });
    let mut cut: String = fits.collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// The stable format for programs, one object per line.
fn as_json<F: Form>(event: &Event<F>, is_full: bool) -> Option<serde_json::Value> {
    let rv = |entry: &Entry<F>| entry.resource_version().to_string();
    let update = |old: &Entry<F>, new: &Entry<F>| json!({"event": "update", "key": new.key().as_str(), "rv": rv(new), "old_rv": rv(old)});
    let mut line = match event {
        Event::Added {
            entry,
            is_in_initial_list,
        } => {
            json!({"event": "add", "key": entry.key().as_str(), "rv": rv(entry), "initial": is_in_initial_list})
        }
        Event::Updated { old, new } => update(old, new),
        Event::Replayed { entry, .. } => update(entry, entry),
        Event::Deleted {
            entry,
            final_state_unknown,
        } => json!({
            "event": "delete", "key": entry.key().as_str(), "rv": rv(entry), "final_state_unknown": final_state_unknown,
        }),
        Event::Synced => json!({"event": "synced"}),
        _ => return None,
    };
    let entry = match event {
        Event::Added { entry, .. }
        | Event::Deleted { entry, .. }
        | Event::Replayed { entry, .. } => entry,
        Event::Updated { new, .. } => new,
        Event::Synced | _ => return Some(line),
    };
    if is_full {
        F::with_json(entry.value(), &mut |json| {
            line["object"] = serde_json::from_slice(json).unwrap_or_default();
        });
    }
    Some(line)
}
