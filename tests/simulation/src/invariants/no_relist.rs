//! There is no list where a watch can resume: after a watch that lived and then ended, was cut or fell silent, after
//! a refused connection, or after the server was overloaded. Exceptions: a cache that rejected an object lists when
//! it has room again, a failed journal is restarted by a list, and a watch that was accepted and sent nothing may be
//! ahead of a server that was restored.
//!
//! Source: etcd's robustness tests, "Resumable"; `reference`: client-go's `Reflector.watch`.

use core::time::Duration;

use informer_core::{reflector::Purpose, transport::FailureKind};

use super::super::client::{Asked, Ended};
use super::{Context, Invariant, Verdict};

/// 75 s without a byte, less what the clock may be set back at a time.
const HEARTBEAT: Duration = Duration::from_secs(60);

pub(super) struct NoRelist;

impl Invariant for NoRelist {
    fn asked(&mut self, asked: &Asked, context: &Context<'_>) -> Verdict {
        let Some(before) = &asked.before else {
            return Ok(());
        };
        if asked.verb != Purpose::Watch
            && could_resume(before)
            && !context.client.engine.cache().is_incomplete()
            && !context.client.engine.has_failed_journal()
            && !is_doubtful(before, context)
            && !is_ahead(before)
        {
            return Err(format!("{} follows upon {before:?}", asked.target));
        }
        Ok(())
    }
}

/// Returns whether the restored version may be newer than the server's, because no watch from it has sent an event.
fn is_doubtful(before: &Ended, context: &Context<'_>) -> bool {
    context.client.engine.cache().is_restored() && before.answer.events == 0
}

/// Returns whether the client cancelled an accepted watch that sent nothing, not even a bookmark.
fn is_ahead(before: &Ended) -> bool {
    before.status == Some(200)
        && before.cancelled
        && before.answer.events == 0
        && before.lived >= HEARTBEAT
}

fn could_resume(before: &Ended) -> bool {
    let watched = match before.verb {
        Purpose::Watch => true,
        Purpose::Stream => before.status == Some(200) && !before.answer.initial,
        Purpose::List => false,
    };
    if !watched || before.forced {
        return false;
    }
    match before.status {
        Some(200) if before.answer.error => before.answer.overloaded,
        Some(200) => {
            let very_short = before.answer.events == 0 && before.lived.as_secs() == 0;
            !before.answer.broken && !very_short
        }
        Some(429) => true,
        Some(_) => false,
        None => matches!(
            before.failure,
            Some(FailureKind::Refused | FailureKind::Reset | FailureKind::TimedOut)
        ),
    }
}
