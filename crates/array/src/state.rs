//! The state that every room of a shard uses: the layout, the members, the counters, and whether the array has failed.
//!
//! The lowest room: it imports no other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::coverage::MarkName;
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_format::model::array_shard_layout::ShardLayout;
use sinew_members::io_priority::BackgroundWork;
use sinew_members::members::Members;
use sinew_members::space_credit::{SUPERBLOCK_BYTES, SpaceNeed};
use sinew_members::status::Counters;
use sinew_members::throttle::Throttle;
use sinew_members::update_latency::{ChangeParts, UpdateLatency};

/// Pause before background work that failed is tried again.
pub(crate) const RETRY_NS: u64 = 50_000_000;

/// Stripes that can get parity instead of copies within the reserve of physical space.
pub(crate) const RESERVED_STRIPES: u64 = 8;

/// The state of a shard that all rooms share.
pub(crate) struct ShardState<I> {
    io: I,
    /// Replaced as a whole when a growth begins or ends.
    layout: RefCell<Rc<ShardLayout>>,
    members: Members<I>,
    counters: Counters,
    update_latency: RefCell<UpdateLatency>,
    throttle: Throttle,
    /// More members are out than the array survives.
    failed: Cell<bool>,
    closing: Cell<bool>,
    /// Requests of clients under way.
    requests: Cell<u32>,
}

impl<I: Io> ShardState<I> {
    /// The state of a shard with this layout on these members.
    pub(crate) fn new(io: I, layout: ShardLayout, members: Members<I>) -> ShardState<I> {
        ShardState {
            io,
            layout: RefCell::new(Rc::new(layout)),
            members,
            counters: Counters::default(),
            update_latency: RefCell::default(),
            throttle: Throttle::default(),
            failed: Cell::new(false),
            closing: Cell::new(false),
            requests: Cell::new(0),
        }
    }

    /// The world.
    pub(crate) fn io(&self) -> &I {
        &self.io
    }

    /// Notes that the code was here.
    pub(crate) fn mark(&self, mark: Mark) {
        self.io.mark(mark);
    }

    /// The members as this shard uses them.
    pub(crate) fn members(&self) -> &Members<I> {
        &self.members
    }

    /// The counters that the status reports.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The limits of background work.
    pub(crate) fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// The shard's layout at this moment: a growth replaces it.
    pub(crate) fn layout(&self) -> Rc<ShardLayout> {
        Rc::clone(&self.layout.borrow())
    }

    /// Replaces the layout.
    pub(crate) fn set_layout(&self, layout: ShardLayout) {
        self.layout.replace(Rc::new(layout));
    }

    /// The physical space that must be free for a client's write while `pending_blocks` are not in their places. The reserve is
    /// enough to fill the log, the form pages and the superblocks, and for the parity of a small batch of conversions, as if
    /// nothing of that had space yet.
    pub(crate) fn space_need(&self, pending_blocks: u64) -> SpaceNeed {
        let layout = self.layout();
        let metadata_blocks = u64::from(layout.geometry.log_blocks) + 2 * u64::from(layout.form_pages());
        let batch_chunks = if layout.is_elastic() { RESERVED_STRIPES * layout.m as u64 } else { 0 };
        let blocks = metadata_blocks + batch_chunks * u64::from(layout.chunk_blocks);
        SpaceNeed {
            pending_blocks,
            writes_of_block: layout.tolerates() as u64 + 1,
            reserve: blocks * BLOCK_BYTES as u64 + SUPERBLOCK_BYTES,
        }
    }

    /// Notes where the time of a stripe update went.
    pub(crate) fn note_update(&self, parts: ChangeParts) {
        self.counters.stripe_read_ns.add(parts.read_ns);
        self.counters.stripe_mark_ns.add(parts.mark_ns);
        self.counters.stripe_write_ns.add(parts.write_ns);
        self.update_latency.borrow_mut().note(parts);
    }

    /// Where the time of stripe updates went.
    pub(crate) fn update_latency(&self) -> UpdateLatency {
        self.update_latency.borrow().clone()
    }

    /// Whether nothing is written to the members.
    pub(crate) fn is_read_only(&self) -> bool {
        self.layout().geometry.is_read_only() || self.members.are_read_only()
    }

    /// Whether the array has redundancy, so that there is something to keep consistent.
    pub(crate) fn has_redundancy(&self) -> bool {
        self.layout().tolerates() > 0
    }

    /// Whether the members have a log. Members of md's arrays have none.
    pub(crate) fn has_log(&self) -> bool {
        self.layout().geometry.md.is_none()
    }

    /// Members of the layout that are out.
    pub(crate) fn members_out(&self) -> impl Iterator<Item = usize> {
        (0..self.layout().geometry.members()).filter(|&m| !self.members.is_active(MemberId(m as u8)))
    }

    /// Works out whether the array has failed, after a change of the members or of the layout.
    pub(crate) fn note_losses(&self) {
        let mut lost = vec![false; self.layout().geometry.members()];
        self.members_out().for_each(|member| lost[member] = true);
        let failed = !self.layout().geometry.survives(&lost);
        if failed {
            self.mark(Mark::ArrayFailed);
        }
        self.failed.set(failed);
    }

    /// Whether more members are out than the array survives.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// Counts a client's request until the result is dropped.
    pub(crate) fn begin_request(&self) -> RequestGuard<'_> {
        self.requests.set(self.requests.get() + 1);
        RequestGuard(&self.requests)
    }

    /// Waits before background work reads or writes a chunk of each member of a stripe.
    pub(crate) async fn yield_stripe_to_clients(&self, stripe: u64) {
        let layout = self.layout();
        let members: Vec<MemberId> = layout.stripe_members(stripe).collect();
        self.yield_to_clients(&members, layout.chunk_bytes()).await;
    }

    /// The shard is about to close: background work ends.
    pub(crate) fn set_closing(&self) {
        self.closing.set(true);
    }

    /// Whether the shard is about to close.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }
}

impl<I: Io> BackgroundWork<I> for ShardState<I> {
    const AROUND: MarkName = Mark::ArrayBackgroundAround.name();

    fn members(&self) -> &Members<I> {
        &self.members
    }

    fn has_clients(&self) -> bool {
        self.requests.get() > 0
    }

    fn is_urgent(&self) -> bool {
        self.is_closing() || self.has_failed()
    }
}

/// A request under way.
pub(crate) struct RequestGuard<'a>(&'a Cell<u32>);

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
