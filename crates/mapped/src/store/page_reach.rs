//! How far pages reach on the members: stated durably before a page is placed further out, so that openings read no further.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_format::page_reach::PageReach;

impl<I: Io> Store<I> {
    /// Has members state a reach with room for this number of pages: those that respond and have space, and all others if these are
    /// too few.
    pub(crate) async fn make_page_room(&self, pages: u32) {
        self.state_reach(pages, |member| self.members.responds(member) && self.members.has_space(member))
            .await;
        if self.allocator().members_with_page_room(pages) < self.copies_possible() {
            self.state_reach(pages, |_| true).await;
        }
    }

    async fn state_reach(&self, pages: u32, is_asked: impl Fn(MemberId) -> bool) {
        let active = self.members.active();
        let wanted: Vec<(MemberId, u32)> = active
            .into_iter()
            .filter(|&member| is_asked(member))
            .filter_map(|member| Some((member, self.allocator().reach_wanted(member, pages)?)))
            .collect();
        if wanted.is_empty() {
            return;
        }
        let version = self.members.version();
        let writes = wanted.iter().map(|&(member, reach)| self.write_reach(member, reach));
        let are_written = join_all(writes).await;
        if !self.flush_pages().await || self.members.version() != version {
            return;
        }
        for ((member, reach), _) in wanted.into_iter().zip(are_written).filter(|(_, is_written)| *is_written)
        {
            self.mark(Mark::PageReachStated);
            self.allocator_mut().set_reach(member, reach);
        }
    }

    /// Has a member state its reach; false if it did not take it.
    async fn write_reach(&self, member: MemberId, slots: u32) -> bool {
        if mutation::on(Mutation::ReachUnstated) {
            return true;
        }
        let block = PageReach { pool: self.pool, shard: self.index as u16, slots }.encode();
        let offset = self.members.get(member).layout.page_offset(self.index, 0);
        let written = self.members.write_at(member, offset, Rc::new([block])).await;
        if let Err(error) = written {
            self.mark(Mark::PageReachRefused);
            self.members.report_failure(member, error).await;
        }
        written.is_ok()
    }
}
