//! Many watches on few connections.

use informer_core::{Body as _, Transport as _, transport::Get};
use informer_tests::proxy::FaultProxy;
use informer_tests::real::{Outcome, Subject, ensure};
use informer_tests::say;

use crate::Context;

/// The number of informers.
const WATCHES: usize = 200;

/// A server that sends GOAWAY for one request in 50, with 200 watches on one transport: open watches continue, and
/// new requests use another connection.
pub(crate) async fn goaway_drains(context: Context) -> Outcome {
    let table = context.table("goaway").await?;
    table.create_many("item", 10).await?;
    let server = context
        .server()?
        .beside("goaway", &["--goaway-chance=0.02"])
        .await?;
    let cluster = server.cluster().await?;
    cluster.serves(&table).await?;
    let proxy = FaultProxy::start(None, cluster.address().await?).await?;
    let transport = context.through(&proxy)?;
    let mut subjects = Vec::new();
    for _ in 0..WATCHES {
        subjects.push(Subject::start(transport.anew(), &table, |builder| builder));
    }
    for subject in &subjects {
        subject.synced().await?;
    }
    // Short requests, some of which trigger a GOAWAY for everything on their connection.
    let path = format!("{}?limit=1", table.path());
    let mut asking = transport.anew();
    for _ in 0..400 {
        let (head, mut body) = asking
            .send(Get::new(&path))
            .await
            .map_err(|error| error.to_string())?;
        ensure(head.status == 200, format_args!("{head:?}"))?;
        while body
            .chunk()
            .await
            .map_err(|error| error.to_string())?
            .is_some()
        {}
    }
    let version = table.update("item-00001", 1).await?;
    table.delete("item-00002").await?;
    let mut asked = 0;
    for subject in &subjects {
        subject.shows("item-00001", &version).await?;
        subject.agrees(&table).await?;
        subject.ensure(subject.log.lists() == 1, "it listed again")?;
        asked += subject.log.all().len();
    }
    say(&format!(
        "{WATCHES} watches and 400 lists went over {} connections, {} of which are left; the watches asked {asked} times",
        proxy.accepted(),
        proxy.connections()
    ));
    ensure(proxy.accepted() > 1, "no connection was sent away")?;
    drop(server);
    Ok(())
}
