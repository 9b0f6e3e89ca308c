//! A replacement of `kube::runtime::watcher`, with its types.

use core::convert::Infallible;
use core::fmt::Debug;
use core::hash::BuildHasher as _;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;

use futures_channel::mpsc;
use futures_core::Stream;
use informer_core::decode::Accept;
use informer_core::drive::{Activity, Command};
use informer_core::reflector::{Change, Initial};
use informer_core::report::{Level, Phase, Problem, RequestProblem};
use informer_core::resource::OwnedResource;
use informer_core::{
    Decode, Frame, Heap, Instant, RawObject, Reflector, ReflectorConfig, Report, Resource,
    ResourceVersion, Sink, drive,
};
use informer_tokio::transport::TokioTimer;
use kube_client::Api;
use kube_core::{PartialObjectMeta, Status};
use serde::de::{DeserializeOwned, Error as _};
use tokio::task::JoinSet;

pub use kube_runtime::watcher::{
    Config, DefaultBackoff, Error, Event, ExponentialBackoff, InitialListStrategy, ListSemantic,
    Result,
};

/// The number of events that wait for a slow reader. At this bound, nothing more is read from the server.
const AHEAD: usize = 64;

/// Watches a resource, like [`kube_runtime::watcher()`], whose signature and events it has.
///
/// All adapters of kube's [`WatchStreamExt`](kube_runtime::WatchStreamExt) apply. The differences:
/// - Failed requests are retried with growing delays without `default_backoff`, and a watch that ends at once is not
///   reopened in a loop. Each failure is still an `Err` item, after which the stream continues. A list that is only
///   slow and a connection that is found to be dead are no failures, as in kube.
/// - A watch that is answered with 410 leads to a list.
/// - An object that cannot be decoded is skipped and named in an `Err` item, which for those of a list comes before
///   [`Event::InitDone`]; all others are delivered. The store of [`reflector`](crate::runtime::reflector()) keeps the state before.
/// - [`Config::any_semantic`] takes effect for every page size. A list after an interruption is never older than the
///   state before.
/// - The driver runs in a task, which begins when the stream is first polled and ends when it is dropped.
///
/// [`Config::disable_bookmarks`] has no effect. The stream needs a tokio runtime.
///
/// ```
/// use futures_util::TryStreamExt as _;
/// use informer_kube::runtime::watcher; // Instead of `kube::runtime::watcher`.
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::runtime::WatchStreamExt as _;
/// use kube::{Api, Client, ResourceExt as _};
///
/// # async fn example(client: Client) -> Result<(), watcher::Error> {
/// let pods = Api::<Pod>::default_namespaced(client);
/// watcher(pods, watcher::Config::default())
///     .applied_objects()
///     .try_for_each(async |pod| Ok(println!("{}", pod.name_any())))
///     .await
/// # }
/// ```
pub fn watcher<K>(api: Api<K>, config: Config) -> impl Stream<Item = Result<Event<K>>> + Send
where
    K: kube_core::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    Watch::new(api, config, K::metadata_api())
}

/// Watches the metadata of a resource, like `kube_runtime::metadata_watcher`. See [`watcher`].
pub fn metadata_watcher<K>(
    api: Api<K>,
    config: Config,
) -> impl Stream<Item = Result<Event<PartialObjectMeta<K>>>> + Send
where
    K: kube_core::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    Watch::new(api, config, true)
}

/// Watches one object by its name, like [`kube_runtime::watcher::watch_object`]: `None` if it does not exist or is deleted.
/// See [`watcher`](fn@watcher).
pub fn watch_object<K>(
    api: Api<K>,
    name: &str,
) -> impl Stream<Item = Result<Option<K>>> + Send + use<K>
where
    K: kube_core::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = Config::default().fields(&format!("metadata.name={name}"));
    OneObject {
        events: Watch::new(api, config, K::metadata_api()),
        seen: false,
    }
}

struct OneObject<K> {
    events: Watch<K>,
    /// Whether the current list has shown it.
    seen: bool,
}

impl<K: DeserializeOwned + Send + 'static> Stream for OneObject<K> {
    type Item = Result<Option<K>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let event = ready!(Pin::new(&mut self.events).poll_next(cx));
            let item = match event {
                None => None,
                Some(Err(error)) => Some(Err(error)),
                Some(Ok(Event::Init)) => {
                    self.seen = false;
                    continue;
                }
                Some(Ok(Event::InitApply(object) | Event::Apply(object))) => {
                    self.seen = true;
                    Some(Ok(Some(object)))
                }
                Some(Ok(Event::InitDone)) if self.seen => continue,
                Some(Ok(Event::InitDone | Event::Delete(_))) => Some(Ok(None)),
            };
            return Poll::Ready(item);
        }
    }
}

type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Watch<K> {
    /// Until the first poll.
    run: Option<Run>,
    task: JoinSet<()>,
    items: mpsc::Receiver<Result<Event<K>>>,
}

// Nothing in it is pinned.
impl<K> Unpin for Watch<K> {}

