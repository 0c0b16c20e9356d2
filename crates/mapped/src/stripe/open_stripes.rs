//! The open stripes: which stripe and column the next run of small writes goes to, and when stripes are opened and closed.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::chunk_allocator::StripeChunks;
use crate::stripe::Stripes;
use crate::stripe::appender::{Appender, RUNS_IN_FLIGHT_LEAST, RUNS_IN_FLIGHT_MAX, Run, SHORT_RUN_BLOCKS};
use crate::stripe::open_stripe::OpenStripe;
use sinew_core::ids::{ChunkAddr, MemberId, StripeId};
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;
use sinew_format::model::policy::Packing;
use sinew_format::model::stripe_form::{StripeClass, StripeForm};

/// Stripes open at the same time: one, and others while its members do not respond, or have requests in flight.
const OPEN_MAX: usize = 3;

impl<I: Io> Stripes<I> {
    /// The homes of a data column and of its mirrors.
    fn copies_of(&self, homes: &[Option<ChunkAddr>], column: usize) -> impl Iterator<Item = ChunkAddr> {
        self.store.geometry().copies_of(column).filter_map(|index| homes[index])
    }

    /// Opens another stripe, if one can be allocated without waiting on members that all respond; returns whether it has.
    fn open_responsive(self: &Rc<Self>, appender: &Appender) -> bool {
        let columns = self.store.geometry().data_columns;
        let allocated = self.allocate_responsive(columns, appender.form());
        let is_opened = allocated.is_some();
        allocated.into_iter().for_each(|(id, chunks)| self.open_allocated(appender, id, chunks));
        is_opened
    }

    /// Opens another stripe around members in spikes that all columns with room have; returns whether it has.
    pub(super) fn open_around(self: &Rc<Self>, appender: &Appender) -> bool {
        let is_opened = may_open_another(appender) && self.open_responsive(appender);
        if is_opened {
            self.store.mark(Mark::AppendAround);
            let members = self.store.members();
            let spiking = members.ids().filter(|&m| members.takes_new(m) && !members.responds(m));
            spiking.for_each(|m| members.latency.note(m, |watch| watch.redirections += 1));
        }
        is_opened
    }

    /// Opens another stripe if members of the chosen column have requests in flight, and there is plenty of room; returns whether it
    /// has.
    pub(super) fn open_beside(
        self: &Rc<Self>,
        appender: &Appender,
        (stripe, column): (usize, usize),
    ) -> bool {
        let members = self.store.members();
        let is_loaded = || {
            let open = appender.open.borrow();
            self.copies_of(&open[stripe].homes, column).any(|home| members.in_flight(home.member) > 0)
        };
        let is_opened = members.may_be_late()
            && self.is_packed()
            && may_open_another(appender)
            && is_loaded()
            && self.store.has_plenty_of_room()
            && self.open_responsive(appender);
        if is_opened {
            self.store.mark(Mark::AppendToIdle);
        }
        is_opened
    }

    /// Opens the next stripe to append to.
    pub(super) async fn open_mirrored(self: &Rc<Self>, appender: &Appender) -> Result<(), VolumeError> {
        let columns = self.store.geometry().data_columns;
        let starved = || {
            appender.starved.set(true);
            if appender.refuse_conditional() {
                self.store.mark(Mark::ConditionalRefused);
            }
        };
        let allocated = self.allocate_waiting(columns, appender.form(), starved).await;
        if appender.starved.take() {
            self.store.room().changed().notify();
        }
        let (id, chunks) = allocated?;
        self.open_allocated(appender, id, chunks);
        Ok(())
    }

    /// Begins to append to a stripe. The records of what is appended come after that of its opening, so nothing waits for this
    /// one: it counts only once all data is written that records before it name.
    fn open_allocated(self: &Rc<Self>, appender: &Appender, id: StripeId, chunks: StripeChunks) {
        self.store.share(id);
        let record = Record::Open {
            stripe: id,
            form: appender.form(),
            columns: chunks.columns as u8,
            homes: chunks.homes.clone(),
        };
        let (opening, committed) = self.store.journal().commit_opening(record);
        let fill = vec![0; chunks.columns];
        // The column of the first slot last: by then the opening is recorded, and a commit of that slot may overlap its data.
        let column_next = 1 % chunks.columns;
        let open = OpenStripe { id, homes: chunks.homes, fill, column_next, opening };
        appender.open.borrow_mut().push(open);
        self.store.counters().stripes_opened.add(1);
        let stripes = Rc::clone(self);
        self.store.io().spawn(async move {
            let committed = committed.await;
            stripes.store.end_opening(id);
            if committed.is_err() {
                stripes.store.mark(Mark::OpenStripeVoid);
                stripes.close_open(id);
            }
            // By now it may be closed, and nothing in it live any more.
            stripes.store.note_emptied(id);
            stripes.store.wakeups().reclaim.kick();
        });
    }

    /// Ends appending to a stripe of a class: it may be converted from now on, unless it stays mirrored.
    fn close_stripe(&self, class: StripeClass, stripe: StripeId) {
        if self.store.geometry().form_of(class) == StripeForm::Parity {
            self.convertible.borrow_mut().push_back(stripe);
        }
        self.store.unshare(stripe);
    }

