//! Checks at the start of a program whether it has the rights that it needs.

use http::Method;
use informer_core::report::OneLine;
use informer_core::{Form, OwnedResource, Resource};
use serde_json::{Value, json};

use crate::health::advice;
use crate::informer::Informer;
use crate::requests::{self, HttpService, RequestError};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// The rights that a program needs. All that are missing are named in one error, before anything fails.
///
/// Each verb is a `SelfSubjectAccessReview`, which every authenticated user may create unless an administrator forbids it.
///
/// ```
/// use informer_tokio::rights::{Rights, RightsError};
/// use informer_tokio::{Informer, Raw, Resource};
/// # use informer_tokio::requests::HttpService;
/// # async fn example(mut client: impl HttpService, pods: Informer<Raw>) -> Result<(), RightsError> {
/// let rights = Rights::new()
///     .informer(&pods)
///     .verbs(Resource::parse("deployments.apps").unwrap().namespace("prod"), &["create", "patch"])
///     .subresource(Resource::new("example.com", "v1", "webs"), "status", &["patch"])
///     .election("prod")
///     .events("");
/// match rights.check(&mut client).await {
///     Err(RightsError::Unknown(error)) => eprintln!("the rights cannot be checked: {error}"),
///     checked => checked?,
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, Debug)]
#[must_use = "call `check`"]
pub struct Rights(Vec<Wanted>);

/// Verbs on a resource, in its namespace or in all.
#[derive(Clone, Debug)]
struct Wanted {
    resource: OwnedResource,
    subresource: String,
    verbs: Vec<String>,
}

/// Rights are missing, or it is not known whether they are. `Display` writes one line.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RightsError {
    /// These are missing. Each text names verbs, resource and namespace, and the rule that grants them.
    #[error("rights are missing: {}", OneLine(.0.join("; ")))]
    Missing(Vec<String>),
    /// The server could not be asked, or could not tell.
    #[error("it is not known which rights there are: {0}")]
    Unknown(#[source] RequestError),
}

informer_core::readable_errors!(RightsError);

impl Rights {
    /// Creates a check of nothing.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds `list` and `watch` on what an informer lists, in each of its namespaces. What joins it later is not checked.
    pub fn informer<F: Form>(mut self, informer: &Informer<F>) -> Self {
        for resource in informer.sources() {
            self = self.verbs(resource.as_ref(), &["list", "watch"]);
        }
        self
    }

    /// Adds verbs on a resource, in its namespace. Without one it is all namespaces.
    pub fn verbs(self, resource: Resource<'_>, verbs: &[&str]) -> Self {
        self.subresource(resource, "", verbs)
    }

    /// Adds verbs on a subresource, such as `status`.
    pub fn subresource(mut self, resource: Resource<'_>, name: &str, verbs: &[&str]) -> Self {
        self.0.push(Wanted {
            resource: OwnedResource::from(resource),
            subresource: name.to_owned(),
            verbs: verbs.iter().map(ToString::to_string).collect(),
        });
        self
    }

    /// Adds what an [`Election`](crate::election::Election) needs of the Leases in a namespace. A
    /// [`Replica`](crate::election::Replica) also needs `list` and `delete`.
    pub fn election(self, namespace: &str) -> Self {
        let leases = Resource::new("coordination.k8s.io", "v1", "leases").namespace(namespace);
        self.verbs(leases, &["get", "create", "update"])
    }

    /// Adds what a [`Recorder`](crate::recorder::Recorder) needs in a namespace, or in all if it is empty.
    pub fn events(self, namespace: &str) -> Self {
        let events = Resource::new("events.k8s.io", "v1", "events").namespace(namespace);
        self.verbs(events, &["create", "patch"])
    }

    /// Asks the server for each right.
    ///
    /// # Errors
    /// Fails if one is missing, or if that is not known. If some are missing and others are not known, the error names
    /// the missing ones.
    pub async fn check(&self, service: &mut impl HttpService) -> Result<(), RightsError> {
        let mut missing = Vec::new();
        for wanted in &self.0 {
            let mut verbs = Vec::new();
            for verb in &wanted.verbs {
                match wanted.is_allowed(verb, service).await {
                    Ok(true) => {}
                    Ok(false) => verbs.push(verb.as_str()),
                    // What is known to be missing is said in any case.
                    Err(error) if missing.is_empty() && verbs.is_empty() => {
                        return Err(RightsError::Unknown(error));
                    }
                    Err(_) => break,
                }
            }
            if !verbs.is_empty() {
                let resource = wanted.resource.as_ref();
                missing.push(advice::rule(resource, &wanted.subresource, &verbs));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(RightsError::Missing(missing))
    }
}

impl Wanted {
    async fn is_allowed(
        &self,
        verb: &str,
        service: &mut impl HttpService,
    ) -> Result<bool, RequestError> {
        let resource = self.resource.as_ref();
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": {
                "verb": verb,
                "group": resource.group,
                "resource": resource.plural,
                "subresource": self.subresource,
                "namespace": resource.namespace.unwrap_or_default(),
            } },
        });
        let answer = requests::json(service, Method::POST, REVIEWS, Some(review)).await?;
        let status = answer.get("status").unwrap_or(&Value::Null);
        match (
            status["allowed"].as_bool(),
            status["evaluationError"].as_str(),
        ) {
            (Some(true), _) => Ok(true),
            (Some(false), None | Some("")) => Ok(false),
            (Some(false), Some(why)) => Err(RequestError::new(why)),
            (None, _) => Err(RequestError::new(
                "the response is no SelfSubjectAccessReview",
            )),
        }
    }
}
