//! The format of a response, negotiated by the `Accept` header.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::FakeServer;
use super::discovery::Discovery;
use crate::config::{DropParameter, Protobuf};
use crate::log::Verb;
use crate::object::{Form, Format, ResourceType, View};
use crate::protobuf;
use crate::status::Status;

const JSON: &str = "application/json";

/// A media type with its parameters.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl FakeServer {
    /// Chooses the form of the objects in a response: the first clause that the server can serve.
    pub(super) fn negotiate(
        &self,
        accept: &str,
        verb: Verb,
        kind: &ResourceType,
    ) -> Result<Form, Status> {
        let clauses = clauses(accept);
        if let DropParameter::Rejected(code) = self.config.drop_parameter
            && clauses.iter().any(|clause| clause.get("drop").is_some())
        {
            return Err(Status::unknown_parameter(code));
        }
        if clauses.is_empty() {
            return Ok(Form::JSON);
        }
        let has_table = protobuf::is_known(&kind.api_version(), &kind.kind) && !kind.custom;
        let found = clauses.iter().find_map(|clause| {
            let (format, view) = (clause.format()?, clause.view(verb)?);
            if format == Format::Protobuf
                && (self.config.protobuf == Protobuf::NotAcceptable
                    || view == View::Full && !has_table)
            {
                return None;
            }
            let drops_managed_fields = self.config.drop_parameter == DropParameter::Honored
                && clause.get("drop") == Some("metadata.managedFields");
            Some(Form {
                view,
                format,
                drops_managed_fields,
            })
        });
        found.ok_or_else(Status::not_acceptable)
    }

    /// Chooses the form of discovery. `None` if the client accepts none of them.
    pub(super) fn negotiate_discovery(&self, accept: &str, is_list: bool) -> Option<Discovery> {
        let clauses = clauses(accept);
        if clauses.is_empty() {
            return Some(Discovery::Plain);
        }
        clauses.iter().find_map(|clause| {
            if clause.format()? != Format::Json {
                return None;
            }
            match clause.get("as") {
                None => Some(Discovery::Plain),
                Some("APIGroupDiscoveryList") if is_list => {
                    let version = clause.get("v")?;
                    let since = [("v2", 30), ("v2beta1", 26)];
                    let found = since.into_iter().find(|(own, _)| *own == version)?;
                    let is_served = clause.get("g") == Some("apidiscovery.k8s.io")
                        && self.config.minor >= found.1;
                    is_served.then_some(Discovery::Aggregated(found.0))
                }
                Some(_) => None,
            }
        })
    }

    /// Chooses the format of a `Status`. JSON serves clients that accept no whole objects.
    pub(super) fn negotiate_error(&self, accept: &str) -> Format {
        let format = clauses(accept).iter().find_map(|clause| {
            let whole = clause.view(Verb::Other)? == View::Full;
            clause.format().filter(|_| whole)
        });
        format
            .filter(|_| self.config.protobuf != Protobuf::NotAcceptable)
            .unwrap_or(Format::Json)
    }

    /// Returns the `Accept` header as the server sees it. A proxy or a fault can change the format.
    pub(super) fn seen_accept(&self, accept: &str, forced: Option<Format>) -> String {
        let forced = forced
            .or_else(|| (self.config.protobuf == Protobuf::AnsweredAsJson).then_some(Format::Json));
        match forced {
            None => accept.into(),
            Some(Format::Protobuf) if accept.trim().is_empty() => protobuf::MEDIA_TYPE.into(),
            Some(Format::Protobuf) => accept.replace(JSON, protobuf::MEDIA_TYPE),
            Some(_) => accept.replace(protobuf::MEDIA_TYPE, JSON),
        }
    }
}

/// Returns the Content-Type of a response.
pub(super) const fn content_type(format: Format, is_watch: bool) -> &'static str {
    match (format, is_watch) {
        (Format::Protobuf, false) => protobuf::MEDIA_TYPE,
        (Format::Protobuf, true) => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => JSON,
    }
}

/// Splits an `Accept` header, in the order of the weights.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let clauses = accept.split(',').filter(|text| !text.trim().is_empty());
    let mut clauses: Vec<Clause<'_>> = clauses
        .map(|text| {
            let mut parts = text.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let parameters = parts.filter_map(|part| {
                let (key, value) = part.split_once('=')?;
                Some((key.trim(), value.trim().trim_matches('"')))
            });
            Clause {
                media,
                parameters: parameters.collect(),
            }
        })
        .collect();
    clauses.sort_by_key(|clause| Reverse(clause.weight()));
    clauses
}

impl<'a> Clause<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        let found = self.parameters.iter().find(|(own, _)| *own == key);
        found.map(|found| found.1)
    }

    /// In thousandths.
    fn weight(&self) -> u32 {
        let weight = self.get("q").and_then(|text| text.parse::<f32>().ok());
        (weight.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u32
    }

    fn format(&self) -> Option<Format> {
        match self.media {
            JSON | "*/*" | "application/*" => Some(Format::Json),
            protobuf::MEDIA_TYPE => Some(Format::Protobuf),
            _ => None,
        }
    }

    /// `None` if a parameter requests what the server does not have. Unknown parameters are ignored.
    fn view(&self, verb: Verb) -> Option<View> {
        if !matches!(self.get("stream"), None | Some("" | "watch")) {
            return None;
        }
        let wanted = if verb == Verb::List {
            "PartialObjectMetadataList"
        } else {
            "PartialObjectMetadata"
        };
        match self.get("as") {
            None => Some(View::Full),
            Some(kind) => {
                let known = kind == wanted
                    && self.get("g") == Some("meta.k8s.io")
                    && self.get("v") == Some("v1");
                known.then_some(View::Metadata)
            }
        }
    }
}
