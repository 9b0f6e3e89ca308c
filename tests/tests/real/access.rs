//! Permissions, and changes of permissions.

use core::time::Duration;

use informer_tests::proxy::{Cut, FaultProxy};
use informer_tests::real::{Identity, Outcome, Subject, until};

use crate::Context;

/// The server's webhook caches store a response for one second.
pub(crate) const FORGOTTEN: Duration = Duration::from_millis(1500);

/// Access is revoked, which takes effect at the next request, and granted again.
pub(crate) async fn access_is_withdrawn_and_given_back(context: Context) -> Outcome {
    let reviews = context.server()?.reviews().await?;
    let user = format!("user-{:?}", context.protocol);
    let token = format!("token-{user}");
    reviews.accept(&token, &user).await?;
    reviews.allow(&user, &["list", "watch"]).await?;
    let table = context.table("access").await?;
    table.create_many("item", 10).await?;
    let proxy = FaultProxy::start(None, context.cluster.address().await?).await?;
    let identity = Identity::Token(token.clone());
    let transport =
        context
            .cluster
            .transport(context.protocol, &identity, Some(proxy.address()))?;
    let subject = Subject::start(transport, &table, |builder| builder);
    subject.synced().await?;

    reviews.allow(&user, &[]).await?;
    tokio::time::sleep(FORGOTTEN).await;
    // An open watch continues.
    subject.follows(&table, "item-00001", 1).await?;
    proxy.cut(Cut::Close);
    let notified = || subject.reports("forbidden") >= 1;
    until(
        Duration::from_secs(30),
        "access is reported as forbidden",
        notified,
    )
    .await?;
    table.delete("item-00002").await?;
    subject.ensure(subject.informer.lister().len() == 10, "the cache is empty")?;
    reviews.allow(&user, &["list", "watch"]).await?;
    subject.agrees(&table).await?;

    reviews.revoke(&token).await?;
    tokio::time::sleep(FORGOTTEN).await;
    proxy.cut(Cut::Close);
    let notified = || subject.reports("unauthorized") >= 1;
    until(
        Duration::from_secs(30),
        "it is notified that nobody knows it",
        notified,
    )
    .await?;
    reviews.accept(&token, &user).await?;
    subject.follows(&table, "item-00003", 1).await?;
    subject.agrees(&table).await?;
    Ok(())
}
