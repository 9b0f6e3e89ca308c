//! Responses to GET requests.

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use informer_core::Instant;

use super::FakeServer;
use super::negotiation::content_type;
use super::options::Options;
use super::response::{BodySource, Response, UNKNOWN};
use super::write::read_scale;
use crate::backend::{Backend, Chunk, Compression, HeadPoll, ResponseHead, ResponseId, Write};
use crate::filter::Filter;
use crate::log::{RequestLog, RequestRecord, Verb};
use crate::object::{Form, Format, ResourceType};
use crate::protobuf;
use crate::query::{ApiPath, Part, Query, split_target};
use crate::status::Status;
use crate::store::key;

/// A list that waits for its version.
#[derive(Debug)]
pub(super) struct Waiting {
    request: RequestRecord,
    until: Instant,
}

pub(super) type Answer = (ResponseHead, BodySource);

/// The reason why there is no response.
pub(super) enum No {
    Refused(Status),
    /// The requested version is in the future.
    TooLarge(u64),
}

impl From<Status> for No {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl Backend for FakeServer {
    fn tick(&mut self, now: Instant) {
        self.keep_time(now);
    }

    fn handle_request(&mut self, now: Instant, target: &str, accept: &str) -> ResponseId {
        self.keep_time(now);
        let (path, query) = split_target(target);
        let verb = match ApiPath::parse(&path).map(|path| path.name) {
            None => Verb::Other,
            Some(Some(_)) => Verb::Get,
            Some(None) => Verb::of(&query),
        };
        let request = RequestRecord::new(now, verb, &path, &query, accept);
        let mark = self.log.push(request.clone());
        let mut effects = self.faults.take(&request);
        let request = RequestRecord {
            accept: self.seen_accept(accept, effects.format),
            ..request
        };
        let id = self.next_response;
        self.next_response += 1;

        let (head, source) = if self.replica().down {
            effects.fail = Some(informer_core::transport::FailureKind::Refused);
            effects.silent = false;
            (ResponseHead::new(0), BodySource::Whole(Vec::new()))
        } else if let Some(answer) = effects.answer.take() {
            let mut head = ResponseHead {
                status: answer.status,
                headers: answer.headers,
                content_length: None,
            };
            let mut body = answer.body;
            if answer.is_status && self.negotiate_error(&request.accept) == Format::Protobuf {
                head.set_header("Content-Type", protobuf::MEDIA_TYPE);
                let status = serde_json::from_slice(&body).unwrap_or_default();
                body = protobuf::object(&status).unwrap_or_default();
            }
            head.content_length = Some(body.len() as u64);
            (head, BodySource::Whole(body))
        } else if let Some(seconds) = self.unready_for() {
            self.refusal(&request.accept, &Status::not_ready(seconds))
        } else {
            let accept = request.accept.clone();
            self.answer(&request).unwrap_or_else(|version| {
                let until = now + self.config.too_large_wait;
                if until > now {
                    self.waiting.insert(id, Waiting { request, until });
                }
                let status = Status::too_large(version, self.replica().visible, self.config.minor);
                self.refusal(&accept, &status)
            })
        };
        if effects.fail.is_none() && !effects.silent {
            self.log.set_status(mark, head.status);
        }
        let mut response = Response::new(head, source, mark, now + self.config.latency, effects);
        response.replica = self.routed;
        response.pace(self.config.bandwidth, self.config.idle_cut);
        self.responses.insert(id, response);
        ResponseId(id)
    }

    fn handle_write(&mut self, now: Instant, write: Write<'_>) -> Option<(u16, Vec<u8>)> {
        Some(self.execute(now, write))
    }

    fn poll_head(&mut self, now: Instant, id: ResponseId) -> HeadPoll {
        if let Some(until) = self.still_waiting(now, id) {
            return HeadPoll::Pending { until: Some(until) };
        }
        let limit = self.config.stream_limit.unwrap_or(usize::MAX);
        if self
            .responses
            .range(..id.0)
            .nth(limit.saturating_sub(1))
            .is_some()
        {
            return HeadPoll::Pending { until: None };
        }
        self.responses
            .get_mut(&id.0)
            .map_or(HeadPoll::Failed(UNKNOWN), |response| {
                response.poll_head(now)
            })
    }

    fn poll_chunk(&mut self, now: Instant, id: ResponseId) -> Chunk {
        if let Some(until) = self.still_waiting(now, id) {
            return Chunk::Pending { until: Some(until) };
        }
        self.responses
            .get_mut(&id.0)
            .map_or(Chunk::Abort(UNKNOWN), |response| response.poll_chunk(now))
    }

    fn close(&mut self, id: ResponseId) {
        self.responses.remove(&id.0);
        self.waiting.remove(&id.0);
    }

