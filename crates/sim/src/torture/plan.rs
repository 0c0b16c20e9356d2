//! What a seed stands for: settings drawn from it, which a person can read, change and make smaller.

mod array;
mod array_growth;
mod growth;
mod member;
mod policy;
mod setting;

use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, Geometry, GeometryError, OVERCOMMIT, Protection};
use sinew_format::model::policy::Packing;
use sinew_members::latency::SpikeAvoidance;

use crate::random::Rng;

pub(crate) use array_growth::ArrayGrowth;
pub(super) use growth::Growth;
pub use member::{MemberKind, MemberPlan, Trait};
pub use setting::Numbers;
use setting::{Value, choices};

choices! {
    /// What befalls members, and what operators do, while clients work.
    Trouble {
        /// A member goes away, and its unflushed writes meet their fate.
        Detach = "detach",
        /// An operator takes a member offline.
        Offline = "offline",
        /// An operator tries to take offline what the pool cannot do without.
        OfflineNeeded = "offline_needed",
        /// Writes and flushes of a member begin to fail.
        Fail = "fail",
        /// A member comes back as it was.
        Online = "online",
        /// An operator takes one member for another.
        Impostor = "impostor",
        /// An operator replaces a member by itself, with its content or without.
        Replace = "replace",
        /// An operator replaces a member by another device; the old one stays connected.
        Spare = "spare",
        /// An operator has a member's chunks rebuilt on the others.
        Evacuate = "evacuate",
        /// An operator begins a scrub, or stops it.
        Scrub = "scrub",
        /// A member becomes slow for a while, or does not answer at all.
        Slow = "slow",
        /// An operator bounds the rate of background work, or takes the bound away, or changes how spikes are found.
        Throttle = "throttle",
        /// A member answers nothing for long.
        HungDevices = "silence",
    }
}

choices! {
    /// What a member that corrupts data does.
    Corruptor {
        /// Blocks become unreadable.
        Latent = "latent",
        /// Bits flip.
        Rot = "rot",
        /// Writes are acknowledged and lost.
        Lost = "lost",
        /// Writes land elsewhere.
        MisdirectedWrite = "misdirected_write",
        /// Reads return what is elsewhere.
        MisdirectedRead = "misdirected_read",
        /// Reads fail.
        ReadError = "read_error",
    }
}

choices! {
    /// How an opening of the pool ends.
    Ending {
        /// The power fails.
        PowerLoss = "power",
        /// The process dies, the devices live on.
        ProcessDeath = "death",
        /// The pool is closed; then the power fails.
        Close = "close",
        /// All members vanish at once while the process lives on: every request must still be answered, somehow.
        Blackout = "blackout",
    }
}

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

