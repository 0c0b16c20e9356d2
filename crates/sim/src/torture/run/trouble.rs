//! Trouble: failures of members, and orders of operators, while clients work.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::io::Io;
use sinew_engine::pool::Candidate;
use sinew_format::model::config::MemberState;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::volume_limits::VolumeLimits;
use sinew_members::latency::SpikeAvoidance;
use sinew_members::status::ShardStatus;
use sinew_members::throttle::Limits;

use crate::device::CrashPolicy;
use crate::faults::DeviceFaults;
use crate::host::OpenPool;
use crate::random::Rng;
use crate::torture::failure::Kind;
use crate::torture::plan::Trouble;

use super::acts::HANG_NS;
use super::parts;
use super::state::{Run, array_of, is_growing, is_whole, path_of};

/// Time after which the consequences of a trouble are over: longer than any stall.
const QUIET_NS: u64 = 200_000_000;
/// The same with disks: longer than any queue.
const QUIET_DISK_NS: u64 = 20_000_000_000;

/// How long other tenants keep physical space.
const SQUEEZE_NS: (u64, u64) = (1_000_000, 400_000_000);
/// Bytes that they leave of it at most.
const SQUEEZE_ROOM: u64 = 256 << 10;

/// Checks of the world without an answer to a client after which no member becomes silent.
const PATIENCE: u32 = 2000;

impl Run {
    /// Causes one trouble, or lets members count as whole again. Each trouble draws from a stream of its own, so that leaving
    /// one out changes no other.
    pub(super) fn trouble(&mut self, pool: &Rc<OpenPool>) {
        let number = self.troubles;
        self.troubles += 1;
        self.count_given_up(pool);
        let plan = &self.work.plan;
        let mut rng = Rng::stream(plan.seed, "trouble", number);
        let member = rng.below(self.devices.borrow().len() as u64) as usize;
        let trouble = match rng.below(18) {
            0 | 1 => Trouble::Detach,
            2 => Trouble::Offline,
            3 => Trouble::Fail,
            4 | 5 => Trouble::Online,
            6 => Trouble::Replace,
            7 => Trouble::Spare,
            8 | 9 => Trouble::Evacuate,
            10 => Trouble::Impostor,
            11 => Trouble::OfflineNeeded,
            12 => Trouble::Scrub,
            13 => Trouble::Slow,
            14 => Trouble::Throttle,
            15 => Trouble::HungDevices,
            _ => return self.forget_losses(pool),
        };
        // A member that is silenced again and again answers nothing that the pool could go on with.
        if trouble == Trouble::HungDevices && self.unanswered >= PATIENCE {
            return;
        }
        if plan.troubles.contains(&trouble) && !plan.skip_troubles.contains(number) {
            self.cause(pool, trouble, number, member, &mut rng);
        }
    }

    /// Counts members as lost that were given up because they were slow: the pool can do without them, but not without others as
    /// well.
    fn count_given_up(&mut self, pool: &OpenPool) {
        let given_up = |&member: &usize| {
            let is_given_up = self.device(member).is_abandoned() && self.place_of(pool, member).is_some();
            is_given_up && !self.lost.contains(&member)
        };
        let given_up: Vec<usize> = self.members().filter(given_up).collect();
        given_up.into_iter().for_each(|member| self.lose(member));
    }

    /// Other tenants take physical space of some members, or of all, for a while.
    pub(super) fn squeeze(&mut self) {
        let rng = &mut self.squeeze_rng;
        let share = [1.0, 0.6, 0.2][rng.below(3) as usize];
        let ns = rng.between(SQUEEZE_NS.0, SQUEEZE_NS.1);
        let chosen: Vec<(usize, u64)> = (0..self.devices.borrow().len())
            .map(|member| (rng.chance(share), rng.below(SQUEEZE_ROOM), member))
            .filter_map(|(is_chosen, room, member)| is_chosen.then_some((member, room)))
            .collect();
        self.note(|| format!("other tenants take the space of members {chosen:?} for {ns} ns"));
        chosen.into_iter().for_each(|(member, room)| self.device(member).squeeze(room, ns));
    }

