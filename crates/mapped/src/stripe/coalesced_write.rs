//! Coalesced writes: small writes that wait become a whole stripe with parity.
//!
//! While the members keep up, a small write goes to mirrors at once, which takes least time. While writes wait for the members
//! it is bandwidth that they wait for: what fills a stripe is written with parity instead of as copies, which is less, and the
//! stripe is never converted.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::chunk_allocator::{Purpose, StripeChunks};
use crate::stripe::Stripes;
use crate::stripe::appender::Appender;
use crate::stripe::piece::Piece;
use sinew_core::completion::Completion;
use sinew_core::ids::StripeId;
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;
use sinew_format::model::stripe_form::{StripeClass, StripeForm};

/// A stripe, and the queued pieces that fill it.
pub(super) struct CoalescedStripe {
    class: StripeClass,
    allocated: (StripeId, StripeChunks),
    pieces: Vec<(Piece, Rc<Completion>)>,
}

impl<I: Io> Stripes<I> {
    /// Whether so much is queued that nothing is gained by waiting for more: a stripe where pieces are coalesced, a chunk
    /// elsewhere.
    pub(super) fn is_enough(&self, appender: &Appender) -> bool {
        match self.coalesced_slots(appender) {
            Some(slots) => appender.fills(slots, Piece::is_clients),
            None => appender.fills(CHUNK_BLOCKS, |_| true),
        }
    }

    /// Cuts clients' pieces that fill a stripe off the queue, while many runs are in flight and there is room for a stripe. This
    /// does not wait for room: a task that waits for it has to refuse conditional pieces.
    pub(super) fn cut_stripe(&self, appender: &Appender) -> Option<CoalescedStripe> {
        let slots = self.coalesced_slots(appender)?;
        if self.are_few(appender.in_flight.get()) || !appender.fills(slots, Piece::is_clients) {
            return None;
        }
        let columns = self.store.geometry().data_columns;
        let (id, chunks) = self.allocate(columns, StripeForm::Parity, Purpose::User)?;
        if chunks.columns < columns {
            self.cancel_allocation(id, chunks);
            return None;
        }
        let pieces = appender.take(slots, usize::MAX);
        Some(CoalescedStripe { class: appender.class, allocated: (id, chunks), pieces })
    }

    /// The slots of a stripe, if pieces of this class are coalesced.
    fn coalesced_slots(&self, appender: &Appender) -> Option<u32> {
        let slots = self.store.geometry().slots_per_stripe();
        (self.is_packed() && self.is_less_with_parity(appender.class, slots)).then_some(slots)
    }

    /// Writes pieces as a stripe, and tells the requests that wait. When a member fails, the pieces are queued again, in front.
    pub(super) async fn write_coalesced(self: Rc<Self>, stripe: CoalescedStripe) {
        let CoalescedStripe { class, allocated, pieces: waiting } = stripe;
        let pieces: Vec<Piece> = waiting.iter().map(|(piece, _)| piece.clone()).collect();
        let written = self.write_allocated(allocated, StripeForm::Parity, &pieces, Purpose::User).await;
        let appender = self.appender(class);
        match written {
            Some(result) => {
                self.store.mark(Mark::AppendCoalesced);
                waiting.iter().for_each(|(piece, ticket)| ticket.done(piece.blocks(), result.map(|()| true)));
            }
            None => {
                self.store.mark(Mark::CoalescedMemberLost);
                appender.queue_again(waiting);
            }
        }
        appender.run_ended();
    }
}
