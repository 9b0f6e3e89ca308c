//! `docs/generated/SCENARIOS.md` names every scenario once, and the tests that it names exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The maximum number of scenarios without a test.
const WITHOUT: usize = 60;

/// The scenarios: a letter and ranges of numbers.
const GROUPS: [(&str, &[(u32, u32)]); 11] = [
    ("R", &[(1, 11), (20, 30), (40, 46), (50, 61), (70, 87)]),
    ("D", &[(1, 28)]),
    ("Q", &[(1, 17)]),
    ("C", &[(1, 11)]),
    ("S", &[(1, 27)]),
    ("I", &[(1, 19)]),
    ("P", &[(1, 5)]),
    ("W", &[(1, 10)]),
    ("T", &[(1, 5)]),
    ("K", &[(1, 13)]),
    ("X", &[(1, 20)]),
];

fn all() -> Vec<String> {
    let ids = |(letter, ranges): &(&str, &[(u32, u32)])| -> Vec<String> {
        let numbers = ranges.iter().flat_map(|(from, to)| *from..=*to);
        numbers
            .map(|number| format!("{letter}{number:02}"))
            .collect()
    };
    GROUPS.iter().flat_map(ids).collect()
}

/// A row of the table: the scenario, and the second and third cell.
struct Row {
    id: String,
    tests: Vec<(String, String)>,
    remark: String,
}

fn rows(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, tests, remark] = cells[..] else {
            panic!("a row has three cells: {line}");
        };
        let is_id = id.len() == 3 && id[1..].bytes().all(|byte| byte.is_ascii_digit());
        if !is_id {
            continue;
        }
        let named = tests.split('`').skip(1).step_by(2);
        let tests = named
            .map(|test| {
                let (path, name) = test
                    .rsplit_once("::")
                    .unwrap_or_else(|| panic!("{id}: {test} is no path and name"));
                (path.to_owned(), name.to_owned())
            })
            .collect();
        rows.push(Row {
            id: id.to_owned(),
            tests,
            remark: remark.to_owned(),
        });
    }
    rows
}

/// The errors in the table.
fn problems(rows: &[Row], has: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    let named: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let all = all();
    if named != all {
        let (named, all): (BTreeSet<_>, BTreeSet<_>) = (
            named.iter().copied().collect(),
            all.iter().map(String::as_str).collect(),
        );
        let missing: Vec<_> = all.difference(&named).collect();
        let unknown: Vec<_> = named.difference(&all).collect();
        problems.push(format!(
            "missing: {missing:?}; unknown: {unknown:?}; or twice, or out of order"
        ));
    }
    let without = rows.iter().filter(|row| row.tests.is_empty()).count();
    if without > WITHOUT {
        problems.push(format!("{without} scenarios have no test"));
    }
    for row in rows {
        if row.tests.is_empty() && row.remark.is_empty() {
            problems.push(format!("{} has neither a test nor a reason", row.id));
        }
        for (path, name) in &row.tests {
            if !has(path, name) {
                problems.push(format!("{}: there is no {name} in {path}", row.id));
            }
        }
    }
    problems
}

#[test]
fn every_scenario_has_a_test_or_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text =
        std::fs::read_to_string(root.join("docs/generated/SCENARIOS.md")).expect("it is there");
    let rows = rows(&text);
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for (path, _) in rows.iter().flat_map(|row| &row.tests) {
        let file = root.join(path);
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
        files.insert(path, text);
    }
    // A property of every storage is tested by a generic function.
    let has = |path: &str, name: &str| {
        let starts = [format!("fn {name}("), format!("fn {name}<")];
        starts.iter().any(|start| files[path].contains(start))
    };
    let problems = problems(&rows, has);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn there_are_214_scenarios() {
    assert_eq!(all().len(), 214);
}

#[test]
fn errors_in_the_table_are_detected() {
    let table = |change: &dyn Fn(&str) -> Option<String>| {
        let row =
            |id: &String| change(id).unwrap_or_else(|| format!("| {id} | `a.rs::test` | |\n"));
        all().iter().map(row).collect::<String>()
    };
    let found = |text: &str| problems(&rows(text), |path, name| (path, name) == ("a.rs", "test"));
    let right = table(&|_| None);
    assert_eq!(found(&right), [""; 0]);
    assert_eq!(
        found(&right.replace("| S07 | `a.rs::test` | |\n", "")).len(),
        1
    );
    assert_eq!(
        found(&(right.clone() + "| S07 | `a.rs::test` | |\n")).len(),
        1
    );
    assert_eq!(
        found(&right.replace("S07 | `a.rs::test`", "S07 | `a.rs::other`")).len(),
        1
    );
    assert_eq!(
        found(&right.replace("S07 | `a.rs::test`", "S07 | –")).len(),
        1
    );
    let without = |count: usize| {
        let all = all();
        table(&|id| {
            let first = all.iter().position(|other| other == id)? < count;
            first.then(|| format!("| {id} | – | a reason |\n"))
        })
    };
    assert_eq!(found(&without(WITHOUT)), [""; 0]);
    assert_eq!(found(&without(WITHOUT + 1)).len(), 1);
}
