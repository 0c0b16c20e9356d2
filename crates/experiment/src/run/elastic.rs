//! Elastic arrays in a run: the share of mirrored stripes before the load, a conversion during measurement, and what the array was
//! like at the end.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::io::Io;
use sinew_engine::control::ControlError;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_members::status::ShardStatus;
use sinew_sim::{OpenPool, World};

use crate::file::spec::Spec;
use crate::results::simulated::{ConversionResult, ElasticResult, Interval};
use crate::system::members::Member;
use crate::{Error, Result};

/// How often the end of a conversion is looked for.
const CHECK_NS: u64 = 1_000_000;
/// An array has at most this number of shards, each of which rounds its share down.
const SHARDS_MAX: u64 = 64;
/// Time without load after which a conversion that has not ended cannot.
const SETTLING_NS: u64 = 3_600_000_000_000;

/// Gives the stripes of a filled array the forms in which the load finds them, and takes members out.
///
/// # Errors
/// [`Error::Engine`] if the engine refuses an operation, or the conversion does not end.
pub(crate) fn prepare(world: &World, spec: &Spec, pool: &OpenPool, members: usize) -> Result<()> {
    if let Some(elastic) = spec.elastic() {
        let policy = elastic.policy(elastic.mirrored_share);
        let (control, io) = (Rc::clone(&pool.control), world.io());
        let settled = world.block_on(async move {
            control.set_elastic_policy(policy).await?;
            let end = io.now() + SETTLING_NS;
            while !has_share(&control.status().await?, policy.mirrored_share) {
                if io.now() > end {
                    return Ok(false);
                }
                io.sleep(CHECK_NS).await;
            }
            Ok::<_, ControlError>(true)
        });
        let settled = settled.map_err(|stuck| Error::engine("converting the stripes", stuck))?;
        if !settled.map_err(|error| Error::engine("converting the stripes", error))? {
            let why = "the members have no space for this share of mirrored stripes";
            return Err(Error::setting("array.elastic.mirrored_share", why));
        }
    }
    for member in members - spec.array.out..members {
        let control = Rc::clone(&pool.control);
        let out = world.block_on(async move { control.offline(member).await });
        let out = out.map_err(|stuck| Error::engine("taking a member out", stuck))?;
        out.map_err(|error| Error::engine("taking a member out", error))?;
    }
    Ok(())
}

/// Whether this percentage of the stripes that store something is mirrored, but for a stripe of each shard; without a percentage
/// any share will do. A shard counts what is left to convert only once it has taken the policy.
fn has_share(status: &ShardStatus, percent: Option<u8>) -> bool {
    let Some(percent) = percent else { return true };
    let target = (status.stripes_mirrored + status.stripes_parity) * u64::from(percent) / 100;
    status.conversions_left == 0 && status.stripes_mirrored.abs_diff(target) <= SHARDS_MAX
}

/// A conversion of stripes under way.
pub(crate) struct Conversion {
    began: u64,
    ended: Rc<Cell<Option<u64>>>,
    before: ShardStatus,
}

impl Conversion {
    /// Begins to convert stripes to the share of the file, if it has one.
    ///
    /// # Errors
    /// [`Error::Engine`] if the engine refuses it.
    pub(crate) fn start(world: &World, spec: &Spec, pool: &OpenPool) -> Result<Option<Conversion>> {
        let Some(elastic) = spec.elastic().filter(|elastic| elastic.convert_to.is_some()) else {
            return Ok(None);
        };
        let before = status(world, pool)?;
        let ended: Rc<Cell<Option<u64>>> = Rc::default();
        let (control, io, end) = (Rc::clone(&pool.control), world.io(), Rc::clone(&ended));
        let convert_rate = elastic.convert_rate.map_or(0, |rate| rate.0);
        let policy = ElasticPolicy { convert_rate, ..elastic.policy(elastic.convert_to) };
        world.spawn(async move {
            if control.set_elastic_policy(policy).await.is_err() {
                return;
            }
            while control.status().await.is_ok_and(|status| !has_share(&status, policy.mirrored_share)) {
                io.sleep(CHECK_NS).await;
            }
            end.set(Some(io.now()));
        });
        Ok(Some(Conversion { began: world.now(), ended, before }))
    }

    /// Whether all stripes have the form that they should.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// What was converted until now.
    ///
    /// # Errors
    /// [`Error::Engine`] if the array does not report its status.
    pub(crate) fn result(&self, world: &World, pool: &OpenPool) -> Result<ConversionResult> {
        let (before, after) = (&self.before.counters, status(world, pool)?.counters);
        let promoted = after.stripes_promoted - before.stripes_promoted;
        let demoted = after.stripes_demoted - before.stripes_demoted;
        let array = *pool.control.config().geometry.array().expect("an elastic array");
        let stripe_bytes = array.stripe_blocks() * BLOCK_BYTES as u64;
        let bytes = (promoted + demoted) * stripe_bytes;
        let took_ns = self.ended.get().unwrap_or(world.now()) - self.began;
        let bytes_per_s = bytes as f64 / (took_ns as f64 / 1e9);
        Ok(ConversionResult { promoted, demoted, bytes, took_ns, bytes_per_s, ended: self.has_ended() })
    }
}

