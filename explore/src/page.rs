//! A failure as a page: one HTML file without anything from elsewhere.

use core::fmt::{self, Write as _};
use std::collections::BTreeSet;

use super::failure::Failure;
use super::trace::{Entry, EntryKind, SERVER, Trace, seconds};

const STYLE: &str = include_str!("page.css");

/// The width of a lane in pixels, as in the style.
const LANE: usize = 132;

/// The most rows of the timeline, so that a browser can show it.
const ROWS: usize = 5_000;

impl Failure {
    /// Returns the failure as a page in HTML: a timeline with a lane for each actor, and the requests and events
    /// between them.
    #[must_use]
    pub fn html(&self) -> String {
        let mut page = String::new();
        // Writing to a string does not fail.
        let _ = self.render(&mut page);
        page
    }

    fn render(&self, page: &mut String) -> fmt::Result {
        let name = self.name();
        write!(
            page,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name}: {}</title>\n<style>{STYLE}</style></head>\n<body>\n",
            Text(&self.check)
        )?;
        write!(
            page,
            "<h1>{name} fails</h1>\n<dl><dt>Expected</dt><dd>{}</dd><dt>Found</dt><dd class=\"bad\">{}</dd><dt>To replay it</dt><dd><code>{}</code></dd></dl>\n",
            Text(&self.check),
            Text(&self.what),
            Text(&self.command())
        )?;
        let warning = self.warning();
        if !warning.is_empty() {
            page.push_str("<section class=\"warning\"><h2>Not deterministic</h2>");
            for paragraph in &warning {
                write!(page, "<pre>{}</pre>", Text(paragraph))?;
            }
            page.push_str("</section>\n");
        }
        if !self.actions.is_empty() {
            write!(
                page,
                "<h2>{}</h2>\n<p>{} of {} actions; {}.</p>\n<table class=\"plan\">",
                self.title(),
                self.actions.len(),
                self.all_actions,
                Text(&self.settings)
            )?;
            for action in &self.actions {
                let (at, what) = (seconds(action.at), Text(&action.what));
                write!(page, "<tr><td class=\"time\">{at}</td><td>{what}</td></tr>")?;
            }
            page.push_str("</table>\n");
        }
        page.push_str("<h2>What happened</h2>\n");
        timeline(page, &self.trace)?;
        page.push_str("</body></html>\n");
        Ok(())
    }
}

fn timeline(page: &mut String, trace: &Trace) -> fmt::Result {
    let order = Order::new(trace);
    page.push_str(
        "<p class=\"filters\">Show <label><input type=\"checkbox\" id=\"reads\" checked> reads</label> \
         <label><input type=\"checkbox\" id=\"events\" checked> events</label> \
         <label><input type=\"checkbox\" id=\"bodies\" checked> bodies</label> \
         <label><input type=\"checkbox\" id=\"logs\" checked> log lines</label></p>\n\
         <div class=\"timeline\">\n<div class=\"row head\"><div class=\"time\"></div><div class=\"lanes\">",
    );
    for lane in &order.lanes {
        let name = trace.lanes().get(*lane).map_or("", String::as_str);
        write!(page, "<b style=\"width:{LANE}px\">{}</b>", Text(name))?;
    }
    page.push_str("</div><div class=\"what\"></div></div>\n");
    let mut last = None;
    let (first, omitted, rest) = trace.part(ROWS).split();
    for (index, entry) in first.iter().chain(rest).enumerate() {
        if index == first.len() {
            writeln!(
                page,
                "<div class=\"row\"><div class=\"time\"></div><div class=\"what\">… {omitted} more</div></div>"
            )?;
        }
        // A time is written when it changes.
        let time = seconds(entry.at);
        let shown = if last.as_ref() == Some(&time) {
            ""
        } else {
            &time
        };
        row(page, &order, entry, shown)?;
        last = Some(time);
    }
    page.push_str("</div>\n");
    Ok(())
}

/// The lanes from left to right: users and other actors, the server, the processes.
struct Order {
    lanes: Vec<usize>,
    /// The numbers of the requests that read.
    reads: BTreeSet<Option<usize>>,
}

