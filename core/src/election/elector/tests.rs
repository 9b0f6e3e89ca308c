//! Elections among replicas that are killed, cut off and paused, with an API server that loses responses.
#![allow(clippy::unwrap_used, reason = "a test may")]

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::time::Rng;

fn at(seconds: u64) -> Instant {
    Instant::from_micros(seconds * 1_000_000)
}

fn elector(name: &str) -> Elector {
    Elector::new(name, ElectionConfig::default()).unwrap()
}

/// The id of a step's request.
fn id(step: &ElectionStep) -> RequestId {
    match step {
        ElectionStep::Read(id)
        | ElectionStep::Create { id, .. }
        | ElectionStep::Update { id, .. } => *id,
        ElectionStep::Wait(until) => panic!("it waits until {until:?}"),
    }
}

/// Begins the due renewal.
fn renew(elector: &mut Elector, now: Instant) -> ElectionStep {
    let step = elector.poll(now);
    assert!(matches!(step, ElectionStep::Update { .. }), "{step:?}");
    step
}

fn held_by(holder: &str) -> LeaseRecord {
    LeaseRecord {
        holder: holder.into(),
        duration_seconds: 15,
        ..LeaseRecord::default()
    }
}

/// The only Lease.
#[derive(Default)]
struct Api {
    lease: Option<(LeaseRecord, u64)>,
    version: u64,
}

impl Api {
    fn read(&self) -> Option<(LeaseRecord, String)> {
        let (record, version) = self.lease.clone()?;
        Some((record, version.to_string()))
    }

    fn write(&mut self, now: Instant, step: &ElectionStep) -> Written {
        let (record, expected) = match step {
            ElectionStep::Create { record, .. } => (record, None),
            ElectionStep::Update {
                record,
                resource_version,
                ..
            } => (record, Some(resource_version.clone())),
            ElectionStep::Read(_) | ElectionStep::Wait(_) => return Written::Failed,
        };
        if self.lease.as_ref().map(|(_, version)| version.to_string()) != expected {
            return Written::Conflict;
        }
        self.version += 1;
        let renewed = format!("{now:?}");
        self.lease = Some((
            LeaseRecord {
                renewed,
                ..record.clone()
            },
            self.version,
        ));
        Written::Done(self.version.to_string())
    }

    /// Performs all steps of a replica at once.
    fn serve(&mut self, now: Instant, elector: &mut Elector) {
        loop {
            match elector.poll(now) {
                ElectionStep::Wait(_) => return,
                ElectionStep::Read(id) => elector.handle_read(now, id, self.read()),
                write @ (ElectionStep::Create { .. } | ElectionStep::Update { .. }) => {
                    let written = self.write(now, &write);
                    elector.handle_written(now, id(&write), written);
                }
            }
        }
    }
}

#[test]
fn the_first_one_leads_and_the_next_follows_when_it_is_silent() {
    let mut api = Api::default();
    let (mut a, mut b) = (elector("a"), elector("b"));
    for second in 0..60 {
        api.serve(at(second), &mut a);
        api.serve(at(second), &mut b);
        assert!(a.is_leader(at(second)) && !b.is_leader(at(second)));
    }
    assert_eq!((a.holder(), b.holder()), (Some("a"), Some("a")));
    // a dies at 60. b saw its last renewal, of 58, at 58 or 59.
    let leads = (60..100).find(|second| {
        api.serve(at(*second), &mut b);
        b.is_leader(at(*second))
    });
    assert!((73..=77).contains(&leads.unwrap_or(0)), "{leads:?}");
    assert_eq!(
        api.lease.as_ref().map(|(record, _)| record.transitions),
        Some(1)
    );
    // It comes back, and does not trust its earlier state.
    assert!(!a.is_leader(at(100)));
    api.serve(at(100), &mut a);
    assert!(!a.is_leader(at(100)));
}

