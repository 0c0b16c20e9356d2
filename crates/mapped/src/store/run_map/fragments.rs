//! The slab of groups that are neither empty nor one run.
//!
//! Blocks of 64 KiB are allocated when the free list is empty and stay; a place is stable as long as it is in use. A
//! free place holds the next free one in its first slot.

use sinew_format::model::mapped_geometry::VALUE_LIMIT;

use crate::store::run_map::group::{GROUP_INDICES, Group};

/// A slot without a value. No value is that large.
pub(crate) const VACANT: u32 = u32::MAX;

/// The values of a group one by one.
pub(crate) type Fragment = [u32; GROUP_INDICES as usize];

const BLOCK_FRAGMENTS: usize = 1024;
const NONE_FREE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Fragments {
    blocks: Vec<Box<[Fragment]>>,
    free: u32,
    /// Fragments in use.
    used: usize,
}

impl Default for Fragments {
    fn default() -> Fragments {
        Fragments { blocks: Vec::new(), free: NONE_FREE, used: 0 }
    }
}

impl Fragments {
    pub(crate) fn get(&self, place: u32) -> &Fragment {
        &self.blocks[place as usize / BLOCK_FRAGMENTS][place as usize % BLOCK_FRAGMENTS]
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Fragment {
        &mut self.blocks[place as usize / BLOCK_FRAGMENTS][place as usize % BLOCK_FRAGMENTS]
    }

    /// The place of a fragment with the values of `group`: a new one unless it has one.
    pub(crate) fn unfold(&mut self, group: Group) -> u32 {
        let fragment = match group {
            Group::Mixed(place) => return place,
            Group::Empty => [VACANT; GROUP_INDICES as usize],
            Group::Run(first) => std::array::from_fn(|offset| first + offset as u32),
        };
        self.insert(fragment)
    }

    /// The place of a new fragment.
    pub(crate) fn insert(&mut self, fragment: Fragment) -> u32 {
        if self.free == NONE_FREE {
            self.grow();
        }
        let place = self.free;
        let slots = self.get_mut(place);
        let next = slots[0];
        *slots = fragment;
        self.free = next;
        self.used += 1;
        place
    }

    pub(crate) fn free(&mut self, place: u32) {
        let next = self.free;
        self.get_mut(place)[0] = next;
        self.free = place;
        self.used -= 1;
    }

    /// Fragments in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Box<[Fragment]>>()
            + self.blocks.len() * BLOCK_FRAGMENTS * size_of::<Fragment>()
    }

    /// Adds a block, all of it free.
    fn grow(&mut self) {
        let start = (self.blocks.len() * BLOCK_FRAGMENTS) as u32;
        // The highest place would be the word of an empty group.
        assert!(
            start + (BLOCK_FRAGMENTS as u32) < VALUE_LIMIT,
            "more fragments than a group's word can name"
        );
        let mut block = vec![[VACANT; GROUP_INDICES as usize]; BLOCK_FRAGMENTS].into_boxed_slice();
        for (fragment, next) in block.iter_mut().zip(start + 1..) {
            fragment[0] = next;
        }
        block[BLOCK_FRAGMENTS - 1][0] = NONE_FREE;
        self.blocks.push(block);
        self.free = start;
    }
}