/// Declares the plan. The order is that in which settings are made smaller: first what makes a run much shorter.
macro_rules! plan {
    ($($(#[doc = $doc:literal])+ $name:ident: $value:ty,)*) => {
        /// Everything drawn before a run begins.
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

            /// Changes one setting. The plan may be one that cannot be played until others are changed, too; see
            /// [`Plan::check`].
            ///
            /// # Errors
            /// When there is no such setting, or no such value of it.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
                match name {
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

            /// Plans with one setting made smaller.
            pub(crate) fn smaller(&self) -> Vec<Plan> {
                let mut all = Vec::new();
                $(all.extend(self.$name.smaller().into_iter().map(|value| {
                    let mut plan = self.clone();
                    plan.$name = value;
                    plan
                }));)*
                all.retain(|plan| plan.check().is_ok());
                all
            }
        }
    };
}

plan! {
    /// Times the pool is opened, beside the last.
    openings: usize,
    /// Clients at work at the same time.
    clients: usize,
    /// Requests of each client between two endings of the pool.
    requests: u64,
    /// Volumes that a tenant makes, resizes and deletes while the clients work, one after the other.
    tenancies: u64,
    /// Sizes of the volumes in blocks.
    volumes: Vec<u64>,
    /// The members: size, kind, and what a flash SSD is besides.
    members: Vec<MemberPlan>,
    /// The array that the pool is: level, chunk, spares; what is said of mapped pools only then means nothing.
    array: Option<ArraySpec>,
    /// How the array grows: the method, and how many of the members, the last ones, come with each addition.
    array_growth: Option<ArrayGrowth>,
    /// Chance, per look at the world while the array grows, that the opening ends.
    growth_cut: f64,
    /// What may befall members, and what operators may do.
    troubles: Vec<Trouble>,
    /// Chance, per look at the world, of trouble.
    trouble: f64,
    /// Members that may be added, one after the other.
    added: Vec<MemberPlan>,
    /// What operators do to the number of members of a mapped pool.
    growth: Vec<Growth>,
    /// How often they do at most.
    growths: u64,
    /// Chance, per look at the world, that they do.
    grow: f64,
    /// What members that corrupt data do.
    corruptions: Vec<Corruptor>,
    /// Chance, per request to a member that corrupts data, of each of these.
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
    /// Share of requests that go on where the client's last one ended, in percent.
    sequential: u64,
    /// Share of writes among requests, in percent.
    writes: u64,
    /// Share of discards among requests, in percent.
    discards: u64,
    /// Share of flushes among requests, in percent.
    flushes: u64,
    /// Longest pause of a client between requests, in microseconds.
    pause: u64,
    /// Bound of background work in bytes per second; 0 is none.
    throttle: u64,
    /// Random part of a plain member's latency at most, in microseconds.
    jitter: u64,
    /// Requests fall mostly on this share of a volume, in percent.
    hot: u64,
    /// Blocks of a journal ring.
    journal_blocks: u32,
    /// Writes that a member's volatile cache holds at most.
    cache_writes: usize,
    /// How members in a latency spike are found.
    step_around: SpikeAvoidance,
    /// Metadata is in memory with a battery.
    battery: bool,
    /// How small writes lie in mirrored stripes.
    packing: Packing,
    /// Bring together what is read in sequence.
    gather: bool,
    /// Convert while less than so many percent are free,
    convert_free: u64,
    /// or more are mirrored,
    convert_mirrored: u64,
    /// and while clients move no more bytes per second on a member; 0 is any number.
    convert_pause: u64,
    /// Troubles left out, by their number in the run.
    skip_troubles: Numbers,
    /// Requests left out, by their number in the plan.
    skip_requests: Numbers,
}

/// Blocks that all volumes together may have per member block, so that the smallest pool drawn here takes them.
const OVERCOMMIT_SHARES: [u64; 3] = [3, 5, 20];

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Plan {
        let rng = &mut Rng::stream(seed, "plan", 0);
        // Apart, so that what was added later leaves the other draws of a seed as they were.
        let later = &mut Rng::stream(seed, "plan, later", 0);
        let wide = later.chance(0.05);
        let count = if rng.chance(0.1) { rng.between(8, 20) } else { rng.between(3, 9) } as usize;
        let count = if wide { later.between(18, 32) as usize } else { count };
        let protection = match rng.below(5) {
            0 => Protection::Mirror { copies: 2 },
            1 => Protection::Mirror { copies: 3 },
            2 | 3 => Protection::Parity1,
            _ => Protection::Parity2,
        };
        let shards = [1, 1, 1, 2, 3][rng.below(5) as usize];
        let uneven = rng.chance(0.4);
        let base = rng.between(5, 9);
        let size = |rng: &mut Rng| base * shards as u64 + if uneven { rng.between(0, 3) } else { 0 };
        let members: Vec<MemberPlan> = (0..count).map(|_| MemberPlan::plain(size(rng))).collect();
        let parity = protection.parity_columns();
        let data_columns =
            if rng.chance(0.5) { 0 } else { rng.between(1, (count - parity).min(8) as u64) as usize };
        // Stripes of more blocks than a record of the journal can name.
        let data_columns =
            if wide { later.between(16, (count - parity) as u64) as usize } else { data_columns };
        let geometry = Geometry::new(protection, data_columns, shards, true, count, 64);
        let data_columns = if geometry.is_ok() { data_columns } else { 0 };
        let failures = protection.failures() as u64;
        let checksums = rng.chance(0.85);
        let corrupt = if checksums && rng.chance(0.4) { rng.between(0, failures) } else { 0 };
        let lost = if rng.chance(0.8) { failures - corrupt } else { 0 };
        let fits = members.iter().map(|m| m.mebibytes).sum::<u64>() * 256;
        let share = OVERCOMMIT_SHARES[rng.below(3) as usize];
        let volume_count = rng.between(1, 3);
        let mut volumes: Vec<u64> =
            (0..volume_count).map(|_| rng.between(64, 64 + fits / share / volume_count)).collect();
        // Volumes of about what the pool can hold, written all over.
        let crowded = later.chance(0.1);
        if crowded {
            let data = match protection {
                Protection::Mirror { copies } => 1.0 / copies as f64,
                _ => 0.75,
            };
            let part = later.between(50, 110) as f64 / 100.0;
            volumes = vec![(fits as f64 * data * part) as u64 / volume_count; volume_count as usize];
        }
        let mut plan = Plan {
            seed,
            protection,
            data_columns,
            shards,
            checksums,
            volumes,
            members,
            array: None,
            array_growth: None,
            growth_cut: 0.0,
            journal_blocks: [40, 64, 200][rng.below(3) as usize],
            clients: rng.between(1, 12) as usize,
            requests: rng.between(20, 250) * if crowded { 4 } else { 1 },
            openings: rng.between(1, 6) as usize,
            corrupt: corrupt as usize,
            lost: lost as usize,
            tenancies: if later.chance(0.3) { later.between(1, 6) } else { 0 },
            blocks_max: [1, 4, 40, if wide { 1500 } else { 260 }][rng.below(4) as usize],
            writes: rng.between(20, 90),
            discards: rng.between(0, 8),
            flushes: rng.between(0, 20),
            hot: [100, 100, 20, 2][rng.below(4) as usize],
            trouble: [0.0, 0.002, 0.01, 0.05][rng.below(4) as usize],
            troubles: draw_troubles(seed, later),
            corruptions: some_of(Corruptor::ALL, 0.8, later),
            corruption: 0.0,
            endings: some_of(Ending::ALL, 0.8, later),
            depth: [1, 1, 1, 2, 8][later.below(5) as usize],
            sequential: [0, 0, 20, 95][later.below(4) as usize],
            pause: [0, 0, 0, 300, 20_000][later.below(5) as usize],
            throttle: if later.chance(0.1) { later.between(1, 200) << 20 } else { 0 },
            jitter: [60, 60, 60, 0, 2000][later.below(5) as usize],
            cache_writes: [1 << 16, 1 << 16, 16, 1][later.below(4) as usize],
            step_around: match Rng::stream(seed, "plan, step around", 0).below(8) {
                0 => SpikeAvoidance::Off,
                1 => SpikeAvoidance::Consumer,
                2 if seed.is_multiple_of(2) => SpikeAvoidance::FusionRaid,
                2 => SpikeAvoidance::Datacenter,
                _ => SpikeAvoidance::Auto,
            },
            battery: false,
            packing: Packing::Packed,
            gather: true,
            convert_free: 40,
            convert_mirrored: 100,
            convert_pause: 0,
            skip_troubles: Numbers::default(),
            skip_requests: Numbers::default(),
            added: Vec::new(),
            growth: Vec::new(),
            growths: 0,
            grow: 0.0,
        };
        if later.chance(0.3) {
            plan.trouble = [0.05, 0.2, 0.5][later.below(3) as usize];
        }
        plan.corruption = plan.trouble.min(0.05) * [0.2, 0.2, 1.0][later.below(3) as usize];
        if plan.endings.is_empty() {
            plan.endings.push(Ending::PowerLoss);
        }
        if Rng::stream(seed, "plan, cut short", 0).chance(0.1) {
            plan.cut_writes_short();
        }
        let volume_max = plan.blocks_max().expect("the shape of a drawn pool") / volume_count;
        plan.volumes.iter_mut().for_each(|blocks| *blocks = volume_max.min(*blocks));
        plan.draw_models(later);
        plan.draw_policy(&mut Rng::stream(seed, "plan, policy", 0));
        // The few largest would take as long as all others together.
        let requests_max = match () {
            () if plan.has_disks() => 600,
            () if plan.members.iter().any(MemberPlan::is_flash) => 2000,
            () => 5000,
        };
        let lines = (plan.openings * plan.clients) as u64;
        plan.requests = plan.requests.min((requests_max / lines).max(20));
        // Mapped pools are the more there is to go wrong in.
        let arrays = &mut Rng::stream(seed, "plan, arrays", 0);
        if arrays.chance(0.25) {
            return plan.of_array(arrays);
        }
        plan.draw_growth(&mut Rng::stream(seed, "plan, growth", 0));
        plan
    }

    /// Large writes in sequence, ended by losses of power again and again: most that recovery does is about stripes that
    /// were being written.
    fn cut_writes_short(&mut self) {
        (self.sequential, self.writes, self.blocks_max, self.depth) = (95, 90, 260, 8);
        (self.openings, self.endings) = (6, vec![Ending::PowerLoss]);
        if self.checksums {
            (self.corrupt, self.lost) = (self.corrupt + self.lost, 0);
            (self.trouble, self.corruption) = (self.trouble.max(0.01), 0.01);
        }
        // The narrower the stripe, the sooner it is full.
        let drawn = std::mem::replace(&mut self.data_columns, 2);
        if self.geometry().is_err() {
            self.data_columns = drawn;
        }
    }

    /// Gives some or all members a model.
    fn draw_models(&mut self, rng: &mut Rng) {
        let share = [0.0, 0.0, 0.0, 0.5, 1.0][rng.below(5) as usize];
        // A pool of disks, or some in it, takes much virtual time.
        let kinds = if rng.chance(0.15) { MemberKind::ALL } else { &MemberKind::ALL[..6] };
        let alike = rng.chance(0.5).then(|| kinds[rng.between(1, kinds.len() as u64 - 1) as usize]);
        for member in &mut self.members {
            if !rng.chance(share) {
                continue;
            }
            member.kind = alike.unwrap_or_else(|| kinds[rng.between(1, kinds.len() as u64 - 1) as usize]);
            if member.is_flash() {
                member.traits = some_of(&[Trait::Aged, Trait::Compressing], 0.3, rng);
            }
        }
        // What runs out of space is a loss to the pool.
        let flash: Vec<usize> = (0..self.members.len()).filter(|&i| self.members[i].is_flash()).collect();
        if !flash.is_empty() && self.lost > 0 && rng.chance(0.4) {
            self.lost -= 1;
            self.members[flash[rng.below(flash.len() as u64) as usize]].traits = vec![Trait::Short];
        }
    }

    fn geometry(&self) -> Result<Geometry, GeometryError> {
        let members = self.members.len();
        Geometry::new(
            self.protection,
            self.data_columns,
            self.shards,
            self.checksums,
            members,
            self.journal_blocks,
        )
    }

    /// Blocks that all volumes together may have.
    fn blocks_max(&self) -> Result<u64, GeometryError> {
        let geometry = self.geometry()?;
        let mut chunks = 0;
        for member in &self.members {
            chunks += u64::from(geometry.member_layout(member.mebibytes << 20, self.members.len())?.chunks);
        }
        Ok(chunks * self.shards as u64 * u64::from(CHUNK_BLOCKS) * OVERCOMMIT)
    }

    /// Whether the plan can be played.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        self.members.iter().chain(&self.added).try_for_each(MemberPlan::check)?;
        if self.array.is_some() && self.growths > 0 || self.added.iter().any(MemberPlan::is_short) {
            return Err("only mapped pools grow, and not by what runs out of space".to_owned());
        }
        if self.members.is_empty() || self.volumes.is_empty() || self.volumes.contains(&0) {
            return Err("there must be members, and volumes of at least a block".to_owned());
        }
        let failures = match &self.array {
            Some(spec) => self.check_array(spec)?.layout.tolerates() as usize,
            None => self.check_mapped()?.failures(),
        };
        if self.members.iter().chain(&self.added).any(|m| m.mebibytes < 5 * self.shards as u64) {
            return Err(format!("a member has at least 5M for each of {} shards", self.shards));
        }
        let impaired = self.corrupt + self.lost + self.short();
        if impaired > failures {
            return Err(format!(
                "{impaired} members corrupt, lost or short at once are more than the {failures} that the pool survives"
            ));
        }
        if [self.hot, self.writes, self.sequential].iter().any(|&n| n > 100)
            || self.discards + self.flushes > 100
        {
            return Err("a share is at most 100 percent".to_owned());
        }
        if self.endings.is_empty() {
            return Err("endings must not be empty".to_owned());
        }
        let least = [("openings", self.openings), ("clients", self.clients), ("depth", self.depth)];
        match least.iter().find(|(_, n)| *n == 0) {
            Some((name, _)) => Err(format!("{name} must be at least 1")),
            None if self.blocks_max == 0 => Err("blocks_max must be at least 1".to_owned()),
            None => Ok(()),
        }
    }

    fn check_mapped(&self) -> Result<Geometry, String> {
        if self.corrupt > 0 && !self.checksums {
            return Err("members may corrupt data only with checksums".to_owned());
        }
        let (blocks, blocks_max) =
            (self.volumes.iter().sum::<u64>(), self.blocks_max().map_err(|e| e.to_string())?);
        if blocks > blocks_max {
            return Err(format!(
                "volumes of {blocks} blocks are more than the {blocks_max} that this pool may have"
            ));
        }
        self.geometry().map_err(|error| error.to_string())
    }

    /// Members whose space runs out.
    fn short(&self) -> usize {
        self.members.iter().filter(|m| m.is_short()).count()
    }

    /// The settings that are not what the seed says: `name=value`.
    pub fn overrides(&self) -> Vec<String> {
        let drawn = Plan::draw(self.seed).settings();
        let changed = self.settings().into_iter().zip(drawn).filter(|(mine, drawn)| mine != drawn);
        changed.map(|(mine, _)| format!("{}={}", mine.name, mine.value)).collect()
    }

    /// The command that plays the plan again.
    pub fn command(&self) -> String {
        let sets: String = self.overrides().iter().map(|set| format!(" --set {set}")).collect();
        format!("sinew torture --seed {}{sets}", self.seed)
    }

    /// Requests that the plan has, each with its number.
    pub(crate) fn request_count(&self) -> u64 {
        (self.openings as u64 + 1) * self.clients as u64 * self.requests
    }

    /// Whether a member has an arm to move: everything takes much longer.
    pub(crate) fn has_disks(&self) -> bool {
        self.members.iter().any(MemberPlan::is_disk)
    }
}

