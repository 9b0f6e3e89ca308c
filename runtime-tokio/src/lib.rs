//! A Kubernetes informer for tokio: a cached, indexed copy of a resource that stays in sync, with handlers for its
//! changes.
//!
//! A [`Builder`](informer::Builder) creates an [`Informer`], which is a handle, and a [`Driver`](informer::Driver),
//! which is the future that does the work. [`spawn`](informer::Builder::spawn) spawns the driver on tokio, and
//! [`build`](informer::Builder::build) returns it. It ends when the informer is stopped or the driver is dropped.
//!
//! ```no_run
//! use informer_tokio::{Informer, Raw, Resource};
//! # async fn run(transport: informer_tokio::transport::BoxTransport) -> Result<(), Box<dyn std::error::Error>> {
//! let pods = Resource::parse("pods")?.namespace("prod");
//! let pods = Informer::<Raw>::builder_for(&transport, pods).spawn();
//!
//! pods.synced().await?;
//! for pod in pods.lister().list() {
//!     println!("{pod}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Handlers are notified of changes. [`kind!`] names the resource of a type that is stored instead of [`Raw`].
//!
//! ```
//! use informer_tokio::{Handlers, Informer, Raw};
//!
//! fn print_changes(pods: &Informer<Raw>) {
//!     let handlers = Handlers::<Raw>::new().on_add(|pod, _| println!("+ {pod}"));
//!     pods.add_handler(handlers.on_delete(|pod, _| println!("- {pod}")));
//! }
//! ```
//!
//! # Features
//! None is on by default. Features are additive.
//! - `metrics`: metrics for the `metrics` facade.
//! - `page`: `Page`, an HTTP page with the health of informers, for people and for Prometheus.
//! - `prost`: `decode::Proto`, which decodes protobuf into messages of prost.
//! - `requests`: elections and the record of own writes over any service of HTTP requests.
//! - `signal`: `StopSignal`, which waits for SIGINT and SIGTERM.
//! - `zstd`: `Packed`, the form of compressed objects. It needs a C compiler.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod cache;
mod clock;
pub mod controller;
pub mod discovery;
mod driver;
pub mod election;
mod erased;
pub mod factory;
pub mod handler;
pub mod health;
pub mod informer;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(not(feature = "metrics"))]
mod metrics;
#[cfg(feature = "zstd")]
mod packed;
#[cfg(feature = "page")]
pub mod page;
#[cfg(feature = "requests")]
pub mod recorder;
#[cfg(feature = "requests")]
pub mod requests;
#[cfg(feature = "requests")]
pub mod rights;
mod spans;
mod timer;

#[doc(no_inline)]
pub use informer_core::{Form, Json, Meta, Raw, Resource};

#[doc(no_inline)]
pub use controller::Controller;
#[cfg(feature = "zstd")]
pub use packed::Packed;
pub use {
    cache::entry::{Entry, InvalidKey, Key},
    handler::{event::Event, handlers::Handlers, subscription::Subscription},
    informer::{handle::Informer, kind::Kind, lister::Lister},
};

/// Decoders, which determine how objects are stored, and the accessors of entries.
pub mod decode {
    #[doc(no_inline)]
    pub use informer_core::{
        Decode, Decoder, RawObject,
        decode::{Accept, FromProtobuf, OnDemand},
        json::{JsonStr, Prune},
    };

    #[cfg(feature = "prost")]
    #[doc(no_inline)]
    pub use informer_core::decode::{Proto, prost};

    #[cfg(feature = "zstd")]
    pub use crate::packed::{PackError, Packer};
}

#[doc(no_inline)]
pub use informer_core::protobuf;

/// Journals, from which a cache is restored after a restart.
pub mod journal {
    pub use crate::driver::journal::Journal;
}

/// Work queues, as in client-go's `util/workqueue`.
pub mod queue {
    #[doc(no_inline)]
    pub use informer_core::queue::{
        Exponential, MaxOf, QueueMetrics, RateLimit, Spread, TokenBucket,
    };

    pub use crate::controller::queue::{Work, WorkQueue};
}

/// Label and field selectors.
pub mod selector {
    #[doc(no_inline)]
    pub use informer_core::selector::{
        FieldSelector, FieldSelectorError, LabelSelector, Labels, SelectorError,
    };
}

/// Transports, which send an informer's requests, and the informer's clock.
pub mod transport {
    #[doc(no_inline)]
    pub use {
        // It is needed for `async fn` in implementations of `DynTransport`.
        async_trait::async_trait,
        informer_core::{
            Body, Head, Instant, Timer, Transport,
            transport::{
                BoxChunk, BoxFuture, BoxSend, FailureKind, Get, SendTransport, TransportError,
                Warnings, redirect_body,
            },
        },
    };

    pub use crate::{
        erased::{BoxTransport, DynBody, DynTransport, Lost},
        timer::TokioTimer,
    };
}

// The expansion of `boxed!`.
#[doc(hidden)]
pub use erased::erase as __erase;

/// The program in `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
