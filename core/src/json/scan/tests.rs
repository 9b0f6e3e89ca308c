//! Documents that the scanner accepts and rejects, at any split.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;

/// Returns whether the input is one value, read in parts that end at `cuts`.
fn read(input: &[u8], cuts: &[usize]) -> Result<bool, ScanError> {
    let mut scanner = Scanner::new();
    let mut ended = false;
    let mut start = 0;
    for end in cuts.iter().copied().chain([input.len()]) {
        let part = &input[start..end];
        let mut at = 0;
        if !ended {
            ended = scanner.skip_value(part, &mut at, 0)?;
        }
        if ended {
            let step = scanner.step(part, &mut at)?;
            if let Stop::Value(byte) = step {
                return Err(scanner_error(&scanner, byte));
            }
        }
        assert_eq!(at, part.len());
        assert_eq!(scanner.offset(), end as u64);
        start = end;
    }
    Ok(ended)
}

fn scanner_error(scanner: &Scanner, byte: u8) -> ScanError {
    ScanError {
        offset: scanner.offset(),
        kind: ScanErrorKind::UnexpectedByte(byte),
    }
}

/// Reads the input in every two parts and byte by byte, and checks that the result is the same.
fn read_all_ways(input: &[u8]) -> Result<bool, ScanError> {
    let whole = read(input, &[]);
    for cut in 0..=input.len() {
        assert_eq!(
            read(input, &[cut]),
            whole,
            "{:?} cut at {cut}",
            input.escape_ascii().to_string()
        );
    }
    let all: Vec<_> = (0..=input.len()).collect();
    assert_eq!(
        read(input, &all),
        whole,
        "{:?} byte by byte",
        input.escape_ascii().to_string()
    );
    whole
}

#[test]
fn accepts_json() {
    for json in [
        r#"{}"#,
        r#"[]"#,
        r#" { "a" : [ 1 , 2.5 , -0 , 0.1e+10 , 1E-2, 10e5 ] , "b" : { } , "c" : [ ] } "#,
        r#"{"a":{"b":{"c":[[[{}]]]}}}"#,
        r#"[true,false,null]"#,
        r#"["}]{[\"\\","\/\b\f\n\r\t","\u00e9\uD83D\ude00\ud800","\\","\\\\\"",""]"#,
        "{\"ключ\":\"значение 日本語 🦀\",\"tab\\tkey\":\"\u{7f}\"}",
        "{\r\n\t\"a\":\r\n1\r\n}\r\n",
        r#"{"a":"b","c":"d","e":{"f":"g","h":{}},"i":"j"}"#,
        r#"{"long":"0123456789abcdef0123456789abcdef0123456789abcdef\"0123456789abcdef"}"#,
        r#""text""#,
        "true ",
        "17 ",
    ] {
        assert_eq!(read_all_ways(json.as_bytes()), Ok(true), "{json}");
    }
}

#[test]
fn waits_for_the_rest_of_a_document_that_is_cut_off() {
    let json = "{\"a\":[1.5e+3,true,null,\"\\u00e9\\\\é\"],\"b\":{\"c\":{}}}";
    for end in 0..json.len() {
        assert_eq!(
            read_all_ways(&json.as_bytes()[..end]),
            Ok(false),
            "cut at {end}"
        );
    }
    assert_eq!(read_all_ways(json.as_bytes()), Ok(true));
}

