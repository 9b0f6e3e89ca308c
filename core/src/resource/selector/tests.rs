//! Selectors: their syntax, their meaning and their errors.

extern crate alloc;

use alloc::{format, string::String, string::ToString, vec::Vec};

use super::error::Mistake as Kind;
use super::parse::{RequirementRef, check_key, check_value, parse as requirements};
use super::*;
use crate::time::Rng;

fn parse(text: &str) -> LabelSelector {
    LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn outline(text: &str) -> String {
    let line = |requirement: RequirementRef<'_>| {
        let values: Vec<_> = requirement.values().collect();
        format!("{} {:?} {values:?}", requirement.key, requirement.operator)
    };
    requirements(text)
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
        .into_iter()
        .map(line)
        .collect::<Vec<_>>()
        .join("; ")
}

/// From `TestSelectorParse` and `TestSetSelectorParser` of apimachinery, and more.
#[test]
fn accepts_the_grammar() {
    let table = [
        ("", ""),
        (" \t\r\n", ""),
        ("x", "x Exists []"),
        ("\rx", "x Exists []"),
        ("a ", "a Exists []"),
        ("!x", "x DoesNotExist []"),
        (" ! x ", "x DoesNotExist []"),
        (
            "x=a,y=b,z=c",
            r#"x Equals ["a"]; y Equals ["b"]; z Equals ["c"]"#,
        ),
        ("x = a", r#"x Equals ["a"]"#),
        ("x==a", r#"x DoubleEquals ["a"]"#),
        ("x!=a,y=b", r#"x NotEquals ["a"]; y Equals ["b"]"#),
        ("x=", r#"x Equals [""]"#),
        ("x= ,z= ", r#"x Equals [""]; z Equals [""]"#),
        ("x!=", r#"x NotEquals [""]"#),
        ("x>1,z<5", r#"x GreaterThan ["1"]; z LessThan ["5"]"#),
        (
            "x>9223372036854775807",
            r#"x GreaterThan ["9223372036854775807"]"#,
        ),
        ("x in (a,b)", r#"x In ["a", "b"]"#),
        ("x in(a,b),y", r#"x In ["a", "b"]; y Exists []"#),
        ("foo  in\t (abc)", r#"foo In ["abc"]"#),
        ("x notin\n (abc)", r#"x NotIn ["abc"]"#),
        ("x in (abc,)", r#"x In ["abc", ""]"#),
        ("x in ()", r#"x In [""]"#),
        ("x notin ( )", r#"x NotIn [""]"#),
        ("x notin (, a)", r#"x NotIn ["", "a"]"#),
        ("x in (a,,b)", r#"x In ["a", "", "b"]"#),
        ("x in (a,,,)", r#"x In ["a", "", "", ""]"#),
        ("x in (a,,,b)", r#"x In ["a", "", "", "b"]"#),
        ("x in ( a , b )", r#"x In ["a", "b"]"#),
        (
            "x notin (abc,,def),bar,z in (),w",
            r#"x NotIn ["abc", "", "def"]; bar Exists []; z In [""]; w Exists []"#,
        ),
        (
            "a in (x,y,notin, z,in)",
            r#"a In ["x", "y", "notin", "z", "in"]"#,
        ),
        ("notin=in", r#"notin Equals ["in"]"#),
        ("in in (in)", r#"in In ["in"]"#),
        ("in", "in Exists []"),
        (
            "!notin,in notin (in)",
            r#"notin DoesNotExist []; in NotIn ["in"]"#,
        ),
        ("x=in,y=notin", r#"x Equals ["in"]; y Equals ["notin"]"#),
        (
            "this-is-a-dns.domain.com/key-with-dash",
            "this-is-a-dns.domain.com/key-with-dash Exists []",
        ),
        (
            "0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)",
            r#"0.1.2.domain/99 NotIn ["10.10.100.1", "tick.tack.clock"]"#,
        ),
        ("A_b.c-D=9_x.y-Z", r#"A_b.c-D Equals ["9_x.y-Z"]"#),
    ];
    for (text, expected) in table {
        assert_eq!(outline(text), expected, "{text:?}");
    }
}

#[test]
fn rejects_the_rest_with_its_position() {
    let table = [
        ("x=a||y=b", 6, Kind::ExpectedEnd),
        ("x==a==b", 4, Kind::ExpectedEnd),
        ("x=a=b", 3, Kind::ExpectedEnd),
        ("!x=a", 2, Kind::ExpectedEnd),
        ("!x in (a)", 3, Kind::ExpectedEnd),
        ("x=a b", 4, Kind::ExpectedEnd),
        ("x=a!", 3, Kind::ExpectedEnd),
        ("a in (xyz)b notin ()", 10, Kind::ExpectedEnd),
        ("x<a", 2, Kind::NotAnInteger),
        ("x>", 2, Kind::NotAnInteger),
        ("x>1.5", 2, Kind::NotAnInteger),
        ("x> 9223372036854775808", 3, Kind::NotAnInteger),
        ("x>-5", 2, Kind::InvalidValue),
        ("x>+5", 2, Kind::InvalidValue),
        ("x===a", 3, Kind::ExpectedValue),
        ("x=!a", 2, Kind::ExpectedValue),
        ("x=(a)", 2, Kind::ExpectedValue),
        ("x!==a", 3, Kind::ExpectedValue),
        ("x>=1", 2, Kind::ExpectedValue),
        ("x,,y", 2, Kind::ExpectedKey),
        (",x,y", 0, Kind::ExpectedKey),
        (",", 0, Kind::ExpectedKey),
        ("x, ", 3, Kind::ExpectedKey),
        ("a in (xyz),", 11, Kind::ExpectedKey),
        ("!", 1, Kind::ExpectedKey),
        ("!!x", 1, Kind::ExpectedKey),
        ("=a", 0, Kind::ExpectedKey),
        ("(", 0, Kind::ExpectedKey),
        ("<nothing>", 0, Kind::ExpectedKey),
        ("x nott in (y)", 2, Kind::ExpectedOperator),
        ("x y", 2, Kind::ExpectedOperator),
        ("x IN (y)", 2, Kind::ExpectedOperator),
        ("a (", 2, Kind::ExpectedOperator),
        ("a !", 2, Kind::ExpectedOperator),
        ("a in", 4, Kind::ExpectedParenthesis),
        ("a in b", 5, Kind::ExpectedParenthesis),
        ("a in,b", 4, Kind::ExpectedParenthesis),
        ("a notin(", 8, Kind::ExpectedListEnd),
        ("a in (b", 7, Kind::ExpectedListEnd),
        ("a in (b,", 8, Kind::ExpectedListEnd),
        ("a in (xyz abc)", 10, Kind::ExpectedListEnd),
        ("a in (b=c)", 7, Kind::ExpectedListEnd),
        ("a in ((b))", 6, Kind::ExpectedListEnd),
        ("a in (!b)", 6, Kind::ExpectedListEnd),
        ("x in (a,,)", 9, Kind::ExpectedListValue),
        ("x in (,, )", 9, Kind::ExpectedListValue),
        ("-a", 0, Kind::InvalidKey),
        ("a-", 1, Kind::InvalidKey),
        ("x,a.=b", 3, Kind::InvalidKey),
        ("a/b/c", 3, Kind::InvalidKey),
        ("b, a.b/", 7, Kind::InvalidKey),
        ("é", 0, Kind::InvalidKey),
        ("a\0", 1, Kind::InvalidKey),
        ("a\u{a0}=b", 1, Kind::InvalidKey),
        ("/a", 0, Kind::InvalidPrefix),
        ("A/a", 0, Kind::InvalidPrefix),
        ("a..b/a", 0, Kind::InvalidPrefix),
        ("a-.b/a", 0, Kind::InvalidPrefix),
        ("x,a_b/a", 2, Kind::InvalidPrefix),
        ("x=\"a\"", 2, Kind::InvalidValue),
        ("x=a/b", 3, Kind::InvalidValue),
        ("x=a-", 3, Kind::InvalidValue),
        ("x in (a, .b)", 9, Kind::InvalidValue),
        ("x in (a,bü)", 9, Kind::InvalidValue),
        ("x=aü", 3, Kind::InvalidValue),
    ];
    for (text, offset, kind) in table {
        let error = LabelSelector::parse(text).map(|_| text).unwrap_err();
        assert_eq!((error.offset, error.kind), (offset, kind), "{text:?}");
        let message = error.to_string();
        assert!(
            message.starts_with(&format!("invalid label selector, byte {offset}: ")),
            "{message}"
        );
        assert!(
            !message.contains('\n') && !message.contains("  "),
            "{message}"
        );
    }
    assert!(
        LabelSelector::parse("a=b,")
            .unwrap_err()
            .to_string()
            .contains("found the end")
    );
    assert!(
        LabelSelector::parse("a=b\n)")
            .unwrap_err()
            .to_string()
            .contains("byte 4: found ')'")
    );
}

#[test]
fn bounds_lengths() {
    let long = "a".repeat(63);
    let longer = "a".repeat(64);
    let prefix = format!("{long}.{long}.{long}.{}", "a".repeat(61));
    assert_eq!(prefix.len(), 253);
    parse(&format!("{prefix}/{long}={long}"));
    parse(&format!("{}/a", "a".repeat(253)));
    let refused = |text: String| {
        let error = LabelSelector::parse(&text).unwrap_err();
        (error.kind, error.offset)
    };
    assert_eq!(refused(format!("{longer}=a")), (Kind::KeyTooLong, 63));
    assert_eq!(refused(format!("a.b/{longer}")), (Kind::KeyTooLong, 67));
    assert_eq!(refused(format!("a={longer}")), (Kind::ValueTooLong, 65));
    assert_eq!(
        refused(format!("a in (b, {longer})")),
        (Kind::ValueTooLong, 72)
    );
    assert_eq!(refused(format!("a{prefix}/a")), (Kind::InvalidPrefix, 0));
}

type Pairs = [(&'static str, &'static str)];

const MATCHES: [(&str, &Pairs, bool); 58] = [
    ("", &[], true),
    ("", &[("x", "y")], true),
    ("x=y", &[("x", "y")], true),
    ("x==y", &[("x", "y")], true),
    ("x=y", &[("x", "z")], false),
    ("x=y", &[], false),
    ("x=", &[("x", "")], true),
    ("x=", &[], false),
    ("x=y,z=w", &[("x", "y"), ("z", "w")], true),
    ("x=y,z=w", &[("x", "w"), ("z", "w")], false),
    ("x=y,z=w", &[("x", "y")], false),
    ("x!=y", &[], true),
    ("x!=y", &[("x", "z")], true),
    ("x!=y", &[("x", "y")], false),
    ("x!=", &[], true),
    ("x!=", &[("x", "")], false),
    ("x!=y,z!=w", &[("x", "z"), ("z", "a")], true),
    ("x!=y,z!=w", &[("x", "z"), ("z", "w")], false),
    ("notin=in", &[("notin", "in")], true),
    ("x", &[("x", "z")], true),
    ("x", &[("x", "")], true),
    ("x", &[("y", "z")], false),
    ("!x", &[("y", "z")], true),
    ("!x", &[("x", "")], false),
    ("x in (a,b)", &[("x", "b")], true),
    ("x in (b,a)", &[("x", "a")], true),
    ("x in (a, b)", &[("x", "b")], true),
    ("x in (a,b)", &[("x", "c")], false),
    ("x in (a,b)", &[("x", "a,b")], false),
    ("x in (a,b)", &[("x", "")], false),
    ("x in (a,b)", &[], false),
    ("x in (a,)", &[("x", "")], true),
    ("x in ()", &[("x", "")], true),
    ("x in ()", &[], false),
    ("x notin (a,b)", &[], true),
    ("x notin (a,b)", &[("x", "c")], true),
    ("x notin (a,b)", &[("x", "b")], false),
    ("x notin (,b)", &[("x", "")], false),
    ("x notin (),y", &[("y", "")], true),
    ("x notin (),!y", &[("y", "")], false),
    ("x>1", &[("x", "2")], true),
    ("x>1", &[("x", "1")], false),
    ("x>1", &[("x", "0")], false),
    ("x>1", &[("x", "v2")], false),
    ("x>1", &[("x", "")], false),
    ("x>1", &[("x", "2.5")], false),
    ("x>1", &[("x", " 2")], false),
    ("x>1", &[], false),
    ("x>1", &[("x", "9223372036854775808")], false),
    ("x>1", &[("x", "10")], true),
    ("x>01", &[("x", "+2")], true),
    ("x<1", &[("x", "0")], true),
    ("x<1", &[("x", "-1")], true),
    ("x<1", &[("x", "1")], false),
    ("x<1", &[("x", "none")], false),
    ("x<1", &[], false),
    ("x>1,x<5", &[("x", "3")], true),
    ("x>1,x<5", &[("x", "5")], false),
];

#[test]
fn matches_as_client_go_does() {
    for (text, labels, expected) in MATCHES {
        let map: BTreeMap<String, String> = labels
            .iter()
            .map(|&(key, value)| (key.to_string(), value.to_string()))
            .collect();
        assert_eq!(parse(text).matches(labels), expected, "{text:?} {labels:?}");
        assert_eq!(parse(text).matches(&map), expected, "{text:?} {labels:?}");
        assert!(LabelSelector::default().matches(labels));
        assert!(!LabelSelector::nothing().matches(&map));
    }
}

#[test]
fn labels_that_do_not_answer_are_absent() {
    struct Silent;
    impl Labels for Silent {
        fn label(&self, _: &str, _: &mut dyn FnMut(Option<&str>)) {}
    }
    assert!(parse("!x,x!=a,x notin (a)").matches(&Silent));
    assert!(!parse("x").matches(&Silent));
    assert!(parse("x=1").matches(&[("x", "1"), ("x", "2")]));
}

fn arbitrary_text(rng: &mut Rng) -> String {
    let pieces = 0..rng.below(14);
    pieces
        .map(|_| {
            let index = usize::try_from(rng.below(PIECES.len() as u64)).unwrap_or_default();
            PIECES[index]
        })
        .collect()
}

#[cfg(not(miri))]
const ROUNDS: usize = 200_000;
#[cfg(miri)]
const ROUNDS: usize = 300;

const PIECES: [&str; 24] = [
    "a",
    "b",
    "in",
    "notin",
    " in ",
    " notin (",
    "(",
    ")",
    ",",
    "=",
    "!",
    "<",
    ">",
    " ",
    "\t",
    "1",
    "-",
    "/",
    ".",
    "é",
    "\0",
    "\u{10ffff}",
    "x=a,",
    "x in (a,b)",
];

#[test]
fn survives_arbitrary_text() {
    let mut rng = Rng::new(0x9e37_79b9_7f4a_7c15);
    let mut accepted = 0;
    for _ in 0..ROUNDS {
        let text = arbitrary_text(&mut rng);
        match LabelSelector::parse(&text) {
            Ok(selector) => {
                accepted += 1;
                // Every accepted text can be iterated to its end, and each part is valid.
                let requirements = requirements(&text).unwrap();
                let commas = requirements.into_iter().map(|requirement| {
                    check_key(requirement.key).unwrap();
                    let values = requirement.values().map(|value| {
                        check_value(requirement.operator, value).unwrap();
                    });
                    values.count().max(1)
                });
                assert_eq!(
                    commas.sum::<usize>(),
                    text.matches(',').count() + usize::from(!text.trim().is_empty())
                );
                let shown = selector.to_string();
                assert_eq!(shown.parse().as_ref(), Ok(&selector), "{text:?} {shown:?}");
            }
            Err(error) => {
                assert!(text.is_char_boundary(error.offset), "{text:?}");
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(accepted > ROUNDS / 50, "{accepted}");
}

#[test]
fn writes_the_form_of_client_go() {
    let canonical = |text| parse(text).to_string();
    let table = [
        ("", ""),
        (" x = a , a = x ", "a=x,x=a"),
        ("x==a", "x==a"),
        (
            "z,y notin (jkl),x in (def,abc,def)",
            "x in (abc,def),y notin (jkl),z",
        ),
        ("!z,y!=jkl,x notin(abc,def)", "x notin (abc,def),y!=jkl,!z"),
        ("z notin ()", "z notin ()"),
        ("z in (,)", "z in ()"),
        ("z in (b,,a)", "z in (,a,b)"),
        ("z!=a,z", "z!=a,z"),
        ("z,z!=a", "z,z!=a"),
        ("y<8,x>2,z=", "x>2,y<8,z="),
        ("!in,notin in (notin)", "!in,notin in (notin)"),
    ];
    for (text, expected) in table {
        assert_eq!(canonical(text), expected, "{text:?}");
        assert_eq!(canonical(expected), expected);
    }
}

#[test]
fn nothing_is_not_everything() {
    let nothing = LabelSelector::nothing();
    assert!(!nothing.is_everything());
    assert!(nothing.to_string().parse::<LabelSelector>().is_err());
    assert!(LabelSelector::default().is_everything());
}
