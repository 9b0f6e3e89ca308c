//! The checks after every event and at the end.

use super::super::plan::KEYS;
use super::super::replica::Ask;
use super::super::replica::KEY_NAMES;
use super::{Failed, Owned, Run};

impl Run {
    /// Checks one process after an event, and then all of them.
    pub(super) fn check(&mut self, number: usize) -> Result<(), Failed> {
        self.look_at(number)?;
        // Time alone never gives a process keys: that would be a separate event.
        let (mut owned, mut running) = (0_u16, 0_u16);
        for process in self.processes.iter().flatten() {
            let is_active = process.replica.is_active(process.clock.at(self.now));
            let keys = match &process.owned {
                Some(own) if is_active => own.keys,
                _ => 0,
            };
            if owned & keys != 0 {
                return Err(("one", self.said_of(owned & keys, "owned")));
            }
            owned |= keys;
            // A process frozen for longer than its Lease cannot be bound by it.
            let is_beyond = process.frozen && !is_active;
            let runs = if is_beyond { 0 } else { process.running };
            if running & runs != 0 {
                return Err(("at_once", self.said_of(running & runs, "reconciled")));
            }
            running |= runs;
        }
        Ok(())
    }

    /// Checks that nobody leads by a Lease that is about to be removed.
    pub(super) fn may_remove(&self, ask: &Ask) -> Result<(), Failed> {
        let Ask::Remove(holder, renewed) = ask else {
            return Ok(());
        };
        let mut processes = self.processes.iter().flatten();
        let leader = processes.find(|process| {
            let replica = &process.replica;
            let is_same = replica.name == *holder && self.server.renewed(holder) == Some(renewed);
            is_same && replica.leads_until(process.clock.at(self.now)).is_some()
        });
        match leader {
            Some(_) => Err((
                "removed",
                format!("{holder} leads by the Lease that is removed"),
            )),
            None => Ok(()),
        }
    }

    /// Returns the Lease of a process that is gone.
    pub(super) fn left_behind(&self) -> Option<&str> {
        self.server.leases().find(|name| {
            let mut processes = self.processes.iter().flatten();
            !processes.any(|process| process.replica.name == **name)
        })
    }

    /// Records the keys of a process and checks how they changed.
    fn look_at(&mut self, number: usize) -> Result<(), Failed> {
        let Some(process) = self.processes[number].as_mut() else {
            return Ok(());
        };
        let now = process.clock.at(self.now);
        let replica = &process.replica;
        // A frozen process is checked when its Lease expires.
        let next = if process.frozen {
            replica.members.next_change(now)
        } else {
            replica.next(now)
        };
        process.wakes = next.map(|next| process.clock.when(next));
        process.running = replica.running();
        if let Some(until) = replica.leads_until(now) {
            let renewed = process
                .renewed
                .map(|sent| sent + self.world.config().renew_deadline);
            if renewed.is_none_or(|renewed| until > renewed) {
                let what = format!(
                    "{} leads until {until:?}, and by the last write that was applied until {renewed:?}",
                    replica.name
                );
                return Err(("renewed", what));
            }
            if let Some(version) = process.refusal {
                let what = format!(
                    "{} leads, though its renewal at {version} was refused and nothing later was read",
                    replica.name
                );
                return Err(("confirmed", what));
            }
        }
        if !replica.is_active(now) {
            let has_lapsed = process.owned.take().is_some();
            self.figures.lapsed += u64::from(has_lapsed && !process.frozen);
            if has_lapsed && self.is_settled {
                let what = format!("without a fault {} has no keys any more", replica.name);
                return Err(("calm", what));
            }
            if has_lapsed && replica.is_working() && !process.frozen {
                let now = self.now;
                let is_near = |at: Option<u64>| {
                    at.is_some_and(|at| now - at <= u64::from(self.world.times[1]) * 3000)
                };
                if self.world.makes_up_for_one()
                    && !is_near(process.refused[0])
                    && !is_near(process.hindered)
                {
                    let what = format!(
                        "{} has no keys any more, since one request has failed at most",
                        replica.name
                    );
                    return Err(("holds_on", what));
                }
            }
            return Ok(());
        }
        if process.owned.as_ref().map(|own| own.lists) == Some(replica.lists) {
            return Ok(());
        }
        let own = Owned {
            lists: replica.lists,
            live: replica.members.live().map(ToOwned::to_owned).collect(),
            keys: replica.owned(now),
        };
        let (keys, name) = (own.keys, replica.name.clone());
        let before = process.owned.replace(own);
        let after = process.owned.as_ref();
        if let (Some(before), Some(after)) = (before, after) {
            let is_in = |own: &Owned, name: &String| own.live.contains(name);
            let came = after.live.iter().any(|name| !is_in(&before, name));
            let went = before.live.iter().any(|name| !is_in(after, name));
            let (got, lost) = (after.keys & !before.keys, before.keys & !after.keys);
            if (lost != 0 && !came) || (got != 0 && !went) {
                let what = format!(
                    "{name} loses {} and gets {}; live were {} and are {}",
                    names(lost),
                    names(got),
                    before.live.join(", "),
                    after.live.join(", ")
                );
                return Err(("few_move", what));
            }
            if self.is_settled && (got | lost) != 0 {
                let what = format!("{name} loses {} and gets {}", names(lost), names(got));
                return Err(("calm", format!("without a fault {what}")));
            }
        }
        for key in (0..KEYS).filter(|key| keys & 1 << key != 0) {
            self.figures.moved += u64::from(self.owners[key].is_some_and(|own| own != number));
            self.owners[key] = Some(number);
        }
        Ok(())
    }

    fn said_of(&self, keys: u16, what: &str) -> String {
        let mut text = format!("{} {what} by two:", names(keys));
        for process in self.processes.iter().flatten() {
            let now = process.clock.at(self.now);
            let replica = &process.replica;
            let own = process.owned.as_ref().map_or(0, |own| own.keys);
            text += &format!(
                " {} (frozen {}, active {}) has {} and reconciles {};",
                replica.name,
                process.frozen,
                replica.is_active(now),
                names(own & keys),
                names(process.running & keys),
            );
        }
        text
    }

    /// Returns the keys that have an owner.
    fn owned(&self) -> u16 {
        let processes = self.processes.iter().flatten();
        processes
            .filter(|process| process.replica.is_active(process.clock.at(self.now)))
            .filter_map(|process| Some(process.owned.as_ref()?.keys))
            .fold(0, |all, keys| all | keys)
    }

    pub(super) fn is_right(&self) -> bool {
        let mut processes = self.processes.iter().flatten();
        let all_work = processes.all(|process| {
            let now = process.clock.at(self.now);
            process.replica.is_working() && process.replica.is_active(now)
        });
        all_work && self.owned() == (1 << KEYS) - 1 && self.server.undone().is_none()
    }

    pub(super) fn what_is_missing(&self) -> String {
        let nobodys = !self.owned() & ((1 << KEYS) - 1);
        let undone = self.server.undone().map(|key| KEY_NAMES[key]);
        let alive = self.processes.iter().flatten();
        let alive: Vec<String> = alive
            .map(|process| {
                let now = process.clock.at(self.now);
                let live: Vec<&str> = process.replica.members.live().collect();
                let may = process.replica.is_active(now);
                format!("{} (active {may}, live {live:?})", process.replica.name)
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