/// Another client writes labels or annotations of the Lease more often than it expires.
#[test]
fn a_write_by_another_client_does_not_extend_the_lease_of_a_dead_leader() {
    let mut api = Api::default();
    let (mut a, mut b) = (elector("a"), elector("b"));
    api.serve(at(0), &mut a);
    let leads = (0..100).find(|second| {
        api.version += 1;
        if let Some((_, version)) = &mut api.lease {
            *version = api.version;
        }
        api.serve(at(*second), &mut b);
        b.is_leader(at(*second))
    });
    assert_eq!(leads, Some(16), "a renewed at 0, and b reads every 2 s");
}

/// A client that passes on no `renewTime`.
#[test]
fn without_the_time_of_a_renewal_its_version_counts() {
    let mut b = elector("b");
    for second in (0..60).step_by(2) {
        let read = id(&b.poll(at(second)));
        b.handle_read(at(second), read, Some((held_by("a"), second.to_string())));
        assert!(matches!(b.poll(at(second)), ElectionStep::Wait(_)));
    }
}

#[test]
fn a_leader_that_cannot_renew_has_stopped_before_another_starts() {
    let mut api = Api::default();
    let (mut a, mut b) = (elector("a"), elector("b"));
    api.serve(at(0), &mut a);
    api.serve(at(0), &mut b);
    let mut led = Vec::new();
    for second in 1..40 {
        // Every response to a is lost, although some of its writes arrive.
        let step = a.poll(at(second));
        match step {
            ElectionStep::Read(id) => a.handle_read_failed(at(second), id),
            ElectionStep::Create { id, .. } | ElectionStep::Update { id, .. } => {
                a.handle_written(at(second), id, Written::Failed);
            }
            ElectionStep::Wait(_) => {}
        }
        api.serve(at(second), &mut b);
        assert!(!(a.is_leader(at(second)) && b.is_leader(at(second))));
        led.push((a.is_leader(at(second)), b.is_leader(at(second))));
    }
    assert_eq!(
        led.iter().filter(|(a, _)| *a).count(),
        9,
        "until 10 s after its renewal"
    );
    assert!(led.iter().any(|(_, b)| *b));
}

/// One failed renewal does not end a leadership if the next one is in time.
#[test]
fn a_renewal_that_fails_for_once_is_made_up_for() {
    for arrives in [false, true] {
        let mut api = Api::default();
        let mut a = elector("a");
        api.serve(at(0), &mut a);
        let write = renew(&mut a, at(2));
        if arrives {
            api.write(at(2), &write);
        }
        a.handle_written(at(3), id(&write), Written::Failed);
        for second in 3..60 {
            api.serve(at(second), &mut a);
            assert!(a.is_leader(at(second)), "{second}");
        }
    }
}

/// It believes that it leads, and reads that another replica does.
#[test]
fn a_leader_that_reads_another_holder_stops_leading() {
    let mut api = Api::default();
    let mut a = elector("a");
    api.serve(at(0), &mut a);
    let write = renew(&mut a, at(2));
    a.handle_written(at(2), id(&write), Written::Failed);
    api.lease = Some((held_by("b"), 77));
    assert!(a.is_leader(at(3)));
    api.serve(at(4), &mut a);
    assert!(!a.is_leader(at(4)));
    assert_eq!(a.holder(), Some("b"));
}

