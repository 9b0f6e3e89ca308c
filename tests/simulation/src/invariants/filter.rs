//! The cache never contains an object that was not requested.
//!
//! Source: etcd's robustness tests, "Filter".

use super::super::plan::KEY_NAMES;
use super::{Context, Invariant, Verdict};

pub(super) struct Filter;

impl Invariant for Filter {
    fn step(&mut self, context: &Context<'_>) -> Verdict {
        for (slot, cached) in (0..).zip(context.snapshot) {
            let Some(cached) = cached else { continue };
            if !context
                .world
                .scopes
                .iter()
                .any(|scope| scope.takes(slot, cached.state))
            {
                return Err(format!(
                    "{} is not asked for: {cached:?}",
                    KEY_NAMES[usize::from(slot)]
                ));
            }
        }
        Ok(())
    }
}