#[test]
fn refuses_what_is_not_json() {
    use ScanErrorKind::*;
    for (json, offset, kind) in [
        ("<html>", 0, UnexpectedByte(b'<')),
        ("}", 0, UnexpectedByte(b'}')),
        ("]", 0, UnexpectedByte(b']')),
        (",", 0, UnexpectedByte(b',')),
        ("{]", 1, UnexpectedByte(b']')),
        ("[}", 1, UnexpectedByte(b'}')),
        ("[1}", 2, UnexpectedByte(b'}')),
        ("{\"a\":1]", 6, UnexpectedByte(b']')),
        ("{\"a\":\"b\"]", 8, UnexpectedByte(b']')),
        ("{\"a\":[{}]]", 9, UnexpectedByte(b']')),
        ("{,}", 1, UnexpectedByte(b',')),
        ("[,]", 1, UnexpectedByte(b',')),
        ("[1,]", 3, UnexpectedByte(b']')),
        ("[\"a\",]", 5, UnexpectedByte(b']')),
        ("{\"a\":1,}", 7, UnexpectedByte(b'}')),
        ("{\"a\":\"b\",}", 9, UnexpectedByte(b'}')),
        ("{\"a\":\"b\",1}", 9, UnexpectedByte(b'1')),
        ("{\"a\"}", 4, UnexpectedByte(b'}')),
        ("{\"a\" 1}", 5, UnexpectedByte(b'1')),
        ("{\"a\"::1}", 5, UnexpectedByte(b':')),
        ("{\"a\":}", 5, UnexpectedByte(b'}')),
        ("{\"a\":,}", 5, UnexpectedByte(b',')),
        ("{a:1}", 1, UnexpectedByte(b'a')),
        ("{'a':1}", 1, UnexpectedByte(b'\'')),
        ("{1:1}", 1, UnexpectedByte(b'1')),
        ("[1 2]", 3, UnexpectedByte(b'2')),
        ("[\"a\" \"b\"]", 5, UnexpectedByte(b'"')),
        ("[\"a\":1]", 4, UnexpectedByte(b':')),
        ("[{}{}]", 3, UnexpectedByte(b'{')),
        ("{\"a\":1 \"b\":2}", 7, UnexpectedByte(b'"')),
        ("[\u{feff}]", 1, UnexpectedByte(0xef)),
        ("[01]", 2, UnexpectedByte(b'1')),
        ("[-01]", 3, UnexpectedByte(b'1')),
        ("[1a]", 2, UnexpectedByte(b'a')),
        ("[.5]", 1, UnexpectedByte(b'.')),
        ("[+1]", 1, UnexpectedByte(b'+')),
        ("[NaN]", 1, UnexpectedByte(b'N')),
        ("[-]", 2, BadNumber(b']')),
        ("[-Infinity]", 2, BadNumber(b'I')),
        ("[1.]", 3, BadNumber(b']')),
        ("[1.e5]", 3, BadNumber(b'e')),
        ("[1e]", 3, BadNumber(b']')),
        ("[1e+]", 4, BadNumber(b']')),
        ("[1.5.5]", 4, UnexpectedByte(b'.')),
        ("[0x10]", 2, UnexpectedByte(b'x')),
        ("[tru]", 4, BadLiteral(b']')),
        ("[nul1]", 4, BadLiteral(b'1')),
        ("[True]", 1, UnexpectedByte(b'T')),
        ("[truee]", 5, UnexpectedByte(b'e')),
        ("[\"\\x\"]", 3, BadEscape(b'x')),
        ("[\"\\u12g4\"]", 6, BadEscape(b'g')),
        ("[\"\\u\"]", 4, BadEscape(b'"')),
        ("[\"a\nb\"]", 3, ControlInString(b'\n')),
        ("[\"0123456789abcdef0123\u{0}b\"]", 22, ControlInString(0)),
        ("{\"a\tb\":1}", 3, ControlInString(b'\t')),
        ("{} x", 3, UnexpectedByte(b'x')),
    ] {
        assert_eq!(
            read_all_ways(json.as_bytes()),
            Err(ScanError { offset, kind }),
            "{json}"
        );
    }
}

#[test]
fn counts_what_is_too_deep() {
    for (levels, deep) in [
        (127, false),
        (128, false),
        (129, true),
        (130, true),
        (10_000, true),
    ] {
        let json = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let mut scanner = Scanner::new();
        let mut at = 0;
        assert_eq!(scanner.skip_value(json.as_bytes(), &mut at, 0), Ok(true));
        assert_eq!(
            (at, scanner.too_deep()),
            (json.len(), deep),
            "{levels} levels"
        );
        assert_eq!(read(json.as_bytes(), &[levels, levels + 1]), Ok(true));
    }
    let json = format!(
        "{}{{\"a]\":\"}}\\\"\"}}{} ,",
        "[".repeat(200),
        "]".repeat(200)
    );
    let error = ScanError {
        offset: json.len() as u64 - 1,
        kind: ScanErrorKind::UnexpectedByte(b','),
    };
    assert_eq!(read_all_ways(json.as_bytes()), Err(error));
    // At the limit, it validates again.
    let json = format!("{}{}x", "[".repeat(200), "]".repeat(72));
    let error = ScanError {
        offset: json.len() as u64 - 1,
        kind: ScanErrorKind::UnexpectedByte(b'x'),
    };
    assert_eq!(read_all_ways(json.as_bytes()), Err(error));
}

#[test]
fn does_not_overflow() {
    let mut scanner = Scanner {
        depth: u32::MAX,
        state: Expected::Deep,
        ..Scanner::new()
    };
    let error = scanner.skip_value(b"[", &mut 0, 0);
    assert_eq!(
        error.map_err(|error| error.kind),
        Err(ScanErrorKind::TooDeep)
    );
}