/// A Lease that cannot be released is left alone, and the attempts end.
#[test]
fn giving_up_comes_to_an_end() {
    let mut api = Api::default();
    let mut a = elector("a");
    api.serve(at(0), &mut a);
    let write = renew(&mut a, at(2));
    a.handle_written(at(2), id(&write), Written::Failed);
    a.release();
    let read = id(&a.poll(at(2)));
    let (mut other, mut gone) = (a.clone(), a.clone());
    a.handle_read_failed(at(3), read);
    assert!(a.is_released());
    // Nothing is created only to be released.
    gone.handle_read(at(3), read, None);
    assert!(matches!(gone.poll(at(3)), ElectionStep::Wait(_)) && gone.is_released());
    other.handle_read(at(3), read, api.read());
    api.serve(at(3), &mut other);
    assert!(other.is_released());
    assert_eq!(
        api.lease.map(|(record, _)| record.holder).as_deref(),
        Some("")
    );
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let mut api = Api::default();
    let (mut a, mut b) = (elector("a"), elector("b"));
    api.serve(at(0), &mut a);
    api.serve(at(1), &mut b);
    a.release();
    assert!(!a.is_leader(at(1)) && !a.is_released());
    api.serve(at(1), &mut a);
    assert!(a.is_released());
    api.serve(at(3), &mut b);
    assert!(b.is_leader(at(3)));
    assert_eq!(
        a.poll(at(50)),
        ElectionStep::Wait(at(52)),
        "it takes no part any more"
    );
    // A replica that does not lead has nothing to release.
    let mut c = elector("c");
    c.release();
    api.serve(at(60), &mut c);
    assert!(c.is_released());
    assert_eq!(
        api.lease.as_ref().map(|(record, _)| record.holder.as_str()),
        Some("b")
    );
}

#[test]
fn a_write_that_was_lost_on_the_way_back_is_found_by_reading() {
    let mut api = Api::default();
    let mut a = elector("a");
    let read = id(&a.poll(at(0)));
    a.handle_read(at(0), read, None);
    let create = a.poll(at(0));
    assert!(matches!(api.write(at(0), &create), Written::Done(_)));
    a.handle_written(at(1), id(&create), Written::Failed);
    assert!(!a.is_leader(at(1)));
    api.serve(at(3), &mut a);
    assert!(a.is_leader(at(3)));
    assert_eq!(
        api.lease.as_ref().map(|(record, _)| record.transitions),
        Some(0),
        "it was its own"
    );
}

/// A rejected renewal means that the Lease differs from what the leader expects. A read decides, if it shows a later
/// state.
#[test]
fn after_a_conflict_only_a_later_state_of_the_lease_confirms_a_leader() {
    // The result of the read, whether the replica then leads, and whether it leads after all immediate steps.
    let own = || held_by("a");
    for (what, lease, leads) in [
        (
            "touched by another client",
            Some((own(), "9")),
            [true, true],
        ),
        ("the refused version", Some((own(), "1")), [false, false]),
        (
            "taken by another",
            Some((held_by("b"), "9")),
            [false, false],
        ),
        ("given up", Some((held_by(""), "9")), [false, true]),
        ("deleted", None, [false, true]),
    ] {
        let mut api = Api::default();
        let mut a = elector("a");
        api.serve(at(0), &mut a);
        let write = renew(&mut a, at(2));
        a.handle_written(at(2), id(&write), Written::Conflict);
        assert!(!a.is_leader(at(2)), "{what}");
        assert_eq!(a.leads_until(), None, "{what}");
        let read = id(&a.poll(at(2)));
        api.lease = lease.map(|(record, version)| (record, version.parse().unwrap()));
        a.handle_read(at(2), read, api.read());
        assert_eq!(a.is_leader(at(2)), leads[0], "{what}");
        api.serve(at(2), &mut a);
        assert_eq!(a.is_leader(at(2)), leads[1], "{what}");
        if leads[0] {
            // A server that rejects everything does not receive requests without a pause.
            let write = renew(&mut a, at(4));
            a.handle_written(at(4), id(&write), Written::Conflict);
            let read = id(&a.poll(at(4)));
            a.handle_read(at(4), read, Some((own(), "12".into())));
            let write = renew(&mut a, at(4));
            a.handle_written(at(4), id(&write), Written::Conflict);
            assert_eq!(a.poll(at(4)), ElectionStep::Wait(at(6)), "{what}");
        }
    }
}

