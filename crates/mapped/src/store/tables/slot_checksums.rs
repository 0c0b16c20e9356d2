//! The checksums of slots. Each stripe has memory of its own: the table of a large pool grows without being copied.

use sinew_core::ids::{SlotNo, StripeId};

/// The checksums of all slots; zero where none was set.
pub(super) struct SlotChecksums {
    slots_per_stripe: u32,
    stripes: Vec<Box<[u32]>>,
}

impl SlotChecksums {
    pub(super) fn new(slots_per_stripe: u32) -> SlotChecksums {
        SlotChecksums { slots_per_stripe, stripes: Vec::new() }
    }

    /// Makes room for this many stripes.
    pub(super) fn grow(&mut self, stripes: usize) {
        let slots = self.slots_per_stripe as usize;
        self.stripes.resize_with(stripes, || vec![0; slots].into_boxed_slice());
    }

    pub(super) fn get(&self, slot: SlotNo) -> Option<u32> {
        let (stripe, slot) = self.split(slot);
        Some(self.stripes.get(stripe)?[slot])
    }

    /// Sets the checksums of slots of one stripe that there is room for.
    pub(super) fn set(&mut self, first: SlotNo, checksums: &[u32]) {
        let (stripe, slot) = self.split(first);
        self.stripes[stripe][slot..][..checksums.len()].copy_from_slice(checksums);
    }

    pub(super) fn of_stripe(&self, stripe: StripeId) -> Option<&[u32]> {
        self.stripes.get(stripe.0 as usize).map(Box::as_ref)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.stripes.capacity() * size_of::<Box<[u32]>>()
            + self.stripes.len() * self.slots_per_stripe as usize * size_of::<u32>()
    }

    fn split(&self, slot: SlotNo) -> (usize, usize) {
        ((slot.0 / self.slots_per_stripe) as usize, (slot.0 % self.slots_per_stripe) as usize)
    }
}
