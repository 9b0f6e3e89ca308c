//! A plain controller of kube-rs: a finalizer, server-side apply, owned Secrets and Events, as the book of kube-rs
//! teaches it.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use informer_explore::{Env, Explore, FaultKind, Kube, World, kube as explore};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::watcher;
use kube::{Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, PartialEq, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Shop",
    namespaced,
    status = "ShopStatus"
)]
struct ShopSpec {
    size: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
}

#[derive(Clone, Default, PartialEq, Debug, Deserialize, Serialize, JsonSchema)]
struct ShopStatus {
    size: Option<String>,
}

#[derive(Debug)]
struct Failed(#[expect(dead_code, reason = "it is only shown")] String);

impl core::fmt::Display for Failed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl core::error::Error for Failed {}

fn failed(error: impl core::fmt::Debug) -> Failed {
    Failed(format!("{error:?}"))
}

/// Bugs that can be planted.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Bug {
    None,
    /// The status is written by the state of the store, so a change meanwhile is lost.
    ForgetsStatus,
    /// An error is not repeated.
    GivesUp,
}

async fn operator(client: Client, bug: Bug) {
    let shops = Api::<Shop>::all(client.clone());
    let secrets = Api::<Secret>::all(client.clone());
    let context = Arc::new((client, bug));
    Controller::new(shops, watcher::Config::default())
        .owns(secrets, watcher::Config::default())
        .run(reconcile, again, context)
        .for_each(|_| core::future::ready(()))
        .await;
}

fn again(_: Arc<Shop>, error: &Failed, context: Arc<(Client, Bug)>) -> Action {
    tracing::warn!(%error, "repeats");
    match context.1 {
        Bug::GivesUp => Action::await_change(),
        Bug::None | Bug::ForgetsStatus => Action::requeue(Duration::from_secs(5)),
    }
}

async fn reconcile(shop: Arc<Shop>, context: Arc<(Client, Bug)>) -> Result<Action, Failed> {
    let namespace = shop.namespace().unwrap_or_default();
    let shops = Api::<Shop>::namespaced(context.0.clone(), &namespace);
    let event = |event| async {
        match event {
            Finalizer::Apply(shop) => apply(&shop, &context).await,
            Finalizer::Cleanup(_) => Ok(Action::await_change()),
        }
    };
    finalizer(&shops, "example.com/shop", shop, event)
        .await
        .map_err(failed)
}

async fn apply(shop: &Shop, (client, bug): &(Client, Bug)) -> Result<Action, Failed> {
    let namespace = shop.namespace().unwrap_or_default();
    let name = shop.name_any();
    let owner = shop.controller_owner_ref(&());
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(
            "size".into(),
            ByteString(shop.spec.size.clone().into_bytes()),
        )])),
        ..Secret::default()
    };
    let manager = PatchParams::apply("shops").force();
    let secrets = Api::<Secret>::namespaced(client.clone(), &namespace);
    secrets
        .patch(&name, &manager, &Patch::Apply(&secret))
        .await
        .map_err(failed)?;
    let size = shop.status.as_ref().and_then(|status| status.size.as_ref());
    if size != Some(&shop.spec.size) {
        if *bug == Bug::ForgetsStatus && size.is_some() {
            return Ok(Action::await_change());
        }
        let status = serde_json::json!({
            "apiVersion": "example.com/v1", "kind": "Shop", "status": { "size": shop.spec.size },
        });
        let shops = Api::<Shop>::namespaced(client.clone(), &namespace);
        shops
            .patch_status(&name, &manager, &Patch::Apply(&status))
            .await
            .map_err(failed)?;
        let recorder = Recorder::new(client.clone(), Reporter::from("shops"));
        let event = Event {
            type_: EventType::Normal,
            reason: "Sized".into(),
            note: Some(format!("It is {}", shop.spec.size)),
            action: "Size".into(),
            secondary: None,
        };
        // An Event that is lost is no failure.
        let _ = recorder.publish(&event, &shop.object_ref(&())).await;
    }
    // It looks again, since an event of a deletion may be missed.
    Ok(Action::requeue(Duration::from_secs(300)))
}

fn shop(size: &str, tags: &[&str]) -> Shop {
    let spec = ShopSpec {
        size: size.into(),
        tags: tags.iter().map(|tag| (*tag).into()).collect(),
    };
    let mut shop = Shop::new("", spec);
    shop.metadata.name = None;
    shop.metadata.namespace = Some("prod".into());
    shop
}

fn each_shop_is_served(world: &World) -> Result<(), String> {
    let shops = world.all::<Shop>();
    for shop in &shops {
        let name = shop.name_any();
        let secret = world.find::<Secret>("prod", &name);
        let secret = secret.ok_or_else(|| format!("{name} has no Secret"))?;
        let size = secret.data.as_ref().and_then(|data| data.get("size"));
        if size.map(|size| size.0.as_slice()) != Some(shop.spec.size.as_bytes()) {
            return Err(format!("the Secret of {name} is {size:?}"));
        }
        let status = shop.status.as_ref().and_then(|status| status.size.clone());
        if status.as_ref() != Some(&shop.spec.size) {
            return Err(format!("the status of {name} is {status:?}"));
        }
    }
    let secrets = world.all::<Secret>();
    if secrets.len() == shops.len() {
        Ok(())
    } else {
        Err(format!("{} Shops, {} Secrets", shops.len(), secrets.len()))
    }
}

fn shops(bug: Bug) -> Explore<Kube> {
    explore(move |env: Env| operator(env.client(), bug))
        .crd(Shop::crd())
        .users_write([shop("small", &["new"]), shop("large", &[])])
        .person_edits::<Secret>()
        .check("each Shop is served", each_shop_is_served)
}

#[test]
fn a_plain_controller_of_kube_holds() {
    let explored = shops(Bug::None).seeds(150).run();
    assert!(explored.faults[&FaultKind::Expired] > 0, "{explored}");
    assert!(explored.deaths > 20, "{explored}");
}

#[test]
fn each_seed_gives_the_same_run() {
    for seed in 0..20 {
        let run = || -> Vec<String> { shops(Bug::None).trace(seed).requests().collect() };
        let first = run();
        assert!(!first.is_empty());
        for _ in 0..5 {
            let again = run();
            let pairs = first.iter().zip(&again);
            let differs = pairs.enumerate().find(|(_, (one, other))| one != other);
            assert_eq!(differs, None, "seed {seed}");
            assert_eq!(first.len(), again.len(), "seed {seed}");
        }
    }
}

#[test]
fn bugs_of_a_controller_of_kube_are_found() {
    for bug in [Bug::ForgetsStatus, Bug::GivesUp] {
        let failure = shops(bug).find().unwrap_err();
        assert_eq!(failure.check, "each Shop is served", "{bug:?}: {failure}");
        assert_eq!(failure.difference, None, "{bug:?}: {failure}");
    }
}

#[test]
fn defects_of_kube_runtime_are_found_unless_they_are_spared() {
    let failure = shops(Bug::None)
        .with_defects_of_kube_runtime()
        .find()
        .unwrap_err();
    assert!(!failure.actions.is_empty(), "{failure}");
}
