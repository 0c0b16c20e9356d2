//! A pool found on its members.

use std::rc::Rc;

use sinew_core::ids::MemberId;
use sinew_core::io::DeviceId;
use sinew_format::model::config::Config;
use sinew_members::open_error::RecoverError;
use sinew_members::open_mode::OpenMode;

use crate::pool::md_superblocks::MdBlocks;
use crate::pool::superblocks::NextSlots;

/// A pool found on its members, not yet opened.
#[derive(Clone, Debug)]
pub struct Found {
    /// The configuration to open it with: this epoch's, and already on the active members unless it is opened read-only.
    pub config: Rc<Config>,
    /// The device of each member that is there.
    pub devices: Vec<Option<DeviceId>>,
    /// Where the next superblock of each device goes.
    pub slots: NextSlots,
    /// Members that are back after having been missing: they can be taken in once the pool is open.
    pub returned: Vec<(MemberId, DeviceId)>,
    /// Members of a mapped pool that nothing is left on, and that the end of the pool kept from being cleared.
    pub removed: Vec<(MemberId, DeviceId)>,
    /// What an operator should know about devices that were not used.
    pub warnings: Vec<String>,
    /// How it is to be opened.
    pub mode: OpenMode,
    /// The bound of the table cache of a mapped pool, in bytes; `None` is no bound.
    pub table_cache: Option<u64>,
    /// md's superblocks, where they take the place of ours.
    pub md: Option<MdBlocks>,
}

impl Found {
    /// Whether a pool whose opening ended with this error can be opened as a last resort: it was to be read only, and has
    /// checksums.
    pub fn has_last_resort(&self, error: &RecoverError) -> bool {
        let is_lost = matches!(error, RecoverError::PagesLost { .. } | RecoverError::JournalGap { .. });
        is_lost && self.mode == OpenMode::ReadOnly && has_last_resort(&self.config)
    }
}

/// Whether what is left of a pool can be read when more members are missing than it survives: only checksums tell right data
/// from wrong then.
pub(super) fn has_last_resort(config: &Config) -> bool {
    config.geometry.mapped().is_some_and(|geometry| geometry.checksums)
}
