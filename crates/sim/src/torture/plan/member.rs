//! The members of a plan: plain ones, flash SSDs and disks, small enough for a pool of a few mebibytes.

use sinew_devices::flash::{
    self, Cleaning, Compression, Drain, MappingCache, Redundancy, SlcCache, Ssd, Striping, Suspend,
    WearLevelling,
};
use sinew_devices::{BLOCK_BYTES, disk};

use super::setting::{Value, choices};
use crate::device::DeviceConfig;
use crate::model::Model;
use crate::random::Rng;

choices! {
    /// Kinds of devices.
    MemberKind {
        /// Latency and jitter, as many lanes as a small SSD.
        Plain = "plain",
        /// [`flash::slc`]
        Slc = "slc",
        /// [`flash::mqsim`]
        Mqsim = "mqsim",
        /// [`flash::femu`]
        Femu = "femu",
        /// [`flash::datacenter`]
        Datacenter = "datacenter",
        /// [`flash::consumer`]
        Consumer = "consumer",
        /// [`disk::ultrastar_36z15`]
        Ultrastar = "ultrastar",
        /// [`disk::constellation2`]
        Constellation = "constellation",
    }
}

choices! {
    /// Traits of a flash SSD.
    Trait {
        /// All of it has been written, and half of it again.
        Aged = "aged",
        /// It compresses.
        Compressing = "compressing",
        /// It has RAID-5 over its dies.
        Raid5 = "raid5",
        /// It has elastic stripes over its dies (eSAP).
        Esap = "esap",
        /// It has an SLC cache.
        SlcCache = "slc_cache",
        /// A part of its mapping table is in memory, and the rest on flash.
        MappingCache = "mapping_cache",
        /// It levels wear.
        Levelled = "levelled",
        /// It compresses, and its flash holds fewer blocks than its size if they compress badly, which they do.
        Short = "short",
    }
}

/// A member of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberPlan {
    /// Its size.
    pub mebibytes: u64,
    /// Its kind.
    pub kind: MemberKind,
    /// Its traits.
    pub traits: Vec<Trait>,
}

impl MemberPlan {
    /// A plain member.
    pub(super) fn plain(mebibytes: u64) -> MemberPlan {
        MemberPlan { mebibytes, kind: MemberKind::Plain, traits: Vec::new() }
    }

    /// Whether its space runs out before its addresses do.
    pub fn is_short(&self) -> bool {
        self.traits.contains(&Trait::Short)
    }

    fn is_aged(&self) -> bool {
        self.traits.contains(&Trait::Aged)
    }

    pub(super) fn is_flash(&self) -> bool {
        !matches!(self.kind, MemberKind::Plain | MemberKind::Ultrastar | MemberKind::Constellation)
    }

    /// Whether it is a disk.
    pub fn is_disk(&self) -> bool {
        matches!(self.kind, MemberKind::Ultrastar | MemberKind::Constellation)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if !self.traits.is_empty() && !self.is_flash() {
            return Err(format!("{}: only a flash SSD can be that", self.show()));
        }
        let is_striped = self.traits.iter().any(|t| matches!(t, Trait::Raid5 | Trait::Esap));
        if is_striped && self.is_short() {
            return Err(format!("{}: a drive short of space has no stripes", self.show()));
        }
        if self.traits.contains(&Trait::Raid5) && self.traits.contains(&Trait::Esap) {
            return Err(format!("{}: a drive has one kind of stripes", self.show()));
        }
        if self.traits.contains(&Trait::MappingCache) && self.kind == MemberKind::Consumer {
            return Err(format!("{}: stops of such a drive would last many seconds", self.show()));
        }
        let Some(flash) = self.flash() else { return Ok(()) };
        let drive = self.small(flash);
        let checked = drive.check_redundancy().and_then(|()| drive.check_features());
        checked.map_err(|why| format!("{}: {why}", self.show()))
    }

    /// Its device without a model.
    pub(crate) fn config(&self) -> DeviceConfig {
        DeviceConfig::of_bytes(self.mebibytes << 20)
    }

    /// Its model, if it has one; all chance in it is from `rng`.
    pub(crate) fn model(&self, rng: &mut Rng) -> Option<Model> {
        let Some(flash) = self.flash() else {
            let disk = match self.kind {
                MemberKind::Ultrastar => disk::ultrastar_36z15(),
                MemberKind::Constellation => disk::constellation2(),
                _ => return None,
            };
            return Some(Model::Disk(Box::new(disk::Disk::new(disk))));
        };
        let mut ssd = Ssd::new(self.small(flash), rng.bits());
        if ssd.config().compression.is_some() && !self.is_short() {
            let blocks = (self.mebibytes << 20) / u64::from(BLOCK_BYTES);
            let lengths: Vec<u16> = (0..blocks).map(|_| rng.between(1, 4096) as u16).collect();
            ssd.announce_lengths(0, &lengths);
        }
        if self.is_aged() {
            ssd.age(0.5);
        }
        Some(Model::Flash(Box::new(ssd)))
    }

