//! Media that change stored bytes.

use super::*;

/// The number of objects per version.
const STEP: usize = 100;

/// Returns a journal of about 250 KB, and the end of each version.
fn journal() -> (Vec<u8>, Vec<usize>) {
    let (mut log, _) = load::<Keys>(Memory::default());
    let mut ends = alloc::vec![0];
    for number in 1..=2000 {
        let key = alloc::format!("prod/web-{number}");
        log.append(put(&key, &[b'x'; 100])).unwrap();
        if number % STEP == 0 {
            let version = number.to_string();
            log.append(Record::Version(Reached::new(&version))).unwrap();
            ends.push(log.medium().areas[0].len());
        }
    }
    (log.into_medium().areas[0].clone(), ends)
}

/// The restored state is that of a version before the damage, and all dropped records are counted.
fn is_counted<I: Index>() {
    const KB_100: usize = 100 << 10;
    type Damage = fn(&mut Vec<u8>);
    let (whole, ends) = journal();
    let cases: [(&str, Damage, Option<Loss>); 14] = [
        ("nothing", |_| (), None),
        ("empty", Vec::clear, None),
        (
            "overwritten at the start",
            |bytes| bytes[..KB_100].fill(0xa5),
            Some(Loss::NoJournal),
        ),
        (
            "overwritten after the head",
            |bytes| bytes[HEAD_END..HEAD_END + KB_100].fill(0xa5),
            Some(Loss::Damaged),
        ),
        (
            "overwritten in the middle",
            |bytes| bytes[99_999..99_999 + KB_100].fill(0),
            Some(Loss::Damaged),
        ),
        (
            "overwritten at the end",
            |bytes| {
                let at = bytes.len() - KB_100;
                bytes[at..].fill(0xa5);
            },
            Some(Loss::Damaged),
        ),
        (
            "truncated within the head",
            |bytes| bytes.truncate(30),
            Some(Loss::Damaged),
        ),
        (
            "truncated after the head",
            |bytes| bytes.truncate(HEAD_END + 1),
            Some(Loss::Damaged),
        ),
        (
            "truncated in the middle",
            |bytes| bytes.truncate(bytes.len() / 2),
            Some(Loss::Damaged),
        ),
        (
            "truncated by a byte",
            |bytes| bytes.truncate(bytes.len() - 1),
            Some(Loss::Damaged),
        ),
        ("garbage", |bytes| bytes.fill(0xa5), Some(Loss::NoJournal)),
        (
            "garbage after it",
            |bytes| bytes.extend([0xa5; 1000]),
            Some(Loss::Damaged),
        ),
        ("a wrong head", |bytes| bytes[20] ^= 1, Some(Loss::Damaged)),
        (
            "another format",
            |bytes| bytes[15] = 2,
            Some(Loss::Format(2)),
        ),
    ];
    for (what, damage, why) in cases {
        let mut medium = Memory::default();
        medium.areas[0].clone_from(&whole);
        damage(&mut medium.areas[0]);
        let left = medium.areas[0].len();
        let (mut log, found, lost) = load_and_lose::<I>(medium);
        let (objects, version) = found.unwrap_or_default();
        let restored: usize = version.parse().unwrap_or(0);
        assert_eq!(objects.len(), restored, "{what}: {version}");
        let kept = ends[restored / STEP];
        let reasons: Vec<_> = lost.iter().map(|lost| lost.why).collect();
        assert_eq!(reasons, Vec::from_iter(why), "{what}");
        let dropped: u64 = lost.iter().map(|lost| lost.bytes).sum();
        assert_eq!(dropped as usize, left - kept, "{what}: {lost:?}");

        // The next list repairs it.
        log.restart().unwrap();
        log.append(put("a", b"1")).unwrap();
        log.append(Record::Version(Reached::new("9999"))).unwrap();
        let (_, found, lost) = load_and_lose::<I>(log.into_medium());
        assert_eq!(
            found.map(|(_, version)| version).as_deref(),
            Some("9999"),
            "{what}"
        );
        if I::KEEPS {
            assert_eq!(lost, [], "{what}");
        }
    }
}

#[test]
fn each_damage_is_counted_with_its_reason() {
    is_counted::<Keys>();
    is_counted::<Scanned>();
}

#[test]
fn unfinished_records_are_counted() {
    let (mut log, _) = load::<Keys>(Memory::default());
    log.append(put("a", b"1")).unwrap();
    log.append(Record::Version(Reached::new("1"))).unwrap();
    log.append(put("b", b"2")).unwrap();
    log.append(Record::Delete { key: "a" }).unwrap();
    let (_, found, lost) = load_and_lose::<Keys>(log.into_medium());
    assert_eq!(found.unwrap().1, "1");
    assert_eq!(lost, [LostRecords::new(Loss::Unfinished, 2, 27)]);
}
