//! The informer behaves like the recorded client-go 0.36.4: the scenarios of the conformance suite, on virtual time.
//!
//! `CONFORMANCE` names a folder with additional scenarios, in `scenarios/` and `expected/`.

use std::path::Path;

use informer_tests::conformance::{Client, Mode, Scenario, differences, failures, run, scenarios};
use informer_tests::say;
use serde_json::{Value, json};

/// The scenarios of this project.
fn own(mode: Mode) -> Vec<Scenario> {
    scenarios(
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/conformance")),
        mode,
    )
}

async fn conforms(client: Client) {
    let Client {
        mode,
        client_go,
        protobuf,
    } = client;
    let mut all = own(mode);
    let mut more = 0;
    let folder = std::env::var_os("CONFORMANCE").filter(|folder| !folder.is_empty());
    if let Some(folder) = folder {
        let others = scenarios(Path::new(&folder), mode);
        more = others.len();
        all.extend(others);
    }
    assert!(all.len() > more, "the project's own scenarios are gone");
    let failures = failures(&all, client).await;
    let way = if client_go {
        "client-go's way"
    } else {
        "our own way"
    };
    let format = if protobuf { "protobuf" } else { "JSON" };
    say(&format!(
        "{} scenarios by {} in {format}, {way}, {more} of them from CONFORMANCE",
        all.len(),
        mode.as_str()
    ));
    assert!(
        failures.is_empty(),
        "not as client-go ({way}, {format}):\n{failures}"
    );
}

const BY_LIST: Client = Client {
    mode: Mode::List,
    client_go: true,
    protobuf: false,
};

const BY_STREAM: Client = Client {
    mode: Mode::Stream,
    ..BY_LIST
};

#[tokio::test(start_paused = true)]
async fn by_list_as_client_go() {
    conforms(BY_LIST).await;
}

#[tokio::test(start_paused = true)]
async fn by_stream_as_client_go() {
    conforms(BY_STREAM).await;
}

/// Without the option for client-go's behaviour, only replays differ in these scenarios.
#[tokio::test(start_paused = true)]
async fn by_list_in_our_own_way() {
    conforms(Client {
        client_go: false,
        ..BY_LIST
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn by_stream_in_our_own_way() {
    conforms(Client {
        client_go: false,
        ..BY_STREAM
    })
    .await;
}

/// The scenarios give the same requests and notifications when they are translated to protobuf.
#[tokio::test(start_paused = true)]
async fn in_protobuf() {
    for client in [BY_LIST, BY_STREAM] {
        for client_go in [true, false] {
            conforms(Client {
                client_go,
                protobuf: true,
                ..client
            })
            .await;
        }
    }
}

/// A change of any expected value is detected, and the failure names it.
#[tokio::test(start_paused = true)]
async fn a_change_of_an_expected_value_is_detected() {
    let all = own(Mode::List);
    let scenario = all.iter().find(|scenario| scenario.name == "list-expired");
    let scenario = scenario.expect("a scenario with a delay");
    let found = run(scenario, BY_LIST).await;
    assert_eq!(
        differences(&scenario.expected, &found, &scenario.script, true),
        [""; 0]
    );

    let spoilt = |spoil: &dyn Fn(&mut Value)| {
        let mut expected = scenario.expected.clone();
        spoil(&mut expected);
        assert_ne!(expected, scenario.expected, "nothing was spoilt");
        differences(&expected, &found, &scenario.script, true)
    };
    let requests = scenario.expected["requests"].as_array().map_or(0, Vec::len);
    for index in 0..requests {
        for (pointer, value) in [
            ("verb", json!("OTHER")),
            ("path", json!("/api/v1/namespaces/other/pods")),
            ("query/resourceVersion", json!("77")),
            ("query/other", json!("x")),
            ("has_timeout", json!("spoilt")),
        ] {
            let differences = spoilt(&|expected| {
                let (object, member) = match pointer.split_once('/') {
                    Some((object, member)) => (&mut expected["requests"][index][object], member),
                    None => (&mut expected["requests"][index], pointer),
                };
                object[member] = value.clone();
            });
            let named = differences
                .iter()
                .any(|line| line.starts_with(&format!("request {}: ", index + 1)));
            assert!(named, "{pointer} of request {index}: {differences:?}");
        }
        let differences = spoilt(&|expected| {
            expected["requests"]
                .as_array_mut()
                .expect("a list")
                .remove(index);
        });
        assert!(!differences.is_empty(), "request {index} removed");
    }
    let gaps = scenario.expected["seconds_between_requests"]
        .as_array()
        .map_or(0, Vec::len);
    assert!(gaps > 0);
    for index in 0..gaps {
        let differences = spoilt(&|expected| {
            let gap = &mut expected["seconds_between_requests"][index];
            *gap = if gap.as_f64() < Some(0.4) {
                json!(1.0)
            } else {
                json!(0.0)
            };
        });
        let named = differences
            .iter()
            .any(|line| line.starts_with(&format!("request {} came", index + 2)));
        assert!(named, "gap {index}: {differences:?}");
    }
    let keys = scenario.expected["notifications"]
        .as_object()
        .expect("an object");
    assert!(!keys.is_empty());
    for key in keys.keys() {
        for place in 0..3 {
            let differences =
                spoilt(&|expected| expected["notifications"][key][0][place] = json!("spoilt"));
            let named = differences
                .iter()
                .any(|line| line.starts_with(&format!("{key}: ")));
            assert!(named, "{key}: {differences:?}");
        }
        let differences = spoilt(&|expected| expected["notifications"][key] = json!([]));
        assert!(!differences.is_empty(), "{key} never notified");
    }
    for (member, value) in [
        ("synced", json!(false)),
        ("initial_told_after_synced", json!(["default/a"])),
    ] {
        let differences = spoilt(&|expected| expected[member] = value.clone());
        let named = differences
            .iter()
            .any(|line| line.starts_with(&format!("{member}: ")));
        assert!(named, "{member}: {differences:?}");
    }
}

/// A failure names its scenario and the difference.
#[tokio::test(start_paused = true)]
async fn a_failure_names_its_scenario() {
    let mut all = own(Mode::List);
    all.retain(|scenario| scenario.name == "start" || scenario.name == "empty");
    all[1].expected["synced"] = json!(false);
    let failures = failures(&all, BY_LIST).await;
    assert_eq!(failures, "start (list): synced: wanted false, got true\n");
}
