//! Inputs on which serde-json-core alone fails, and the results of `JsonCore`.

use alloc::format;
use alloc::string::ToString;

use heapless::{String, Vec};
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};
use serde_json_core::de::Error;
use serde_json_core::{from_slice, from_slice_escaped};

use super::*;
use crate::wire::ObjectHead;

#[derive(Deserialize, PartialEq, Debug)]
struct Thing {
    name: String<16>,
    count: Option<u16>,
}

fn thing(name: &str, count: Option<u16>) -> Thing {
    let name = name.try_into().unwrap();
    Thing { name, count }
}

fn decode<T: DeserializeOwned>(json: &str) -> Result<T, JsonCoreError> {
    JsonCore::<T, 16>::new().decode(&RawObject::new(json.as_bytes(), ObjectHead::default()))
}

fn problem<T: DeserializeOwned + fmt::Debug>(json: &str) -> JsonCoreProblem {
    decode::<T>(json).unwrap_err().problem
}

#[test]
fn escapes_are_taken_out_of_texts() {
    let json = r#"{"name":"a\"b\nc\u00e9","count":1}"#;
    let (alone, _) = from_slice::<Thing>(json.as_bytes()).unwrap();
    assert_eq!(
        alone.name, r#"a\"b\nc\u00e9"#,
        "serde-json-core has fixed this"
    );
    assert_eq!(decode(json), Ok(thing("a\"b\nc\u{e9}", Some(1))));
}

#[test]
fn a_text_that_nobody_wants_may_have_any_length_and_escapes() {
    let long = r#"{\"kind\":\"Pod\"}"#.repeat(500);
    let json = format!(
        r#"{{"annotations":{{"last":"{long}"}},"na\u006de":"x","very \" {long}":[1],"count":2}}"#
    );
    let alone = from_slice_escaped::<Thing>(json.as_bytes(), &mut [0; 64]);
    assert_eq!(
        alone.unwrap_err(),
        Error::EscapedStringIsTooLong,
        "serde-json-core has fixed this"
    );
    assert_eq!(decode(&json), Ok(thing("x", Some(2))));
}