impl<K: DeserializeOwned + Send + 'static> Watch<K> {
    fn new<A: kube_core::Resource>(api: Api<A>, config: Config, metadata: bool) -> Self {
        let (sender, items) = mpsc::channel(AHEAD);
        let target = target(api.resource_url(), &config);
        let any = config.list_semantic == ListSemantic::Any;
        let asked = config.timeout;
        let mut reflector_config = ReflectorConfig {
            initial: match config.initial_list_strategy {
                InitialListStrategy::ListWatch => Initial::List,
                InitialListStrategy::StreamingList => Initial::Stream,
            },
            page_size: match config.page_size {
                // A server ignores the limit of a list that it answers from its cache.
                _ if any => None,
                size => Some(size.unwrap_or(0)),
            },
            watch_timeout: config
                .timeout
                .filter(|seconds| *seconds > 0)
                .map(|seconds| Duration::from_secs(seconds.into())),
            ..ReflectorConfig::default()
        };
        if asked == Some(0) {
            // For kube, zero lets the server decide: half an hour or more.
            reflector_config.min_watch_timeout = Duration::from_secs(1800);
        }
        let seed = RandomState::new().hash_one(0);
        let mut reflector = Reflector::<_, Heap<Box<str>>>::new(target, reflector_config, seed);
        if metadata {
            reflector = reflector.with_decoder(&MetadataInJson);
        }
        if !any {
            reflector.repair(Instant::from_micros(0));
        }
        let mut transport = crate::transport(api.into_client());
        let mut sink = Events {
            sender,
            pending: VecDeque::new(),
            listing: false,
            undecodable: Vec::new(),
            activity: Activity::Opening,
            failure: String::new(),
        };
        let run = async move {
            drive(
                &mut reflector,
                &mut transport,
                &mut TokioTimer::default(),
                &mut sink,
            )
            .await;
        };
        Self {
            run: Some(Box::pin(run)),
            task: JoinSet::new(),
            items,
        }
    }
}

impl<K> Stream for Watch<K> {
    type Item = Result<Event<K>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(run) = self.run.take() {
            self.task.spawn(run);
        }
        let item = ready!(Pin::new(&mut self.items).poll_next(cx));
        if item.is_none()
            && let Some(Err(error)) = ready!(self.task.poll_join_next(cx))
            && let Ok(panic) = error.try_into_panic()
        {
            // A decoder panicked, and kube's watcher would pass that on as well.
            std::panic::resume_unwind(panic);
        }
        Poll::Ready(item)
    }
}

/// Returns the resource of a path such as `/apis/apps/v1/namespaces/prod/deployments`.
fn target(path: &str, config: &Config) -> OwnedResource {
    let mut segments = path.trim_start_matches('/').split('/');
    let group = match segments.next() {
        Some("apis") => segments.next().unwrap_or_default(),
        _ => "",
    };
    let version = segments.next().unwrap_or_default();
    let rest: Vec<&str> = segments.collect();
    let (namespace, plural) = match rest[..] {
        ["namespaces", namespace, plural] => (namespace, plural),
        [plural, ..] => ("", plural),
        [] => ("", ""),
    };
    Resource::new(group, version, plural)
        .namespace(namespace)
        .labels(config.label_selector.as_deref().unwrap_or_default())
        .fields(config.field_selector.as_deref().unwrap_or_default())
        .into()
}

/// Returns the `Status` of an answer. As with a `kube::Client`, another body becomes the message of one.
fn status(report: &Report<'_>, code: u16) -> Box<Status> {
    let parsed = serde_json::from_slice::<Status>(report.answer);
    let status = parsed.unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(report.answer);
        let reason = match text.trim() {
            "" => reason(code),
            _ => "Failed to parse error data",
        };
        Status::failure(text.trim(), reason).with_code(code)
    });
    status.boxed()
}

/// Returns the reason that the API server gives with a code, for an answer without a body. `Status::is_forbidden` and the like compare it alone.
const fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}

/// Comes between the problems of two objects in one error.
const BETWEEN: &str = "; ";

/// Returns the keys of the objects that an error of [`watcher`] is about, since they cannot be decoded.
pub(crate) fn undecodable(error: &Error) -> Vec<String> {
    let Error::WatchFailed(kube_client::Error::SerdeError(error)) = error else {
        return Vec::new();
    };
    let text = error.to_string();
    let keys = text
        .split(BETWEEN)
        .filter_map(|problem| problem.split(' ').next());
    keys.map(str::to_owned).collect()
}

/// Requests metadata in the format that serde reads, with managedFields, as kube does. The events decode the objects.
struct MetadataInJson;

impl Decode for MetadataInJson {
    type Value = ();
    type Error = Infallible;

    fn decode(&self, _: &RawObject<'_>) -> core::result::Result<(), Infallible> {
        Ok(())
    }

    fn accept(&self) -> Accept {
        Accept::metadata()
    }
}

