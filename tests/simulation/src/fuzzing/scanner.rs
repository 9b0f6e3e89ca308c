//! The scanner's result does not depend on how its input is split, and it accepts the same JSON as serde_json.

use informer_core::json::Scanner;
use serde::de::IgnoredAny;

use super::{pieces, sizes};

/// The result of a scan: where values ended, and where it failed.
#[derive(PartialEq, Eq, Debug)]
struct Found {
    ends: Vec<u64>,
    failed: bool,
    depth: u32,
    too_deep: bool,
}

/// Scans bytes whole and in pieces.
///
/// # Panics
/// If the results differ, or serde_json disagrees.
pub fn scanner(data: &[u8]) {
    let (sizes, json) = sizes(data);
    let whole = scan(&[json]);
    assert_eq!(scan(&pieces(json, sizes)), whole, "split by {sizes:?}");
    assert_eq!(scan(&pieces(json, &[1])), whole, "split at every byte");

    let theirs = serde_json::from_slice::<IgnoredAny>(json).is_ok();
    let rest = whole
        .ends
        .first()
        .and_then(|end| json.get(usize::try_from(*end).ok()?..));
    let is_over = rest.is_none_or(|rest| rest.trim_ascii().is_empty());
    let ours = !whole.failed && whole.ends.len() == 1 && is_over && whole.depth == 0;
    assert!(
        ours == theirs || whole.too_deep,
        "we say {ours}, serde_json {theirs}: {whole:?}"
    );
}

fn scan(pieces: &[&[u8]]) -> Found {
    let mut scanner = Scanner::new();
    let mut found = Found {
        ends: Vec::new(),
        failed: false,
        depth: 0,
        too_deep: false,
    };
    // A number ends only at the next character.
    let end: &[u8] = b" ";
    'pieces: for piece in pieces.iter().copied().chain([end]) {
        let (mut at, mut stood) = (0, false);
        while at < piece.len() {
            let before = at;
            match scanner.skip_value(piece, &mut at, 0) {
                Ok(true) => found.ends.push(scanner.offset()),
                Ok(false) => assert_eq!(at, piece.len(), "all of it is read where nothing ends"),
                Err(_) => {
                    found.failed = true;
                    break 'pieces;
                }
            }
            assert!(at > before || !stood, "it moves on");
            stood = at == before;
        }
    }
    found.depth = if found.failed { 0 } else { scanner.depth() };
    found.too_deep = scanner.too_deep();
    found
}
