//! Pins on map pages: of consecutive blocks of a volume, and of the live blocks of a stripe.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::store::Store;
use crate::store::table_cache::PagePin;
use sinew_core::ids::{ShardBlock, SlotNo, StripeId, VolumeId};
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::model::mapped_geometry::{map_page, split_local};
use sinew_format::table_page::PageId;

/// Map pages read at the same time to find the live blocks of a stripe.
const PAGES_AT_ONCE: usize = 16;

/// Keeps map pages in memory; nearly always it is one.
pub(crate) struct MapPins {
    first: Option<PagePin>,
    others: Vec<PagePin>,
}

impl MapPins {
    /// No pins yet.
    pub(crate) fn none() -> MapPins {
        MapPins { first: None, others: Vec::new() }
    }

    fn has(&self, page: PageId) -> bool {
        self.first.iter().chain(&self.others).any(|pin| pin.page() == page)
    }

    /// Takes the pins of others over.
    pub(crate) fn merge(&mut self, others: MapPins) {
        self.extend(others.first.into_iter().chain(others.others));
    }

    fn extend(&mut self, pins: impl IntoIterator<Item = PagePin>) {
        for pin in pins {
            if !self.has(pin.page()) {
                self.add(pin);
            }
        }
    }

    fn add(&mut self, pin: PagePin) {
        match self.first {
            None => self.first = Some(pin),
            Some(_) => self.others.push(pin),
        }
    }
}

impl<I: Io> Store<I> {
    /// Keeps the map pages of blocks of a volume in memory, as far as it has such pages; reads those that are absent.
    ///
    /// # Errors
    /// When no copy of a page can be read.
    pub(crate) async fn pin_maps(
        self: &Rc<Self>,
        volume: VolumeId,
        local: u64,
        count: u32,
    ) -> Result<MapPins, VolumeError> {
        let mut pins = MapPins::none();
        let parts = split_local(local).0..=split_local(local + u64::from(count.max(1)) - 1).0;
        loop {
            let absent = self.hold_maps(volume, parts.clone(), &mut pins);
            if absent.is_empty() {
                return Ok(pins);
            }
            // Meanwhile another part of the volume may get its page, which may leave memory again.
            pins.extend(Box::pin(self.pin_map_pages(&absent)).await?);
        }
    }

    /// Holds those of the pages of these parts of a volume that are in memory; gives the others.
    fn hold_maps(
        self: &Rc<Self>,
        volume: VolumeId,
        parts: impl Iterator<Item = u32>,
        pins: &mut MapPins,
    ) -> Vec<u32> {
        let mut absent = Vec::new();
        for part in parts {
            let Some(page) = self.tables().volume_page(volume, part) else { continue };
            if self.tables().map.is_absent(page) {
                absent.push(page);
            } else {
                self.hold_map(page, pins);
            }
        }
        absent
    }

    async fn pin_map_pages(self: &Rc<Self>, pages: &[u32]) -> Result<Vec<PagePin>, VolumeError> {
        let pins = pages.iter().map(|&page| self.pin_page(PageId::Map(page)));
        join_all(pins).await.into_iter().collect()
    }

    /// The live slots of a stripe, whose slots are pinned, and pins on the map pages of their blocks.
    ///
    /// # Errors
    /// When no copy of a page can be read.
    pub(crate) async fn live_slots(
        self: &Rc<Self>,
        stripe: StripeId,
    ) -> Result<(Vec<SlotNo>, MapPins), VolumeError> {
        let first = self.geometry.slot(stripe, 0, 0).0;
        let slots = (first..first + self.geometry.slots_per_stripe()).map(SlotNo);
        let owned: Vec<(SlotNo, ShardBlock)> = {
            let tables = self.tables();
            slots.filter_map(|slot| Some((slot, tables.owner(slot)?))).collect()
        };
        let (mut looked_at, mut pins, mut read) = (BTreeSet::new(), MapPins::none(), Vec::new());
        loop {
            let (live, mut unknown) = self.sort_slots(&owned, &mut pins);
            drop(read);
            unknown.retain(|page| !looked_at.contains(page));
            // Most owners are blocks that have been written again since. Their pages need not be read once all live ones are found.
            if live.len() == self.tables().stripe(stripe).live as usize || unknown.is_empty() {
                return Ok((live, pins));
            }
            let some: Vec<u32> = unknown.into_iter().take(PAGES_AT_ONCE).collect();
            looked_at.extend(some.iter().copied());
            read = self.pin_map_pages(&some).await?;
        }
    }

    /// Of slots and their owners, those known to be live, whose pages are held from now on; and the pages of which it is not known.
    fn sort_slots(
        self: &Rc<Self>,
        owned: &[(SlotNo, ShardBlock)],
        pins: &mut MapPins,
    ) -> (Vec<SlotNo>, BTreeSet<u32>) {
        let (mut live, mut unknown) = (Vec::new(), BTreeSet::new());
        for &(slot, block) in owned {
            let page = map_page(block);
            if self.tables().map.is_absent(page) {
                unknown.insert(page);
            } else if self.tables().lookup(block) == Some(slot) {
                self.hold_map(page, pins);
                live.push(slot);
            }
        }
        (live, unknown)
    }

    /// Keeps a map page, which is in memory, there.
    pub(crate) fn hold_map(self: &Rc<Self>, page: u32, pins: &mut MapPins) {
        let page = PageId::Map(page);
        if !pins.has(page) {
            pins.add(self.table_cache.pin(page));
        }
    }
}
