//! Informers that are added to a controller while it runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime;
use tokio::task::JoinHandle;

use super::follow::{AllKeys, Driven, Followed, HealthOf, Source, StopInformer};
use super::sources::Intake;
use super::start::Registered;
use super::writes::WriteLog;
use crate::handler::HandlerOptions;

/// The informers that were added after the controller was built.
#[derive(Default)]
pub(super) struct Live(Mutex<State>);

#[derive(Default)]
struct State {
    phase: Phase,
    all: Vec<AllKeys>,
    health: Vec<HealthOf>,
    logs: Vec<WriteLog>,
    registered: Vec<Box<dyn Registered>>,
    drivers: Vec<(StopInformer, JoinHandle<()>)>,
}

enum Phase {
    /// They are registered when the controller is run.
    NotBegun(Vec<Unregistered>),
    Running(Arc<Place>),
    Over,
}

impl Default for Phase {
    fn default() -> Self {
        Self::NotBegun(Vec::new())
    }
}

/// An informer that is not registered yet, and its driver.
type Unregistered = (Source, Option<Driven>);

/// The controller has ended, so no informer can be added.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the controller has ended")]
#[non_exhaustive]
pub struct Ended;

informer_core::readable_errors!(Ended);

/// Where informers are registered.
struct Place {
    intake: Intake,
    options: HandlerOptions,
    runtime: runtime::Handle,
}

/// Removes the informers when it is dropped, at the end or with the controller's future.
pub(super) struct LeaveOnDrop(Arc<Live>);

impl Live {
    /// Adds an informer.
    pub(super) fn add(&self, followed: Followed) -> Result<(), Ended> {
        let mut state = self.lock();
        let added = (followed.register, followed.driver);
        let begun = match &mut state.phase {
            Phase::NotBegun(waiting) => {
                waiting.push(added);
                None
            }
            Phase::Running(place) => Some((Arc::clone(place), added)),
            Phase::Over => return Err(Ended),
        };
        state.all.push(followed.all);
        state.health.extend(followed.health);
        state.logs.extend(followed.log);
        drop(state);
        match begun {
            Some((place, added)) => self.register(&place, added),
            None => Ok(()),
        }
    }

    /// Registers an informer. This takes locks of the informer.
    fn register(&self, place: &Place, (register, driven): Unregistered) -> Result<(), Ended> {
        let registered = register(&place.intake, &place.options);
        let driver = driven.map(|(stop, driver)| (stop, place.runtime.spawn(driver)));
        let mut state = self.lock();
        if let Phase::Over = state.phase {
            drop(state);
            registered.remove();
            if let Some((stop, _)) = driver {
                stop();
            }
            return Err(Ended);
        }
        state.registered.push(registered);
        state.drivers.extend(driver);
        Ok(())
    }

    /// The controller runs from now on.
    pub(super) fn begin(
        self: &Arc<Self>,
        intake: &Intake,
        options: &HandlerOptions,
    ) -> LeaveOnDrop {
        let place = Arc::new(Place {
            intake: intake.clone(),
            options: options.clone(),
            runtime: runtime::Handle::current(),
        });
        let running = Phase::Running(Arc::clone(&place));
        let before = core::mem::replace(&mut self.lock().phase, running);
        if let Phase::NotBegun(waiting) = before {
            for added in waiting {
                // It is over only after this.
                let _ = self.register(&place, added);
            }
        }
        LeaveOnDrop(Arc::clone(self))
    }

    pub(super) fn all(&self) -> Vec<AllKeys> {
        self.lock().all.clone()
    }

    pub(super) fn health(&self) -> Vec<HealthOf> {
        self.lock().health.clone()
    }

    pub(super) fn logs(&self) -> Vec<WriteLog> {
        self.lock().logs.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of users runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaveOnDrop {
    /// Stops the informers, and waits for their drivers.
    pub(super) async fn stop(&self) {
        for (_, driver) in self.leave() {
            // A driver that panicked has reported it.
            let _ = driver.await;
        }
    }

    fn leave(&self) -> Vec<(StopInformer, JoinHandle<()>)> {
        let state = {
            let mut state = self.0.lock();
            let over = State {
                phase: Phase::Over,
                ..State::default()
            };
            core::mem::replace(&mut *state, over)
        };
        state.registered.iter().for_each(|one| one.remove());
        state.drivers.iter().for_each(|(stop, _)| stop());
        state.drivers
    }
}

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        drop(self.leave());
    }
}
