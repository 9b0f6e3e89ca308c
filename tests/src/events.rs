//! Events of an informer on tokio.

use core::time::Duration;

use informer_core::Form;
use informer_tokio::{Event, Subscription};

/// The time limit for an expected event. It is no measure of speed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for the next event of a subscription.
///
/// # Panics
/// If there is none in time, or the informer has ended.
pub async fn next<F: Form>(events: &mut Subscription<F>) -> Event<F> {
    let event = tokio::time::timeout(PATIENCE, events.recv()).await;
    let Ok(Some(event)) = event else {
        panic!(
            "there is no next event: {event:?}",
            event = event.map(|_| "the informer ended")
        );
    };
    event
}

/// Formats an event: `++key@version` is an add in the initial state; `+`, `~` and `-` are an add, an update and a
/// deletion after it; `-?` is an unobserved deletion; `=` is a replay.
#[must_use]
pub fn shown<F: Form>(event: &Event<F>) -> String {
    let at = |sign, entry: &informer_tokio::Entry<F>| {
        format!("{sign}{}@{}", entry.key(), entry.resource_version())
    };
    match event {
        Event::Added {
            entry,
            is_in_initial_list: true,
        } => at("++", entry),
        Event::Added { entry, .. } => at("+", entry),
        Event::Updated { new, .. } => at("~", new),
        Event::Replayed { entry, .. } => at("=", entry),
        Event::Deleted {
            entry,
            final_state_unknown: true,
        } => at("-?", entry),
        Event::Deleted { entry, .. } => at("-", entry),
        Event::Synced => "synced".to_owned(),
        _ => "?".to_owned(),
    }
}
