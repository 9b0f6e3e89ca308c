//! Elections among replicas that are killed, cut off and paused, with an API server that loses answers.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::rng::Rng;

fn at(seconds: u64) -> Instant {
    Instant::from_micros(seconds * 1_000_000)
}

fn elector(name: &str) -> Elector {
    Elector::new(name, ElectionConfig::default())
}

/// The one Lease that there is.
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
            ElectionStep::Create(record) => (record, None),
            ElectionStep::Update {
                record,
                resource_version,
                ..
            } => (record, Some(resource_version.clone())),
            ElectionStep::Read | ElectionStep::Wait(_) => return Written::Failed,
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

    /// Does all that a replica wants, at once.
    fn serve(&mut self, now: Instant, elector: &mut Elector) {
        loop {
            match elector.poll(now) {
                ElectionStep::Wait(_) => return,
                ElectionStep::Read => elector.handle_read(now, self.read()),
                write @ (ElectionStep::Create(_) | ElectionStep::Update { .. }) => {
                    let written = self.write(now, &write);
                    elector.handle_written(now, written);
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
    // It comes back and believes nothing that it knew.
    assert!(!a.is_leader(at(100)));
    api.serve(at(100), &mut a);
    assert!(!a.is_leader(at(100)));
}

#[test]
fn a_leader_that_cannot_renew_has_stopped_before_another_starts() {
    let mut api = Api::default();
    let (mut a, mut b) = (elector("a"), elector("b"));
    api.serve(at(0), &mut a);
    api.serve(at(0), &mut b);
    let mut led = Vec::new();
    for second in 1..40 {
        // Every answer for a is lost, though some of its writes arrive.
        let step = a.poll(at(second));
        match step {
            ElectionStep::Read => a.handle_read_failed(at(second)),
            ElectionStep::Create(_) | ElectionStep::Update { .. } => {
                a.handle_written(at(second), Written::Failed);
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

/// One renewal that comes to nothing does not end a leadership: the next one is in time.
#[test]
fn a_renewal_that_fails_for_once_is_made_up_for() {
    for arrives in [false, true] {
        let mut api = Api::default();
        let mut a = elector("a");
        api.serve(at(0), &mut a);
        let write = a.poll(at(2));
        assert!(matches!(write, ElectionStep::Update { .. }), "{write:?}");
        if arrives {
            api.write(at(2), &write);
        }
        a.handle_written(at(3), Written::Failed);
        for second in 3..60 {
            api.serve(at(second), &mut a);
            assert!(a.is_leader(at(second)), "{second}");
        }
    }
}

/// It thinks that it leads, and reads that another one does.
#[test]
fn who_reads_that_another_holds_the_lease_leads_no_more() {
    let mut api = Api::default();
    let mut a = elector("a");
    api.serve(at(0), &mut a);
    assert!(matches!(a.poll(at(2)), ElectionStep::Update { .. }));
    a.handle_written(at(2), Written::Failed);
    let record = LeaseRecord {
        holder: "b".into(),
        duration_seconds: 15,
        ..LeaseRecord::default()
    };
    api.lease = Some((record, 77));
    assert!(a.is_leader(at(3)));
    api.serve(at(4), &mut a);
    assert!(!a.is_leader(at(4)));
    assert_eq!(a.holder(), Some("b"));
}

/// What cannot be given up is left, and nobody asks for ever.
#[test]
fn giving_up_comes_to_an_end() {
    let mut api = Api::default();
    let mut a = elector("a");
    api.serve(at(0), &mut a);
    assert!(matches!(a.poll(at(2)), ElectionStep::Update { .. }));
    a.handle_written(at(2), Written::Failed);
    a.release();
    assert_eq!(a.poll(at(2)), ElectionStep::Read);
    let mut other = a.clone();
    a.handle_read_failed(at(3));
    assert!(a.is_released());
    other.handle_read(at(3), api.read());
    api.serve(at(3), &mut other);
    assert!(other.is_released());
    assert_eq!(
        api.lease.map(|(record, _)| record.holder).as_deref(),
        Some("")
    );
}

#[test]
fn what_is_given_up_is_taken_at_once() {
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
    // Who does not lead has nothing to give up.
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
    assert_eq!(a.poll(at(0)), ElectionStep::Read);
    a.handle_read(at(0), None);
    let create = a.poll(at(0));
    assert!(matches!(api.write(at(0), &create), Written::Done(_)));
    a.handle_written(at(1), Written::Failed);
    assert!(!a.is_leader(at(1)));
    api.serve(at(3), &mut a);
    assert!(a.is_leader(at(3)));
    assert_eq!(
        api.lease.as_ref().map(|(record, _)| record.transitions),
        Some(0),
        "it was its own"
    );
    // A watch that shows another one ends it at once.
    let record = LeaseRecord {
        holder: "b".to_string(),
        duration_seconds: 15,
        ..Default::default()
    };
    a.handle_seen(at(4), record, "9".to_string());
    assert!(!a.is_leader(at(4)));
}

/// Three replicas under everything at once. Each has a clock of its own, that runs up to 5 % fast or slow.
#[test]
fn never_two_lead_and_when_all_is_well_one_does() {
    for seed in 0..crate::rounds(300) {
        let mut rng = Rng::new(seed);
        let mut api = Api::default();
        let mut replicas: Vec<Elector> = ["a", "b", "c"].map(elector).into();
        let speeds = [0; 3].map(|_| 950 + rng.below(101));
        // What is on its way: it arrives, or is answered, later or never.
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
                    ElectionStep::Read => Reply::Read(api.read()),
                    write @ (ElectionStep::Create(_)
                    | ElectionStep::Update { .. }
                    | ElectionStep::Wait(_)) => Reply::Written(api.write(now, write)),
                };
                count += 1;
                let reply = if lost {
                    Reply::Lost(matches!(step, ElectionStep::Read))
                } else {
                    reply
                };
                answers.insert((later(&mut rng), count), (index, life, reply));
            }
            while let Some(entry) = answers.first_entry().filter(|entry| entry.key().0 <= tick) {
                let (index, life, reply) = entry.remove();
                if life != lives[index] {
                    continue;
                }
                let (now, replica) = (clock(index), &mut replicas[index]);
                match reply {
                    Reply::Read(lease) => replica.handle_read(now, lease),
                    Reply::Written(written) => replica.handle_written(now, written),
                    Reply::Lost(true) => replica.handle_read_failed(now),
                    Reply::Lost(false) => replica.handle_written(now, Written::Failed),
                }
            }
            for index in 0..3 {
                if faulty && rng.below(200) == 0 {
                    // Killed; a new one has a new name, as a Pod has.
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
    Read(Option<(LeaseRecord, String)>),
    Written(Written),
    /// Whether it was a read.
    Lost(bool),
}
