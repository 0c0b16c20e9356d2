//! The array of a seed, and its growth.

use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::form::Elastic;
use sinew_layout::{Level, ParityWeights, Rotation};

use super::array_growth::ArrayGrowth;
use super::check::has_open_hole;
use super::events::{Corruptor, Ending};
use super::member::{MemberPlan, Trait};
use super::settings::Plan;
use crate::random::Rng;

/// Members of an array at most: all its blocks are read at each opening.
const MEMBERS_MAX: usize = 11;
/// Members of a grown array at most.
const GROWN_MEMBERS_MAX: usize = 10;
/// Blocks of a request at most.
const BLOCKS_MAX: u64 = 260;

impl Plan {
    /// The same work and trouble on an array.
    pub(super) fn of_array(mut self, rng: &mut Rng) -> Plan {
        self.members.truncate(MEMBERS_MAX);
        let spares = if self.members.len() > 4 && rng.chance(0.25) { rng.between(1, 2) as usize } else { 0 };
        let (level, count) = draw_level(rng, self.members.len() - spares);
        self.members.truncate(count + spares);
        let chunk_bytes = [4096, 8192, 16384, 65536][rng.below(4) as usize];
        let (journal, zeroed) = (rng.chance(0.7), rng.chance(0.7));
        let spec = ArraySpec { level, chunk_bytes, journal, spares, zeroed, elastic: None };
        self.array = Some(spec);
        let grows = &mut Rng::stream(self.seed, "plan, growth", 0);
        if grows.chance(0.25) {
            let growth = ArrayGrowth::draw(grows);
            self.make_growing(growth, grows);
        }
        let with_parity = &mut Rng::stream(self.seed, "plan, growth with parity", 0);
        let level = self.array.map(|spec| spec.level);
        let may_grow =
            matches!(level, Some(Level::Raid5(_) | Level::Raid6(_))) && self.array_growth.is_none();
        if may_grow && with_parity.chance(0.35) {
            self.make_parity_growing(with_parity);
        }
        self.make_elastic(&mut Rng::stream(self.seed, "plan, elastic", 0));
        self.make_weighted(&mut Rng::stream(self.seed, "plan, parity weights", 0));
        let spec = self.array.unwrap_or(spec);
        self.tenancies = 0;
        // A large write takes many more steps than in a mapped pool, because it goes through a small log.
        self.blocks_max = self.blocks_max.min(BLOCKS_MAX);
        // Without checksums silent corruption cannot be detected.
        self.corruptions.retain(|kind| matches!(kind, Corruptor::Latent | Corruptor::ReadError));
        let Ok(geometry) = self.array_geometry(&spec) else { return self };
        let failures = geometry.layout.tolerates() as usize;
        let is_open = has_open_hole(&geometry);
        let is_calm = is_open && rng.chance(0.5);
        self.corrupt = if is_open || rng.chance(0.6) { 0 } else { rng.below(failures as u64 + 1) as usize };
        if self.corrupt + self.short() > failures || is_open && !is_calm {
            self.members.iter_mut().for_each(|m| m.traits.retain(|t| *t != Trait::Short));
        }
        self.lost = if is_open && !is_calm { 0 } else { failures - self.corrupt - self.short() };
        if is_calm {
            self.endings = vec![Ending::Close];
        }
        self.make_tight(&mut Rng::stream(self.seed, "plan, tight", 0));
        self.draw_shared_space(&mut Rng::stream(self.seed, "plan, array, shared space", 0));
        self.draw_expect(&mut Rng::stream(self.seed, "plan, array, expect", 0));
        if self.physical > 0 && Rng::stream(self.seed, "plan, array, full openings", 0).chance(0.25) {
            self.full_openings = 0.2;
        }
        self
    }

    /// Gives the members of some elastic arrays less physical space than the clients want.
    fn make_tight(&mut self, rng: &mut Rng) {
        let is_elastic = self.array.is_some_and(|spec| spec.elastic.is_some());
        if is_elastic && self.physical == 0 && self.short() == 0 && self.corrupt == 0 && rng.chance(0.4) {
            self.physical = [40, 60, 80][rng.below(3) as usize];
        }
        let rng = &mut Rng::stream(self.seed, "plan, compressing", 0);
        if is_elastic && self.physical > 0 && rng.chance(0.5) {
            self.compressing = true;
            self.physical = self.physical.min([15, 25, 40, 60][rng.below(4) as usize]);
        }
    }

    /// Plans the capacity of some elastic arrays by the physical space of their members.
    fn draw_expect(&mut self, rng: &mut Rng) {
        if self.is_elastic() && self.physical > 0 && rng.chance(0.4) {
            self.expect = [1500, 2000, 4000][rng.below(3) as usize];
        }
    }

