//! Each request has the right version. A watch resumes exactly at the version read, so nothing is missed and nothing
//! arrives twice. The first list requests `0`. A later list never permits an older state than the cached one, and
//! requests the newest state only after the server has refused the last version.
//!
//! Source: etcd's robustness tests, "Resumable"; client-go's `relistResourceVersion` and `rewatchResourceVersion`.

use informer_core::reflector::Purpose;

use super::super::client::Asked as Request;
use super::super::plan::World;
use super::super::wire::Refused;
use super::{Context, Invariant, Verdict};

pub(super) struct Asked {
    streams: bool,
}

impl Asked {
    pub(super) const fn new(world: &World) -> Self {
        Self {
            streams: world.stream,
        }
    }
}

impl Invariant for Asked {
    fn asked(&mut self, asked: &Request, _context: &Context<'_>) -> Verdict {
        let version = parameter(&asked.target, "resourceVersion");
        let known = |version: &str| {
            version
                .parse()
                .is_ok_and(|version: u64| asked.versions.contains(&version))
        };
        let right = match asked.verb {
            Purpose::Watch => version.is_some_and(known),
            Purpose::List if asked.target.contains("continue=") => version.is_none(),
            Purpose::Stream if !self.streams => false,
            Purpose::List | Purpose::Stream if version.is_none() => {
                // The first streaming list requests the newest state by omitting the version.
                asked.refused != Refused::No
                    || asked.verb == Purpose::Stream && asked.versions.is_empty()
            }
            Purpose::List | Purpose::Stream if asked.refused == Refused::Yes => false,
            Purpose::List if asked.versions.is_empty() => version == Some("0"),
            Purpose::List | Purpose::Stream => version.is_some_and(known),
        };
        if right { Ok(()) } else { Err(wrong(asked)) }
    }
}

fn wrong(asked: &Request) -> String {
    let refused = if asked.refused == Refused::Yes {
        ", which the server has refused"
    } else {
        ""
    };
    format!(
        "{} is asked, and the version reached is {:?}{refused}",
        asked.target, asked.versions
    )
}

fn parameter<'a>(target: &'a str, name: &str) -> Option<&'a str> {
    let query = target.split_once('?')?.1;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(own, _)| *own == name).map(|(_, value)| value)
}
