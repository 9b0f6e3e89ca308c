//! The data set in memory, as the replay server sends it.

use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::nodes;
use crate::pods::{self, FIRST_VERSION, State, Updates};

/// The Pods of a list, and the events of a watch that follow it.
#[derive(Debug)]
pub struct DataSet {
    /// The apiVersion of the objects.
    pub api_version: &'static str,
    /// The kind of the objects.
    pub kind: &'static str,
    /// The JSON of each Pod, without kind and apiVersion.
    pub pods: Lines,
    /// The JSON of each event.
    pub events: Lines,
}

/// Many texts in one allocation.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Lines {
    /// Appends a text.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// Returns the number of texts.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no texts.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the text with this number.
    #[must_use]
    pub fn at(&self, number: usize) -> Option<&[u8]> {
        let end = *self.ends.get(number)?;
        let start = match number.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..end)
    }

    /// Returns all texts.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|number| self.at(number))
    }

    fn read(path: &Path) -> io::Result<Self> {
        let mut lines = Self::default();
        let mut reader = BufReader::with_capacity(1 << 20, std::fs::File::open(path)?);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            lines.push(line.trim_ascii_end());
            line.clear();
        }
        Ok(lines)
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
        for line in self.iter() {
            writer.write_all(line)?;
            writer.write_all(b"\n")?;
        }
        writer.flush()
    }
}

impl Default for DataSet {
    fn default() -> Self {
        Self {
            api_version: "v1",
            kind: "Pod",
            pods: Lines::default(),
            events: Lines::default(),
        }
    }
}

impl DataSet {
    /// Returns the metadata alone, as the API server sends it to clients that request it.
    #[must_use]
    pub fn metadata(&self) -> Self {
        let mut set = Self {
            api_version: "meta.k8s.io/v1",
            kind: "PartialObjectMetadata",
            ..Self::default()
        };
        for pod in self.pods.iter() {
            let pod: Value = serde_json::from_slice(pod).unwrap_or_default();
            let object = json!({ "metadata": pod["metadata"] });
            set.pods.push(object.to_string().as_bytes());
        }
        for event in self.events.iter() {
            let event: Value = serde_json::from_slice(event).unwrap_or_default();
            let object = json!({
                "kind": set.kind,
                "apiVersion": set.api_version,
                "metadata": event["object"]["metadata"],
            });
            let event = json!({ "type": event["type"], "object": object });
            set.events.push(event.to_string().as_bytes());
        }
        set
    }

    /// Generates Nodes without events.
    #[must_use]
    pub fn of_nodes(nodes: u64) -> Self {
        let mut set = Self {
            kind: "Node",
            ..Self::default()
        };
        let mut text = String::new();
        for number in 0..nodes {
            text.clear();
            nodes::write(&mut text, number);
            set.pods.push(text.as_bytes());
        }
        set
    }

    /// Generates Pods, updates of them, and the Pod at which a run ends.
    #[must_use]
    pub fn generate(pods: u64, updates: u64) -> Self {
        let mut set = Self::default();
        let mut text = String::new();
        for number in 0..pods {
            text.clear();
            pods::write(&mut text, number, State::first(number), false);
            set.pods.push(text.as_bytes());
        }
        let mut states = Updates::new(pods);
        for (number, state) in states
            .by_ref()
            .take(usize::try_from(updates).unwrap_or(usize::MAX))
        {
            text.clear();
            text.push_str(r#"{"type":"MODIFIED","object":"#);
            pods::write(&mut text, number, state, true);
            text.push('}');
            set.events.push(text.as_bytes());
        }
        text.clear();
        text.push_str(r#"{"type":"ADDED","object":"#);
        pods::write_sentinel(&mut text, states.version() + 1);
        text.push('}');
        set.events.push(text.as_bytes());
        set
    }

    /// Reads `pods.jsonl` and `events.jsonl`.
    ///
    /// # Errors
    /// Fails if the files cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            pods: Lines::read(&folder.join("pods.jsonl"))?,
            events: Lines::read(&folder.join("events.jsonl"))?,
            ..Self::default()
        })
    }

    /// Writes `pods.jsonl` and `events.jsonl`.
    ///
    /// # Errors
    /// Fails if the files cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        self.pods.write(&folder.join("pods.jsonl"))?;
        self.events.write(&folder.join("events.jsonl"))
    }

    /// Returns the resourceVersion of the list.
    #[must_use]
    pub fn list_version(&self) -> u64 {
        FIRST_VERSION + self.pods.len() as u64
    }
}
