//! Filling the cache from a journal.

use informer_core::reflector::Change;
use informer_core::report::{Phase, Problem};
use informer_core::{Decode, Report, Step};
use informer_journal::{
    self, FileError, FileJournal, Identity, LogError, Loss, LostRecords, Restore,
};

use crate::cache::entry::Key;
use crate::driver::journal::moment;
use crate::driver::pool::Decoder;
use crate::driver::sink::{CacheSink, Restored};

impl<D> CacheSink<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    /// Fills the cache from a journal. It reads a file, so it must run on a blocking thread.
    pub(crate) fn restore(
        &mut self,
        log: &mut FileJournal,
        identity: &Identity,
    ) -> Result<Option<Restored>, LogError<FileError>> {
        self.pool.swap_threads();
        let restored = self.load(log, identity);
        self.pool.swap_threads();
        restored
    }

    fn load(
        &mut self,
        log: &mut FileJournal,
        identity: &Identity,
    ) -> Result<Option<Restored>, LogError<FileError>> {
        self.step(Step::Begin);
        self.unusable = 0;
        // A journal that cannot be restored has been reported.
        let restored = informer_journal::restore(log, identity, self)?;
        if restored.is_none() {
            return Ok(None);
        }
        self.free_list_memory();
        // Set only now: batches that other threads have decoded are applied before, and are not restored data.
        self.restored = true;
        let cache = self.inner.cache();
        let sources = self.inner.each_source(|source, _| source);
        let is_there = |source| cache.is_restored(source) || cache.is_source_synced(source);
        let served = sources.into_iter().all(is_there);
        drop(cache);
        self.inner
            .status
            .send_modify(|status| status.served |= served);
        Ok(restored)
    }
}

impl<D> Restore<Key> for CacheSink<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    fn change(&mut self, change: Change, key: &str, object: &[u8]) {
        if change != Change::Listed {
            self.batch.restore_unusable(change, key);
            return;
        }
        self.listed = self.listed.saturating_add(object.len());
        let Decoder {
            inner,
            decode,
            source,
        } = self.pool.decoder();
        let now = (!self.pool.has_threads()).then_some(&**decode);
        self.batch.restore(key, object, now, &mut |report| {
            inner.report_of(Some(*source), &report);
        });
        self.proceed();
    }

    fn end(&mut self, restored: Option<&Restored>) -> LostRecords {
        if let Some(restored) = restored {
            let since = moment(restored.at);
            self.inner
                .source(self.source, |source| source.stale_since = Some(since));
        }
        let end = restored.map_or(Step::Forget, |restored| {
            Step::Restored(restored.version.clone())
        });
        self.step(end);
        self.apply_all(None);
        // This is a blocking thread, so it need not yield.
        while self.walking {
            self.continue_walk();
        }
        LostRecords::new(Loss::Unusable, self.unusable, 0)
    }

    fn lost(&mut self, lost: LostRecords) {
        let report = Report::about(Phase::Journal, Problem::JournalLost { lost });
        self.inner.report_of(Some(self.source), &report);
    }
}