fn draw_troubles(seed: u64, rng: &mut Rng) -> Vec<Trouble> {
    let (last, others) = Trouble::ALL.split_last().expect("there are troubles");
    let mut troubles = some_of(others, 0.85, rng);
    troubles.extend(Rng::stream(seed, "plan, silence", 0).chance(0.85).then_some(*last));
    troubles
}

/// Each of them with some chance.
fn some_of<T: Copy>(all: &[T], chance: f64, rng: &mut Rng) -> Vec<T> {
    all.iter().copied().filter(|_| rng.chance(chance)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_has_a_plan_that_can_be_played() {
        for seed in 0..3000 {
            assert_eq!(Plan::draw(seed).check(), Ok(()), "seed {seed}");
        }
    }

    #[test]
    fn a_plan_survives_its_text() {
        for seed in 0..100 {
            let (from, mut to) = (Plan::draw(seed), Plan::draw(seed + 1));
            to.seed = seed;
            for setting in from.settings() {
                to.set(setting.name, &setting.value).unwrap();
            }
            assert_eq!(from, to);
            assert_eq!(to.overrides(), [""; 0]);
        }
    }

    #[test]
    fn wrong_settings_are_refused() {
        let mut plan = Plan::draw(1);
        for (name, value) in [
            ("speed", "1"),
            ("clients", "-1"),
            ("members", "6"),
            ("members", "6M:wood"),
            ("members", "6M:ultrastar:aged"),
            ("endings", "bang"),
            ("trouble", "2"),
            ("protection", "raid5"),
        ] {
            let told = plan.set(name, value).unwrap_err();
            assert!(told.contains(name) || told.contains("setting"), "{told}");
        }
        assert_eq!(plan, Plan::draw(1));
        plan.set("lost", "7").unwrap();
        assert!(plan.check().is_err());
    }
}
