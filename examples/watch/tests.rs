//! Texts cut to the width of a terminal, the table, its cells, and the progress of a list.

use informer::decode::Decoder;
use informer::{Informer, Raw, Resource};
use informer_mock::{FakeServer, Mock, TokioClock};
use serde_json::json;

use super::Output;
use super::columns::{Columns, Path, short};
use super::screen::{Screen, fit};
use super::table::Table;
use super::writer::Line;

#[test]
fn lines_are_cut_by_the_columns_that_they_take() {
    for (text, width, shown) in [
        ("default/web", None, "default/web"),
        ("default/web", Some(11), "default/web"),
        ("default/web", Some(8), "default…"),
        // Characters that take two columns, and some that take none.
        ("日本語", Some(6), "日本語"),
        ("日本語", Some(5), "日本…"),
        ("日本語", Some(4), "日…"),
        ("e\u{301}te\u{301}", Some(3), "e\u{301}te\u{301}"),
        ("web", Some(1), "…"),
        ("web", Some(0), ""),
        // Control characters are replaced by a mark.
        ("a\x1b[2J\r\nb", None, "a\u{fffd}[2J\u{fffd}\u{fffd}b"),
    ] {
        assert_eq!(fit(text, width), shown, "{text:?} in {width:?}");
    }
}

/// Columns grow with their cells, and the widest ones are cut if the terminal is narrow.
#[test]
fn columns_are_aligned_and_fit() {
    let mut table = Table::new(Columns::default(), true);
    let mut add = |sign, name: &str| {
        let json = br#"{"metadata":{}}"#;
        table.add((sign, ""), ("prod", name), json, "");
    };
    add('+', "web");
    add('+', "a-long-name-of-an-object");
    let plain = |_: &str, line: &str| line.to_owned();
    assert_eq!(
        table.print(Some(40), plain),
        [
            "  NAMESPACE  NAME              AGE",
            "+ prod       web               <unknown>",
            "+ prod       a-long-name-of-…  <unknown>",
        ]
    );
    table.add(('-', ""), ("prod", "日本語"), b"", " (gone)");
    assert_eq!(
        table.print(Some(40), plain),
        ["- prod       日本語            <unknown…"]
    );
    assert!(table.print(None, plain).is_empty());
}

#[test]
fn the_paths_of_custom_columns_are_followed() {
    let object = json!({
        "metadata": { "labels": { "a.b/c": "blue" } },
        "spec": { "size": 3, "open": true, "ports": [80, 81], "hosts": [{ "name": "a" }, { "name": "b" }] },
        "status": { "conditions": [
            { "type": "Other", "status": "False" }, { "type": "Ready", "status": "True" },
        ] },
    });
    for (path, text) in [
        (".spec.size", "3"),
        ("{.spec.open}", "true"),
        ("$.spec['size']", "3"),
        (".spec.ports[1]", "81"),
        (".spec.ports[-1]", "81"),
        (".spec.ports[-3]", ""),
        (".spec.ports[9]", ""),
        (".spec.hosts[*].name", "a"),
        (r".metadata.labels.a\.b/c", "blue"),
        (r"['metadata']['labels']['a\.b/c']", "blue"),
        (r#".status.conditions[?(@.type=="Ready")].status"#, "True"),
        (".status.conditions[?(@.type != 'Ready')].status", "False"),
        (".spec.none.such", ""),
    ] {
        let parsed = Path::parse(path).unwrap_or_else(|| panic!("{path} is not understood"));
        assert_eq!(parsed.text(&object), text, "{path}");
    }
    for path in [
        "..size",
        ".spec.ports[0:1]",
        ".spec.ports[",
        ".spec[?(@.a > 1)]",
        "{.spec",
        ".a\\",
    ] {
        assert!(Path::parse(path).is_none(), "{path}");
    }
}

#[test]
fn times_are_as_short_as_in_kubectl() {
    for (seconds, text) in [
        (-2, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (11_000, "3h3m"),
        (172_799, "47h"),
        (172_800 + 3_600, "2d1h"),
        (691_200, "8d"),
        (63_072_000 + 86_400, "2y1d"),
        (252_288_000, "8y"),
    ] {
        assert_eq!(short(seconds), text, "{seconds}");
    }
}

/// Without a terminal there is no status line.
#[test]
fn a_long_list_shows_its_progress() {
    let table = Table::new(Columns::default(), true);
    let mut screen = Screen::new(Output::Json, "pods".to_owned(), table);
    let server = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    let pods = Resource::new("", "v1", "pods");
    let (informer, _driver) =
        Informer::<Raw>::builder_with(server.transport(), pods, Decoder::<Raw>::new()).build();
    let health = informer.health();
    let ticks = (0..=10).filter_map(|_| screen.tick(&health));
    let lines: Vec<String> = ticks
        .map(|line| match line {
            Line::Error(line) => line,
            Line::Out(_) | Line::Status(_) => panic!("{line:?}"),
        })
        .collect();
    assert_eq!(
        lines,
        [
            "pods: 0 objects listed after 2 s",
            "pods: 0 objects listed after 5 s",
            "pods: 0 objects listed after 10 s",
        ]
    );
}