    /// Sometimes other tenants take what physical space is left, but for a block at most, before an opening.
    pub(super) fn fill_before_opening(&mut self) {
        let share = self.work.plan.full_openings;
        if share == 0.0 || !self.squeeze_rng.chance(share) {
            return;
        }
        self.note(|| "other tenants take all space".to_owned());
        for member in 0..self.devices.borrow().len() {
            let room = self.squeeze_rng.below(2) * BLOCK_BYTES as u64;
            self.device(member).squeeze(room, SQUEEZE_NS.1);
        }
    }

    fn cause(&mut self, pool: &Rc<OpenPool>, trouble: Trouble, number: u64, member: usize, rng: &mut Rng) {
        let Some(place) = self.place_of(pool, member) else { return };
        let device = self.device(member);
        let control = Rc::clone(&pool.control);
        let candidate = Candidate { device: device.id(), path: path_of(device.id()) };
        let state = control.config().members[place].state;
        let is_out = !state.takes_part() && state != MemberState::Spare;
        // To the kernel, a device that went away and came back is another device: the pool has seen the old one fail by then.
        let is_hurt = self.lost.contains(&member) || self.impaired.contains(&member) || device.is_abandoned();
        // A die that is lost stays lost: only another device helps.
        let is_mendable = is_hurt && (!device.is_gone() || is_out) && !device.has_lost_die();
        let returns = matches!(trouble, Trouble::Online | Trouble::Replace);
        let act = match trouble {
            // A device cannot be opened again while requests to it are pending.
            _ if returns && is_hurt && is_out && !device.reopen() => "members_still_silent",
            Trouble::Detach if self.may_lose(member) => {
                self.lose(member);
                device.detach(CrashPolicy::Random);
                "members_detached"
            }
            Trouble::Offline if self.may_lose(member) => {
                self.lose(member);
                self.order(async move { drop(control.offline(place).await) });
                "members_taken_offline"
            }
            Trouble::OfflineNeeded if !is_out && self.is_at_limit(pool, place) => {
                let work = Rc::clone(&self.work);
                self.order(async move {
                    if control.offline(place).await.is_ok() {
                        let what = format!("member {member} was taken offline though the pool needs it");
                        work.complain(Kind::WrongAnswer, what);
                    }
                });
                "members_needed"
            }
            Trouble::Fail if self.may_lose(member) => {
                self.lose(member);
                if rng.chance(0.5) && device.lose_die(rng.below(64) as u32) {
                    if parts::has_covered_cache(&device) {
                        "members_made_to_lose_a_die_under_a_cache"
                    } else {
                        "members_made_to_lose_a_die"
                    }
                } else {
                    device.set_faults(DeviceFaults { write_error: 0.2, flush_error: 0.2, ..device.faults() });
                    "members_made_to_fail"
                }
            }
            Trouble::Online if is_mendable => {
                self.mend(member);
                self.order(async move { drop(control.online(place, candidate).await) });
                "members_brought_back"
            }
            Trouble::Impostor if is_out && !self.has_spares() => {
                let other = (member + 1) % self.devices.borrow().len();
                let candidate = Candidate { device: self.device(other).id(), path: candidate.path };
                let work = Rc::clone(&self.work);
                self.order(async move {
                    if control.online(place, candidate).await.is_ok() {
                        let what = format!("member {other} was taken for member {member}");
                        work.complain(Kind::WrongAnswer, what);
                    }
                });
                "members_mistaken"
            }
            Trouble::Evacuate if is_hurt && is_out => {
                // It was to leave before it went out: what is on it stays there.
                self.left.borrow_mut().remove(&place);
                self.order(async move { drop(control.replace(place, None, false).await) });
                "members_evacuated"
            }
            Trouble::Replace if is_hurt && is_out && !device.has_lost_die() => {
                self.mend(member);
                // Not while another order, which may have read the device already, is under way.
                if rng.chance(0.5) && self.orders.get() == 0 {
                    device.replace_by_blank();
                }
                self.order(async move { drop(control.replace(place, Some(candidate), true).await) });
                "members_replaced"
            }
            Trouble::Spare if is_hurt && is_out => {
                self.replace_by_spare(pool, member, place);
                "members_replaced_by_spares"
            }
            Trouble::Scrub => {
                let run = rng.chance(0.8);
                self.order(async move { drop(control.scrub(run).await) });
                "scrubs_ordered"
            }
            Trouble::Slow => {
                let (factor, ns) = (rng.between(2, 200), rng.between(1_000_000, 100_000_000));
                if rng.chance(0.5) {
                    device.hold_up(ns);
                    "members_held_up"
                } else {
                    device.slow_down(factor, ns);
                    "members_slowed"
                }
            }
            Trouble::HungDevices if self.may_lose(member) => {
                self.lose(member);
                device.silence(rng.between(HANG_NS.0, HANG_NS.1));
                "members_silent"
            }
            // The pool needs the member, and has to wait for it. Once another member is back, this one may go out instead.
            Trouble::HungDevices if !is_out && self.impaired.is_empty() && self.is_at_limit(pool, place) => {
                self.needed.insert(member);
                device.silence(rng.between(HANG_NS.0, HANG_NS.1));
                "members_not_missed"
            }
            Trouble::Throttle => {
                let bytes_per_second = if rng.chance(0.5) { 0 } else { rng.between(1, 500) << 20 };
                let pause_above_iops = if rng.chance(0.8) { 0 } else { rng.between(1, 5000) };
                let mode = SpikeAvoidance::ALL[rng.below(4) as usize];
                if rng.chance(0.3) {
                    self.order(async move { control.set_spike_avoidance(mode).await });
                    "step_arounds_ordered"
                } else {
                    let limits = Limits { bytes_per_second, pause_above_iops };
                    self.order(async move { control.throttle(limits).await });
                    "throttles_ordered"
                }
            }
            _ => return,
        };
        self.note(|| format!("trouble {number}: {}, member {member}", trouble.name()));
        self.count(act);
    }

