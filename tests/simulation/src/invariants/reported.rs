//! No failure is silent: the user receives a report before the request that follows a failure.
//!
//! Source: `core/src/report/mod.rs`: "nothing is lost in silence". Retries below the reflector and the normal end of
//! a watch are no failures.

use informer_core::reflector::Purpose;

use super::super::client::{Ended, Seen};
use super::super::plan::World;
use super::{Context, Invariant, Verdict};

pub(super) struct Reported {
    /// For each source, the number of reports since its last request.
    reports: Vec<u32>,
}

impl Reported {
    pub(super) fn new(world: &World) -> Self {
        Self {
            reports: vec![0; world.scopes.len()],
        }
    }
}

impl Invariant for Reported {
    fn seen(&mut self, seen: &Seen, context: &Context<'_>) -> Verdict {
        match seen {
            Seen::Reported(source, _) => self.reports[*source] += 1,
            Seen::Asked(asked) => {
                let reports = core::mem::take(&mut self.reports[asked.source]);
                let Some(before) = &asked.before else {
                    return Ok(());
                };
                let silent = reports == 0
                    && failed(before)
                    && !before.forced
                    && before.target != asked.target;
                // client-go treats a watch that could not be opened ten times like one that ended. A cache that has
                // room again and a failed journal both start a list, whatever the result of the previous request.
                let excused = context.world.client_go && before.verb == Purpose::Watch
                    || context.client.engine.cache().is_incomplete()
                    || context.client.engine.has_failed_journal();
                if silent && !excused {
                    return Err(format!(
                        "{} follows upon {before:?} without a notification",
                        asked.target
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn failed(ended: &Ended) -> bool {
    let ordinary_end = ended.verb.is_watch() && ended.status == Some(200) && !ended.answer.error;
    ended.status.is_some_and(|status| status != 200)
        || ended.answer.error
        || ended.status.is_none() && ended.failure.is_some()
        || ended.failure.is_some() && !ordinary_end
}
