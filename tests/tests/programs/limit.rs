//! `tests/limit`, the runner that gives every test its own time limit.
#![cfg(target_os = "linux")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a script in place of a test program. libtest announces a test after 60 s, so this limit acts at the announcement.
fn limited(script: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let deps = folder.path().join("deps");
    std::fs::create_dir(&deps).unwrap();
    let program = deps.join("program");
    std::fs::write(&program, format!("#!/usr/bin/env bash\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("limit");
    Command::new(runner)
        .arg(program)
        .env("INFORMER_TEST_LIMIT", "60")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_test_that_hangs_is_named_and_ended() {
    let output = limited(
        "echo 'test a::quick ... ok'
        echo 'test a::hangs has been running for over 60 seconds'
        exec sleep 1000",
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let (before, after) = text
        .split_once(": killed")
        .unwrap_or_else(|| panic!("{text}"));
    assert!(before.contains("test a::quick ... ok"), "{text}");
    assert!(after.trim_end().ends_with("60 s: a::hangs"), "{text}");
    assert_eq!(output.status.code(), Some(124), "{text}");
}

#[test]
fn a_program_within_the_limit_is_not_changed() {
    let output = limited("echo one; printf two; exit 7");
    assert_eq!(output.stdout, b"one\ntwo");
    assert_eq!(output.status.code(), Some(7));
}
