//! The example programs used by tests.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the path of an example of the workspace, and builds it if it is missing. Cargo builds all examples for
/// `cargo test --workspace`, but none for `--test NAME`.
///
/// # Panics
/// Panics if it cannot be built.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    let own = env::current_exe().expect("this test has a path");
    let profile = own
        .parent()
        .and_then(Path::parent)
        .expect("this test is in target/PROFILE/deps");
    let program = profile
        .join("examples")
        .join(format!("{name}{}", env::consts::EXE_SUFFIX));
    if !program.exists() {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let target = profile.parent().expect("PROFILE is in a folder");
        let profile = match profile.file_name().and_then(|name| name.to_str()) {
            None | Some("debug") => "dev",
            Some(name) => name,
        };
        let built = Command::new(cargo)
            .args([
                "build",
                "--workspace",
                "--example",
                name,
                "--profile",
                profile,
            ])
            .arg("--target-dir")
            .arg(target)
            .stdin(Stdio::null())
            .status();
        let is_built = built.is_ok_and(|status| status.success()) && program.exists();
        assert!(is_built, "{}: `cargo build` failed", program.display());
    }
    program
}
