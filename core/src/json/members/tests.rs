//! Members, elements and paths of documents.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;

fn members(json: &str) -> Vec<(String, &str)> {
    let text = |value| core::str::from_utf8(value).unwrap();
    Fields::new(json.as_bytes())
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

fn elements(json: &str) -> Vec<&str> {
    Elements::new(json.as_bytes())
        .map(|value| core::str::from_utf8(value).unwrap())
        .collect()
}

#[test]
fn lists_members() {
    assert_eq!(members("{}"), []);
    assert_eq!(members(" { } "), []);
    let json = " {\"a\" : 1 , \"b\\n\":\"}\\\"\" ,\n\"c\":[ {} ,2] , \"d\" : {\"e\":{ }} ,\"f\":null,\"g\":-1.5e+3 } ";
    let expected = [
        ("a", "1"),
        ("b\n", "\"}\\\"\""),
        ("c", "[ {} ,2]"),
        ("d", "{\"e\":{ }}"),
        ("f", "null"),
        ("g", "-1.5e+3"),
    ];
    assert_eq!(
        members(json),
        expected.map(|(name, value)| (name.to_string(), value))
    );
}

#[test]
fn lists_elements() {
    assert_eq!(elements("[]"), [""; 0]);
    assert_eq!(
        elements("[ 1 , \"a,]\" ,[], {\"b\":[1]},true]"),
        ["1", "\"a,]\"", "[]", "{\"b\":[1]}", "true"]
    );
    assert_eq!(elements("{\"a\":1}"), [""; 0]);
    assert_eq!(members("[1]"), []);
}

#[test]
fn finds_values() {
    let json =
        br#"{"status":{"conditions":[{"type":"Ready","n":7},{"type":"\u0041"}]},"1":{"x":2}}"#;
    let find =
        |path: &[&str]| value_at(json, path).map(|value| core::str::from_utf8(value).unwrap());
    assert_eq!(
        find(&["status", "conditions", "0", "type"]),
        Some("\"Ready\"")
    );
    assert_eq!(
        find(&["status", "conditions", "1", "type"]),
        Some("\"\\u0041\"")
    );
    assert_eq!(find(&["1", "x"]), Some("2"));
    assert_eq!(find(&[]).map(str::len), Some(json.len()));
    for absent in [
        &["spec"][..],
        &["status", "conditions", "2"],
        &["status", "conditions", "-1"],
        &["status", "conditions", ""],
        &["status", "conditions", "type"],
        &["1", "x", "y"],
    ] {
        assert_eq!(find(absent), None, "{absent:?}");
    }
    assert_eq!(
        value_at(json, &["status", "conditions", "0", "n"]).and_then(as_u64),
        Some(7)
    );
    assert!(
        as_str(
            find(&["status", "conditions", "1", "type"])
                .unwrap()
                .as_bytes()
        )
        .unwrap()
            == "A"
    );
}

#[test]
fn reads_scalars() {
    assert_eq!(as_u64(b"0"), Some(0));
    assert_eq!(as_u64(b"18446744073709551615"), Some(u64::MAX));
    for other in [
        &b"18446744073709551616"[..],
        b"-1",
        b"1.0",
        b"1e3",
        b"",
        b"\"1\"",
        b"null",
    ] {
        assert_eq!(as_u64(other), None);
    }
    assert!(as_str(b"\"a\"").unwrap() == "a");
    assert!(as_str(b"\"\"").unwrap().is_empty());
    for other in [&b"\""[..], b"", b"1", b"null", b"{}"] {
        assert_eq!(as_str(other), None);
    }
}

#[test]
fn leaves_out_what_is_cut_off() {
    let json = "{\"a\":{\"b\":[1,\"]\"]},\"c\":\"d\\\"e\",\"f\":true,\"g\":12}";
    let whole = members(json);
    for end in 0..json.len() {
        let part = members(&json[..end]);
        assert!(
            part.len() <= whole.len() && part == whole[..part.len()],
            "cut at {end}: {part:?}"
        );
    }
    assert_eq!(value_at(b"12", &[]), Some(&b"12"[..]));
}

/// Finds the end of a container byte by byte.
fn plain_container_end(json: &[u8]) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for (at, byte) in json.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[test]
fn finds_ends_of_containers() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..crate::rounds(50_000) {
        let mut json = alloc::vec![b'{'];
        for _ in 0..random % 300 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Backslashes occur only in strings, as in JSON. Text makes the containers span several blocks.
            json.extend_from_slice(match random >> 60 {
                0 | 1 => b"{",
                2 => b"[",
                3 | 4 => b"}",
                5 => b"]",
                6 => b"\"\\\\\\\"}\"",
                7 => b"\"\\\\\\\\\"",
                8 => b"\"]\\\\\\\\\\\\\\\\\\\\\\\\\\\"{\"",
                9 => b"\"a\\u0022}}\"",
                10 => b"\"long text that goes on, and on, and on, and on: }}}}\"",
                11 => "\"é\u{fb}ý\"".as_bytes(),
                _ => b",:1 x",
            });
        }
        assert_eq!(
            container_end(&json, 0),
            plain_container_end(&json),
            "{}",
            json.escape_ascii()
        );
    }
}

#[test]
fn survives_anything() {
    let alphabet = b"{}[]\",:\\a1 \n\xff";
    let mut random = 3_u64;
    for round in 0..20_000 {
        let bytes: Vec<u8> = (0..round % 90)
            .map(|_| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                alphabet[(random >> 40) as usize % alphabet.len()]
            })
            .collect();
        assert!(Fields::new(&bytes).count() <= bytes.len());
        assert!(Elements::new(&bytes).count() <= bytes.len());
        let _: Option<&[u8]> = value_at(&bytes, &["a", "0"]);
    }
}