fn status(world: &World, pool: &OpenPool) -> Result<ShardStatus> {
    let control = Rc::clone(&pool.control);
    let status = world.block_on(async move { control.status().await });
    let status = status.map_err(|stuck| Error::engine("reading the status", stuck))?;
    status.map_err(|error| Error::engine("reading the status", error))
}

/// The state of an elastic array; `None` for other systems.
///
/// # Errors
/// [`Error::Engine`] if the array does not report its status.
pub(crate) fn result(
    world: &World,
    spec: &Spec,
    pool: Option<&OpenPool>,
    members: &[Member],
    series: &[Interval],
    converted: Option<ConversionResult>,
) -> Result<Option<ElasticResult>> {
    let Some((elastic, pool)) = spec.elastic().zip(pool) else { return Ok(None) };
    let status = status(world, pool)?;
    let array = *pool.control.config().geometry.array().expect("an elastic array");
    let (mirrored, parity) = (status.stripes_mirrored as f64, status.stripes_parity as f64);
    let ratio = |of: u64, stored: u64| (stored > 0).then(|| of as f64 / stored as f64);
    let governor = status.governor;
    let data_ratio = ratio(governor.data_bytes, governor.data_stored_bytes);
    let parity_ratio = ratio(governor.parity_bytes, governor.parity_stored_bytes);
    let limit: u64 =
        spec.members.iter().map(|group| group.physical.map_or(0, |p| p.0) * group.count as u64).sum();
    let used: u64 = members.iter().map(|member| world.device(member.device).physical_used()).sum();
    let before_data = 0..array.data_offset();
    let structures =
        members.iter().map(|member| world.device(member.device).physical_used_in(before_data.clone())).sum();
    let space = Space { limit, structures, data: status.stored_bytes, columns: array.data_columns() as f64 };
    let closed_form_share = data_ratio
        .zip(parity_ratio)
        .filter(|_| limit > 0)
        .map(|(data, parity)| space.share(data, parity, &elastic.policy(None)));
    Ok(Some(ElasticResult {
        stripes_empty: status.stripes_empty,
        stripes_parity: status.stripes_parity,
        stripes_mirrored: status.stripes_mirrored,
        share: mirrored / (mirrored + parity).max(1.0),
        closed_form_share,
        data_ratio,
        parity_ratio,
        physical_bytes: limit,
        physical_used_bytes: used,
        physical_used_most_bytes: series
            .iter()
            .map(|interval| interval.physical_used_bytes)
            .max()
            .unwrap_or(used),
        hits: (governor.requests > 0).then(|| governor.hits as f64 / governor.requests as f64),
        converted,
    }))
}

/// The space of an elastic array, for the closed form.
struct Space {
    /// Physical bytes of all members.
    limit: u64,
    /// Of these, what superblocks, logs and pages of forms take, which the paper leaves out.
    structures: u64,
    /// Bytes that clients store.
    data: u64,
    /// n: data columns of a stripe.
    columns: f64,
}

impl Space {
    /// The share of mirrored stripes that fills the physical space up to the lower limit, when data and parity compress so. With
    /// parity, a byte takes 1/a_usr + 1/(n a_pty), mirrored 2/a_usr (Elastic RAID, section 3.3): figures 9 and 10 solve this for
    /// the share.
    fn share(&self, data_ratio: f64, parity_ratio: f64, policy: &ElasticPolicy) -> f64 {
        let room = self.limit as f64 * f64::from(policy.low) / 100.0 - self.structures as f64;
        let room = room / self.data.max(1) as f64;
        let (data, parity) = (1.0 / data_ratio, 1.0 / (self.columns * parity_ratio));
        let copies = data - parity;
        // Where copies take no more than parity, all stripes are mirrored.
        if copies <= 0.0 { 1.0 } else { ((room - data - parity) / copies).clamp(0.0, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of the paper about figures 9 and 10, for n = 3 and (a_usr - 1) = 4 (a_pty - 1).
    #[test]
    fn the_closed_form_gives_the_shares_that_the_paper_tells() {
        let share = |expect: f64, filled: f64, data_ratio: f64| {
            let parity_ratio = 1.0 + (data_ratio - 1.0) / 4.0;
            // Four members of 1000 units, of which the array exposes expect * 3 * 1000.
            let data = (expect * 3000.0 * filled) as u64;
            let space = Space { limit: 4000, structures: 0, data, columns: 3.0 };
            space.share(data_ratio, parity_ratio, &ElasticPolicy { low: 100, ..ElasticPolicy::DEFAULT })
        };
        // Figure 9: with a_exp of 1.0 all data is mirrored at 1.6, with 1.8 at 2.8.
        assert!(share(1.0, 1.0, 1.6) >= 0.99 && share(1.0, 1.0, 1.4) < 0.99);
        assert!(share(1.8, 1.0, 2.8) >= 0.99 && share(1.8, 1.0, 2.6) < 0.99);
        // "Over 40 %" more from 1.2 to 1.4.
        let more = share(1.0, 1.0, 1.4) - share(1.0, 1.0, 1.2);
        assert!((0.40..0.43).contains(&more), "{more}");
        // Figure 10: almost 0 %, 25 % and 68 % at a ratio of 2.
        let at: Vec<f64> = [1.0, 0.9, 0.8].map(|filled| share(1.8, filled, 2.0)).to_vec();
        assert!(at[0] < 0.02 && (at[1] - 0.25).abs() < 0.02 && (at[2] - 0.68).abs() < 0.02, "{at:?}");
    }
}