/// The write that failed was not lost, but slow.
#[test]
fn an_answer_to_an_earlier_request_counts_for_nothing() {
    let mut api = Api::default();
    let mut a = elector("a");
    api.serve(at(0), &mut a);
    let slow = renew(&mut a, at(2));
    a.handle_written(at(2), id(&slow), Written::Failed);
    let read = id(&a.poll(at(4)));
    let before = api.read();
    a.handle_read(at(4), read, before.clone());
    let late = api.write(at(4), &slow);
    assert_eq!(late, Written::Done("2".to_string()));
    let current = renew(&mut a, at(9));
    a.handle_written(at(9), id(&slow), late);
    a.handle_read(at(9), read, before);
    a.handle_read_failed(at(9), read);
    assert_eq!(
        a.leads_until(),
        Some(at(10)),
        "the write of 0 is the last that is known"
    );
    assert!(
        matches!(a.poll(at(9)), ElectionStep::Wait(_)),
        "its answer is awaited"
    );
    let written = api.write(at(9), &current);
    assert_eq!(
        written,
        Written::Conflict,
        "it was written from before the slow one"
    );
    a.handle_written(at(9), id(&current), written);
    assert!(!a.is_leader(at(9)));
    api.serve(at(9), &mut a);
    assert_eq!(a.leads_until(), Some(at(19)));
}

/// The Lease is deleted while the result of a renewal is unknown, so any replica may create it.
#[test]
fn a_leader_that_finds_no_lease_stops_leading() {
    let mut api = Api::default();
    let mut a = elector("a");
    api.serve(at(0), &mut a);
    let write = renew(&mut a, at(2));
    a.handle_written(at(2), id(&write), Written::Failed);
    let read = id(&a.poll(at(4)));
    a.handle_read(at(4), read, None);
    assert!(!a.is_leader(at(4)));
}

#[test]
fn values_that_allow_two_leaders_or_none_are_rejected() {
    // Lease, deadline and period in seconds, and the error.
    let cases = "\
15 10 2 |
1 0.999 0.001 |
2147483647 10 8.333 |
10 10 2 | renew_deadline (10s) must be shorter than lease_duration (10s)
5 10 2 | renew_deadline (10s) must be shorter than lease_duration (5s)
15 10 8.334 | longer than 1.2 times retry_period (8.334s)
15 12 10 | longer than 1.2 times retry_period (10s)
15 10 max | longer than 1.2 times retry_period
15 0 0.001 | longer than 1.2 times retry_period (1ms)
15 10 0.000999 | retry_period (999µs) must be at least 1ms
15 10 0 | retry_period (0ns)
0.0005 0.0004 0.0001 | lease_duration (500µs)
15.5 10 2 | lease_duration (15.5s) must be a whole number of seconds
0 0 0 | lease_duration (0ns)
2147483648 10 2 | from 1 to 2147483647
max max max | lease_duration";
    let cases = cases
        .lines()
        .map(|case| ("a", case.split_once('|').unwrap()));
    let nameless = ["", " \n"].map(|name| (name, ("15 10 2", "the identity is empty")));
    for (name, (times, wanted)) in cases.chain(nameless) {
        let mut times = times.split_whitespace().map(|time| match time {
            "max" => Duration::MAX,
            seconds => Duration::from_secs_f64(seconds.parse().unwrap()),
        });
        let config = ElectionConfig {
            lease_duration: times.next().unwrap(),
            renew_deadline: times.next().unwrap(),
            retry_period: times.next().unwrap(),
        };
        let wanted = wanted.trim();
        let error = Elector::new(name, config).map(drop).err();
        assert_eq!(
            crate::election::Members::new(name, config).map(drop).err(),
            error
        );
        let said = error.map(|error| error.to_string()).unwrap_or_default();
        let fits = if wanted.is_empty() {
            said.is_empty()
        } else {
            said.contains(wanted)
        };
        assert!(fits, "{config:?}: {said}");
        if error.is_none() {
            let mut a = Elector::new(name, config).unwrap();
            let read = id(&a.poll(at(0)));
            a.handle_read(at(0), read, None);
            let step = a.poll(at(0));
            let ElectionStep::Create { record, .. } = step else {
                panic!("{step:?}")
            };
            let seconds = config.lease_duration.as_secs();
            assert_eq!(u64::from(record.duration_seconds), seconds);
        }
    }
}