    /// Whether the pool needs this member because others are out, and no order is about to change that. Members that are
    /// being evacuated do not count as out, since an evacuation may end at any time.
    fn is_at_limit(&self, pool: &OpenPool, place: usize) -> bool {
        let config = pool.control.config();
        let evacuating = |i: usize| config.members[i].state == MemberState::Evacuating;
        let mut lost = config.out();
        lost.iter_mut().enumerate().for_each(|(i, lost)| *lost &= !evacuating(i));
        lost[place] = true;
        !config.survives(&lost) && self.orders.get() == 0 && !self.has_spares()
    }

    /// Whether a spare may take a member's place without an order.
    fn has_spares(&self) -> bool {
        self.work.plan.array.is_some_and(|array| array.spares > 0)
    }

    /// Replaces a member by a new device; the old one stays attached, and is a candidate when the pool is opened again.
    fn replace_by_spare(&mut self, pool: &OpenPool, member: usize, place: usize) {
        let spare = self.add_device(&self.kind(member));
        self.device(member).attach();
        self.lost.insert(member);
        self.troubled_at = self.world.now();
        let (control, devices) = (Rc::clone(&pool.control), Rc::clone(&self.devices));
        let candidate = Candidate { device: spare, path: path_of(spare) };
        self.order(async move {
            if control.replace(place, Some(candidate), false).await.is_ok() {
                devices.borrow_mut()[member] = spare;
            }
        });
    }

    /// Has an operator of an elastic array set another share of mirrored stripes, or leave the forms as they are.
    pub(super) fn order_share(&mut self, pool: &Rc<OpenPool>) {
        let plan = &self.work.plan;
        let mut rng = Rng::stream(plan.seed, "share", self.shares_ordered);
        self.shares_ordered += 1;
        let share = match plan.mirrored_shares.len() as u64 {
            0 => None,
            count if rng.chance(0.9) => Some(plan.mirrored_shares[rng.below(count) as usize] as u8),
            _ => None,
        };
        let convert_rate = if rng.chance(0.3) { [4 << 20, 64 << 20][rng.below(2) as usize] } else { 0 };
        self.note(|| format!("the mirrored share is to be {share:?}, converted at {convert_rate} bytes/s"));
        let control = Rc::clone(&pool.control);
        let policy = match share {
            Some(share) => ElasticPolicy::pinned(share),
            None => plan.elastic_policy(),
        };
        let policy = ElasticPolicy { convert_rate, ..policy };
        self.order(async move { drop(control.set_elastic_policy(policy).await) });
        self.count("shares_ordered");
    }