/// Converts frames to kube's events.
struct Events<K> {
    sender: mpsc::Sender<Result<Event<K>>>,
    pending: VecDeque<Result<Event<K>>>,
    listing: bool,
    /// The problems of a list's objects, which become one error after the list.
    undecodable: Vec<String>,
    activity: Activity,
    /// The text of the transport's last failure.
    failure: String,
}

impl<K: DeserializeOwned> Events<K> {
    fn object(&mut self, key: &str, change: Change, raw: &RawObject<'_>) {
        let object = match serde_json::from_slice(raw.json()) {
            Ok(object) => object,
            Err(error) => return self.problem(key, &format!("cannot be decoded: {error}")),
        };
        self.pending.push_back(Ok(match change {
            Change::Deleted => Event::Delete(object),
            _ if self.listing => Event::InitApply(object),
            Change::Listed | Change::Added | Change::Modified => Event::Apply(object),
        }));
    }

    fn problem(&mut self, key: &str, problem: &str) {
        self.undecodable.push(format!("{key} {problem}"));
        if !self.listing {
            self.end_list();
        }
    }

    fn end_list(&mut self) {
        if !self.undecodable.is_empty() {
            let problems = core::mem::take(&mut self.undecodable).join(BETWEEN);
            let error = kube_client::Error::SerdeError(serde_json::Error::custom(problems));
            self.pending.push_back(Err(Error::WatchFailed(error)));
        }
    }

    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<core::result::Result<(), mpsc::SendError>> {
        while !self.pending.is_empty() {
            ready!(self.sender.poll_ready(cx))?;
            if let Some(item) = self.pending.pop_front() {
                self.sender.start_send(item)?;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn error(&self, report: &Report<'_>) -> Error {
        let is_open = matches!(self.activity, Activity::Watching | Activity::Streaming);
        let error = if let Problem::Answer { status: code, .. } = report.problem {
            let status = status(report, code);
            if is_open {
                return Error::WatchError(status);
            }
            kube_client::Error::Api(status)
        } else if matches!(report.problem, Problem::Request(RequestProblem::NoVersion)) {
            return Error::NoResourceVersion;
        } else {
            kube_client::Error::Service(report.to_string().into())
        };
        if report.phase == Phase::List {
            Error::InitialListFailed(error)
        } else if is_open {
            Error::WatchFailed(error)
        } else {
            Error::WatchStartFailed(error)
        }
    }
}

impl<K: DeserializeOwned> Sink<Box<str>> for Events<K> {
    fn frame(&mut self, now: Instant, frame: Frame<'_, Box<str>>) {
        match frame {
            Frame::Begin => {
                self.listing = true;
                self.undecodable.clear();
                self.pending.push_back(Ok(Event::Init));
            }
            Frame::Object(object) => match object.problem {
                Some(problem) => self.problem(object.key, &format!("cannot be read: {problem}")),
                None => self.object(object.key, object.change, &object.raw),
            },
            Frame::Complete { .. } => {
                self.listing = false;
                self.end_list();
                self.pending.push_back(Ok(Event::InitDone));
            }
            Frame::Report(report) => self.report(now, report),
            Frame::Bookmark { .. } | Frame::Internal | _ => {}
        }
    }

    fn flush(&mut self, _: Instant, _: &ResourceVersion<Box<str>>) {}

    fn report(&mut self, _: Instant, report: Report<'_>) {
        let report = report.with_detail(&self.failure);
        // No request has failed, and kube continues without an item.
        let is_dead = matches!(report.problem, Problem::Request(RequestProblem::Silent(_)))
            && matches!(self.activity, Activity::Watching);
        let is_notice = is_dead
            || matches!(
                report.problem,
                Problem::Request(RequestProblem::SlowList(_) | RequestProblem::VersionWentBack)
            );
        if is_notice {
            tracing::warn!(class = report.class(), "{report}");
            return;
        }
        // The engine expects answers such as 429 and repeats the request, but kube passes on each of them.
        let is_answer =
            report.level >= Level::Info && matches!(report.problem, Problem::Answer { .. });
        // A reader that does not read gets no more than this, and then what comes next.
        if (report.level < Level::Warn && !is_answer) || self.pending.len() >= AHEAD {
            tracing::debug!(class = report.class(), "{report}");
            return;
        }
        let error = self.error(&report);
        self.pending.push_back(Err(error));
    }

    fn failure(&mut self, _: Instant, error: &dyn core::fmt::Display) {
        self.failure = error.to_string();
    }

    fn activity(&mut self, _: Instant, activity: Activity) {
        self.activity = activity;
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>, has_begun: bool) -> Poll<()> {
        if has_begun {
            return Poll::Ready(());
        }
        // The wake of a task that yields comes after tokio's timers and sockets.
        core::pin::pin!(tokio::task::yield_now()).poll(cx)
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_flush(cx).map(|_| ())
    }

    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Command> {
        match ready!(self.poll_flush(cx)) {
            Ok(()) => Poll::Pending,
            Err(_) => Poll::Ready(Command::Stop),
        }
    }
}