    fn wakes_by_close(&self) -> bool {
        self.config.stream_limit.is_some()
    }

    fn compression(&self, target: &str) -> Compression {
        let (path, query) = split_target(target);
        if ApiPath::parse(&path).is_none_or(|path| path.name.is_some()) {
            return Compression::None;
        }
        match Verb::of(&query) {
            Verb::List if self.config.gzip_lists => Compression::Large,
            Verb::Stream if self.config.gzip_streams => Compression::EachFlush,
            // A plain watch without a version, which is treated as a streaming list.
            Verb::Watch
                if self.config.gzip_streams
                    && self.config.watch_list
                    && matches!(query.get("resourceVersion"), None | Some("" | "0")) =>
            {
                Compression::EachFlush
            }
            Verb::List | Verb::Stream | Verb::Watch | Verb::Get | Verb::Other => Compression::None,
        }
    }

    fn log(&self) -> &RequestLog {
        &self.log
    }
}

impl FakeServer {
    /// Returns the log of all requests.
    #[must_use]
    pub const fn log(&self) -> &RequestLog {
        &self.log
    }

    /// Returns the log mutably, so that it can be cleared.
    pub const fn log_mut(&mut self) -> &mut RequestLog {
        &mut self.log
    }

    /// Responds to a waiting list if it is due. Otherwise returns when to poll again.
    fn still_waiting(&mut self, now: Instant, id: ResponseId) -> Option<Instant> {
        self.keep_time(now);
        let waiting = self.waiting.get(&id.0)?;
        let until = waiting.until;
        let replica = self
            .responses
            .get(&id.0)
            .map_or(0, |response| response.replica);
        let routed = core::mem::replace(&mut self.routed, replica);
        let answer = self.answer(&waiting.request);
        self.routed = routed;
        match answer {
            Ok((head, source)) => {
                if let Some(response) = self.responses.get_mut(&id.0) {
                    self.log.set_status(response.mark, head.status);
                    response.answer(head, source);
                }
            }
            Err(_) if now < until => return Some(until),
            // The request was invalid from the start.
            Err(_) => {}
        }
        self.waiting.remove(&id.0);
        None
    }

    fn unready_for(&self) -> Option<u64> {
        let left = self.replica().ready_at?.saturating_duration_since(self.now);
        (!left.is_zero()).then(|| left.as_secs().clamp(1, 30))
    }

    /// Fails only if the requested version is in the future.
    fn answer(&self, request: &RequestRecord) -> Result<Answer, u64> {
        self.try_answer(request).or_else(|no| match no {
            No::Refused(status) => Ok(self.refusal(&request.accept, &status)),
            No::TooLarge(version) => Err(version),
        })
    }

    /// Returns the resource of a path.
    pub(super) fn index_of(&self, path: &ApiPath<'_>) -> Option<usize> {
        self.store.kinds().position(|kind| {
            let own = (&*kind.group, &*kind.version, &*kind.plural);
            kind.is_served && own == (path.group, path.version, path.plural)
        })
    }

    fn try_answer(&self, request: &RequestRecord) -> Result<Answer, No> {
        let Some(path) = ApiPath::parse(&request.path) else {
            return Ok(self.answer_other(request));
        };
        let Some(resource) = self.index_of(&path) else {
            return Ok(self.no_page(request));
        };
        let kind = self.store.kind(resource);
        if path.namespace.is_some() && !kind.namespaced
            || path.name.is_some() && kind.namespaced && path.namespace.is_none()
            || !kind.has(path.part)
        {
            return Err(Status::no_such_path().into());
        }
        let form = self.negotiate(&request.accept, request.verb, kind)?;
        if let Some(name) = path.name {
            let namespace = path.namespace.unwrap_or_default();
            match path.part {
                Part::Whole | Part::Status => {}
                Part::Scale => return Ok(self.answer_scale(resource, namespace, name)?),
                Part::Finalize | Part::Eviction | Part::Binding => {
                    return Err(Status::not_allowed().into());
                }
                Part::Container(part) => {
                    return Err(self.no_container(resource, namespace, name, part).into());
                }
            }
            return Ok(self.answer_get(resource, form, namespace, name)?);
        }
        let query = &request.query;
        let options = Options::parse(query, self.config.watch_list)?;
        let filter = Filter::parse(path.namespace, query, kind)?;
        let shards = query.get("shardSelector").filter(|_| self.config.sharding);
        let filter = match shards {
            Some(selector) => filter.shards(selector)?,
            None => filter,
        };
        let asked = Asked {
            resource,
            kind,
            form,
            query,
            options,
            filter,
        };
        match request.verb {
            Verb::Watch | Verb::Stream => self.answer_watch(asked),
            Verb::List | Verb::Get | Verb::Other => self.answer_list(&asked),
        }
    }

