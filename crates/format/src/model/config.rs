//! The configuration of a pool: its members and their states, its volumes, its geometry. Every member holds it in its
//! superblock.

use std::ops::RangeInclusive;

use crate::model::damage::VolumeDamage;
use crate::model::elastic_policy::ElasticPolicy;
use crate::model::host_record::HostRecord;
use crate::model::mapped_geometry::{MappedGeometry, MemberLayout, Protection};
use crate::model::pool_geometry::PoolGeometry;
use crate::model::stripe_form::StripeClass;
use crate::model::volume_limits::VolumeLimits;

pub use crate::model::member_state::MemberState;
use sinew_core::ids::Uuid;
use sinew_core::ids::VolumeId;

/// The configuration: written to every active member at each change. The highest (epoch, generation) wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Identity of the pool.
    pub pool: Uuid,
    /// Name of the pool.
    pub name: String,
    /// Counts the changes of this configuration.
    pub generation: u64,
    /// Counts the openings of the pool. Journal blocks carry it.
    pub epoch: u64,
    /// The kind of pool, and the geometry of every shard.
    pub geometry: PoolGeometry,
    /// The members; the index is the `MemberId`.
    pub members: Vec<MemberConfig>,
    /// The volumes.
    pub volumes: Vec<VolumeConfig>,
    /// The id of the next volume; ids are not reused.
    pub volume_next: u32,
    /// The last openings of the pool, the newest last.
    pub openings: Vec<Opening>,
    /// Blocks of volumes that had no good copy when they were read, in the order of the volumes.
    pub damage: Vec<VolumeDamage>,
    /// When stripes change their form, in an elastic array; the default in other pools.
    pub elastic_policy: ElasticPolicy,
    /// The host that has the pool open for writing, or did not stop it cleanly; none if it does not tell which it is.
    pub open_on: Option<HostRecord>,
    /// Members state how far their table pages reach ([`PageReach`](crate::page_reach::PageReach)); those of arrays and of pools of
    /// earlier versions do not.
    pub states_reach: bool,
}

/// One opening of a pool. Two diverged histories of a pool have different openings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The epoch that began with it.
    pub epoch: u64,
    /// A random number.
    pub nonce: u64,
}

/// The order of configurations: by epoch, then by generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age {
    /// Number of openings of the pool.
    pub epoch: u64,
    /// Number of changes of the configuration.
    pub generation: u64,
}

/// Openings kept in a configuration.
const OPENINGS_MAX: usize = 16;

impl Config {
    /// The key by which configurations are compared; the newest is the greatest. The epoch counts first: an opening that did
    /// not find all members may begin at an earlier generation than the last change of the opening before, which a crash may
    /// have stored only on members that are missing now. The opening is newer all the same.
    pub fn age(&self) -> Age {
        Age { epoch: self.epoch, generation: self.generation }
    }

    /// For each member, whether it is out; false for members without a place in the layout.
    pub fn out(&self) -> Vec<bool> {
        (0..self.members.len()).map(|i| self.has_place(i) && !self.members[i].state.takes_part()).collect()
    }

    /// Bytes that all volumes together may have.
    pub fn volume_bytes_max(&self) -> u64 {
        self.volume_bytes_on(|m| !matches!(m.state, MemberState::Leaving | MemberState::Removed))
    }

    /// The same after this member has left.
    pub fn volume_bytes_max_without(&self, member: usize) -> u64 {
        let mut without = self.clone();
        without.members[member].state = MemberState::Leaving;
        without.volume_bytes_max()
    }

    /// Bytes that all volumes together may have on some of the members.
    pub fn volume_bytes_on(&self, counts: impl Fn(&MemberConfig) -> bool) -> u64 {
        let counted = self.members.iter().filter(|m| counts(m));
        self.geometry.volume_bytes(counted.map(|m| u64::from(m.layout.chunks)).sum())
    }

    /// Adds a new opening, and drops the oldest.
    pub fn push_opening(&mut self, epoch: u64, nonce: u64) {
        self.openings.push(Opening { epoch, nonce });
        let excess = self.openings.len().saturating_sub(OPENINGS_MAX);
        self.openings.drain(..excess);
    }

    /// Whether a member whose last opening is this one shares the history of this configuration.
    pub fn has_opening(&self, opening: Option<&Opening>) -> bool {
        let Some(opening) = opening else { return true };
        let forgotten = self.openings.first().is_some_and(|first| opening.epoch < first.epoch);
        forgotten || self.openings.contains(opening)
    }

