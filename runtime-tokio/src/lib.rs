//! The Kubernetes informer on tokio: a cached, indexed copy of a resource that stays true, and handlers that hear of
//! changes.
//!
//! A [`Builder`] gives two things: an [`Informer`], which is a handle to ask and to register with, and a [`Driver`],
//! which is the future that does the work. The driver is spawned by the user; it ends when it is stopped or dropped.
//!
//! ```no_run
//! use informer_core::Resource;
//! use informer_tokio::{Informer, Raw};
//! # async fn run(transport: informer_mock::MockTransport) -> Result<(), Box<dyn std::error::Error>> {
//! let pods = Resource::parse("pods")?.namespace("prod");
//! let (pods, driver) = Informer::builder(transport, pods, Raw).build();
//! tokio::spawn(driver.run());
//!
//! pods.synced().await?;
//! for pod in pods.lister().list() {
//!     println!("{pod}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The same with a type of one's own:
//!
//! ```
//! use informer_tokio::{Informer, kind};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Pod { spec: Spec }
//! #[derive(Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct Spec { node_name: Option<String> }
//!
//! kind!(Pod, "v1", "pods");
//!
//! # fn build<T: informer_core::Transport>(transport: T) {
//! let (pods, driver) = Informer::<Pod>::of(transport)
//!     .namespace("prod")
//!     .index("node", |pod| pod.spec.node_name.clone())
//!     .build();
//! let on_n1 = pods.lister().by_index("node", "n1");
//! # }
//! ```
//!
//! # Features
//! None is on by default; each only adds.
//! - `k8s-openapi`: every type of k8s-openapi is a [`Kind`] by itself.
//! - `kube`: every type that `kube::CustomResource` derives is one too, and so is every type of k8s-openapi.
//! - `metrics`: figures go to the `metrics` facade.
//! - `page`: `Page`, a page over HTTP that shows how informers are, for people and for Prometheus.
//! - `signal`: `StopSignal`, which waits for SIGINT and SIGTERM.

mod cache;
mod controller;
mod driver;
mod election;
mod factory;
mod handler;
mod health;
mod informer;
#[cfg(feature = "zstd")]
mod packed;
#[cfg(feature = "page")]
mod page;
#[cfg(feature = "signal")]
mod signal;
mod timer;

pub use cache::entry::{Entry, Key};
pub use controller::queue::{Work, WorkQueue};
pub use controller::{
    Controller, ControllerHandle, ControllerMetrics, Failure, Next, Owned, OwnedObject, Owner,
    Stopped, Task,
};
pub use driver::Driver;
pub use driver::journal::Journal;
pub use election::replica::{MembersClient, Replica, ReplicaWork};
pub use election::{Election, Leadership, LeaseClient};
pub use factory::transport::{BoxBody, BoxTransport, DynBody, DynTransport, Lost};
pub use factory::{Factory, FactoryBuilder, FactoryDriver, Request};
pub use handler::filter::Filter;
pub use handler::handlers::{AsyncEventHandler, AsyncHandlers, EventHandler, Handlers};
pub use handler::options::HandlerOptions;
pub use handler::registered::HandlerHandle;
pub use handler::subscription::{Event, Subscription};
pub use health::error::{Ended, Missing, NotSynced, StillUnsynced};
pub use health::snapshot::{HandlerHealth, Health, Lag, SourceHealth, State, Trouble};
pub use informer::Informer;
pub use informer::builder::Builder;
pub use informer::kind::Kind;
pub use informer::lister::Lister;
pub use informer::wait::{HasSynced, wait_for_sync};
#[cfg(feature = "zstd")]
pub use packed::{PackError, Packed, PackedJson};
#[cfg(feature = "page")]
pub use page::Page;
#[cfg(feature = "signal")]
pub use signal::StopSignal;
pub use timer::TokioTimer;

/// Makes `async fn` possible in a [`DynTransport`].
#[doc(no_inline)]
pub use async_trait::async_trait;
#[doc(no_inline)]
pub use informer_core::{
    AuditConfig, Body, Decode, ElectionConfig, ElectionError, ExpectedState, FailureKind,
    FieldSelector, Get, Head, IndexError, Initial, Json, LabelSelector, LeaseRecord, Level, Meta,
    Metadata, OwnedResource, Problem, Prune, Raw, RawJson, RawObject, Report, Resource, Transport,
    TransportError, Typed, View, Written,
};

#[doc(hidden)]
pub mod __private {
    pub use crate::factory::transport::erase::erase;
}