    /// Has an operator set other limits of the first volume, or remove them.
    pub(super) fn order_limits(&mut self, pool: &Rc<OpenPool>) {
        let (rng, limit) = (&mut self.limits_rng, self.work.plan.limit);
        let limits = VolumeLimits {
            iops: [0, limit, limit, limit * 8][rng.below(4) as usize],
            bytes_per_second: [0, 0, limit << 16][rng.below(3) as usize],
            burst_ms: [0, 0, 20, 1000][rng.below(4) as usize],
        };
        let (work, control, io) = (Rc::clone(&self.work), Rc::clone(&pool.control), self.world.io());
        work.limits.begin_order();
        self.note(|| format!("limits: {limits}"));
        self.order(async move {
            let changed = control.set_volume_limits("v0", limits).await.is_ok();
            work.limits.end_order(io.now(), changed.then_some(limits));
        });
        self.count("limits_ordered");
    }

    /// Orders the next addition of an array's growth, if there is one and none is under way.
    pub(super) fn grow_array(&mut self, pool: &Rc<OpenPool>) {
        let (Some(growth), Some(array)) = (self.work.plan.growing_array(), array_of(pool)) else { return };
        let mut members = self.work.plan.first_members();
        let spares = self.work.plan.array.map_or(0, |spec| spec.spares);
        let next = growth.added.iter().find(|&&added| {
            let is_next = array.members() + spares == members;
            members += added;
            is_next
        });
        let (Some(&added), method) = (next, growth.method) else { return };
        if self.orders.get() > 0 || is_growing(&array) {
            return;
        }
        let first = members - added;
        let candidates: Vec<Candidate> = (first..members)
            .map(|member| self.device(member).id())
            .map(|device| Candidate { device, path: path_of(device) })
            .collect();
        self.note(|| format!("the array grows by {added} members"));
        // The new device may begin to fail at this time.
        let newcomer = self.device(first);
        let is_bad = Rng::stream(self.work.plan.seed, "newcomer", self.opening as u64).chance(0.2);
        let is_bad = is_bad && self.opening < self.work.plan.openings && self.may_lose(first);
        if is_bad {
            self.lose(first);
            newcomer.set_faults(DeviceFaults { write_error: 0.4, ..newcomer.faults() });
        }
        let control = Rc::clone(&pool.control);
        let work = Rc::clone(&self.work);
        self.order(async move {
            match control.grow(&candidates, Some(method), true).await {
                Ok(()) => work.note(|| "the array is growing".to_owned()),
                Err(error) => work.note(|| format!("the array does not grow: {error}")),
            }
            if is_bad {
                newcomer.set_faults(DeviceFaults { write_error: 0.0, ..newcomer.faults() });
            }
        });
        self.count("growths_ordered");
    }

    /// Lets lost members count as whole again once the pool reports no degradation, and all consequences of their troubles are
    /// over.
    fn forget_losses(&mut self, pool: &Rc<OpenPool>) {
        if self.orders.get() == 0 {
            self.forget_never_joined();
        }
        let quiet = if self.work.plan.has_disks() { QUIET_DISK_NS } else { QUIET_NS };
        let is_bad = |&m: &usize| {
            let device = self.device(m);
            // A member whose place a spare has taken does not count.
            self.place_of(pool, m).is_some()
                && (device.is_gone()
                    // The pool may be about to take it out when it answers.
                    || device.was_silent(quiet)
                    || device.has_lost_die()
                    || device.faults().write_error > 0.0)
        };
        let is_quiet = self.world.now() > self.troubled_at + quiet && self.orders.get() == 0;
        if self.lost.is_empty() || !is_quiet || self.lost.iter().chain(&self.needed).any(is_bad) {
            return;
        }
        let control = Rc::clone(&pool.control);
        let answer = Rc::new(Cell::new(None));
        let slot = Rc::clone(&answer);
        self.world.spawn(async move { slot.set(control.status().await.ok()) });
        self.world.run_steps(50);
        let config = pool.control.config();
        let all_in = match self.work.plan.array {
            Some(_) => !config.out().contains(&true),
            None => (0..config.members.len())
                .all(|i| config.members[i].state.takes_part() || self.has_left(&config, i)),
        };
        let is_calm = |status: ShardStatus| is_whole(&status) && status.failures_reported == 0;
        if all_in && answer.take().is_some_and(is_calm) {
            self.note(|| "all members are whole".to_owned());
            self.lost.clear();
            self.needed.clear();
        }
    }
}
