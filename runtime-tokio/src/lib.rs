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
//! use informer_core::{Head, Resource};
//! use informer_tokio::{Informer, Json, Kind};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Pod { spec: Spec }
//! #[derive(Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct Spec { node_name: Option<String> }
//!
//! impl Kind for Pod {
//!     const RESOURCE: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");
//! }
//!
//! # fn build<T: informer_core::Transport>(transport: T) {
//! let (pods, driver) = Informer::<Pod>::of(transport)
//!     .namespace("prod")
//!     .index("node", |pod| pod.spec.node_name.clone())
//!     .build();
//! let on_n1 = pods.lister().by_index("node", "n1");
//! # }
//! ```

mod builder;
mod driver;
mod entry;
mod error;
mod handler;
mod index;
mod informer;
mod lister;
mod queue;
mod shared;
mod sink;
mod subscription;
mod timer;

pub use builder::{Builder, Kind};
pub use driver::Driver;
pub use entry::{Entry, Key};
pub use error::{Ended, StillUnsynced};
pub use handler::{EventHandler, HandlerHandle, HandlerOptions, Handlers};
pub use informer::{Health, Informer};
pub use lister::Lister;
pub use queue::{Work, WorkQueue};
pub use subscription::{Event, Subscription};
pub use timer::TokioTimer;

#[doc(no_inline)]
pub use informer_core::{
    Decode, IndexError, Initial, Json, LabelSelector, Level, Meta, Metadata, OwnedResource,
    Problem, Raw, RawJson, Report, Resource, Transport, Typed, View,
};
