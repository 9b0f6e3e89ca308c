use alloc::string::{String, ToString};
use alloc::vec;

use super::*;

fn note(listeners: &mut Listeners<String, u32>, text: &str) {
    // "+a1" adds a at 1, "~a1>2" updates it, "=a2" replays it, "-a2" deletes it.
    let key = text[1..2].to_string();
    let number = |s: &str| s.parse::<u32>().unwrap();
    let notification = match &text[..1] {
        "+" => Notification::Added {
            entry: (&key, &number(&text[2..])),
            is_in_initial_list: false,
        },
        "~" => {
            let (old, new) = text[2..].split_once('>').unwrap();
            let (old, new) = (number(old), number(new));
            return listeners.append(Notification::Updated {
                old: (&key, &old),
                new: (&key, &new),
            });
        }
        "=" => Notification::Replayed {
            entry: (&key, &number(&text[2..])),
            pass: None,
        },
        "-" => Notification::Deleted {
            entry: (&key, &number(&text[2..])),
            final_state_unknown: false,
        },
        _ => Notification::Synced,
    };
    listeners.append(notification);
}

fn show(event: &Notification<(String, u32)>) -> String {
    match event {
        Notification::Added {
            entry: (key, object),
            ..
        } => alloc::format!("+{key}{object}"),
        Notification::Updated {
            old: (_, old),
            new: (key, object),
        } => alloc::format!("~{key}{old}>{object}"),
        Notification::Replayed {
            entry: (key, object),
            ..
        } => alloc::format!("={key}{object}"),
        Notification::Deleted {
            entry: (key, object),
            ..
        } => alloc::format!("-{key}{object}"),
        Notification::Synced => "synced".to_string(),
    }
}

fn drain(listeners: &mut Listeners<String, u32>, id: ListenerId) -> String {
    let mut events = vec![];
    while listeners.take(id, 3, &mut events) {}
    events.iter().map(show).collect::<Vec<_>>().join(" ")
}

fn backlog(backlog: usize) -> ListenerConfig {
    ListenerConfig {
        backlog,
        ..ListenerConfig::default()
    }
}

fn period(seconds: u64) -> ListenerConfig {
    ListenerConfig {
        resync: Some(Duration::from_secs(seconds)),
        ..ListenerConfig::default()
    }
}

#[test]
fn coalescing_follows_its_table() {
    for (words, expected) in [
        ("~a1>2 ~a2>3", "~a1>3"),
        ("+a1 ~a1>2 ~a2>3", "+a3"),
        ("+a1 -a1", ""),
        ("+a1 ~a1>2 -a2 +b1", "+b1"),
        ("~a1>2 -a2", "-a2"),
        ("-a1 +a2", "-a1 +a2"),
        ("-a1 +a2 ~a2>3", "-a1 +a3"),
        ("-a1 +a2 -a2", "-a1"),
        ("-a1 +a2 -a2 +a3", "-a1 +a3"),
        ("=a1 =a1", "=a1"),
        ("=a1 ~a1>2", "~a1>2"),
        ("~a1>2 =a2", "~a1>2"),
        ("=a1 -a1", "-a1"),
        ("+a1 +b1 ~a1>2 ?? ~b1>2", "+a2 +b2 synced"),
    ] {
        let mut listeners = Listeners::default();
        let config = ListenerConfig {
            unchanged: true,
            ..backlog(0)
        };
        let id = listeners.join(config, [], false);
        for word in words.split(' ') {
            note(&mut listeners, word);
            listeners.coalesce();
        }
        assert_eq!(drain(&mut listeners, id), expected, "{words}");
        assert_eq!(listeners.pending(id), 0, "{words}");
    }
}

/// Each state that no event shows is passed on, so that nobody who has seen it in the cache is forgotten.
#[test]
fn states_that_are_not_notified_are_passed_on() {
    for (words, expected) in [
        ("~a1>2 ~a2>3", "2"),
        ("~a1>2 ~a2>3 ~a3>4", "2 3"),
        ("+a1 ~a1>2 ~a2>3", "1 2"),
        ("+a1 -a1", "1 1"),
        ("+a1 ~a1>2 -a3", "1 2 3"),
        ("~a1>2 -a3", "2 1"),
        ("-a1 +a2", ""),
        ("-a1 +a2 -a3", "2 3"),
        ("=a1 ~a1>2", ""),
        ("~a1>2 =a2", ""),
        ("=a1 -a1", ""),
    ] {
        let mut listeners = Listeners::default();
        let id = listeners.join(
            ListenerConfig {
                unchanged: true,
                ..backlog(0)
            },
            [],
            false,
        );
        let mut lost = Vec::new();
        for word in words.split(' ') {
            note(&mut listeners, word);
            listeners.coalesce_with(&mut |of, key, object| {
                assert_eq!((of, key.as_str()), (id, "a"));
                lost.push(object.to_string());
            });
        }
        assert_eq!(lost.join(" "), expected, "{words}");
    }
}