    /// Makes the array one whose stripes change between parity and mirrors, perhaps.
    fn make_elastic(&mut self, rng: &mut Rng) {
        let Some(spec) = &mut self.array else { return };
        let may_be = matches!(spec.level, Level::Raid5(_) | Level::Raid6(_)) && spec.journal;
        let grows = self.array_growth.is_some();
        if !may_be
            || !rng.chance(0.7)
            || grows && !Rng::stream(self.seed, "plan, elastic growth", 0).chance(0.5)
        {
            return;
        }
        spec.elastic = Some(Elastic::BY_ADDRESSES);
        self.mirrored_shares =
            (0..rng.between(1, 4)).map(|_| [0, 20, 60, 100][rng.below(4) as usize]).collect();
        let governor = &mut Rng::stream(self.seed, "plan, governor", 0);
        self.governor = [0, 1, 5, 20, 200][governor.below(5) as usize];
        self.governor_low = [10, 30, 50, 80][governor.below(4) as usize];
        // Discards of whole stripes make them empty.
        if rng.chance(0.5) {
            self.discards = self.discards.max(rng.between(5, 30)).min(100 - self.flushes);
        }
    }

    /// Gives the members of some arrays with parity unequal shares of it.
    fn make_weighted(&mut self, rng: &mut Rng) {
        let members = self.members.len();
        let Some(spec) = &mut self.array else { return };
        let parities = match spec.level {
            Level::Raid5(_) => 1,
            Level::Raid6(_) => 2,
            _ => return,
        };
        if spec.elastic.is_some() || self.array_growth.is_some() || !rng.chance(0.4) {
            return;
        }
        let weights: Vec<u8> = (spec.spares..members).map(|_| rng.below(6) as u8).collect();
        let Some(weights) = ParityWeights::new(&weights).ok().filter(|weights| weights.allow(parities))
        else {
            return;
        };
        let rotation = Rotation::Weighted(weights);
        spec.level = if parities == 1 { Level::Raid5(rotation) } else { Level::Raid6(rotation) };
    }

    /// Makes the array one that can grow without parity, and adds the members for it.
    fn make_growing(&mut self, mut growth: ArrayGrowth, rng: &mut Rng) {
        let Some(spec) = &mut self.array else { return };
        let copies = if rng.chance(0.7) { rng.between(2, 3) as usize } else { 1 };
        spec.level = if copies > 1 { Level::Raid10 { copies: copies as u32 } } else { Level::Raid0 };
        spec.spares = 0;
        let sets = if copies > 1 { rng.between(1, 2) } else { rng.between(1, 4) } as usize;
        self.members.resize(sets * copies, MemberPlan::plain(5 * self.shards as u64));
        let smallest = self.members.iter().map(|m| m.mebibytes).min().unwrap_or(0);
        let plain = MemberPlan::plain(smallest);
        growth.added.iter_mut().for_each(|added| *added *= copies);
        growth.added.retain(|added| self.members.len() + added <= GROWN_MEMBERS_MAX);
        self.members.extend(std::iter::repeat_n(plain, growth.added.iter().sum()));
        self.array_growth = (!growth.added.is_empty()).then_some(growth);
    }

    /// Makes an array with parity grow, and adds the members for it.
    fn make_parity_growing(&mut self, rng: &mut Rng) {
        let Some(spec) = self.array else { return };
        let mut method = if rng.chance(0.65) { GrowMethod::Spread } else { GrowMethod::Restripe };
        let added: Vec<usize> = (0..rng.between(1, 3)).map(|_| rng.between(1, 3) as usize).collect();
        let cut = [0.0, 0.01, 0.05][rng.below(3) as usize];
        let openings = rng.between(2, 8) as usize;
        // Few members at first, so that there is room for additions.
        self.members.truncate(6);
        let smallest = self.members.iter().map(|m| m.mebibytes).min().unwrap_or(0);
        let mut count = self.members.len();
        let fits = |added: &usize| {
            count += added;
            count <= GROWN_MEMBERS_MAX
        };
        let added: Vec<usize> = added.into_iter().take_while(fits).collect();
        let all = self.members.len() + added.iter().sum::<usize>() - spec.spares;
        let room = self.array_geometry(&spec).map_or(0, |geometry| {
            u64::from(geometry.log_blocks) / (2 + geometry.parity_columns() as u64) * 3 / 4
        });
        let row = all as u64 * u64::from(spec.chunk_bytes / 4096);
        if self.shards > 1 || row > room {
            method = GrowMethod::Spread;
        }
        self.members.extend(std::iter::repeat_n(MemberPlan::plain(smallest), added.iter().sum()));
        self.array_growth = Some(ArrayGrowth { method, added });
        self.growth_cut = cut;
        self.openings = self.openings.max(openings);
    }
}

/// A level for at most `members` members, and the number of members that it takes.
fn draw_level(rng: &mut Rng, members: usize) -> (Level, usize) {
    let rotation = Rotation::ALL[rng.below(4) as usize];
    let even = members / 2 * 2;
    let few = |rng: &mut Rng, least: u64| rng.between(least, (least + 3).min(members as u64)) as usize;
    match rng.below(10) {
        0 => (Level::Raid0, few(rng, 1)),
        1 => (Level::Raid1, few(rng, 2)),
        2 => {
            let copies = rng.between(2, 3.min(members as u64 - 1)) as u32;
            (Level::Raid10 { copies }, few(rng, u64::from(copies) + 1))
        }
        6 | 7 if members >= 4 => (Level::Raid6(rotation), members),
        8 if members >= 4 => (Level::Raid50 { groups: 2, rotation }, even),
        9 if members >= 8 => (Level::Raid60 { groups: 2, rotation }, even),
        _ => (Level::Raid5(rotation), members),
    }
}
