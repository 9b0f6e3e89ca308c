//! Bugs that are planted on purpose, to see that the simulation finds them.
//!
//! Each is a change of one line in the engine, behind `planted!(..)`. Without `--cfg informer_planted` that is `false`,
//! and nothing of it is compiled. With it a thread chooses the one that it wants. See `docs/TESTING.md`.

/// Tells whether a bug is planted.
#[cfg(informer_planted)]
macro_rules! planted {
    ($bug:ident) => {
        crate::planted::is(crate::planted::Bug::$bug)
    };
}

/// Tells whether a bug is planted, which none is.
#[cfg(not(informer_planted))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

#[cfg(informer_planted)]
pub use chosen::{Bug, choose, is};

#[cfg(informer_planted)]
mod chosen {
    use core::cell::Cell;

    macro_rules! bugs {
        ($($bug:ident $place:literal $what:literal,)*) => {
            /// A bug that can be planted.
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub enum Bug {
                $(#[doc = $what] $bug,)*
            }

            impl Bug {
                /// All of them.
                pub const ALL: &[Self] = &[$(Self::$bug,)*];

                /// Returns the function that it is in.
                #[must_use]
                pub const fn place(self) -> &'static str {
                    match self { $(Self::$bug => $place,)* }
                }

                /// Says what is wrong.
                #[must_use]
                pub const fn what(self) -> &'static str {
                    match self { $(Self::$bug => $what,)* }
                }
            }
        };
    }

    bugs! {
        SkippedBookmark "Reflector::next_frame" "a bookmark does not move the version",
        UnnoticedChange "Reflector::next_frame" "a change does not move the version",
        InitialMovesVersion "read::move_on" "the first state moves the version before its end",
        ListWithoutVersion "Reflector::next_frame" "a complete list does not set the version",
        IdentityFromPrefix "Identity::head" "the identity of a large object is read only from the bytes that fit",
        CutNamespace "Identity::head" "the namespace of a large object is missing if it lies beyond the frame limit",
        CutUid "Identity::head" "the uid of a large object is missing if it lies beyond the frame limit",
        RefusalForEver "Reflector::next_frame" "a refused version stays refused after a list",
        TruncatedListIsWhole "Reflector::body_ended" "a list that ends too early counts as whole",
        RelistFromAny "Reflector::begin_list" "a later list takes any version",
        CutWatchLists "Reflector::watch_ended" "a watch that is cut leads to a list",
        OverloadLists "Reflector::refused" "429 to a watch leads to a list",
        NoPauses "Reflector::reopen" "watches are reopened at once for ever",
        NoGrowth "Backoff::step" "delays do not grow",
        RetryAtOnce "Reflector::retry_at" "Retry-After is not waited for",
        AnswerOfAnother "Reflector::current" "an answer to an abandoned request is taken",
        NoSilence "Reflector::silence_deadline" "a connection that is half open is waited for",
        SilentRefusal "Reflector::report_at" "some failures are not reported",
        TwoRequests "Reflector::abandon" "a request is given up without a word to the transport",
        ExactForEver "Reflector::pause_run" "a list in pages asks again for the version that no watch can go on from",
        EndIsBookmark "Reflector::next_frame" "the end of a streaming list counts as a periodic bookmark",
        EndlessStream "Reflector::stream_end" "a streaming list without its end is read for ever",
        LostTombstone "Cache::sweep" "what a list did not name goes untold",
        SweepAcrossSources "Cache::sweep" "the list of one source sweeps what another brought",
        UntoldInitial "Cache::sweep" "the first state is marked as told, and is not",
        SyncedByOne "Cache::finish_sweep" "one source that is complete is enough",
        ToldTooEarly "Cache::shows" "objects are told before the first list is complete",
        RecreationUnseen "Cache::tell_change" "another object under the same name is told as a change",
        JoinBetweenHalves "Cache::told" "a handler joined between a deletion and an addition gets the object twice",
        VersionTooEarly "Cache::advance" "a version is shown before its changes are popped",
        VersionGoesBack "Cache::advance" "a version that was to be reached comes after one that was reached",
        StaleSwept "Cache::keep" "an object that cannot be decoded is swept by the list that names it",
        ResyncOverPending "Cache::step" "a resync goes before what waits",
        MergedDeletionLost "fifo::merge_deletion" "a deletion that meets a waiting change is lost",
        StaleIndex "Store::remove" "a deleted object stays in the indexes",
        UnindexedChange "Store::put" "a change does not reach the indexes",
        JoinSeesOld "Listeners::join" "a late handler is told what is in the log already",
        ForgetsUnseen "Listeners::forget" "what the fastest handler has heard is dropped",
        NeverSynced "Listeners::join" "a late handler does not hear that all is synced",
        PassForAll "Listener::wants" "a resync reaches all handlers",
        CoalescedDeletionLost "Waiting::coalesce" "a slow handler does not hear of a deletion",
        OldestStateLost "Waiting::coalesce" "two changes become one from the state in between",
        BlindAudit "Audit::compare" "an audit finds nothing",
        StaleUnaudited "Audit::compare" "an audit leaves out what is stale",
        UncheckedRecord "format::read_as" "a record of a journal counts whatever its check says",
        SilentLoss "Log::try_load" "what is dropped of a journal at a start is not reported",
        NothingTakenBack "Log::take_back" "what was read of a journal and turns out not to count stays",
        CompactedDeletion "Log::remember" "what was deleted from a journal is there again",
        VersionAmidList "Recorder::reached" "a version is written in the middle of a list",
        UnwrittenSweep "Recorder::take_frame" "what a list did not name stays in the journal",
        UnwrittenStaleness "Recorder::object" "the journal does not hear of a state that could not be used",
        DeadTooSoon "Members::handle_list" "who did not renew for the renew deadline is dead",
        DeadByOldList "Members::handle_list" "who was unchanged in a list that was asked for too early is dead",
        NeverDead "Members::handle_list" "who does not renew is never dead",
        LateListCounts "Members::handle_list" "a list is as new as its answer",
        ActiveAtOnce "Members::is_active" "who is new has keys before all others have seen it",
        LapseForgotten "Members::lapse" "who had no Lease for a moment goes on as if it had",
        ManyMove "Members::owns" "how many live counts for all keys",
        BlindRenewal "Elector::poll" "after a renewal that failed the Lease is not read",
        DecoderPanicEndsDriver "informer-tokio Guarded::decode" "a panic of a decoder ends the driver",
        HookPanicEndsDriver "informer-tokio Inner::hook" "a panic of a hook ends the driver",
        SilentDriverEnd "informer-tokio EndOnDrop::drop" "nobody learns of a driver that is dropped",
        EndedTooEarly "informer-tokio Driver::run" "`ended` returns before handlers have what is pending",
        EndedInformerShared "informer-tokio Request::get" "a factory hands out an informer that has ended",
        UncountedLister "informer-tokio Informer::lister" "a lister does not count as a user of its informer",
        RenewedWhenAnswered "Elector::handle_written" "a renewal counts from its answer",
        LeadsAfterConflict "Elector::handle_written" "a leader whose renewal was refused goes on without reading the Lease",
        TimerLeavesToo "Waiters::leave" "a waiter that is dropped takes the timer of a delayed key with it",
        WakeLeavesToo "Waiters::leave" "a waiter that is woken and dropped takes the wake-up of a key with it",
        DeletionByVersion "ExpectedState::is_shown" "a deletion is awaited by a version that the cache shows already",
        QueuedUnindexed "Cache::add_index" "an index that is added late ignores queued objects",
        OlderThanList "Cache::complete" "a version that is pending when a list completes replaces the version of the list",
        PassesForgotten "Passes::begin" "a slow listener forgets all but its last 16 resync passes",
        FullForever "Recorder::wants_list" "a journal that could not be written never asks for a list",
        LateAnswerCounts "Elector::is_current" "the answer to an earlier request counts as that to the current one",
    }

    std::thread_local! {
        static CHOSEN: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Chooses the bug of this thread.
    pub fn choose(bug: Option<Bug>) {
        CHOSEN.set(bug);
    }

    /// Tells whether this is the bug of this thread.
    #[must_use]
    pub fn is(bug: Bug) -> bool {
        CHOSEN.get() == Some(bug)
    }
}