/// Three replicas under all failures at once. Each has a clock that runs up to 5 % fast or slow.
#[test]
fn never_two_lead_and_when_all_is_well_one_does() {
    for seed in 0..crate::rounds(300) {
        let mut rng = Rng::new(seed);
        let mut api = Api::default();
        let mut replicas: Vec<Elector> = ["a", "b", "c"].map(elector).into();
        let speeds = [0; 3].map(|_| 950 + rng.below(101));
        // Requests in progress. Each arrives, or is answered, later or never.
        let mut on_the_way: BTreeMap<(u64, u64), (usize, u32, ElectionStep)> = BTreeMap::new();
        let mut answers: BTreeMap<(u64, u64), (usize, u32, Reply)> = BTreeMap::new();
        let mut lives = [0_u32; 3];
        let mut dead_until = [0_u64; 3];
        let mut count = 0;
        let (steps, faults_end) = (2500, 1800);
        let mut leaders = 0;
        for tick in 0..steps {
            // A tenth of a second.
            let clock = |index: usize| Instant::from_micros(tick * 100 * speeds[index] + 1_000_000);
            let faulty = tick < faults_end;
            let later = |rng: &mut Rng| tick + if faulty { rng.below(60) } else { 0 };
            while let Some(entry) = on_the_way
                .first_entry()
                .filter(|entry| entry.key().0 <= tick)
            {
                let (index, life, step) = entry.remove();
                let lost = faulty && rng.below(10) == 0;
                let now = Instant::from_micros(tick * 100_000);
                let reply = match &step {
                    ElectionStep::Read(id) => Reply::Read(*id, api.read()),
                    write @ (ElectionStep::Create { .. }
                    | ElectionStep::Update { .. }
                    | ElectionStep::Wait(_)) => Reply::Written(id(write), api.write(now, write)),
                };
                count += 1;
                let reply = if lost { Reply::Lost(id(&step)) } else { reply };
                answers.insert((later(&mut rng), count), (index, life, reply));
            }
            while let Some(entry) = answers.first_entry().filter(|entry| entry.key().0 <= tick) {
                let (index, life, reply) = entry.remove();
                if life != lives[index] {
                    continue;
                }
                let (now, replica) = (clock(index), &mut replicas[index]);
                match reply {
                    Reply::Read(id, lease) => replica.handle_read(now, id, lease),
                    Reply::Written(id, written) => replica.handle_written(now, id, written),
                    Reply::Lost(id) => {
                        replica.handle_read_failed(now, id);
                        replica.handle_written(now, id, Written::Failed);
                    }
                }
            }
            for index in 0..3 {
                if faulty && rng.below(200) == 0 {
                    // It was killed. The new one has a new name, as a Pod has.
                    lives[index] += 1;
                    dead_until[index] = tick + rng.below(100);
                    replicas[index] = elector(&format!("{index}-{}", lives[index]));
                }
                if dead_until[index] > tick {
                    continue;
                }
                let step = replicas[index].poll(clock(index));
                if !matches!(step, ElectionStep::Wait(_)) {
                    count += 1;
                    on_the_way.insert((later(&mut rng), count), (index, lives[index], step));
                }
            }
            let leading: Vec<_> = (0..3)
                .filter(|index| {
                    dead_until[*index] <= tick && replicas[*index].is_leader(clock(*index))
                })
                .collect();
            assert!(leading.len() <= 1, "seed {seed}, tick {tick}: {leading:?}");
            leaders += leading.len();
            if tick > faults_end + 300 {
                assert_eq!(leading.len(), 1, "seed {seed}, tick {tick}: nobody leads");
            }
        }
        assert!(leaders > 0);
    }
}

enum Reply {
    Read(RequestId, Option<(LeaseRecord, String)>),
    Written(RequestId, Written),
    Lost(RequestId),
}
