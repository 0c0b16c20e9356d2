//! Which plans can be played.

use sinew_format::model::array_geometry::{ArrayGeometry, ArraySpec};
use sinew_format::model::mapped_geometry::MappedGeometry;
use sinew_layout::Level;

use super::events::Corruptor;
use super::member::MemberPlan;
use super::settings::Plan;

impl Plan {
    /// Plans with one setting made smaller.
    pub(crate) fn smaller(&self) -> Vec<Plan> {
        let mut all = self.smaller_unchecked();
        all.retain(|plan| plan.check().is_ok());
        all
    }

    /// Whether the plan can be played.
    ///
    /// # Errors
    /// The first setting or combination that is impossible.
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

    fn check_mapped(&self) -> Result<MappedGeometry, String> {
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

    /// Whether the plan's array can be played.
    fn check_array(&self, spec: &ArraySpec) -> Result<ArrayGeometry, String> {
        let geometry = self.array_geometry(spec)?;
        self.check_growth(spec)?;
        if self.tenancies > 0 {
            return Err("an array has one volume: tenancies must be 0".to_owned());
        }
        let silent = |kind: &Corruptor| !matches!(kind, Corruptor::Latent | Corruptor::ReadError);
        if self.corrupt > 0 && self.corruptions.iter().any(silent) {
            return Err("without checksums members may only fail to read: latent, read_error".to_owned());
        }
        if self.mirrored_shares.iter().any(|&share| share > 100) {
            return Err("a share is at most 100 percent".to_owned());
        }
        let impaired = self.corrupt + self.lost + self.short();
        if has_open_hole(&geometry) && impaired > 0 && self.may_crash() {
            return Err(
                "parity without a log survives no crash with a member out: endings must be close".to_owned()
            );
        }
        Ok(geometry)
    }

    fn check_growth(&self, spec: &ArraySpec) -> Result<(), String> {
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

/// Whether a crash while a member is out may lose data.
pub(super) fn has_open_hole(geometry: &ArrayGeometry) -> bool {
    geometry.parity_columns() > 0 && !geometry.journal
}
