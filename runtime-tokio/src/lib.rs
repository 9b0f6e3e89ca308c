//! The Kubernetes informer on tokio: a cached, indexed copy of a resource that stays true, and handlers that hear of
//! changes.
//!
//! A [`Builder`](informer::Builder) gives two things: an [`Informer`], which is a handle to ask and to register with, and a
//! [`Driver`](informer::Driver),
//! which is the future that does the work. The driver is spawned by the user; it ends when it is stopped or dropped.
//!
//! ```no_run
//! use informer_tokio::{Informer, Raw, Resource};
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
//! `zstd` is on by default. Each feature only adds.
//! - `k8s-openapi`: every type of k8s-openapi is a [`Kind`] by itself.
//! - `kube`: every type that `kube::CustomResource` derives is one too, and so is every type of k8s-openapi.
//! - `metrics`: figures go to the `metrics` facade.
//! - `page`: `Page`, a page over HTTP that shows how informers are, for people and for Prometheus.
//! - `signal`: `StopSignal`, which waits for SIGINT and SIGTERM.
//! - `zstd`: [`Packed`], which stores objects compressed. It needs a C compiler.

mod cache;
pub mod controller;
mod driver;
pub mod election;
pub mod factory;
pub mod handler;
pub mod health;
pub mod informer;
#[cfg(feature = "zstd")]
mod packed;
#[cfg(feature = "page")]
pub mod page;
mod timer;

#[doc(no_inline)]
pub use informer_core::{
    Json, Meta, Raw, Resource,
    decode::{Metadata, RawJson, Typed},
};

#[cfg(feature = "zstd")]
pub use packed::Packed;
pub use {
    cache::entry::{Entry, Key},
    handler::{event::Event, handlers::Handlers, subscription::Subscription},
    informer::{handle::Informer, kind::Kind, lister::Lister},
};

/// What is stored of an object: decoders, and what entries can be asked for.
pub mod decode {
    #[doc(no_inline)]
    pub use informer_core::{
        Decode, RawObject,
        decode::{Accept, View},
        json::{JsonStr, Prune},
    };

    #[cfg(feature = "zstd")]
    pub use crate::packed::{PackError, PackedJson};
}

/// Journals, from which a cache is restored after a restart.
pub mod journal {
    pub use crate::driver::journal::Journal;
}

/// Work queues, as in client-go's `util/workqueue`.
pub mod queue {
    #[doc(no_inline)]
    pub use informer_core::queue::{
        Exponential, FastSlow, MaxOf, MaxWait, QueueMetrics, RateLimit, Spread, TokenBucket,
    };

    pub use crate::controller::queue::{Work, WorkQueue};
}

/// Selectors of labels and fields.
pub mod selector {
    #[doc(no_inline)]
    pub use informer_core::selector::{
        FieldSelector, FieldSelectorError, LabelSelector, Labels, SelectorError,
    };
}

/// Transports: what sends an informer's requests, and the clock that it waits by.
pub mod transport {
    #[doc(no_inline)]
    pub use {
        // It makes `async fn` possible in a `DynTransport`.
        async_trait::async_trait,
        informer_core::{
            Body, Head, Instant, Timer, Transport,
            transport::{FailureKind, Get, TransportError},
        },
    };

    pub use crate::{
        factory::transport::{BoxBody, BoxTransport, DynBody, DynTransport, Lost},
        timer::TokioTimer,
    };
}

// What `boxed!` expands to.
#[doc(hidden)]
pub use factory::transport::erase::erase as __erase;
