//! A file with the plans of failures, which are carried out before the seeds. A seed means another plan when the rules
//! change; a plan means the same, as long as its objects exist.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::plan::Plan;
use super::spec::Spec;

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    /// The check that has failed. It is for people.
    check: String,
    plan: Plan,
}

/// The first line of a new file.
const HEAD: &str = "# Plans that have failed, one in a line. They are carried out before the seeds, so keep the file in \
                    version control. Remove a line if the objects that it changes are gone.\n";

/// Returns the path of a file: relative ones are below the folder of the crate that is tested.
fn resolve(path: &Path) -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(folder) => Path::new(&folder).join(path),
        None => path.to_owned(),
    }
}

/// Reads the plans of a file, each with the number of its line. A file that does not exist has none.
pub(super) fn read(path: &Path, spec: &Spec) -> Vec<(usize, Plan)> {
    let path = resolve(path);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => panic!("{} cannot be read: {error}", path.display()),
    };
    let lines = text.lines().enumerate();
    let plans = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let plans = plans.map(|(index, line)| {
        let number = index + 1;
        let why = match serde_json::from_str::<Line>(line) {
            Ok(line) if line.plan.fits(spec) => return (number, line.plan),
            Ok(_) => "it changes an object that the rules do not have".to_owned(),
            Err(error) => error.to_string(),
        };
        panic!(
            "line {number} of {} is no plan of these rules: {why}. Remove the line if the rules have changed",
            path.display()
        )
    });
    plans.collect()
}

/// Adds a plan that has failed, unless the file has it. Returns the path of the file.
pub(super) fn add(path: &Path, check: &str, plan: &Plan) -> Result<PathBuf, String> {
    let path = resolve(path);
    let fail = |error: &dyn core::fmt::Display| format!("{}: {error}", path.display());
    let line = Line {
        check: check.to_owned(),
        plan: plan.clone(),
    };
    let line = serde_json::to_string(&line).map_err(|error| fail(&error))?;
    let before = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(fail(&error)),
    };
    if before.lines().any(|own| own == line) {
        return Ok(path);
    }
    let mut options = std::fs::OpenOptions::new();
    let file = options.create(true).append(true).open(&path);
    let mut file = file.map_err(|error| fail(&error))?;
    let head = if before.is_empty() { HEAD } else { "" };
    file.write_all(format!("{head}{line}\n").as_bytes())
        .map_err(|error| fail(&error))?;
    Ok(path)
}

impl Plan {
    /// Whether the objects, variants and replicas of the plan exist.
    fn fits(&self, spec: &Spec) -> bool {
        self.actions().all(|(_, action)| match *action {
            Action::User { slot, change } => {
                slot < spec.slots()
                    && change
                        .variant()
                        .is_none_or(|variant| variant <= spec.objects_of(slot).variants.len())
            }
            Action::Person { resource, .. } => resource < spec.edited.len(),
            Action::Crash { replica, .. }
            | Action::Partition { replica, .. }
            | Action::Pause { replica, .. }
            | Action::Jump { replica, .. }
            | Action::Upgrade { replica }
            | Action::Duplicate { replica, .. } => replica < spec.replicas,
            Action::Lag { server }
            | Action::CatchUp { server }
            | Action::Route { server, .. }
            | Action::Down { server, .. }
            | Action::Restart { server, .. } => server < super::driver::SERVERS,
            _ => true,
        })
    }
}
