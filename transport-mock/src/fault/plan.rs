//! The pending faults, and their effects on a response.

use alloc::string::String;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use informer_core::transport::FailureKind;

use super::Fault;
use crate::log::RequestRecord;
use crate::object::Format;

/// The pending faults. The first one that matches a request affects it; others do not.
#[derive(Clone, Default, Debug)]
pub(crate) struct FaultPlan {
    faults: Vec<Fault>,
}

impl FaultPlan {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(crate) fn clear(&mut self) {
        self.faults.clear();
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    pub(crate) fn take(&mut self, request: &RequestRecord) -> Effects {
        let meant = |fault: &Fault| {
            fault.verb.is_none_or(|verb| verb == request.verb)
                && fault.path.as_ref().is_none_or(|path| *path == request.path)
                && fault.times > 0
        };
        let mut hit = None;
        for (index, fault) in self
            .faults
            .iter_mut()
            .enumerate()
            .filter(|(_, fault)| meant(fault))
        {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if hit.is_none() {
                fault.times -= usize::from(fault.times < usize::MAX);
                hit = Some(index);
            }
        }
        let effects = hit
            .and_then(|index| self.faults.get(index))
            .map(|fault| fault.effects.clone());
        self.faults.retain(|fault| fault.times > 0);
        effects.unwrap_or_default()
    }
}

/// The effects of a fault on one response.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Effects {
    pub(crate) fail: Option<FailureKind>,
    pub(crate) silent: bool,
    pub(crate) delay: Duration,
    pub(crate) answer: Option<Answer>,
    /// The format of the response, whatever the client accepts.
    pub(crate) format: Option<Format>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) cut: Option<Mark>,
    pub(crate) ending: Ending,
    pub(crate) split: Vec<usize>,
    pub(crate) edits: Vec<(usize, Edit)>,
    pub(crate) append: Vec<u8>,
    pub(crate) content_length: Option<u64>,
    pub(crate) late_head: bool,
    pub(crate) bandwidth: Option<NonZeroU32>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body is a `Status`, whose format is negotiated.
    pub(crate) is_status: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    Bytes(u64),
    Events(usize),
    Inside(usize),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Edit {
    Duplicate,
    Drop,
    Before(Vec<u8>),
}

/// How a body ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    Close,
    Abort(FailureKind),
    Stall,
}

impl Default for Ending {
    fn default() -> Self {
        Self::Abort(FailureKind::Reset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Verb;
    use crate::query::Query;
    use informer_core::Instant;

    fn request(verb: Verb, path: &str) -> RequestRecord {
        RequestRecord::new(Instant::from_micros(0), verb, path, &Query::default(), "")
    }

    #[test]
    fn faults_hit_whom_they_are_meant_for() {
        let mut plan = FaultPlan::default();
        plan.add(Fault::refuse().on(Verb::List).skip(1).times(2));
        plan.add(Fault::stall().on_path("/b"));
        let mut hit = |verb, path| {
            let effects = plan.take(&request(verb, path));
            (effects.fail.is_some(), effects.silent)
        };
        assert_eq!(hit(Verb::Watch, "/a"), (false, false));
        assert_eq!(hit(Verb::List, "/a"), (false, false));
        assert_eq!(hit(Verb::List, "/b"), (true, false));
        assert_eq!(hit(Verb::List, "/b"), (true, false));
        assert_eq!(hit(Verb::List, "/b"), (false, true));
        assert_eq!(hit(Verb::List, "/b"), (false, false));
        assert!(plan.is_empty());
    }
}