#[test]
fn a_text_that_is_wanted_has_room_for_so_many_bytes_where_it_has_escapes() {
    assert_eq!(
        decode(r#"{"name":"0123456789abcde\n"}"#),
        Ok(thing("0123456789abcde\n", None))
    );
    let error = decode::<Thing>(r#"{"name":"0123456789abcdef\n"}"#).unwrap_err();
    assert_eq!(error.problem, JsonCoreProblem::TextTooLong { room: 16 });
    assert_eq!(error.field(), Some("name"));
    // A string without escapes is limited only by the capacity of its field.
    #[derive(Deserialize, Debug)]
    struct Long {
        name: String<40>,
    }
    let long = "0123456789".repeat(4);
    let decoded: Long = decode(&format!(r#"{{"name":"{long}"}}"#)).unwrap();
    assert_eq!(decoded.name, *long);
}

#[test]
fn a_surrogate_pair_is_a_character() {
    let json = r#"{"other":"\ud83e\udd80","name":"\ud83e\udd80 \ud83e"}"#;
    let alone = from_slice_escaped::<Thing>(json.as_bytes(), &mut [0; 64]);
    assert_eq!(
        alone.unwrap_err(),
        Error::InvalidEscapeSequence,
        "serde-json-core has fixed this"
    );
    assert_eq!(decode(json), Ok(thing("🦀 \u{fffd}", None)));
}

#[test]
fn ignored_members_may_be_of_any_depth() {
    // serde-json-core alone would overflow the stack on this input, which no test survives.
    let deep = format!("{}{}", "[{\"a\":".repeat(50_000), "1}]".repeat(50_000));
    let json = format!(r#"{{"deep":{deep},"name":"x"}}"#);
    assert_eq!(decode(&json), Ok(thing("x", None)));
}

#[test]
fn a_type_that_goes_down_for_ever_has_an_end() {
    #[derive(Deserialize, Debug)]
    struct Down {
        a: Option<alloc::boxed::Box<Self>>,
    }
    let nested = |levels: usize| format!("{}{{}}{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let mut at = decode::<Down>(&nested(31)).unwrap();
    let mut levels = 1;
    while let Some(next) = at.a {
        (at, levels) = (*next, levels + 1);
    }
    assert_eq!(levels, 32);
    assert_eq!(problem::<Down>(&nested(32)), JsonCoreProblem::TooDeep);
}

/// A number or a string, like `targetPort` of a Service.
#[derive(PartialEq, Debug)]
enum Port {
    Number(u64),
    Name(String<8>),
}

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Port;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a name")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Port, E> {
                Ok(Port::Number(number))
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Port, E> {
                let name = name.try_into();
                name.map(Port::Name)
                    .map_err(|_| E::invalid_length(0, &self))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[test]
fn a_value_may_be_a_number_or_a_text() {
    assert_eq!(
        from_slice::<Port>(b"7").unwrap_err(),
        Error::AnyIsUnsupported,
        "serde-json-core has fixed this"
    );
    assert_eq!(decode("7"), Ok(Port::Number(7)));
    assert_eq!(
        decode(r#""ht\u0074p""#),
        Ok(Port::Name("http".try_into().unwrap()))
    );
    for other in ["-7", "1.5", "true", "null", "[]", "{}"] {
        assert_eq!(
            problem::<Port>(other),
            JsonCoreProblem::WrongType,
            "{other}"
        );
    }
}

#[test]
fn nothing_is_no_number() {
    let (alone, _) = from_slice::<f32>(b"null").unwrap();
    assert!(alone.is_nan(), "serde-json-core has fixed this");
    assert_eq!(problem::<f32>("null"), JsonCoreProblem::WrongType);
    assert_eq!(problem::<f64>("null"), JsonCoreProblem::WrongType);
    assert_eq!(decode::<Option<f64>>("null"), Ok(None));
}

#[derive(Deserialize, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
struct All {
    small: i8,
    large: u64,
    ratio: f32,
    flag: bool,
    unit: (),
    pair: (i16, char),
    list: Vec<Inner, 3>,
    choice: [Choice; 3],
    #[serde(default)]
    absent: u8,
}

#[derive(Deserialize, PartialEq, Debug)]
struct Inner {
    a: Option<i64>,
}

#[derive(Deserialize, PartialEq, Debug)]
enum Choice {
    Unit,
    One(u32),
    Struct { x: bool },
}

const ALL: &str = r#" { "small" : -128, "large":18446744073709551615,"ratio":-1.5e3,"skipped":[{"a":[]},"]"],
    "flag":true , "unit":null,"pair":[-9,"\u00e9"],"list":[{"a":1,"b":{}},{"a":null},{ }],
    "choice":["Unit",{"One":7},{"Struct":{"x":false}}] , "last" : 1 } "#;

#[test]
fn reads_every_type_as_serde_json_does() {
    let expected = All {
        small: -128,
        large: u64::MAX,
        ratio: -1500.0,
        flag: true,
        unit: (),
        pair: (-9, 'é'),
        list: [Some(1), None, None]
            .into_iter()
            .map(|a| Inner { a })
            .collect(),
        choice: [Choice::Unit, Choice::One(7), Choice::Struct { x: false }],
        absent: 0,
    };
    assert_eq!(decode(ALL), Ok(expected));
}

#[test]
fn says_what_is_wrong_and_where() {
    for (json, expected) in [
        (r#"{"count":1}"#, "missing field name"),
        (r#"{"name":"a","name":"b"}"#, "duplicate field name"),
        (r#"{"name":1}"#, "name: wrong type"),
        (r#"{"name":null}"#, "name: wrong type"),
        (r#"{"name":"a","count":"1"}"#, "count: wrong type"),
        (r#"{"name":"a","count":1.5}"#, "count: wrong type"),
        (
            r#"{"name":"a","count":65536}"#,
            "count: the type does not accept this value",
        ),
        (
            r#"{"name":"a","count":-1}"#,
            "count: the type does not accept this value",
        ),
        (
            r#"{"name":"01234567890123456"}"#,
            "name: too long or too short for its type",
        ),
        ("[]", "wrong type"),
        ("", "not JSON, or truncated"),
        (r#"{"name":"a""#, "not JSON, or truncated"),
    ] {
        let error = decode::<Thing>(json).unwrap_err();
        assert_eq!(error.to_string(), expected, "{json}");
    }
    assert_eq!(problem::<[u8; 2]>("[1,2,3]"), JsonCoreProblem::WrongLength);
    assert_eq!(problem::<[u8; 2]>("[1]"), JsonCoreProblem::WrongLength);
    assert_eq!(problem::<Vec<u8, 1>>("[1,2]"), JsonCoreProblem::WrongLength);
    assert_eq!(
        problem::<Choice>(r#""Other""#),
        JsonCoreProblem::UnknownVariant
    );
}

#[test]
fn survives_what_is_cut_off() {
    for end in 0..ALL.len() - 2 {
        if ALL.is_char_boundary(end) {
            assert!(decode::<All>(&ALL[..end]).is_err(), "cut at {end}");
        }
    }
}

/// A type that swallows an error may leave the cursor within a value.
#[test]
fn reads_no_members_of_another_value() {
    #[derive(Debug)]
    struct Lenient;
    impl<'de> Deserialize<'de> for Lenient {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Ok(Thing::deserialize(deserializer).map_or(Self, |_| Self))
        }
    }
    #[derive(Deserialize, Debug)]
    #[expect(dead_code, reason = "nothing of it is read")]
    struct Outer {
        lenient: Lenient,
        count: Option<u16>,
    }

    assert!(decode::<Outer>(r#"{"lenient":{"name":"a"},"count":1}"#).is_ok());
    for json in [
        r#"{"lenient":{"name":1,"count":7}}"#,
        r#"{"lenient":{"name":1,"count":7},"count":1}"#,
        r#"{"lenient":[1]}"#,
    ] {
        assert!(decode::<Outer>(json).is_err(), "{json}");
    }
    let lenient = decode::<alloc::vec::Vec<Lenient>>(r#"[{"name":1,"count":7},{"name":"a"}]"#);
    assert_eq!(lenient.unwrap_err().problem, JsonCoreProblem::NotJson);
}

#[test]
fn an_informer_without_an_allocator_keeps_what_it_reads() {
    use crate::{Head, Inline, Instant, Output, PolledInformer, ReflectorConfig, Resource};

    #[derive(Deserialize)]
    struct Service {
        spec: Spec,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        cluster_ip: String<16>,
        ports: Vec<ServicePort, 2>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ServicePort {
        port: u16,
        target_port: Port,
    }

    let services = Resource::new("", "v1", "services");
    let mut informer: PolledInformer<_, _, Inline<4, 32, 1024>> = PolledInformer::new(
        services,
        JsonCore::<Service>::new(),
        ReflectorConfig::list(),
        1,
    );
    let now = Instant::from_micros(0);
    let Output::Send(request) = informer.poll_output(now) else {
        panic!("it lists")
    };
    let id = request.id();
    informer.handle_head(now, id, Head::new(200));
    let body = br#"{"kind":"ServiceList","metadata":{"resourceVersion":"7"},"items":[
        {"metadata":{"name":"web","annotations":{"last":"{\"a\":\"\ud83e\udd80\"}"}},
         "spec":{"clusterIP":"10.0.0.1","clusterIp":"10.0.0.7","ports":[{"port":80,"targetPort":"http"}]}},
        {"metadata":{"name":"bad"},"spec":{"clusterIp":"10.0.0.8","ports":[{"port":80}]}}]}"#;
    let mut reports = alloc::vec::Vec::new();
    let taken = informer.handle_data(now, id, body, &mut |report| {
        reports.push(report.to_string());
    });
    assert_eq!(taken, body.len());
    while informer.pop().is_some() {}
    let web = informer.cache().get("web").unwrap();
    let spec = &web.value().spec;
    assert_eq!(spec.cluster_ip, "10.0.0.7");
    assert_eq!(spec.ports[0].port, 80);
    assert_eq!(
        spec.ports[0].target_port,
        Port::Name("http".try_into().unwrap())
    );
    assert!(informer.cache().get("bad").is_none());
    assert!(
        reports[0].contains("bad cannot be decoded: ports: missing field targetPort"),
        "{reports:?}"
    );
}
