//! How an array of a plan grows.

use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::array_growth::GrowMethod;
use sinew_layout::Level;

use super::setting::Value;
use super::{MemberPlan, Plan};
use crate::random::Rng;

/// Members of a grown array at most: all its blocks are read at each opening.
const MEMBERS_MAX: usize = 10;

/// Additions of members, one after the other. The members are the last ones of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayGrowth {
    /// How what is there is brought onto them.
    pub method: GrowMethod,
    /// Members of each addition.
    pub added: Vec<usize>,
}

impl ArrayGrowth {
    pub(super) fn draw(rng: &mut Rng) -> ArrayGrowth {
        let method = GrowMethod::STRIPED[rng.below(GrowMethod::STRIPED.len() as u64) as usize];
        ArrayGrowth { method, added: (0..rng.between(1, 2)).map(|_| rng.between(1, 3) as usize).collect() }
    }
}

impl Plan {
    /// The members that the pool is made of at first.
    pub(crate) fn first_members(&self) -> usize {
        let later = self.growing_array().iter().flat_map(|growth| &growth.added).sum();
        self.members.len().saturating_sub(later)
    }

    /// How the array grows, if the pool is one.
    pub(crate) fn growing_array(&self) -> Option<&ArrayGrowth> {
        self.array.and(self.array_growth.as_ref())
    }

    /// Gives the plan an array that can grow, and the members for it.
    pub(super) fn make_growing(&mut self, mut growth: ArrayGrowth, rng: &mut Rng) {
        let Some(spec) = &mut self.array else { return };
        let copies = if rng.chance(0.7) { rng.between(2, 3) as usize } else { 1 };
        spec.level = if copies > 1 { Level::Raid10 { copies: copies as u32 } } else { Level::Raid0 };
        spec.spares = 0;
        let sets = if copies > 1 { rng.between(1, 2) } else { rng.between(1, 4) } as usize;
        self.members.resize(sets * copies, MemberPlan::plain(5 * self.shards as u64));
        let smallest = self.members.iter().map(|m| m.mebibytes).min().unwrap_or(0);
        let plain = MemberPlan::plain(smallest);
        growth.added.iter_mut().for_each(|added| *added *= copies);
        growth.added.retain(|added| self.members.len() + added <= MEMBERS_MAX);
        self.members.extend(std::iter::repeat_n(plain, growth.added.iter().sum()));
        self.array_growth = (!growth.added.is_empty()).then_some(growth);
    }

    /// Has an array with parity grow, and gives it the members for it.
    pub(super) fn make_parity_growing(&mut self, rng: &mut Rng) {
        let Some(spec) = self.array else { return };
        let mut method = if rng.chance(0.65) { GrowMethod::Spread } else { GrowMethod::Restripe };
        let added: Vec<usize> = (0..rng.between(1, 3)).map(|_| rng.between(1, 3) as usize).collect();
        let cut = [0.0, 0.01, 0.05][rng.below(3) as usize];
        let openings = rng.between(2, 8) as usize;
        // A few members more than the level needs, so that there is room for others.
        self.members.truncate(6);
        let smallest = self.members.iter().map(|m| m.mebibytes).min().unwrap_or(0);
        let mut count = self.members.len();
        let fits = |added: &usize| {
            count += added;
            count <= MEMBERS_MAX
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

    pub(super) fn check_growth(&self, spec: &ArraySpec) -> Result<(), String> {
        let Some(growth) = &self.array_growth else { return Ok(()) };
        let copies = match spec.level {
            Level::Raid0 => 1,
            Level::Raid10 { copies } => copies as usize,
            Level::Raid5(_) | Level::Raid6(_) => 1,
            _ => return Err("only levels 0, 10, 5 and 6 grow".to_owned()),
        };
        let has_parity = matches!(spec.level, Level::Raid5(_) | Level::Raid6(_));
        if growth.method.is_for_parity() != has_parity {
            return Err(format!("{} is not a method for this level", growth.method.name()));
        }
        let sets = |members: usize| members > 0 && members.is_multiple_of(copies);
        let first = self.first_members().checked_sub(spec.spares);
        if first.is_some_and(sets)
            && growth.added.iter().all(|&added| sets(added))
            && !growth.added.is_empty()
        {
            Ok(())
        } else {
            Err(format!("an array of {copies} copies grows by sets of {copies} members"))
        }
    }
}

/// `none`, or a method and the members of each addition: `fastscale+2+1`.
impl Value for Option<ArrayGrowth> {
    fn show(&self) -> String {
        let Some(growth) = self else { return "none".to_owned() };
        let added: String = growth.added.iter().map(|added| format!("+{added}")).collect();
        format!("{}{added}", growth.method.name())
    }

    fn parse(text: &str) -> Result<Option<ArrayGrowth>, String> {
        if text == "none" {
            return Ok(None);
        }
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or_default();
        let method = GrowMethod::ALL.into_iter().find(|method| method.name() == name);
        let added: Option<Vec<usize>> = parts.map(|part| part.parse().ok().filter(|&n| n > 0)).collect();
        match (method, added) {
            (Some(method), Some(added)) if !added.is_empty() => Ok(Some(ArrayGrowth { method, added })),
            _ => Err("none, or a method and the members of each addition, such as fastscale+2+1".to_owned()),
        }
    }

    fn smaller(&self) -> Vec<Option<ArrayGrowth>> {
        let Some(growth) = self else { return Vec::new() };
        let mut all = vec![None];
        if growth.added.len() > 1 {
            let added = growth.added[..growth.added.len() - 1].to_vec();
            all.push(Some(ArrayGrowth { added, ..growth.clone() }));
        }
        all
    }
}
