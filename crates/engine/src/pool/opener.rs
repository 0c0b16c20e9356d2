//! The opener of a pool: which host it is, and whether it may take the pool from another one.

use sinew_format::model::config::Config;
use sinew_format::model::host_record::HostRecord;

use crate::pool::error::PoolError;

/// The opener of a pool for writing.
#[derive(Clone, Debug, Default)]
pub struct Opener {
    /// The record of its host. A host that cannot be told from others has none: it leaves no record, and is refused where
    /// there is one.
    pub host: Option<HostRecord>,
    /// Open the pool although another host is recorded.
    pub take_over: bool,
}

impl Opener {
    /// The other host that a pool is open on as far as its members know, if there is one.
    pub fn other_host<'a>(&self, config: &'a Config) -> Option<&'a HostRecord> {
        let is_this = |record: &HostRecord| self.host.as_ref().is_some_and(|host| host.id == record.id);
        config.open_on.as_ref().filter(|record| !is_this(record))
    }

    /// Refuses a pool that another host has open.
    pub(super) fn refuse_other_host(&self, config: &Config) -> Result<(), PoolError> {
        match self.other_host(config) {
            Some(host) if !self.take_over => {
                Err(PoolError::OpenElsewhere { pool: config.name.clone(), host: host.clone() })
            }
            _ => Ok(()),
        }
    }
}