impl Order {
    fn new(trace: &Trace) -> Self {
        let all = 1..trace.lanes().len();
        let is_process = |lane: &usize| {
            let requests = |entry: &Entry| entry.lane == *lane && entry.request.is_some();
            trace.lanes()[*lane].starts_with("controller") || trace.entries().any(requests)
        };
        let used = |lane: &usize| {
            trace
                .entries()
                .any(|entry| [entry.lane, entry.peer].contains(lane))
        };
        let (processes, others): (Vec<_>, Vec<_>) = all.filter(used).partition(is_process);
        let lanes = others.into_iter().chain([SERVER]).chain(processes);
        let reads = trace
            .entries()
            .filter(|entry| entry.what.starts_with("GET "));
        Self {
            lanes: lanes.collect(),
            reads: reads.map(|entry| entry.request).collect(),
        }
    }

    /// Returns the middle of a lane in pixels.
    fn at(&self, lane: usize) -> usize {
        let index = self.lanes.iter().position(|own| *own == lane);
        index.unwrap_or(0) * LANE + LANE / 2
    }
}

fn row(page: &mut String, order: &Order, entry: &Entry, time: &str) -> fmt::Result {
    // Responses to reads follow them by their number.
    let is_read = entry.what.starts_with("GET ")
        || entry.kind == EntryKind::Response && order.reads.contains(&entry.request);
    let is_bad = match entry.kind {
        EntryKind::Failure => true,
        EntryKind::Response => entry.what.starts_with(['4', '5']),
        EntryKind::Note => entry.what.contains("does not hold") || entry.what.starts_with("dies"),
        _ => false,
    };
    let class = match entry.kind {
        EntryKind::Action => "action",
        EntryKind::Change => "change",
        EntryKind::Request | EntryKind::Response if is_read => "read",
        EntryKind::Request | EntryKind::Response => "write",
        EntryKind::Failure => "write",
        EntryKind::Event => "event",
        EntryKind::Note => "note",
        EntryKind::Log => "log",
    };
    let bad = if is_bad { " bad" } else { "" };
    write!(
        page,
        "<div class=\"row {class}{bad}\"><div class=\"time\">{time}</div><svg class=\"lanes\" width=\"{}\" height=\"22\">",
        order.lanes.len() * LANE
    )?;
    let (own, server) = (order.at(entry.lane), order.at(entry.peer));
    match entry.kind {
        EntryKind::Request | EntryKind::Change => arrow(page, own, server)?,
        EntryKind::Response | EntryKind::Event => arrow(page, server, own)?,
        EntryKind::Failure => {
            let middle = usize::midpoint(own, server);
            write!(
                page,
                "<path d=\"M{server} 11H{middle}\"/><path d=\"M{} 6l10 10m0-10l-10 10\"/>",
                middle - 5
            )?;
        }
        EntryKind::Action | EntryKind::Note | EntryKind::Log => {
            write!(page, "<circle cx=\"{own}\" cy=\"11\" r=\"5\"/>")?;
        }
    }
    write!(page, "</svg><div class=\"what\">{}", Text(&entry.what))?;
    if !entry.detail.is_empty() {
        write!(page, " <span class=\"body\">{}</span>", Text(&entry.detail))?;
    }
    page.push_str("</div></div>\n");
    Ok(())
}

fn arrow(page: &mut String, from: usize, to: usize) -> fmt::Result {
    if from == to {
        return write!(page, "<circle cx=\"{from}\" cy=\"11\" r=\"5\"/>");
    }
    let (tip, back) = if from < to {
        (to - 2, to - 9)
    } else {
        (to + 2, to + 9)
    };
    write!(
        page,
        "<path d=\"M{from} 11H{tip}\"/><path class=\"tip\" d=\"M{tip} 11L{back} 7V15Z\"/>"
    )
}

/// Text in HTML.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '&' => f.write_str("&amp;"),
            '"' => f.write_str("&quot;"),
            letter => f.write_char(letter),
        })
    }
}
