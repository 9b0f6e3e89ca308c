//! An HTTP page with the health of informers, for people and for Prometheus.

mod html;
mod prometheus;

use core::fmt;
use informer_core::Form;
use std::sync::Arc;

#[doc(no_inline)]
pub use axum;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::controller::{ControllerHandle, ControllerMetrics};
use crate::factory::Factory;
use crate::health::Health;
use crate::informer::Informer;

/// An HTTP page with the health of informers. It is an axum router, which can be served alone or nested in another one.
///
/// | path | |
/// |---|---|
/// | `/` | for people: each informer, its problems and advice |
/// | `/metrics` | for Prometheus, in its text format |
/// | `/health.json` | every [`Health`] as JSON |
/// | `/readyz` | 200 if every informer is synced and running and every election has access to its Leases, else 503 with the names of those that are not |
/// | `/livez` | 200 |
///
/// It shows names, selectors and messages of the API server, but no objects. Access control is up to the program.
///
/// ```no_run
/// use informer_tokio::{Informer, Raw};
/// use informer_tokio::factory::Factory;
/// use informer_tokio::page::Page;
/// # async fn example(pods: Informer<Raw>, factory: Factory) -> std::io::Result<()> {
/// let page = Page::new("my-controller").informer(&pods).factory(&factory);
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// axum::serve(listener, page.router()).await
/// # }
/// ```
#[must_use = "call `router` for the page"]
pub struct Page {
    title: String,
    sources: Vec<HealthFn>,
    controllers: Vec<ControllerHandle>,
}

type HealthFn = Arc<dyn Fn() -> Vec<Health> + Send + Sync>;

impl Page {
    /// Creates an empty page with a title.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            sources: Vec::new(),
            controllers: Vec::new(),
        }
    }

    /// Adds an informer.
    pub fn informer<F: Form<Stored: Send + Sync + 'static>>(self, informer: &Informer<F>) -> Self {
        let informer = informer.clone();
        self.add(move || vec![informer.health()])
    }

    /// Adds a factory, with all informers that it has at the time of a request.
    pub fn factory(self, factory: &Factory) -> Self {
        let factory = factory.clone();
        self.add(move || factory.health())
    }

    /// Adds a controller, with the informers that it runs.
    pub fn controller(mut self, controller: &ControllerHandle) -> Self {
        self.controllers.push(controller.clone());
        let controller = controller.clone();
        self.add(move || controller.health())
    }

    fn add(mut self, source: impl Fn() -> Vec<Health> + Send + Sync + 'static) -> Self {
        self.sources.push(Arc::new(source));
        self
    }

    /// Returns the page as a router.
    pub fn router(self) -> Router {
        let page = Arc::new(self);
        let with = |answer: fn(&Self) -> Answer| {
            let page = Arc::clone(&page);
            get(move || {
                let answer = answer(&page);
                core::future::ready(answer)
            })
        };
        Router::new()
            .route("/", with(Self::html))
            .route("/metrics", with(Self::metrics))
            .route("/health.json", with(Self::json))
            .route("/readyz", with(Self::ready))
            .route("/livez", get(|| core::future::ready("ok\n")))
    }

    fn health(&self) -> Vec<Health> {
        let mut all: Vec<Health> = self.sources.iter().flat_map(|source| source()).collect();
        distinguish(&mut all, |health| &mut health.name);
        all
    }

    fn controllers(&self) -> Vec<(String, ControllerMetrics)> {
        let all = self.controllers.iter();
        let mut all: Vec<_> = all
            .map(|controller| (controller.name().to_owned(), controller.metrics()))
            .collect();
        distinguish(&mut all, |(name, _)| name);
        all
    }

    fn html(&self) -> Answer {
        Answer::of(
            "text/html; charset=utf-8",
            html::page(&self.title, &self.health(), &self.controllers()),
        )
    }

    fn metrics(&self) -> Answer {
        Answer::of(
            "text/plain; version=0.0.4; charset=utf-8",
            prometheus::text(&self.health(), &self.controllers()),
        )
    }

    fn json(&self) -> Answer {
        match serde_json::to_string_pretty(&self.health()) {
            Ok(json) => Answer::of("application/json", json),
            Err(error) => Answer {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                ..Answer::of("text/plain; charset=utf-8", error.to_string())
            },
        }
    }

    fn ready(&self) -> Answer {
        let health = self.health();
        let mut text = String::new();
        for health in health
            .iter()
            .filter(|health| !health.synced || health.ended)
        {
            text.push_str(&health.name);
            text.push_str(": ");
            text.push_str(health.state.as_str());
            for trouble in health.troubles() {
                text.push_str("; ");
                text.push_str(&trouble.to_string());
            }
            text.push('\n');
        }
        for (name, metrics) in self.controllers() {
            if let Some(error) = metrics.election_error {
                text.push_str(&format!("controller {name}: {error}\n"));
            }
        }
        if text.is_empty() {
            return Answer::of("text/plain; charset=utf-8", "ok\n".to_owned());
        }
        Answer {
            status: StatusCode::SERVICE_UNAVAILABLE,
            ..Answer::of("text/plain; charset=utf-8", text)
        }
    }
}

/// Makes the names distinct, since each metric needs its own.
fn distinguish<T>(all: &mut [T], name_of: fn(&mut T) -> &mut String) {
    let mut taken: Vec<String> = Vec::new();
    for one in all {
        let name = name_of(one);
        if taken.contains(name) {
            let own = (2..).map(|number| format!("{name} ({number})"));
            let free = own.into_iter().find(|name| !taken.contains(name));
            *name = free.unwrap_or_default();
        }
        taken.push(name.clone());
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

struct Answer {
    status: StatusCode,
    content_type: &'static str,
    body: String,
}

impl Answer {
    const fn of(content_type: &'static str, body: String) -> Self {
        Self {
            status: StatusCode::OK,
            content_type,
            body,
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> axum::response::Response {
        let headers = [
            (header::CONTENT_TYPE, self.content_type),
            (header::CACHE_CONTROL, "no-store"),
        ];
        (self.status, headers, self.body).into_response()
    }
}
