//! How old a cache may be, beside how old it is.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use informer_tests::proxy::FaultProxy;
use informer_tests::real::{Identity, Outcome, Subject, Table, ensure};
use informer_tests::say;
use informer_tokio::handler::{AsyncHandlers, HandlerOptions};
use tokio::time::{Instant, sleep};

use crate::Context;

const NAME: &str = "item";

/// The versions of an object, with the time at which the server had confirmed each.
type Writes = Arc<Mutex<Vec<(u64, Instant)>>>;

/// Another API server writes all the time. The figure is never below the time for which the cache has lacked a write: not
/// while its API server is paused, not while the network is slow, and not because of a handler that is blocked.
pub(crate) async fn is_never_below_the_truth(context: Context) -> Outcome {
    let server = context.server()?.apart("staleness", &[]).await?;
    let cluster = server.cluster().await?;
    let table = cluster.table("stale").await?;
    let first = table.create(NAME, 0).await?;
    let other = server.beside("staleness-other", &[]).await?;
    let elsewhere = other.cluster().await?;
    elsewhere.serves(&table).await?;
    let proxy = FaultProxy::start(None, cluster.address().await?).await?;
    let transport = cluster.transport(context.protocol, &Identity::Admin, Some(proxy.address()))?;
    let subject = Subject::start(transport, &table, |builder| {
        builder.probe(Duration::from_secs(2))
    });
    let blocked = AsyncHandlers::new().on_add(async |_, _| core::future::pending().await);
    let options = HandlerOptions::default().name("blocked");
    let _ = subject.informer.add_async_handler_with(&options, blocked);
    subject.synced().await?;

    let writes: Writes = Arc::new(Mutex::new(vec![(first.parse()?, Instant::now())]));
    let writing = tokio::spawn(write(elsewhere.view(&table), Arc::clone(&writes)));
    let minute = Duration::from_secs(60);
    // A quiet minute and a quarter lies between two bookmarks.
    compare("well", Duration::from_secs(80), &subject, &writes).await?;
    server.signal("apiserver", "-STOP").await?;
    let paused = compare("the API server is paused", minute, &subject, &writes).await?;
    server.signal("apiserver", "-CONT").await?;
    compare("it goes on", minute, &subject, &writes).await?;
    proxy.delay(Duration::from_secs(10));
    let slow = compare("answers take 20 s", minute, &subject, &writes).await?;
    proxy.calm();
    compare("well again", Duration::from_secs(80), &subject, &writes).await?;
    writing.abort();
    ensure(
        paused > minute - Duration::from_secs(2) && slow > Duration::from_secs(9),
        format_args!("the cache was never old: {paused:?}, {slow:?}"),
    )
}

async fn write(table: Table, writes: Writes) -> Outcome {
    for value in 1.. {
        let version = table.update(NAME, value).await?.parse()?;
        let written = (version, Instant::now());
        let all = writes.lock();
        all.unwrap_or_else(PoisonError::into_inner).push(written);
        sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Compares the figure with the truth for a time. Returns the longest truth.
async fn compare(
    phase: &str,
    time: Duration,
    subject: &Subject,
    writes: &Writes,
) -> Outcome<Duration> {
    let until = Instant::now() + time;
    let (mut figures, mut truths, mut least) = (Vec::new(), Vec::new(), f64::INFINITY);
    let mut unknown = 0;
    let lister = subject.informer.lister();
    while Instant::now() < until {
        // What the cache gets after this moment can only make it newer.
        let now = Instant::now();
        let figure = subject.informer.health().staleness;
        let cached = lister.list();
        let cached = cached.first().ok_or("the object is gone")?;
        let cached: u64 = cached.resource_version().to_string().parse()?;
        let lacking = {
            let writes = writes.lock().unwrap_or_else(PoisonError::into_inner);
            let later = writes.partition_point(|(version, _)| *version <= cached);
            writes.get(later).map(|(_, at)| *at)
        };
        let truth = lacking.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        truths.push(truth);
        match figure {
            Some(figure) => {
                least = least.min(figure.as_secs_f64() - truth.as_secs_f64());
                figures.push(figure);
            }
            None => unknown += 1,
        }
        sleep(Duration::from_millis(100)).await;
    }
    let most = |of: &[Duration]| of.iter().max().copied().unwrap_or_default();
    let (figure, truth) = (most(&figures), most(&truths));
    figures.sort();
    let median = figures.get(figures.len() / 2).copied().unwrap_or_default();
    say(&format!(
        "{phase}: staleness up to {:.1} s (median {:.1} s), in truth up to {:.1} s; {least:.1} s above it at least; \
         {unknown} of {} times unknown",
        figure.as_secs_f64(),
        median.as_secs_f64(),
        truth.as_secs_f64(),
        truths.len()
    ));
    subject.ensure(least >= 0.0, format_args!("{phase}: below the truth"))?;
    subject.ensure(
        figure < time + Duration::from_secs(170),
        format_args!("{phase}: far above the truth"),
    )?;
    Ok(truth)
}
