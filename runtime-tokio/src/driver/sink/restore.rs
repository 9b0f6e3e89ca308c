//! Filling the cache from a journal.

use std::sync::Arc;

use informer_core::journal::{
    FileError, FileJournal, Identity, LogError, Loss, LostRecords, Record, RecordLog as _,
};
use informer_core::report::{Phase, Problem};
use informer_core::{Decode, Report, Step};

use crate::driver::batch::Item;
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
        self.batch.items.push(Item::Step(Step::Begin));
        self.unusable = 0;
        let mut restored = None;
        let (inner, source) = (Arc::clone(&self.inner), self.source);
        let report_loss = |lost: LostRecords| {
            let report = Report::about(Phase::Journal, Problem::JournalLost { lost });
            inner.report_of(Some(source), &report);
        };
        let mut take = |record: Record<'_>| match record {
            Record::Put { key, object } => {
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
            Record::Stale { key } => self.batch.keep(key),
            Record::Version(reached) => restored = Some(Restored::of(&reached)),
            Record::Delete { key } => self.batch.gone(key),
            _ => {}
        };
        let loaded = log.load(identity, &mut take, &mut |lost| report_loss(lost));
        let restored = restored.filter(|_| loaded.is_ok());
        if let Some(restored) = &restored {
            let since = moment(restored.at);
            self.inner
                .source(self.source, |source| source.stale_since = Some(since));
        }
        let end = restored.as_ref().map_or(Step::Forget, |restored| {
            Step::Restored(restored.version.clone())
        });
        self.batch.items.push(Item::Step(end));
        self.apply_all(None);
        // This is a blocking thread, so it need not yield.
        while self.walking {
            self.continue_walk();
        }
        // A journal that cannot be restored has been reported.
        loaded?;
        let Some(mut restored) = restored else {
            return Ok(None);
        };
        self.free_list_memory();
        // Set only now: batches that other threads have decoded are applied before, and are not restored data.
        self.restored = true;
        if self.unusable > 0 {
            restored.complete = false;
            report_loss(LostRecords::new(Loss::Unusable, self.unusable, 0));
        }
        let cache = self.inner.cache();
        let sources = self.inner.each_source(|source, _| source);
        let is_there = |source| cache.is_restored(source) || cache.is_source_synced(source);
        let served = sources.into_iter().all(is_there);
        drop(cache);
        self.inner
            .status
            .send_modify(|status| status.served |= served);
        Ok(Some(restored))
    }
}
