//! The part of a controller of which several replicas run.

use core::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use informer_core::report::OneLine;
use informer_core::transport::BoxFuture;
use tokio::task::JoinSet;

use super::counts::ORDER;
use super::handle::{ControllerHandle, Stop};
use super::only::Refused;
use super::seat::Seat;

/// A seat, and the future that renews its Lease.
pub(super) struct Part {
    pub(super) seat: Seat,
    pub(super) work: BoxFuture<'static, ()>,
}

/// Requests that the Lease is released when it is dropped with the last run.
pub(super) struct ResignOnDrop(Seat);

impl Part {
    /// Begins to renew the Lease, and keeps a controller in step with the ownership of keys.
    pub(super) fn take_seat(
        self,
        controller: ControllerHandle,
        refused: Arc<Refused>,
        helpers: &mut JoinSet<()>,
    ) -> Arc<ResignOnDrop> {
        // It outlives the controller, in order to release the Lease. It ends then.
        let (name, counts) = (Arc::clone(&controller.name), Arc::clone(&controller.counts));
        tokio::spawn(async move {
            if let Err(panic) = AssertUnwindSafe(self.work).catch_unwind().await {
                counts.panicked.fetch_add(1, ORDER);
                let message = crate::cache::panics::message(&*panic);
                tracing::error!(
                    controller = &*name,
                    "the client of the election panicked, so the controller stops: {}",
                    OneLine(message)
                );
            }
        });
        let seat = self.seat.clone();
        helpers.spawn(async move {
            seat.follow(&controller, &refused).await;
            controller.raise(Stop::Now);
        });
        Arc::new(ResignOnDrop(self.seat))
    }
}

impl Seat {
    /// Rechecks the keys of a controller whenever their owners change, until the election ends.
    async fn follow(&self, controller: &ControllerHandle, refused: &Refused) {
        match self {
            Self::Leader(leadership) => {
                while leadership.acquired().await {
                    controller.recheck();
                    tokio::select! {
                        biased;
                        () = leadership.lost() => {}
                        // It did not lead for a moment.
                        () = refused.any() => {}
                    }
                    controller.recheck();
                }
            }
            Self::Member(replica) => {
                let mut own = replica.clone();
                controller.recheck();
                while own.changed().await {
                    controller.recheck();
                }
                controller.recheck();
            }
        }
    }
}

impl ResignOnDrop {
    /// Releases the Lease of a seat, and waits until the API server has answered.
    pub(super) async fn resign(seat: Option<&Arc<Self>>) {
        match seat.map(|seat| &seat.0) {
            Some(Seat::Leader(leadership)) => leadership.resign().await,
            Some(Seat::Member(replica)) => replica.resign().await,
            None => {}
        }
    }
}

impl Drop for ResignOnDrop {
    fn drop(&mut self) {
        match &self.0 {
            Seat::Leader(leadership) => leadership.request_resign(),
            Seat::Member(replica) => replica.request_resign(),
        }
    }
}