    /// The flash SSD that it is like, in its full size.
    fn flash(&self) -> Option<flash::Config> {
        Some(match self.kind {
            MemberKind::Plain | MemberKind::Ultrastar | MemberKind::Constellation => return None,
            MemberKind::Slc => flash::slc(),
            MemberKind::Mqsim => {
                flash::Config { suspend: Suspend { program_ns: None, ..flash::SUSPEND }, ..flash::mqsim() }
            }
            MemberKind::Femu => flash::femu(),
            MemberKind::Datacenter => flash::Config { suspend: flash::SUSPEND, ..flash::datacenter() },
            MemberKind::Consumer => flash::consumer(),
        })
    }

    /// The drive with fewer dies and smaller erase blocks and buffers, so that it cleans and stalls within a short run.
    fn small(&self, config: flash::Config) -> flash::Config {
        let mut config = flash::Config {
            channels: 2,
            chips: 1,
            dies: 2,
            planes: 1,
            page_bytes: config.page_bytes.min(8192),
            pages: 8,
            buffer_blocks: 64,
            cleaning: Cleaning { low: 3, high: 4, ..config.cleaning },
            drain: match config.drain {
                Drain::Batch { .. } => Drain::Batch { blocks: 32 },
                other => other,
            },
            ..config
        };
        let compresses = self.traits.iter().any(|t| matches!(t, Trait::Compressing | Trait::Short));
        if compresses {
            // Each unit loses up to three granules to blocks that do not fit its rest.
            (config.page_bytes, config.pages) = (16_384, 4);
            config.compression =
                Some(Compression { granule_bytes: 1024, space_query: true, length_query: true });
        }
        // Stripes of as many elements as there are dies, and a P_wait that ends within a run.
        let striping = Striping::new(4, 1_000_000);
        for of_member in &self.traits {
            match of_member {
                Trait::Raid5 => config.redundancy = Redundancy::Raid5(striping),
                Trait::Esap => config.redundancy = Redundancy::Elastic(striping),
                Trait::SlcCache => config.slc_cache = Some(small_slc_cache(&config)),
                // A table of more pages than are in memory.
                Trait::MappingCache => {
                    config.mapping_cache = Some(MappingCache { pages: MappingCache::PAGES_MIN, entries: 64 });
                }
                Trait::Levelled => config.wear_levelling = Some(WearLevelling { spread: 2 }),
                Trait::Aged | Trait::Compressing | Trait::Short => {}
            }
        }
        let blocks = (self.mebibytes << 20) / u64::from(BLOCK_BYTES);
        // Cleaning changes the table, and has to gain more than its pages take.
        let spare = if config.mapping_cache.is_some() { 1.0 } else { 0.15 };
        let mut config = config.sized(blocks as u32, spare);
        if self.is_short() {
            config.erase_blocks = (config.erase_blocks * 2 / 3).max(12);
        }
        config
    }
}

/// An SLC cache that fills and is folded within a short run.
fn small_slc_cache(config: &flash::Config) -> SlcCache {
    SlcCache {
        erase_blocks: 3,
        bits: 2,
        sense_ns: config.sense_ns / 2,
        program_ns: config.program_ns / 3,
        fold_after_ns: 5_000_000,
    }
}

impl Value for MemberPlan {
    fn show(&self) -> String {
        let mut text = format!("{}M", self.mebibytes);
        if self.kind != MemberKind::Plain {
            text = format!("{text}:{}", self.kind.name());
        }
        self.traits.iter().for_each(|t| text = format!("{text}:{}", t.name()));
        text
    }

    fn parse(text: &str) -> Result<MemberPlan, String> {
        let mut parts = text.split(':');
        let size = parts.next().and_then(|size| size.strip_suffix('M')).and_then(|size| size.parse().ok());
        let wrong = || "members such as 6M, 6M:disk or 6M:slc:aged".to_owned();
        let mebibytes = size.filter(|m| (1..=1024).contains(m)).ok_or_else(wrong)?;
        let kind = parts.next().map_or(Ok(MemberKind::Plain), MemberKind::parse)?;
        let traits = parts.map(Trait::parse).collect::<Result<_, _>>()?;
        let member = MemberPlan { mebibytes, kind, traits };
        member.check()?;
        Ok(member)
    }

    fn smaller(&self) -> Vec<MemberPlan> {
        let mut all = Vec::new();
        if self.kind != MemberKind::Plain {
            all.push(MemberPlan::plain(self.mebibytes));
        }
        if !self.traits.is_empty() {
            all.push(MemberPlan { traits: Vec::new(), ..self.clone() });
        }
        all.extend((5..self.mebibytes).map(|mebibytes| MemberPlan { mebibytes, ..self.clone() }).take(1));
        all
    }
}
