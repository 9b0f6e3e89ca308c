//! The checks after every tick and at the end.

use core::time::Duration;

use super::super::plan::KEYS;
use super::super::process::{Ask, KEY_NAMES};
use super::{Failed, Owned, Run};

impl Run {
    /// Checks each process, and then all of them together.
    pub(super) fn check(&mut self) -> Result<(), Failed> {
        let (mut owned, mut running) = (0_u16, 0_u16);
        for number in 0..self.places.len() {
            self.look_at(number)?;
            let Some(place) = &self.places[number] else {
                continue;
            };
            let keys = place.owned.as_ref().map_or(0, |own| own.keys);
            if owned & keys != 0 {
                return Err(("one", self.said_of(owned & keys, "owned")));
            }
            owned |= keys;
            // A process frozen for longer than its Lease cannot be bound by it.
            let is_beyond = place.frozen && place.owned.is_none();
            let runs = if is_beyond {
                0
            } else {
                place.process.desk().running
            };
            if running & runs != 0 {
                return Err(("at_once", self.said_of(running & runs, "reconciled")));
            }
            running |= runs;
        }
        Ok(())
    }

    /// Checks that nobody has keys by a Lease that is about to be removed.
    pub(super) fn may_remove(&self, ask: &Ask) -> Result<(), Failed> {
        let Ask::Remove(gone) = ask else {
            return Ok(());
        };
        let is_newest = |name: &str| {
            let newest = self.server.newest(name);
            newest.is_some_and(|(lease, _)| lease.renewed == gone.renewed)
        };
        let mut places = self.places.iter().flatten();
        let is_used = places.any(|place| {
            let process = &place.process;
            process.name == gone.holder && is_newest(&process.name) && process.is_active()
        });
        if is_used {
            let what = format!("{} has keys by the Lease that is removed", gone.holder);
            return Err(("removed", what));
        }
        Ok(())
    }

    /// Returns the Lease of a process that is gone.
    pub(super) fn left_behind(&self) -> Option<&str> {
        let mut leases = self.server.leases().filter(|_| !self.world.elects);
        leases.find(|name| {
            let mut places = self.places.iter().flatten();
            !places.any(|place| place.process.name == **name)
        })
    }

    /// Records the keys of a process and checks how they changed.
    fn look_at(&mut self, number: usize) -> Result<(), Failed> {
        let Some(place) = self.places[number].as_mut() else {
            return Ok(());
        };
        let config = self.world.config();
        let (process, now) = (&place.process, place.process.now());
        let name = process.name.clone();
        let links = &place.links[..if self.world.elects { 1 } else { 2 }];
        if !process.is_active() {
            if place.owned.take().is_none() {
                return Ok(());
            }
            self.figures.lapsed += u64::from(!place.frozen);
            self.figures.overslept += u64::from(place.frozen);
            if self.is_settled {
                return Err((
                    "calm",
                    format!("without a fault {name} has no keys any more"),
                ));
            }
            // The next request is sent after a period, and a failed write is made up for by a read and a write.
            let usual = config.retry_period + self.world.usual() * 2;
            let is_due = links
                .iter()
                .any(|link| link.lost.saturating_add(usual) >= config.renew_deadline);
            if !is_due && !place.frozen && process.is_working() {
                let lost: Vec<Duration> = links.iter().map(|link| link.lost).collect();
                let what = format!("{name} has no keys any more, since faults took {lost:?}");
                return Err(("holds_on", what));
            }
            return Ok(());
        }
        let lists = links.get(1).map(|link| ("listed", link.good));
        for (invariant, sent) in lists.into_iter().chain([("renewed", place.renewed)]) {
            if now > sent + config.renew_deadline {
                let what = format!("{name} has keys at {now:?}, by a request sent at {sent:?}");
                return Err((invariant, what));
            }
        }
        if let Some(version) = place.refusal {
            let what = format!(
                "{name} has keys, though its renewal at {version} was refused and nothing later was read"
            );
            return Err(("confirmed", what));
        }
        let live = process.live();
        if place.owned.as_ref().map(|own| &own.live) == Some(&live) {
            return Ok(());
        }
        let keys = process.owned();
        let are = live.join(", ");
        let after = Owned { live, keys };
        if let Some(before) = place.owned.take() {
            let came = after.live.iter().any(|name| !before.live.contains(name));
            let went = before.live.iter().any(|name| !after.live.contains(name));
            let (got, lost) = (keys & !before.keys, before.keys & !keys);
            let moves = format!("{name} loses {} and gets {}", names(lost), names(got));
            if (lost != 0 && !came) || (got != 0 && !went) {
                let what = format!(
                    "{moves}; live were {} and are {are}",
                    before.live.join(", ")
                );
                return Err(("few_move", what));
            }
            if self.is_settled && (got | lost) != 0 {
                return Err(("calm", format!("without a fault {moves}")));
            }
        }
        place.owned = Some(after);
        self.note(|| format!("    {name} has {}; live are {are}", names(keys)));
        for key in (0..KEYS).filter(|key| keys & 1 << key != 0) {
            self.figures.moved += u64::from(self.owners[key].is_some_and(|own| own != number));
            self.owners[key] = Some(number);
        }
        Ok(())
    }

    fn said_of(&self, keys: u16, what: &str) -> String {
        let mut text = format!("{} {what} by two:", names(keys));
        for place in self.places.iter().flatten() {
            let own = place.owned.as_ref().map_or(0, |own| own.keys);
            text += &format!(
                " {} (frozen {}, active {}) has {} and reconciles {};",
                place.process.name,
                place.frozen,
                place.owned.is_some(),
                names(own & keys),
                names(place.process.desk().running & keys),
            );
        }
        text
    }

    /// Returns the keys that have an owner.
    fn owned(&self) -> u16 {
        let owned = self
            .places
            .iter()
            .flatten()
            .filter_map(|place| place.owned.as_ref());
        owned.fold(0, |all, own| all | own.keys)
    }

    /// Returns an object that is not reconciled.
    fn undone(&self) -> Option<usize> {
        let mut objects = self.objects.iter();
        objects.position(|(version, done)| version.is_some_and(|version| version != *done))
    }

    pub(super) fn is_right(&self) -> bool {
        let mut places = self.places.iter().flatten();
        let all_work = places.all(|place| {
            place.process.is_working() && (self.world.elects || place.owned.is_some())
        });
        all_work && self.owned() == (1 << KEYS) - 1 && self.undone().is_none()
    }

    pub(super) fn what_is_missing(&self) -> String {
        let nobodys = !self.owned() & ((1 << KEYS) - 1);
        let undone = self.undone().map(|key| KEY_NAMES[key]);
        let alive = self.places.iter().flatten();
        let alive: Vec<String> = alive
            .map(|place| {
                let (live, may) = (place.process.live(), place.owned.is_some());
                format!("{} (active {may}, live {live:?})", place.process.name)
            })
            .collect();
        format!(
            "nobody has {}, and {undone:?} is not done; there are {}",
            names(nobodys),
            alive.join(", ")
        )
    }
}

fn names(keys: u16) -> String {
    let names = KEY_NAMES.iter().enumerate();
    let names = names.filter(|(bit, _)| keys & 1 << bit != 0);
    let names: Vec<&str> = names.map(|(_, name)| *name).collect();
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    }
}
