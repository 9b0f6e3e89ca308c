//! A listener of any kind, with the state that it must have.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use informer_tokio::handler::{Filter, HandlerHandle, HandlerOptions};
use informer_tokio::{Entry, Event, Informer, Lister, Raw, Subscription};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::entropy::Entropy;
use super::life::RESYNC;
use super::user::{Awaiting, Fold, Recorder, State, User, lock};
use super::{PATIENCE, Verdict, holds, shown_of};

/// A handler or the reader of a subscription.
pub(super) struct Listener {
    sort: u32,
    fold: Arc<Mutex<Fold>>,
    /// It is notified only of objects that pass [`keeps`].
    is_filtered: bool,
    is_resynced: bool,
    handle: Result<HandlerHandle<Raw>, JoinHandle<()>>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("sort", &self.sort)
            .field("filtered", &self.is_filtered)
            .field("resynced", &self.is_resynced)
            .finish_non_exhaustive()
    }
}

/// The predicate of filters.
fn keeps(entry: &Entry<Raw>) -> bool {
    entry.label("parity").as_deref() == Some("odd")
}

impl Listener {
    pub(super) fn join(
        informer: &Informer<Raw>,
        user: &Arc<User>,
        dice: &mut Entropy<'static>,
        is_plain: bool,
    ) -> Self {
        let fold = Arc::new(Mutex::new(Fold::default()));
        let recorder = Recorder {
            fold: Arc::clone(&fold),
            user: Arc::clone(user),
            dice: Entropy::of(u64::from(dice.below(1 << 20))),
        };
        let sort = dice.below(3);
        let [is_filtered, is_resynced] = [(); 2].map(|()| !is_plain && dice.one_in(3));
        let resync = if is_resynced { RESYNC } else { Duration::ZERO };
        let options = HandlerOptions::default()
            .backlog(dice.pick(&[2, 4096]))
            .resync(resync);
        let handle = match (sort, is_filtered) {
            (0, false) => Ok(informer.add_handler_with(&options, recorder)),
            (0, true) => Ok(informer.add_handler_with(&options, Filter::new(keeps, recorder))),
            (1, false) => Ok(informer.add_async_handler_with(&options, Awaiting(recorder))),
            (1, true) => {
                let filter = Filter::new(keeps, Awaiting(recorder));
                Ok(informer.add_async_handler_with(&options, filter))
            }
            (_, false) => Err(tokio::spawn(read(
                informer.subscribe_with(&options),
                recorder,
                is_plain.then(|| informer.clone()),
            ))),
            (_, true) => {
                let events = informer.subscribe_where(&options, keeps);
                Err(tokio::spawn(read(events, recorder, None)))
            }
        };
        Self {
            sort,
            fold,
            is_filtered,
            is_resynced,
            handle,
        }
    }

    pub(super) fn leave(self) {
        match self.handle {
            Ok(handle) => handle.remove(),
            Err(reader) => reader.abort(),
        }
    }

    pub(super) const fn is_reader(&self) -> bool {
        self.handle.is_err()
    }

    /// Checks that each notification follows from the previous ones.
    pub(super) fn follows(&self) -> Verdict {
        let wrong = lock(&self.fold).wrong.clone();
        holds("grammar", wrong.is_none(), &|| {
            format!("{self:?}: {wrong:?}")
        })
    }

    /// Checks that the listener's state equals the cache.
    pub(super) fn settled(&self, lister: &Lister<Raw>) -> Verdict {
        let right = self.right(lister);
        let mut fold = lock(&self.fold);
        fold.replays = 0;
        holds("notified", fold.state == right, &|| {
            format!(
                "{self:?} knows {:?}, and the cache has {right:?}",
                fold.state
            )
        })
    }

    /// Checks that it received replays since it was [`settled`](Self::settled), if it wants them.
    pub(super) fn is_resynced(&self) -> Verdict {
        let fold = lock(&self.fold);
        let wants = self.is_resynced && !fold.state.is_empty();
        holds("resync", (fold.replays > 0) == wants, &|| {
            format!("{self:?} got {} replays", fold.replays)
        })
    }

    /// Checks that it ends with its informer, in the final state of the cache.
    pub(super) async fn ends(self, informer: &Informer<Raw>, lister: &Lister<Raw>) -> Verdict {
        let right = self.right(lister);
        if let Err(reader) = self.handle {
            let read = timeout(PATIENCE, reader).await;
            holds("ended", matches!(read, Ok(Ok(()))), &|| {
                format!("a subscription has no end: {read:?}")
            })?;
        }
        let fold = lock(&self.fold);
        holds(
            "ended",
            !informer.is_synced() || fold.state == right,
            &|| {
                format!(
                    "a listener knows {:?}, and the cache has {right:?}",
                    fold.state
                )
            },
        )
    }

    fn right(&self, lister: &Lister<Raw>) -> State {
        shown_of(lister, |entry| !self.is_filtered || keeps(entry))
    }
}

/// Reads a subscription to its end. A subscriber that is notified that all of `informer` is synced must see its
/// version.
async fn read(
    mut events: Subscription<Raw>,
    mut recorder: Recorder,
    informer: Option<Informer<Raw>>,
) {
    while let Some(event) = events.recv().await {
        recorder.dawdle().await;
        let mut fold = lock(&recorder.fold);
        match event {
            Event::Added { entry, .. } => fold.put(&entry, true),
            Event::Updated { new, .. } => fold.put(&new, false),
            Event::Replayed { entry, .. } => fold.put(&entry, false),
            Event::Deleted { entry, .. } => fold.delete(&entry),
            Event::Synced => {
                fold.sync();
                if informer
                    .as_ref()
                    .is_some_and(|all| all.resource_version().is_empty())
                {
                    fold.wrong = Some("synced, without a version".to_owned());
                }
            }
            _ => {}
        }
    }
}
