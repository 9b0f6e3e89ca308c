//! Compares the deserializer with serde_json.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::Deserialize;

use super::*;

#[derive(Deserialize, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
struct Thing {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    count: Option<i32>,
    ratio: Option<f64>,
    list: Option<Vec<Inner>>,
    choice: Option<Choice>,
    any: Option<serde_json::Value>,
    flag: Option<bool>,
    pair: Option<(u8, i64)>,
    nothing: Option<()>,
    boxed: Option<Box<Self>>,
    character: Option<char>,
}

#[derive(Deserialize, PartialEq, Debug)]
struct Inner {
    a: u64,
}

#[derive(Deserialize, PartialEq, Debug)]
enum Choice {
    Unit,
    One(u32),
    Struct { x: String },
}

const JSON: &str = r#" { "name" : "a\n\u00e9" , "labels":{"k":"v","l\"":"w"},"count":-3,"ratio":1.5e3,
        "list":[{"a":1,"unknown":[{"b":"]"}]},{"a":18446744073709551615}],"choice":{"Struct":{"x":"y"}},
        "any":{"n":[1,-2,3.5,null,true,"s",{}]},"flag":true,"pair":[7,-9],"nothing":null,
        "boxed":{"name":"b","choice":"Unit","list":[]},"extra":{"a":[[["x"]]]},"character":"x"} "#;

#[test]
fn reads_what_serde_json_reads() {
    let ours: Thing = read(JSON.as_bytes(), Prune::NOTHING).unwrap();
    assert_eq!(ours, serde_json::from_str(JSON).unwrap());
    for json in [
        r#"{"name":"a","choice":{"One":5}}"#,
        r#"{"name":"a","any":"text"}"#,
        r#"{"name":"","ratio":7}"#,
    ] {
        let ours: Thing = read(json.as_bytes(), Prune::NOTHING).unwrap();
        assert_eq!(ours, serde_json::from_str(json).unwrap());
    }
    let any: serde_json::Value = read(JSON.as_bytes(), Prune::NOTHING).unwrap();
    assert_eq!(
        any,
        serde_json::from_str::<serde_json::Value>(JSON).unwrap()
    );
}

#[test]
fn refuses_what_serde_json_refuses() {
    for json in [
        r#"{"name":1}"#,
        r#"{}"#,
        r#"{"name":"a","count":3000000000}"#,
        r#"{"name":"a","list":{}}"#,
        r#"{"name":"a","list":[1]}"#,
        r#"{"name":"a","pair":[1]}"#,
        r#"{"name":"a","pair":[1,2,3]}"#,
        r#"{"name":"a","choice":"Other"}"#,
        "[]",
        "",
    ] {
        assert!(serde_json::from_str::<Thing>(json).is_err(), "{json}");
        assert!(
            read::<Thing>(json.as_bytes(), Prune::NOTHING).is_err(),
            "{json}"
        );
    }
}

#[test]
fn leaves_out_what_is_named() {
    const PRUNE: Prune = Prune::new(&[&["labels"], &["list", "*", "b"], &["count"]]);
    let json = r#"{"name":"a","labels":{"k":"v"},"list":[{"a":1,"b":"not a number"}],"count":"x"}"#;
    let thing: Thing = read(json.as_bytes(), PRUNE).unwrap();
    assert!(thing.labels.is_empty() && thing.count.is_none());
    assert_eq!(thing.list, Some(alloc::vec![Inner { a: 1 }]));
}

