//! Pages of the mapping table in the write buffer, on a drive that keeps the table on flash.

use super::Buffer;
use crate::flash::config::Drain;
use crate::flash::dies::Dies;
use crate::flash::host::HostInterface;
use crate::flash::mapping::NONE;
use crate::flash::placement::Placement;
use crate::{Kind, Ns};

impl Buffer {
    /// Has a page of the mapping table programmed; returns whether there was room for it.
    pub(in crate::flash) fn write_table_page(
        &mut self,
        now: Ns,
        address: u32,
        host: &mut HostInterface,
        placement: &mut Placement,
        dies: &mut Dies,
    ) -> bool {
        if dies.is_stopped() {
            return false;
        }
        if self.raid5.is_some() {
            // A page of the table is in a stripe, as a block of the host is.
            if !self.change(now, NONE, Kind::Write, address, host, dies) {
                return false;
            }
            self.stats.written_granules -= 1;
            self.stats.mapping_granules += 1;
            if self.drain == Drain::Through {
                self.seal_filling(now, dies);
            }
            return true;
        }
        if self.granules + 1 > self.granules_max {
            self.make_room(now, dies);
            return false;
        }
        let Some(filling) = self.take_filling(now, NONE, 1, host, placement, dies) else { return false };
        self.add_block(now, filling, address, 1, dies);
        self.stats.written_granules -= 1;
        self.stats.mapping_granules += 1;
        if self.drain == Drain::Through {
            // A write of the host that shared the unit would not wait for it.
            self.seal_filling(now, dies);
        }
        true
    }
}
