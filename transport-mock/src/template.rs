//! Many objects from one pattern, without rendering each of them.

use alloc::string::String;
use alloc::vec::Vec;

use crate::object::Object;

/// A rendered object with placeholders, written `<<name>>`. The members that the server sets are placeholders too:
/// `version`, `namespace`, `name`, `uid`, `created`.
#[derive(Debug)]
pub(crate) struct Template {
    body: Vec<Piece>,
    labels: Vec<(Vec<Piece>, Vec<Piece>)>,
    fields: Vec<Vec<Piece>>,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Hole(String),
}

impl Template {
    /// Creates a template from a pattern whose values contain placeholders.
    pub(crate) fn new(pattern: &Object) -> Self {
        let part = |range| String::from_utf8_lossy(&pattern.body[range]).into_owned();
        let mut body = pieces(&part(0..pattern.version_at.start));
        body.push(Piece::Hole("version".into()));
        body.extend(pieces(&part(pattern.version_at.end..pattern.metadata_end)));
        body.push(Piece::Hole("end".into()));
        body.extend(pieces(&part(pattern.metadata_end..pattern.body.len())));
        let labels = pattern
            .labels
            .iter()
            .map(|(key, value)| (pieces(key), pieces(value)));
        Self {
            body,
            labels: labels.collect(),
            fields: pattern.fields.iter().map(|field| pieces(field)).collect(),
        }
    }

    /// Creates an object. `fill` writes the value of each placeholder.
    pub(crate) fn make(&self, version: u64, fill: impl Fn(&str, &mut String)) -> Object {
        let mut body = String::new();
        let (mut version_at, mut metadata_end) = (0..0, 0);
        for piece in &self.body {
            let start = body.len();
            match piece {
                Piece::Text(text) => body += text,
                Piece::Hole(hole) if hole == "end" => metadata_end = start,
                Piece::Hole(hole) if hole == "version" => {
                    body += &alloc::format!("{version}");
                    version_at = start..body.len();
                }
                Piece::Hole(hole) => fill(hole, &mut body),
            }
        }
        let text = |pieces: &[Piece]| {
            let mut out = String::new();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => out += text,
                    Piece::Hole(hole) => fill(hole, &mut out),
                }
            }
            out.into_boxed_str()
        };
        let own = |hole: &str| text(&[Piece::Hole(hole.into())]);
        Object {
            version,
            namespace: own("namespace"),
            name: own("name"),
            uid: own("uid"),
            created: own("created"),
            labels: self
                .labels
                .iter()
                .map(|(key, value)| (text(key), text(value)))
                .collect(),
            // The patterns of the demo have none, nor managedFields.
            owners: [].into(),
            fields: self.fields.iter().map(|field| text(field)).collect(),
            body: body.into_bytes().into(),
            version_at,
            managed_at: 0..0,
            metadata_end,
        }
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, (hole, after))) = rest
        .split_once("<<")
        .and_then(|(before, after)| Some((before, after.split_once(">>")?)))
    {
        pieces.push(Piece::Text(before.into()));
        pieces.push(Piece::Hole(hole.into()));
        rest = after;
    }
    pieces.push(Piece::Text(rest.into()));
    pieces
}
