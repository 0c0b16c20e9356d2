//! Which stripes the blocks of a volume are in, and the move of a volume to stripes of another class.

use std::rc::Rc;

use crate::store::Store;
use crate::store::classes::ClassMove;
use sinew_core::ids::{ShardBlock, SlotNo, VolumeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::mapped_capacity::{pinned_cost, pinned_reserve};
use sinew_format::model::stripe_form::StripeClass;
use sinew_format::table_page::PageId;

impl<I: Io> Store<I> {
    /// Which stripes a volume's blocks go to.
    pub(crate) fn class_of(&self, volume: VolumeId) -> StripeClass {
        if self.classes.borrow().pinned.contains(&volume) { StripeClass::Pinned } else { StripeClass::Pool }
    }

    /// Sets which stripes a volume's blocks go to. If all is ready for its move, that begins.
    pub(crate) fn set_class(&self, volume: VolumeId, class: StripeClass) {
        let mut classes = self.classes.borrow_mut();
        match class {
            StripeClass::Pool => classes.pinned.remove(&volume),
            StripeClass::Pinned => classes.pinned.insert(volume),
        };
        if let Some(class_move) = classes.moves.get_mut(&volume) {
            class_move.since = Some(self.room.next_claimants());
        }
    }

    /// Whether there are stripes of both classes, or are about to be.
    pub(crate) fn has_two_classes(&self) -> bool {
        let classes = self.classes.borrow();
        !classes.pinned.is_empty() || !classes.moves.is_empty() || self.tables.borrow().live.pinned() > 0
    }

    /// Blocks of the capacity that are kept: for the open stripes of a second class, and for blocks that move to pinned stripes,
    /// also those that writes under way may add.
    pub(super) fn capacity_kept(&self) -> u64 {
        self.kept_for_moves(|class_move| class_move.under_way)
    }

    /// As `capacity_kept`, without those that writes under way may add: they count once they are stored.
    pub(super) fn capacity_kept_for_stored(&self) -> u64 {
        self.kept_for_moves(|_| 0)
    }

    fn kept_for_moves(&self, added: impl Fn(&ClassMove) -> u64) -> u64 {
        let (classes, tables) = (self.classes.borrow(), self.tables.borrow());
        let to_pin =
            |(&volume, class_move)| Some(tables.misplaced.blocks_to_pin(volume)? + added(class_move));
        let blocks = classes.moves.iter().filter_map(to_pin).sum();
        let open = if self.has_two_classes() { pinned_reserve(&self.geometry) } else { 0 };
        open + self.move_cost(tables.live.pinned(), blocks)
    }

    /// Makes ready for the move of a volume to stripes of a class, of which this number of blocks are in others: they are counted
    /// from now on, and the room that they will take is kept.
    pub(super) fn prepare_move(&self, volume: VolumeId, class: StripeClass, blocks: u64) {
        self.tables.borrow_mut().misplaced.begin(volume, class, blocks);
        let class_move = ClassMove { under_way: self.room.reserved(), since: None };
        self.classes.borrow_mut().moves.insert(volume, class_move);
    }

    /// Goes on with a move that an earlier opening began: some blocks are in stripes of the class already.
    pub(crate) async fn resume_move(self: &Rc<Self>, volume: VolumeId) {
        let class = self.class_of(volume);
        let pages = self.tables.borrow().volume_pages(volume);
        let mut blocks = 0;
        for (_, page) in pages {
            blocks += match self.pin_page_at_once(PageId::Map(page)).await {
                Ok(_map) => self.misplaced_in(page, class).len() as u64,
                // At most all of them.
                Err(_) => self.tables.borrow().live.of_page(page),
            };
        }
        self.prepare_move(volume, class, blocks);
        self.set_class(volume, class);
    }

    /// Blocks of the capacity that blocks take beyond what they take now, once they are in pinned stripes as others are.
    fn move_cost(&self, pinned: u64, blocks: u64) -> u64 {
        let cost = |blocks| pinned_cost(&self.geometry, blocks);
        let is_kept = !mutation::on(Mutation::MoveUnreserved);
        if is_kept { cost(pinned + blocks) - cost(pinned) - blocks } else { 0 }
    }

    /// A move has ended, or does not take place.
    pub(crate) fn end_move(&self, volume: VolumeId) {
        self.classes.borrow_mut().moves.remove(&volume);
        self.tables.borrow_mut().misplaced.end(volume);
    }

    /// Whether blocks of a volume move, or are about to.
    pub(crate) fn is_moving(&self, volume: VolumeId) -> bool {
        self.classes.borrow().moves.contains_key(&volume)
    }

    /// A volume whose blocks move.
    pub(crate) fn next_move(&self) -> Option<VolumeId> {
        let classes = self.classes.borrow();
        let mut begun = classes.moves.iter().filter(|(_, class_move)| class_move.since.is_some());
        begun.next().map(|(&volume, _)| volume)
    }

    /// Whether no write can store blocks in stripes of the former class any more.
    pub(crate) fn is_class_settled(&self, volume: VolumeId) -> bool {
        let since = self.classes.borrow().moves.get(&volume).and_then(|class_move| class_move.since);
        since.is_none_or(|since| self.room.oldest_claimants() > since)
            || mutation::on(Mutation::MoveUnsettled)
    }

    /// The blocks of a map page, which is in memory, that are in stripes of another class than this.
    pub(crate) fn misplaced_in(&self, page: u32, class: StripeClass) -> Vec<(ShardBlock, SlotNo)> {
        let tables = self.tables.borrow();
        let entries = tables.map.page_entries(page).map(|(block, slot)| (ShardBlock(block), SlotNo(slot)));
        let stripe = |slot| self.geometry.place(slot).0;
        entries.filter(|&(_, slot)| tables.is_of_another_class(stripe(slot), class)).collect()
    }
}
