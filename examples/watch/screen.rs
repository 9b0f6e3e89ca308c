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
use super::table::Table;
use super::writer::Line;

/// Formats events and reports as lines, and counts them.
pub(crate) struct Screen {
    output: Output,
    out: Style,
    errors: Style,
    /// What is watched, such as `pods in the namespace prod`.
    what: String,
    table: Table,
    began: Instant,
    synced: Option<Duration>,
    /// The number of calls of `tick`.
    ticks: u64,
    counts: [u64; 4],
}

/// The indexes of `Screen::counts`.
const ADDED: usize = 0;
const UPDATED: usize = 1;
const DELETED: usize = 2;
const REPLAYED: usize = 3;

impl Screen {
    pub(crate) fn new(output: Output, what: String, table: Table) -> Self {
        let out = match output {
            Output::Table => Style::stdout(),
            Output::Json | Output::JsonFull => Style::default(),
        };
        Self {
            output,
            out,
            errors: Style::stderr(),
            what,
            table,
            began: Instant::now(),
            synced: None,
            ticks: 0,
            counts: [0; 4],
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
        if matches!(event, Event::Synced) {
            return Some(self.synced_lines(&informer.health()));
        }
        let (sign, entry, note) = match event {
            Event::Added { entry, .. } => (('+', "32"), entry, ""),
            Event::Updated { new, .. } => (('~', "34"), new, ""),
            Event::Replayed { entry, .. } => (('=', "2"), entry, ""),
            Event::Deleted {
                entry,
                final_state_unknown,
            } => {
                let note = if *final_state_unknown {
                    " (the last known state)"
                } else {
                    ""
                };
                (('-', "31"), entry, note)
            }
            Event::Synced | _ => return None,
        };
        let name = (entry.namespace(), entry.name());
        let mut is_time = false;
        F::with_json(entry.value(), &mut |json| {
            is_time = self.table.add(sign, name, json, note);
        });
        if is_time { self.rows() } else { None }
    }

    /// Formats the rows that were held.
    pub(crate) fn rows(&mut self) -> Option<Line> {
        let (width, out) = (self.width(), self.out);
        let rows = self
            .table
            .print(width, |parameters, row| out.paint(parameters, row));
        (!rows.is_empty()).then(|| Line::Out(self.above_status(&rows.join("\n"))))
    }

    /// Formats the end of the initial list.
    fn synced_lines(&mut self, health: &Health) -> Line {
        let (width, out) = (self.width(), self.out);
        let mut lines = self
            .table
            .print(width, |parameters, row| out.paint(parameters, row));
        if health.objects == 0 {
            lines.push(fit(&format!("no {}", self.what), width));
        }
        let status = fit(&self.status_line(health), width);
        lines.push(out.paint("1", &status));
        let signs = "+ added, ~ updated, - deleted, = replayed";
        lines.push(out.paint("2", &fit(signs, width)));
        Line::Out(self.above_status(&lines.join("\n")))
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

    /// Returns what there is to print each second: rows that were held, the status line, or the progress of a list.
    pub(crate) fn tick(&mut self, health: &Health) -> Option<Line> {
        self.ticks += 1;
        if let Some(rows) = self.rows() {
            return Some(rows);
        }
        if self.out.redraws {
            // The cursor needs a column too.
            let width = self.width().map(|width| width.saturating_sub(1));
            let line = fit(&self.status_line(health), width);
            return Some(Line::Status(self.above_status(&self.out.paint("7", &line))));
        }
        // The first tick is immediate.
        let seconds = self.ticks - 1;
        let is_due =
            self.synced.is_none() && (seconds == 2 || (seconds > 0 && seconds.is_multiple_of(5)));
        is_due.then(|| {
            let (what, objects) = (&self.what, count(health.objects as u64, "object"));
            Line::Error(printable(&format!(
                "{what}: {objects} listed after {seconds} s"
            )))
        })
    }

    /// Formats the end of the program: rows that were held, and the counts.
    pub(crate) fn summary(&mut self, reports: u64) -> Option<Line> {
        if self.output != Output::Table {
            return None;
        }
        let (width, out) = (self.width(), self.out);
        let mut lines = self
            .table
            .print(width, |parameters, row| out.paint(parameters, row));
        let [added, updated, deleted, replayed] = self.counts;
        lines.push(format!(
            "in {:.1} s: {added} added, {updated} updated, {deleted} deleted, {replayed} replayed; {} reported",
            self.began.elapsed().as_secs_f32(),
            count(reports, "problem"),
        ));
        Some(Line::Out(self.above_status(&lines.join("\n"))))
    }

    fn status_line(&self, health: &Health) -> String {
        let mut line = match self.synced {
            Some(after) => format!("synced after {:.2} s", after.as_secs_f32()),
            None => "not synced yet".to_owned(),
        };
        line += &format!(", {}", count(health.objects as u64, "object"));
        if !health.resource_version.is_empty() {
            line += &format!(", resourceVersion {}", health.resource_version);
        }
        match health.lists.saturating_sub(1) {
            0 => {}
            relists => line += &format!(", {}", count(relists, "relist")),
        }
        line
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

/// Formats a number with its noun.
fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// Erases the line of the cursor.
const ERASE: &str = "\r\x1b[K";

/// Replaces characters with which a server could control the terminal.
pub(super) fn printable(text: &str) -> String {
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
