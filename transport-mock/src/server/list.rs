//! The body of a list, rendered while it is read.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::{self, Vec};

use serde_json::{Value, json};

use super::progress::Progress;
use crate::fault::{Edit, Ending};
use crate::object::{Form, Format, Object, ResourceType, View};
use crate::protobuf;

#[derive(Debug)]
pub(super) struct ListBody {
    kind: Arc<ResourceType>,
    form: Form,
    items: Items,
    part: Part,
    before: Vec<u8>,
    after: Vec<u8>,
}

#[derive(Debug)]
enum Items {
    Json(vec::IntoIter<Arc<Object>>),
    /// The length of the list precedes its items, so all of them are converted first.
    Protobuf {
        items: vec::IntoIter<Vec<u8>>,
        metadata: Value,
    },
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
        form: Form,
        items: Vec<Arc<Object>>,
        meta: &ListMeta,
    ) -> Self {
        let (before, after, items) = match form.format {
            Format::Protobuf => {
                let encoded = items.iter().map(|object| {
                    let mut item = Vec::new();
                    object.write_item(&mut item, &kind, form);
                    item
                });
                let encoded: Vec<Vec<u8>> = encoded.collect();
                (
                    Vec::new(),
                    protobuf::list_end(),
                    Items::Protobuf {
                        items: encoded.into_iter(),
                        metadata: meta.to_json(),
                    },
                )
            }
            _ => {
                let (before, after) = json_ends(&kind, form.view, &meta.write_json());
                (before, after, Items::Json(items.into_iter()))
            }
        };
        Self {
            kind,
            form,
            items,
            part: Part::Before,
            before,
            after,
        }
    }

    /// Announces the length of a list in protobuf, as it will be after a fault has changed its items.
    pub(super) fn announce(&mut self, edits: &[(usize, Edit)]) {
        let Items::Protobuf { items, metadata } = &self.items else {
            return;
        };
        let mut length = 0;
        for (index, item) in items.as_slice().iter().enumerate() {
            let mut own = item.len();
            for (_, edit) in edits.iter().filter(|(event, _)| *event == index) {
                match edit {
                    Edit::Duplicate => own += item.len(),
                    Edit::Drop => own = 0,
                    Edit::Before(bytes) => own += bytes.len(),
                }
            }
            length += own;
        }
        let (api_version, kind) = self.kind.type_of(self.form.view);
        self.before = protobuf::list_start(&api_version, &format!("{kind}List"), metadata, length);
    }

    /// Returns whether commas separate its items.
    pub(super) fn is_json(&self) -> bool {
        self.form.format == Format::Json
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
                let written = match &mut self.items {
                    Items::Json(items) => items.next().map(|object| {
                        if self.part == Part::Items {
                            out.push(b',');
                        }
                        object.write_item(out, &self.kind, self.form);
                    }),
                    Items::Protobuf { items, .. } => {
                        items.next().map(|mut item| out.append(&mut item))
                    }
                };
                if written.is_none() {
                    out.append(&mut self.after);
                    self.part = Part::End;
                    return Progress::Bytes;
                }
                self.part = Part::Items;
                Progress::Event
            }
            Part::End => Progress::End(Ending::Close),
        }
    }
}

impl ListMeta {
    fn to_json(&self) -> Value {
        let mut metadata = json!({ "resourceVersion": self.version.to_string() });
        if let Some(token) = &self.token {
            metadata["continue"] = token.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        if let Some(shard) = &self.shard {
            metadata["shardInfo"] = json!({ "selector": shard });
        }
        metadata
    }

    /// Writes it with its members in the order of the server.
    fn write_json(&self) -> String {
        let metadata = self.to_json();
        let members = [
            "resourceVersion",
            "continue",
            "remainingItemCount",
            "shardInfo",
        ];
        let members = members
            .iter()
            .filter_map(|member| Some(format!("\"{member}\":{}", metadata.get(member)?)));
        let members: Vec<String> = members.collect();
        format!("\"metadata\":{{{}}}", members.join(","))
    }
}

/// Returns what precedes and what follows the items of a list in JSON.
fn json_ends(kind: &ResourceType, view: View, metadata: &str) -> (Vec<u8>, Vec<u8>) {
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
        after.extend_from_slice(format!(",\"kind\":\"{}List\",{metadata}", kind.kind).as_bytes());
    } else {
        kind.write_type(&mut before, "List");
    }
    if view == View::Metadata || !kind.custom {
        before.extend_from_slice(metadata.as_bytes());
        before.extend_from_slice(b",\"items\":[");
    }
    after.extend_from_slice(b"}\n");
    (before, after)
}
