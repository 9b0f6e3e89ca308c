//! Credentials that change during a watch.

use core::time::Duration;

use informer_tests::proxy::{Cut, FaultProxy};
use informer_tests::real::{Identity, Outcome, Subject, Table, ensure};

use crate::Context;
use crate::access::FORGOTTEN;

/// A token is replaced in its file, and the old one is revoked: the next watch uses the new one, and there is no
/// list.
pub(crate) async fn of_a_token(context: Context) -> Outcome {
    let server = context.server()?;
    let reviews = server.reviews().await?;
    let user = format!("rotating-{:?}", context.protocol);
    let (old, new) = (format!("old-{user}"), format!("new-{user}"));
    reviews.allow(&user, &["list", "watch"]).await?;
    reviews.accept(&old, &user).await?;
    let file = server.pki().join(format!("{user}.token"));
    std::fs::write(&file, &old)?;
    let (table, proxy) = scene(&context, "token").await?;
    let identity = Identity::TokenFile(file.clone());
    let subject = start(&context, &identity, &proxy, &table).await?;

    reviews.accept(&new, &user).await?;
    // Like kubelet: write a new file, then rename it.
    let beside = file.with_extension("new");
    std::fs::write(&beside, &new)?;
    std::fs::rename(&beside, &file)?;
    reviews.revoke(&old).await?;
    goes_on(&subject, &proxy, &table).await?;
    ensure(subject.reports("unauthorized") == 0, &subject)?;
    Ok(())
}

/// A client certificate is replaced in its files by one with another name, and the old name loses its permissions.
pub(crate) async fn of_a_certificate(context: Context) -> Outcome {
    let server = context.server()?;
    let reviews = server.reviews().await?;
    let name = format!("certified-{:?}", context.protocol);
    let (old, new) = (format!("old-{name}"), format!("new-{name}"));
    reviews.allow(&old, &["list", "watch"]).await?;
    server.certificate(&name, &format!("/CN={old}")).await?;
    let files = [
        server.pki().join(format!("{name}.crt")),
        server.pki().join(format!("{name}.key")),
    ];
    let (table, proxy) = scene(&context, "certificate").await?;
    let identity = Identity::Certificate(files[0].clone(), files[1].clone());
    let subject = start(&context, &identity, &proxy, &table).await?;

    reviews.allow(&new, &["list", "watch"]).await?;
    server.certificate(&name, &format!("/CN={new}")).await?;
    reviews.allow(&old, &[]).await?;
    goes_on(&subject, &proxy, &table).await?;
    ensure(subject.reports("forbidden") == 0, &subject)?;
    Ok(())
}

async fn scene(context: &Context, name: &str) -> Outcome<(Table, FaultProxy)> {
    let table = context.table(name).await?;
    table.create_many("item", 10).await?;
    let proxy = FaultProxy::start(None, context.cluster.address().await?).await?;
    Ok((table, proxy))
}

async fn start(
    context: &Context,
    identity: &Identity,
    proxy: &FaultProxy,
    table: &Table,
) -> Outcome<Subject> {
    let transport = context
        .cluster
        .transport(context.protocol, identity, Some(proxy.address()))?;
    let subject = Subject::start(transport, table, |builder| builder);
    subject.synced().await?;
    Ok(subject)
}

/// The open watch continues. The next watch has the new identity, and resumes where the old one ended.
async fn goes_on(subject: &Subject, proxy: &FaultProxy, table: &Table) -> Outcome {
    tokio::time::sleep(FORGOTTEN).await;
    subject.follows(table, "item-00001", 1).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    proxy.cut(Cut::Close);
    table.delete("item-00002").await?;
    subject.follows(table, "item-00001", 2).await?;
    subject.agrees(table).await?;
    subject.ensure(subject.log.lists() == 1, "it listed again")?;
    ensure(subject.log.answered_watches() == 1, subject)
}
