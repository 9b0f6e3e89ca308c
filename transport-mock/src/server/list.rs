//! The body of a list, rendered while it is read.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::{self, Vec};

use serde_json::Value;

use super::response::Progress;
use crate::fault::Ending;
use crate::object::{Object, ResourceType, View};

#[derive(Debug)]
pub(super) struct ListBody {
    kind: Arc<ResourceType>,
    view: View,
    items: vec::IntoIter<Arc<Object>>,
    part: Part,
    before: Vec<u8>,
    after: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Before,
    FirstItem,
    Items,
    End,
}

/// The metadata of a list.
#[derive(Debug)]
pub(super) struct ListMeta {
    pub(super) version: u64,
    pub(super) token: Option<String>,
    pub(super) remaining: Option<u64>,
    /// The requested shards, if the server supports shards.
    pub(super) shard: Option<String>,
}

impl ListBody {
    pub(super) fn new(
        kind: Arc<ResourceType>,
        view: View,
        items: Vec<Arc<Object>>,
        meta: &ListMeta,
    ) -> Self {
        let mut metadata = format!("\"metadata\":{{\"resourceVersion\":\"{}\"", meta.version);
        if let Some(token) = &meta.token {
            metadata += &format!(",\"continue\":{}", Value::from(token.as_str()));
        }
        if let Some(remaining) = meta.remaining {
            metadata += &format!(",\"remainingItemCount\":{remaining}");
        }
        if let Some(shard) = &meta.shard {
            metadata += &format!(
                ",\"shardInfo\":{{\"selector\":{}}}",
                Value::from(shard.as_str())
            );
        }
        metadata.push('}');
        let (mut before, mut after) = (b"{".to_vec(), b"]".to_vec());
        if view == View::Metadata {
            before.extend_from_slice(
                b"\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",",
            );
        } else if kind.custom {
            // Members are sorted, so the version follows the items.
            before.extend_from_slice(
                format!("\"apiVersion\":\"{}\",\"items\":[", kind.api_version()).as_bytes(),
            );
            after.extend_from_slice(
                format!(",\"kind\":\"{}List\",{metadata}", kind.kind).as_bytes(),
            );
        } else {
            kind.write_type(&mut before, "List");
        }
        if view == View::Metadata || !kind.custom {
            before.extend_from_slice(metadata.as_bytes());
            before.extend_from_slice(b",\"items\":[");
        }
        after.extend_from_slice(b"}\n");
        Self {
            kind,
            view,
            items: items.into_iter(),
            part: Part::Before,
            before,
            after,
        }
    }

    /// Marks the item just written as not sent, so that the next item is the first.
    pub(super) const fn starts_again(&mut self) {
        self.part = Part::FirstItem;
    }

    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> Progress {
        match self.part {
            Part::Before => {
                out.append(&mut self.before);
                self.part = Part::FirstItem;
                Progress::Bytes
            }
            Part::FirstItem | Part::Items => {
                let Some(object) = self.items.next() else {
                    out.append(&mut self.after);
                    self.part = Part::End;
                    return Progress::Bytes;
                };
                if self.part == Part::Items {
                    out.push(b',');
                }
                self.part = Part::Items;
                object.write_item(out, &self.kind, self.view);
                Progress::Event
            }
            Part::End => Progress::End(Ending::Close),
        }
    }
}
