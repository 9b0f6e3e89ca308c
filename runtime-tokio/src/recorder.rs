//! Events about objects, which `kubectl describe` shows.

use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use http::Method;
use informer_core::{Form, Resource};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cache::entry::Entry;
use crate::requests::{self, HttpService, RequestError};

const EVENTS: Resource<'static> = Resource::new("events.k8s.io", "v1", "events");

/// How long an Event that is published again is counted up. It is client-go's time.
const SERIES: Duration = Duration::from_secs(6 * 60);
/// The most Events that may be counted up.
const MOST: usize = 4096;
/// The most bytes of a note. The server refuses more than 1 KiB.
const MOST_NOTE: usize = 1024;

/// Publishes Events about objects over a service, such as `informer::transport::HyperTransport`. Clones share the series.
///
/// The same Event again within six minutes counts up the first one. The user of the service needs the verbs `create` and
/// `patch` for `events.events.k8s.io`.
///
/// ```
/// use informer_tokio::{Entry, Raw};
/// use informer_tokio::recorder::{Happened, Recorder, Regarding};
/// # use informer_tokio::requests::{HttpService, RequestError};
/// # async fn example(service: impl HttpService + Clone, web: Entry<Raw>, pod: &str) -> Result<(), RequestError> {
/// let recorder = Recorder::new(service, "webs.example.com/controller", pod);
/// let regarding = Regarding::of("example.com/v1", "Web", &web);
/// recorder.publish(&regarding, &Happened::normal("Scaled", "Scale", "3 replicas")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Recorder<S> {
    service: S,
    controller: String,
    instance: String,
    series: Arc<Mutex<HashMap<(Regarding, Happened), Series>>>,
}

/// The object that an Event is about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Regarding {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
}

/// What has happened to an object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Happened {
    is_warning: bool,
    reason: String,
    action: String,
    note: String,
}

/// An Event that may be published again.
struct Series {
    name: String,
    count: u32,
    last: Instant,
}

impl Regarding {
    /// Names an object by its API version, such as `apps/v1`, its kind and its entry.
    pub fn of<F: Form>(
        api_version: impl Into<String>,
        kind: impl Into<String>,
        entry: &Entry<F>,
    ) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: entry.namespace().to_owned(),
            name: entry.name().to_owned(),
            uid: entry.uid().to_string(),
        }
    }

    /// Events about cluster-scoped objects are in the namespace `default`.
    fn events(&self) -> Resource<'_> {
        EVENTS.namespace(match self.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        })
    }
}

impl Happened {
    /// Something normal: its reason in CamelCase, the action of the controller, and a note for people, of which the first
    /// 1,024 bytes are published.
    pub fn normal(
        reason: impl Into<String>,
        action: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self {
            is_warning: false,
            reason: reason.into(),
            action: action.into(),
            note: note.into(),
        }
    }

    /// The same of something that may need attention.
    pub fn warning(
        reason: impl Into<String>,
        action: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self {
            is_warning: true,
            ..Self::normal(reason, action, note)
        }
    }
}

impl<S: HttpService + Clone> Recorder<S> {
    /// Names the controller, such as `webs.example.com/controller`, and this instance of it, such as its Pod.
    #[must_use]
    pub fn new(service: S, controller: impl Into<String>, instance: impl Into<String>) -> Self {
        Self {
            service,
            controller: controller.into(),
            instance: instance.into(),
            series: Arc::default(),
        }
    }

    /// Publishes an Event.
    ///
    /// # Errors
    /// Fails if the server cannot be reached or refuses the Event.
    pub async fn publish(&self, about: &Regarding, what: &Happened) -> Result<(), RequestError> {
        let (mut service, key) = (self.service.clone(), (about.clone(), what.clone()));
        let again = {
            let mut series = self.series();
            series.retain(|_, one| one.last.elapsed() < SERIES);
            series.get_mut(&key).map(|one| {
                one.count += 1;
                one.last = Instant::now();
                (one.name.clone(), one.count)
            })
        };
        // A time that is out of range is as good as any.
        let now = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
        let now = format!("{now:.6}");
        if let Some((name, count)) = again {
            let path = about.events().object_path(&name).to_string();
            let patch = json!({ "series": { "count": count, "lastObservedTime": now } });
            match requests::json(&mut service, Method::PATCH, &path, Some(patch)).await {
                // It has expired on the server.
                Err(error) if error.is(&[404]) => {}
                result => return result.map(drop),
            }
        }
        let path = about.events().path().to_string();
        let event = self.event(about, what, now);
        let created = requests::json(&mut service, Method::POST, &path, Some(event)).await?;
        let name = created
            .get("metadata")
            .and_then(|metadata| metadata["name"].as_str());
        let Some(name) = name else { return Ok(()) };
        let first = Series {
            name: name.to_owned(),
            count: 1,
            last: Instant::now(),
        };
        let mut series = self.series();
        if series.len() < MOST || series.contains_key(&key) {
            series.insert(key, first);
        }
        Ok(())
    }

    fn event(&self, about: &Regarding, what: &Happened, now: String) -> Value {
        let mut end = what.note.len().min(MOST_NOTE);
        while !what.note.is_char_boundary(end) {
            end -= 1;
        }
        // Some names are no DNS subdomain, which that of an Event has to be, of at most 253 bytes.
        let part = |c: char| match c {
            '.' => '.',
            c if c.is_ascii_alphanumeric() => c.to_ascii_lowercase(),
            _ => '-',
        };
        let name: String = about.name.chars().take(200).map(part).collect();
        let name = name.trim_matches(['.', '-']);
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": { "generateName": format!("{name}-") },
            "eventTime": now,
            "reportingController": self.controller, "reportingInstance": self.instance,
            "action": what.action, "reason": what.reason,
            "type": if what.is_warning { "Warning" } else { "Normal" },
            "note": &what.note[..end],
            "regarding": {
                "apiVersion": about.api_version, "kind": about.kind,
                "namespace": about.namespace, "name": about.name, "uid": about.uid,
            },
        })
    }

    fn series(&self) -> MutexGuard<'_, HashMap<(Regarding, Happened), Series>> {
        // No code of users runs under this lock.
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> fmt::Debug for Recorder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("controller", &self.controller)
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}
