//! Making pools and arrays: their members, the pool on them, and its first volumes, or nothing at all.

use std::path::PathBuf;

use anyhow::{Result, bail};
use sinew_engine::pool::{self, PoolKind, PoolSpec};
use sinew_format::model::config::Config;
use sinew_format::model::name::{self, POOL_NAME_MAX};
use sinew_uring::Devices;

use super::host::{self, Idle, Resources};
use super::{cores, members};

/// Shards of a new pool at most, unless told otherwise: each takes its share of every member.
const SHARDS_DEFAULT_MAX: usize = 8;

/// A new pool of either kind.
pub(crate) struct NewPool<'a> {
    pub(crate) name: &'a str,
    pub(crate) members: &'a [PathBuf],
    /// Size of members that have to be made.
    pub(crate) size: Option<u64>,
    pub(crate) shards: Option<usize>,
    pub(crate) force: bool,
    pub(crate) volumes: &'a [(String, u64)],
    /// Physical bytes that the pool may use of each member; none for as many as the members tell.
    pub(crate) physical: Option<u64>,
}

impl NewPool<'_> {
    /// Makes the pool. The argument of `kind` says whether all members are newly created files, which contain only zeros.
    ///
    /// # Errors
    /// When the name, the members or the pool cannot be; members that were made for it are removed again.
    pub(crate) fn create(&self, kind: impl FnOnce(bool) -> Result<PoolKind>) -> Result<Config> {
        // The name becomes part of the path of the control socket.
        let name = self.name;
        if !name::is_valid(name, POOL_NAME_MAX) {
            bail!("{name:?} cannot be a pool's name: 1 to {POOL_NAME_MAX} {}", name::RULE);
        }
        let paths = self.members.iter().map(|path| members::absolute(path)).collect::<Result<Vec<_>>>()?;
        members::refuse_twice(&paths)?;
        let made = members::make_files(self.members, self.size)?;
        let created = kind(made.len() == self.members.len()).and_then(|kind| self.create_on(kind));
        if created.is_err() {
            for path in made {
                let _ = std::fs::remove_file(path);
            }
        }
        created
    }

    fn create_on(&self, kind: PoolKind) -> Result<Config> {
        let spec = PoolSpec {
            name: self.name.to_owned(),
            kind,
            shards: self.shards.unwrap_or_else(shards_default),
            journal_blocks: None,
            force: self.force,
            physical: self.physical,
        };
        let devices = Devices::new();
        let candidates = members::open_all(&devices, self.members)?;
        let config = host::run_alone(&devices, async |io| pool::create(&io, &candidates, &spec).await)??;
        if !self.volumes.is_empty() {
            let made = host::with_pool(
                devices.clone(),
                host::Kind::Pool,
                candidates.clone(),
                Resources::default(),
                Idle,
                async |open| {
                    for (name, bytes) in self.volumes {
                        open.control.create_volume(name, *bytes).await?;
                    }
                    Ok(open.control.close().await?)
                },
            );
            if let Err(error) = made {
                wipe(&devices, &candidates)?;
                return Err(error);
            }
        }
        Ok(config)
    }
}

/// One shard for every two cores: the clients on this machine need some too, and a request that crosses cores for its
/// shard takes longer.
pub(crate) fn shards_default() -> usize {
    (cores::allowed().0.len() / 2).clamp(1, SHARDS_DEFAULT_MAX)
}

/// # Errors
/// When a member cannot be written.
pub(crate) fn wipe(devices: &Devices, candidates: &[pool::Candidate]) -> Result<()> {
    host::run_alone(devices, async |io| {
        for candidate in candidates {
            pool::wipe(&io, candidate).await?;
        }
        Ok(())
    })?
}
