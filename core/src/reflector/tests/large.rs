//! Objects whose identity is beyond the frame limit: it is found anywhere in the frame.

use alloc::format;
use alloc::string::String;

use super::harness::*;
use crate::reflector::ReflectorConfig;
use crate::resource::{Shard, ShardBy};
use crate::transport::Head;

const LIMIT: usize = 1024;

/// Paddings that move the limit before, into and after each part of the identity.
const PADDINGS: core::ops::Range<usize> = LIMIT - 350..LIMIT + 50;

fn config() -> ReflectorConfig {
    ReflectorConfig {
        frame_limit: LIMIT,
        ..ReflectorConfig::list()
    }
}

/// A custom resource: the API server sorts the members, so `before` precedes the identity.
fn sorted(before: &str, version: u32) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{before}"name":"a","namespace":"prod","resourceVersion":"{version}","uid":"u-7"}},"spec":{{"filler":"{}"}}}}"#,
        "x".repeat(LIMIT)
    )
}

fn annotations(length: usize) -> String {
    format!(r#""annotations":{{"note":"{}"}},"#, "x".repeat(length))
}

fn managed_fields(length: usize) -> String {
    format!(
        r#""managedFields":[{{"manager":"{}"}}],"#,
        "x".repeat(length)
    )
}

/// Returns a world with a watch of two objects of the same name.
fn watching() -> World {
    let small = |namespace: &str| {
        format!(
            r#"{{"metadata":{{"name":"a","namespace":"{namespace}","resourceVersion":"5","uid":"u-7"}}}}"#
        )
    };
    let mut w = World::new(config());
    w.expect("LIST limit=500 resourceVersion=0");
    w.answer(200, &list("10", &[small("dev"), small("prod")]));
    w.expect("WATCH resourceVersion=10");
    w.events(&[]);
    w.holds(&["dev/a@5", "prod/a@5"]);
    w
}

#[test]
fn a_deletion_is_applied_wherever_the_identity_is() {
    for padding in PADDINGS {
        for before in [annotations(padding), managed_fields(padding)] {
            let mut w = watching();
            w.events(&[event("DELETED", &sorted(&before, 20))]);
            w.holds(&["dev/a@5"]);
            w.version("20");
            w.reports(&["object-too-large"]);
        }
    }
}

#[test]
fn a_shard_by_uid_has_its_large_objects_wherever_the_uid_is() {
    for index in [0, 1] {
        let shard = Shard::of(ShardBy::Uid, index, 2).unwrap();
        for padding in PADDINGS {
            let mut w = World::of(pods().shard(shard), config(), 7);
            w.head(Head::new(200));
            let object = sorted(&annotations(padding), 20);
            w.bytes(list("30", &[object]).as_bytes());
            let expected: &[_] = if shard.has("u-7") {
                &["object-too-large"]
            } else {
                &[]
            };
            w.reports(expected);
        }
    }
}

#[test]
fn skipped_managed_fields_do_not_count() {
    let object = sorted(&managed_fields(5000), 20).replace(&"x".repeat(LIMIT), "");
    for skip in [false, true] {
        let mut w = World::new(ReflectorConfig {
            skip_managed_fields: skip,
            ..config()
        });
        w.expect("LIST limit=500 resourceVersion=0");
        w.answer(200, &list("10", core::slice::from_ref(&object)));
        if skip {
            w.no_reports();
            w.holds(&["prod/a@20"]);
        } else {
            w.reports(&["object-too-large"]);
            w.holds(&[]);
        }
    }
}

#[test]
fn an_identity_that_does_not_fit_is_reported_and_nothing_else_changes() {
    let mut w = watching();
    let uid = "u".repeat(2000);
    let object = sorted(&annotations(0), 20).replace("u-7", &uid);
    for kind in ["ADDED", "MODIFIED", "DELETED"] {
        w.events(&[event(kind, &object)]);
        w.reports(&["object-unidentifiable"]);
        w.holds(&["dev/a@5", "prod/a@5"]);
        w.version("10");
    }
    w.events(&[bookmark(21)]);
    w.version("21");
}
