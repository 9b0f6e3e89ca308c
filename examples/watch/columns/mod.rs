//! The columns of a resource: those of `kubectl get` for common kinds, those of its CustomResourceDefinition for others,
//! or else the age.
//!
//! The informer watches objects. The tables that `kubectl get` requests are formatted by the server, so this is written
//! here a second time.

mod builtin;
mod definition;
mod path;
mod pod;

use core::time::Duration;
use std::io::{self, Write as _};

use informer::informer::OwnedResource;
use informer::transport::HyperTransport;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::timeout;

pub(crate) use self::path::Path;
use super::screen::printable;

/// The time that the definition of a resource may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The columns beside the name of an object.
pub(crate) struct Columns {
    /// Events have none: the name of an Event says nothing.
    pub(crate) has_name: bool,
    columns: Vec<(String, Cell)>,
}

/// How the text of a cell is read from an object.
enum Cell {
    Own(fn(&Value) -> String),
    /// A column of a CustomResourceDefinition.
    Path(Path, Type),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Text,
    /// A time, shown as an age.
    Date,
}

impl Columns {
    /// Finds the columns of a resource. If its definition cannot be read, standard error has the reason.
    pub(crate) async fn of(resource: &OwnedResource, transport: &HyperTransport) -> Self {
        let name = resource.as_ref();
        if let Some(columns) = builtin::of(name.group, name.plural) {
            return columns;
        }
        // A resource that the library knows has no definition.
        let is_builtin = name
            .plural
            .parse::<OwnedResource>()
            .is_ok_and(|known| known.as_ref().group == name.group);
        if is_builtin || name.group.is_empty() {
            return Self::default();
        }
        let found = timeout(LIMIT, definition::of(name, transport)).await;
        let found = found.unwrap_or_else(|_| Err(format!("no response within {LIMIT:?}")));
        match found {
            Ok(columns) => columns.unwrap_or_default(),
            Err(reason) => {
                let notice = printable(&format!("! only names and ages are shown: {reason}"));
                // The table is printed without the notice as well.
                let _ = writeln!(io::stderr(), "{notice}");
                Self::default()
            }
        }
    }

    pub(crate) fn titles(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(title, _)| title.as_str())
    }

    /// Returns the cells of an object.
    pub(crate) fn cells(&self, object: &Value) -> Vec<String> {
        let cell = |(_, cell): &(String, Cell)| match cell {
            Cell::Own(cell) => cell(object),
            Cell::Path(path, Type::Text) => path.text(object),
            Cell::Path(path, Type::Date) => match path.text(object).as_str() {
                "" => String::new(),
                time => since(time),
            },
        };
        self.columns.iter().map(cell).collect()
    }
}

/// The age alone.
impl Default for Columns {
    fn default() -> Self {
        Self {
            has_name: true,
            columns: vec![("AGE".to_owned(), Cell::Own(age))],
        }
    }
}

fn age(object: &Value) -> String {
    since_value(&object["metadata"]["creationTimestamp"])
}

fn since_value(time: &Value) -> String {
    time.as_str().map_or_else(|| UNKNOWN.to_owned(), since)
}

/// Returns the time since a timestamp, as short as `kubectl` formats it.
fn since(time: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => short(Timestamp::now().duration_since(time).as_secs()),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// Returns the time between two timestamps.
fn between(begin: &str, end: &str) -> String {
    match (begin.parse::<Timestamp>(), end.parse::<Timestamp>()) {
        (Ok(begin), Ok(end)) => short(end.duration_since(begin).as_secs()),
        _ => "<invalid>".to_owned(),
    }
}

/// Formats seconds in one or two units, with fewer digits the more there are.
pub(crate) fn short(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |large: i64, unit: char, small: i64, smaller: char| match seconds % large / small {
        0 => format!("{}{unit}", seconds / large),
        rest => format!("{}{unit}{rest}{smaller}", seconds / large),
    };
    match seconds {
        // The clocks of server and client differ a little.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(MINUTE, 'm', 1, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(HOUR, 'h', MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(DAY, 'd', HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

const NONE: &str = "<none>";
const UNKNOWN: &str = "<unknown>";

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns a number that is left out if it is 0.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
