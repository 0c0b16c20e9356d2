//! The queue of small writes, and the stripes that they are appended to.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::store::data_status::DataStatus;
use crate::stripe::open_stripe::OpenStripe;
use crate::stripe::piece::{Piece, Pieces};
use sinew_core::completion::{Completed, Completion};
use sinew_core::ids::{ChunkAddr, SlotNo, StripeId};
use sinew_core::sync::Signal;
use sinew_core::volume::VolumeError;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;
use sinew_format::model::stripe_form::{StripeClass, StripeForm};

/// The queue of small writes of a class of volumes, and the stripes they go to.
#[derive(Default)]
pub(crate) struct Appender {
    pub(super) class: StripeClass,
    pub(super) queue: RefCell<VecDeque<(Piece, Rc<Completion>)>>,
    pub(super) work: Signal,
    /// The oldest first.
    pub(super) open: RefCell<Vec<OpenStripe>>,
    pub(super) in_flight: Cell<u32>,
    /// Appending waits for room. Conditional pieces do not wait with it, since the requests that queued them hold up
    /// the release of chunks.
    pub(super) starved: Cell<bool>,
}

/// Runs being written at the same time, or as many as there are members, while what waits does not fill a chunk: few, so
/// that more share each, where they are packed.
pub(super) const RUNS_IN_FLIGHT_LEAST: u32 = 8;

pub(super) const RUNS_IN_FLIGHT_MAX: u32 = 256;

/// The longest run while few are in flight: a write of a chunk goes to two columns, and takes half the time.
pub(super) const SHORT_RUN_BLOCKS: u32 = CHUNK_BLOCKS / 2;

/// One run of blocks for one column.
pub(crate) struct Run {
    pub(super) class: StripeClass,
    pub(super) stripe: StripeId,
    pub(super) slot: SlotNo,
    pub(super) offset: u32,
    pub(super) homes: Vec<ChunkAddr>,
    pub(super) pieces: Vec<(Piece, Rc<Completion>)>,
    /// Of the record that opens the stripe.
    pub(super) opening: Rc<DataStatus>,
}

impl Appender {
    pub(super) fn new(class: StripeClass) -> Appender {
        Appender { class, ..Appender::default() }
    }

    /// Queues pieces; resolves when all of them are stored and findable.
    pub(crate) fn append(&self, pieces: Pieces) -> Completed {
        let (ticket, completed) = Completion::new(pieces.iter().map(Piece::blocks).sum());
        self.queue.borrow_mut().extend(pieces.into_iter().map(|piece| (piece, Rc::clone(&ticket))));
        if self.starved.get() {
            self.refuse_conditional();
        }
        self.work.notify();
        completed
    }

    /// Queues pieces again whose run did not succeed, in front of all others.
    pub(super) fn queue_again(&self, pieces: Vec<(Piece, Rc<Completion>)>) {
        let mut queue = self.queue.borrow_mut();
        pieces.into_iter().rev().for_each(|entry| queue.push_front(entry));
        drop(queue);
        if self.starved.get() {
            self.refuse_conditional();
        }
    }

    /// Its state, for the diagnosis of a standstill.
    pub(crate) fn waits(&self) -> String {
        let open = self.open.borrow();
        let open: Vec<_> = open.iter().map(|open| (open.id, &open.fill)).collect();
        let (queued, in_flight) = (self.queue.borrow().len(), self.in_flight.get());
        format!(
            "{:?}: append queue {queued}, in flight {in_flight}, starved {}, open {open:?}",
            self.class,
            self.is_starved()
        )
    }

    /// Pieces and runs that are not stored yet.
    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().len() + self.in_flight.get() as usize
    }

    /// The stripes being appended to.
    pub(super) fn open_stripes(&self) -> Vec<StripeId> {
        self.open.borrow().iter().map(|open| open.id).collect()
    }

    /// Stripes that nothing can be appended to and that are not closed.
    pub(crate) fn full_stripes(&self) -> usize {
        self.open.borrow().iter().filter(|open| open.is_full()).count()
    }

    /// Whether a stripe is being appended to.
    pub(crate) fn is_open(&self, stripe: StripeId) -> bool {
        self.open.borrow().iter().any(|open| open.id == stripe)
    }

    /// The form of the stripes that it opens.
    pub(super) fn form(&self) -> StripeForm {
        match self.class {
            StripeClass::Pool => StripeForm::Mirrored,
            StripeClass::Pinned => StripeForm::Pinned,
        }
    }

    /// Whether appending waits for room.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved.get()
    }

    /// Whether the first pieces of the queue, as far as they count, fill this number of blocks.
    pub(super) fn fills(&self, blocks: u32, counts: impl Fn(&Piece) -> bool) -> bool {
        let mut room = blocks;
        self.queue.borrow().iter().take_while(|(piece, _)| counts(piece)).any(|(piece, _)| {
            room = room.saturating_sub(piece.blocks());
            room == 0
        })
    }

    /// Takes the first blocks of the queue, of at most this number of pieces.
    pub(super) fn take(&self, blocks: u32, pieces_most: usize) -> Vec<(Piece, Rc<Completion>)> {
        let mut queue = self.queue.borrow_mut();
        let (mut taken, mut room) = (Vec::new(), blocks);
        while room > 0
            && taken.len() < pieces_most
            && let Some((piece, ticket)) = queue.front_mut()
        {
            if piece.blocks() <= room {
                room -= piece.blocks();
                taken.extend(queue.pop_front());
            } else {
                taken.push((piece.split_front(room), Rc::clone(ticket)));
                room = 0;
            }
        }
        taken
    }

    /// Sends conditional pieces away; false when there are none.
    pub(super) fn refuse_conditional(&self) -> bool {
        let queued = std::mem::take(&mut *self.queue.borrow_mut());
        let (clients, conditional): (VecDeque<_>, VecDeque<_>) =
            queued.into_iter().partition(|(piece, _)| piece.is_clients());
        *self.queue.borrow_mut() = clients;
        let any = !conditional.is_empty();
        for (piece, ticket) in conditional {
            ticket.done(piece.blocks(), Err(VolumeError::NoSpace));
        }
        any
    }

    pub(super) fn run_ended(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        self.work.notify();
    }

    pub(super) fn fail_all(&self, error: VolumeError) {
        let queued = std::mem::take(&mut *self.queue.borrow_mut());
        for (piece, ticket) in queued {
            ticket.done(piece.blocks(), Err(error));
        }
    }
}
