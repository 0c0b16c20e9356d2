//! Reading the form pages of an elastic array: the newest version of each that is intact on any active member.
//!
//! A page that some member lacks is written there, so that the next recovery finds it whatever members that has.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_format::form_page::{FORM_PAGE_VERSIONS, decode_form_page};
use sinew_members::open_error::RecoverError;

use crate::forms::pages::FormPages;
use crate::forms::table::FormTable;
use crate::recovery::Recovery;

/// A version of a page, and where it was found.
struct FoundPage {
    version: u64,
    content: Buf,
}

impl<I: Io> Recovery<I> {
    /// The forms as the pages have them. An array that is not elastic has no pages.
    ///
    /// # Errors
    /// When a member fails.
    pub(super) async fn read_forms(&mut self) -> Result<(FormTable, FormPages), RecoverError> {
        let mut table = FormTable::new(if self.layout.is_elastic() { self.layout.stripes } else { 0 });
        let mut versions = Vec::with_capacity(self.layout.form_pages() as usize);
        for page in 0..self.layout.form_pages() {
            let places = self.layout_members().len() as u64 * FORM_PAGE_VERSIONS;
            self.report.bytes_read += places * BLOCK_BYTES as u64;
            let version = match self.read_page(page).await? {
                None => 0,
                Some(found) => {
                    let (_, forms) = decode_form_page(found.content.bytes()).expect("decoded before");
                    for (stripe, form) in table.page_stripes(page).zip(forms) {
                        table.set(stripe, form);
                    }
                    found.version
                }
            };
            versions.push(version);
        }
        Ok((table, FormPages::new(versions)))
    }

    /// The newest version of a page, after making sure that every active member has it. `None` when it was never written.
    async fn read_page(&self, page: u32) -> Result<Option<FoundPage>, RecoverError> {
        let members = self.layout_members();
        let places =
            members.iter().flat_map(|&member| (0..FORM_PAGE_VERSIONS).map(move |version| (member, version)));
        let reads = places.map(|(member, version)| async move {
            let offset = self.layout.form_page_offset(page, version);
            let content = self.members.read_at(member, offset, BLOCK_BYTES).await.ok()?;
            let (header, _) = decode_form_page(content.bytes()).ok()?;
            let ours = header.log == self.layout.geometry.log
                && usize::from(header.shard) == self.index
                && header.page == page;
            ours.then_some((member, FoundPage { version: header.version, content }))
        });
        let found: Vec<_> = join_all(reads).await.into_iter().flatten().collect();
        let Some(newest) = found.iter().map(|(_, page)| page.version).max() else { return Ok(None) };
        let has_it = |member| found.iter().any(|(m, page)| *m == member && page.version == newest);
        let lacking: Vec<_> = members.into_iter().filter(|&member| !has_it(member)).collect();
        let (_, newest) = found.into_iter().find(|(_, page)| page.version == newest).expect("found");
        for member in lacking {
            self.io.mark(Mark::ArrayRecoverFormPageCopied);
            let offset = self.layout.form_page_offset(page, newest.version);
            self.write(member, offset, Rc::new([newest.content.clone()])).await?;
        }
        Ok(Some(newest))
    }
}