    /// The response to a request for a part that needs a container.
    pub(super) fn no_container(
        &self,
        resource: usize,
        namespace: &str,
        name: &str,
        part: &str,
    ) -> Status {
        let kind = self.store.kind(resource);
        match self.store.current(resource, &key(namespace, name)) {
            Some(_) => Status::no_container(&kind.plural, part),
            None => Status::no_such_object(&kind.group, &kind.plural, name),
        }
    }

    /// Responds with the scale of an object.
    fn answer_scale(&self, resource: usize, namespace: &str, name: &str) -> Result<Answer, Status> {
        let kind = self.store.kind(resource);
        let object = self
            .value_at(resource, &key(namespace, name))
            .ok_or_else(|| Status::no_such_object(&kind.group, &kind.plural, name))?;
        let mut body = read_scale(kind, &object)?.to_string().into_bytes();
        body.push(b'\n');
        Ok(whole(200, Format::Json, body))
    }

    /// Responds with a `Status`, in the format that the request accepts.
    pub(super) fn refusal(&self, accept: &str, status: &Status) -> Answer {
        let format = self.negotiate_error(accept);
        let mut body = status.body(format);
        if format == Format::Json {
            body.push(b'\n');
        }
        let (mut head, source) = whole(status.code, format, body);
        if let Some(seconds) = status.retry_after() {
            head.set_header("Retry-After", &seconds.to_string());
        }
        (head, source)
    }

    /// Responds to an unknown path. Outside of the built-in groups, the response is not a `Status` before Kubernetes
    /// 1.38.
    fn no_page(&self, request: &RequestRecord) -> Answer {
        let has_group = self.store.kinds().any(|kind| {
            let root = if kind.group.is_empty() {
                "/api"
            } else {
                "/apis"
            };
            let rest = request.path.strip_prefix(root);
            let rest =
                rest.and_then(|rest| rest.strip_prefix('/')?.strip_prefix(&kind.api_version()));
            !kind.custom && rest.is_some_and(|rest| rest.starts_with('/'))
        });
        if has_group || self.config.minor >= 38 {
            return self.refusal(&request.accept, &Status::no_such_path());
        }
        let (mut head, source) = whole(404, Format::Json, b"404 page not found\n".to_vec());
        head.set_header("Content-Type", "text/plain; charset=utf-8");
        (head, source)
    }

    fn answer_other(&self, request: &RequestRecord) -> Answer {
        if let Some(answer) = self.answer_discovery(request) {
            return answer;
        }
        match request.path.as_str() {
            "/livez" | "/readyz" | "/healthz" => {
                let mut head = ResponseHead::new(200);
                head.set_header("Content-Type", "text/plain; charset=utf-8");
                head.content_length = Some(2);
                (head, BodySource::Whole(b"ok".to_vec()))
            }
            "/version" => {
                let minor = self.config.minor;
                let text = format!(
                    "{{\"major\":\"1\",\"minor\":\"{minor}\",\"gitVersion\":\"v1.{minor}.0-mock\",\"gitCommit\":\"\",\
                     \"gitTreeState\":\"clean\",\"buildDate\":\"1970-01-01T00:00:00Z\",\"goVersion\":\"\",\"compiler\":\"\",\
                     \"platform\":\"linux/amd64\"}}\n"
                );
                whole(200, Format::Json, text.into_bytes())
            }
            _ => self.no_page(request),
        }
    }

    fn answer_get(
        &self,
        resource: usize,
        form: Form,
        namespace: &str,
        name: &str,
    ) -> Result<Answer, Status> {
        let kind = self.store.kind(resource);
        let object = self.store.current(resource, &key(namespace, name));
        let object =
            object.ok_or_else(|| Status::no_such_object(&kind.group, &kind.plural, name))?;
        let mut body = Vec::new();
        object.write(&mut body, kind, form);
        if form.format == Format::Json {
            body.push(b'\n');
        }
        Ok(whole(200, form.format, body))
    }
}

pub(super) struct Asked<'a> {
    pub(super) resource: usize,
    pub(super) kind: &'a Arc<ResourceType>,
    pub(super) form: Form,
    pub(super) query: &'a Query,
    pub(super) options: Options,
    pub(super) filter: Filter,
}

pub(super) fn whole(status: u16, format: Format, body: Vec<u8>) -> Answer {
    let head = ResponseHead {
        content_length: Some(body.len() as u64),
        ..head(status, format, false)
    };
    (head, BodySource::Whole(body))
}

pub(super) fn head(status: u16, format: Format, is_watch: bool) -> ResponseHead {
    let mut head = ResponseHead::new(status);
    head.set_header("Content-Type", content_type(format, is_watch));
    head
}
