//! Events of both groups: they are stored as those of `v1`, and `events.k8s.io/v1` shows them with other names.

use alloc::string::{String, ToString};

use serde_json::{Map, Value};

/// The names of a field in `v1` and in `events.k8s.io/v1`, where they differ.
const NAMES: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

/// Converts an event of `events.k8s.io/v1` to `v1`.
pub(crate) fn to_core(event: Map<String, Value>) -> Map<String, Value> {
    rename(event, core_name)
}

/// Converts an event of `v1` to `events.k8s.io/v1`.
pub(crate) fn from_core(event: Map<String, Value>) -> Map<String, Value> {
    rename(event, |name| {
        let found = NAMES.iter().find(|(core, _)| *core == name);
        found.map_or(name, |(_, new)| new)
    })
}

fn core_name(name: &str) -> &str {
    let found = NAMES.iter().find(|(_, new)| *new == name);
    found.map_or(name, |(core, _)| core)
}

fn rename(event: Map<String, Value>, new: impl Fn(&str) -> &str) -> Map<String, Value> {
    let renamed = event.into_iter();
    let renamed = renamed.map(|(name, value)| (new(&name).to_string(), value));
    renamed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_the_same_in_both_groups() {
        let core = json!({
            "metadata": { "name": "a" }, "involvedObject": { "name": "b" }, "message": "c", "reportingComponent": "d",
            "source": {}, "firstTimestamp": "e", "lastTimestamp": "f", "count": 1, "reason": "g", "action": "h",
        });
        let new = json!({
            "metadata": { "name": "a" }, "regarding": { "name": "b" }, "note": "c", "reportingController": "d",
            "deprecatedSource": {}, "deprecatedFirstTimestamp": "e", "deprecatedLastTimestamp": "f",
            "deprecatedCount": 1, "reason": "g", "action": "h",
        });
        let members = |event: &Value| event.as_object().cloned().unwrap_or_default();
        assert_eq!(Value::from(from_core(members(&core))), new);
        assert_eq!(Value::from(to_core(members(&new))), core);
    }
}
