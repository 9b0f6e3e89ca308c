//! The tables of what finds which bug, in `docs/generated/FAULTS.md`. `UPDATE=1` writes them.

use std::sync::{Mutex, PoisonError};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/generated/FAULTS.md");
/// Tests of one program run at the same time.
static WRITING: Mutex<()> = Mutex::new(());

pub(crate) fn is_written() -> bool {
    std::env::var_os("UPDATE").is_some()
}

/// Checks that the row of a name begins with these cells, or writes it. `more` is the last cell, which takes long to find
/// out: it is only written, and not checked.
pub(crate) fn check(name: &str, cells: &str, more: Option<&str>) {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = std::fs::read_to_string(PATH).unwrap();
    let start = format!("| `{name}` | ");
    let row = text.lines().find(|line| line.starts_with(&start));
    let row = row
        .unwrap_or_else(|| panic!("no row of {PATH} has {name}"))
        .to_owned();
    let own = format!("{start}{cells} |");
    if is_written() {
        let own = more.map_or_else(|| own.clone(), |more| format!("{own} {more} |"));
        text = text.replace(&row, &own);
        std::fs::write(PATH, text).unwrap();
    } else {
        assert!(
            row.starts_with(&own),
            "{row} begins with {own}: UPDATE=1 writes it"
        );
    }
}
