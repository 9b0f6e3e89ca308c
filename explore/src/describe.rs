//! Actions as text.

use core::fmt;

use super::action::{Action, CrashAt, ReadFault, UserChange, WriteFault};
use super::spec::Spec;
use super::trace::seconds;

impl fmt::Display for WriteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => f.write_str("another client changes the object just before it"),
            Self::Overloaded => f.write_str("429, without an effect"),
            Self::Failed => f.write_str("500, without an effect"),
            Self::Reset => f.write_str("the connection is reset, without an effect"),
            Self::Slow(time) => write!(f, "it is delayed by {}", seconds(*time)),
            Self::AnswerLost => f.write_str("it takes effect, and the response is lost"),
            Self::Unauthorized => f.write_str("401, without an effect"),
            Self::Denied => f.write_str("a webhook denies it with 403"),
            Self::Quota => f.write_str("a quota denies it with 403"),
            Self::Invalid => f.write_str("422, without an effect"),
            Self::AnswerTimeout => f.write_str("it takes effect, and the response is 504"),
        }
    }
}

impl fmt::Display for ReadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("gets the status 410"),
            Self::Reset => f.write_str("is reset"),
            Self::Failed => f.write_str("gets 500"),
            Self::Page => f.write_str("gets 503 and a page of a proxy"),
            Self::Unauthorized => f.write_str("gets 401"),
            Self::Overloaded { seconds } => write!(f, "gets 429 with Retry-After: {seconds}"),
            Self::Slow(time) => write!(f, "is delayed by {}", seconds(*time)),
            Self::DropEvent(event) => write!(f, "omits its event {}", event + 1),
        }
    }
}

/// Returns `the next write`, or a later one.
fn nth(skip: u64) -> String {
    match skip {
        0 => "the next write".to_string(),
        1 => "the second write from now".to_string(),
        2 => "the third write from now".to_string(),
        more => format!("write {} from now", more + 1),
    }
}

fn user(slot: usize, change: UserChange, spec: &Spec) -> String {
    let (objects, name) = spec.find(slot);
    let variant = |variant: usize| match variant {
        0 => String::new(),
        variant => format!(" with {}", objects.variants[variant - 1]),
    };
    let object = format!("{} {name}", objects.resource);
    match change {
        UserChange::Put(at) => format!("a user writes {object}{}", variant(at)),
        UserChange::Delete => format!("a user deletes {object}"),
        UserChange::Recreate(at) => {
            format!(
                "a user deletes {object} and creates it again{}",
                variant(at)
            )
        }
    }
}

/// Returns when a controller dies.
fn crash(at: CrashAt, skip: u64) -> String {
    match at {
        CrashAt::Now => "now".to_string(),
        CrashAt::BeforeWrite => format!("before {}", nth(skip)),
        CrashAt::AfterWrite => format!("after {} took effect, before its response", nth(skip)),
    }
}

/// Describes an action.
pub(super) fn describe(action: &Action, spec: &Spec) -> String {
    let replica = |replica: &usize| match spec.replicas {
        1 => "the controller".to_string(),
        _ => format!("controller {}", replica + 1),
    };
    let server = |server: &usize| format!("API server {}", server + 1);
    match action {
        Action::Wait => "nothing happens".to_string(),
        Action::User { slot, change } => user(*slot, *change, spec),
        Action::Person {
            resource, deletes, ..
        } => {
            let verb = if *deletes { "deletes" } else { "edits" };
            format!("a person {verb} one of the {}", spec.edited[*resource])
        }
        Action::Crash {
            replica: which,
            at,
            skip,
            down,
        } => {
            let (which, when, down) = (replica(which), crash(*at, *skip), seconds(*down));
            format!("{which} dies {when}, and starts again {down} later")
        }
        Action::Partition {
            replica: which,
            time,
        } => format!(
            "{} reaches no server for {}",
            replica(which),
            seconds(*time)
        ),
        Action::Upgrade { replica: which } => {
            format!("{} is replaced by the new program", replica(which))
        }
        Action::Pause {
            replica: which,
            time,
        } => format!("{} does not run for {}", replica(which), seconds(*time)),
        Action::Jump { replica: which, by } => {
            let way = if *by < 0 { "back" } else { "forward" };
            let by = by.unsigned_abs();
            format!("the clock of {} jumps {way} by {by} s", replica(which))
        }
        Action::Call { has_effect, skip } => {
            let call = nth(*skip).replace("write", "call outside");
            let how = if *has_effect {
                "it takes effect, and fails"
            } else {
                "it fails without an effect"
            };
            format!("{call}: {how}")
        }
        Action::Duplicate {
            replica: which,
            time,
        } => format!(
            "a second copy of {} runs for {}",
            replica(which),
            seconds(*time)
        ),
        Action::Lag { server: which } => {
            format!("the cache of {} lags behind from now on", server(which))
        }
        Action::CatchUp { server: which } => format!("the cache of {} catches up", server(which)),
        Action::Route {
            replica: from,
            server: which,
        } => {
            let (from, to) = (replica(from), server(which));
            format!("new requests of {from} go to {to}")
        }
        Action::Down {
            server: which,
            time,
        } => format!("{} is down for {}", server(which), seconds(*time)),
        Action::Restart {
            server: which,
            unready,
        } => format!(
            "{} restarts, and is not ready for {}",
            server(which),
            seconds(*unready)
        ),
        Action::CutWatches => "all watches are reset".to_string(),
        Action::CloseWatches => "all watches are closed".to_string(),
        Action::StallWatches => "all watches fall silent, half open".to_string(),
        Action::GoAway => "the server sends GOAWAY".to_string(),
        Action::ForgetEvents => {
            "the servers forget all events: older versions are expired".to_string()
        }
        Action::Compact => "the history is compacted: older versions are expired".to_string(),
        Action::Read { fault, count } => {
            let reads = match (fault.is_of_watches(), count) {
                (true, _) => "the next watch".to_string(),
                (false, 1) => "the next read".to_string(),
                (false, count) => format!("each of the next {count} reads"),
            };
            format!("{reads} {fault}")
        }
        Action::Write { fault, skip, of } => {
            let of = of.map_or("", |_| " of one resource");
            format!("{}{of}: {fault}", nth(*skip))
        }
        Action::Restore { back } => format!("a backup of {back} versions ago is restored"),
        Action::Lose { .. } => "the server loses an object without an event".to_string(),
    }
}
