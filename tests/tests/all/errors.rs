//! Errors are readable when `main` returns them: that prints `Debug`, which therefore equals `Display`.

use core::error::Error;
use core::time::Duration;
use std::path::Path;

use informer_core::{
    Resource,
    object::KeyError,
    selector::{FieldSelector, LabelSelector},
};
use informer_hyper::HyperTransport;
use informer_journal::FileJournal;
use informer_mock::{ScriptedServer, json};
use informer_tests::support::server;
use informer_tokio::informer::wait_for_sync;
use informer_tokio::transport::{FailureKind, Lost};
use informer_tokio::{Informer, Raw, boxed};

type Case = (&'static str, Box<dyn Error>);

fn case(name: &'static str, error: impl Error + 'static) -> Case {
    (name, Box::new(error))
}

#[tokio::test(start_paused = true)]
async fn an_error_that_ends_a_main_is_one_line_for_a_person() {
    let mock = server();
    let pods = Resource::parse("pods").unwrap();
    let (pods, driver) = Informer::<Raw>::builder_for(&boxed!(mock.transport()), pods).build();
    let late = pods.synced_within(Duration::from_secs(1)).await;
    let all = wait_for_sync(Duration::from_secs(1), [&pods as _]).await;
    drop(driver);
    let cases: Vec<Case> = vec![
        case("Ended", pods.synced().await.unwrap_err()),
        case("StillUnsynced", late.unwrap_err()),
        case("NotSynced", all.unwrap_err()),
        case("Lost", Lost::new(FailureKind::Reset, "the modem hung up")),
        case(
            "IndexError",
            pods.lister().by_index("none", "x").unwrap_err(),
        ),
        case("KeyError", KeyError::NoKey),
        case("ResourceError", Resource::parse("").unwrap_err()),
        case("SelectorError", LabelSelector::parse("a in (").unwrap_err()),
        case(
            "FieldSelectorError",
            "a".parse::<FieldSelector>().unwrap_err(),
        ),
        case(
            "FileError",
            FileJournal::open("/nowhere/at/all").err().unwrap(),
        ),
        case(
            "BuildError",
            HyperTransport::builder("nonsense").build().unwrap_err(),
        ),
        case("ScriptError", ScriptedServer::from_json("{").unwrap_err()),
        case("MutationError", mock.create("pods", json!({})).unwrap_err()),
    ];
    for (name, error) in cases {
        let (debug, display) = (format!("{error:?}"), error.to_string());
        assert_eq!(debug, display, "{name}");
        assert!(
            debug.contains(' ') && !debug.contains('\n'),
            "{name}: {debug}"
        );
        assert!(!debug.contains(name), "{name}: {debug}");
    }
}

/// The rule holds for every error type. Those that a test cannot construct are found in the source.
#[test]
fn every_error_type_writes_the_same_in_debug() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut lacking = Vec::new();
    let mut found = 0;
    for member in [
        "core",
        "journal",
        "explore",
        "transport-hyper",
        "transport-mock",
        "runtime-tokio",
        "runtime-embassy",
    ] {
        for_each_file(&root.join(member).join("src"), &mut |path, text| {
            for name in error_types(text) {
                found += 1;
                let by_hand = format!("Debug for {name}");
                let listed = text
                    .split("readable_errors!(")
                    .skip(1)
                    .filter_map(|rest| rest.split(");").next())
                    .any(|names| names.split([',', '\n', ' ']).any(|one| one == name));
                if !listed && !text.contains(&by_hand) {
                    lacking.push(format!("{}: {name}", path.display()));
                }
            }
        });
    }
    assert!(found > 20, "{found} types were found");
    assert!(
        lacking.is_empty(),
        "list these in `readable_errors!`: {lacking:#?}"
    );
}

/// The names of the error types in a file.
fn error_types(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut derived = false;
    for line in text.lines() {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        derived |= code.contains("thiserror::Error");
        let implemented = code
            .starts_with("impl")
            .then(|| code.split_once("Error for "))
            .flatten()
            .filter(|(before, _)| before.ends_with([' ', ':']) && !before.contains("serde"))
            .map(|(_, name)| name);
        let declared = code
            .strip_prefix("pub struct ")
            .or_else(|| code.strip_prefix("pub enum "))
            .filter(|_| core::mem::take(&mut derived));
        if let Some(name) = implemented.or(declared) {
            let end = name
                .find(|c: char| !c.is_alphanumeric())
                .unwrap_or(name.len());
            names.push(name[..end].to_owned());
        }
    }
    names
}

fn for_each_file(folder: &Path, look: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "tests") {
                for_each_file(&path, look);
            }
        } else if path.extension().is_some_and(|ending| ending == "rs")
            && path.file_stem().is_some_and(|name| name != "tests")
        {
            look(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
