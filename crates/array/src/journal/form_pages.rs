//! Writing the form pages: on every active member, before the tail of the log passes their changes.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::io::{Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;

use crate::journal::Journal;

/// Pages written at once.
const PAGES_AT_ONCE: usize = 32;

impl<I: Io> Journal<I> {
    /// Makes durable the records of all changes of forms that took effect without that.
    ///
    /// # Errors
    /// As for [`Journal::flush`].
    pub(crate) async fn settle_forms(&self) -> Result<(), VolumeError> {
        if self.forms.is_unsure() {
            self.flush().await?;
            self.forms.set_unsure(false);
        }
        Ok(())
    }

    /// Writes the form pages that lack changes, durably.
    ///
    /// # Errors
    /// As for [`Journal::flush`]; [`VolumeError::NoSpace`] when a member is full.
    pub(super) async fn write_form_pages(&self) -> Result<(), VolumeError> {
        self.page_writes.wait(|| (!self.writes_pages.replace(true)).then_some(())).await;
        let written = self.write_taken_pages().await;
        self.writes_pages.set(false);
        self.page_writes.notify();
        written
    }

    async fn write_taken_pages(&self) -> Result<(), VolumeError> {
        self.settle_forms().await?;
        let pages = self.forms.take_pages();
        if pages.is_empty() {
            return Ok(());
        }
        self.state.mark(Mark::ArrayFormPagesWritten);
        let members = self.state.members();
        for pages in pages.chunks(PAGES_AT_ONCE) {
            let copies = if mutation::on(Mutation::OneFormCopy) { 1 } else { usize::MAX };
            let places = pages.iter().flat_map(|page| {
                let active = self.state.layout().member_ids().filter(|&m| members.is_active(m));
                active.take(copies).map(move |m| (m, page))
            });
            let written = join_all(places.map(|(member, page)| async move {
                let written = members.write_at(member, page.offset, Rc::new([page.content.clone()])).await;
                match written {
                    Ok(()) => true,
                    Err(IoError::NoSpace) => false,
                    Err(error) => {
                        self.state.mark(Mark::ArrayFormPageMemberLost);
                        members.report_failure(member, error).await;
                        true
                    }
                }
            }))
            .await;
            if written.contains(&false) {
                self.state.mark(Mark::ArrayFormPageNoSpace);
                self.forms.end_writing(false);
                return Err(VolumeError::NoSpace);
            }
        }
        let flushed = self.flush().await;
        self.forms.end_writing(flushed.is_ok());
        flushed
    }
}
