//! Assembly: which devices are the members of a pool that is known by its name, as a service starts it at boot.
//!
//! Devices appear one after the other. The assembly waits until all members are there, and for a limited time only: a pool
//! that can do without those that are missing is opened without them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use sinew_core::ids::uuid_text;
use sinew_format::model::config::MemberState;
use sinew_format::superblock::Superblock;

use super::members;

/// How often the places are searched.
const PAUSE: Duration = Duration::from_millis(250);

/// How the members of a pool are given.
#[derive(Debug)]
pub(crate) enum Source {
    /// By their names.
    Named(Vec<PathBuf>),
    /// By the name of their pool.
    Pool(Assembly),
}

/// A pool by its name, and the places to search for its members.
#[derive(Debug)]
pub(crate) struct Assembly {
    pub(crate) pool: String,
    /// Tells pools of the same name apart.
    pub(crate) uuid: Option<String>,
    /// Files, block devices, or directories of them.
    pub(crate) places: Vec<PathBuf>,
    /// How long to wait for members that are missing.
    pub(crate) wait: Duration,
}

/// The result of one search.
struct Found {
    paths: Vec<PathBuf>,
    /// The members that are not there, in words.
    missing: Vec<String>,
}

impl Assembly {
    /// Waits for the members. `tell` gets a status line with the missing members whenever it changes; `is_stopped` ends the wait.
    ///
    /// # Errors
    /// When there are several pools of this name, or no member of it has come.
    pub(crate) fn members(
        &self,
        mut tell: impl FnMut(&str),
        is_stopped: impl Fn() -> bool,
    ) -> Result<Vec<PathBuf>> {
        let began = Instant::now();
        let mut told = String::new();
        loop {
            let found = self.search()?;
            if !found.paths.is_empty() && found.missing.is_empty() {
                return Ok(found.paths);
            }
            if is_stopped() {
                bail!("stopped before all members of pool {} were there", self.pool);
            }
            let waited = began.elapsed();
            if waited >= self.wait {
                return self.without_missing(found);
            }
            let missing = match found.missing.as_slice() {
                [] => format!("waiting for the members of pool {}", self.pool),
                missing => format!("waiting for {} of pool {}", missing.join(", "), self.pool),
            };
            if missing != told {
                tell(&missing);
                told = missing;
            }
            std::thread::sleep(PAUSE.min(self.wait - waited));
        }
    }

    /// The members there are, when the time to wait is over.
    fn without_missing(&self, found: Found) -> Result<Vec<PathBuf>> {
        if found.paths.is_empty() {
            let places: Vec<_> = self.places.iter().map(|place| place.display().to_string()).collect();
            bail!(
                "no member of pool {} is in {} after {:?}; `sinew pool find DEVICE...` says what is on devices",
                self.pool,
                places.join(", "),
                self.wait
            );
        }
        Ok(found.paths)
    }

    fn search(&self) -> Result<Found> {
        let found = self.there()?;
        let newest = found.iter().max_by_key(|(_, superblock)| superblock.config.age());
        let missing = newest.map(|(_, newest)| missing(newest, &found)).unwrap_or_default();
        Ok(Found { paths: found.into_iter().map(|(path, _)| path).collect(), missing })
    }

    /// The members of the pool that are there now.
    ///
    /// # Errors
    /// When a place cannot be listed, or there are several pools of this name.
    pub(crate) fn there(&self) -> Result<Vec<(PathBuf, Superblock)>> {
        let there: Vec<PathBuf> = self.places.iter().filter(|place| place.exists()).cloned().collect();
        let mut found: Vec<(PathBuf, Superblock)> = Vec::new();
        for path in members::expand(&there)? {
            if let Some(superblock) = members::peek(&path).filter(|superblock| self.is_of_pool(superblock))
                && !is_held(&path)
            {
                found.push((path, superblock));
            }
        }
        let pools: BTreeSet<String> = found.iter().map(|(_, s)| uuid_text(&s.config.pool)).collect();
        if pools.len() > 1 {
            let pools: Vec<String> = pools.into_iter().collect();
            bail!(
                "there are several pools named {}: {}; say which with `uuid` in the configuration",
                self.pool,
                pools.join(", ")
            );
        }
        Ok(found)
    }

    fn is_of_pool(&self, superblock: &Superblock) -> bool {
        let config = &superblock.config;
        config.name == self.pool && self.uuid.as_ref().is_none_or(|uuid| *uuid == uuid_text(&config.pool))
    }
}

/// The members that the newest configuration counts on and that were not found. One that failed or was taken offline is not
/// waited for.
fn missing(newest: &Superblock, found: &[(PathBuf, Superblock)]) -> Vec<String> {
    let is_here = |uuid| {
        found.iter().any(|(_, s)| s.config.members.get(usize::from(s.member)).is_some_and(|m| m.uuid == uuid))
    };
    let waits_for =
        |state: MemberState| state.takes_part() || matches!(state, MemberState::Spare | MemberState::Missing);
    let members = newest.config.members.iter().enumerate();
    members
        .filter(|(_, member)| waits_for(member.state) && !is_here(member.uuid))
        .map(|(index, member)| format!("member {index} (last seen at {})", member.path))
        .collect()
}

/// Whether a block device is part of another one, such as one of several paths of a multipath device: the other one is the
/// member.
fn is_held(path: &Path) -> bool {
    let Ok(device) = path.canonicalize() else { return false };
    let Some(name) = device.file_name().filter(|_| device.starts_with("/dev")) else { return false };
    let holders = Path::new("/sys/class/block").join(name).join("holders");
    std::fs::read_dir(holders).is_ok_and(|mut entries| entries.next().is_some())
}