    /// Whether the last opening of this configuration was aborted: it lists `holder` as active, but `holder`'s own
    /// configuration (`other`) has diverged from it. An opening is stored on all its members before any of them is used, so
    /// nothing was written in an aborted one.
    pub fn was_cut_off(&self, other: &Config, holder: usize) -> bool {
        let are_apart = !self.has_opening(other.openings.last()) && !other.has_opening(self.openings.last());
        let holder = other.members[holder].uuid;
        are_apart && self.members.iter().any(|m| m.uuid == holder && m.state.takes_part())
    }

    /// The last opening that was not aborted.
    pub fn last_opening(&self, was_cut_off: bool) -> Option<&Opening> {
        self.openings.iter().rev().nth(usize::from(was_cut_off))
    }
}

/// One member of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberConfig {
    /// Identity of this member; a replacement gets its own.
    pub uuid: Uuid,
    /// Size of the device when it joined.
    pub bytes: u64,
    /// Its division, in a mapped pool; all zeros in an array, whose geometry is the same for all members.
    pub layout: MemberLayout,
    /// Whether it takes part.
    pub state: MemberState,
    /// The epoch in which it went out; 0 while active.
    pub out_epoch: u64,
    /// Its last known path, for messages.
    pub path: String,
    /// Its physical bytes, if an operator has limited them; 0 for as many as the device tells.
    pub physical: u64,
    /// Percent of its chunks that a mapped pool uses first, from 1 to [`WEIGHT_FULL`]; it uses the others only while there
    /// is no room elsewhere.
    pub weight: u8,
}

/// The weight of a member that is used like the others.
pub const WEIGHT_FULL: u8 = 100;
/// All weights, in percent.
pub const WEIGHTS: RangeInclusive<u8> = 1..=WEIGHT_FULL;

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeConfig {
    /// Identity within the pool.
    pub id: VolumeId,
    /// Its name, which is also its export's.
    pub name: String,
    /// Size, whole blocks.
    pub bytes: u64,
    /// It has been deleted and its blocks are still being freed.
    pub deleting: bool,
    /// What its clients may ask for.
    pub limits: VolumeLimits,
    /// Its protection, if it is not that of the pool.
    pub protection: Option<Protection>,
    /// Its protection has changed, and its blocks are still being moved to stripes that have it.
    pub moving: bool,
}

impl VolumeConfig {
    /// A new volume, without limits, with the protection of the pool.
    pub fn new(id: VolumeId, name: impl Into<String>, bytes: u64) -> VolumeConfig {
        let (limits, protection) = (VolumeLimits::NONE, None);
        VolumeConfig { id, name: name.into(), bytes, deleting: false, limits, protection, moving: false }
    }
}

impl Config {
    /// The shape of a mapped pool.
    ///
    /// # Panics
    /// When it is an array.
    pub fn mapped(&self) -> MappedGeometry {
        *self.geometry.mapped().expect("an array has no map")
    }

    /// The volumes whose blocks are still being moved to stripes with their protection.
    pub fn moving_volumes(&self) -> Vec<VolumeId> {
        let moving = self.volumes.iter().filter(|volume| volume.moving && !volume.deleting);
        moving.map(|volume| volume.id).collect()
    }

    /// The protection of a volume of a mapped pool; `None` in an array.
    pub fn protection_of(&self, volume: &VolumeConfig) -> Option<Protection> {
        self.geometry.mapped().map(|geometry| volume.protection.unwrap_or(geometry.protection))
    }

    /// The volumes of a pool with parity whose stripes stay mirrored.
    pub fn pinned_volumes(&self) -> Vec<VolumeId> {
        let Some(geometry) = self.geometry.mapped() else { return Vec::new() };
        let class = |volume: &VolumeConfig| volume.protection.and_then(|wanted| geometry.class_of(wanted));
        let pinned = self.volumes.iter().filter(|volume| class(volume) == Some(StripeClass::Pinned));
        pinned.map(|volume| volume.id).collect()
    }

    /// Bytes of a member that are in use, from its first.
    pub fn end_bytes(&self, member: usize) -> u64 {
        self.geometry.member_end_bytes(&self.members[member].layout)
    }

    /// Whether a pool that has lost exactly these members still has all its data.
    pub fn survives(&self, lost: &[bool]) -> bool {
        self.geometry.survives(lost)
    }

    /// Whether this member has a place in the layout, also while it is out.
    pub fn has_place(&self, member: usize) -> bool {
        !matches!(self.members[member].state, MemberState::Removed | MemberState::Spare)
    }
}
