//! Lists and watches: the version that each shows, and its objects.

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use informer_core::time::Rng;

use super::FakeServer;
use super::answer::{Answer, Asked, No, head};
use super::list::{ListBody, ListMeta};
use super::options::Match;
use super::response::BodySource;
use super::watch::{Opening, WatchBody};
use crate::config::Gone;
use crate::object::Object;
use crate::status::Status;
use crate::store::key;
use crate::token::Token;

impl FakeServer {
    pub(super) fn answer_list(&self, asked: &Asked<'_>) -> Result<Answer, No> {
        let from_cache = asked.options.version == Some(0);
        let limit = asked.options.limit.filter(|_| {
            let ignored =
                from_cache && self.config.cache_ignores_limit && asked.options.token.is_none();
            self.config.paging && !ignored
        });
        let version = self.list_version(asked, limit)?;
        let Asked {
            resource,
            kind,
            form,
            ref filter,
            ..
        } = *asked;
        let token = asked.options.token.as_ref();
        let prefix = filter.prefix();
        let after = token.map(|token| token.after.as_str());
        let mut objects = self
            .store
            .at(resource, version, &prefix, after)
            .filter(|object| filter.matches(object, kind));
        let items: Vec<Arc<Object>> = objects
            .by_ref()
            .take(limit.unwrap_or(usize::MAX))
            .cloned()
            .collect();
        let mut meta = ListMeta {
            version,
            token: None,
            remaining: None,
            shard: asked
                .query
                .get("shardSelector")
                .filter(|_| self.config.sharding)
                .map(ToString::to_string),
        };
        // Counting the remaining items is expensive, so a token carries the count of the first page.
        let known = token.and_then(|token| token.remaining);
        let left = match known {
            _ if limit.is_none() => 0,
            Some(known) if !filter.selects() => known.saturating_sub(items.len() as u64),
            Some(_) | None => objects.count() as u64,
        };
        if let Some(last) = items.last().filter(|_| left > 0) {
            let remaining = Some(left).filter(|_| !filter.selects());
            let after = key(&last.namespace, &last.name);
            meta.token = Some(
                Token {
                    version: Some(version),
                    after,
                    remaining,
                }
                .encode(),
            );
            meta.remaining = remaining.filter(|_| self.config.remaining_item_count);
        }
        let body = ListBody::new(Arc::clone(kind), form, items, &meta);
        Ok((head(200, form.format, false), BodySource::List(body)))
    }

    /// Returns the version of the state that a list shows.
    fn list_version(&self, asked: &Asked<'_>, limit: Option<usize>) -> Result<u64, No> {
        let head = self.store.version;
        let options = &asked.options;
        if let Some(token) = &options.token {
            return match token.version {
                None => Ok(head),
                Some(version) if version < self.store.compacted => {
                    let rest = Token {
                        version: None,
                        after: token.after.clone(),
                        remaining: None,
                    };
                    Err(Status::continue_expired(rest.encode()).into())
                }
                Some(version) => Ok(version.min(head)),
            };
        }
        match (options.version, options.matching) {
            (None, _) => Ok(head),
            (Some(0), _) => Ok(self.replica().visible),
            // A limit alone makes the match exact.
            (Some(version), Match::Exact) => self.exact(version),
            (Some(version), Match::Unset) if limit.is_some() => self.exact(version),
            (Some(version), Match::Unset | Match::NotOlderThan)
                if version > self.replica().visible =>
            {
                Err(No::TooLarge(version))
            }
            (Some(_), Match::Unset | Match::NotOlderThan) => Ok(self.replica().visible),
        }
    }

    fn exact(&self, version: u64) -> Result<u64, No> {
        if version < self.store.compacted {
            return Err(
                Status::expired("The resourceVersion for the provided list is too old.").into(),
            );
        }
        if version > self.store.version {
            return Err(Status::too_large(version, self.store.version, self.config.minor).into());
        }
        Ok(version)
    }

    pub(super) fn answer_watch(&self, asked: Asked<'_>) -> Result<Answer, No> {
        let Asked {
            resource,
            kind,
            form,
            query,
            options,
            filter,
        } = asked;
        let from_now = options.version.unwrap_or(0) == 0;
        let wants_bookmarks = query.flag("allowWatchBookmarks") && self.config.bookmarks;
        let initial = options.initial.unwrap_or(from_now);
        let streaming = options
            .initial
            .unwrap_or(from_now && self.config.watch_list);
        let consistent = streaming && options.version.is_none();
        let visible = if consistent && !self.replica().lagging {
            self.store.version
        } else {
            self.replica().visible
        };
        let version = if initial || from_now {
            visible
        } else {
            options.version.unwrap_or(visible)
        };
        let objects: Vec<Arc<Object>> = if initial {
            let prefix = filter.prefix();
            let objects = self.store.at(resource, visible, &prefix, None);
            objects
                .filter(|object| filter.matches(object, kind))
                .cloned()
                .collect()
        } else {
            Vec::new()
        };
        let timeout = options.timeout.unwrap_or_else(|| {
            // Like the server, it takes between half an hour and an hour. The value depends only on the request.
            let random = Rng::new(self.next_response ^ self.store.version << 20).below(1_800);
            Duration::from_secs(1_800 + random)
        });
        let resource = self.store.stored(resource);
        let opening = Opening {
            resource,
            kind: Arc::clone(kind),
            form,
            filter,
            version,
            initial: objects,
            initial_end: streaming && wants_bookmarks && self.config.ends_streams,
            timeout,
            bookmarks_every: (wants_bookmarks && self.config.periodic_bookmarks)
                .then_some(self.config.bookmark_every),
            is_ahead: version > visible,
            limit: self.config.watch_buffer,
        };
        if let Some(status) = self.refuse_watch(options.version.unwrap_or(0), initial) {
            if self.config.gone == Gone::Http {
                return Err(status.into());
            }
            let body = WatchBody::new(
                self.now,
                Opening {
                    initial: Vec::new(),
                    ..opening
                },
            )
            .failed(status);
            return Ok((head(200, form.format, true), BodySource::Watch(body)));
        }
        let mut body = WatchBody::new(self.now, opening);
        let events = self
            .store
            .events_after(version)
            .take_while(|entry| entry.version <= self.replica().visible);
        for entry in events.filter(|entry| entry.resource == resource) {
            body.offer(entry);
        }
        body.pass(self.replica().visible);
        Ok((head(200, form.format, true), BodySource::Watch(body)))
    }

    /// Returns the error for a watch from a version that this server has not reached, or no longer has; 0 is any.
    fn refuse_watch(&self, version: u64, initial: bool) -> Option<Status> {
        let replica = self.replica();
        if initial && version > replica.visible {
            Some(Status::too_large(
                version,
                replica.visible,
                self.config.minor,
            ))
        } else if !initial && version != 0 && version < replica.window_start {
            Some(Status::expired(format!(
                "too old resource version: {version} ({})",
                replica.window_start
            )))
        } else {
            None
        }
    }
}
