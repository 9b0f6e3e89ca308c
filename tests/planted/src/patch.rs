//! Patches that are located by their lines rather than by line numbers.

use core::fmt::Write as _;
use core::ops::Range;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Files;

/// A planted bug.
#[derive(Debug)]
pub(crate) struct Patch {
    pub(crate) name: String,
    /// The function that contains the bug.
    pub(crate) place: String,
    /// What is wrong with it.
    pub(crate) what: String,
    /// The test that finds it, as arguments of `cargo test`, if no simulation does.
    pub(crate) test: Option<String>,
    hunks: Vec<Hunk>,
}

#[derive(Debug)]
struct Hunk {
    file: PathBuf,
    lines: Vec<(Mark, String)>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mark {
    Keep,
    Remove,
    Add,
}

/// Lines of a file and their replacement.
struct Edit<'a> {
    lines: Range<usize>,
    by: Vec<&'a str>,
    /// Whether none of the hunk's other lines precedes it, as with the start of a block that the hunk inserts.
    is_first: bool,
    patch: &'a Patch,
}

impl Patch {
    /// Parses a patch: `where:`, `what:` and for some `test:`, followed by a unified diff whose line numbers are ignored.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut patch = Self {
            name: name.into_owned(),
            place: String::new(),
            what: String::new(),
            test: None,
            hunks: Vec::new(),
        };
        let mut file = None;
        for line in text.lines() {
            if let Some(place) = line.strip_prefix("where: ") {
                place.clone_into(&mut patch.place);
            } else if let Some(what) = line.strip_prefix("what: ") {
                what.clone_into(&mut patch.what);
            } else if let Some(test) = line.strip_prefix("test: ") {
                patch.test = Some(test.to_owned());
            } else if line.starts_with("diff --git ") {
                file = None;
            } else if let Some(path) = line.strip_prefix("+++ b/") {
                file = Some(path);
            } else if line.starts_with("--- a/") {
                // The next line has the same path.
            } else if let (true, Some(file)) = (line.starts_with("@@"), file) {
                patch.hunks.push(Hunk {
                    file: file.into(),
                    lines: Vec::new(),
                });
            } else if let (Some(_), Some(hunk)) = (file, patch.hunks.last_mut()) {
                let mark = match line.chars().next() {
                    Some('-') => Mark::Remove,
                    Some('+') => Mark::Add,
                    _ => Mark::Keep,
                };
                let text = line.get(1..).unwrap_or_default();
                hunk.lines.push((mark, text.to_owned()));
            }
        }

        let choice = format!("planted::is(\"{}\")", patch.name);
        let added = |hunk: &Hunk| hunk.lines.iter().any(|(_, line)| line.contains(&choice));
        let problem = if patch.place.is_empty() || patch.what.is_empty() {
            "has no lines `where: …` and `what: …`".to_owned()
        } else if !patch.hunks.iter().any(added) {
            format!("does not insert its bug behind `{choice}`")
        } else {
            return Ok(patch);
        };
        Err(format!("tests/planted/{}.patch {problem}", patch.name))
    }
}

impl Hunk {
    /// Returns the edits that the hunk makes to a file, or how often its lines occur there.
    fn edits<'a>(&'a self, text: &str, patch: &'a Patch) -> Result<Vec<Edit<'a>>, usize> {
        let text: Vec<&str> = text.lines().collect();
        let numbers: Vec<usize> = (0..text.len()).filter(|n| counts(text[*n])).collect();
        let wanted: Vec<&str> = self.wanted().map(str::trim).collect();
        let mut found = numbers.windows(wanted.len().max(1)).filter(|window| {
            window
                .iter()
                .map(|n| text[*n].trim())
                .eq(wanted.iter().copied())
        });
        let (Some(place), others) = (found.next(), found.count()) else {
            return Err(0);
        };
        if others > 0 {
            return Err(others + 1);
        }

        let mut edits: Vec<Edit<'_>> = Vec::new();
        let (mut place, mut next, mut is_open) = (place.iter(), place[0], false);
        for (mark, line) in &self.lines {
            if *mark != Mark::Add && !counts(line) {
                continue;
            }
            let is_first = place.len() == wanted.len();
            let (start, end) = match (mark, &mut place) {
                (Mark::Add, _) => (next, next),
                (_, place) => place.next().map_or((next, next), |n| (*n, n + 1)),
            };
            next = end;
            if *mark == Mark::Keep {
                is_open = false;
                continue;
            }
            if !is_open {
                edits.push(Edit {
                    lines: start..end,
                    by: Vec::new(),
                    is_first,
                    patch,
                });
                is_open = true;
            }
            if let Some(edit) = edits.last_mut() {
                edit.lines.end = end;
                edit.by.extend((*mark == Mark::Add).then_some(&**line));
            }
        }
        Ok(edits)
    }

