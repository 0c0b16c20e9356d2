//! The plan of a seed.

use sinew_format::model::mapped_geometry::{MappedGeometry, Protection};
use sinew_format::model::policy::{Packing, Shares};
use sinew_members::latency::SpikeAvoidance;
use sinew_members::ring::group_form::GroupForm;

use super::events::{Corruptor, Ending, Trouble};
use super::growth::Growth;
use super::member::{MemberKind, MemberPlan, Trait};
use super::setting::Numbers;
use super::settings::Plan;
use crate::random::Rng;

/// Blocks that all volumes together may have per member block, so that the smallest pool drawn here takes them.
const OVERCOMMIT_SHARES: [u64; 3] = [3, 5, 20];
/// Devices added in a run at most.
const ADDED_MAX: u64 = 4;

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Plan {
        let rng = &mut Rng::stream(seed, "plan", 0);
        // A stream of its own, so that settings added later leave the other draws of a seed as they were.
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
        // Stripes with more blocks than one record of the journal can describe.
        let data_columns =
            if wide { later.between(16, (count - parity) as u64) as usize } else { data_columns };
        let geometry =
            MappedGeometry { protection, data_columns, shards, checksums: true, journal_blocks: 64 };
        let data_columns = if geometry.checked_for(count).is_ok() { data_columns } else { 0 };
        let failures = protection.failures() as u64;
        let checksums = rng.chance(0.85);
        let corrupt = if checksums && rng.chance(0.4) { rng.between(0, failures) } else { 0 };
        let lost = if rng.chance(0.8) { failures - corrupt } else { 0 };
        let fits = members.iter().map(|m| m.mebibytes).sum::<u64>() * 256;
        let share = OVERCOMMIT_SHARES[rng.below(3) as usize];
        let volume_count = rng.between(1, 3);
        let mut volumes: Vec<u64> =
            (0..volume_count).map(|_| rng.between(64, 64 + fits / share / volume_count)).collect();
        // Volumes of about the size of the pool, written completely.
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
            mirrored_shares: Vec::new(),
            governor: 0,
            governor_low: 80,
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
            limit: draw_limit(&mut Rng::stream(seed, "plan, limit", 0)),
            jitter: [60, 60, 60, 0, 2000][later.below(5) as usize],
            cache_writes: [1 << 16, 1 << 16, 16, 1][later.below(4) as usize],
            group_form: [GroupForm::Auto, GroupForm::Striped, GroupForm::Copies]
                [Rng::stream(seed, "plan, group form", 0).below(3) as usize],
            spike_avoidance: match Rng::stream(seed, "plan, step around", 0).below(8) {
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
            shares: [Shares::Balanced, Shares::Balanced, Shares::Latency, Shares::Off]
                [Rng::stream(seed, "plan, shares", 0).below(4) as usize],
            physical: 0,
            expect: 0,
            compressing: false,
            squeeze: 0.0,
            full_openings: 0.0,
            shared_space: 0,
            table_cache: 0,
            states_reach: !Rng::stream(seed, "plan, reach", 0).chance(0.1),
            pinned: 0,
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
        plan.draw_parts(&mut Rng::stream(seed, "plan, parts", 0));
        plan.draw_policy(&mut Rng::stream(seed, "plan, policy", 0));
        plan.draw_thin(&mut Rng::stream(seed, "plan, thin", 0));
        // The few largest would take as long as all others together.
        let requests_max = match () {
            () if plan.has_disks() => 600,
            () if plan.members.iter().any(MemberPlan::is_flash) => 2000,
            () => 5000,
        };
        let lines = (plan.openings * plan.clients) as u64;
        plan.requests = plan.requests.min((requests_max / lines).max(20));
        // Most plans are of mapped pools, which have more states.
        let arrays = &mut Rng::stream(seed, "plan, arrays", 0);
        if arrays.chance(0.25) {
            return plan.of_array(arrays);
        }
        plan.draw_pair(&mut Rng::stream(seed, "plan, pair", 0));
        plan.draw_growth(&mut Rng::stream(seed, "plan, growth", 0));
        plan.draw_table_cache(&mut Rng::stream(seed, "plan, table cache", 0));
        plan.draw_pinned(&mut Rng::stream(seed, "plan, pinned", 0));
        plan.draw_compressing(&mut Rng::stream(seed, "plan, mapped, compressing", 0));
        if plan.physical > 0 && Rng::stream(seed, "plan, full openings", 0).chance(0.5) {
            plan.full_openings = 0.2;
        }
        plan.draw_shared_space(&mut Rng::stream(seed, "plan, shared space", 0));
        plan
    }

    /// Large sequential writes, and power losses again and again: most of the work of recovery concerns stripes that were
    /// being written.
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
        // A member that runs out of space counts as lost.
        let flash: Vec<usize> = (0..self.members.len()).filter(|&i| self.members[i].is_flash()).collect();
        if !flash.is_empty() && self.lost > 0 && rng.chance(0.4) {
            self.lost -= 1;
            self.members[flash[rng.below(flash.len() as u64) as usize]].traits = vec![Trait::Short];
        }
    }

    /// In a few plans, SSDs have parts and redundancy inside.
    fn draw_parts(&mut self, rng: &mut Rng) {
        if !rng.chance(0.08) {
            return;
        }
        let may_have = |member: &&mut MemberPlan| member.is_flash() && member.kind != MemberKind::Consumer;
        for member in self.members.iter_mut().filter(may_have) {
            let drawn = some_of(&[Trait::SlcCache, Trait::MappingCache, Trait::Levelled], 0.5, rng);
            let stripes = [None, None, Some(Trait::Raid5), Some(Trait::Esap)][rng.below(4) as usize];
            for part in drawn.into_iter().chain(stripes) {
                member.traits.push(part);
                // Not all go together.
                if member.check().is_err() {
                    member.traits.pop();
                }
            }
        }
    }

    /// Some pools are on thin members, whose physical space another tenant takes from time to time.
    fn draw_thin(&mut self, rng: &mut Rng) {
        if rng.chance(0.15) {
            self.physical = 100;
            self.squeeze = [0.005, 0.02, 0.1][rng.below(3) as usize];
        }
    }

    /// Some mapped pools have volumes of mirrors beside those with parity.
    fn draw_pinned(&mut self, rng: &mut Rng) {
        if rng.chance(0.25) {
            self.pinned = rng.between(1, self.volumes.len() as u64) as usize;
            if rng.chance(0.5) {
                self.tenancies = self.tenancies.max(rng.between(1, 6));
            }
        }
    }

    /// Some mapped pools have little memory for their tables.
    fn draw_table_cache(&mut self, rng: &mut Rng) {
        if rng.chance(0.15) {
            self.table_cache = [1, 1, 8, 32][rng.below(4) as usize];
        }
    }

    /// Half of the mapped pools on thin members have some that compress, so that a write may be refused after its first blocks.
    fn draw_compressing(&mut self, rng: &mut Rng) {
        if self.physical > 0 && rng.chance(0.5) {
            self.compressing = true;
            self.physical = [60, 100, 100][rng.below(3) as usize];
            self.squeeze = [0.02, 0.1, 1.0][rng.below(3) as usize];
        }
    }

    /// The first members of some pools on thin members share their physical space, as files of a file system do.
    pub(super) fn draw_shared_space(&mut self, rng: &mut Rng) {
        if self.physical > 0 && rng.chance(0.3) {
            self.shared_space = rng.between(2, self.members.len().max(2) as u64) as usize;
        }
    }

    /// Some pools have another policy than the default.
    fn draw_policy(&mut self, rng: &mut Rng) {
        if rng.chance(0.7) {
            return;
        }
        if rng.chance(0.5) {
            self.packing = Packing::WholeChunks;
        }
        self.battery = rng.chance(0.3);
        self.gather = rng.chance(0.7);
        self.convert_free = [0, 10, 40, 100][rng.below(4) as usize];
        self.convert_mirrored = [100, 100, 10, 0][rng.below(4) as usize];
        self.convert_pause = [0, 0, 1_000_000, 40_000_000][rng.below(4) as usize];
    }

    /// Some mirrors have two members, so that one holds everything while the other is out.
    fn draw_pair(&mut self, rng: &mut Rng) {
        if self.protection != (Protection::Mirror { copies: 2 }) || !rng.chance(0.3) {
            return;
        }
        self.members.truncate(2);
        self.data_columns = [0, 0, 2][rng.below(3) as usize];
        let volume_max = self.blocks_max().expect("the shape of a pair") / self.volumes.len() as u64;
        self.volumes.iter_mut().for_each(|blocks| *blocks = volume_max.min(*blocks));
    }

    /// Half of all mapped pools grow or shrink, by devices like their members, some of them of other sizes.
    fn draw_growth(&mut self, rng: &mut Rng) {
        if !rng.chance(0.5) {
            return;
        }
        let least = 5 * self.shards as u64;
        for _ in 0..rng.between(1, ADDED_MAX) {
            let mut member = self.members[rng.below(self.members.len() as u64) as usize].clone();
            member.traits.retain(|t| *t != Trait::Short);
            if rng.chance(0.4) {
                member.mebibytes = (member.mebibytes * rng.between(60, 250) / 100).max(least);
            }
            self.added.push(member);
        }
        self.growth = match rng.below(4) {
            0 => vec![Growth::Add],
            1 => vec![Growth::Remove, Growth::Keep],
            _ => vec![Growth::Add, Growth::Remove, Growth::Keep],
        };
        if Rng::stream(self.seed, "plan, weights", 0).chance(0.3) {
            self.growth.push(Growth::Weigh);
        }
        self.growths = rng.between(1, 12);
        self.grow = [0.005, 0.02, 0.1][rng.below(3) as usize];
    }

    /// The settings that differ from those of the seed: `name=value`.
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
}

fn draw_troubles(seed: u64, rng: &mut Rng) -> Vec<Trouble> {
    let (last, others) = Trouble::ALL.split_last().expect("there are troubles");
    let mut troubles = some_of(others, 0.85, rng);
    troubles.extend(Rng::stream(seed, "plan, silence", 0).chance(0.85).then_some(*last));
    troubles
}

/// Some volumes have limits that are less than what members can do.
fn draw_limit(rng: &mut Rng) -> u64 {
    if rng.chance(0.15) { [1000, 2000, 8000][rng.below(3) as usize] } else { 0 }
}

/// Each element with this chance.
fn some_of<T: Copy>(all: &[T], chance: f64, rng: &mut Rng) -> Vec<T> {
    all.iter().copied().filter(|_| rng.chance(chance)).collect()
}
