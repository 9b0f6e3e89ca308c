//! The columns that a CustomResourceDefinition names.

use informer::Resource;
use informer::requests::HttpService as _;
use informer::requests::bytes::Bytes;
use informer::requests::http::Request;
use informer::transport::HyperTransport;
use serde::Deserialize;

use super::path::Path;
use super::{Cell, Columns, Type};

#[derive(Deserialize)]
struct Definition {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: String,
    #[serde(default)]
    additional_printer_columns: Vec<Column>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Column {
    name: String,
    r#type: String,
    json_path: String,
    /// Others than 0 are for `kubectl get -o wide`.
    #[serde(default)]
    priority: i32,
}

/// Reads the columns of a resource. Returns `None` if it has no definition, or if that names no columns, and a notice if
/// it cannot be read.
pub(super) async fn of(
    resource: Resource<'_>,
    transport: &HyperTransport,
) -> Result<Option<Columns>, String> {
    let name = format!("{}.{}", resource.plural, resource.group);
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let request = Request::get(&path).body(Bytes::new());
    let request = request.map_err(|error| format!("{path}: {error}"))?;
    let body = match transport.clone().accepted(request).await {
        Ok(body) => body,
        // Another API server serves it.
        Err(error) if error.status() == Some(404) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let definition: Definition = serde_json::from_slice(&body)
        .map_err(|error| format!("{path}: the response is invalid: {error}"))?;
    let mut versions = definition.spec.versions.into_iter();
    let version = versions.find(|version| version.name == resource.version);
    let columns = version
        .map(|version| version.additional_printer_columns)
        .unwrap_or_default();
    let columns: Vec<_> = columns
        .into_iter()
        .filter(|column| column.priority == 0)
        .collect();
    if columns.is_empty() {
        return Ok(None);
    }
    let columns = columns.into_iter().map(|column| {
        let path = Path::parse(&column.json_path).ok_or_else(|| {
            let Column {
                name: title,
                json_path,
                ..
            } = &column;
            format!("the path {json_path} of the column {title} in {name} is not supported")
        })?;
        let r#type = if column.r#type == "date" {
            Type::Date
        } else {
            Type::Text
        };
        Ok((column.name.to_uppercase(), Cell::Path(path, r#type)))
    });
    Ok(Some(Columns {
        has_name: true,
        columns: columns.collect::<Result<_, String>>()?,
    }))
}