    /// The lines that the file must contain.
    fn wanted(&self) -> impl Iterator<Item = &str> {
        self.lines
            .iter()
            .filter(|(mark, line)| *mark != Mark::Add && counts(line))
            .map(|(_, line)| &**line)
    }
}

/// Returns whether a line is compared. Comments and empty lines are not, since they change more often.
fn counts(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

/// Applies patches, each to the files as they are without the others.
///
/// # Errors
/// Names every patch that does not apply, and how to mend it.
/// Names every patch that does not apply, and what to do.
pub(crate) fn apply(files: &mut Files, patches: &[Patch]) -> Result<(), String> {
    let mut edits: BTreeMap<&Path, Vec<Edit<'_>>> = BTreeMap::new();
    let mut problems = String::new();
    for patch in patches {
        for hunk in &patch.hunks {
            match hunk.edits(&text(files, &hunk.file), patch) {
                Ok(of_hunk) => edits.entry(&hunk.file).or_default().extend(of_hunk),
                Err(count) => explain(&mut problems, files, patch, hunk, count),
            }
        }
    }
    for (file, edits) in &mut edits {
        // At the same position, a block that ends comes before one that starts.
        edits.sort_by_key(|edit| (edit.lines.start, edit.lines.end, edit.is_first));
        for pair in edits
            .windows(2)
            .filter(|pair| pair[0].lines.end > pair[1].lines.start)
        {
            let _ = writeln!(
                problems,
                "tests/planted/{}.patch and {}.patch both replace line {} of {}. Let one of them insert lines before or \
                 after it instead.\n",
                pair[0].patch.name,
                pair[1].patch.name,
                pair[1].lines.start + 1,
                file.display(),
            );
        }
    }
    if !problems.is_empty() {
        return Err(
            problems + "How to repair a patch is in docs/TESTING.md, under \"Planted bugs\"."
        );
    }
    for (file, edits) in edits {
        let edited = edit(&text(files, file), &edits);
        files.insert(file.to_owned(), edited.into_bytes());
    }
    Ok(())
}

fn text(files: &Files, file: &Path) -> String {
    let text = files.get(file).map_or(&[][..], Vec::as_slice);
    String::from_utf8_lossy(text).into_owned()
}

/// Applies edits that are sorted and do not overlap.
fn edit(text: &str, edits: &[Edit<'_>]) -> String {
    let old: Vec<&str> = text.lines().collect();
    let (mut new, mut next) = (Vec::new(), 0);
    for edit in edits {
        new.extend_from_slice(&old[next..edit.lines.start]);
        new.extend_from_slice(&edit.by);
        next = edit.lines.end;
    }
    new.extend_from_slice(&old[next..]);
    new.join("\n") + "\n"
}

/// Explains why a hunk does not apply, and in which other file its lines are now, if any.
fn explain(problems: &mut String, files: &Files, patch: &Patch, hunk: &Hunk, count: usize) {
    let file = hunk.file.display();
    let why = match count {
        _ if !files.contains_key(&hunk.file) => {
            format!("there is no {file}, which had these lines:")
        }
        0 => format!("{file} has no such lines:"),
        _ => format!(
            "{file} has these lines {count} times, so the hunk needs more of the lines around them:"
        ),
    };
    let _ = writeln!(
        problems,
        "tests/planted/{}.patch does not apply: {why}",
        patch.name
    );
    for line in hunk.wanted() {
        let _ = writeln!(problems, "    {}", line.trim());
    }
    let is_source = |path: &Path| path.extension().is_some_and(|end| end == "rs");
    let has = |path: &Path| is_source(path) && hunk.edits(&text(files, path), patch).is_ok();
    for path in files.keys().filter(|path| count == 0 && has(path)) {
        let _ = writeln!(problems, "They are in {} now.", path.display());
    }
    problems.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f() {\n    a();\n    // Why.\n    b();\n    c();\n    a();\n}\n";

    fn applied(hunks: &[(&str, &str)]) -> Result<String, String> {
        let mut files = Files::from([
            ("f.rs".into(), SOURCE.into()),
            ("g.rs".into(), "moved();\n".into()),
        ]);
        let patches: Result<Vec<Patch>, String> = hunks
            .iter()
            .map(|(name, hunk)| {
                let hunk = hunk.replace('!', &format!("planted::is(\"{name}\")"));
                let text =
                    format!("where: f\nwhat: w\n--- a/f.rs\n+++ b/f.rs\n@@ -9 +9 @@\n{hunk}\n");
                Patch::parse(Path::new(&format!("{name}.patch")), &text)
            })
            .collect();
        apply(&mut files, &patches?)?;
        Ok(text(&files, Path::new("f.rs")))
    }

    #[test]
    fn patches_apply_by_their_lines_and_independently_of_each_other() {
        let is = |name| format!("planted::is(\"{name}\")");
        for (hunks, expected) in [
            // Indentation and comments are ignored.
            (
                &[("X", "-b();\n+!;")][..],
                SOURCE.replace("    b();", &is("X")),
            ),
            (
                &[("X", " a();\n-b();\n+!;")],
                SOURCE.replace("    b();", &is("X")),
            ),
            (
                &[("X", "+!;\n b();")],
                SOURCE.replace("    b();", &(is("X") + ";\n    b();")),
            ),
            // One patch replaces a line that another names as context, or inserts lines around it.
            (
                &[("X", "-b();\n+!;"), ("Y", " b();\n-c();\n+!;")],
                SOURCE.replace("    b();\n    c();", &format!("{};\n{};", is("X"), is("Y"))),
            ),
            (
                &[("X", "+if ! {\n c();\n+}"), ("Y", "+if ! {\n b();\n+}")],
                SOURCE.replace(
                    "    b();\n    c();",
                    &format!(
                        "if {} {{\n    b();\n}}\nif {} {{\n    c();\n}}",
                        is("Y"),
                        is("X")
                    ),
                ),
            ),
            (
                &[("X", "-b();\n+!;"), ("Y", "+if ! {\n b();\n+}")],
                SOURCE.replace("    b();", &format!("if {} {{\n{};\n}}", is("Y"), is("X"))),
            ),
        ] {
            let expected = expected.replace(")\n", ");\n").replace(";;", ";");
            assert_eq!(applied(hunks), Ok(expected), "{hunks:?}");
        }
    }

    #[test]
    fn a_patch_that_does_not_apply_is_explained() {
        for (hunks, expected) in [
            (
                &[("X", "-d();\n+!;")][..],
                "X.patch does not apply: f.rs has no such lines:\n    d();\n",
            ),
            (
                &[("X", "-a();\n+!;")],
                "X.patch does not apply: f.rs has these lines 2 times",
            ),
            (&[("X", "-moved();\n+!;")], "They are in g.rs now."),
            (
                &[("X", "-b();\n+!;"), ("Y", "-b();\n+!;")],
                "X.patch and Y.patch both replace line 4 of f.rs",
            ),
            (
                &[("X", "-b();\n+planted::is(\"Y\")")],
                "X.patch does not insert its bug behind `planted::is(\"X\")`",
            ),
        ] {
            let error = applied(hunks).expect_err("it applies");
            assert!(error.contains(expected), "{error}");
        }
    }
}
