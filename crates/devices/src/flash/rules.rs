//! How long each step of a die takes, and how cleaning goes.

use super::config::{Config, Suspend};
use super::die::Work;
use crate::{BLOCK_BYTES, Ns};

/// The parameters of a drive that dies obey.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) sense_ns: Ns,
    pub(super) program_ns: Ns,
    pub(super) erase_ns: Ns,
    pub(super) channel_block_ns: Ns,
    suspend: Suspend,
    pub(super) exclusive_cleaning: bool,
    pub(super) single_erase: bool,
}

impl Rules {
    pub(super) fn new(config: &Config) -> Rules {
        Rules {
            sense_ns: config.sense_ns,
            program_ns: config.program_ns,
            erase_ns: config.erase_ns,
            channel_block_ns: config.channel_block_ns,
            suspend: config.suspend,
            exclusive_cleaning: config.cleaning.exclusive,
            single_erase: config.cleaning.single_erase,
        }
    }

    /// How long it takes to suspend what a die does, if it can be.
    #[inline]
    pub(super) fn suspend_ns(&self, work: Work) -> Option<Ns> {
        match work {
            Work::Program(_) | Work::CleanProgram(_) => self.suspend.program_ns,
            Work::Erase(_) => self.suspend.erase_ns,
            _ => None,
        }
    }

    /// The time that a channel takes to move this number of bytes.
    #[inline]
    pub(super) fn transfer_ns(&self, bytes: u64) -> Ns {
        bytes * self.channel_block_ns / u64::from(BLOCK_BYTES)
    }
}
