//! The death of a process, damage to its journal meanwhile, and the state that the next process restores.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::path::PathBuf;

use informer_mock::{FakeServer, Fault};
use tokio::time::sleep;

use super::super::life::begin;
use super::super::{Verdict, holds, shown};
use super::World;

/// Damage to the files of a journal while no process ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Damage {
    None,
    Cut,
    Flipped,
    /// The journal was deleted.
    Deleted,
    /// Its folder is missing, so the journal cannot be opened until [`World::repair`].
    Missing,
    /// The decoder rejects some of the restored objects.
    Undecodable,
}

impl World {
    /// Kills the process and starts another one, after some changes and sometimes damage to the files.
    pub(super) async fn die(&mut self) -> Verdict {
        self.note("the process dies");
        self.life.driver.abort();
        self.bury().await;
        for _ in 0..self.dice.below(4) {
            self.change();
        }
        if self.dice.one_in(6) {
            self.mock.with(FakeServer::compact_all);
        }
        let damage = self.dice.pick(&[
            Damage::None,
            Damage::None,
            Damage::Cut,
            Damage::Flipped,
            Damage::Deleted,
            Damage::Missing,
            Damage::Undecodable,
            Damage::Undecodable,
        ]);
        self.restart(damage).await
    }

    /// Waits until the threads of a dead process are done.
    pub(super) async fn bury(&mut self) {
        self.hangs = None;
        if let Some(ends) = self.life.reader.take() {
            ends.store(true, Ordering::Relaxed);
        }
        for listener in core::mem::take(&mut self.life.listeners) {
            listener.leave();
        }
        // Paused time advances only once these threads are idle.
        sleep(Duration::from_millis(5)).await;
    }

    /// Starts a process while no server is reachable, and checks what it restored.
    pub(super) async fn restart(&mut self, damage: Damage) -> Verdict {
        self.figures.replaced += 1;
        self.lives += 1;
        let mut damage = damage;
        if self.kit.journal && !self.damage(damage) {
            damage = Damage::None;
        }
        self.note(&format!("a process starts, damage: {damage:?}"));
        self.user.refuse_restore(damage == Damage::Undecodable);
        let is_mended = self.dice.one_in(4);
        if is_mended {
            self.note("its decoder accepts all objects");
            self.user.mend_decoder();
        }
        self.mock.with(|server| {
            server.clear_faults();
            server.inject(Fault::refuse().always());
        });
        self.life = begin(self.kit, &self.mock, &self.user, &self.folder, self.lives);
        sleep(Duration::from_millis(300)).await;
        let restored = shown(&self.life.informer.lister());
        let version = self.life.informer.resource_version();
        let is_whole = damage != Damage::Undecodable && !self.has_lied && !self.kit.namespaces;
        let version = version.parse().ok().filter(|_| is_whole);
        self.figures.restored += u64::from(!restored.is_empty());
        let wrong = self.history.is_no_state(&restored, version);
        holds("restored", wrong.is_none() || self.has_lied, &|| {
            format!("{}, at {version:?}", wrong.clone().unwrap_or_default())
        })?;
        self.user.refuse_restore(false);
        if is_mended {
            self.history.accept_all();
        }
        self.mock.with(FakeServer::clear_faults);
        self.workers.follow(&self.life.informer);
        Ok(())
    }

    /// Damages the files of the journal; returns whether there were any.
    fn damage(&mut self, damage: Damage) -> bool {
        let folder = self.folder.path().join("journal");
        let files = std::fs::read_dir(&folder).into_iter().flatten();
        let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        files.sort();
        let away = self.folder.path().join("away");
        match damage {
            Damage::None | Damage::Undecodable => true,
            Damage::Missing => {
                self.is_missing = std::fs::rename(&folder, away).is_ok() || self.is_missing;
                self.is_missing
            }
            Damage::Deleted => files.iter().all(|file| std::fs::remove_file(file).is_ok()),
            Damage::Cut | Damage::Flipped => {
                let mut any = false;
                for file in files {
                    let mut bytes = std::fs::read(&file).unwrap_or_default();
                    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    let at = self.dice.below(len) as usize;
                    if bytes.len() < 64 {
                        continue;
                    }
                    if damage == Damage::Cut {
                        bytes.truncate(at);
                    } else {
                        bytes[at] ^= 0x5a;
                    }
                    any |= std::fs::write(&file, bytes).is_ok();
                }
                any
            }
        }
    }

    /// Restores the folder of the journal.
    pub(super) fn repair(&mut self) {
        if core::mem::take(&mut self.is_missing) {
            let away = self.folder.path().join("away");
            // A failure here is detected in the end.
            let _ = std::fs::rename(away, self.folder.path().join("journal"));
            self.note("the folder of the journal is there again");
        }
    }

    /// Checks that a process started without a server shows the previous process's state.
    pub(super) async fn is_persisted(&mut self) -> Verdict {
        let before = shown(&self.life.informer.lister());
        let stale = self.life.informer.health().stale;
        self.restart(Damage::None).await?;
        let after = shown(&self.life.informer.lister());
        let key = before
            .iter()
            .find(|(key, version)| after.get(*key) != Some(*version) && !stale.contains(key));
        holds("persisted", key.is_none(), &|| {
            format!("{key:?} is not in the journal, which has {after:?}")
        })?;
        let gone = after.keys().find(|key| !before.contains_key(*key));
        holds("persisted", gone.is_none(), &|| {
            format!("{gone:?} is still in the journal")
        })?;
        self.life.driver.abort();
        self.bury().await;
        Ok(())
    }
}
