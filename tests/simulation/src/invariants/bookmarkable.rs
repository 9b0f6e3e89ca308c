//! At a version the cache equals the server's state at that version. While notifications are pending the cache is
//! never older than the version that it shows.
//!
//! Source: etcd's robustness tests, "Bookmarkable", "Reliable" and "Atomic" (`tests/robustness/validate/watch.go`).
//! The model is compared after every step, not only at bookmarks.

use super::super::cluster::{Cluster, Expected, State};
use super::super::engine::{Cached, Snapshot};
use super::super::plan::{KEY_NAMES, KEYS, Scope, World};
use super::{Context, Invariant, Verdict};

pub(super) struct Bookmarkable;

impl Invariant for Bookmarkable {
    fn step(&mut self, context: &Context<'_>) -> Verdict {
        let client = context.client;
        let shown = |source: usize| {
            let wire = &client.wires[source];
            let version = client.engine.cache().version(source)?;
            // After a list is popped, but before its sweep, the cache still shows the version of the list before.
            let is_present = client.shows_last_list(source);
            (wire.trusted && !wire.in_list && is_present).then_some((wire.era, version))
        };
        let found = if client.is_popped() && !client.engine.cache().is_incomplete() {
            difference(context.cluster, context.world, context.snapshot, shown)
        } else if client.engine.cache().is_incomplete() || context.cluster.era_number() > 0 {
            // The version may belong to the previous era.
            None
        } else {
            older(context, shown)
        };
        found.map_or(Ok(()), Err)
    }
}

/// Finds a key in which the cache differs from the server's state at the given era and version of each source.
pub fn difference(
    cluster: &Cluster,
    world: &World,
    snapshot: &Snapshot,
    at: impl Fn(usize) -> Option<(usize, u64)>,
) -> Option<String> {
    each(world, at, |slot, scope, (era, version)| {
        let expected = cluster.expected(era, scope, slot, version);
        let (cached, other) = of_scope(scope, slot, snapshot[usize::from(slot)]);
        // After a restored backup, the newer object may have the lower version.
        let leaves_out = |state: State| {
            other.is_some_and(|other| {
                other.state.version > state.version || cluster.era_number() > 0
            })
        };
        let right = match (expected, cached) {
            (Expected::State(state), None) if leaves_out(state) => true,
            (Expected::Nothing | Expected::OlderThan(_), None) => true,
            (Expected::Nothing, Some(_)) | (Expected::State(_), None) => false,
            (Expected::State(state), Some(cached)) => {
                same(cluster, state, cached)
                    && (!cached.stale || is_spoilt_later(cluster, era, slot, state))
            }
            // It is marked as stale. Which older state it has depends on earlier events.
            (Expected::OlderThan(_), Some(cached)) => cached.stale,
        };
        (!right).then(|| {
            let key = KEY_NAMES[usize::from(slot)];
            format!(
                "{key} at version {version} of era {era}: the server had {expected:?}, the cache has {cached:?}"
            )
        })
    })
}

/// Finds a key in which the cache is older than the version that it shows.
fn older(context: &Context<'_>, at: impl Fn(usize) -> Option<(usize, u64)>) -> Option<String> {
    let cluster = context.cluster;
    each(context.world, at, |slot, scope, (era, version)| {
        let expected = cluster.expected(era, scope, slot, version);
        let (cached, other) = of_scope(scope, slot, context.snapshot[usize::from(slot)]);
        let changed_later = cluster
            .in_era(era)
            .of(slot)
            .any(|write| write.version > version);
        let right = match (expected, cached) {
            (Expected::State(state), Some(cached)) => cached.state.n >= state.n,
            (Expected::State(_), None) => changed_later || other.is_some(),
            (Expected::Nothing, Some(cached)) => cached.state.version > version || changed_later,
            (Expected::Nothing | Expected::OlderThan(_), _) => true,
        };
        (!right && !cluster.raw_restore).then(|| {
            let key = KEY_NAMES[usize::from(slot)];
            format!("{key}: version {version} is shown, but the server had {expected:?} there, and the cache still has {cached:?}")
        })
    })
}

pub(super) fn each(
    world: &World,
    at: impl Fn(usize) -> Option<(usize, u64)>,
    look: impl Fn(u8, Scope, (usize, u64)) -> Option<String>,
) -> Option<String> {
    let sources = if world.needs_parts() {
        world.scopes.len()
    } else {
        1
    };
    for (source, scope) in world.scopes.iter().take(sources).enumerate() {
        let Some(at) = at(source) else { continue };
        for slot in 0..world.keys {
            let belongs = match scope {
                Scope::Namespace(namespace) => KEYS[usize::from(slot)].0 == *namespace,
                Scope::All | Scope::Label(_) | Scope::Half(_) => true,
            };
            if !belongs {
                continue;
            }
            if let Some(found) = look(slot, *scope, at) {
                return Some(found);
            }
        }
    }
    None
}

/// Returns the cached object of a key if it is in the scope of a source, and one of the other half that the cache has instead.
pub(super) fn of_scope(
    scope: Scope,
    slot: u8,
    cached: Option<Cached>,
) -> (Option<Cached>, Option<Cached>) {
    match scope {
        Scope::Half(_) if cached.is_some_and(|cached| !scope.takes(slot, cached.state)) => {
            (None, cached)
        }
        Scope::Half(_) | Scope::All | Scope::Namespace(_) | Scope::Label(_) => (cached, None),
    }
}

/// After an improper restore of a backup, the same version can occur with other contents. A client cannot tell these
/// apart.
pub(super) fn same(cluster: &Cluster, state: State, cached: Cached) -> bool {
    state == cached.state
        || cluster.raw_restore
            && (state.uid, state.version) == (cached.state.uid, cached.state.version)
}

/// Returns whether a later state was so large that its version lies beyond the frame limit.
fn is_spoilt_later(cluster: &Cluster, era: usize, slot: u8, state: State) -> bool {
    cluster
        .in_era(era)
        .of(slot)
        .any(|write| write.version > state.version && write.poison.is_some())
}