#[test]
fn steps() {
    let json = b" {\"a\" : [1, {\"b\":null}], \"c\":\"d\"} ";
    let mut scanner = Scanner::new();
    let mut at = 0;
    let mut steps = Vec::new();
    loop {
        let step = scanner.step(json, &mut at).unwrap();
        steps.push(step);
        match step {
            Stop::More => break,
            Stop::Value(first @ (b'{' | b'[')) => scanner.enter(first, &mut at).unwrap(),
            Stop::Value(_) => {
                let floor = scanner.depth();
                assert_eq!(scanner.skip_value(json, &mut at, floor), Ok(true));
            }
            Stop::KeyStart | Stop::KeyEnd | Stop::Closed => {}
        }
    }
    let expected = [
        Stop::Value(b'{'),
        Stop::KeyStart,
        Stop::KeyEnd,
        Stop::Value(b'['),
        Stop::Value(b'1'),
        Stop::Value(b'{'),
        Stop::KeyStart,
        Stop::KeyEnd,
        Stop::Value(b'n'),
        Stop::Closed,
        Stop::Closed,
        Stop::KeyStart,
        Stop::KeyEnd,
        Stop::Value(b'"'),
        Stop::Closed,
        Stop::More,
    ];
    assert_eq!(steps, expected);
    assert_eq!((scanner.depth(), scanner.offset()), (0, json.len() as u64));
}

#[test]
fn entering_fails_at_the_depth_limit() {
    let json = "[".repeat(200);
    let mut scanner = Scanner::new();
    let mut at = 0;
    let error = loop {
        let step = scanner.step(json.as_bytes(), &mut at).unwrap();
        assert_eq!(step, Stop::Value(b'['));
        if let Err(error) = scanner.enter(b'[', &mut at) {
            break error;
        }
    };
    let kind = ScanErrorKind::TooDeep;
    assert_eq!(error, ScanError { offset: 128, kind });
    // The value can still be skipped.
    assert_eq!(scanner.skip_value(b"[[]],", &mut 0, 128), Ok(true));
    assert!(scanner.too_deep());
    let kind = ScanErrorKind::UnexpectedByte(b'1');
    let error = Scanner::new().enter(b'1', &mut 0);
    assert_eq!(error, Err(ScanError { offset: 0, kind }));
}

#[test]
fn marks_what_is_not_ascii() {
    for (json, marked) in [
        ("[\"abc\"]", false),
        ("[\"é\"]", true),
        ("[\"0123456789abcdefgé\"]", true),
        ("{\"é\":1}", true),
    ] {
        let mut scanner = Scanner::new();
        scanner.skip_value(json.as_bytes(), &mut 0, 0).unwrap();
        assert_eq!(scanner.saw_non_ascii(), marked, "{json}");
        scanner.clear_marks();
        assert!(!scanner.saw_non_ascii());
    }
}

#[test]
fn finds_the_first_special_byte() {
    for byte in 0..=255_u8 {
        for place in 0..40 {
            let mut text = [b'a'; 40];
            text[place] = byte;
            let special = byte < b' ' || matches!(byte, b'"' | b'\\');
            let mut wide = false;
            assert_eq!(
                plain_end(&text, 0, &mut wide),
                if special { place } else { 40 },
                "{byte} at {place}"
            );
            assert_eq!(wide, byte >= 0x80);
            // A borrow from a special byte must not hide that it is the first.
            text[39] = b'"';
            text[38] = b'!';
            let first = if special { place.min(39) } else { 39 };
            if place < 38 {
                assert_eq!(plain_end(&text, 0, &mut wide), first);
            }
        }
    }
}

#[test]
fn survives_anything() {
    let alphabet = b"{}[]\",:\\u0019eE+-.tfn ralse\n\x00\xe9\xff";
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..crate::rounds(20_000) {
        let mut json = Vec::new();
        for _ in 0..24 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let known = alphabet[(random >> 33) as usize % alphabet.len()];
            json.push(if random & 15 == 0 {
                (random >> 8) as u8
            } else {
                known
            });
        }
        let byte_by_byte: Vec<_> = (0..=json.len()).collect();
        assert_eq!(
            read(&json, &byte_by_byte),
            read(&json, &[]),
            "{}",
            json.escape_ascii()
        );
    }
}

#[test]
fn explains_errors() {
    let show = |json: &str| read(json.as_bytes(), &[]).unwrap_err().to_string();
    assert_eq!(show("<html>"), "unexpected '<' at byte 0");
    assert_eq!(
        show("[\"\n\"]"),
        "unescaped control character 0x0a in a string at byte 2"
    );
    assert_eq!(show("[\"\\x\"]"), "bad escape in a string: 'x' at byte 3");
    assert_eq!(show("[1.]"), "bad number: unexpected ']' at byte 3");
    assert_eq!(show("[nil]"), "bad literal: unexpected 'i' at byte 2");
}
