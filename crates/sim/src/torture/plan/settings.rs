//! The settings of a plan: their names, values and documentation, and the sizes that follow from them.

use sinew_format::model::array_geometry::{ArrayGeometry, ArraySpec};
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::form::Elastic;
use sinew_format::model::mapped_geometry::{
    CHUNK_BLOCKS, GeometryError, MappedGeometry, OVERCOMMIT, Protection,
};
use sinew_format::model::policy::{Packing, Policy, Shares};
use sinew_members::latency::SpikeAvoidance;
use sinew_members::ring::group_form::GroupForm;

use crate::device::DiscardReads;
use crate::random::Rng;

use super::array_growth::ArrayGrowth;
use super::events::{Corruptor, Ending, Trouble};
use super::growth::Growth;
use super::member::MemberPlan;
use super::setting::{Numbers, Value};

/// A setting of a plan, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it is.
    pub doc: &'static str,
}

/// Declares the plan. Settings are made smaller in this order: first those that make a run much shorter.
macro_rules! plan {
    ($($(#[doc = $doc:literal])+ $name:ident: $value:ty,)*) => {
        /// Everything that is drawn before a run begins.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Plan {
            /// The seed.
            pub seed: u64,
            $($(#[doc = $doc])+ pub $name: $value,)*
        }

        impl Plan {
            /// All settings but the seed.
            pub fn settings(&self) -> Vec<Setting> {
                vec![$(Setting {
                    name: stringify!($name),
                    value: self.$name.show(),
                    doc: concat!($($doc),+).trim_ascii(),
                },)*]
            }

            /// Changes one setting. The plan may then be impossible to play until other settings are changed too; see
            /// [`Plan::check`].
            ///
            /// # Errors
            /// When there is no such setting, or no such value of it.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
                match name {
                    // The name of the setting in versions before.
                    "step_around" => return self.set("spike_avoidance", value),
                    $(stringify!($name) => {
                        let wrong = |right| format!("{name} = {value}: give {right}");
                        self.$name = Value::parse(value).map_err(wrong)?;
                    })*
                    _ => {
                        let names: Vec<&str> = vec![$(stringify!($name),)*];
                        return Err(format!("there is no setting {name}; there are {}", names.join(", ")));
                    }
                }
                Ok(())
            }

            /// Plans with one setting made smaller, whether they can be played or not.
            pub(super) fn smaller_unchecked(&self) -> Vec<Plan> {
                let mut all = Vec::new();
                $(all.extend(self.$name.smaller().into_iter().map(|value| {
                    let mut plan = self.clone();
                    plan.$name = value;
                    plan
                }));)*
                all
            }
        }
    };
}

plan! {
    /// Openings of the pool before the last one, which drains it.
    openings: usize,
    /// Clients at work at the same time.
    clients: usize,
    /// Requests of each client between two endings of the pool.
    requests: u64,
    /// Volumes that a tenant makes, resizes and deletes while the clients work, one after the other.
    tenancies: u64,
    /// Sizes of the volumes in blocks.
    volumes: Vec<u64>,
    /// The members: size, kind, and traits of flash SSDs.
    members: Vec<MemberPlan>,
    /// The array, when the pool is one: level, chunk, spares. Settings of mapped pools have no effect then.
    array: Option<ArraySpec>,
    /// Growth of the array: the method, and the number of members of each addition, which are the last of the members.
    array_growth: Option<ArrayGrowth>,
    /// Chance, per check of the world while the array grows, that the opening ends.
    growth_cut: f64,
    /// Shares of mirrored stripes, in percent, between which operators of an elastic array change.
    mirrored_shares: Vec<u64>,
    /// Milliseconds between two samples of the governor of an elastic array; 0: stripes keep their form, but for orders.
    governor: u64,
    /// Lower limit of the physical use that the governor keeps, in percent; the upper one is 10 more.
    governor_low: u64,
    /// Failures of members and orders of operators that may happen.
    troubles: Vec<Trouble>,
    /// Chance of one of the troubles, per check of the world.
    trouble: f64,
    /// Memory of the table cache of a mapped pool, in KiB; 0 is no bound.
    table_cache: u64,
    /// Volumes, the last ones, whose stripes stay mirrored in a mapped pool with parity.
    pinned: usize,
    /// Members that may be added, one after the other.
    added: Vec<MemberPlan>,
    /// Orders of operators that change the number of members of a mapped pool, or their weights.
    growth: Vec<Growth>,
    /// Number of such orders at most.
    growths: u64,
    /// Chance of such an order, per check of the world.
    grow: f64,
    /// Kinds of corruption by members that corrupt data.
    corruptions: Vec<Corruptor>,
    /// Chance of each kind of corruption, per request to a member that corrupts data.
    corruption: f64,
    /// Members that silently corrupt data.
    corrupt: usize,
    /// Members that may be gone, failed or offline at one time.
    lost: usize,
    /// How openings of the pool may end.
    endings: Vec<Ending>,
    /// Shards.
    shards: usize,
    /// Protection of the pool.
    protection: Protection,
    /// Data columns; 0 for the default.
    data_columns: usize,
    /// With checksums.
    checksums: bool,
    /// Requests of a client under way at the same time.
    depth: usize,
    /// Largest request in blocks.
    blocks_max: u64,
    /// Share of requests that begin where the client's last one ended, in percent.
    sequential: u64,
    /// Share of writes among requests, in percent.
    writes: u64,
    /// Share of discards among requests, in percent.
    discards: u64,
    /// Share of flushes among requests, in percent.
    flushes: u64,
    /// Longest pause of a client between requests, in microseconds.
    pause: u64,
    /// Limit of background work in bytes per second; 0 is no limit.
    throttle: u64,
    /// Limit of the requests per second of the first volume, which operators change and remove; 0 for no orders.
    limit: u64,
    /// Random part of a plain member's latency at most, in microseconds.
    jitter: u64,
    /// Most requests go to this share of a volume, in percent.
    hot: u64,
    /// Blocks of a journal ring.
    journal_blocks: u32,
    /// Members state how far table pages reach; those of earlier versions do not.
    states_reach: bool,
    /// Writes that a member's volatile cache holds at most.
    cache_writes: usize,
    /// How latency spikes are detected and avoided.
    spike_avoidance: SpikeAvoidance,
    /// The form of large groups of an array's log.
    group_form: GroupForm,
    /// Metadata is in memory with a battery.
    battery: bool,
    /// The layout of small writes in mirrored stripes.
    packing: Packing,
    /// Defragment blocks that are read in sequence.
    gather: bool,
    /// Convert while less than this percentage is free,
    convert_free: u64,
    /// or more are mirrored,
    convert_mirrored: u64,
    /// and while clients move no more bytes per second on a member; 0 is any number.
    convert_pause: u64,
    /// What volumes get that are active at the same time.
    shares: Shares,
    /// Physical space of each member in percent of its addresses; 0: members are not thin.
    physical: u64,
    /// Blocks take as much of the physical space as LZ4 leaves of them.
    compressing: bool,
    /// Ratio of compression, in thousandths, by which the capacity of an elastic array on thin members is planned; 0: by their addresses.
    expect: u32,
    /// Chance that another tenant takes physical space of thin members for a while, per check of the world.
    squeeze: f64,
    /// Chance that other tenants take all physical space of thin members before an opening.
    full_openings: f64,
    /// Thin members, the first ones, whose physical space is one; 0: each has its own.
    shared_space: usize,
    /// Troubles to leave out, by their number in the run.
    skip_troubles: Numbers,
    /// Requests to leave out, by their number in the plan.
    skip_requests: Numbers,
}

impl Plan {
    pub(super) fn geometry(&self) -> Result<MappedGeometry, GeometryError> {
        let geometry = MappedGeometry {
            protection: self.protection,
            data_columns: self.data_columns,
            shards: self.shards,
            checksums: self.checksums,
            journal_blocks: self.journal_blocks,
        };
        geometry.checked_for(self.members.len())
    }

    /// Blocks that all volumes together may have.
    pub(super) fn blocks_max(&self) -> Result<u64, GeometryError> {
        let geometry = self.geometry()?;
        let mut chunks = 0;
        for member in &self.members {
            chunks += u64::from(geometry.member_layout(member.mebibytes << 20, self.members.len())?.chunks);
        }
        Ok(chunks * self.shards as u64 * u64::from(CHUNK_BLOCKS) * OVERCOMMIT)
    }

    pub(super) fn array_geometry(&self, spec: &ArraySpec) -> Result<ArrayGeometry, String> {
        let count = self.first_members().checked_sub(spec.spares).filter(|&n| n > 0);
        let count = count.ok_or("there must be more members than spares")?;
        let smallest = self.members.iter().map(|m| m.mebibytes << 20).min().unwrap_or(0);
        let elastic =
            self.expected(spec).map(|elastic| Elastic { physical: self.physical_least(), ..elastic });
        let spec = &ArraySpec { elastic: elastic.or(spec.elastic), ..*spec };
        ArrayGeometry::new(spec, count, smallest, self.shards, Some(self.journal_blocks))
            .map_err(|error| error.to_string())
    }

    /// How an array is planned, if by the physical space of its members.
    pub(crate) fn expected(&self, spec: &ArraySpec) -> Option<Elastic> {
        let elastic = spec.elastic.filter(|_| self.expect > 1000 && self.physical > 0)?;
        Some(Elastic { expect_milli: self.expect, ..elastic })
    }

    /// Bytes of physical space of a member.
    pub(crate) fn physical_bytes(&self, bytes: u64) -> u64 {
        bytes / 100 * self.physical
    }

    /// The least physical space of a member of the new pool; those that share theirs have equal parts of it.
    fn physical_least(&self) -> u64 {
        let count = self.first_members();
        let sharing = self.shared_space.min(count);
        let spaces = self.members[..count].iter().map(|member| self.physical_bytes(member.mebibytes << 20));
        let own = |(i, space): (usize, u64)| (i >= sharing.max(1)).then_some(space);
        let shared = spaces.clone().next().map(|space| space / sharing.max(1) as u64);
        spaces.enumerate().filter_map(own).chain(shared).min().unwrap_or(0)
    }

    /// Sizes of the volumes when clients begin, in blocks.
    pub(crate) fn volume_blocks(&self) -> Vec<u64> {
        let geometry = self.array.and_then(|spec| self.array_geometry(&spec).ok());
        geometry.map_or(self.volumes.clone(), |geometry| vec![geometry.data_bytes() / 4096])
    }

    /// The number of members of the new pool.
    pub(crate) fn first_members(&self) -> usize {
        let later = self.growing_array().iter().flat_map(|growth| &growth.added).sum();
        self.members.len().saturating_sub(later)
    }

    /// Whether the pool is an elastic array.
    pub(crate) fn is_elastic(&self) -> bool {
        self.array.is_some_and(|spec| spec.elastic.is_some())
    }

    /// The growth of the array, if the pool is one.
    pub(crate) fn growing_array(&self) -> Option<&ArrayGrowth> {
        self.array.and(self.array_growth.as_ref())
    }

    /// Members that run out of space.
    pub(super) fn short(&self) -> usize {
        self.members.iter().filter(|m| m.is_short()).count()
    }

    /// Whether a member is a disk, so that everything takes much longer.
    pub(crate) fn has_disks(&self) -> bool {
        self.members.iter().any(MemberPlan::is_disk)
    }

    /// Whether an opening may end at any time, not only by a clean close.
    pub(crate) fn may_crash(&self) -> bool {
        self.endings != [Ending::Close] || self.array.is_none()
    }

    /// Requests that the plan has, each with its number.
    pub(crate) fn request_count(&self) -> u64 {
        (self.openings as u64 + 1) * self.clients as u64 * self.requests
    }

    /// The content of discarded blocks, on all members.
    pub(crate) fn discard_reads(&self) -> DiscardReads {
        let all = [DiscardReads::Kept, DiscardReads::Zeros, DiscardReads::Anything, DiscardReads::Unstable];
        all[Rng::stream(self.seed, "discards", 0).below(4) as usize]
    }

    /// The policy of an elastic array, but for the shares that are ordered.
    pub(crate) fn elastic_policy(&self) -> ElasticPolicy {
        let low = self.governor_low.min(90) as u8;
        ElasticPolicy {
            governed: self.governor > 0,
            low,
            high: low + 10,
            interval_ms: self.governor.clamp(1, 1000) as u32,
            autonomous_period_s: 1,
            ..ElasticPolicy::DEFAULT
        }
    }

    /// The protections that volumes may have, if they differ: that of the pool, and mirrors.
    pub(crate) fn volume_protections(&self) -> Option<[Protection; 2]> {
        let copies = self.protection.failures() as u8 + 1;
        let has_parity = self.array.is_none() && self.protection.parity_columns() > 0;
        (has_parity && self.pinned > 0).then_some([self.protection, Protection::Mirror { copies }])
    }

    /// The protection that a volume is made with, if it is not that of the pool. Of the volumes that come and go, every other
    /// one is a mirror, if any is.
    pub(crate) fn volume_protection(&self, volume: usize) -> Option<Protection> {
        let is_pinned = match self.volumes.len() {
            fixed if volume < fixed => volume + self.pinned >= fixed,
            _ => volume.is_multiple_of(2),
        };
        self.volume_protections().filter(|_| is_pinned).map(|[_, mirror]| mirror)
    }

    /// The bound of the table cache of a mapped pool, in bytes.
    pub(crate) fn table_cache_bytes(&self) -> Option<u64> {
        (self.table_cache > 0).then_some(self.table_cache << 10)
    }

    /// The policy of a mapped pool.
    pub(crate) fn policy(&self) -> Option<Policy> {
        self.array.is_none().then_some(Policy {
            packing: self.packing,
            gather: self.gather,
            discard: true,
            convert_below_free: self.convert_free.min(100) as u8,
            convert_above_mirrored: self.convert_mirrored.min(100) as u8,
            convert_pause_above: self.convert_pause,
            shares: self.shares,
        })
    }
}