#[test]
fn within_its_limit_a_listener_misses_nothing() {
    let mut listeners = Listeners::default();
    let id = listeners.join(backlog(4), [], false);
    for word in ["+a1", "~a1>2", "~a2>3", "-a3"] {
        note(&mut listeners, word);
        listeners.coalesce();
    }
    assert_eq!(drain(&mut listeners, id), "+a1 ~a1>2 ~a2>3 -a3");
}

#[test]
fn a_slow_listener_holds_back_nobody_and_keeps_no_log() {
    let mut listeners = Listeners::default();
    let slow = listeners.join(backlog(10), [], false);
    let fast = listeners.join(ListenerConfig::default(), [], false);
    note(&mut listeners, "+a0");
    for i in 0..1000 {
        note(&mut listeners, &alloc::format!("~a{i}>{}", i + 1));
        listeners.coalesce();
        let mut events = vec![];
        listeners.take(fast, 100, &mut events);
        assert_eq!(events.len(), if i == 0 { 2 } else { 1 });
        assert!(listeners.log.len() <= 11);
    }
    assert!(listeners.merged(slow) >= 990 && listeners.merged(fast) == 0);
    assert_eq!(
        drain(&mut listeners, slow).split(' ').next(),
        Some("+a1000")
    );
}

#[test]
fn a_late_listener_first_gets_the_cached_objects() {
    let mut listeners = Listeners::default();
    note(&mut listeners, "+x9");
    let id = listeners.join(
        ListenerConfig::default(),
        [("a".to_string(), 1), ("b".to_string(), 2)],
        true,
    );
    note(&mut listeners, "~a1>3");
    assert_eq!(listeners.pending(id), 4);
    assert_eq!(drain(&mut listeners, id), "+a1 +b2 synced ~a1>3");
    assert_eq!(listeners.leave(id), 0);
    assert_eq!(listeners.leave(id), 0);
}

#[test]
fn a_resync_reaches_those_that_are_due() {
    let at = |s: u64| Instant::from_micros(s * 1_000_000);
    let mut listeners = Listeners::default();
    let never = listeners.join(ListenerConfig::default(), [], false);
    let two = listeners.join(period(2), [], false);
    let three = listeners.join(period(3), [], false);
    assert_eq!(listeners.next_resync(at(0)), Some(at(2)));
    let mut passes = vec![];
    for (pass, second) in (1..=7).enumerate() {
        let pass = u32::try_from(pass).unwrap();
        if listeners.begin_pass(at(second), pass) {
            listeners.append(Notification::Replayed {
                entry: (&"a".to_string(), &1),
                pass: Some(pass),
            });
        }
        for (name, id) in [("never", never), ("two", two), ("three", three)] {
            if !drain(&mut listeners, id).is_empty() {
                passes.push(alloc::format!("{name}@{second}"));
            }
        }
    }
    assert_eq!(passes, ["two@2", "three@3", "two@4", "two@6", "three@6"]);
}

/// A listener with an unlimited backlog gets every pass in which it was due, however late it reads.
#[test]
fn a_slow_listener_gets_all_passes() {
    let at = |s: u64| Instant::from_micros(s * 1_000_000);
    let mut listeners = Listeners::default();
    let unlimited = ListenerConfig {
        backlog: usize::MAX,
        ..period(1)
    };
    let id = listeners.join(unlimited, [], false);
    let fast = listeners.join(period(1), [], false);
    listeners.next_resync(at(0));
    let mut heard = 0;
    for pass in 1..=100 {
        assert!(listeners.begin_pass(at(pass.into()), pass));
        // A pass over an empty cache notifies no listener.
        for _ in 0..pass % 3 {
            listeners.append(Notification::Replayed {
                entry: (&"a".to_string(), &pass),
                pass: Some(pass),
            });
        }
        heard += drain(&mut listeners, fast).matches('=').count();
        assert!(listeners.listeners[&fast].passes.0.len() <= 3);
    }
    assert_eq!(heard, 100);
    let mut events = vec![];
    while listeners.take(id, 3, &mut events) {}
    let passes: Vec<u32> = events
        .iter()
        .filter_map(|event| match event {
            Notification::Replayed {
                entry: (_, object), ..
            } => Some(*object),
            Notification::Added { .. }
            | Notification::Updated { .. }
            | Notification::Deleted { .. }
            | Notification::Synced => None,
        })
        .collect();
    let expected: Vec<u32> = (1..=100)
        .flat_map(|pass| vec![pass; pass as usize % 3])
        .collect();
    assert_eq!(passes, expected);

    // A pass without pending entries takes no memory, whether or not the listener reads.
    for pass in 101..1000 {
        listeners.begin_pass(at(pass.into()), pass);
    }
    assert!(listeners.listeners[&id].passes.0.len() <= 3);
}
