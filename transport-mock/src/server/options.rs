//! List options, with the checks of the API server.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::query::Query;
use crate::status::Status;
use crate::token::Token;

/// List options that have passed the checks of the API server.
pub(super) struct Options {
    /// `None` if it is missing or empty.
    pub(super) version: Option<u64>,
    pub(super) matching: Match,
    pub(super) limit: Option<usize>,
    pub(super) token: Option<Token>,
    pub(super) initial: Option<bool>,
    pub(super) timeout: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    Unset,
    Exact,
    NotOlderThan,
}

impl Options {
    pub(super) fn parse(query: &Query, watch_list: bool) -> Result<Self, Status> {
        let initial = query
            .get("sendInitialEvents")
            .map(|_| query.flag("sendInitialEvents"));
        let matching = query.filled("resourceVersionMatch");
        if query.flag("watch") {
            check_watch(query, matching, initial, watch_list)?;
        } else {
            check_list(query, matching, initial)?;
        }
        let matching = match matching {
            Some("Exact") => Match::Exact,
            Some(_) => Match::NotOlderThan,
            None => Match::Unset,
        };
        let text = query.filled("resourceVersion");
        let version = text.map(str::parse).transpose();
        let version = version.map_err(|_| {
            let text = text.unwrap_or_default();
            Status::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
            ))
        })?;
        let token = if query.flag("watch") {
            None
        } else {
            query.filled("continue")
        };
        let token = token.map(|text| {
            let token = Token::decode(text);
            token.ok_or_else(|| {
                Status::bad_request("continue key is not valid: invalid continue token")
            })
        });
        let token = token.transpose()?;
        if token.is_some() && version.is_some_and(|version| version != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let number = |key| {
            let text = query.filled(key);
            let number = text.map(str::parse::<i64>).transpose();
            number.map_err(|_| {
                Status::bad_request(format!(
                    "strconv.ParseInt: parsing \"{}\": invalid syntax",
                    text.unwrap_or_default()
                ))
            })
        };
        let limit = number("limit")?
            .and_then(|limit| usize::try_from(limit).ok())
            .filter(|limit| *limit > 0);
        let timeout = number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
        let timeout = timeout
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs);
        Ok(Self {
            version,
            matching,
            limit,
            token,
            initial,
            timeout,
        })
    }
}

fn check_list(query: &Query, matching: Option<&str>, initial: Option<bool>) -> Result<(), Status> {
    if let Some(matching) = matching {
        let version = query.filled("resourceVersion");
        if version.is_none() {
            return forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if query.filled("continue").is_some() {
            return forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            );
        }
        check_match(matching, &["Exact", "NotOlderThan", ""])?;
        if matching == "Exact" && version == Some("0") {
            return forbid(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            );
        }
    }
    if initial.is_some() {
        return forbid(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        );
    }
    Ok(())
}

fn check_watch(
    query: &Query,
    matching: Option<&str>,
    initial: Option<bool>,
    watch_list: bool,
) -> Result<(), Status> {
    if initial.is_some() {
        if matching != Some("NotOlderThan") {
            return forbid(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
        }
        if !watch_list {
            let message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            return forbid("sendInitialEvents", message);
        }
    }
    if let Some(matching) = matching {
        if initial.is_none() {
            return forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        check_match(matching, &["NotOlderThan"])?;
        if query.filled("continue").is_some() {
            return forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            );
        }
    }
    Ok(())
}

fn check_match(matching: &str, supported: &[&str]) -> Result<(), Status> {
    if supported.contains(&matching) {
        return Ok(());
    }
    let quoted: Vec<String> = supported
        .iter()
        .map(|value| format!("\"{value}\""))
        .collect();
    let message = format!(
        "Unsupported value: \"{matching}\": supported values: {}",
        quoted.join(", ")
    );
    Err(Status::invalid_options(
        "resourceVersionMatch",
        "FieldValueNotSupported",
        &message,
    ))
}

fn forbid(field: &str, message: &str) -> Result<(), Status> {
    Err(Status::invalid_options(
        field,
        "FieldValueForbidden",
        &format!("Forbidden: {message}"),
    ))
}