/// Pruning may protect secrets, so it must apply within every type: the result equals that of the pruned JSON.
#[test]
fn leaves_out_of_every_type() {
    use serde_json::value::RawValue;

    #[derive(Deserialize, PartialEq, Debug)]
    enum Tree {
        Struct {
            x: Option<u8>,
            deep: Option<Box<Self>>,
        },
        One(BTreeMap<String, u8>),
        Tuple(u8, BTreeMap<String, u8>),
        List(Vec<u8>),
    }
    #[derive(Deserialize, PartialEq, Debug)]
    #[serde(tag = "t", content = "c")]
    enum Adjacent {
        A { x: Option<u8> },
    }
    #[derive(Deserialize, PartialEq, Debug)]
    #[serde(untagged)]
    enum Untagged {
        A { x: Option<u8>, y: u8 },
    }
    #[derive(Deserialize, Debug)]
    struct All {
        tree: Vec<Tree>,
        adjacent: Adjacent,
        untagged: Untagged,
        raw: Box<RawValue>,
        whole: Box<RawValue>,
        bytes: Bytes,
    }
    #[derive(PartialEq, Debug)]
    struct Bytes(Vec<u8>);
    impl<'de> Deserialize<'de> for Bytes {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Sequence;
            impl<'de> Visitor<'de> for Sequence {
                type Value = Bytes;
                fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                    f.write_str("bytes")
                }
                fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Bytes, A::Error> {
                    let mut bytes = Vec::new();
                    while let Some(byte) = seq.next_element()? {
                        bytes.push(byte);
                    }
                    Ok(Bytes(bytes))
                }
            }
            deserializer.deserialize_bytes(Sequence)
        }
    }
    const PRUNE: Prune = Prune::new(&[
        &["tree", "*", "*", "x"],
        &["tree", "0", "Struct", "deep", "Struct", "x"],
        &["tree", "*", "Tuple", "1", "x"],
        &["tree", "*", "List", "1"],
        &["adjacent", "c", "x"],
        &["untagged", "x"],
        &["raw", "x"],
        &["raw", "l", "0"],
        &["bytes", "1"],
    ]);
    let json = r#"{"tree":[{"Struct":{"x":1,"deep":{"Struct":{"x":2}}}},{"One":{"x":3,"y":4}},
            {"Tuple":[5,{"x":6,"y":7}]},{"List":[8,9]}],"adjacent":{"t":"A","c":{"x":1}},"untagged":{"x":1,"y":2},
            "raw":{"x":1, "y":[1.50,2],"l":[1,2]},"whole":{"x" : 1},"bytes":[1,2,3]}"#;
    let all: All = read(json.as_bytes(), PRUNE).unwrap();
    let mut kept = Vec::new();
    PRUNE.copy(json.as_bytes(), &mut kept);
    let expected: All = serde_json::from_slice(&kept).unwrap();
    assert_eq!(all.tree, expected.tree);
    assert_eq!(
        (all.adjacent, all.untagged),
        (expected.adjacent, expected.untagged)
    );
    assert_eq!(all.bytes, expected.bytes);
    assert_eq!(all.raw.get(), r#"{"y":[1.50,2],"l":[2]}"#);
    assert_eq!(all.whole.get(), r#"{"x" : 1}"#);
    assert_eq!(
        all.tree[0],
        Tree::Struct {
            x: None,
            deep: Some(Box::new(Tree::Struct {
                x: None,
                deep: None
            }))
        }
    );
    assert_eq!(all.tree[3], Tree::List(alloc::vec![8]));
}

#[test]
fn allocates_lists_at_their_length() {
    let list: Vec<Inner> = read(
        br#"[{"a":1},{"a":2},{"a":3},{"a":4},{"a":5}]"#,
        Prune::NOTHING,
    )
    .unwrap();
    assert_eq!((list.len(), list.capacity()), (5, 5));
}

#[test]
fn survives_what_is_cut_off_or_too_deep() {
    for end in 0..JSON.len() - 2 {
        if JSON.is_char_boundary(end) {
            assert!(read::<Thing>(&JSON.as_bytes()[..end], Prune::NOTHING).is_err());
        }
    }
    let deep = "[".repeat(100_000);
    assert!(read::<serde_json::Value>(deep.as_bytes(), Prune::NOTHING).is_err());
    let deep = alloc::format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    assert!(read::<serde_json::Value>(deep.as_bytes(), Prune::NOTHING).is_err());
}

/// A type that replaces an unreadable value by its default may leave the reader within that value. The reader then fails,
/// and the caller uses serde_json.
#[test]
fn a_type_that_swallows_errors_reads_no_members_of_others() {
    #[derive(PartialEq, Debug, Default)]
    struct Lenient<T>(T);
    impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Lenient<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Ok(Self(T::deserialize(deserializer).unwrap_or_default()))
        }
    }
    #[derive(Deserialize, PartialEq, Debug, Default)]
    #[serde(default)]
    struct Outer {
        list: Lenient<Vec<u8>>,
        map: Lenient<BTreeMap<String, u8>>,
        b: u8,
    }
    type Lists = Vec<Lenient<Vec<u8>>>;

    fn ours<T: serde::de::DeserializeOwned>(json: &str) -> Option<T> {
        read(json.as_bytes(), Prune::NOTHING).ok()
    }
    // A scalar of another type is consumed.
    for json in [
        r#"{"list":5,"b":1}"#,
        r#"{"list":null,"b":1}"#,
        r#"{"map":"x","b":1}"#,
    ] {
        let expected: Outer = serde_json::from_str(json).unwrap();
        assert_eq!(ours(json), Some(expected), "{json}");
    }
    let expected: Lists = serde_json::from_str(r#"[5,null,"x",[1]]"#).unwrap();
    assert_eq!(ours(r#"[5,null,"x",[1]]"#), Some(expected));
    // The reader stops within these.
    for json in [
        r#"{"list":["x",2],"b":1}"#,
        r#"{"map":{"q":"x","b":7}}"#,
        r#"{"map":{"q":"x","b":7},"b":1}"#,
    ] {
        assert_eq!(ours::<Outer>(json), None, "{json}");
    }
    assert_eq!(ours::<Lists>(r#"[["x"],[1]]"#), None);
    let maps = r#"[{"q":"x","r":2},{"q":3}]"#;
    assert_eq!(ours::<Vec<Lenient<BTreeMap<String, u8>>>>(maps), None);
}
