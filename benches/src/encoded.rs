//! The data set in protobuf, as the replay server sends it.

use informer_mock::{json, protobuf};
use serde_json::Value;

use crate::data::{DataSet, Lines};

/// The length of what follows the message in an object.
const END: usize = 4;

/// The Pods and events of a data set in protobuf.
#[derive(Debug)]
pub struct Encoded {
    api_version: &'static str,
    kind: &'static str,
    /// The ADDED event of each Pod, as a frame.
    added: Lines,
    /// The length of the message of each Pod, which ends each frame but for the end of its envelope.
    messages: Vec<usize>,
    /// The frame of each event.
    pub events: Lines,
}

impl Encoded {
    /// Converts a data set. Pods that are not valid JSON are omitted.
    #[must_use]
    pub fn new(set: &DataSet) -> Self {
        let mut encoded = Self {
            api_version: set.api_version,
            kind: set.kind,
            added: Lines::default(),
            messages: Vec::new(),
            events: Lines::default(),
        };
        for pod in set.pods.iter() {
            let Ok(mut pod) = serde_json::from_slice::<Value>(pod) else {
                continue;
            };
            pod["apiVersion"] = set.api_version.into();
            pod["kind"] = set.kind.into();
            let message = protobuf::message(set.api_version, set.kind, &pod).unwrap_or_default();
            let object = protobuf::object(&pod).unwrap_or_default();
            encoded.added.push(&protobuf::frame("ADDED", &object));
            encoded.messages.push(message.len());
        }
        for event in set.events.iter() {
            let event: Value = serde_json::from_slice(event).unwrap_or_default();
            let object = protobuf::object(&event["object"]).unwrap_or_default();
            let kind = event["type"].as_str().unwrap_or_default();
            encoded.events.push(&protobuf::frame(kind, &object));
        }
        encoded
    }

    /// Returns the frames of the initial events, without the bookmark.
    pub fn added(&self) -> impl Iterator<Item = &[u8]> {
        self.added.iter()
    }

    /// Returns the frame of the bookmark that ends the initial events.
    #[must_use]
    pub fn bookmark(&self, version: u64) -> Vec<u8> {
        let bookmark = json!({
            "kind": self.kind, "apiVersion": self.api_version,
            "metadata": {
                "resourceVersion": version.to_string(),
                "annotations": { "k8s.io/initial-events-end": "true" },
            },
        });
        protobuf::frame("BOOKMARK", &protobuf::object(&bookmark).unwrap_or_default())
    }

    /// Returns the parts of a list of some of the Pods, one after the other.
    pub fn list(
        &self,
        pods: core::ops::Range<usize>,
        metadata: &Value,
    ) -> impl Iterator<Item = [Vec<u8>; 1]> {
        let items = pods.clone().filter_map(|number| self.message(number));
        let length = items
            .map(|message| protobuf::list_item(message).len())
            .sum();
        let kind = format!("{}List", self.kind);
        let start = protobuf::list_start(self.api_version, &kind, metadata, length);
        let items = pods.filter_map(|number| Some([protobuf::list_item(self.message(number)?)]));
        core::iter::once([start])
            .chain(items)
            .chain([[protobuf::list_end()]])
    }

    fn message(&self, number: usize) -> Option<&[u8]> {
        let frame = self.added.at(number)?;
        let end = frame.len().checked_sub(END)?;
        frame.get(end.checked_sub(*self.messages.get(number)?)?..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_lists_and_events() {
        let set = DataSet::generate(3, 2);
        let encoded = Encoded::new(&set);
        let metadata = json!({ "resourceVersion": "7" });
        let list = encoded.list(1..3, &metadata).flatten().collect::<Vec<_>>();
        let list = protobuf::to_json(&list.concat()).unwrap();
        assert_eq!(list["kind"], "PodList");
        let items = list["items"].as_array().unwrap();
        let pod: Value = serde_json::from_slice(set.pods.at(1).unwrap()).unwrap();
        assert_eq!(items.len(), 2);
        assert_eq!(items[0]["metadata"], pod["metadata"]);
        assert_eq!(
            items[0]["spec"]["containers"][0]["image"],
            pod["spec"]["containers"][0]["image"]
        );

        let frames: Vec<u8> = encoded
            .added()
            .chain(encoded.events.iter())
            .flatten()
            .copied()
            .collect();
        let events = protobuf::events(&frames).unwrap();
        let kinds: Vec<_> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            ["ADDED", "ADDED", "ADDED", "MODIFIED", "MODIFIED", "ADDED"]
        );
        let last: Value = serde_json::from_slice(set.events.at(2).unwrap()).unwrap();
        assert_eq!(events[5]["object"]["metadata"], last["object"]["metadata"]);
    }
}
