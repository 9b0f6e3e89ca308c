//! Replicas on tokio that share keys. Requests for their Leases are slow, lost, or answered with an old state, and
//! replicas die.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_tokio::Key;
use informer_tokio::election::{
    ElectionConfig, LeaseClient, LeaseRecord, MembersClient, Replica, Written,
};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::super::entropy::Entropy;
use super::user::lock;
use super::{Verdict, Wrong, holds};

const KEYS: usize = 12;
/// One minute, checked every quarter of a second.
const LOOKS: u64 = 4 * 60;

/// The Leases, each with a version.
#[derive(Clone, Default)]
struct Leases(Arc<Mutex<BTreeMap<String, (LeaseRecord, u64)>>>);

/// A replica's connection to the Leases.
struct Api {
    leases: Leases,
    name: String,
    dice: Entropy<'static>,
}

struct Life {
    replica: Replica,
    work: JoinHandle<()>,
}

impl Api {
    /// Waits for a part of a request's latency, which is mostly short.
    async fn travel(&mut self) {
        let most = self.dice.pick(&[50, 50, 200, 14_000]);
        sleep(Duration::from_millis(u64::from(self.dice.below(most)))).await;
    }

    fn write(&self, record: &LeaseRecord, before: Option<u64>) -> Written {
        let mut leases = lock(&self.leases.0);
        if leases.get(&self.name).map(|(_, version)| *version) != before {
            return Written::Conflict;
        }
        let version = before.unwrap_or(0) + 1;
        let record = LeaseRecord {
            renewed: format!("{}-{version}", self.name),
            ..record.clone()
        };
        leases.insert(self.name.clone(), (record, version));
        Written::Done(version.to_string())
    }
}

impl LeaseClient for Api {
    type Error = &'static str;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, Self::Error> {
        self.travel().await;
        let lease = lock(&self.leases.0).get(&self.name).cloned();
        Ok(lease.map(|(record, version)| (record, version.to_string())))
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, Self::Error> {
        self.travel().await;
        Ok(self.write(record, None))
    }

    async fn update(
        &mut self,
        record: &LeaseRecord,
        version: &str,
        _: bool,
    ) -> Result<Written, Self::Error> {
        self.travel().await;
        let written = self.write(record, version.parse().ok());
        self.travel().await;
        Ok(written)
    }
}

impl MembersClient for Api {
    type Error = &'static str;

    async fn list(&mut self) -> Result<Vec<LeaseRecord>, Self::Error> {
        self.travel().await;
        let listed = lock(&self.leases.0)
            .values()
            .map(|(record, _)| record.clone())
            .collect();
        // The answer shows the state of this moment, but arrives later.
        self.travel().await;
        if self.dice.one_in(8) {
            Err("lost")
        } else {
            Ok(listed)
        }
    }
}

/// Runs three replicas from a seed. Some die and are replaced.
pub(super) async fn play(seed: u64) -> Verdict {
    let mut dice = Entropy::Seed(seed ^ 0x1ea5e);
    let leases = Leases::default();
    let mut lives: Vec<Life> = Vec::new();
    let mut born = 0;
    for look in 0..LOOKS {
        let dies = look > 0 && dice.one_in(100);
        let count = u32::try_from(lives.len()).unwrap_or(u32::MAX);
        if dies && count > 0 {
            // A dead replica does nothing more; its Lease remains.
            lives.swap_remove(dice.below(count) as usize).work.abort();
        }
        if lives.len() < 3 && dice.one_in(if look < 20 { 4 } else { 60 }) {
            lives.push(begin(&leases, born, &mut dice)?);
            born += 1;
        }
        sleep(Duration::from_millis(250)).await;
        for key in (0..KEYS).map(|key| Key::new(&format!("prod/{key}"))) {
            let owners = lives.iter().filter(|life| life.replica.owns(&key)).count();
            holds("one", owners < 2, &|| {
                format!("{key} is of {owners} replicas")
            })?;
        }
    }
    lives.iter().for_each(|life| life.work.abort());
    Ok(())
}

fn begin(leases: &Leases, born: u64, dice: &mut Entropy<'static>) -> Result<Life, Wrong> {
    let name = format!("r{born}");
    let [lease, all] = [(); 2].map(|()| Api {
        leases: leases.clone(),
        name: name.clone(),
        dice: Entropy::Seed(u64::from(dice.below(1 << 20))),
    });
    // An answer may take almost as long as a Lease lasts.
    let mut config = ElectionConfig::default();
    config.renew_deadline = Duration::from_secs(14);
    let (replica, work) =
        Replica::new(lease, all, name, config).map_err(|error| Wrong::new("replica", &error))?;
    Ok(Life {
        replica,
        work: tokio::spawn(work.run()),
    })
}
