//! Plants the bugs of `tests/planted` in a copy of the workspace, where the simulation must find them.
//!
//! ```text
//! cargo run -p informer-planted                    hunts all bugs
//! cargo run -p informer-planted -- --bug NAME      hunts one
//! cargo run -p informer-planted -- --tests         runs the tests of the bugs that no simulation finds
//! ```
//!
//! Other arguments are those of `simulate --planted`. See `docs/TESTING.md`.

mod patch;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use patch::Patch;

/// The files of the workspace by their paths in it.
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, String> {
    let root = workspace();
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = std::path::absolute(target).map_err(|error| error.to_string())?;
    let (target, copy) = (target.join("planted"), target.join("planted/source"));

    let (files, patches) = plant(&root)?;
    write(&files, &copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    let cargo = |command: &str| {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .arg(command)
            .arg("--manifest-path")
            .arg(copy.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&target)
            // Cargo reads `.cargo/config.toml` from the current folder, and its runner is in the workspace.
            .current_dir(&root);
        cargo
    };
    if env::args().any(|argument| argument == "--tests") {
        return run_tests(&patches, &cargo);
    }
    let status = cargo("run")
        .args(["-p", "informer-simulation", "--", "--planted"])
        .args(env::args_os().skip(1))
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    Ok(ExitCode::from(u8::from(!status.success())))
}

/// Runs the test of each bug that has one. It must pass without the bug and fail with it.
fn run_tests(patches: &[Patch], cargo: &dyn Fn(&str) -> Command) -> Result<ExitCode, String> {
    let mut missed = false;
    for Patch { name, test, .. } in patches {
        let Some((arguments, test)) = test.as_deref().and_then(|test| test.split_once(" -- "))
        else {
            continue;
        };
        let ends = |bug: &str, end: &str| {
            let output = cargo("test")
                .args(arguments.split(' '))
                .args(["--", "--exact", test])
                .env("PLANTED", bug)
                .output()
                .map_err(|error| format!("cargo: {error}"))?;
            let text = String::from_utf8_lossy(&output.stdout);
            let is_so = text.contains(&format!("test {test} ... {end}"));
            if !is_so {
                let error = String::from_utf8_lossy(&output.stderr);
                let _ = writeln!(io::stderr(), "{text}{error}");
            }
            Ok::<_, String>(is_so)
        };
        let found = match (ends("", "ok")?, ends(name, "FAILED")?) {
            (true, true) => "found",
            (false, _) => "FAILS WITHOUT THE BUG",
            (true, false) => "NOT FOUND",
        };
        missed |= found != "found";
        let _ = writeln!(io::stdout(), "{name} test {test}: {found}");
    }
    Ok(ExitCode::from(u8::from(missed)))
}

fn workspace() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    tests
        .and_then(Path::parent)
        .unwrap_or_else(|| Path::new(""))
        .to_owned()
}

/// Returns the workspace with all bugs planted, and their patches.
fn plant(root: &Path) -> Result<(Files, Vec<Patch>), String> {
    let mut files = Files::new();
    read(root, Path::new(""), &mut files)
        .map_err(|error| format!("{}: {error}", root.display()))?;
    let patches = patches(&files)?;
    patch::apply(&mut files, &patches)?;

    let choice = files.get(Path::new("tests/planted/planted.rs")).cloned();
    files.insert("core/src/planted.rs".into(), choice.unwrap_or_default());
    let core = files.entry("core/src/lib.rs".into()).or_default();
    core.extend_from_slice(b"\n#[doc(hidden)]\npub mod planted;\n");
    files.insert(
        "tests/simulation/src/bugs.rs".into(),
        bugs(&patches).into_bytes(),
    );
    Ok((files, patches))
}

fn patches(files: &Files) -> Result<Vec<Patch>, String> {
    files
        .iter()
        .filter(|(path, _)| {
            path.starts_with("tests/planted") && path.extension().is_some_and(|end| end == "patch")
        })
        .map(|(path, text)| Patch::parse(path, &String::from_utf8_lossy(text)))
        .collect()
}

/// Returns the module that names the bugs to the simulation that it must find.
fn bugs(patches: &[Patch]) -> String {
    let mut text = "//! The bugs that are planted in this copy.\n\nuse super::planted::Bug;\n\n\
        pub use informer_core::planted::choose;\n\n/// All of them.\npub const BUGS: &[Bug] = &[\n"
        .to_owned();
    for Patch {
        name, place, what, ..
    } in patches.iter().filter(|patch| patch.test.is_none())
    {
        text += &format!("    Bug {{ name: {name:?}, place: {place:?}, what: {what:?} }},\n");
    }
    text + "];\n"
}

/// Reads the files that Cargo needs in a folder and its subfolders.
fn read(root: &Path, folder: &Path, files: &mut Files) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') || name == "target" || path == Path::new("fuzz")
        {
            continue;
        }
        if entry.file_type()?.is_dir() {
            read(root, &path, files)?;
        } else {
            files.insert(path, fs::read(entry.path())?);
        }
    }
    Ok(())
}

/// Makes a folder contain exactly these files. An unchanged file keeps its modification time, so that Cargo rebuilds
/// only what has changed.
fn write(files: &Files, folder: &Path) -> io::Result<()> {
    let mut old = Files::new();
    fs::create_dir_all(folder)?;
    read(folder, Path::new(""), &mut old)?;
    for (path, text) in files {
        if old.get(path) != Some(text) {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::write(path, text)?;
        }
    }
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (old.keys().collect(), files.keys().collect());
    old.difference(&new)
        .try_for_each(|path| fs::remove_file(folder.join(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_applies() {
        if let Err(error) = plant(&workspace()) {
            panic!("{error}");
        }
    }

    /// `UPDATE=1` writes the name, place and fault of each patch; the seeds and invariants of existing rows stay.
    #[test]
    fn the_table_names_every_patch() {
        let root = workspace();
        let path = root.join("docs/generated/PLANTED.md");
        let page = fs::read_to_string(&path).unwrap_or_default();
        let (head, rows) = page
            .split_once("|---|---|---|---|---|\n")
            .unwrap_or_default();
        let found: BTreeMap<_, _> = rows
            .lines()
            .filter_map(|row| {
                let cells: Vec<_> = row.split(" | ").collect();
                Some((*cells.first()?, cells.get(3..)?.join(" | ")))
            })
            .collect();
        let mut files = Files::new();
        read(&root, Path::new("tests/planted"), &mut files).unwrap_or_default();
        let patches = patches(&files).unwrap_or_default();
        let rows: String = patches
            .iter()
            .map(
                |Patch {
                     name,
                     place,
                     what,
                     test,
                     ..
                 }| {
                    let name = format!("| `{name}`");
                    let hunted = || found.get(name.as_str()).cloned();
                    let found = match test.as_deref().and_then(|test| test.split_once(" -- ")) {
                        Some((_, test)) => format!("– | the test `{test}` |"),
                        None => hunted().unwrap_or_else(|| "not hunted | |".to_owned()),
                    };
                    format!("{name} | `{place}` | {what} | {found}\n")
                },
            )
            .collect();
        let made = format!("{head}|---|---|---|---|---|\n{rows}");
        if env::var_os("UPDATE").is_some() {
            let _ = fs::write(&path, &made);
        }
        assert!(
            made == page && !rows.contains("not hunted"),
            "{} is out of date",
            path.display()
        );
    }
}
