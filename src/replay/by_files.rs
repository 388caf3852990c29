//! The order of files: one after the other, line by line.

use std::sync::Arc;

use dupgate_core::replay::FilePlace;
use dupgate_core::worker::PageAction;

use super::UNTIMED;
use super::run::{Report, Run};
use crate::deduplicator::LineTimes;
use crate::error::Fatal;
use crate::record::{EventTime, Timestamp};

impl<S: FnMut(&Report<'_>)> Run<'_, S> {
    pub(super) fn by_files(&mut self) -> Result<(), Fatal> {
        let mut judges = self.judges()?;
        let bound = Timestamp::from_millis(self.plan.created_ms);
        let from = self.place.unwrap_or_default();
        let source = self.settings.first().map_or(EventTime::Record, |settings| settings.record.event_time);
        let before = self.counts.first().map_or(0, |counts| counts.pages);
        let mut times = LineTimes::new(source, before, Timestamp::from_millis(from.latest_ms));
        let (committed_at, files) = (self.plan.total_at(), self.plan.files.clone());
        for (number, file) in files.iter().enumerate().skip(from.file) {
            let partition = file.partition(number);
            while let Some(mut page) = self.next_page(&partition)? {
                times.page();
                if let PageAction::Ask(_, request) = &mut page.action {
                    let own = Some(request.event_time).filter(|time| *time != UNTIMED);
                    request.event_time = times.of(own);
                    page.event_time = request.event_time;
                    // The timestamp that consumers see; brokers refuse times before 1970.
                    if let Some(own) = own.filter(|time| time.millis() > 0) {
                        Arc::make_mut(&mut page.payload.record).timestamp = Some(own);
                    }
                }
                self.hold(page.payload.record.bytes())?;
                self.judge_page(&mut judges, page, bound)?;
                self.place = Some(FilePlace { latest_ms: times.latest().millis(), ..self.feed()?.place(&partition) });
                let pages = i64::try_from(times.pages()).unwrap_or(i64::MAX);
                self.mark(&committed_at, pages);
                if self.is_full() {
                    self.flush_judges(&mut judges)?;
                }
            }
        }
        self.flush_judges(&mut judges)
    }
}