    /// Stripes in use, but for those that small writes are appended to.
    pub(crate) fn busy_stripes(&self) -> usize {
        let open = self.appenders().flat_map(Appender::open_stripes);
        let open = open.filter(|open| self.store.has_users(*open)).count();
        self.store.stripes_in_use() - open
    }

    /// Stops appending to stripes with a chunk on this member.
    pub(crate) fn abandon_member(&self, member: MemberId) {
        let concerned = |open: &OpenStripe| open.homes.iter().flatten().any(|h| h.member == member);
        if self.close_those(concerned) {
            self.store.mark(Mark::OpenStripeAbandoned);
        }
    }

    /// Stops appending to a stripe, so that something else can be done with it.
    pub(crate) fn close_open(&self, stripe: StripeId) {
        self.close_those(|open| open.id == stripe);
    }

    /// Stops appending to the stripes of a class that nothing is appended to while another class of volumes needs room: closed,
    /// they can be converted and compacted. Returns whether there were any.
    pub(crate) fn close_idle(&self) -> bool {
        let idle = self.appenders().filter(|appender| appender.queued() == 0);
        let idle: Vec<StripeId> = idle.flat_map(Appender::open_stripes).collect();
        self.store.has_two_classes() && self.close_those(|open| idle.contains(&open.id))
    }

    fn close_those(&self, concerned: impl Fn(&OpenStripe) -> bool) -> bool {
        let mut any = false;
        for appender in self.appenders() {
            let closed: Vec<OpenStripe> =
                appender.open.borrow_mut().extract_if(.., |open| concerned(open)).collect();
            closed.iter().for_each(|open| self.close_stripe(appender.class, open.id));
            any |= !closed.is_empty();
        }
        any
    }

    /// The open stripe and column for the next run: of those whose members all respond, that with the least to do.
    pub(crate) fn choose(&self, appender: &Appender) -> Option<(usize, usize)> {
        let open = appender.open.borrow();
        let members =
            |(i, column): (usize, usize)| self.copies_of(&open[i].homes, column).map(|home| home.member);
        columns_of(&open)
            .filter(|&at| {
                let mut members = members(at);
                members.all(|m| self.store.members().responds(m) && self.store.members().has_space(m))
            })
            .min_by_key(|&at| members(at).map(|member| self.store.members().load(member)).max())
    }

    /// As `choose`, where no column's members all respond: the one with the fewest stragglers.
    pub(super) fn choose_least_bad(&self, appender: &Appender) -> Option<(usize, usize)> {
        let open = appender.open.borrow();
        columns_of(&open).min_by_key(|&(i, column)| {
            let burdens = self
                .copies_of(&open[i].homes, column)
                .map(|h| self.store.members().burden(h.member).stragglers);
            burdens.max()
        })
    }

    /// Whether small writes are packed one behind the other.
    pub(super) fn is_packed(&self) -> bool {
        self.policy.get().packing == Packing::Packed
    }

    /// Whether so few runs are in flight that another one starts at once.
    pub(super) fn are_few(&self, in_flight: u32) -> bool {
        let few = RUNS_IN_FLIGHT_LEAST.max(self.store.members().count() as u32);
        in_flight < if self.is_packed() { few } else { RUNS_IN_FLIGHT_MAX }
    }

    /// Cuts a run off the queue for a column with room. A stripe that is full by that is closed.
    pub(super) fn cut_run(&self, appender: &Appender, (stripe, column): (usize, usize)) -> Option<Run> {
        let run = self.fill_column(appender, &mut appender.open.borrow_mut()[stripe], column);
        self.close_those(OpenStripe::is_full);
        run
    }

    fn fill_column(&self, appender: &Appender, open: &mut OpenStripe, column: usize) -> Option<Run> {
        let columns = open.fill.len();
        let filled = open.fill[column];
        let alone = !self.is_packed();
        let offset = match appender.queue.borrow().front() {
            Some((piece, _)) if alone => piece.block.0 % CHUNK_BLOCKS,
            _ => filled,
        };
        if offset < filled {
            // The policy was another one when the column was begun.
            open.fill[column] = CHUNK_BLOCKS;
            return None;
        }
        let is_short = !alone && self.store.members().may_be_late() && self.are_few(appender.in_flight.get());
        let longest = (CHUNK_BLOCKS - offset).min(if is_short { SHORT_RUN_BLOCKS } else { CHUNK_BLOCKS });
        let pieces = appender.take(longest, if alone { 1 } else { usize::MAX });
        if pieces.is_empty() {
            return None;
        }
        let blocks: u32 = pieces.iter().map(|(piece, _)| piece.blocks()).sum();
        open.fill[column] = if alone { CHUNK_BLOCKS } else { offset + blocks };
        open.column_next = (column + 1) % columns;
        let g = self.store.geometry();
        let homes = self.copies_of(&open.homes, column).collect();
        self.store.share(open.id);
        let (slot, opening) = (g.slot(open.id, column, offset), Rc::clone(&open.opening));
        Some(Run { class: appender.class, stripe: open.id, slot, offset, homes, pieces, opening })
    }
}

/// Whether fewer stripes are open than may be.
fn may_open_another(appender: &Appender) -> bool {
    appender.open.borrow().len() < OPEN_MAX
}

/// Stripes and their columns that have room, in the order in which they are to be filled.
fn columns_of(open: &[OpenStripe]) -> impl Iterator<Item = (usize, usize)> {
    open.iter().enumerate().flat_map(|(i, open)| open.columns().map(move |column| (i, column)))
}
